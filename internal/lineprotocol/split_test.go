package lineprotocol

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestSplitterKeepsLinesWhole(t *testing.T) {
	t.Parallel()
	const input = "\n# a comment with \"a quote\nm v=1 1\n  m,t=a\"b v=2 2\r\nm s=\"two\nlines, \\\" and = \",v=3 3\n\nm v=4 4"
	want := []Line{
		{Text: []byte("m v=1 1\n"), Number: 3},
		{Text: []byte("  m,t=a\"b v=2 2\r\n"), Number: 4},
		{Text: []byte("m s=\"two\nlines, \\\" and = \",v=3 3\n"), Number: 5},
		{Text: []byte("m v=4 4"), Number: 8},
	}
	for name, r := range map[string]io.Reader{
		"at once": strings.NewReader(input), "by bytes": iotest.OneByteReader(strings.NewReader(input)),
	} {
		s := NewSplitter(r)
		for i, w := range want {
			got, err := s.Next()
			if err != nil || string(got.Text) != string(w.Text) || got.Number != w.Number {
				t.Fatalf("%s: line %d: got %d %q, %v; want %d %q", name, i, got.Number, got.Text, err, w.Number, w.Text)
			}
		}
		if _, err := s.Next(); !errors.Is(err, io.EOF) {
			t.Errorf("%s: got %v after the last line, want io.EOF", name, err)
		}
	}
}

func TestSplitterBoundsALineThatDoesNotEnd(t *testing.T) {
	t.Parallel()
	s := NewSplitter(strings.NewReader(`m s="` + strings.Repeat("x", 10<<20)))
	for total := 0; ; {
		line, err := s.Next()
		if errors.Is(err, io.EOF) {
			if total != 10<<20+5 {
				t.Errorf("%d bytes came out", total)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if total += len(line.Text); cap(s.buf) > 8<<20 {
			t.Fatalf("the buffer grew to %d bytes", cap(s.buf))
		}
	}
}
