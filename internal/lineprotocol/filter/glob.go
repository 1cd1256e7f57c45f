package filter

import (
	"errors"
	"unicode/utf8"
)

// A symbol is one part of a glob: a byte that stands for itself, or one of these two.
type symbol uint16

const (
	star symbol = 256 + iota // any characters
	one                      // exactly one character, or one byte that is no UTF-8
)

type glob []symbol

var errBackslash = errors.New("a backslash at the end has nothing to escape; write two for the backslash itself")

// parseGlob reads a glob. If it has no wildcard, literal is the only text that it matches, and isLiteral
// is true.
func parseGlob(text string) (g glob, literal string, isLiteral bool, err error) {
	var plain []byte
	isLiteral = true
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case '*':
			isLiteral = false
			if n := len(g); n == 0 || g[n-1] != star {
				g = append(g, star)
			}
		case '?':
			isLiteral = false
			g = append(g, one)
		case '\\':
			if i++; i == len(text) {
				return nil, "", false, errBackslash
			}
			fallthrough
		default:
			g, plain = append(g, symbol(text[i])), append(plain, text[i])
		}
	}
	return g, string(plain), isLiteral, nil
}

// match reports whether the whole of s matches. Where it fails behind a star, the star takes one
// character more; stars before the last one never need to.
func (g glob) match(s []byte) bool {
	at, i := 0, 0
	behind, taken := -1, 0 // the last star, and how far it reaches
	for i < len(s) {
		if at < len(g) {
			switch sym := g[at]; {
			case sym == star:
				at++
				behind, taken = at, i
				continue
			case sym == one:
				_, n := utf8.DecodeRune(s[i:])
				at, i = at+1, i+n
				continue
			case sym == symbol(s[i]):
				at, i = at+1, i+1
				continue
			}
		}
		if behind < 0 {
			return false
		}
		_, n := utf8.DecodeRune(s[taken:])
		taken += n
		at, i = behind, taken
	}
	for at < len(g) && g[at] == star {
		at++
	}
	return at == len(g)
}

// patterns are alternatives.
type patterns struct {
	literals map[string]struct{}
	globs    []glob
}

func (p *patterns) add(text string) error {
	g, literal, isLiteral, err := parseGlob(text)
	if err != nil {
		return err
	}
	if !isLiteral {
		p.globs = append(p.globs, g)
		return nil
	}
	if p.literals == nil {
		p.literals = map[string]struct{}{}
	}
	p.literals[literal] = struct{}{}
	return nil
}

func (p *patterns) empty() bool { return len(p.literals)+len(p.globs) == 0 }

func (p *patterns) match(s []byte) bool {
	if _, ok := p.literals[string(s)]; ok {
		return true
	}
	for _, g := range p.globs {
		if g.match(s) {
			return true
		}
	}
	return false
}

// absent reports whether a tag that is not there matches.
func (p *patterns) absent() bool {
	_, ok := p.literals[""]
	return ok
}
