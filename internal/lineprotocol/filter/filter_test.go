package filter

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/tailrace-cdc/tailrace/internal/lineprotocol"
)

func TestWhatPasses(t *testing.T) {
	t.Parallel()
	const all = "cpu,host=a,env=prod v=1 1\n" +
		"cpu,host=test-01,env=prod v=1 2\n" +
		"disk,host=a v=1 3\n" +
		"disk_debug,host=b v=1 4\n" +
		"mem v=\"line\ncpu,host=a v=1 9\" 5\n" +
		"a\\ b,ta\\,g=x\\=y\\ z v=1 6\n"
	for name, c := range map[string]struct{ config, passes string }{
		"nothing said":              {`{}`, "123456"},
		"one measurement":           {`{"measurements":{"include":["cpu"]}}`, "12"},
		"by glob":                   {`{"measurements":{"include":["d*","m?m"]}}`, "345"},
		"exclude wins":              {`{"measurements":{"include":["disk*"],"exclude":["*_debug"]}}`, "3"},
		"everything":                {`{"measurements":{"include":["*"]}}`, "123456"},
		"nothing":                   {`{"measurements":{"exclude":["*"]}}`, ""},
		"case matters":              {`{"measurements":{"include":["CPU"]}}`, ""},
		"the whole name":            {`{"measurements":{"include":["dis"]}}`, ""},
		"by tag":                    {`{"tags":{"include":["host=a"]}}`, "13"},
		"either value":              {`{"tags":{"include":["host=a","host=b"]}}`, "134"},
		"every key":                 {`{"tags":{"include":["host=a","env=prod"]}}`, "1"},
		"without a tag":             {`{"tags":{"exclude":["host=test-*"]}}`, "13456"},
		"any value":                 {`{"tags":{"include":["host=*"]}}`, "1234"},
		"a tag that is not there":   {`{"tags":{"include":["host="]}}`, "56"},
		"not there, or this":        {`{"tags":{"include":["env=","env=prod"]}}`, "123456"},
		"but not where it is not":   {`{"tags":{"exclude":["env="]}}`, "12"},
		"escapes are not compared":  {`{"measurements":{"include":["a b"]},"tags":{"include":["ta,g=x=y z"]}}`, "6"},
		"a glob's own escapes":      {`{"measurements":{"include":["a\\ b","\\*"]},"tags":{"include":["ta\\,g=x=y\\ ?"]}}`, "6"},
		"the text of a string":      {`{"measurements":{"exclude":["mem"]}}`, "12346"},
		"measurements and tags":     {`{"measurements":{"include":["cpu"]},"tags":{"exclude":["host=test-??"]}}`, "1"},
		"the point's own key wins":  {`{"tags":{"exclude":["v=*"]}}`, "123456"},
		"value with an equals sign": {`{"tags":{"include":["ta,g=x=*"]}}`, "6"},
	} {
		var config Config
		if err := json.Unmarshal([]byte(c.config), &config); err != nil {
			t.Fatal(err)
		}
		got := sift(t, compile(t, config), blocks(t, all))
		var want strings.Builder
		for line := range strings.SplitSeq(strings.ReplaceAll(all, "\ncpu,host=a v=1 9", "\x00"), "\n") {
			if line != "" && strings.Contains(c.passes, line[len(line)-1:]) {
				want.WriteString(strings.ReplaceAll(line, "\x00", "\ncpu,host=a v=1 9") + "\n")
			}
		}
		if got != want.String() {
			t.Errorf("%s: %s lets pass\n%swant\n%s", name, c.config, got, want.String())
		}
	}
}

func TestConfigurationThatCannotWork(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		config Config
		field  string
		says   string
	}{
		{Config{Measurements: List{Include: []string{"a", ""}}}, "measurements.include[1]", "empty name"},
		{Config{Measurements: List{Exclude: []string{`a\`}}}, "measurements.exclude[0]", "backslash"},
		{Config{Measurements: List{Exclude: []string{"\xff"}}}, "measurements.exclude[0]", "UTF-8"},
		{Config{Tags: List{Include: []string{"host"}}}, "tags.include[0]", "equals sign"},
		{Config{Tags: List{Exclude: []string{"a=b", "=x"}}}, "tags.exclude[1]", "empty key"},
		{Config{Tags: List{Exclude: []string{"h*=x"}}}, "tags.exclude[0]", "no glob"},
		{Config{Tags: List{Exclude: []string{`h\`}}}, "tags.exclude[0]", "backslash"},
		{Config{Tags: List{Exclude: []string{strings.Repeat("x", 2000)}}}, "tags.exclude[0]", "1024"},
		{Config{Tags: List{Exclude: make([]string, 2000)}}, "tags.exclude", "1000"},
	} {
		var bad *Error
		if err := c.config.Validate(); !errors.As(err, &bad) || bad.Field != c.field || !strings.Contains(err.Error(), c.says) || len(err.Error()) > 300 {
			t.Errorf("got %v, want %s and %q", err, c.field, c.says)
		}
	}
}

func TestConfigIsStoredAsItIs(t *testing.T) {
	t.Parallel()
	c := Config{Measurements: List{Include: []string{"a*"}}, Tags: List{Exclude: []string{`h\*=x`}}}
	text, err := json.Marshal(c)
	if err != nil || string(text) != `{"measurements":{"include":["a*"]},"tags":{"exclude":["h\\*=x"]}}` {
		t.Errorf("%s, %v", text, err)
	}
	if text, err := json.Marshal(Config{}); err != nil || string(text) != `{}` {
		t.Errorf("%s, %v", text, err)
	}
	if f, err := Compile(Config{}); f != nil || err != nil {
		t.Errorf("the zero configuration compiles to %v, %v", f, err)
	}
}

func TestBlockThatPassesIsNotCopied(t *testing.T) {
	t.Parallel()
	in := blocks(t, "m,a=b v=1 5\nm v=2 6\n")[0]
	var s Sieve
	for _, f := range []*Filter{nil, compile(t, Config{Measurements: List{Include: []string{"m"}}})} {
		out, err := s.Block(f, in)
		if err != nil || &out.Data[0] != &in.Data[0] || out.Points != 2 {
			t.Errorf("%+v, %v", out, err)
		}
	}
}

func TestCorruptBlockIsAnError(t *testing.T) {
	t.Parallel()
	f := compile(t, Config{Measurements: List{Include: []string{"m"}}})
	for _, text := range []string{"\n", " m v=1 5\n", "m", "m v=\"1 5\n", "m v=1 5"} {
		var s Sieve
		if out, err := s.Block(f, lineprotocol.Block{Data: []byte(text), Points: 1}); err == nil {
			t.Errorf("%q becomes %q", text, out.Data)
		}
	}
}

func TestNoAllocationPerLine(t *testing.T) {
	in := blocks(t, benchBody(2000)+"esc\\ aped,ho\\ st=a\\,b v=\"x\\\"y\" 5\n")
	f := compile(t, Config{
		Measurements: List{Include: []string{"c*", "esc*"}},
		Tags:         List{Include: []string{"region=eu-*"}, Exclude: []string{"host=*07", "host=server09", "ho st=a*"}},
	})
	var s Sieve
	run := func() {
		for _, b := range in {
			if _, err := s.Block(f, b); err != nil {
				t.Fatal(err)
			}
		}
	}
	run()
	if n := testing.AllocsPerRun(10, run); n > 0 {
		t.Errorf("%v allocations for 2,001 lines", n)
	}
}
