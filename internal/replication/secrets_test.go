package replication

import (
	"strconv"
	"strings"
	"testing"

	"github.com/tailrace-cdc/tailrace/internal/metadata"
)

// TestStoredSecretsAreTakenOutOfAddresses has addresses in the metadata in which nobody had recognised the
// password.
func TestStoredSecretsAreTakenOutOfAddresses(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	store := func(url string) metadata.ID {
		r, err := s.store.CreateRemote(t.Context(), metadata.Remote{OrgID: s.org.ID, Name: "r" + strconv.Itoa(len(url)), URL: url})
		must(t, err)
		return r.ID
	}
	mended, malformed := store("postgres://u@h/db?password=hunter2"), store("postgres://u@h/db?password=hun;ter2")
	s.restart()
	r, err := s.service.Remote(t.Context(), mended)
	must(t, err)
	if r.URL != "postgres://u@h/db" || r.Secret != "hunter2" {
		t.Errorf("stored is %s with the secret %q", r.URL, r.Secret)
	}
	if !s.log.says("remoteURL", malformed.String()) || strings.Contains(s.log.String(), "hun;ter2") {
		t.Errorf("the log about the other: %s", s.log.String())
	}
}
