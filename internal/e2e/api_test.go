package e2e

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
)

// api sends a request with the operator's token; ORG in the path or body stands for the id of the
// default organisation.
func (p *process) api(method, path, body string) (status int, text string) {
	p.t.Helper()
	send := func(method, path, body string) (int, string) {
		req, err := http.NewRequest(method, p.url+path, strings.NewReader(body))
		if err != nil {
			p.t.Fatal(err)
		}
		req.Header.Set("Authorization", "Token "+p.token())
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			p.t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		answer, err := io.ReadAll(resp.Body)
		if err != nil {
			p.t.Fatal(err)
		}
		return resp.StatusCode, string(answer)
	}
	if strings.Contains(path+body, "ORG") {
		var orgs struct{ Orgs []struct{ ID string } }
		if status, text := send(http.MethodGet, "/api/v2/orgs", ""); status != http.StatusOK || json.Unmarshal([]byte(text), &orgs) != nil || len(orgs.Orgs) == 0 {
			p.t.Fatalf("the organisations: %d %s", status, text)
		}
		path, body = strings.ReplaceAll(path, "ORG", orgs.Orgs[0].ID), strings.ReplaceAll(body, "ORG", orgs.Orgs[0].ID)
	}
	return send(method, path, body)
}

// must is api for a request that must succeed. Its answer is read into result, unless that is nil.
func (p *process) must(method, path, body string, result any) {
	p.t.Helper()
	status, text := p.api(method, path, body)
	if status/100 != 2 {
		p.t.Fatalf("%s %s: %d %s", method, path, status, text)
	}
	if result != nil {
		if err := json.Unmarshal([]byte(text), result); err != nil {
			p.t.Fatalf("%s %s: %v: %s", method, path, err, text)
		}
	}
}

// tryCreate makes a replication, as far as the server lives.
func (p *process) tryCreate(token, body string) (id string, ok bool) {
	status, text, err := p.post(token, "/api/v2/replications", body)
	var made created
	if err != nil || status != http.StatusCreated || json.Unmarshal([]byte(text), &made) != nil {
		return "", false
	}
	return made.ID, true
}

// tryDelete deletes a replication, as far as the server lives.
func (p *process) tryDelete(token, id string) bool {
	req, err := http.NewRequest(http.MethodDelete, p.url+"/api/v2/replications/"+id, nil)
	if err != nil {
		p.t.Error(err)
		return false
	}
	req.Header.Set("Authorization", "Token "+token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	_ = resp.Body.Close()
	return resp.StatusCode == http.StatusNoContent
}
