package remote

import (
	"net/url"
	"path/filepath"
	"strings"

	"github.com/pkg/errors"
)

// Kind is what an address leads to.
type Kind string

// The kinds.
const (
	Influx   Kind = "influx"
	Postgres Kind = "postgres"
	SQLite   Kind = "sqlite"
)

// An Address is a remote's URL, without its secret.
type Address struct {
	Kind Kind
	// Text is the URL as it is stored and shown.
	Text string
	// Hosts are what Limits look at: the host names or addresses, with ports where they have one; empty
	// for a file.
	Hosts []string
	// Path is the file, for SQLite.
	Path string
}

const kinds = "write it like https://host:8086, postgres://user@host/database or sqlite:file.db"

// secretParams are the parameters of an address that hold secrets; the first is the password.
var secretParams = []string{"password", "sslpassword", "token", "p"}

// Parse reads an address. A password in it comes back as the secret, and is not in the address. Its
// errors do not repeat the text, which may hold a secret.
func Parse(text string) (a Address, secret string, err error) {
	text = strings.TrimSpace(text)
	scheme, rest, ok := strings.Cut(text, ":")
	if !ok {
		return a, "", errors.New("the address has no scheme: " + kinds)
	}
	if strings.ToLower(scheme) == "sqlite" {
		return parseSQLite(rest)
	}
	u, err := parseURL(text)
	if err != nil {
		return a, "", errors.New("the address is malformed: " + kinds)
	}
	switch strings.ToLower(u.Scheme) {
	case "http", "https":
		a.Kind = Influx
	case "postgres", "postgresql":
		a.Kind = Postgres
	default:
		return a, "", errors.New("the address is of no known kind: " + kinds)
	}
	if u.Host == "" || u.Opaque != "" {
		return a, "", errors.New("the address names no host: " + kinds)
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return Address{}, "", errors.New("the parameters of the address are malformed: write %3B for a semicolon and %25 for a percent sign in a value")
	}
	secret = takeSecret(u, query)
	if a.Kind == Influx {
		if err := onlyKind(query); err != nil {
			return Address{}, "", err
		}
	}
	u.RawQuery, u.ForceQuery, u.Fragment, u.RawFragment = query.Encode(), false, "", ""
	a.Hosts = strings.Split(u.Host, ",") // PostgreSQL takes several
	for _, host := range strings.Split(query.Get("host"), ",") {
		if host != "" && a.Kind == Postgres {
			a.Hosts = append(a.Hosts, host)
		}
	}
	a.Text = u.String()
	return a, secret, nil
}

// Shown returns a stored address as it may be shown: what is no address may hold a secret anywhere.
func Shown(text string) string {
	a, _, err := Parse(text)
	if err != nil {
		return ""
	}
	return a.Text
}

// SameServer reports whether two addresses lead to the same server, in the same way: scheme, hosts, ports and
// all parameters, of which those of PostgreSQL may name hosts and loosen TLS. User and path may differ.
func (a Address) SameServer(b Address) bool {
	if a.Kind == SQLite || b.Kind == SQLite {
		return a.Kind == b.Kind
	}
	u, v := a.URL(), b.URL()
	return u.Scheme == v.Scheme && strings.EqualFold(u.Host, v.Host) && u.RawQuery == v.RawQuery
}

// URL returns the address to be taken apart; nil for a file.
func (a Address) URL() *url.URL {
	if a.Kind == SQLite {
		return nil
	}
	u, err := parseURL(a.Text)
	if err != nil {
		return nil // Parse has made it
	}
	return u
}

// parseURL parses a URL that may name several hosts, each with its port.
func parseURL(text string) (*url.URL, error) {
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok {
		return url.Parse(text)
	}
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	begin := strings.LastIndexByte(rest[:end], '@') + 1
	hosts := strings.Split(rest[begin:end], ",")
	if len(hosts) == 1 {
		return url.Parse(text)
	}
	for i, host := range hosts {
		one, err := url.Parse(scheme + "://" + host)
		if err != nil {
			return nil, err
		}
		hosts[i] = one.Host
	}
	u, err := url.Parse(scheme + "://" + rest[:begin] + "host" + rest[end:])
	if err != nil {
		return nil, err
	}
	u.Host = strings.Join(hosts, ",")
	return u, nil
}

// takeSecret takes the password out of the address and its parameters.
func takeSecret(u *url.URL, query url.Values) (secret string) {
	if u.User != nil {
		secret, _ = u.User.Password()
		u.User = url.User(u.User.Username())
		if u.User.Username() == "" {
			u.User = nil
		}
	}
	for _, name := range secretParams {
		if secret == "" && name != "sslpassword" {
			secret = query.Get(name)
		}
		query.Del(name)
	}
	return secret
}

// onlyKind reports parameters that an InfluxDB's address does not have: kind=1, 2 or 3 says which API it
// is, where that is not to be asked.
func onlyKind(query url.Values) error {
	for name := range query {
		if name != "kind" {
			return errors.New("the address of an InfluxDB has no parameters but kind: give bucket and organization by themselves")
		}
	}
	return nil
}

func parseSQLite(rest string) (Address, string, error) {
	path := strings.TrimPrefix(rest, "//")
	switch {
	case path == "" || path == ":memory:":
		return Address{}, "", errors.New("the address names no file: write it like sqlite:file.db")
	case strings.ContainsAny(path, "?#\x00"):
		return Address{}, "", errors.New("the address of a file has no parameters: write it like sqlite:file.db")
	}
	path = filepath.Clean(path)
	return Address{Kind: SQLite, Text: "sqlite:" + filepath.ToSlash(path), Path: path}, "", nil
}
