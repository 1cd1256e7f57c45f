package influxlogical

import (
	"context"
	"encoding/json"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/logical"
)

// A Notice is something about a stream's position that must not be silent.
type Notice string

// The notices.
const (
	// NoticeGap: the target's consistent point is older than the queue's cursor, because the target
	// was restored from a backup. What lies between was sent once and is no longer in the queue.
	NoticeGap Notice = "gap"
	// NoticeReplaced: the target's consistent point belongs to another queue. Everything in this
	// queue is sent.
	NoticeReplaced Notice = "queue replaced"
	// NoticeBehind: the target's consistent point is one that this queue has not reached: the data
	// directory was restored from a backup, or copied. Everything in the queue is sent, and what is
	// written from now on comes after that point.
	NoticeBehind Notice = "queue behind its target"
	// NoticeMissing: the queue's directory was not there, and was made anew. What was in it is lost.
	NoticeMissing Notice = "queue was missing"
	// NoticeLetters: the stream was given another target, and its dead letters are in the old one.
	NoticeLetters Notice = "dead letters left behind"
)

// notices are those that happen, and are counted; the others are states.
var notices = [...]Notice{NoticeGap, NoticeReplaced, NoticeBehind, NoticeMissing}

// ZeroStamp implements logical.Dialect: it stands for the queue's cursor.
func (d *dialect) ZeroStamp() logical.Stamp { return Stamp{} }

// DecodeStamp implements logical.Dialect. A stamp of another queue, or of another life of this one, says
// nothing about what is in it, which is then read from its cursor.
func (d *dialect) DecodeStamp(stored []byte) (logical.Stamp, error) {
	stamp, err := parse(stored)
	if err != nil {
		return nil, err
	}
	if stamp.Queue != d.queue.ID() || d.queue.Disowned(stamp.Sequence) {
		return Stamp{}, nil
	}
	return stamp, nil
}

func parse(stored []byte) (stamp Stamp, err error) {
	err = json.Unmarshal(stored, &stamp)
	return stamp, errors.Wrapf(err, "the memo in the target is no position of a queue: %s", stored)
}

// Resume implements logical.Resumer. A point that the queue has not reached is disowned before anything is
// read, so that no later block makes it look like one that it has.
func (d *dialect) Resume(_ context.Context, stored []byte) error {
	stamp, err := parse(stored)
	if err != nil || stamp == (Stamp{}) {
		return err
	}
	if stamp.Queue != d.queue.ID() {
		d.log.Warn("the target's consistent point belongs to another queue; sending all that is in this one",
			"stored", stamp.String(), "queue", d.queue.ID().String())
		d.note(NoticeReplaced)
		return nil
	}
	if next := d.queue.Next(); stamp.Sequence >= next || d.queue.Disowned(stamp.Sequence) {
		d.log.Error("the target is ahead of the queue: the data directory was restored from a backup or copied; sending all that is in the queue",
			"stored", uint64(stamp.Sequence), "next", uint64(next))
		d.note(NoticeBehind)
		return d.queue.Disown(stamp.Sequence)
	}
	if cursor := d.queue.Cursor(); stamp.Sequence < cursor {
		d.log.Error("the target is older than what was acknowledged: it was restored from a backup; what lies between is not in the queue",
			"stored", uint64(stamp.Sequence), "cursor", uint64(cursor), "blocks", uint64(cursor-stamp.Sequence))
		d.note(NoticeGap)
	}
	return nil
}
