package api

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers/legacy"
)

func description(t testing.TB) *openapi3.T {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromData(Document)
	must(t, err)
	must(t, doc.Validate(t.Context()))
	return doc
}

// TestDescriptionHasEveryRoute compares routes and document, in both directions.
func TestDescriptionHasEveryRoute(t *testing.T) {
	t.Parallel()
	described := map[string]bool{}
	for path, item := range description(t).Paths.Map() {
		for method := range item.Operations() {
			described[method+" "+path] = true
		}
	}
	for _, r := range New(nil, nil).Routes() {
		key := r.Method + " " + r.Pattern
		if !described[key] {
			t.Errorf("%s is not described", key)
		}
		delete(described, key)
	}
	for key := range described {
		t.Errorf("%s is described and does not exist", key)
	}
}

// TestDescriptionHasEveryField compares the fields of documents and bodies, in both directions.
func TestDescriptionHasEveryField(t *testing.T) {
	t.Parallel()
	schemas := description(t).Components.Schemas
	for name, v := range map[string]any{
		"Org": org{}, "OrgBody": orgBody{}, "Bucket": bucket{}, "BucketBody": bucketBody{}, "Authorization": authorization{},
		"AuthorizationBody": tokenBody{}, "Permission": permission{}, "PermissionResource": permissionTarget{}, "Remote": remote{},
		"RemoteCreate": remoteBody{}, "Replication": replicationDoc{}, "ReplicationCreate": replicationBody{}, "Purged": purged{},
		"DeadLetter": deadLetter{}, "DeadLetters": letterList{}, "Letters": lettersBody{}, "LettersDone": lettersDone{},
	} {
		var fields []string
		for i := range reflect.TypeOf(v).NumField() {
			field, _, _ := strings.Cut(reflect.TypeOf(v).Field(i).Tag.Get("json"), ",")
			fields = append(fields, field)
		}
		slices.Sort(fields)
		if described := slices.Sorted(maps.Keys(schemas[name].Value.Properties)); !slices.Equal(fields, described) {
			t.Errorf("%s has the fields\n%q, and is described with\n%q", name, fields, described)
		}
	}
	// What can be changed is what can be given, less what cannot change.
	for update, create := range map[string][]string{
		"RemoteUpdate": {"RemoteCreate", "orgID"}, "ReplicationUpdate": {"ReplicationCreate", "orgID", "localBucketID"},
		"AuthorizationUpdate": {"AuthorizationBody", "orgID", "permissions", "scope", "bucketID"},
	} {
		want := maps.Clone(schemas[create[0]].Value.Properties)
		for _, fixed := range create[1:] {
			delete(want, fixed)
		}
		if got := schemas[update].Value.Properties; !slices.Equal(slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want))) {
			t.Errorf("%s has %q, want %q", update, slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
		}
	}
}

// checked has every answer of a site checked against the description, and counts the operations that were
// answered with success.
func checked(t *testing.T, s *site) map[string]int {
	doc := description(t)
	doc.Servers = nil // the router takes them for a prefix
	router, err := legacy.NewRouter(doc)
	must(t, err)
	answered := map[string]int{}
	s.answers = func(req *http.Request, r reply) {
		if strings.HasPrefix(req.URL.Path, "/api/v2/write") {
			return
		}
		route, params, err := router.FindRoute(req)
		if err != nil {
			t.Errorf("%s %s: %v", req.Method, req.URL, err)
			return
		}
		err = openapi3filter.ValidateResponse(t.Context(), &openapi3filter.ResponseValidationInput{
			RequestValidationInput: &openapi3filter.RequestValidationInput{Request: req, PathParams: params, Route: route},
			Status:                 r.status, Header: r.header, Body: io.NopCloser(bytes.NewReader([]byte(r.body))),
			Options: &openapi3filter.Options{IncludeResponseStatus: true, MultiError: true, AuthenticationFunc: openapi3filter.NoopAuthenticationFunc},
		})
		if err != nil {
			t.Errorf("%s %s: the answer is not as described: %v\n%s", req.Method, req.URL.Path, err, r.body)
		}
		if r.status < 300 {
			answered[route.Operation.OperationID]++
		}
	}
	return answered
}

// TestEveryAnswerIsAsDescribed calls every operation, with and without success.
func TestEveryAnswerIsAsDescribed(t *testing.T) {
	t.Parallel()
	s := start(t)
	answered := checked(t, s)
	walk(s)
	for path, item := range description(t).Paths.Map() {
		for method, op := range item.Operations() {
			if answered[op.OperationID] == 0 {
				t.Errorf("%s was never answered with success", op.OperationID)
			}
			for _, token := range []string{"", operator} {
				for _, id := range []string{"0000000000000001", "nonsense"} {
					for _, body := range []string{"{}", "no json"} {
						if r := s.as(token, method, strings.ReplaceAll(path, "{id}", id), body); r.status >= 500 {
							t.Errorf("%s %s: %d %s", method, path, r.status, r.body)
						}
					}
				}
			}
		}
	}
}

// walk calls every operation with success.
func walk(s *site) {
	org := fmt.Sprint(s.org.ID)
	var o, b, k document
	s.do("GET", "/api/v2/openapi.yaml", "", 200, nil)
	s.do("POST", "/api/v2/orgs", `{"name":"second"}`, 201, &o)
	s.do("GET", "/api/v2/orgs/"+o.id(), "", 200, nil)
	s.do("PATCH", "/api/v2/orgs/"+o.id(), `{"description":"for tests"}`, 200, nil)
	s.do("GET", "/api/v2/orgs", "", 200, nil)
	s.do("DELETE", "/api/v2/orgs/"+o.id(), "", 204, nil)
	s.do("POST", "/api/v2/buckets", text(document{"orgID": org, "name": "more", "retentionRules": []int{}}), 201, &b)
	s.do("GET", "/api/v2/buckets/"+b.id(), "", 200, nil)
	s.do("PATCH", "/api/v2/buckets/"+b.id(), `{"name":"less"}`, 200, nil)
	s.do("GET", "/api/v2/buckets?org=default", "", 200, nil)
	s.do("DELETE", "/api/v2/buckets/"+b.id(), "", 204, nil)
	s.do("POST", "/api/v2/authorizations", text(document{"orgID": org, "description": "for a sensor", "scope": "write", "bucketID": s.bucket.ID}), 201, &k)
	s.do("GET", "/api/v2/authorizations/"+k.id(), "", 200, nil)
	s.do("PATCH", "/api/v2/authorizations/"+k.id(), `{"status":"inactive"}`, 200, nil)
	s.do("GET", "/api/v2/authorizations?orgID="+org, "", 200, nil)
	s.do("DELETE", "/api/v2/authorizations/"+k.id(), "", 204, nil)
	r := s.remote("there")
	s.do("GET", "/api/v2/remotes/"+r.id(), "", 200, nil)
	s.do("PATCH", "/api/v2/remotes/"+r.id(), `{"description":"a file"}`, 200, nil)
	s.do("GET", "/api/v2/remotes?orgID="+org, "", 200, nil)
	p := s.replication("up", r, nil)
	path := "/api/v2/replications/" + p.id()
	s.do("POST", path+"/validate", "", 204, nil)
	s.do("POST", "/api/v2/write?bucket=default", "m v=1i 1\n", 204, nil)
	s.eventually("the point does not arrive", func() bool {
		var d document
		s.do("GET", path, "", 200, &d)
		return d["remainingBytesToBeSynced"] == 0.0
	})
	s.do("POST", "/api/v2/write?bucket=default", "m v=\"text\" 2\nm v=\"text\" 3\nm v=\"text\" 4\n", 204, nil)
	s.eventually("the letters do not come", func() bool {
		var d document
		s.do("GET", path, "", 200, &d)
		return d["deadLetters"] == 3.0
	})
	var letters struct {
		DeadLetters []document
		Next        float64
	}
	s.do("GET", path+"/deadletters?limit=2", "", 200, &letters)
	if len(letters.DeadLetters) != 2 || letters.Next == 0 || letters.DeadLetters[0]["payload"] != `m v="text" 2` {
		s.t.Errorf("the letters are %v", letters)
	}
	s.do("POST", path+"/deadletters/drop", text(document{"ids": []any{letters.DeadLetters[0]["id"]}}), 200, nil)
	s.do("POST", path+"/deadletters/drop", `{"all":true}`, 200, nil)
	s.do("POST", path+"/deadletters/replay", `{"all":true}`, 200, nil)
	s.do("GET", path+"/deadletters", "", 200, &letters)
	s.do("POST", path+"/pause", "", 200, nil)
	s.do("POST", "/api/v2/write?bucket=default", "m v=2i 2\n", 204, nil)
	s.do("POST", path+"/purge", "", 200, nil)
	s.do("POST", path+"/resume", "", 200, nil)
	s.do("POST", path+"/flush", "", 200, nil)
	s.do("PATCH", path, `{"maxQueueSizeBytes":2097152,"backfillWindow":"5m","fanShards":2,"filter":{"measurements":{"exclude":["debug*"]}}}`, 200, nil)
	s.do("PATCH", path+"?validate=true", `{"name":"x"}`, 204, nil)
	s.do("GET", "/api/v2/replications?orgID="+org, "", 200, nil)
	s.do("DELETE", path, "", 204, nil)
	s.do("DELETE", "/api/v2/remotes/"+r.id(), "", 204, nil)
	s.do("POST", "/api/v2/backup", "", 200, nil)
}
