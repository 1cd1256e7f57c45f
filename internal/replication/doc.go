// Package replication is the life of replication streams: it makes what runs agree with what is stored.
//
// What users say is stored by package metadata; what runs is package influxlogical's streams. A
// [Service] changes the first, durably, and then applies it to the second:
//
//	create   queue made ─▶ stored ─▶ loop started         a crash in between leaves an empty queue,
//	                                                      which the next start removes
//	update   stored ─▶ applied while it runs              a crash in between: the next start applies it
//	delete   marked ─▶ flushed, loop, memo, queue gone ─▶ forgotten
//	                                                      a crash in between: the next start goes on
//
// Nothing of this needs a remote that can be reached. A stream that cannot run, because its queue cannot
// be read, its remote's secret is missing or its address is not allowed any more, is a state with advice
// (see [Status]), and the others run.
package replication
