package main

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/tailrace-cdc/tailrace/logical"
)

// pollEvery is how often the directory is looked at when nothing has changed.
const pollEvery = 200 * time.Millisecond

// A directory is the dialect: it reads the rows of all CSV files, and waits for more rows and more files.
type directory struct {
	path string
	// ensure makes the table for a file, if it is not there.
	ensure func(ctx context.Context, rel *logical.Relation) error
	tables map[string]*table // belongs to ReadInto

	mu      sync.Mutex
	whole   bool   // everything that there was has been sent once
	pending []mark // what has been sent and not acknowledged, and the newest in any case
}

// A mark is when the rows of a position were written.
type mark struct {
	at   position
	time time.Time
}

var (
	_ logical.Acknowledger = (*directory)(nil)
	_ logical.Stalenesser  = (*directory)(nil)
)

func newDirectory(path string, ensure func(context.Context, *logical.Relation) error) *directory {
	return &directory{path: path, ensure: ensure}
}

// ZeroStamp implements logical.Dialect.
func (d *directory) ZeroStamp() logical.Stamp { return position{} }

// DecodeStamp implements logical.Dialect.
func (d *directory) DecodeStamp(stored []byte) (logical.Stamp, error) {
	var p position
	if err := json.Unmarshal(stored, &p); err != nil {
		return nil, fmt.Errorf("%s is no position in a directory: %w", stored, err)
	}
	return p, nil
}

// ReadInto implements logical.Dialect.
func (d *directory) ReadInto(ctx context.Context, from logical.Stamp, out logical.Outbox) error {
	d.tables = map[string]*table{}
	d.mu.Lock()
	d.whole, d.pending = false, nil
	d.mu.Unlock()
	poll := time.NewTicker(pollEvery)
	defer poll.Stop()
	for at := from.(position); ; {
		before := at.Rows
		at, err := d.scan(ctx, &at, out)
		if err != nil {
			return err
		}
		if at.Rows > before {
			continue
		}
		d.mu.Lock()
		d.whole = true
		d.mu.Unlock()
		select {
		case <-poll.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// scan sends what is new in each file, and moves the position behind it.
func (d *directory) scan(ctx context.Context, at *position, out logical.Outbox) (position, error) {
	paths, err := filepath.Glob(filepath.Join(d.path, "*.csv")) // sorted
	if err != nil {
		return *at, err
	}
	for _, path := range paths {
		name := filepath.Base(path)
		if d.tables[name] == nil {
			d.tables[name] = &table{path: path}
		}
		for {
			b, err := d.read(ctx, d.tables[name], name, *at)
			if err != nil {
				return *at, err
			}
			if b == nil {
				break
			}
			d.mu.Lock()
			d.pending = append(d.pending, mark{b.at, b.time})
			d.mu.Unlock()
			if err := out.Send(ctx, logical.Message{Body: b, Size: b.size}); err != nil {
				return *at, err
			}
			*at = b.at
		}
	}
	return *at, nil
}

// read reads the next block of a file; nil if there is none yet.
func (d *directory) read(ctx context.Context, t *table, name string, at position) (*block, error) {
	if t.rel == nil {
		if ok, err := d.begin(ctx, t); err != nil || !ok {
			return nil, err
		}
	}
	offset := at.Files[name]
	rows, end, written, err := t.next(offset)
	if err == nil && offset == 0 && len(rows) > 0 {
		rows = rows[1:] // the names of the columns
	}
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	return &block{at: at.after(name, end, len(rows)), rel: t.rel, rows: rows, size: int(end-offset) + 32*len(rows), time: written}, nil
}

// begin reads the first line of a file, and has its table made. It reports false if it is not there yet.
func (d *directory) begin(ctx context.Context, t *table) (bool, error) {
	rows, _, _, err := t.next(0)
	if err != nil || len(rows) == 0 {
		return false, err
	}
	if err := t.describe(rows[0]); err != nil {
		return false, err
	}
	if err := d.ensure(ctx, t.rel); err != nil {
		t.rel = nil
		return false, err
	}
	return true, nil
}

// Process implements logical.Dialect.
func (d *directory) Process(ctx context.Context, in logical.Inbox, events logical.Events) error {
	for {
		msg, err := in.Receive(ctx)
		switch {
		case err != nil:
		case msg.Rollback:
			err = events.OnRollback(ctx)
		default:
			err = transact(ctx, msg.Body.(*block), events)
		}
		if err != nil {
			return err
		}
	}
}

func transact(ctx context.Context, b *block, events logical.Events) error {
	muts, err := b.mutations()
	if err != nil {
		return err
	}
	if err := events.OnBegin(ctx, b.at); err != nil {
		return err
	}
	if err := events.OnData(ctx, muts); err != nil {
		return err
	}
	return events.OnCommit(ctx)
}

// Acknowledge implements logical.Acknowledger: what has arrived need not be remembered as waiting.
func (d *directory) Acknowledge(_ context.Context, stamp logical.Stamp) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for len(d.pending) > 1 && d.pending[0].at.Compare(stamp) <= 0 {
		d.pending = d.pending[1:]
	}
	return nil
}

// OldestPending implements logical.Stalenesser.
func (d *directory) OldestPending(after logical.Stamp) (time.Time, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, m := range d.pending {
		if m.at.Compare(after) > 0 {
			return m.time, true
		}
	}
	return time.Time{}, d.whole
}

// Newest implements logical.Stalenesser.
func (d *directory) Newest() (logical.Stamp, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.pending) == 0 {
		return position{}, d.whole
	}
	return d.pending[len(d.pending)-1].at, d.whole
}
