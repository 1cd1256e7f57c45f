package api

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestBackupThatFailsIsNoAnswer: NOTHING SILENT. A backup that fails at once is an error, and one that fails
// when part of it is sent breaks off.
func TestBackupThatFailsIsNoAnswer(t *testing.T) {
	t.Parallel()
	s := start(t)
	if r := s.as(operator, http.MethodPost, "/api/v2/backup?withQueues=true", ""); r.status != 200 || r.body != "a backup true false" || r.header.Get("Content-Type") != "application/zstd" {
		t.Errorf("a backup: %d %q %v", r.status, r.body, r.header)
	}
	if r := s.as(operator, http.MethodPost, "/api/v2/backup?withKey=true", ""); r.status != 500 || !strings.Contains(r.body, "nothing to be had") {
		t.Errorf("one that fails at once: %d %q", r.status, r.body)
	}
	req, err := http.NewRequest(http.MethodPost, s.url+"/api/v2/backup?withKey=true&withQueues=true", nil)
	must(t, err)
	req.Header.Set("Authorization", "Token "+operator)
	resp, err := s.client.Do(req)
	if err == nil {
		_, err = io.ReadAll(resp.Body)
		_ = resp.Body.Close()
	}
	if err == nil {
		t.Error("one that fails in the middle ends like one that does not")
	}
}
