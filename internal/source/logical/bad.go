package logical

import (
	"slices"

	"github.com/tailrace-cdc/tailrace/logical"
)

// A badMutation is one that the target will never accept.
type badMutation struct {
	at     int // its place among the mutations of the transaction, or of the joined ones
	stamp  logical.Stamp
	points bool // it is a point, and no row of a database
	joins  bool // it was not rejected itself, but an earlier one of its row was
	letter logical.DeadLetter
	reason error
}

// badMutations are in the order of their places.
type badMutations []badMutation

func (b badMutations) find(at int) (int, bool) {
	return slices.BinarySearchFunc(b, at, func(m badMutation, at int) int { return m.at - at })
}

// with returns b and one more; b itself is not changed.
func (b badMutations) with(m badMutation) badMutations {
	i, found := b.find(m.at)
	if found {
		return b
	}
	return slices.Insert(slices.Clone(b), i, m)
}

// without returns the mutations that are not bad.
func (b badMutations) without(muts []logical.Mutation) []logical.Mutation {
	if len(b) == 0 {
		return muts
	}
	good := make([]logical.Mutation, 0, len(muts)-len(b))
	from := 0
	for _, m := range b {
		good = append(good, muts[from:m.at]...)
		from = m.at + 1
	}
	return append(good, muts[from:]...)
}

// index translates a place among the good mutations into one among all.
func (b badMutations) index(good int) int {
	for _, m := range b {
		if m.at <= good {
			good++
		}
	}
	return good
}

// part returns the bad ones among the n mutations from base on, with their places counted from there.
func (b badMutations) part(base, n int) badMutations {
	from, _ := b.find(base)
	to, _ := b.find(base + n)
	part := slices.Clone(b[from:to])
	for i := range part {
		part[i].at -= base
	}
	return part
}

// moved returns b with all places counted from base.
func (b badMutations) moved(base int) badMutations {
	moved := slices.Clone(b)
	for i := range moved {
		moved[i].at += base
	}
	return moved
}

func (b badMutations) letters() []logical.DeadLetter {
	letters := make([]logical.DeadLetter, len(b))
	for i := range b {
		letters[i] = b[i].letter
	}
	return letters
}

// rejected returns how many were rejected themselves.
func (b badMutations) rejected() (n int) {
	for i := range b {
		if !b[i].joins {
			n++
		}
	}
	return n
}

// leading returns how many of the first mutations are bad, without a good one among them.
func (b badMutations) leading() (n int) {
	for n < len(b) && b[n].at == n {
		n++
	}
	return n
}

// trailing returns how many of the last of all n mutations are bad, without a good one among them.
func (b badMutations) trailing(n int) (last int) {
	for last < len(b) && b[len(b)-1-last].at == n-1-last {
		last++
	}
	return last
}

func (b badMutations) bytes() (n int64) {
	for i := range b {
		n += b[i].letter.Size()
	}
	return n
}
