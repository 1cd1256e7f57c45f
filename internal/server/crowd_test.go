package server

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

// crowdAddress, in the environment, makes the test binary a crowd of clients of the server there.
const crowdAddress, crowdSize = "TAILRACE_TEST_CROWD", "TAILRACE_TEST_CROWD_SIZE"

// TestCrowd is the crowd: it opens connections, half of which begin a request and half of which say
// nothing, says how many it has, and holds them until its standard input ends.
func TestCrowd(t *testing.T) {
	address := os.Getenv(crowdAddress)
	if address == "" {
		return // It is run by TestBoundedByACrowdOfConnections.
	}
	size, err := strconv.Atoi(os.Getenv(crowdSize))
	if err != nil {
		t.Fatal(err)
	}
	var conns []net.Conn
	for i := range size {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			fmt.Printf("crowd: %d of %d: %v\n", i, size, err)
			break
		}
		if i%2 == 0 {
			fmt.Fprint(conn, rawHead+"Content-Length: 100000\r\n\r\nm v=1 1\n")
		}
		conns = append(conns, conn)
	}
	fmt.Printf("crowd: opened %d\n", len(conns))
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
	for _, c := range conns {
		_ = c.Close()
	}
}

// BOUNDED: thousands of connections, half of them in the middle of a write that does not go on, cost what
// they may cost; a client that is in keeps being served, and afterwards everything is given back.
func TestBoundedByACrowdOfConnections(t *testing.T) {
	size := soak(2000, 10_000)
	if n, known := openFiles(); known && n < size+500 {
		size = n - 500
		t.Logf("the process may open %d files, so %d connections have to do", n, size)
	}
	st := start(t, Config{MaxConns: size + 10, ReadHeaderTimeout: time.Hour, BodyTimeout: time.Hour, BodyWait: time.Second}, nil)
	if got := st.do(t, http.MethodPost, v2one, "m v=1 1", nil); got.status != http.StatusNoContent {
		t.Fatalf("answer %d %s", got.status, got.body)
	}
	before := memory()
	crowd := exec.Command(os.Args[0], "-test.run", "^TestCrowd$")
	crowd.Env = append(os.Environ(), crowdAddress+"="+st.Addr().String(), crowdSize+"="+strconv.Itoa(size))
	stdin, err := crowd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := crowd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := crowd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = crowd.Wait() }()
	defer stdin.Close()
	lines := bufio.NewScanner(stdout)
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "crowd: opened") {
		t.Log(lines.Text())
	}
	if lines.Text() != fmt.Sprintf("crowd: opened %d", size) {
		t.Fatalf("the crowd says %q", lines.Text())
	}
	until(t, "the connections are not all taken", func() bool { return st.conns.count() >= size })
	if got := st.do(t, http.MethodGet, "/health", "", nil); got.status != http.StatusOK {
		t.Errorf("answer %d %s", got.status, got.body)
	}
	used, reserved := memory()-before, st.budget.used()
	t.Logf("%d connections take %d KiB each, of which the budget of bodies knows %d KiB", size, used/int64(size)>>10, reserved/int64(size)>>10)
	if reserved > st.cfg.BodyMemory {
		t.Errorf("%d bytes are reserved", reserved)
	}
	const each = 64 << 10 // buffers and stacks of a connection, beside what the budget bounds
	if most := reserved + int64(size)*each; used > most {
		t.Errorf("%d bytes are used, want at most %d", used, most)
	}
	stdin.Close()
	until(t, "connections are left", func() bool { return st.conns.count() <= 1 })
	until(t, "memory is not given back", func() bool { return st.budget.used() == 0 })
	if got := st.do(t, http.MethodPost, v2one, "m v=1 2", nil); got.status != http.StatusNoContent {
		t.Errorf("answer %d %s", got.status, got.body)
	}
}

// memory returns the bytes of heap and stacks in use.
func memory() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}
