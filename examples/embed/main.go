// Command embed replicates a directory of CSV files into a SQLite database, with the public packages of
// Tailrace alone. See README.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/tailrace-cdc/tailrace/logical"
	"github.com/tailrace-cdc/tailrace/logical/factory"
	"github.com/tailrace-cdc/tailrace/logical/target/sqlite"
)

func main() {
	dir := flag.String("dir", ".", "the directory whose *.csv files are replicated")
	db := flag.String("db", "embed.db", "the SQLite database that they go to")
	once := flag.Bool("once", false, "end when everything has arrived, instead of watching for more")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *dir, *db, *once); err != nil {
		fmt.Fprintln(os.Stderr, "embed:", err)
		os.Exit(1)
	}
}

// run replicates until ctx ends, or with once until everything has arrived.
func run(ctx context.Context, dir, db string, once bool) (err error) {
	tables, err := openTables(db)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, tables.Close()) }()
	target, err := sqlite.Open(ctx, sqlite.Config{Path: db})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, target.Close()) }()
	loops, err := factory.New(factory.Config{
		Holder: "embed", // there is one of us per database
		Target: target,
		Loop:   logical.Config{BackfillWindow: time.Minute, RetryMax: time.Second},
	})
	if err != nil {
		return err
	}
	defer closeLoops(loops)
	loop, err := loops.Get(ctx, factory.Spec{Name: "csv", Dialect: newDirectory(dir, tables.ensure)})
	if err != nil {
		return err
	}
	arrived := factory.Status.CaughtUp
	if !once {
		arrived = func(factory.Status) bool { return false }
	}
	if err := loop.Wait(ctx, arrived); err != nil && ctx.Err() == nil {
		return err
	}
	status := loop.Status()
	fmt.Printf("%d rows have arrived, %d of them now\n", status.Offset, status.Mutations)
	return nil
}

// closeLoops lets what is in flight land.
func closeLoops(loops *factory.Factory) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	loops.Close(ctx)
}
