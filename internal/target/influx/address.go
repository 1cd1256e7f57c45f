package influx

import (
	"net/url"
	"strings"

	"github.com/pkg/errors"
)

// ParseURL reads the address of a remote with all that it takes to write there, as people put it on a
// command line:
//
//	http://host:8086/prefix?org=ORG&bucket=BUCKET       2.x
//	http://host:8086?db=DATABASE&rp=RETENTION_POLICY    1.x
//
// kind=1, 2 or 3 says which API it is. A token is no part of it. No error shows a secret.
func ParseURL(text string) (Config, error) {
	address, query, _ := strings.Cut(text, "?")
	base, err := parseBase(address)
	if err != nil {
		return Config{}, err
	}
	params, err := url.ParseQuery(query)
	if err != nil {
		return Config{}, errors.New("influx: what follows the question mark of the URL is malformed; write it like ?org=ORG&bucket=BUCKET")
	}
	c := Config{URL: base.String()} // with the password, until Open takes it out
	var db, rp string
	for name, to := range map[string]*string{"org": &c.Org, "bucket": &c.Bucket, "db": &db, "rp": &rp, "kind": (*string)(&c.Kind)} {
		*to = params.Get(name)
		delete(params, name)
	}
	for name := range params {
		if name == "token" || name == "u" || name == "p" {
			return Config{}, errors.Errorf("influx: %s is a secret, which other users of this machine could read in a URL; give the token by itself", name)
		}
		return Config{}, errors.Errorf("influx: %q in the URL means nothing; give org, bucket, db, rp or kind", name)
	}
	switch {
	case db != "" && c.Bucket != "":
		return Config{}, errors.New("influx: the URL has both a bucket and a db; give one")
	case db != "":
		c.Bucket = db
		setDefault(&c.Kind, V1)
	}
	if rp != "" {
		c.Bucket += "/" + rp
	}
	if c.Bucket == "" {
		return Config{}, errors.New("influx: the URL names no bucket; write it like http://host:8086?org=ORG&bucket=BUCKET, or ?db=DATABASE for InfluxDB 1.x")
	}
	return c, nil
}

// parseBase reads a URL without parameters. Its errors do not show it, because it may hold a password.
func parseBase(text string) (*url.URL, error) {
	base, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, errors.New("influx: the URL cannot be read; write it like http://host:8086, with special characters of a password as %XX")
	case base.Scheme != "http" && base.Scheme != "https":
		return nil, errors.Errorf("influx: the URL begins with %q; give http or https", base.Scheme)
	case base.Hostname() == "":
		return nil, errors.New("influx: the URL names no host; write it like http://host:8086")
	case base.RawQuery != "" || base.Fragment != "":
		return nil, errors.New("influx: the URL of the API has no parameters; give bucket and organisation by themselves")
	}
	base.Path = strings.TrimRight(base.Path, "/")
	base.RawPath = strings.TrimRight(base.RawPath, "/")
	return base, nil
}
