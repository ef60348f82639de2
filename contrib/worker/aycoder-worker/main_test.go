package main

import (
	"log/slog"
	"net"
	"strings"
	"testing"
)

// TestServerOf checks that a server which other machines can reach is warned about, and ends connections that wait for a request.
func TestServerOf(t *testing.T) {
	for address, warns := range map[string]bool{"127.0.0.1:1": false, "[::1]:1": false, "0.0.0.0:1": true, "10.0.0.1:1": true, "[::]:1": true} {
		at, err := net.ResolveTCPAddr("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		var log strings.Builder
		srv := serverOf(nil, at, slog.New(slog.NewTextHandler(&log, nil)))
		if strings.Contains(log.String(), "WARN") != warns || srv.IdleTimeout <= 0 || srv.ReadHeaderTimeout <= 0 {
			t.Errorf("%s: %v, %v, log %s", address, srv.IdleTimeout, srv.ReadHeaderTimeout, log.String())
		}
	}
}
