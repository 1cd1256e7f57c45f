package server

import (
	"net/http"
	"time"
)

// A recorder remembers the status of an answer, and gives its writing a time limit, so that a client
// that does not read holds nobody up.
type recorder struct {
	http.ResponseWriter
	conn   *http.ResponseController
	status int
}

const writeTimeout = 30 * time.Second

// WriteHeader implements http.ResponseWriter.
func (r *recorder) WriteHeader(status int) {
	r.begin(status)
	r.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (r *recorder) Write(b []byte) (int, error) {
	r.begin(http.StatusOK)
	return r.ResponseWriter.Write(b)
}

func (r *recorder) begin(status int) {
	if r.status == 0 {
		r.status = status
		_ = r.conn.SetWriteDeadline(time.Now().Add(writeTimeout)) // Not every connection has one.
	}
}

// Unwrap is for http.ResponseController.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

func (r *recorder) code() int {
	if r.status == 0 {
		return http.StatusOK
	}
	return r.status
}
