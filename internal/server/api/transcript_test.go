package api

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestClients replays what clients send, byte for byte, and looks at what they need of the answers. A
// transcript is a story of exchanges:
//
//	# what is happening
//	> POST /api/v2/remotes HTTP/1.1
//	> Transfer-Encoding: chunked
//	>
//	> {"name":"cloud"}
//	< 201
//	< Content-Type: application/json; charset=utf-8
//	<
//	< {"id":"{{remote}}","name":"cloud"}
//
// The body of a chunked request is cut into chunks, that of one with "Content-Encoding: gzip" is
// compressed. In an answer the header fields that are given must be there, and a body must have the
// fields that are given; "…" stands for any value. {{name}} is what the name was first seen to be.
func TestClients(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/clients/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d transcripts, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			story, err := os.ReadFile(file)
			must(t, err)
			s := start(t)
			r := &replay{t: t, site: s, known: map[string]string{
				"host": strings.TrimPrefix(s.url, "http://"), "token": operator, "org": s.org.ID.String(), "bucket": s.bucket.ID.String(),
			}}
			for _, e := range exchanges(string(story)) {
				r.exchange(e)
			}
		})
	}
}

type exchange struct {
	title          string
	sends, expects []string
}

func exchanges(story string) (all []exchange) {
	for line := range strings.Lines(story) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case strings.HasPrefix(line, "#"):
			all = append(all, exchange{title: strings.TrimPrefix(line, "# ")})
		case strings.HasPrefix(line, ">"):
			if len(all) == 0 || len(all[len(all)-1].expects) > 0 {
				all = append(all, exchange{title: "the next request"})
			}
			e := &all[len(all)-1]
			e.sends = append(e.sends, strings.TrimPrefix(strings.TrimPrefix(line, ">"), " "))
		case strings.HasPrefix(line, "<"):
			e := &all[len(all)-1]
			e.expects = append(e.expects, strings.TrimPrefix(strings.TrimPrefix(line, "<"), " "))
		}
	}
	return all
}

type replay struct {
	t     *testing.T
	site  *site
	known map[string]string
}

var placeholder = regexp.MustCompile(`\{\{(\w+)\}\}`)

// fill puts in what is known.
func (r *replay) fill(text string) string {
	return placeholder.ReplaceAllStringFunc(text, func(p string) string {
		name := strings.Trim(p, "{}")
		value, ok := r.known[name]
		if !ok {
			r.t.Fatalf("%s is not known yet", p)
		}
		return value
	})
}

func (r *replay) exchange(e exchange) {
	r.t.Helper()
	if len(e.sends) == 0 {
		return // a remark
	}
	request := r.request(e.sends)
	conn, err := net.Dial("tcp", r.known["host"])
	must(r.t, err)
	defer func() { _ = conn.Close() }()
	_, err = conn.Write(request)
	must(r.t, err)
	method, _, _ := strings.Cut(e.sends[0], " ")
	resp, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	must(r.t, err)
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	must(r.t, err)
	r.compare(e, resp, string(body))
}

// request returns the bytes to send.
func (r *replay) request(lines []string) []byte {
	head, body := lines, ""
	for i, line := range lines {
		if line == "" {
			head, body = lines[:i], r.fill(strings.Join(lines[i+1:], "\n"))
			break
		}
	}
	header := r.fill(strings.Join(head, "\r\n"))
	if strings.Contains(header, "Content-Encoding: gzip") {
		var zipped bytes.Buffer
		w := gzip.NewWriter(&zipped)
		_, _ = io.WriteString(w, body)
		must(r.t, w.Close())
		body = zipped.String()
	}
	switch {
	case strings.Contains(header, "Transfer-Encoding: chunked"):
		half := len(body) / 2
		chunks := ""
		for _, part := range []string{body[:half], body[half:]} {
			if part != "" {
				chunks += fmt.Sprintf("%x\r\n%s\r\n", len(part), part)
			}
		}
		body = chunks + "0\r\n\r\n"
	case body != "" && !strings.Contains(header, "Content-Length:"):
		header += "\r\nContent-Length: " + strconv.Itoa(len(body))
	}
	return []byte(header + "\r\n\r\n" + body)
}

func (r *replay) compare(e exchange, resp *http.Response, body string) {
	r.t.Helper()
	if want := e.expects[0]; strconv.Itoa(resp.StatusCode) != want {
		r.t.Fatalf("%s: status %d %s, want %s", e.title, resp.StatusCode, body, want)
	}
	for i, line := range e.expects[1:] {
		if line == "" {
			r.compareBody(e.title, body, strings.Join(e.expects[i+2:], "\n"))
			return
		}
		name, want, _ := strings.Cut(line, ": ")
		if got := resp.Header.Get(name); got != want && (want != "…" || got == "") {
			r.t.Errorf("%s: the header %s is %q, want %q", e.title, name, got, want)
		}
	}
	if body != "" && resp.StatusCode == http.StatusNoContent {
		r.t.Errorf("%s: 204 with a body: %s", e.title, body)
	}
}

func (r *replay) compareBody(title, body, pattern string) {
	r.t.Helper()
	var got, want any
	if err := json.Unmarshal([]byte(body), &got); err != nil {
		r.t.Fatalf("%s: %v: %s", title, err, body)
	}
	if err := json.Unmarshal([]byte(pattern), &want); err != nil {
		r.t.Fatalf("%s: the transcript: %v: %s", title, err, pattern)
	}
	if err := r.matches(got, want, ""); err != nil {
		r.t.Errorf("%s: %v\n%s", title, err, body)
	}
}

// matches reports where a value is not as the pattern says.
func (r *replay) matches(got, want any, at string) error {
	switch want := want.(type) {
	case map[string]any:
		fields, ok := got.(map[string]any)
		if !ok {
			return fmt.Errorf("%s is %v, want an object", at, got)
		}
		for name, value := range want {
			field, ok := fields[name]
			if !ok {
				return fmt.Errorf("%s.%s is missing", at, name)
			}
			if err := r.matches(field, value, at+"."+name); err != nil {
				return err
			}
		}
		return nil
	case []any:
		list, ok := got.([]any)
		if !ok || len(list) != len(want) {
			return fmt.Errorf("%s is %v, want %d elements", at, got, len(want))
		}
		for i := range want {
			if err := r.matches(list[i], want[i], fmt.Sprintf("%s[%d]", at, i)); err != nil {
				return err
			}
		}
		return nil
	case string:
		if want == "…" {
			return nil
		}
		if name := placeholder.FindStringSubmatch(want); name != nil && name[0] == want {
			text, ok := got.(string)
			if _, known := r.known[name[1]]; ok && !known {
				r.known[name[1]] = text
				return nil
			}
		}
		if want = r.fill(want); got != want {
			return fmt.Errorf("%s is %v, want %q", at, got, want)
		}
		return nil
	}
	if !reflect.DeepEqual(got, want) {
		return fmt.Errorf("%s is %v, want %v", at, got, want)
	}
	return nil
}
