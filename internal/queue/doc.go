// Package queue is a durable queue on disk: what was appended is there until it
// was acknowledged, whatever happens to the process, the power or the network.
//
// # Use
//
//	q, err := queue.Open(queue.Config{Dir: dir, Name: "stream 7"})
//	...
//	var g queue.Group                                 // compresses once, for any number of queues
//	err = g.Add(queue.KindLineProtocol, points, lines) // at most MaxPayload each
//	res, err := q.Reserve(&g)                         // *FullError, *LeftOutError, or space set aside
//	first, last, err := q.Append(ctx, res, &g)        // durable when it returns
//
//	r, err := q.NewReader(0)                          // after the cursor
//	b, err := r.Next(ctx)                             // waits without polling
//	err = q.Ack(b.Sequence)                           // when b.Last
//
// One write of a client is one [Group] of blocks. It is appended as a whole and
// delivered as a whole: a reader never sees the beginning of a group whose end
// was not written. With several queues, reserve in all of them, then append to
// each; a [Reservation] ends with exactly one Append or Release. A write that no queue
// has kept is refused, and no loss: its writer still has it. Where some kept it, those
// with the policy [DropNewest] that had no room declare it lost.
//
// A block's stamp is ([Queue.ID], [Block.Sequence]); a group's is that of its
// last block. Sequences only grow and are never used again. They are not without
// gaps: after a crash, numbers that someone might have seen are passed over. Where they
// are is recorded, and they never count as lost.
//
// A [Store] keeps many queues of one data directory, with a limit over all of
// them and a reserve of free disk space. [Log] is the interface that another log
// could implement; package queuetest has its tests. Package disk is the file
// system underneath, and package simdisk one that forgets, tears and fails.
//
// # What it guarantees
//
//   - With [SyncAlways], a group whose Append returned nil survives a power cut at
//     the very next instant. [SyncInterval] and [SyncNever] say what they give up.
//   - What comes out is what went in, in sequence, each group whole. Blocks are
//     checked by CRC-32C sums that also cover their place, so neither a misdirected
//     write nor a copy of a queue inside a payload is taken for a block.
//   - A block becomes readable the moment it is as durable as the mode promises.
//   - Nothing is delivered again that was acknowledged durably; an acknowledgement
//     is durable within [Config.CursorEvery]. A lost or damaged cursor costs
//     sending again, never data.
//   - Whatever is lost (damage, limits, by hand) is declared: recorded durably
//     with its range before the reader passes it, counted, logged, and told to
//     [Config.Events]. Damaged bytes are kept in the folder aside.
//   - A page that the device cannot read is asked for again, each page for itself,
//     before it is taken for damaged.
//   - A failed write costs the groups in it and nothing else; its callers are told.
//     After a failed sync the file is never synced again, since the kernel may
//     have forgotten the pages and would report success: its blocks are written
//     to a new segment, synced there, and only then acknowledged.
//   - Memory is bounded: by the groups that are being appended, and for a reader
//     by two blocks and a read buffer. A reader with a backlog may read ahead in
//     2.5 MiB more, and at most four readers of a store at a time do, each with a
//     goroutine; one that has caught up does not. A queue that is idle holds no open file if
//     it belongs to a store (opened alone it holds its lock), and no disk space
//     if all was sent.
//
// # Files
//
//	DIR/
//	  00000000000000000001-0.seg   a segment: first sequence, generation
//	  00000000000000000417-0.seg
//	  cursor                       how far it was sent; replaced as a whole
//	  losses                       what was lost, and never used; replaced as a whole
//	  lock                         taken while the queue is open
//	  aside/                       damaged bytes, for a person to look at
//
// A segment is written by one process only, and only at its end. It is durable
// before there is a newer one. Numbers are little-endian. docs/queue-format.md
// says more.
//
//	segment
//	0        512      1024
//	+--------+--------+---------+---------+-----
//	| header | header | block   | block   | ...
//	+--------+--------+---------+---------+-----
//
//	segment header (the second one is a copy of the first)
//	0        8   10  12  16         32     40    48       56        64        72   76      80    128
//	+--------+---+---+---+----------+------+-----+--------+---------+---------+----+-------+------+
//	|TLRQSEG0|ver|len|crc| queue id | first| prev| created| prevTime| capacity| gen| reason|  0   |
//	+--------+---+---+---+----------+------+-----+--------+---------+---------+----+-------+------+
//	crc       CRC-32C of bytes [0,12) and [16,len)
//	prev      last valid sequence before this segment: greater ones in older segments are leftovers
//	reason    why first is not prev+1, or why the segment began early
//
//	block, at a multiple of 8
//	0     4     8          16     24       28    32       36     38      39      40           44      48       52   56
//	+-----+-----+----------+------+--------+-----+--------+------+-------+-------+------------+-------+--------+----+---------+-----+
//	|TBLK | crc | sequence | time | stored | raw | points | kind | codec | flags | payloadCRC | index | synced | after | payload | pad |
//	+-----+-----+----------+------+--------+-----+--------+------+-------+-------+------------+-------+--------+----+---------+-----+
//	crc       CRC-32C of bytes [8,56), begun with the sum of (queue id, first, gen) xor the offset
//	codec     0 as it is, 1 S2, 2 zstd
//	flags     bit 0: last block of its group
//	index     position within the group
//	synced    how much of the segment was durable when the block was written
//	after     how many blocks of the group follow
//
//	cursor
//	0        8   10  12  16         32     40    48        56        64       72         80       88       96       100      104     105
//	+--------+---+---+---+----------+------+-----+---------+---------+--------+----------+--------+--------+--------+--------+-------+---+
//	|TLRQCUR0|ver|len|crc| queue id | acked| next| lastTime|headFirst|headOff | markFirst| markOff| markSeq| headGen| markGen| clean | 0 |
//	+--------+---+---+---+----------+------+-----+---------+---------+--------+----------+--------+--------+--------+--------+-------+---+
//	next      a sequence that was not used when this was written, nor any greater
//	clean     1 if the queue was closed properly
//	head...   where the first unsent block lies: a hint, checked before it is believed
//	mark...   up to where the newest segment was durable, and the last sequence before that
package queue
