package influx

import (
	"sync"
	"time"

	"github.com/tailrace-cdc/tailrace/logical"
)

// calm keeps all requests back while the remote has asked to be left alone.
type calm struct {
	mu    sync.Mutex
	until time.Time
	err   *logical.Error
}

// ask keeps requests back for as long as the error says.
func (c *calm) ask(err *logical.Error, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if until := now.Add(err.RetryAfter); until.After(c.until) {
		c.until, c.err = until, err
	}
}

// broken returns the error that asked for calm, with what is left of its time, or nil.
func (c *calm) broken(now time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	left := c.until.Sub(now)
	if left <= 0 {
		return nil
	}
	again := *c.err
	again.RetryAfter = left
	return &again
}
