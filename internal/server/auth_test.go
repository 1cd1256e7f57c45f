package server

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

func basic(user, password string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
}

func TestEveryFormOfAuthentication(t *testing.T) {
	t.Parallel()
	st := start(t, Config{}, nil)
	for _, c := range []struct{ name, header, params string }{
		{"Token", "Token " + writer, ""},
		{"token", "token  " + writer + " ", ""},
		{"TOKEN", "TOKEN " + writer, ""},
		{"Bearer", "Bearer " + writer, ""},
		{"bearer", "bearer " + writer, ""},
		{"Basic", basic("anyone", writer), ""},
		{"basic", strings.Replace(basic("", writer), "Basic", "basic", 1), ""},
		{"Token user:password", "Token me:" + writer, ""},
		{"u and p", "", "&u=me&p=" + url.QueryEscape(writer)},
		{"p alone", "", "&p=" + url.QueryEscape(writer)},
	} {
		for _, path := range []string{v2one, "/write?db=one"} {
			got := st.do(t, http.MethodPost, path+c.params, "m v=1 5", map[string]string{"Authorization": c.header})
			if got.status != http.StatusNoContent {
				t.Errorf("%s at %s: %d %s", c.name, path, got.status, got.body)
			}
		}
	}
}

func TestWithoutAValidTokenNothingGoes(t *testing.T) {
	t.Parallel()
	st := start(t, Config{}, nil)
	for _, c := range []struct{ name, header, params string }{
		{"none", "", ""},
		{"wrong", "Token " + writer + "x", ""},
		{"cut", "Token " + writer[:len(writer)-1], ""},
		{"empty", "Token ", ""},
		{"only a scheme", "Token", ""},
		{"another scheme", "Digest " + writer, ""},
		{"the user's part", "Token " + writer + ":x", ""},
		{"Basic with the token as user", basic(writer, ""), ""},
		{"Basic that is not base64", "Basic " + writer, ""},
		{"empty p", "", "&u=" + writer + "&p="},
		{"the header goes before p", "Token wrong", "&p=" + writer},
	} {
		for _, path := range []string{v2one, "/write?db=one", "/api/v2/write?bucket=nowhere", "/query?q=SHOW+DATABASES"} {
			got := st.do(t, http.MethodPost, path+c.params, "m v=1 5", map[string]string{"Authorization": c.header})
			v1 := !strings.HasPrefix(path, "/api")
			if got.status != http.StatusUnauthorized || !strings.Contains(got.body, "unauthorized") ||
				(got.header.Get("WWW-Authenticate") == `Basic realm="InfluxDB"`) != v1 {
				t.Errorf("%s at %s: %d %s %v", c.name, path, got.status, got.body, got.header)
			}
			checkForm(t, path, got)
		}
	}
	if st.intake.all() != "" {
		t.Error("something was kept")
	}
}

func TestSecretsAreNowhere(t *testing.T) {
	t.Parallel()
	st := start(t, Config{}, nil)
	var said strings.Builder
	secrets := []string{operator, writer, "s3cret-guess", "hunter2"}
	for _, path := range []string{v2one, "/write?db=one", "/write?db=two", "/query", "/nothing", "/api/v2/query", "/ping", "/write?db=one&precision=x"} {
		sep := "?"
		if strings.Contains(path, "?") {
			sep = "&"
		}
		for _, auth := range []string{"", "Token s3cret-guess", "Token me:s3cret-guess", basic("me", "s3cret-guess"), "Bearer " + writer} {
			got := st.do(t, http.MethodPost, path+sep+"u=me&p=s3cret-guess&q="+url.QueryEscape(`CREATE USER x WITH PASSWORD 'hunter2'`),
				"m v=", map[string]string{"Authorization": auth})
			said.WriteString(got.body)
			for name, values := range got.header {
				said.WriteString(name + strings.Join(values, ""))
			}
		}
	}
	said.WriteString(st.do(t, http.MethodGet, "/metrics", "", nil).body)
	said.WriteString(st.log.String())
	for _, secret := range append(secrets, base64.StdEncoding.EncodeToString([]byte("me:s3cret-guess"))) {
		if strings.Contains(said.String(), secret) {
			t.Errorf("%q is in an answer, the log or a metric", secret)
		}
	}
	if !strings.Contains(st.log.String(), "request refused") {
		t.Error("nothing was logged at all")
	}
}
