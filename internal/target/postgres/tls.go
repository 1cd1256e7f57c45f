package postgres

import (
	"crypto/tls"

	"github.com/jackc/pgx/v5/pgconn"
)

// A tlsLevel says what is known of a connection's other end.
type tlsLevel string

const (
	tlsNone     tlsLevel = "none"
	tlsUnknown  tlsLevel = "encrypted, server not verified"
	tlsCA       tlsLevel = "encrypted, certificate verified, name not"
	tlsVerified tlsLevel = "encrypted, server verified"
)

// tlsOf returns what is in force on a connection; sslmode is only what was asked for.
func tlsOf(c *pgconn.PgConn, cfg *pgconn.Config) tlsLevel {
	conn, ok := c.Conn().(*tls.Conn)
	if !ok {
		return tlsNone
	}
	asked := cfg.TLSConfig
	for _, f := range cfg.Fallbacks {
		if asked == nil {
			asked = f.TLSConfig
		}
	}
	switch {
	case asked == nil:
		return tlsUnknown
	case !asked.InsecureSkipVerify && len(conn.ConnectionState().VerifiedChains) > 0:
		return tlsVerified
	case asked.VerifyPeerCertificate != nil || asked.VerifyConnection != nil:
		return tlsCA
	}
	return tlsUnknown
}
