package tools

import (
	"context"
	"encoding/binary"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// fakeDNS returns a resolver for which every name has the addresses of the first element
// at the first look-up, of the second at the next, and so on; the last element is
// repeated. An empty element means that the name does not exist.
func fakeDNS(t testing.TB, answers []string) *net.Resolver {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	var asked atomic.Int64
	go func() {
		buf := make([]byte, 4096)
		for {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			turn := int(asked.Add(1)-1) / 2 // each look-up asks for A and for AAAA
			reply := dnsReply(buf[:n], strings.Fields(answers[min(turn, len(answers)-1)]))
			_, _ = conn.WriteTo(reply, from)
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

// dnsReply answers a query of one question (RFC 1035, section 4).
func dnsReply(query []byte, addrs []string) []byte {
	end := 12
	for query[end] != 0 {
		end += int(query[end]) + 1
	}
	end += 5
	kind := binary.BigEndian.Uint16(query[end-4:])
	var records []byte
	count := uint16(0)
	for _, s := range addrs {
		a := netip.MustParseAddr(s)
		data := a.AsSlice()
		if a.Is4() != (kind == 1) || kind != 1 && kind != 28 {
			continue
		}
		count++
		records = append(records, 0xC0, 12) // a pointer to the name of the question
		records = binary.BigEndian.AppendUint16(records, kind)
		records = append(records, 0, 1, 0, 0, 0, 0) // class IN, time to live 0
		records = binary.BigEndian.AppendUint16(records, uint16(len(data)))
		records = append(records, data...)
	}
	flags := uint16(0x8180)
	if len(addrs) == 0 {
		flags |= 3 // NXDOMAIN: no such name
	}
	out := append([]byte{}, query[:2]...)
	for _, n := range []uint16{flags, 1, count, 0, 0} {
		out = binary.BigEndian.AppendUint16(out, n)
	}
	return append(append(out, query[12:end]...), records...)
}
