package filter

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	lp2 "github.com/influxdata/line-protocol/v2/lineprotocol"
)

// oracleGlob is a glob as a regular expression.
func oracleGlob(glob string) *regexp.Regexp {
	var b strings.Builder
	escaped := false
	for _, c := range glob {
		switch {
		case escaped:
			b.WriteString(regexp.QuoteMeta(string(c)))
			escaped = false
		case c == '\\':
			escaped = true
		case c == '*':
			b.WriteString("(?:.*)")
		case c == '?':
			b.WriteString("(?:.)")
		default:
			b.WriteString(regexp.QuoteMeta(string(c)))
		}
	}
	return regexp.MustCompile(`(?s)\A(?:` + b.String() + `)\z`)
}

// oracleTag takes a pattern for tags apart.
func oracleTag(pattern string) (key, glob string) {
	at := regexp.MustCompile(`\A(?s:\\.|[^\\=])*`).FindString(pattern)
	return regexp.MustCompile(`(?s)\\(.)`).ReplaceAllString(at, "$1"), pattern[len(at)+1:]
}

// oraclePasses reads a line with line-protocol/v2, and judges it by the words of the documentation.
func oraclePasses(t *testing.T, c Config, line string) bool {
	t.Helper()
	d := lp2.NewDecoderWithBytes([]byte(line))
	d.Next()
	name, err := d.Measurement()
	if err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	measurement := strings.ReplaceAll(string(name), `\=`, `=`) // as InfluxDB reads it
	tags := map[string]string{}
	for {
		k, v, err := d.NextTag()
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if k == nil {
			break
		}
		tags[string(k)] = string(v)
	}
	matches := func(glob, text string) bool { return oracleGlob(glob).MatchString(text) }
	some := func(globs []string) bool {
		for _, g := range globs {
			if matches(g, measurement) {
				return true
			}
		}
		return false
	}
	tagMatches := func(pattern string) bool {
		key, glob := oracleTag(pattern)
		value, there := tags[key]
		if !there {
			return glob == ""
		}
		return matches(glob, value)
	}
	if len(c.Measurements.Include) > 0 && !some(c.Measurements.Include) || some(c.Measurements.Exclude) {
		return false
	}
	byKey := map[string]bool{}
	for _, p := range c.Tags.Include {
		key, _ := oracleTag(p)
		byKey[key] = byKey[key] || tagMatches(p)
	}
	for _, ok := range byKey {
		if !ok {
			return false
		}
	}
	for _, p := range c.Tags.Exclude {
		if tagMatches(p) {
			return false
		}
	}
	return true
}

// names are few, so that patterns meet them, and awkward.
var names = []string{"a", "ab", "abc", "b", "é", "éa", "a b", "a,b", "a=b", `a\b`, "a*b", "a?", `"q"`, "日本", "a\"b"}

var escape = strings.NewReplacer(",", `\,`, " ", `\ `, "=", `\=`)

func randomLine(rnd *rand.Rand) string {
	name := func() string { return escape.Replace(names[rnd.IntN(len(names))]) }
	var b strings.Builder
	b.WriteString(strings.ReplaceAll(name(), `\=`, `=`))
	for _, key := range rnd.Perm(len(names))[:rnd.IntN(4)] {
		fmt.Fprintf(&b, ",%s=%s", escape.Replace(names[key]), name())
	}
	fmt.Fprintf(&b, " %s=\"%s\",x=1i %d\n", name(), []string{"", "a\nb c=1", `\"`, `,a=b \\`}[rnd.IntN(4)], rnd.IntN(100))
	return b.String()
}

func randomConfig(rnd *rand.Rand) Config {
	glob := func() string {
		const alphabet = "**??ab "
		switch rnd.IntN(4) {
		case 0:
			return regexp.MustCompile(`[\\*?]`).ReplaceAllString(names[rnd.IntN(len(names))], `\$0`)
		case 1:
			return "*" + string([]rune(names[rnd.IntN(5)])[:1]) + "*"
		}
		var b strings.Builder
		for range 1 + rnd.IntN(4) {
			b.WriteByte(alphabet[rnd.IntN(len(alphabet))])
		}
		return b.String()
	}
	list := func(chance int, one func() string) (out []string) {
		if rnd.IntN(chance) > 0 {
			return nil
		}
		for range 1 + rnd.IntN(3) {
			out = append(out, one())
		}
		return out
	}
	tag := func() string {
		key := regexp.MustCompile(`[\\*?=]`).ReplaceAllString(names[rnd.IntN(5)], `\$0`)
		if rnd.IntN(4) == 0 {
			return key + "="
		}
		return key + "=" + glob()
	}
	return Config{
		Measurements: List{Include: list(3, func() string { return "*" + glob() }), Exclude: list(3, glob)},
		Tags:         List{Include: list(3, tag), Exclude: list(2, tag)},
	}
}

// Random filters let pass, of random lines, what the oracle says, as the bytes that they are.
func TestPassesWhatTheOracleLetsPass(t *testing.T) {
	t.Parallel()
	rnd := seeded(t)
	passed, left := 0, 0
	for range soak(300, 20000) {
		c := randomConfig(rnd)
		f, err := Compile(c)
		if err != nil {
			t.Fatalf("%+v: %v", c, err)
		}
		var all, want strings.Builder
		for range 20 {
			line := randomLine(rnd)
			all.WriteString(line)
			if oraclePasses(t, c, line) {
				want.WriteString(line)
				passed++
			} else {
				left++
			}
		}
		in := blocks(t, all.String())
		if len(in) != 1 || string(in[0].Data) != all.String() {
			t.Fatalf("%q is not normal", all.String())
		}
		if got := sift(t, f, in); got != want.String() {
			t.Fatalf("%+v lets pass\n%swant\n%sof\n%s", c, got, want.String(), all.String())
		}
	}
	if passed < left/10 || left < passed/10 {
		t.Errorf("%d passed and %d did not: the test sees one side only", passed, left)
	}
}

func FuzzGlob(f *testing.F) {
	for _, seed := range [][2]string{
		{"a*b", "ab"}, {"*?", "é"}, {"*??", "€"}, {`\*`, "*"}, {"a?c", "a\xffc"}, {"**a*", "ba"}, {"", ""}, {"?", ""}, {"*é", "\xc3é"},
	} {
		f.Add(seed[0], []byte(seed[1]))
	}
	f.Fuzz(func(t *testing.T, glob string, text []byte) {
		// In a regular expression a byte that is no UTF-8 is the same as U+FFFD.
		if !utf8.ValidString(glob) || strings.Contains(glob, "\uFFFD") || len(glob) > 100 || len(text) > 1000 {
			return
		}
		var p patterns
		if p.add(glob) != nil {
			return
		}
		if got, want := p.match(text), oracleGlob(glob).Match(text); got != want {
			t.Fatalf("%q matches %q: %v, the oracle says %v", glob, text, got, want)
		}
	})
}

// Whatever the configuration and the input, nothing is invented: what passes are lines of the input.
func FuzzSieve(f *testing.F) {
	f.Add("m*", "a=b*", "m,a=bc v=1 5\nn v=1 6\n")
	f.Add(`\m`, `a\=x=`, "m,a\\==b v=\"x\ny\" 5\nn v=1 6\n")
	f.Fuzz(func(t *testing.T, measurement, tag, body string) {
		flt, err := Compile(Config{Measurements: List{Include: []string{measurement}}, Tags: List{Exclude: []string{tag}}})
		if err != nil {
			return
		}
		in := blocks(t, body)
		kept := sift(t, flt, in)
		inverse := sift(t, compile(t, Config{Measurements: List{Exclude: []string{measurement}}}), in)
		all := sift(t, nil, in)
		if len(kept)+len(inverse) > len(all) {
			t.Fatalf("%q and %q are more than %q", kept, inverse, all)
		}
		if again := sift(t, flt, blocks(t, kept)); again != kept {
			t.Fatalf("%q becomes %q when it is sifted again", kept, again)
		}
	})
}
