package api

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/tailrace-cdc/tailrace/internal/metadata"
)

// TestFaultsOfTheClientAreToldAsSuch has requests that are the client's mistake, each with the answer for it.
func TestFaultsOfTheClientAreToldAsSuch(t *testing.T) {
	t.Parallel()
	s := start(t)
	d := s.replication("a", s.remote("a"), document{"paused": true})
	letters := "/api/v2/replications/" + d.id() + "/deadletters"
	none := "/api/v2/replications/" + metadata.ID(1).String() + "/deadletters"
	most := strconv.Itoa(math.MaxInt)
	for _, c := range []struct {
		method, path, body string
		status             int
		says               string
	}{
		{"GET", "/api/v2/buckets?offset=1&limit=" + most, "", 200, `"buckets"`},
		{"GET", "/api/v2/buckets?limit=1&offset=" + most, "", 200, `"buckets": []`},
		{"POST", "/api/v2/buckets", `{"name":"` + strings.Repeat("x", 1<<20) + `"}`, 413, `"request too large"`},
		{"POST", letters + "/replay", `{"ids":[1]}`, 422, `"conflict"`},
		{"POST", none + "/replay", `{"ids":[1]}`, 404, `"not found"`},
		{"GET", none, "", 404, `"not found"`},
	} {
		if r := s.as(operator, c.method, c.path, c.body); r.status != c.status || !strings.Contains(r.body, c.says) {
			t.Errorf("%s %.80s: %d %.200s, want %d %s", c.method, c.path, r.status, r.body, c.status, c.says)
		}
	}
}

// TestDatabasesAreMadeInTheirOrganization by a token that may do everything there, and by none of another one.
func TestDatabasesAreMadeInTheirOrganization(t *testing.T) {
	t.Parallel()
	s := start(t)
	other, err := s.service.CreateOrg(t.Context(), metadata.Org{Name: "other"})
	must(t, err)
	for org, want := range map[metadata.ID]int{s.org.ID: 200, other.ID: 403} {
		var made document
		s.do(http.MethodPost, "/api/v2/authorizations", text(document{"orgID": org, "scope": "manage"}), 201, &made)
		r := s.as(made["token"].(string), http.MethodPost, "/query?q=CREATE+DATABASE+db"+strconv.Itoa(want), "")
		if r.status != want {
			t.Errorf("%d %s, want %d", r.status, r.body, want)
		}
	}
}
