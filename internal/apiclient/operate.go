package apiclient

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/pkg/errors"
)

// CreateToken makes a token, and returns its secret beside the document, which does not have it.
func (c *Client) CreateToken(ctx context.Context, body Body) (d Document[Token], secret string, err error) {
	var answer map[string]any
	if err := c.do(ctx, http.MethodPost, Tokens.path(), nil, body, &answer); err != nil {
		return d, "", err
	}
	secret, _ = answer["token"].(string)
	id, _ := answer["id"].(string)
	if secret == "" || id == "" {
		return d, "", errors.Errorf("%s does not answer like Tailrace", c.URL())
	}
	d, err = Tokens.Get(ctx, c, id)
	return d, secret, err
}

// Operate does something with a stream that has no more to say: pause, resume or flush. It returns the stream.
func (c *Client) Operate(ctx context.Context, id, what string) (d Document[Stream], err error) {
	return d, c.do(ctx, http.MethodPost, Streams.path(id, what), nil, nil, &d)
}

// Validate tries whether a stream could write to its remote.
func (c *Client) Validate(ctx context.Context, id string) error {
	return c.do(ctx, http.MethodPost, Streams.path(id, "validate"), nil, nil, nil)
}

// ValidateNew tries whether a stream could write to its remote, which is not made yet.
func (c *Client) ValidateNew(ctx context.Context, body Body) error {
	return c.do(ctx, http.MethodPost, Streams.path(), url.Values{"validate": {"true"}}, body, nil)
}

// ValidateChange tries whether a stream could write to its remote if it were changed.
func (c *Client) ValidateChange(ctx context.Context, id string, body Body) error {
	return c.do(ctx, http.MethodPatch, Streams.path(id), url.Values{"validate": {"true"}}, body, nil)
}

// Purged is what a purge has declared lost.
type Purged struct {
	Points int64 `json:"points"`
	Bytes  int64 `json:"bytes"`
}

// Purge declares everything lost that waits in a stream's queue.
func (c *Client) Purge(ctx context.Context, id string) (p Purged, err error) {
	return p, c.do(ctx, http.MethodPost, Streams.path(id, "purge"), nil, nil, &p)
}

// letterPage is how many letters are asked for at a time.
const letterPage = 1000

// Letters gives a stream's dead letters to a function, the oldest first, from the one after an id, until it
// returns false.
func (c *Client) Letters(ctx context.Context, id string, after int64, each func(Document[DeadLetter]) bool) error {
	for {
		var page struct {
			DeadLetters []Document[DeadLetter] `json:"deadLetters"`
			Next        int64                  `json:"next"`
		}
		query := url.Values{"after": {strconv.FormatInt(after, 10)}, "limit": {strconv.Itoa(letterPage)}}
		if err := c.do(ctx, http.MethodGet, Streams.path(id, "deadletters"), query, nil, &page); err != nil {
			return err
		}
		for _, l := range page.DeadLetters {
			if !each(l) {
				return nil
			}
		}
		if page.Next == 0 {
			return nil
		}
		after = page.Next
	}
}

// HandleLetters replays or drops the letters of these ids, or all if there are none. It returns how many.
func (c *Client) HandleLetters(ctx context.Context, id, what string, ids []int64) (int, error) {
	body := Body{"all": true}
	if len(ids) > 0 {
		body = Body{"ids": ids}
	}
	var done struct{ Count int }
	err := c.do(ctx, http.MethodPost, Streams.path(id, "deadletters", what), nil, body, &done)
	return done.Count, err
}

// Backup writes a backup of the server. What is written when it fails is none.
func (c *Client) Backup(ctx context.Context, w io.Writer, withQueues, withKey bool) error {
	query := url.Values{"withQueues": {strconv.FormatBool(withQueues)}, "withKey": {strconv.FormatBool(withKey)}}
	resp, err := c.send(ctx, http.MethodPost, "/api/v2/backup", query, nil)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // it has been read
	if _, err := io.Copy(w, resp.Body); err != nil {
		return errors.Wrapf(err, "the backup of %s broke off; its log says more", c.URL())
	}
	return nil
}
