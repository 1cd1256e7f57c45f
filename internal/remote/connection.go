package remote

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/tailrace-cdc/tailrace/internal/util/outbound"
	"github.com/tailrace-cdc/tailrace/logical"
)

// A Connection is all that opening a target takes.
type Connection struct {
	// Stream names the stream that an HTTP remote is opened for: such a target belongs to one stream,
	// and shows its traffic. Others are shared.
	Stream  string
	Address Address
	// Secret is the token or password.
	Secret string
	// Org and Bucket say where in an InfluxDB, each by id or name; empty for a database.
	Org, Bucket string
	// AllowInsecureTLS takes any certificate.
	AllowInsecureTLS bool
	// Outbound says which hosts may be connected to; nil, for an address that the operator gave, allows
	// every one.
	Outbound *outbound.Policy
}

// Opener opens a target. It needs no remote that can be reached: its errors are about the connection's
// settings.
type Opener func(ctx context.Context, c Connection) (logical.Target, error)

// Place says where the data goes, whatever the secret.
func (c Connection) Place() string {
	return fmt.Sprintf("%q %q %q", c.Address.Text, c.Org, c.Bucket)
}

// Server is equal for connections to one server with one secret, whatever is written there. It does not tell the
// secret.
func (c Connection) Server() string {
	c.Stream, c.Org, c.Bucket = "", "", ""
	return c.Key()
}

// Key is equal for connections that can share a target. It does not tell the secret.
func (c Connection) Key() string {
	place := c.Place()
	if c.Address.Kind == SQLite {
		place = c.Address.Path
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q %v %v", place, c.Stream, c.Secret, c.AllowInsecureTLS, c.Outbound != nil))
	return hex.EncodeToString(sum[:])
}
