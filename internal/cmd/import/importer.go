package importcmd

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/internal/lineprotocol"
)

// maxBatch bounds the bytes of a batch; a server takes bodies of some megabytes.
const maxBatch = 1 << 20

// importer sends files.
type importer struct {
	o         Options
	precision lineprotocol.Precision
	client    *client
	out, err  io.Writer
	stdin     io.Reader
	progress  *progress
	normal    lineprotocol.Normalizer

	file    string
	points  int
	rejects *rejects // nil without --skipErrors
}

func newImporter(o Options, out, errs io.Writer, stdin io.Reader) (*importer, error) {
	precision, err := o.check()
	if err != nil {
		return nil, err
	}
	client, err := newClient(o)
	if err != nil {
		return nil, err
	}
	return &importer{o: o, precision: precision, client: client, out: out, err: errs, stdin: stdin}, nil
}

// run sends all files.
func (im *importer) run(ctx context.Context, files []string) (err error) {
	if im.o.SkipErrors {
		im.rejects = &rejects{path: im.o.RejectFile}
		if err := im.rejects.check(files); err != nil {
			return err
		}
	}
	begun := time.Now()
	im.progress = newProgress(im.err, totalSize(files))
	im.client.say = im.progress.say
	defer func() {
		im.progress.done()
		if im.rejects != nil {
			if bad := im.rejects.close(); err == nil {
				err = bad
			}
		}
		_, _ = fmt.Fprintf(im.out, "%d points imported in %s", im.points, time.Since(begun).Round(time.Millisecond))
		if im.rejects != nil && im.rejects.lines > 0 {
			_, _ = fmt.Fprintf(im.out, ", %d lines rejected into %s", im.rejects.lines, im.rejects.path)
		}
		_, _ = fmt.Fprintln(im.out)
	}()
	for _, file := range files {
		if err := im.send(ctx, file); err != nil {
			return err
		}
	}
	return nil
}

// send sends one file.
func (im *importer) send(ctx context.Context, file string) error {
	im.file = file
	r, err := im.open(file)
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }() // it was read to its end, or the first error says more
	lines, err := im.unpack(io.TeeReader(r, im.progress))
	if err != nil {
		return err
	}
	split := lineprotocol.NewSplitter(lines)
	var batch batch
	for {
		line, err := split.Next()
		if err != nil && !errors.Is(err, io.EOF) {
			return errors.WithMessagef(err, "%s cannot be read", im.file)
		}
		if err == nil {
			batch.add(line)
		}
		if err != nil || batch.lines() >= im.o.BatchLines || len(batch.text) >= maxBatch {
			if err := im.sendBatch(ctx, &batch); err != nil {
				return err
			}
			batch.reset()
		}
		if err != nil {
			return nil
		}
	}
}

func (im *importer) open(file string) (io.ReadCloser, error) {
	if file == "-" {
		im.file = "standard input"
		return io.NopCloser(im.stdin), nil
	}
	f, err := os.Open(file)
	return f, errors.WithStack(err)
}

// unpack decompresses what begins as gzip does.
func (im *importer) unpack(r io.Reader) (io.Reader, error) {
	buffered := bufio.NewReaderSize(r, 256<<10)
	magic, err := buffered.Peek(2)
	if err != nil || !bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		return buffered, nil // an empty input is no error
	}
	unzipped, err := gzip.NewReader(buffered)
	return unzipped, errors.Wrapf(err, "%s is not whole gzip", im.file)
}

// batch is a number of lines as they came.
type batch struct {
	text    []byte
	ends    []int
	numbers []int
}

func (b *batch) add(line lineprotocol.Line) {
	b.text = append(b.text, line.Text...)
	if !bytes.HasSuffix(line.Text, []byte("\n")) {
		b.text = append(b.text, '\n')
	}
	b.ends, b.numbers = append(b.ends, len(b.text)), append(b.numbers, line.Number)
}

func (b *batch) lines() int { return len(b.ends) }
func (b *batch) reset()     { b.text, b.ends, b.numbers = b.text[:0], b.ends[:0], b.numbers[:0] }

// sendBatch sends the good lines of a batch, and deals with the bad ones.
func (im *importer) sendBatch(ctx context.Context, b *batch) error {
	if b.lines() == 0 {
		return ctx.Err()
	}
	res, err := im.normalize(b.text)
	if err != nil {
		return err
	}
	if res.Refused != nil {
		if res, err = im.sift(b); err != nil {
			return err
		}
	}
	for _, block := range res.Blocks {
		if err := im.client.write(ctx, block.Data); err != nil {
			return errors.WithMessagef(err, "%s, lines %d to %d", im.file, b.numbers[0], b.numbers[b.lines()-1])
		}
		im.points += block.Points
		im.progress.points(block.Points)
	}
	return nil
}

func (im *importer) normalize(text []byte) (lineprotocol.Result, error) {
	return im.normal.Normalize(bytes.NewReader(text), lineprotocol.Options{
		Precision: im.precision, Mode: lineprotocol.Partial, Now: time.Now(),
	})
}

// sift takes the bad lines out of a batch: the first one ends the import, or all go to the reject file.
func (im *importer) sift(b *batch) (lineprotocol.Result, error) {
	var good []byte
	start := 0
	for i, end := range b.ends {
		line := b.text[start:end]
		start = end
		res, err := im.normalize(line)
		if err != nil {
			return res, err
		}
		if res.Refused == nil {
			good = append(good, line...)
			continue
		}
		if im.rejects == nil {
			first := res.Refused.Lines[0]
			return res, errors.Errorf("%s:%d:%d: %s in '%s'; nothing from this batch on was sent; --skipErrors goes on after such lines",
				im.file, b.numbers[i], first.Column, first.Reason, first.Text)
		}
		if err := im.rejects.add(line); err != nil {
			return res, err
		}
	}
	return im.normalize(good)
}

// totalSize returns the bytes of all files, or 0 if that cannot be told.
func totalSize(files []string) int64 {
	var total int64
	for _, file := range files {
		info, err := os.Stat(file)
		if err != nil || !info.Mode().IsRegular() {
			return 0
		}
		total += info.Size()
	}
	return total
}
