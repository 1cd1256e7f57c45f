package server

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"net/url"
	"strings"
)

// credentials returns the tokens that a request may mean, the likelier first: that of the header
// Authorization (Token, Bearer, Basic, or Token user:token), or that of the parameters u and p.
func credentials(r *http.Request, params url.Values) []string {
	scheme, rest, _ := strings.Cut(strings.TrimSpace(r.Header.Get("Authorization")), " ")
	rest = strings.TrimSpace(rest)
	switch {
	case strings.EqualFold(scheme, "Basic"):
		if _, password, ok := r.BasicAuth(); ok {
			return []string{password}
		}
	case rest == "":
	case strings.EqualFold(scheme, "Bearer"):
		return []string{rest}
	case strings.EqualFold(scheme, "Token"):
		if _, password, ok := strings.Cut(rest, ":"); ok {
			return []string{rest, password}
		}
		return []string{rest}
	}
	if p := params.Get("p"); p != "" && scheme == "" {
		return []string{p}
	}
	return nil
}

// principal returns who sends the request.
func (s *Server) principal(r *http.Request, params url.Values) (Principal, *problem) {
	tokens := credentials(r, params)
	for _, token := range tokens {
		if token == "" {
			continue
		}
		if p, ok := s.deps.Authorizer.Authorize(r.Context(), token); ok {
			return p, nil
		}
	}
	if len(tokens) == 0 {
		return Principal{}, problemf(http.StatusUnauthorized,
			"unauthorized access: send a token, as Authorization: Token …, as Basic password, or as parameter p")
	}
	return Principal{}, problemf(http.StatusUnauthorized, "unauthorized access: nobody has this token")
}

// Tokens is an Authorizer that knows a fixed set of tokens. It keeps their hashes only.
type Tokens struct{ known []knownToken }

type knownToken struct {
	sum       [sha256.Size]byte
	principal Principal
}

// NewTokens returns an Authorizer for these tokens; empty ones are left out.
func NewTokens(tokens map[string]Principal) *Tokens {
	t := &Tokens{}
	for token, p := range tokens {
		if token != "" {
			t.known = append(t.known, knownToken{sha256.Sum256([]byte(token)), p})
		}
	}
	return t
}

// Authorize implements Authorizer. All known tokens are compared, each in constant time.
func (t *Tokens) Authorize(_ context.Context, token string) (p Principal, ok bool) {
	sum := sha256.Sum256([]byte(token))
	for i := range t.known {
		if subtle.ConstantTimeCompare(sum[:], t.known[i].sum[:]) == 1 {
			p, ok = t.known[i].principal, true
		}
	}
	return p, ok
}
