// Package testenv gives tests real servers of their own: on free ports of the loopback address, with
// data in a temporary directory, as children of the test's process that cannot outlive it.
//
//	var env testenv.Env // one per test binary
//
//	func TestMain(m *testing.M) { os.Exit(env.Main(m)) }
//
//	func TestSomething(t *testing.T) {
//		dsn := env.Postgres(t) // a fresh database on a server that all tests share
//		…
//	}
//
// A test that stops, kills or fills its server starts one for itself with [StartPostgres].
//
// A test whose server is not installed fails and names the package to install; with -short it is
// skipped. Servers run with their durability settings on, since that is what is being tested.
//
// TAILRACE_POSTGRES_BIN names the directory of another PostgreSQL's binaries.
package testenv
