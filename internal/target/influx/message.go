package influx

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
)

// A message is what the body of an answer says.
type message struct {
	text      string
	code      string // of 2.x
	isError   bool   // it is an error in a form that an InfluxDB uses
	maxLength int
	lines     []lineMessage // of 3.x
}

// A lineMessage is what 3.x says of one line.
type lineMessage struct {
	Line    int    `json:"line_number"`
	Message string `json:"error_message"`
}

// parseMessage reads the error of an answer in the forms of 1.x, 2.x and 3.x.
func parseMessage(a *answer) message {
	var doc struct {
		Error     string          `json:"error"`
		Code      string          `json:"code"`
		Message   string          `json:"message"`
		MaxLength int             `json:"maxLength"`
		Data      json.RawMessage `json:"data"`
	}
	var m message
	if err := json.Unmarshal(bytes.TrimSpace(a.body), &doc); err == nil {
		m.code, m.maxLength = doc.Code, max(doc.MaxLength, 0)
		m.isError = doc.Error != "" || doc.Code != "" && doc.Message != ""
		if m.text = doc.Error; m.text == "" {
			m.text = doc.Message
		}
		m.lines = parseLines(doc.Data)
	}
	if m.text == "" {
		m.text = a.header.Get("X-Influxdb-Error")
		m.isError = m.isError || m.text != ""
	}
	if m.text == "" && !looksLikeHTML(a) {
		const most = 4000 // more than is shown, so that no secret is cut in two before it is taken out
		m.text = strings.TrimSpace(strings.ToValidUTF8(string(a.body[:min(len(a.body), most)]), "\uFFFD"))
	}
	return m
}

// parseLines reads what 3.x says of lines: a list of them, or one.
func parseLines(data json.RawMessage) (lines []lineMessage) {
	if json.Unmarshal(data, &lines) == nil {
		return lines
	}
	var one lineMessage
	if json.Unmarshal(data, &one) == nil && one.Line > 0 {
		return []lineMessage{one}
	}
	return nil
}

// lineFaults are what the versions say when it is the lines that they do not accept. Limits on series,
// tables and columns are among them: what is beyond can be replayed when the limit has been raised, and
// nothing else waits for that.
var lineFaults = []string{
	"partial write", "unable to parse", "field type conflict", "points beyond retention policy", "parsing failed",
	"max-series-per-database", "max-values-per-tag", "max key size", "failed to parse line", "invalid line protocol",
}

// requestFaults are what they say, with the same statuses, when it is not.
var requestFaults = []string{
	"database is required", "bucket is required", "database not found", "bucket not found", "retention policy not found",
	"organization", "precision", "gzip", "hinted handoff", "timeout", "timed out", "authoriz",
}

// aboutLines reports whether an error is one of the lines, so that sending them again is in vain. What is
// not understood is one only if it comes from an InfluxDB.
func (m message) aboutLines(status int, known bool) bool {
	text := strings.ToLower(m.text)
	has := func(phrases []string) bool {
		for _, p := range phrases {
			if strings.Contains(text, p) {
				return true
			}
		}
		return false
	}
	switch status {
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		if strings.Contains(text, "hinted handoff") {
			return false
		}
		return has(lineFaults) || len(m.lines) > 0 || m.isError && known && !has(requestFaults)
	case http.StatusInternalServerError:
		// A cluster of 1.x says so of partial writes.
		return strings.Contains(text, "partial write") && has(lineFaults[1:]) && !strings.Contains(text, "hinted handoff")
	}
	return false
}

// missing reports whether it is the bucket that is not there, and not the API.
func (m message) missing() bool {
	text := strings.ToLower(m.text)
	return strings.Contains(text, "database not found") || strings.Contains(text, "bucket") ||
		strings.Contains(text, "organization") || m.isError && m.code == "not found" && !strings.Contains(text, "path")
}

func itoa(n int) string { return strconv.Itoa(n) }
