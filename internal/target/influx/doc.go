// Package influx is the target that is another InfluxDB, 1.x, 2.x or 3.x, or something that takes its
// line protocol, such as VictoriaMetrics or another Tailrace, at the other end of HTTP.
//
//	target, err := influx.Open(influx.Config{URL: "https://host:8086", Org: "plant", Bucket: "line 4", Token: token})
//
// Opening needs no reachable remote. The first write asks it what it is ([Target.Facts] shows the answer),
// and so chooses between /write, /api/v2/write and /api/v3/write_lp; [Config.Kind] decides that beforehand.
//
// # What is sent
//
// The lines as they came (Mutation.Raw), never decoded and encoded again. [logical.Tx.Apply] sends: the
// writes that a loop has joined travel in one request, larger ones are split. In serial mode one request
// is in flight; in fan mode one per shard, and a series has one shard (ORDER, per series).
//
// # What is promised
//
// Delivery is at least once, and the target is not transactional: what Apply has sent stays sent when
// the Tx is rolled back. The consistent point is the source's own cursor; there is no memo. The lease is
// one of this process. [logical.Session.Fence] waits until no request is in flight any more, and cannot
// do more: a request that was given up may still be carried out by the remote, later than what was sent
// after it (no FENCED). That a point is durable there is the remote's word.
//
// Where an Apply has sent a part and fails, the same lines are not sent a second time if the next Apply
// begins with them: a slow link makes progress however short the timeout is.
//
// # Answers
//
// docs/influx-remotes.md says what each one leads to. In short: what may heal is [logical.ClassRetry],
// for as long as it takes. What the remote will never accept is found, by its own words (3.x) or by halving
// the request, and Apply returns its lines in logical.Error.Rejected; all other lines of the request have
// been stored then.
//
// What is set aside goes to [Config.DeadLetters], since the remote has no place for it.
package influx
