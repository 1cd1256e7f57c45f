package server

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

const noStore = "Tailrace stores no time series and answers no queries: ask the InfluxDB or the database that it replicates to"

// notImplemented answers routes of InfluxDB that cannot exist here.
func notImplemented(why string) handler {
	return func(http.ResponseWriter, *http.Request) *problem {
		return problemf(http.StatusNotImplemented, "%s", why)
	}
}

// maxQuery is the most that a query may have.
const maxQuery = 64 << 10

// query answers /query: what clients of InfluxDB 1.x ask before they write.
func (s *Server) query(w http.ResponseWriter, r *http.Request) *problem {
	params, p := s.queryParams(w, r)
	if p != nil {
		return p
	}
	who, p := s.principal(r, params)
	if p != nil {
		return p
	}
	statements, ok := parseStatements(params.Get("q"))
	switch {
	case !ok:
		return problemf(http.StatusBadRequest, `error parsing query: unbalanced quotes in parameter "q"`)
	case len(statements) == 0:
		return problemf(http.StatusBadRequest, `missing required parameter "q"`)
	}
	results := make([]result, 0, len(statements))
	for i, st := range statements {
		res, p := s.statement(r, who, st)
		if p != nil {
			return p
		}
		res.ID = i
		results = append(results, res)
	}
	writeJSON(w, http.StatusOK, struct {
		Results []result `json:"results"`
	}{results})
	return nil
}

// queryParams returns the parameters of the URL and, for POST, of the form.
func (s *Server) queryParams(w http.ResponseWriter, r *http.Request) (url.Values, *problem) {
	var b body
	if r.Method == http.MethodPost {
		b.reset(w, r, &s.cfg, maxQuery)
		r.Body = struct {
			*body
			noClose
		}{body: &b}
	}
	if err := r.ParseForm(); err != nil {
		if b.err != nil {
			return nil, b.problem()
		}
		return nil, problemf(http.StatusBadRequest, "the parameters of the query are malformed, too long or too slow")
	}
	return r.Form, nil
}

type noClose struct{}

// Close implements io.Closer; the server closes the body itself.
func (noClose) Close() error { return nil }

type result struct {
	ID     int     `json:"statement_id"`
	Series []table `json:"series,omitempty"`
}

type table struct {
	Name    string     `json:"name"`
	Columns []string   `json:"columns"`
	Values  [][]string `json:"values,omitempty"`
}

// statement carries out one statement. The text of a statement is in no error: it may hold a password.
func (s *Server) statement(r *http.Request, who Principal, words []string) (result, *problem) {
	is := func(at int, want ...string) bool {
		return len(words) >= at+len(want) && slices.EqualFunc(words[at:at+len(want)], want, strings.EqualFold)
	}
	switch {
	case is(0, "SHOW", "DATABASES") && len(words) == 2:
		return s.showDatabases(r, who)
	case is(0, "CREATE", "DATABASE"):
		at := 2
		if is(2, "IF", "NOT", "EXISTS") {
			at = 5
		}
		if len(words) <= at || len(words) > at+1 && !is(at+1, "WITH") {
			return result{}, problemf(http.StatusBadRequest, `error parsing query: expected CREATE DATABASE "name"`)
		}
		return s.createDatabase(r, who, unquote(words[at]))
	}
	return result{}, problemf(http.StatusNotImplemented, "%s (only CREATE DATABASE and SHOW DATABASES are understood)", noStore)
}

func (s *Server) showDatabases(r *http.Request, who Principal) (result, *problem) {
	t := table{Name: "databases", Columns: []string{"name"}}
	if s.deps.Databases != nil {
		buckets, err := s.deps.Databases.List(r.Context())
		if err != nil {
			return result{}, s.intakeProblem(err)
		}
		for _, b := range buckets {
			if who.MayRead(b) || who.MayWrite(b) {
				t.Values = append(t.Values, []string{b.Name})
			}
		}
	}
	return result{Series: []table{t}}, nil
}

func (s *Server) createDatabase(r *http.Request, who Principal, name string) (result, *problem) {
	const longest = 255
	switch {
	case r.Method != http.MethodPost:
		return result{}, problemf(http.StatusBadRequest, "CREATE DATABASE changes something: use POST")
	case name == "" || len(name) > longest || strings.ContainsFunc(name, func(c rune) bool { return c < ' ' }):
		return result{}, problemf(http.StatusBadRequest, "invalid database name")
	}
	org := orgOf(r.URL.Query())
	if b, p := s.bucket(r.Context(), org, name); p == nil && (who.MayWrite(b) || who.MayRead(b)) {
		return result{}, nil // It is there already, and that is no secret to this token.
	}
	if s.deps.Databases == nil {
		return result{}, problemf(http.StatusNotImplemented, "databases cannot be created here: create a bucket and a replication for it")
	}
	owner, err := s.deps.Databases.Owner(r.Context(), org)
	if err != nil {
		return result{}, s.intakeProblem(err)
	}
	if !who.May(Write, Resource{Type: "buckets", OrgID: owner}) {
		return result{}, problemf(http.StatusForbidden, "the token may not create databases")
	}
	if err := s.deps.Databases.Create(r.Context(), owner, name); err != nil {
		return result{}, s.intakeProblem(err)
	}
	return result{}, nil
}

// parseStatements splits a query into statements, and those into words. A quoted word keeps its
// quotes; ok is false if one has no end.
func parseStatements(q string) (statements [][]string, ok bool) {
	var words []string
	for i := 0; i < len(q); {
		switch c := q[i]; {
		case c == ';':
			if len(words) > 0 {
				statements, words = append(statements, words), nil
			}
			i++
		case strings.IndexByte(" \t\r\n", c) >= 0:
			i++
		case c == '"' || c == '\'':
			end := i + 1
			for end < len(q) && q[end] != c {
				if q[end] == '\\' {
					end++
				}
				end++
			}
			if end >= len(q) {
				return nil, false
			}
			words = append(words, q[i:end+1])
			i = end + 1
		default:
			end := strings.IndexAny(q[i:], " \t\r\n;\"'")
			if end < 0 {
				end = len(q) - i
			}
			words = append(words, q[i:i+end])
			i += end
		}
	}
	if len(words) > 0 {
		statements = append(statements, words)
	}
	return statements, true
}

// unquote returns what an identifier means.
func unquote(word string) string {
	if len(word) < 2 || word[0] != '"' {
		return word
	}
	return strings.NewReplacer(`\"`, `"`, `\\`, `\`, `\n`, "\n").Replace(word[1 : len(word)-1])
}
