package telemetry

import (
	"bytes"
	"context"
	"encoding/json"
	stderrors "errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"time"

	"github.com/pkg/errors"
)

// DefaultInterval is how often a server reports.
const DefaultInterval = 8 * time.Hour

// Config of a Reporter.
type Config struct {
	// URL takes the reports. Required: http or https, without a user.
	URL string
	// Interval is the time between two reports, on average. Default: DefaultInterval.
	Interval time.Duration
	// Version is the server's.
	Version string
	// Counts says what is to be reported. Required. It is called once for each report.
	Counts func() Counts
	// Transport sends the reports. Default: http.DefaultTransport.
	Transport http.RoundTripper
	// Log takes the failures, as details. Default: slog.Default().
	Log *slog.Logger
}

// Counts are what a server has at a moment.
type Counts struct {
	// Streams and Remotes are how many there are.
	Streams int `json:"streams"`
	Remotes int `json:"remotes"`
	// QueueBytes are those in the queues that are not yet in a remote.
	QueueBytes int64 `json:"queueBytes"`
}

// A report is what is sent.
type report struct {
	Form    int    `json:"report"`
	Version string `json:"version"`
	Uptime  int64  `json:"uptimeSeconds"`
	Counts
}

const (
	form = 1
	// patience is how long a report may take.
	patience = 10 * time.Second
)

// ValidateURL reports a URL that reports cannot be sent to. The URL is not in the error.
func ValidateURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return errors.New("it is no URL of a server; write it like https://telemetry.example.com/report")
	case u.User != nil:
		return errors.New("a URL with a user and a password is not taken: reports hold nothing that is worth one")
	}
	return nil
}

// A Reporter sends reports.
type Reporter struct {
	config Config
	client http.Client
	begun  time.Time
}

// New returns a Reporter. It sends nothing before Run.
func New(config Config) (*Reporter, error) {
	if err := ValidateURL(config.URL); err != nil {
		return nil, errors.WithMessage(err, "telemetry")
	}
	if config.Counts == nil || config.Interval < 0 {
		return nil, errors.New("telemetry: Config.Counts is required, and Config.Interval must not be negative")
	}
	if config.Interval == 0 {
		config.Interval = DefaultInterval
	}
	if config.Log == nil {
		config.Log = slog.Default()
	}
	return &Reporter{config: config, begun: time.Now(), client: http.Client{
		Transport:     config.Transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// Run sends reports until ctx ends.
func (r *Reporter) Run(ctx context.Context) {
	wait := time.Duration(rand.Float64() * float64(r.config.Interval))
	for {
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		if err := r.send(ctx); err != nil && ctx.Err() == nil {
			r.config.Log.Debug("a report of telemetry was not taken", "error", err)
		}
		wait = around(r.config.Interval)
	}
}

// around returns a time between nine and eleven tenths of the interval.
func around(interval time.Duration) time.Duration {
	return time.Duration((0.9 + 0.2*rand.Float64()) * float64(interval))
}

// send sends one report.
func (r *Reporter) send(ctx context.Context) error {
	body, err := json.Marshal(report{
		Form: form, Version: r.config.Version, Uptime: int64(time.Since(r.begun) / time.Second), Counts: r.config.Counts(),
	})
	if err != nil {
		return errors.WithStack(err)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.config.URL, bytes.NewReader(body))
	if err != nil {
		return errors.New("telemetry: the URL cannot be used")
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "tailrace/"+r.config.Version)
	resp, err := r.client.Do(req)
	if bad, ok := stderrors.AsType[*url.Error](err); ok {
		err = bad.Err // without the URL, which may hold what is not for a log
	}
	if err != nil {
		return errors.Wrap(err, "telemetry")
	}
	defer func() { _ = resp.Body.Close() }()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 4<<10)) // so that the connection can be used again
	if resp.StatusCode >= http.StatusMultipleChoices {
		return errors.Errorf("telemetry: answered %s", resp.Status)
	}
	return nil
}
