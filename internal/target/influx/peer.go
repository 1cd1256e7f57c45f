package influx

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	stderrors "errors"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/tailrace-cdc/tailrace/logical"
)

// peer is what is known of the remote.
type peer struct {
	mu      sync.Mutex
	kind    Kind   // "" while it is not known
	version string // as the remote says it; "" if it does not
	// known says that the remote has shown itself to be an InfluxDB, or something that speaks like one.
	known bool
}

func (p *peer) get() (kind Kind, version string, known bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.kind, p.version, p.known
}

func (p *peer) set(kind Kind, version string, known bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.kind, p.version, p.known = kind, version, known
}

// forget has the remote asked again: it may have become another one.
func (p *peer) forget() { p.set("", "", false) }

// kindOf returns which API the remote has, and asks it if that is not known.
func (t *Target) kindOf(ctx context.Context) (Kind, error) {
	kind, _, _ := t.peer.get()
	if kind != "" {
		return kind, nil
	}
	if t.cfg.Kind != Auto {
		t.peer.set(t.cfg.Kind, "", false)
		return t.cfg.Kind, nil
	}
	return t.probe(ctx)
}

// probe asks the remote what it is.
func (t *Target) probe(ctx context.Context) (Kind, error) {
	a, err := t.exchange(ctx, request{method: http.MethodGet, path: []string{"ping"}, kind: t.cfg.Kind})
	if err != nil {
		err := t.noAnswer(ctx, err)
		t.failed(0, err)
		return "", err
	}
	if err := t.strange(a); err != nil {
		t.failed(a.status, err)
		return "", err
	}
	version := a.header.Get("X-Influxdb-Version")
	known := version != "" || a.header.Get("X-Influxdb-Build") != ""
	if !known {
		if version, known, err = t.health(ctx); err != nil {
			return "", err
		}
	}
	kind := t.cfg.Kind
	if kind == Auto {
		kind = t.guess(version, a.header.Get("X-Influxdb-Build"))
	}
	t.peer.set(kind, version, known)
	t.cfg.Logger.Info("the remote was asked what it is", "remote", t.cfg.URL, "api", string(kind), "version", t.plain(version), "recognised", known)
	return kind, nil
}

// strange returns an error if an answer to a question is none that an InfluxDB gives, or a proxy in front
// of it that lets nothing but writes pass: what that says to a write is what counts.
func (t *Target) strange(a *answer) error {
	switch a.status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed:
		return nil
	}
	if a.status/100 == 2 && !looksLikeHTML(a) {
		return nil
	}
	v := t.judge(V2, a, true)
	if v.outcome != unsettled {
		return t.retry(0, "look at what is behind the URL", "it answers a question with %s", a.brief())
	}
	t.listen(v)
	return v.err
}

// listen notes that the remote has asked to be left alone, if it has.
func (t *Target) listen(v verdict) {
	if e, ok := stderrors.AsType[*logical.Error](v.err); ok && e.RetryAfter > 0 {
		t.calm.ask(e, t.facts.now())
	}
}

// health asks those that say nothing in their headers.
func (t *Target) health(ctx context.Context) (version string, known bool, err error) {
	a, err := t.exchange(ctx, request{method: http.MethodGet, path: []string{"health"}, kind: t.cfg.Kind})
	if err != nil {
		return "", false, t.noAnswer(ctx, err)
	}
	var doc struct {
		Name    string `json:"name"`
		Version string `json:"version"`
	}
	if json.Unmarshal(a.body, &doc) != nil {
		doc.Name, doc.Version = "", ""
	}
	if version = a.header.Get("X-Influxdb-Version"); version == "" {
		version = doc.Version
	}
	known = a.header.Get("X-Influxdb-Version") != "" || strings.EqualFold(doc.Name, "influxdb")
	return version, known, nil
}

// guess chooses the API from what the remote says of itself, and from what it takes to write there.
func (t *Target) guess(version, build string) Kind {
	number := strings.TrimPrefix(version, "v")
	switch {
	case strings.HasPrefix(number, "1."):
		return V1
	case strings.HasPrefix(number, "2.") || strings.EqualFold(build, "Cloud"):
		return V2
	case strings.HasPrefix(number, "3.") && !strings.EqualFold(build, "OSS"):
		return V3
	case t.cfg.Org == "" && (t.cfg.Username != "" || strings.Contains(t.cfg.Bucket, "/")):
		return V1
	}
	return V2
}

// Ping asks the remote whether it is there. It shows that a delay between two tries may end, unless the
// remote asked for that delay: then Ping returns what it said, and asks nothing.
func (t *Target) Ping(ctx context.Context) error {
	if err := t.calm.broken(t.facts.now()); err != nil {
		return err
	}
	a, err := t.exchange(ctx, request{method: http.MethodGet, path: []string{"ping"}, kind: t.cfg.Kind})
	if err != nil {
		return t.noAnswer(ctx, err)
	}
	return t.strange(a)
}

// Check tests with a write of nothing whether the remote takes writes: address, token and bucket. It
// needs no more than the right to write to that bucket.
func (t *Target) Check(ctx context.Context) error {
	kind, err := t.kindOf(ctx)
	if err != nil {
		return err
	}
	a, err := t.exchange(ctx, t.write(kind, &body{}))
	if err != nil {
		return t.noAnswer(ctx, err)
	}
	v := t.judge(kind, a, t.knows(a))
	if v.outcome == accepted {
		return nil
	}
	// InfluxDB 3 says that there is nothing to write: it has looked at everything else by then.
	if kind == V3 && a.status == http.StatusBadRequest && t.knows(a) && saysNothingToWrite(a.body) {
		return nil
	}
	return v.err
}

// saysNothingToWrite reports whether an answer is one of those that InfluxDB 3 gives to an empty write.
func saysNothingToWrite(body []byte) bool {
	body = bytes.ToLower(body)
	for _, phrase := range []string{"no lines to write", "incoming write was empty"} {
		if bytes.Contains(body, []byte(phrase)) {
			return true
		}
	}
	return false
}

// knows reports whether an answer comes from something that is known to be an InfluxDB.
func (t *Target) knows(a *answer) bool {
	if a.header.Get("X-Influxdb-Version") != "" {
		return true
	}
	_, _, known := t.peer.get()
	return known
}

// plain takes out of a text of the remote what could disturb a log or show a secret, and shortens it.
func (t *Target) plain(text string) string {
	for _, secret := range []string{t.cfg.Token, t.cfg.Password} {
		if len(secret) < 4 {
			continue
		}
		for _, form := range []string{
			secret, base64.StdEncoding.EncodeToString([]byte(t.cfg.Username + ":" + secret)), url.QueryEscape(secret), url.PathEscape(secret),
		} {
			text = strings.ReplaceAll(text, form, "…")
		}
	}
	text = strings.Map(func(c rune) rune {
		if c < ' ' || c == 0x7f {
			return ' '
		}
		return c
	}, strings.ToValidUTF8(text, "\uFFFD"))
	const most = 1000
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return strings.TrimSpace(text)
}
