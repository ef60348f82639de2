package worker_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"testing"
	"testing/synctest"

	"go.temporal.io/sdk/client"

	"github.com/aycoder/aycoder/contrib/postgres"
	"github.com/aycoder/aycoder/contrib/temporal"
	"github.com/aycoder/aycoder/contrib/worker"
)

// A body that does not come is not waited for.
func TestSlowBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node, err := worker.New(worker.Config{Temporal: struct{ client.Client }{}, Store: &postgres.Store{},
			Open:      func(context.Context, string, string) (*temporal.Agent, error) { return nil, nil },
			Principal: func(*http.Request) (string, error) { return "acme", nil }})
		must(t, err)
		here, there := net.Pipe()
		l := &oneConn{conns: make(chan net.Conn, 1)}
		l.conns <- there
		hs := &http.Server{Handler: node}
		done := make(chan struct{})
		go func() { _ = hs.Serve(l); close(done) }()
		_, err = fmt.Fprintf(here, "POST /api/prompt HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{\"prompt\":")
		must(t, err)
		res, err := http.ReadResponse(bufio.NewReader(here), nil)
		must(t, err)
		if res.StatusCode != http.StatusBadRequest {
			t.Errorf("status %d", res.StatusCode)
		}
		here.Close()
		must(t, hs.Close())
		<-done
	})
}

// A oneConn is a listener for the connections in a channel.
type oneConn struct{ conns chan net.Conn }

func (l *oneConn) Accept() (net.Conn, error) {
	if c := <-l.conns; c != nil {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (l *oneConn) Close() error   { close(l.conns); return nil }
func (l *oneConn) Addr() net.Addr { return &net.TCPAddr{} }
