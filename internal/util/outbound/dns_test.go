package outbound

import (
	"context"
	"encoding/binary"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
)

// newDNS returns a resolver that asks a DNS server of its own, which answers with what addr says.
func newDNS(t *testing.T, addr func(name string) netip.Addr) *net.Resolver {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		buf := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			if reply := answer(buf[:n], addr); reply != nil {
				_, _ = conn.WriteTo(reply, from)
			}
		}
	})
	t.Cleanup(func() {
		_ = conn.Close()
		serving.Wait()
	})
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

// answer answers a query for an A record; other kinds have no records.
func answer(query []byte, addr func(string) netip.Addr) []byte {
	const header = 12
	if len(query) < header {
		return nil
	}
	var labels []string
	at := header
	for at < len(query) && query[at] != 0 {
		size := int(query[at])
		if at+1+size > len(query) {
			return nil
		}
		labels = append(labels, string(query[at+1:at+1+size]))
		at += 1 + size
	}
	at += 5 // the root, kind and class
	if at > len(query) {
		return nil
	}
	const isA = 1
	reply := append([]byte{query[0], query[1], 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0}, query[header:at]...)
	if binary.BigEndian.Uint16(query[at-4:]) == isA {
		reply[7] = 1
		reply = append(reply, 0xc0, header, 0, isA, 0, 1, 0, 0, 0, 0, 0, 4)
		reply = append(reply, addr(strings.Join(labels, ".")).AsSlice()...)
	}
	return reply
}
