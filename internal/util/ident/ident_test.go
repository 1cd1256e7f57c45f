package ident

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestQuoteDoublesQuotes(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"a": `"a"`, "": `""`, `a"b`: `"a""b"`, `""`: `""""""`, "a.b": `"a.b"`, "SELECT": `"SELECT"`,
	} {
		if got := Quote(in); got != want {
			t.Errorf("%q: got %s, want %s", in, got, want)
		}
	}
}

func TestOneRuleForNames(t *testing.T) {
	t.Parallel()
	postgres := Rules{MaxBytes: 63}
	sqlite := Rules{FoldCase: true, ReservedPrefixes: []string{"sqlite_", "_tailrace_"}}
	long := strings.Repeat("é", 40)
	for _, c := range []struct {
		what           string
		rules          Rules
		taken          []string
		source, suffix string
		want           string
	}{
		{"plain", postgres, nil, "Usage.idle", "_field", "Usage.idle"},
		{"reserved", postgres, nil, "time", "_tag", "time_tag"},
		{"reserved in another case", sqlite, nil, "TIME", "_field", "TIME_field"},
		{"tag and field of one name", postgres, []string{"host"}, "host", "_field", "host_field"},
		{"suffix taken as well", postgres, []string{"host", "host_field"}, "host", "_field", "host_60d5b3f1"},
		{"differs by case, told apart", postgres, []string{"host"}, "Host", "_field", "Host"},
		{"differs by case, one to SQLite", sqlite, []string{"host"}, "Host", "_field", "Host_fb1aefba"},
		{"too long", postgres, nil, long, "_field", long[:54] + "_9a0e79bf"},
		{"not UTF-8", postgres, nil, "a\xffb", "_field", "a_b_6110539d"},
		{"NUL", postgres, nil, "a\x00b", "_field", "a_b_c7c96a67"},
		{"empty", postgres, nil, "", "_field", "__fcfb5ee0"},
		{"reserved prefix", sqlite, nil, "SQLite_stat", "", "m_SQLite_stat_7e32e492"},
	} {
		space := NewSpace(c.rules, "time", "series", "nanos")
		for _, name := range c.taken {
			space.Take(name)
		}
		if got := space.Assign(c.source, c.suffix); got != c.want {
			t.Errorf("%s: got %q, want %q", c.what, got, c.want)
		}
	}
}

func TestAssignedNamesFitAndDiffer(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		rules := Rules{MaxBytes: rapid.SampledFrom([]int{0, 40, 63}).Draw(t, "max"), FoldCase: rapid.Bool().Draw(t, "fold")}
		space := NewSpace(rules, "time")
		seen := map[string]bool{}
		names := rapid.SliceOfDistinct(rapid.OneOf(
			rapid.StringMatching(`[aA]{0,70}`), rapid.String(), rapid.SampledFrom([]string{"time", "Time", "\xff", "\xfe"}),
		), rapid.ID).Draw(t, "names")
		// Some are called by what others would get.
		for range rapid.IntRange(0, 5).Draw(t, "thefts") {
			if len(names) == 0 {
				break
			}
			victim, suffix := rapid.SampledFrom(names).Draw(t, "victim"), rapid.SampledFrom([]string{"_tag", "_field"}).Draw(t, "suffix")
			var stolen []string
			left := rapid.IntRange(1, 12).Draw(t, "names that are taken")
			for name := range space.candidates(victim, suffix) {
				if stolen = append(stolen, name); len(stolen) == left {
					break
				}
			}
			names = append(stolen, names...)
		}
		for _, source := range names {
			for _, suffix := range []string{"_tag", "_field"} {
				got := space.Assign(source, suffix)
				folded := space.fold(got)
				switch {
				case seen[folded]:
					t.Fatalf("%q is given out twice", got)
				case rules.MaxBytes > 0 && len(got) > rules.MaxBytes:
					t.Fatalf("%q is longer than %d bytes", got, rules.MaxBytes)
				case !utf8.ValidString(got) || strings.Contains(got, "\x00") || got == "":
					t.Fatalf("%q cannot be a name", got)
				}
				seen[folded] = true
			}
		}
	})
}

// TestNameIsFoundWhateverOthersAreCalled: who writes can give fields the very names that another one would get.
func TestNameIsFoundWhateverOthersAreCalled(t *testing.T) {
	t.Parallel()
	for _, rules := range []Rules{{MaxBytes: 63}, {FoldCase: true}, {MaxBytes: 40}} {
		space := NewSpace(rules, "time")
		n := 0
		for name := range space.candidates("time", "_field") {
			if n++; n > 100 {
				break
			}
			space.Take(name)
		}
		if got := space.Assign("time", "_field"); !strings.HasPrefix(got, "time_") || len(got) > 40 {
			t.Errorf("%+v: got %q", rules, got)
		}
	}
}
