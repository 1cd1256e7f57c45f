package logical_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"

	"github.com/tailrace-cdc/tailrace/logical"
	"github.com/tailrace-cdc/tailrace/logical/factory"
	"github.com/tailrace-cdc/tailrace/logical/target/memory"
)

// An orderBook is a source: lines of the form "id status", each of them a transaction.
type orderBook []string

// A line is a position in it: how many lines there are up to it.
type line int

func (l line) Compare(other logical.Stamp) int { return cmp.Compare(l, other.(line)) }

func (b *orderBook) ZeroStamp() logical.Stamp { return line(0) }

func (b *orderBook) DecodeStamp(stored []byte) (logical.Stamp, error) {
	var l line
	err := json.Unmarshal(stored, &l)
	return l, err
}

func (b *orderBook) ReadInto(ctx context.Context, from logical.Stamp, out logical.Outbox) error {
	for i := from.(line); int(i) < len(*b); i++ {
		if err := out.Send(ctx, logical.Message{Body: i + 1, Size: len((*b)[i])}); err != nil {
			return err
		}
	}
	<-ctx.Done() // here a real source waits for more
	return context.Cause(ctx)
}

var orders = &logical.Relation{Name: "orders", Columns: []logical.Column{
	{Name: "id", Kind: logical.KindText, Key: true}, {Name: "status", Kind: logical.KindText},
}}

func (b *orderBook) Process(ctx context.Context, in logical.Inbox, events logical.Events) error {
	for {
		msg, err := in.Receive(ctx)
		switch {
		case err != nil:
		case msg.Rollback:
			err = events.OnRollback(ctx)
		default:
			err = b.transaction(ctx, msg.Body.(line), events)
		}
		if err != nil {
			return err
		}
	}
}

func (b *orderBook) transaction(ctx context.Context, l line, events logical.Events) error {
	id, status, _ := strings.Cut((*b)[l-1], " ")
	m := logical.Mutation{Op: logical.OpUpsert, Relation: orders, Values: []logical.Value{logical.Text(id), logical.Text(status)}}
	if err := events.OnBegin(ctx, l); err != nil {
		return err
	}
	if err := events.OnData(ctx, []logical.Mutation{m}); err != nil {
		return err
	}
	return events.OnCommit(ctx)
}

// A dialect of its own, and a loop that brings what it reads into a target.
func Example() {
	ctx, target := context.Background(), memory.Open()
	loops, err := factory.New(factory.Config{Holder: "example", Target: target, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		panic(err)
	}
	loop, err := loops.Get(ctx, factory.Spec{Name: "orders", Dialect: &orderBook{"17 new", "18 new", "17 paid"}})
	if err != nil {
		panic(err)
	}
	err = loop.Wait(ctx, func(s factory.Status) bool { return s.Point == line(3) })
	loops.Close(ctx)
	for _, row := range target.Rows("orders") {
		fmt.Println(row["id"], row["status"])
	}
	fmt.Println(string(target.Memo("orders").Point), err)
	// Output:
	// 17 paid
	// 18 new
	// 3 <nil>
}
