package egress

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

const helloTime = 10 * time.Second

// tunnel serves CONNECT.
func (s *Session) tunnel(w http.ResponseWriter, req *http.Request) {
	l := s.begin(req.Method, "")
	err := s.connected(w, req, l)
	l.end(err)
}

func (s *Session) connected(w http.ResponseWriter, req *http.Request, l *entry) error {
	d, err := parseDestination(req.Host, true)
	if err != nil {
		fail(w, req, err)
		return err
	}
	r, err := l.allow(req.Context(), d)
	var up net.Conn
	if err == nil && (r == nil || !r.inspects()) {
		up, err = s.dial(req.Context(), d)
	}
	if err != nil {
		fail(w, req, err)
		return err
	}
	if up != nil {
		defer up.Close()
	}
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return err
	}
	defer conn.Close()
	client := &readFrom{conn, buffered.Reader}
	if _, err := io.WriteString(conn, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return err
	}
	var hello []byte
	if r == nil || !r.Tunnel {
		_ = conn.SetDeadline(time.Now().Add(helloTime))
		if hello, err = helloFor(client, strings.Trim(d.Host, "[]")); err != nil {
			return s.deny(d, err.Error())
		}
		_ = conn.SetDeadline(time.Time{})
	}
	begun := &readFrom{conn, io.MultiReader(bytes.NewReader(hello), client)}
	if up == nil {
		return s.inspect(begun, d)
	}
	sent, received := join(begun, up)
	l.sent.Store(sent)
	l.received.Store(received)
	return nil
}

// readFrom is a connection of which a part was read already.
type readFrom struct {
	net.Conn
	r io.Reader
}

func (c *readFrom) Read(p []byte) (int, error) { return c.r.Read(p) }

// join copies in both directions until both have ended, and counts.
func join(client, up net.Conn) (sent, received int64) {
	var work sync.WaitGroup
	work.Go(func() { sent = oneWay(up, client) })
	received = oneWay(client, up)
	work.Wait()
	return sent, received
}

// oneWay copies until the end. If that is not regular, the other direction ends too.
func oneWay(to, from net.Conn) int64 {
	n, err := io.Copy(to, from)
	closer, ok := to.(interface{ CloseWrite() error })
	if err != nil || !ok || closer.CloseWrite() != nil {
		to.Close()
		from.Close()
	}
	return n
}

// inspect serves TLS in the place of a host, and sends the requests on.
func (s *Session) inspect(conn net.Conn, d Destination) error {
	config, err := s.proxy.authority.serve(strings.Trim(d.Host, "[]"))
	if err != nil {
		return err
	}
	once, client := make(single, 1), tls.Server(conn, config)
	once <- &kept{client, sync.OnceFunc(func() { client.Close(); close(once) })}
	handler := http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if !s.enter() {
			return
		}
		defer s.work.Done()
		named, err := parseDestination(req.Host, true)
		if err != nil || named != d || req.URL.Host != "" && req.URL.Host != req.Host || req.Method == http.MethodConnect {
			http.Error(w, "proxy: the request is for another host than the connection", http.StatusMisdirectedRequest)
			return
		}
		req.URL.Scheme, req.URL.Host = "https", d.String()
		s.reverse.ServeHTTP(w, req)
	})
	err = s.server(handler).Serve(once)
	if errors.Is(err, net.ErrClosed) {
		err = nil
	}
	return err
}

// single is a listener for one connection. It fails when that is closed.
type single chan net.Conn

func (l single) Accept() (net.Conn, error) {
	if conn, ok := <-l; ok {
		return conn, nil
	}
	return nil, net.ErrClosed
}

func (single) Close() error { return nil }

func (single) Addr() net.Addr { return &net.TCPAddr{} }

// encrypted is the extension of a ClientHello with an encrypted name (RFC 9849, section 5).
const encrypted = 0xfe0d

var errHello = errors.New("the name of the server is known")

// helloFor reads the beginning of a TLS connection, and refuses one that is not for a host. It
// returns what it has read.
func helloFor(conn net.Conn, host string) ([]byte, error) {
	var read bytes.Buffer
	var name string
	var extensions []uint16
	err := tls.Server(&mute{readFrom{conn, io.TeeReader(conn, &read)}}, &tls.Config{GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		name, extensions = h.ServerName, h.Extensions
		return nil, errHello
	}}).Handshake()
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	switch {
	case !errors.Is(err, errHello):
		return nil, errors.New("the connection does not begin with TLS; a rule with Tunnel permits other protocols")
	case slices.Contains(extensions, encrypted):
		return nil, errors.New("the name of the server is encrypted (ECH), so it cannot be checked")
	case name == host || name == "" && isAddress(host):
		return read.Bytes(), nil
	}
	return nil, errors.New("TLS names another server: " + cmp.Or(name, "none"))
}

// mute is a connection on which nothing is sent.
type mute struct{ readFrom }

func (*mute) Write(p []byte) (int, error) { return len(p), nil }
