package postgres

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aycoder/aycoder/budget"
)

// lateNet is a network that delivers what is written to one connection when it is told to, even if the connection was closed.
type lateNet struct {
	hold          atomic.Pointer[string] // what is in the next thing that is written to this connection
	held, deliver chan struct{}
	delivered     chan error
}

// newLateNet puts a store into the network.
func newLateNet(t testing.TB, s *Store) *lateNet {
	n := &lateNet{held: make(chan struct{}), deliver: make(chan struct{}), delivered: make(chan error, 1)}
	dialWith(t, s, n.dial)
	return n
}

// giveUp calls f, which is given up when it has written something with a text, and delivers that afterwards.
func (n *lateNet) giveUp(t testing.TB, text string, f func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	n.hold.Store(&text)
	go func() {
		<-n.held
		cancel()
	}()
	if err := f(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	close(n.deliver)
	must(t, <-n.delivered)
}

func (n *lateNet) dial(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := (&net.Dialer{}).DialContext(ctx, network, address)
	return &lateConn{Conn: c, net: n}, err
}

type lateConn struct {
	net.Conn
	net  *lateNet
	kept []byte
}

func (c *lateConn) Write(p []byte) (int, error) {
	if text := c.net.hold.Load(); text != nil && bytes.Contains(p, []byte(*text)) && c.net.hold.CompareAndSwap(text, nil) {
		c.kept = slices.Clone(p)
		close(c.net.held)
	} else if c.kept != nil {
		c.kept = append(c.kept, p...)
	} else {
		return c.Conn.Write(p)
	}
	return len(p), nil
}

func (c *lateConn) Close() error {
	if c.kept == nil {
		return c.Conn.Close()
	}
	go func() {
		<-c.net.deliver
		err := c.SetDeadline(time.Time{})
		_, failed := c.Conn.Write(c.kept)
		_, _ = io.Copy(io.Discard, c.Conn) // until PostgreSQL has done it
		c.net.delivered <- errors.Join(err, failed, c.Conn.Close())
	}()
	return nil
}

// A claim that was given up leaves nothing reserved, also if its row comes when that was done.
func TestReserveComesLate(t *testing.T) {
	s := openStore(t, tempDir(t), WithLease(24*time.Hour)) // which beats when it is told to
	late := newLateNet(t, s)
	a := s.Tenant("a")
	reserve := func(ctx context.Context) error {
		r, err := a.Reserve(ctx, budget.Amount{Tokens: 1})
		if err == nil {
			r.Settle(ctx, budget.Amount{})
		}
		return err
	}
	must(t, reserve(t.Context())) // the statements are prepared then
	late.giveUp(t, "", reserve)
	if u := status(t, a); u.WaitingCalls != 1 {
		t.Fatalf("the row has not come late: %+v", u)
	}
	tidy(t, s)
	must(t, s.settleOwed(t.Context()))
	if u := status(t, a); u != (QuotaStatus{}) {
		t.Errorf("status %+v", u)
	}
}

// tidy does what a store does with each beat.
func tidy(t testing.TB, s *Store) {
	t.Helper()
	conn, err := s.connection(t.Context())
	must(t, err)
	must(t, s.lease.tidy(t.Context(), conn, time.Minute))
	must(t, conn.Close(t.Context()))
}

// A session that was not opened is free, also if the database opens it when that was given up.
func TestOpenComesLate(t *testing.T) {
	dir := tempDir(t)
	s, other := openStore(t, dir, WithLease(24*time.Hour)), openStore(t, dir)
	late := newLateNet(t, s)
	open := func(s *Store) func(ctx context.Context) error {
		return func(ctx context.Context) error {
			j, err := s.Open(ctx, "a", true)
			if err == nil {
				err = j.Close()
			}
			return err
		}
	}
	must(t, create(t, s).Close())
	must(t, open(s)(t.Context())) // the statements are prepared then
	late.giveUp(t, `"since"`, open(s))
	isBusy(t, "open", open(other)(t.Context()))
	tidy(t, s)
	must(t, open(other)(t.Context()))
	must(t, open(s)(t.Context()))
}
