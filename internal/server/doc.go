// Package server is Tailrace's HTTP side: it takes writes as InfluxDB 1.x and 2.x do, and answers the
// small endpoints that clients, monitors and load balancers ask. docs/http-api.md is the same for
// users.
//
//	POST     /api/v2/write  ?bucket= &precision=ns|us|ms|s           all or nothing
//	POST     /write         ?db= &rp= &precision=n|ns|u|us|ms|s|m|h  keeps the good lines
//	GET|POST /query         CREATE DATABASE, SHOW DATABASES
//	GET|HEAD /ping          204, or 200 with ?verbose=true
//	GET|HEAD /health        the process
//	GET|HEAD /ready         whether writes are taken; ?stream=ID|all
//	GET      /metrics       Prometheus
//	         /api/v2/query, /api/v2/delete answer 501 and say why
//
// # How a write goes
//
// The token is checked, the bucket is found, the whole body is read, decompressed and validated by
// [lineprotocol.Normalizer], then the blocks are given to the [Intake], once, and when that returns the
// answer is 204. Of a request that is refused before that, or whose upload breaks off, nothing is kept
// anywhere. An upload that is complete is carried through to the Intake even if the client goes away.
//
// # What it defends itself against
//
// Bodies are bounded by Config.MaxBodySize after decompression, and the memory of all bodies together
// by Config.BodyMemory: a request waits for its share for Config.BodyWait and is then answered 503. A
// body must not pause for longer than Config.BodyTimeout, nor be slower than Config.BodyMinRate on
// average; of a request that is refused too, net/http reads the body for no longer than that. Connections
// are bounded (Config.MaxConns), and idle ones give way. Headers have a size and a time limit. A kind of refusal is logged once a second at most,
// with a count.
//
// # What it needs
//
// The parts that it works with are small interfaces, declared here: [Intake], [Authorizer], [Health]
// and [Databases]. Errors of the Intake are told apart by type: [UnknownBucketError], [QueueFullError],
// [UnavailableError], [TooLargeError], [StoreError]. Tokens and passwords never appear in an answer, a log line or a
// metric, and neither does the text of a query.
package server
