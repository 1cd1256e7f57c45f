package queue

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/internal/queue"
)

// printReport writes a report for people.
func printReport(w io.Writer, rep *queue.Report, now time.Time) error {
	out := bufio.NewWriter(w)
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "queue\t%s\n", rep.ID)
	fmt.Fprintf(t, "unsent\t%d blocks, %d points, %d bytes\n", rep.UnsentBlocks, rep.UnsentPoints, rep.UnsentBytes)
	if rep.UnsentBlocks > 0 {
		oldest := time.Unix(0, rep.OldestUnsent)
		fmt.Fprintf(t, "sequences\t%d to %d\n", rep.FirstSeq, rep.LastSeq)
		fmt.Fprintf(t, "oldest\t%s (%s ago)\n", oldest.UTC().Format(time.RFC3339Nano), now.Sub(oldest).Round(time.Second))
		fmt.Fprintf(t, "newest\t%s\n", time.Unix(0, rep.NewestUnsent).UTC().Format(time.RFC3339Nano))
	}
	fmt.Fprintf(t, "cursor\t%d (%s)\n", rep.Cursor, rep.CursorState)
	if rep.Floor > 0 {
		fmt.Fprintf(t, "dropped up to\t%d\n", rep.Floor)
	}
	fmt.Fprintf(t, "closed properly\t%v\n", rep.Closed)
	if rep.Missing > 0 {
		fmt.Fprintf(t, "missing\t%d blocks\n", rep.Missing)
	}
	_ = t.Flush()
	printSegments(out, rep)
	for _, x := range rep.Losses {
		fmt.Fprintf(out, "lost: %s, noticed %s\n", x, time.Unix(0, x.Time).UTC().Format(time.RFC3339))
	}
	for _, p := range rep.Problems {
		fmt.Fprintf(out, "problem: %s at %d (%d bytes): %s", p.File, p.Offset, p.Length, p.What)
		if p.Hint != "" {
			fmt.Fprintf(out, "; %s", p.Hint)
		}
		fmt.Fprintln(out)
	}
	return errors.WithStack(out.Flush())
}

func printSegments(w io.Writer, rep *queue.Report) {
	if len(rep.Segments) == 0 {
		return
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "\nsegment\tsize\tblocks\tpoints\tlast\tdamaged\ttorn")
	for _, s := range rep.Segments {
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\t%d\t%d\n", s.Name, s.Size, s.Blocks, s.Points, s.Last, s.Damaged, s.Torn)
	}
	_ = t.Flush()
}

// dumped is a block as JSON.
type dumped struct {
	Sequence queue.Sequence `json:"sequence"`
	Time     time.Time      `json:"time"`
	Points   int            `json:"points"`
	Kind     queue.Kind     `json:"kind"`
	Last     bool           `json:"last"`
	// Payload is the content if that is text, else Base64 is.
	Payload string `json:"payload,omitempty"`
	Base64  []byte `json:"base64,omitempty"`
}

func newDumped(b queue.Block) dumped {
	d := dumped{Sequence: b.Sequence, Time: time.Unix(0, b.Time).UTC(), Points: b.Points, Kind: b.Kind, Last: b.Last}
	if utf8.Valid(b.Payload) {
		d.Payload = string(b.Payload)
	} else {
		d.Base64 = b.Payload
	}
	return d
}

// dump writes the payloads of a queue.
func dump(w, problems io.Writer, cfg queue.Config, asJSON, all bool) error {
	out := bufio.NewWriter(w)
	enc := json.NewEncoder(out)
	others := 0
	rep, err := queue.Walk(cfg, all, func(b queue.Block) error {
		if asJSON {
			return enc.Encode(newDumped(b))
		}
		if b.Kind != queue.KindLineProtocol {
			others++
			return nil
		}
		if _, err := out.Write(b.Payload); err != nil {
			return err
		}
		if n := len(b.Payload); n > 0 && b.Payload[n-1] != '\n' {
			return out.WriteByte('\n')
		}
		return nil
	})
	if flushErr := out.Flush(); err == nil {
		err = errors.WithStack(flushErr)
	}
	if err != nil {
		return failure(err)
	}
	if others > 0 {
		fmt.Fprintf(problems, "%d blocks are not line protocol and were left out; --json writes them\n", others)
	}
	if len(rep.Problems) > 0 {
		return errors.Errorf("queue: %d problems, %d blocks are missing from what was written; tailrace queue verify shows them", len(rep.Problems), rep.Missing)
	}
	return nil
}
