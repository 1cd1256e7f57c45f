package influx

import (
	"bytes"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/pkg/errors"
)

// An outcome is what an answer means for the lines that were sent.
type outcome uint8

const (
	// accepted: all of them are stored.
	accepted outcome = iota
	// unsettled: nothing is known of them; they are to be sent again.
	unsettled
	// rejected: at least one of them will never be accepted.
	rejected
	// tooLarge: there are too many of them for one request.
	tooLarge
)

// A verdict is what an answer means.
type verdict struct {
	outcome outcome
	// err says why: for unsettled with its class and a hint, for rejected the remote's reason.
	err error
	// lines are the ones that were rejected, where the remote names them; all others are stored then.
	lines []lineError
	// maxLength is the largest request that the remote says it takes, or 0.
	maxLength int
	// misrouted says that there is no write API where it was looked for.
	misrouted bool
}

// A lineError is what a remote says of one line.
type lineError struct {
	line   int // counted from 0
	reason error
}

// judge says what an answer to a write means. known says that it comes from something that is known to be
// an InfluxDB. It has no effect.
func (t *Target) judge(kind Kind, a *answer, known bool) verdict {
	status := a.status
	after := time.Duration(0)
	if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable {
		after = retryAfter(a.header.Get("Retry-After"), t.facts.now())
	}
	again := func(hint, format string, args ...any) verdict {
		return verdict{outcome: unsettled, err: t.retry(after, hint, format, args...)}
	}
	m := parseMessage(a)
	switch {
	case status == http.StatusNoContent:
		return verdict{}
	case status/100 == 2:
		return t.judgeSuccess(a, m, known)
	case status/100 == 3:
		return again("give the remote's own URL; redirects are never followed, because a write would arrive empty",
			"it redirects to %s (status %d)", where(a.header.Get("Location")), status)
	case status == http.StatusUnauthorized:
		return again("give a token, or a user and a password, that the remote knows", "it does not know who we are: %s", a.brief())
	case status == http.StatusForbidden:
		return again("allow the token to write to bucket "+t.cfg.Bucket, "it does not let us write: %s", a.brief())
	case status == http.StatusRequestEntityTooLarge:
		return verdict{outcome: tooLarge, maxLength: m.maxLength, err: errors.New(t.plain(a.brief()))}
	case status == http.StatusNotFound && m.missing():
		return again("make it there again; what was written to it here waits in the queue",
			"bucket %s is gone or was never there: %s", t.cfg.Bucket, m.text)
	case status == http.StatusNotFound || status == http.StatusMethodNotAllowed:
		v := again("give the URL under which the API is, with its path prefix", "it takes no writes there: %s", a.brief())
		v.misrouted = true
		return v
	case m.aboutLines(status, known):
		return verdict{outcome: rejected, err: errors.New(t.plain(m.text)), lines: t.lineErrors(kind, m)}
	case status == http.StatusTooManyRequests:
		return again("", "it asks for fewer requests: %s", a.brief())
	case status == http.StatusBadRequest || status == http.StatusUnprocessableEntity:
		return again("compare organisation, bucket and retention policy with those that the remote has", "it does not take the request: %s", a.brief())
	case status >= 500:
		return again("look at the remote's log", "it is in trouble: %s", a.brief())
	}
	return again("look at what is between here and the remote", "it answers with %s", a.brief())
}

// judgeSuccess believes a success only if it comes from an InfluxDB: a captive portal says 200 too.
func (t *Target) judgeSuccess(a *answer, m message, known bool) verdict {
	const hint = "sign in to the network, or give the remote's own URL; nothing counts as sent"
	var err error
	switch {
	case looksLikeHTML(a):
		err = t.retry(0, hint, "a web page answers (status %d) in place of an InfluxDB", a.status)
	case m.isError:
		err = t.retry(0, "look at the remote's log", "status %d comes with an error: %s", a.status, m.text)
	case !known:
		err = t.retry(0, hint, "status %d comes from something that does not say it is an InfluxDB", a.status)
	default:
		return verdict{}
	}
	return verdict{outcome: unsettled, err: err}
}

// lineErrors returns the lines that the remote names, or nil unless each of them could be read.
func (t *Target) lineErrors(kind Kind, m message) []lineError {
	if kind != V3 || len(m.lines) == 0 {
		return nil
	}
	lines := make([]lineError, 0, len(m.lines))
	for _, l := range m.lines {
		if l.Line < 1 {
			return nil
		}
		reason := l.Message
		if reason == "" {
			reason = m.text
		}
		lines = append(lines, lineError{line: l.Line - 1, reason: errors.New(t.plain(reason))})
	}
	return lines
}

// brief is an answer in a few words.
func (a *answer) brief() string {
	text := parseMessage(a).text
	if looksLikeHTML(a) {
		text = "a web page"
	}
	status := strings.TrimSpace(http.StatusText(a.status))
	head := strings.TrimSpace("status " + itoa(a.status) + " " + status)
	if text == "" {
		return head
	}
	return head + ": " + text
}

func looksLikeHTML(a *answer) bool {
	if kind, _, err := mime.ParseMediaType(a.header.Get("Content-Type")); err == nil && (kind == "text/html" || kind == "application/xhtml+xml") {
		return true
	}
	start := bytes.ToLower(bytes.TrimLeft(a.body[:min(len(a.body), 512)], " \t\r\n\ufeff"))
	return bytes.HasPrefix(start, []byte("<!doctype html")) || bytes.HasPrefix(start, []byte("<html")) || bytes.HasPrefix(start, []byte("<head"))
}

// where returns a redirect's goal without what could be secret in it.
func where(location string) string {
	u, err := url.Parse(location)
	if err != nil || location == "" {
		return "nowhere"
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return u.String()
}

// maxRetryAfter bounds what a remote can ask for.
const maxRetryAfter = time.Hour

// retryAfter reads the header of that name: seconds, or a date.
func retryAfter(text string, now time.Time) time.Duration {
	text = strings.TrimSpace(text)
	if text == "" {
		return 0
	}
	if d, err := time.ParseDuration(text + "s"); err == nil {
		return min(max(d, 0), maxRetryAfter)
	}
	if strings.Trim(text, "0123456789") == "" { // more seconds than a Duration holds
		return maxRetryAfter
	}
	if at, err := http.ParseTime(text); err == nil {
		return min(max(at.Sub(now), 0), maxRetryAfter)
	}
	return 0
}
