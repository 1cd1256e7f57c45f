// Package influxlogical is the InfluxDB source: buckets that clients write to, and the streams that
// replicate them.
//
// A bucket has any number of streams, and each stream has a queue of its own, so that one dead remote
// disturbs nobody (ISOLATED). [Streams.Write] takes one write request: it reserves space in all queues
// of the bucket, appends the request to each as one group, and returns when it is durable there
// (ACKED).
//
// Each stream runs as one loop (see package internal/source/logical) whose dialect reads the queue: a
// write request is one transaction. A stamp is (queue, sequence) with the time of enqueueing, so that
// staleness is how long a write has been waiting, and not how old its points are. The queue knows the
// oldest write that waits, also while nothing has been read.
//
// Where the target keeps a memo, the consistent point lives there, in the data's own transaction, and
// the queue's cursor follows it. After a restart reading goes on at the later of both. A memo of
// another queue is no position in this one; a memo that is older than the cursor means that the target
// was restored from a backup, and both are said aloud ([Notice]).
package influxlogical
