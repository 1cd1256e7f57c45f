package api

import (
	"net/http"
	"strconv"
	"time"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/internal/metadata"
	"github.com/tailrace-cdc/tailrace/internal/replication"
	"github.com/tailrace-cdc/tailrace/internal/server"
)

func (a *API) pause(c *call) error  { return a.setPaused(c, true) }
func (a *API) resume(c *call) error { return a.setPaused(c, false) }

func (a *API) setPaused(c *call, paused bool) error {
	s, err := a.replication(c, server.Write)
	if err != nil {
		return err
	}
	if s, err = a.service.Pause(c.Context(), s.ID, paused); err != nil {
		return err
	}
	return c.answer(http.StatusOK, a.show(c.Context(), s))
}

func (a *API) flush(c *call) error {
	s, err := a.replication(c, server.Write)
	if err != nil {
		return err
	}
	if err := a.service.Flush(c.Context(), s.ID); err != nil {
		return err
	}
	return c.answer(http.StatusOK, a.show(c.Context(), s))
}

type purged struct {
	Points int64 `json:"points"`
	Bytes  int64 `json:"bytes"`
}

func (a *API) purge(c *call) error {
	s, err := a.replication(c, server.Write)
	if err != nil {
		return err
	}
	lost, err := a.service.Purge(c.Context(), s.ID)
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, purged{lost.Points, lost.Bytes})
}

type deadLetter struct {
	ID int64 `json:"id"`
	// Table is the measurement, Operation what was to be done, and Payload the line as it came.
	Table     string    `json:"table"`
	Operation string    `json:"operation"`
	Payload   string    `json:"payload"`
	Reason    string    `json:"reason"`
	Time      time.Time `json:"time"`
}

type letterList struct {
	DeadLetters []deadLetter `json:"deadLetters"`
	// Next is the parameter after for what follows; 0 if nothing does.
	Next int64 `json:"next"`
}

const (
	usualLetters = 100
	mostLetters  = 1000
)

func (a *API) listLetters(c *call) error {
	s, err := a.replication(c, server.Read)
	if err != nil {
		return err
	}
	after, limit := int64(0), usualLetters
	if text := c.URL.Query().Get("after"); text != "" {
		if after, err = strconv.ParseInt(text, 10, 64); err != nil {
			return refuse(http.StatusBadRequest, "parameter after is no number")
		}
	}
	if text := c.URL.Query().Get("limit"); text != "" {
		if limit, err = strconv.Atoi(text); err != nil || limit < 1 || limit > mostLetters {
			return refuse(http.StatusBadRequest, "parameter limit: give a number from 1 to %d", mostLetters)
		}
	}
	letters, err := a.service.Letters(c.Context(), s.ID, after, limit)
	if err != nil {
		return noLetters(err)
	}
	doc := letterList{DeadLetters: []deadLetter{}}
	for _, l := range letters {
		doc.DeadLetters = append(doc.DeadLetters, deadLetter{l.ID, l.Table, l.Op.String(), string(l.Payload), l.Reason, l.Time.UTC()})
	}
	if len(letters) == limit {
		doc.Next = letters[len(letters)-1].ID
	}
	return c.answer(http.StatusOK, doc)
}

type lettersBody struct {
	// IDs are the letters; All stands for all that there are.
	IDs []int64 `json:"ids"`
	All bool    `json:"all"`
}

type lettersDone struct {
	Count int `json:"count"`
}

func (a *API) replayLetters(c *call) error { return a.handleLetters(c, a.service.ReplayLetters) }

func (a *API) dropLetters(c *call) error { return a.handleLetters(c, a.service.DropLetters) }

// handleLetters has something done with the letters that the body names.
func (a *API) handleLetters(c *call, do replication.LetterFunc) error {
	s, err := a.replication(c, server.Write)
	if err != nil {
		return err
	}
	var body lettersBody
	if err := c.decode(&body); err != nil {
		return err
	}
	if body.All == (len(body.IDs) > 0) {
		return refuse(http.StatusBadRequest, "give ids, or all: true")
	}
	n, err := a.service.EachLetter(c.Context(), s.ID, body.IDs, do)
	if stayed := new(replication.StayedError); errors.As(err, &stayed) {
		return refuse(http.StatusUnprocessableEntity, "%d were replayed, %v", n, stayed)
	}
	if err != nil {
		return noLetters(err)
	}
	return c.answer(http.StatusOK, lettersDone{n})
}

// noLetters words what keeps letters from being reached.
func noLetters(err error) error {
	if errors.Is(err, replication.ErrNoLetters) || errors.Is(err, replication.ErrNotRunning) {
		return &server.Failure{Status: http.StatusUnprocessableEntity, Code: "conflict", Message: err.Error()}
	}
	if gone := new(metadata.NotFoundError); errors.As(err, &gone) {
		return err
	}
	return &server.Failure{Status: http.StatusServiceUnavailable, Message: "the dead letters cannot be reached: " + err.Error()}
}
