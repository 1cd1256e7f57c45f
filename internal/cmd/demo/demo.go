package demo

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/pkg/errors"
	"golang.org/x/sync/errgroup"

	"github.com/tailrace-cdc/tailrace/internal/cmd/start"
	"github.com/tailrace-cdc/tailrace/internal/lineprotocol"
	"github.com/tailrace-cdc/tailrace/internal/source/influxlogical"
)

// perWrite is how many points of the backlog one write request carries; the official clients send
// 5,000.
const perWrite = 5000

// backfillWindow is short, so that one can watch the modes change.
const backfillWindow = 2 * time.Second

// drainWithin bounds how long the demo waits for the target at its end.
const drainWithin = time.Minute

type demo struct {
	options Options
	dir     string
	build   start.Builder
	out     io.Writer
	err     io.Writer
}

// run shows the whole demo. ctx ends when the user wants it to end.
func (d *demo) run(ctx context.Context) error {
	logs, err := d.logs()
	if err != nil {
		return err
	}
	defer func() { _ = logs.Close() }() // it is the demo's own log
	store, err := openStore(d.options, d.dir)
	if err != nil {
		return err
	}
	defer func() { _ = store.close() }() // what it says is said by the report
	config := start.DefaultConfig()
	config.BindAddr, config.DataDir, config.Verbose = "127.0.0.1:0", d.dir, d.options.Verbose
	config.BackfillWindow = backfillWindow
	config.TargetConn, config.TargetSchema, config.StagingSchema = d.options.TargetConn, store.schema, store.staging
	server, free, err := d.build(context.WithoutCancel(ctx), config, logs)
	if err != nil {
		return err
	}
	defer free()
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	ready, served := make(chan struct{}), make(chan error, 1)
	go func() { served <- server.Run(serving, func() { close(ready) }) }()
	select {
	case <-ready:
	case err := <-served:
		return err
	}
	d.sayf("A server runs at http://%s, its data is in %s.\n", server.Addr(), d.dir)
	c := newClient(server.Addr().String(), start.Default, server.Token())
	err = d.show(ctx, server, c, store)
	stop()
	if stopped := <-served; err == nil {
		err = stopped
	}
	if bad := store.clean(d.options.Keep); err == nil {
		err = bad
	}
	return err
}

// show writes, waits for the target and reports.
func (d *demo) show(ctx context.Context, server *start.Server, c *client, store *store) error {
	ctx, cancel := context.WithTimeout(ctx, d.options.Duration)
	defer cancel()
	stream := server.Streams().All()[0]
	stream.Pause(ctx)
	d.sayf("Its stream is paused, as if the network were away. Writes are taken all the same:\n")
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return d.flow(ctx, c) })
	group.Go(func() error {
		if err := d.load(ctx, c); err != nil {
			return err
		}
		d.sayf("The stream goes on, with --backfillWindow %s. Live points keep flowing; Ctrl-C ends the demo.\n", backfillWindow)
		if err := stream.Resume(ctx); err != nil {
			return err
		}
		return d.watch(ctx, server)
	})
	if err := group.Wait(); err != nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
		return err
	}
	if err := stream.Resume(context.WithoutCancel(ctx)); err != nil { // if the demo was ended before that
		return err
	}
	if err := d.settle(context.WithoutCancel(ctx), server); err != nil {
		return err
	}
	report, err := readBack(context.WithoutCancel(ctx), store, server, c)
	if err != nil {
		return err
	}
	report.print(d.out)
	if d.options.Keep {
		d.sayf("\nLook at it:  %s\n", store.look)
	}
	return report.verdict()
}

// load writes the backlog, with a progress bar.
func (d *demo) load(ctx context.Context, c *client) error {
	b := newBacklog(time.Now(), 1)
	progress := newBar(d.err, b.total(), "backlog")
	defer progress.done()
	points := make([]lineprotocol.Point, 0, perWrite)
	for more := true; more; {
		points = points[:0]
		for more && len(points) < perWrite-kinds {
			points, more = b.next(points)
		}
		if err := c.write(ctx, points); err != nil {
			return err
		}
		progress.add(len(points))
	}
	return nil
}

// flow writes what the machine does, every second, until ctx ends.
func (d *demo) flow(ctx context.Context, c *client) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		if err := c.write(ctx, measure(ctx, time.Now(), d.dir)); err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// watch shows how far the target is, until ctx ends.
func (d *demo) watch(ctx context.Context, server *start.Server) error {
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	var said time.Time
	var mode string
	for {
		st := defaultStream(server)
		now := st.Loop.Mode.String()
		if st.Loop.StalenessKnown && (now != mode || time.Since(said) >= 2*time.Second) {
			mode, said = now, time.Now()
			d.sayf("  mode %-8s  in target %9d  lag %6.1f s  waiting %s\n",
				mode, st.Loop.Mutations, st.Loop.Staleness.Seconds(), bytesText(st.Queue.UnsentBytes))
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// settle waits until everything that was accepted is in the target.
func (d *demo) settle(ctx context.Context, server *start.Server) error {
	ctx, cancel := context.WithTimeout(ctx, drainWithin)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		st := defaultStream(server)
		if point, ok := st.Loop.Point.(influxlogical.Stamp); ok && point.Sequence >= st.Queue.LastSeq {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return errors.Errorf("after %s there are still %d bytes in the queue; the loop says: %v", drainWithin, st.Queue.UnsentBytes, st.Loop.Err)
		}
	}
}

func defaultStream(server *start.Server) influxlogical.Status {
	return server.Streams().All()[0].Status()
}

// logs returns where the server's log goes.
func (d *demo) logs() (io.WriteCloser, error) {
	if d.options.Verbose {
		return nopCloser{d.err}, nil
	}
	f, err := os.Create(filepath.Join(d.dir, "tailrace.log"))
	return f, errors.WithStack(err)
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

func (d *demo) sayf(format string, args ...any) { _, _ = fmt.Fprintf(d.out, format, args...) }
