package lineprotocol

import (
	"encoding/hex"
	"encoding/json"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// vector is a row of the table in docs/series-hash.md: tags as JSON, and their hash.
var vector = regexp.MustCompile("(?m)^\\| `(\\[.*\\])` \\| `([0-9a-f]{32})` \\|$")

func TestSeriesHashIsThatOfTheDocument(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("../../docs/series-hash.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(doc), SeriesHashVersion) {
		t.Errorf("the document does not name the version %s", SeriesHashVersion)
	}
	found := vector.FindAllStringSubmatch(string(doc), -1)
	if len(found) < 8 {
		t.Fatalf("%d vectors", len(found))
	}
	seen := map[string]bool{}
	for _, v := range found {
		var pairs [][2]string
		if err := json.Unmarshal([]byte(v[1]), &pairs); err != nil {
			t.Fatalf("%s: %v", v[1], err)
		}
		var tags []Tag
		for _, p := range pairs {
			tags = append(tags, Tag{p[0], p[1]})
		}
		if got := SeriesHash(tags); hex.EncodeToString(got[:]) != v[2] {
			t.Errorf("%s: got %x, the document says %s", v[1], got, v[2])
		}
		seen[v[2]] = true
	}
	if len(seen) < 11 {
		t.Errorf("only %d different hashes", len(seen))
	}
}

func TestSeriesHashDoesNotDependOnTheOrder(t *testing.T) {
	t.Parallel()
	const seed = 5
	rnd := rand.New(rand.NewPCG(seed, seed))
	var tags []Tag
	for i := range 40 {
		tags = append(tags, Tag{strings.Repeat("k", i+1), string(rune('a' + i%26))})
	}
	want := SeriesHash(tags)
	for range 100 {
		rnd.Shuffle(len(tags), func(i, j int) { tags[i], tags[j] = tags[j], tags[i] })
		before := slices.Clone(tags)
		if SeriesHash(tags) != want || !slices.Equal(tags, before) {
			t.Fatalf("seed %d: another hash, or the argument was changed", seed)
		}
	}
}

func TestSeriesHashTellsTagSetsApart(t *testing.T) {
	t.Parallel()
	sets := [][]Tag{
		nil,
		{{"a", "b"}},
		{{"ab", ""}},
		{{"", "ab"}},
		{{"a", "bc"}},
		{{"ab", "c"}},
		{{"a", "1"}, {"b", "2"}},
		{{"a", "2"}, {"b", "1"}},
		{{"a", "1,b=2"}},
		{{"a", "1"}, {"b", "2"}, {"c", "3"}},
	}
	seen := map[[16]byte]int{}
	for i, s := range sets {
		h := SeriesHash(s)
		if j, dup := seen[h]; dup {
			t.Errorf("sets %d and %d have one hash", j, i)
		}
		seen[h] = i
	}
}
