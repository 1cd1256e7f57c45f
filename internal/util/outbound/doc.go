// Package outbound says which hosts the server may connect to on behalf of somebody who names them over
// the network, such as the remote of a stream: so that a token that may make remotes does not open the
// inside of the network to its holder (SSRF).
//
//	policy, err := outbound.NewPolicy([]string{"influx.example.com", "*.plants.example.com", "10.20.0.0/16"})
//	err = policy.CheckHost("influx.example.com")               // when it is named
//	transport := &http.Transport{DialContext: policy.DialContext(&net.Dialer{})} // when it is used
//
// # What is allowed
//
// An entry is a name, a glob for names (* stands for any characters, a dot too), an address, a range of
// addresses (CIDR), or "unix" for sockets of the file system. The check that counts is made when a
// connection is opened, of the very address that is connected to: what a name resolved to a moment ago, or
// resolves to for somebody else, does not matter.
//
//   - A few addresses are refused unless the list holds them as an address or a range of nothing else: those
//     of the cloud's metadata services, link-local, multicast and unspecified ones. That holds without a
//     list too, and 0.0.0.0/0 does not mean them.
//   - Without a list, all others are allowed.
//   - With a list, an address that it holds is allowed, whatever name led to it.
//   - With a list, a name that it holds is allowed to lead to public addresses, and to no others: whoever
//     holds the name's DNS could point it at the inside of our network. A name that is meant to do so needs
//     its address or range in the list.
//
// IPv6 addresses that carry an IPv4 address (mapped, NAT64, 6to4) are judged by that.
//
// # What it cannot see
//
// Behind a proxy, the proxy resolves the name: only what was named can be checked ([Policy.Proxy]), and with
// a list, the proxy has to be on it. A redirect is a new request with a host of its own, whose connection is
// checked like any other.
//
// A driver that resolves names by itself before it dials (pgx does) must be told to leave that to the
// dialer; see the test with pgx.
package outbound
