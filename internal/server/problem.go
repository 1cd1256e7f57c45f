package server

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/pkg/errors"
)

// A problem is why a request is not answered with success.
type problem struct {
	status int
	// word is InfluxDB's word for the problem, if it is not the one that belongs to the status.
	word string
	// message is for the client. It holds no secret, and for a status of 500 and above none of the
	// phrases by which clients take a failure for a success (see TestNoFailureReadsLikeASuccess).
	message string
	// line is the first bad line, or 0.
	line int
	// retryAfter goes into the header of that name if it is not 0.
	retryAfter time.Duration
	// allow goes into the header of that name, for 405.
	allow string
	// hangUp closes the connection, because what is left of the request is not worth reading.
	hangUp bool
}

func problemf(status int, format string, args ...any) *problem {
	return &problem{status: status, message: fmt.Sprintf(format, args...)}
}

// codes are the error codes of InfluxDB 2.x.
var codes = map[int]string{
	http.StatusBadRequest:            "invalid",
	http.StatusUnauthorized:          "unauthorized",
	http.StatusForbidden:             "forbidden",
	http.StatusNotFound:              "not found",
	http.StatusMethodNotAllowed:      "method not allowed",
	http.StatusRequestTimeout:        "request timeout",
	http.StatusRequestEntityTooLarge: "request too large",
	http.StatusUnprocessableEntity:   "unprocessable entity",
	http.StatusNotImplemented:        "not implemented",
	http.StatusServiceUnavailable:    "unavailable",
}

func (p *problem) code() string {
	if p.word != "" {
		return p.word
	}
	if code, ok := codes[p.status]; ok {
		return code
	}
	return "internal error"
}

// intakeProblem turns an error of the Intake into an answer.
func (s *Server) intakeProblem(err error) *problem {
	var (
		unknown     *UnknownBucketError
		noOrg       *UnknownOrgError
		full        *QueueFullError
		unavailable *UnavailableError
		tooLarge    *TooLargeError
		store       *StoreError
	)
	switch {
	case errors.As(err, &unknown):
		return problemf(http.StatusNotFound, "%s", unknown.Error())
	case errors.As(err, &noOrg):
		return problemf(http.StatusNotFound, "%s", noOrg.Error())
	case errors.As(err, &full):
		return s.unavailable(full.Error(), full.RetryAfter)
	case errors.As(err, &unavailable):
		return s.unavailable(unavailable.Error(), unavailable.RetryAfter)
	case errors.As(err, &tooLarge):
		return problemf(http.StatusRequestEntityTooLarge, "%s", tooLarge.Error())
	case errors.As(err, &store):
		return problemf(http.StatusInternalServerError, "%s", store.Error())
	case errors.Is(err, context.DeadlineExceeded):
		return s.unavailable("the write was not durable in time; writing it again is harmless", 0)
	}
	return problemf(http.StatusInternalServerError, "the write could not be kept: %v", err)
}

func (s *Server) unavailable(message string, after time.Duration) *problem {
	if after <= 0 {
		after = s.cfg.RetryAfter
	}
	return &problem{status: http.StatusServiceUnavailable, message: message, retryAfter: after}
}

// A form is one of the two ways in which InfluxDB words an error.
type form uint8

const (
	formV2 form = iota // {"code":"invalid","message":"…","line":1}
	formV1             // {"error":"…"}
)

// answer writes the problem.
func (p *problem) answer(w http.ResponseWriter, f form) {
	h := w.Header()
	if p.retryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(retrySeconds(p.retryAfter)))
	}
	if p.allow != "" {
		h.Set("Allow", p.allow)
	}
	if p.hangUp {
		h.Set("Connection", "close")
	}
	h.Set("X-Platform-Error-Code", p.code())
	if f == formV1 {
		h.Set("X-Influxdb-Error", headerText(p.message))
		if p.status == http.StatusUnauthorized {
			h.Set("WWW-Authenticate", `Basic realm="InfluxDB"`)
		}
		writeJSON(w, p.status, struct {
			Error string `json:"error"`
		}{p.message})
		return
	}
	writeJSON(w, p.status, struct {
		Code    string `json:"code"`
		Message string `json:"message"`
		Line    int    `json:"line,omitempty"`
	}{p.code(), p.message, p.line})
}

// retrySeconds returns the whole seconds of a Retry-After.
func retrySeconds(d time.Duration) int { return max(1, int(math.Ceil(d.Seconds()))) }

// headerText makes a text fit for a header: printable ASCII, at most 1024 bytes.
func headerText(s string) string {
	const most = 1024
	b := make([]byte, 0, min(len(s), most))
	for i := 0; i < len(s) && len(b) < most; i++ {
		switch c := s[i]; {
		case c < ' ' || c == 0x7f:
			b = append(b, ' ')
		case c > 0x7f:
			b = append(b, '?')
		default:
			b = append(b, c)
		}
	}
	return string(b)
}

// writeJSON writes a JSON document. There is nobody to tell if that fails.
func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v)
}
