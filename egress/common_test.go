package egress_test

import (
	"context"
	"encoding/binary"
	"io"
	"log"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func quiet() *log.Logger { return log.New(io.Discard, "", 0) }

// resolver returns one that asks a function for the addresses of names.
func resolver(t testing.TB, addrs func(name string) []string) *net.Resolver {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	go func() {
		buf := make([]byte, 4096)
		for {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			_, _ = conn.WriteTo(reply(buf[:n], addrs), from)
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

// reply answers a query of one question (RFC 1035, section 4).
func reply(query []byte, addrs func(string) []string) []byte {
	end := 12
	var labels []string
	for query[end] != 0 {
		labels = append(labels, string(query[end+1:end+1+int(query[end])]))
		end += int(query[end]) + 1
	}
	end += 5
	kind := binary.BigEndian.Uint16(query[end-4:])
	var records []byte
	count, flags := uint16(0), uint16(0x8180)
	list := addrs(strings.ToLower(strings.Join(labels, ".")))
	for _, s := range list {
		a := netip.MustParseAddr(s)
		if a.Is4() != (kind == 1) || kind != 1 && kind != 28 {
			continue
		}
		count++
		records = append(records, 0xC0, 12) // a pointer to the name of the question
		records = binary.BigEndian.AppendUint16(records, kind)
		records = append(records, 0, 1, 0, 0, 0, 0, 0, byte(len(a.AsSlice()))) // class IN, time to live 0
		records = append(records, a.AsSlice()...)
	}
	if len(list) == 0 {
		flags |= 3 // NXDOMAIN
	}
	out := append([]byte{}, query[:2]...)
	for _, n := range []uint16{flags, 1, count, 0, 0} {
		out = binary.BigEndian.AppendUint16(out, n)
	}
	return append(append(out, query[12:end]...), records...)
}
