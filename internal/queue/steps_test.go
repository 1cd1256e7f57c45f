package queue

import (
	"time"

	"github.com/stretchr/testify/require"
)

// step does one random thing.
func (w *world) step() {
	w.now = w.now.Add(time.Duration(w.rng.IntN(1000)) * time.Millisecond)
	if w.rng.IntN(50) == 0 {
		w.now, w.setBack = w.now.Add(-time.Hour), true // somebody sets the clock
	}
	switch n := w.rng.IntN(100); {
	case n < 45:
		w.append()
	case n < 65:
		w.read(1 + w.rng.IntN(6))
	case n < 80:
		w.ack()
	case n < 88:
		w.q.tend()
		w.noteSaved()
	case n < 91:
		_ = w.r.Close()
		w.reader()
	case n < 94 && w.drops:
		w.limits()
	case n < 95 && w.drops:
		_, _ = w.q.Purge()
	case n < 97:
		w.reopen()
	case n < 99:
		w.q.active = time.Time{} // idle for long
		w.q.tend()
		w.noteSaved()
	default:
		w.skip()
	}
	if w.lossy {
		w.durable = max(w.durable, min(w.q.writer.durable, w.greatest))
	}
}

// skip makes a gap in the numbers. What it promised counts as seen: no block may bear it.
func (w *world) skip() {
	seq := w.q.Next() + Sequence(w.rng.IntN(100))
	if err := w.q.SkipTo(seq); err == nil {
		w.greatest = max(w.greatest, seq)
	}
}

func (w *world) ack() {
	if len(w.unread) == 0 {
		return
	}
	i := w.rng.IntN(len(w.unread))
	seq := w.unread[i]
	w.unread = w.unread[i+1:]
	require.NoError(w.t, w.q.Ack(seq))
	w.cursor = max(w.cursor, seq)
}

func (w *world) noteSaved() { w.saved = max(w.saved, w.q.head.saved) }

func (w *world) limits() {
	l := Limits{MaxBytes: int64(64<<10) << w.rng.IntN(4), Policy: Policy(w.rng.IntN(3))}
	if w.rng.IntN(3) == 0 {
		l.MaxAge = time.Duration(w.rng.IntN(60)) * time.Second
	}
	w.q.SetLimits(l)
	w.cfg.Limits = l
}

func (w *world) reopen() {
	_ = w.r.Close()
	if w.lossy {
		// A new process cannot know that an earlier one's sync has failed, and takes
		// what it reads for durable. Without SyncAlways that is not promised.
		fault := w.disk.OnFault
		w.disk.OnFault = nil
		defer func() { w.disk.OnFault = fault }()
	}
	err := w.q.Close()
	if err == nil {
		w.noteSaved()
	}
	for range 100 {
		if err = w.open(); err == nil {
			return
		}
	}
	require.NoError(w.t, err)
}
