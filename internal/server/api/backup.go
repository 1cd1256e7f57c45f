package api

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/tailrace-cdc/tailrace/internal/server"
)

// A Backup writes a backup of the installation; see package backup. What it has written when it fails is none.
type Backup func(ctx context.Context, w io.Writer, withQueues, withKey bool) error

// backup answers with a backup. Because it holds everything of every organisation, it is for those who may do
// everything.
func (a *API) backup(c *call) error {
	if !c.who.Manage {
		return refuse(http.StatusForbidden, "the token may not do this: a backup takes the operator's token")
	}
	if a.backUp == nil {
		return refuse(http.StatusNotImplemented, "this server cannot be backed up")
	}
	option := func(name string) bool { return c.URL.Query().Get(name) == "true" }
	w := &download{c: c}
	err := a.backUp(c.Context(), w, option("withQueues"), option("withKey"))
	switch {
	case err == nil:
		return nil
	case !w.begun:
		return &server.Failure{Status: http.StatusInternalServerError, Message: "the backup failed: " + err.Error()}
	}
	panic(http.ErrAbortHandler) // a client must not take what it has for the whole
}

// download is an answer that takes as long as the client reads.
type download struct {
	c     *call
	begun bool
}

// readWithin is how long a client may take to read a piece.
const readWithin = time.Minute

// Write implements io.Writer.
func (d *download) Write(b []byte) (int, error) {
	if !d.begun {
		d.begun = true
		d.c.w.Header().Set("Content-Type", "application/zstd")
		d.c.w.WriteHeader(http.StatusOK)
	}
	_ = http.NewResponseController(d.c.w).SetWriteDeadline(time.Now().Add(readWithin)) // not every connection has one
	return d.c.w.Write(b)
}
