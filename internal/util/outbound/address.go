package outbound

import "net/netip"

// A kind of address says how much harm a connection to it can do.
type kind uint8

const (
	public kind = iota
	// private addresses are those of our own network and of this machine.
	private
	// dangerous ones answer to whoever connects from this machine, with secrets perhaps, or are no place to
	// connect to at all.
	dangerous
)

var (
	dangerousRanges = prefixes(
		"0.0.0.0/8", "169.254.0.0/16", "224.0.0.0/4", "255.255.255.255/32", "::/128", "fe80::/10", "ff00::/8",
		// Metadata services outside of these: Alibaba, Azure, Oracle, AWS by IPv6.
		"100.100.100.200/32", "168.63.129.16/32", "192.0.0.192/32", "fd00:ec2::/32",
	)
	privateRanges = prefixes(
		"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "127.0.0.0/8", "100.64.0.0/10", "198.18.0.0/15", "192.0.0.0/24",
		"240.0.0.0/4", "::1/128", "fc00::/7", "fec0::/10",
	)
	// In these, an IPv4 address begins at the byte given.
	carriers = []struct {
		prefix netip.Prefix
		at     int
	}{
		{netip.MustParsePrefix("64:ff9b::/96"), 12},   // NAT64
		{netip.MustParsePrefix("64:ff9b:1::/48"), 12}, // NAT64, local
		{netip.MustParsePrefix("2002::/16"), 2},       // 6to4
		{netip.MustParsePrefix("::/96"), 12},          // IPv4-compatible
	}
)

func prefixes(texts ...string) []netip.Prefix {
	all := make([]netip.Prefix, len(texts))
	for i, text := range texts {
		all[i] = netip.MustParsePrefix(text)
	}
	return all
}

// embedded returns the IPv4 address that an IPv6 address carries, or the address itself.
func embedded(a netip.Addr) netip.Addr {
	a = a.WithZone("").Unmap()
	if a.Is4() || a.IsUnspecified() || a.IsLoopback() {
		return a
	}
	for _, c := range carriers {
		if c.prefix.Contains(a) {
			b := a.As16()
			return netip.AddrFrom4([4]byte(b[c.at : c.at+4]))
		}
	}
	return a
}

// isDangerous reports whether a range is of dangerous addresses only: 0.0.0.0/0 does not mean them.
func isDangerous(r netip.Prefix) bool {
	for _, d := range dangerousRanges {
		if d.Bits() <= r.Bits() && d.Contains(r.Addr()) {
			return true
		}
	}
	return false
}

func kindOf(a netip.Addr) kind {
	for _, r := range dangerousRanges {
		if r.Contains(a) {
			return dangerous
		}
	}
	for _, r := range privateRanges {
		if r.Contains(a) {
			return private
		}
	}
	return public
}
