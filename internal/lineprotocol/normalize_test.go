package lineprotocol

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/pkg/errors"
)

func TestTimestampsBecomeNanoseconds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		v1       bool
		name, in string
		want     string // the time of a point that has in; "" if it is out of range
		now      string // the time of a point without
	}{
		{true, "n", "5", "5", "1700000000123456789"},
		{true, "ns", "5", "5", "1700000000123456789"},
		{true, "", "5", "5", "1700000000123456789"},
		{true, "u", "5", "5000", "1700000000123456000"},
		{true, "us", "-5", "-5000", "1700000000123456000"},
		{true, "ms", "5", "5000000", "1700000000123000000"},
		{true, "s", "5", "5000000000", "1700000000000000000"},
		{true, "m", "5", "300000000000", "1699999980000000000"},
		{true, "h", "5", "18000000000000", "1699999200000000000"},
		{true, "s", "9223372036", "9223372036000000000", "1700000000000000000"},
		{true, "s", "9223372037", "", "1700000000000000000"},
		{true, "s", "-9223372037", "", "1700000000000000000"},
		{false, "ns", "5", "5", "1700000000123456789"},
		{false, "", "5", "5", "1700000000123456789"},
		{false, "us", "5", "5000", "1700000000123456000"},
		{false, "ms", "5", "5000000", "1700000000123000000"},
		{false, "s", "005", "5000000000", "1700000000000000000"},
	} {
		parse := ParsePrecisionV2
		if c.v1 {
			parse = ParsePrecisionV1
		}
		p, err := parse(c.name)
		if err != nil {
			t.Errorf("%q: %v", c.name, err)
			continue
		}
		got, _, err := normalize(t, "m v=1 "+c.in+"\nm v=2", Options{Precision: p, Mode: Partial})
		want := "m v=2 " + c.now + "\n"
		if c.want != "" {
			want = "m v=1 " + c.want + "\n" + want
		}
		if err != nil || got != want {
			t.Errorf("precision %q, time %s: got %q, %v; want %q", c.name, c.in, got, err, want)
		}
	}
}

func TestUnknownPrecisionIsAnError(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"m", "h", "n", "u", "NS", "sec", "nanosecond", " "} {
		if _, err := ParsePrecisionV2(s); err == nil {
			t.Errorf("version 2 knows %q", s)
		}
	}
	for _, s := range []string{"NS", "µ", "d", "w", "min", strings.Repeat("x", 1000)} {
		if _, err := ParsePrecisionV1(s); err == nil || len(err.Error()) > 150 {
			t.Errorf("version 1 knows %q, or says too much: %v", s, err)
		}
	}
}

func TestStrictKeepsNothingAndListsHundred(t *testing.T) {
	t.Parallel()
	body := "m v=1 1\n" + strings.Repeat("m v=\nm v=2 2\n", 150)
	_, res, err := normalize(t, body, Options{})
	bad := new(ParseError)
	if !errors.As(err, &bad) || len(res.Blocks) != 0 || res.Points != 0 {
		t.Fatalf("got %+v, %v", res, err)
	}
	if len(bad.Lines) != MaxLineErrors || bad.Refused != MaxLineErrors || !bad.Stopped || bad.Lines[0].Line != 2 || bad.Lines[99].Line != 200 {
		t.Errorf("%d lines, the first %+v", len(bad.Lines), bad.Lines[0])
	}
}

func TestPartialKeepsTheGoodLines(t *testing.T) {
	t.Parallel()
	body := "m v=1 1\n" + strings.Repeat("m v=\nm v=2 2\n", 150)
	_, res, err := normalize(t, body, Options{Mode: Partial})
	if err != nil || res.Points != 151 || res.Refused == nil || res.Refused.Refused != 150 || len(res.Refused.Lines) != MaxLineErrors {
		t.Fatalf("got %d points, %v, %v", res.Points, res.Refused, err)
	}
	if text := res.Refused.Error(); !strings.Contains(text, "and 50 more") ||
		!strings.HasPrefix(text, "line 2, column 5: unable to parse 'm v=': missing field value") {
		t.Errorf("message %.200q", text)
	}
}

// What stands in a string must not become a point because something before it is wrong.
func TestTextOfABadLineIsNotRead(t *testing.T) {
	t.Parallel()
	for _, in := range []string{
		"m a=x,b=\"one\nevil v=1 1\n\" 5\nm v=2 2",
		"m,t b=\"one\nevil v=1 1\n\" 5\nm v=2 2",
		"m a=1 x,b=\"\\\"\nevil v=1 1\n\" 5\nm v=2 2",
		"m a=x\\\nevil v=1 1\nm v=2 2",
	} {
		got, res, err := normalize(t, in, Options{Mode: Partial})
		if strings.Contains(got, "evil") && !strings.Contains(in, "1 x") || err != nil || res.Refused == nil {
			t.Errorf("%q: got %q, %v", in, got, err)
		}
		if !strings.HasSuffix(got, "m v=2 2\n") {
			t.Errorf("%q: the line after it is missing: %q", in, got)
		}
	}
}

func TestLineThatIsTooLong(t *testing.T) {
	t.Parallel()
	line := func(n int) string { return "m v=\"" + strings.Repeat("x", n-len("m v=\"\" ")-maxTimeLen-1) + "\" 5\n" }
	for _, c := range []struct {
		n    int
		good bool
	}{{MaxLineBytes - 1, true}, {MaxLineBytes, true}, {MaxLineBytes + 1, false}, {3 * MaxLineBytes, false}, {9 * MaxLineBytes, false}} {
		body := "m v=1 1\n" + line(c.n) + "m v=2 2\n"
		_, res, err := normalize(t, body, Options{Mode: Partial})
		if want := map[bool]int{true: 3, false: 2}[c.good]; err != nil || res.Points != want {
			t.Errorf("%d bytes: %d points, %v, %v", c.n, res.Points, res.Refused, err)
		}
		if !c.good && (res.Refused.Lines[0].Line != 2 || !strings.Contains(res.Refused.Lines[0].Reason, "line too long") ||
			len(res.Refused.Error()) > 500) {
			t.Errorf("%d bytes: %v", c.n, res.Refused)
		}
	}
}

func TestBlocksHoldWholeLinesWithinTheLimit(t *testing.T) {
	t.Parallel()
	const seed = 7
	rnd := rand.New(rand.NewPCG(seed, seed))
	var body, want bytes.Buffer
	points := 0
	for body.Len() < 5<<20 {
		line := fmt.Sprintf("m,t=%d v=\"%s\" %d\n", rnd.IntN(10), strings.Repeat("x", rnd.IntN(1<<rnd.IntN(19))), points)
		body.WriteString(strings.Repeat(" ", rnd.IntN(3)) + line)
		want.WriteString(line)
		points++
	}
	var n Normalizer
	for range 2 { // once more with buffers that are there already
		res, err := n.Normalize(bytes.NewReader(body.Bytes()), Options{Now: testNow})
		if err != nil || res.Points != points || join(res.Blocks) != want.String() || res.Bytes != int64(want.Len()) || res.BytesRead != int64(body.Len()) {
			t.Fatalf("seed %d: %d points of %d, %v", seed, res.Points, points, err)
		}
		sum := 0
		for i, b := range res.Blocks {
			sum += b.Points
			if len(b.Data) > MaxBlockBytes || b.Data[len(b.Data)-1] != '\n' || bytes.Count(b.Data, []byte("\n")) != b.Points {
				t.Errorf("seed %d: block %d has %d bytes, %d points", seed, i, len(b.Data), b.Points)
			}
		}
		if sum != points {
			t.Errorf("seed %d: blocks say %d points", seed, sum)
		}
	}
}

func TestBodyLimit(t *testing.T) {
	t.Parallel()
	body := strings.Repeat("m v=1 1\n", 1000)
	for _, limit := range []int64{1, 10, 7999, 8000, 8001} {
		_, res, err := normalize(t, body, Options{MaxBytes: limit})
		if small := limit < 8000; small != errors.Is(err, ErrTooLarge) || small != (res.Points == 0) {
			t.Errorf("limit %d: %d points, %v", limit, res.Points, err)
		}
	}
}

func TestBrokenBodyKeepsNothing(t *testing.T) {
	t.Parallel()
	var n Normalizer
	broken := errors.New("connection reset")
	r := io.MultiReader(strings.NewReader(strings.Repeat("m v=1 1\n", 1000)), iotest.ErrReader(broken))
	if res, err := n.Normalize(r, Options{Mode: Partial, Now: testNow}); !errors.Is(err, broken) || res.Blocks != nil {
		t.Errorf("got %+v, %v", res, err)
	}
	if res, err := n.Normalize(strings.NewReader("m v=2 2"), Options{Now: testNow}); err != nil || join(res.Blocks) != "m v=2 2\n" {
		t.Errorf("after it: %q, %v", join(res.Blocks), err)
	}
	stuck := iotest.TimeoutReader(iotest.DataErrReader(strings.NewReader("m v=1 1\n")))
	if _, err := n.Normalize(struct{ io.Reader }{stuck}, Options{Now: testNow}); err != nil {
		t.Errorf("data together with EOF: %v", err)
	}
	if _, err := n.Normalize(idle{}, Options{}); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("a reader that never reads: %v", err)
	}
}

type idle struct{}

func (idle) Read([]byte) (int, error) { return 0, nil }

// A hostile line with thousands of tags must not cost quadratic time.
func TestManyTagsAreCheckedQuickly(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("m")
	for i := 9000; i > 0; i-- {
		fmt.Fprintf(&b, ",%04x=1", i)
	}
	line := b.String()
	if _, res, err := normalize(t, line+" v=1 1\n", Options{}); err != nil || res.Points != 1 {
		t.Error(err)
	}
	if _, _, err := normalize(t, line+",0100=1 v=1 1\n", Options{}); err == nil {
		t.Error("a duplicate among thousands was not noticed")
	}
}

func TestNoAllocationPerLine(t *testing.T) {
	body := benchBody(5000)
	var n Normalizer
	r := bytes.NewReader(nil)
	for _, p := range []Precision{Nanosecond, Microsecond} {
		if p == Microsecond {
			body = bytes.ReplaceAll(body, []byte("0000\n"), []byte("0\n"))
		}
		if got := testing.AllocsPerRun(10, func() {
			r.Reset(body)
			if res, err := n.Normalize(r, Options{Now: testNow, Precision: p}); err != nil || res.Points != 5000 {
				t.Fatal(res.Points, err)
			}
		}); got > 0 {
			t.Errorf("precision %d: %.0f allocations for 5000 lines", p, got)
		}
	}
}

func TestShrinkLetsGo(t *testing.T) {
	t.Parallel()
	var n Normalizer
	body := benchBody(40000)
	if _, err := n.Normalize(bytes.NewReader(body), Options{Now: testNow}); err != nil {
		t.Fatal(err)
	}
	n.Shrink(1 << 20)
	held := cap(n.in)
	for _, b := range n.blocks {
		held += cap(b.Data)
	}
	if held > 1<<20 {
		t.Errorf("%d bytes are held", held)
	}
	if res, err := n.Normalize(bytes.NewReader(body), Options{Now: testNow}); err != nil || res.Points != 40000 {
		t.Error(res.Points, err)
	}
}

func TestMemoryIsReservedBeforeItIsUsed(t *testing.T) {
	t.Parallel()
	body := benchBody(40000)
	var n Normalizer
	for range 2 {
		reserved := 0
		res, err := n.Normalize(bytes.NewReader(body), Options{Now: testNow, Reserve: func(b int) error { reserved += b; return nil }})
		used := cap(n.in)
		for _, b := range res.Blocks {
			used += cap(b.Data)
		}
		if err != nil || reserved < used || reserved > used+1 {
			t.Errorf("%d bytes reserved, %d used, %v", reserved, used, err)
		}
	}
	n.Shrink(0)
	for _, limit := range []int{0, 20 << 10, 1 << 20, 3 << 20} {
		full, left := errors.New("full"), limit
		_, err := n.Normalize(bytes.NewReader(body), Options{Now: testNow, Reserve: func(b int) error {
			if left -= b; left < 0 {
				return full
			}
			return nil
		}})
		if !errors.Is(err, full) {
			t.Errorf("limit %d: %v", limit, err)
		}
	}
	if res, err := n.Normalize(bytes.NewReader(body), Options{Now: testNow}); err != nil || res.Points != 40000 {
		t.Error(res.Points, err)
	}
}
