package outbound

import (
	"net/netip"
	"strings"

	"github.com/pkg/errors"
)

// A Policy says what may be connected to. It is immutable, and may be used concurrently. The zero value and
// nil are a policy without a list.
type Policy struct {
	listed bool
	names  []string // globs, in lower case
	ranges []netip.Prefix
	unix   bool
}

// NewPolicy returns the policy of a list; an empty one is no list.
func NewPolicy(list []string) (*Policy, error) {
	p := &Policy{listed: len(list) > 0}
	for _, entry := range list {
		text := strings.TrimSpace(entry)
		if err := p.add(text); err != nil {
			return nil, errors.Errorf("%q: %s", entry, err)
		}
	}
	return p, nil
}

func (p *Policy) add(text string) error {
	if text == "unix" {
		p.unix = true
		return nil
	}
	if r, err := netip.ParsePrefix(text); err == nil {
		if r.Masked() != r {
			return errors.Errorf("the range has bits beyond its length; write %s", r.Masked())
		}
		p.ranges = append(p.ranges, r)
		return nil
	}
	if a, err := netip.ParseAddr(strings.Trim(text, "[]")); err == nil && a.Zone() == "" {
		a = a.Unmap()
		p.ranges = append(p.ranges, netip.PrefixFrom(a, a.BitLen()))
		return nil
	}
	name := canonical(text)
	switch {
	case name == "":
		return errors.New("an entry is empty")
	case strings.ContainsAny(name, "/:[]@ "):
		return errors.New("write the name of a host, such as *.example.com, an address or a range (10.0.0.0/8), without scheme, port or path")
	case strings.Trim(name, "0123456789.*") == "" && strings.Trim(name, "*") != "":
		return errors.New("write a range of addresses like 10.0.0.0/8; * is for names")
	}
	p.names = append(p.names, name)
	return nil
}

// canonical returns a host in the form in which names are compared.
func canonical(host string) string { return strings.ToLower(strings.TrimSuffix(host, ".")) }

// A RefusedError says that a host may not be connected to.
type RefusedError struct {
	// Host is what was named, and Address what it led to; Address is invalid where that is not known.
	Host    string
	Address netip.Addr
	// Reason says why, and what an operator can do.
	Reason string
}

// Error implements error.
func (e *RefusedError) Error() string {
	where := e.Host
	if e.Address.IsValid() && e.Address.String() != e.Host {
		where += " (" + e.Address.String() + ")"
	}
	return "connecting to " + where + " is not allowed: " + e.Reason
}

const askOperator = "the operator may add it to --allowRemoteHosts"

// CheckHost reports, as a *RefusedError, a host that can be told to be refused when it is named: a name, an
// address, or a path for a socket of the file system. That it returns nil promises nothing; a connection is
// checked again.
func (p *Policy) CheckHost(host string) error {
	if strings.HasPrefix(host, "/") || strings.HasPrefix(host, "@") {
		return p.checkUnix(host)
	}
	if a, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return p.checkAddr("", a)
	}
	if p == nil || !p.listed || p.named(host) || len(p.ranges) > 0 {
		return nil // It may lead to an address that is listed.
	}
	return &RefusedError{Host: host, Reason: askOperator}
}

func (p *Policy) checkUnix(path string) error {
	if p == nil || !p.listed || p.unix {
		return nil
	}
	return &RefusedError{Host: path, Reason: `it is a socket of the file system; the operator may add "unix" to --allowRemoteHosts`}
}

// named reports whether the list holds a name.
func (p *Policy) named(host string) bool {
	host = canonical(host)
	for _, glob := range p.names {
		if matches(glob, host) {
			return true
		}
	}
	return false
}

// matches reports whether a glob covers the whole name.
func matches(glob, name string) bool {
	first, rest, found := strings.Cut(glob, "*")
	if !found {
		return glob == name
	}
	if !strings.HasPrefix(name, first) {
		return false
	}
	for name = name[len(first):]; ; name = name[1:] {
		if matches(rest, name) {
			return true
		}
		if name == "" {
			return false
		}
	}
}

// checkAddr judges the address that a host led to; the host is empty if it was named itself.
func (p *Policy) checkAddr(host string, addr netip.Addr) error {
	refused := &RefusedError{Host: host, Address: addr.WithZone("")}
	if host == "" {
		refused.Host = addr.String()
	}
	inner := embedded(addr)
	kind := kindOf(inner)
	if p != nil {
		for _, r := range p.ranges {
			if holds := r.Contains(addr.WithZone("").Unmap()) || r.Contains(inner); holds && (kind != dangerous || isDangerous(r)) {
				return nil
			}
		}
	}
	switch {
	case kind == dangerous:
		refused.Reason = "it is an address of the machine's own network services (metadata, link-local, multicast or unspecified); " + askOperator
	case p == nil || !p.listed:
		return nil
	case host == "" || !p.named(host):
		refused.Reason = askOperator
	case kind == private:
		refused.Reason = "the name is allowed, but leads to an address that is not public; the operator may add the address or its range to --allowRemoteHosts"
	default:
		return nil
	}
	return refused
}
