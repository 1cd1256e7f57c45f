package api

import (
	"crypto/sha256"

	"github.com/tailrace-cdc/tailrace/internal/replication"
	"github.com/tailrace-cdc/tailrace/internal/server"
)

// Principal returns whose token it is, if it is one that was created over the API. Tokens are looked up
// by their hashes, so that the time that it takes tells nothing about them.
func Principal(service *replication.Service, token string) (server.Principal, bool) {
	t, ok := service.FindToken(sha256.Sum256([]byte(token)))
	if !ok {
		return server.Principal{}, false
	}
	p := server.Principal{Name: "authorization " + t.ID.String()}
	for _, permission := range t.Permissions {
		g := server.Grant{Action: permission.Action, Type: permission.Type}
		if permission.ID != 0 {
			g.ID = permission.ID.String()
		}
		if permission.OrgID != 0 {
			g.OrgID = permission.OrgID.String()
		}
		p.Grants = append(p.Grants, g)
	}
	return p, true
}
