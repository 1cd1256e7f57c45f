package lru

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestBoundedAgainstAModel: a list of what was used, the latest last, of which the end that fits is there.
func TestBoundedAgainstAModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		type item struct{ key, value, weight int }
		most := rapid.IntRange(1, 30).Draw(t, "most")
		var dropped, want []int
		c := New(most, func(key, _ int) { dropped = append(dropped, key) })
		var model []item
		find := func(key int) int {
			return slices.IndexFunc(model, func(i item) bool { return i.key == key })
		}
		for n := range rapid.IntRange(1, 80).Draw(t, "steps") {
			key := rapid.IntRange(0, 9).Draw(t, "key")
			at := find(key)
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0:
				got, ok := c.Get(key)
				if ok != (at >= 0) || ok && got != model[at].value {
					t.Fatalf("get of %d: %d, %v; the model is %v", key, got, ok, model)
				}
				if ok {
					used := model[at]
					model = append(slices.Delete(model, at, at+1), used)
				}
			case 1:
				c.Remove(key)
				if at >= 0 {
					model = slices.Delete(model, at, at+1)
				}
			default:
				weight := rapid.IntRange(0, 40).Draw(t, "weight")
				c.Put(key, n, weight)
				if at >= 0 {
					model = slices.Delete(model, at, at+1)
				}
				if weight > most {
					break
				}
				model = append(model, item{key, n, weight})
				for sum(model, func(i item) int { return i.weight }) > most {
					want = append(want, model[0].key)
					model = model[1:]
				}
			}
			if c.Len() != len(model) || c.Weight() != sum(model, func(i item) int { return i.weight }) || c.Weight() > most {
				t.Fatalf("%d entries, weight %d of %d; the model is %v", c.Len(), c.Weight(), most, model)
			}
			if !slices.Equal(dropped, want) {
				t.Fatalf("dropped %v, want %v", dropped, want)
			}
		}
	})
}

func sum[T any](list []T, of func(T) int) (n int) {
	for _, x := range list {
		n += of(x)
	}
	return n
}
