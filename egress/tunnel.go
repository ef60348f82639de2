package egress

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/tls"
	"encoding/binary"
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
	if _, err := io.WriteString(conn, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return err
	}
	begun, checked := &readFrom{conn, buffered.Reader}, newHellos(buffered.Reader, strings.Trim(d.Host, "[]"))
	if r == nil || !r.Tunnel {
		_ = conn.SetDeadline(time.Now().Add(helloTime))
		if err := checked.record(); err != nil {
			return s.deny(d, err.Error())
		}
		_ = conn.SetDeadline(time.Time{})
		begun.r = checked
	}
	if up == nil {
		return s.inspect(begun, d)
	}
	sent, received := join(begun, up)
	l.sent.Store(sent)
	l.received.Store(received)
	if checked.err != nil {
		return s.deny(d, checked.err.Error())
	}
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
	err = s.server(func(w http.ResponseWriter, req *http.Request) {
		named, err := parseDestination(req.Host, true)
		if err != nil || named != d || req.URL.Host != "" && req.URL.Host != req.Host || req.Method == http.MethodConnect {
			http.Error(w, "proxy: the request is for another host than the connection", http.StatusMisdirectedRequest)
			return
		}
		req.URL.Scheme, req.URL.Host = "https", d.String()
		s.reverse.ServeHTTP(w, req)
	}).Serve(once)
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

const handshake = 22 // the type of a record (RFC 8446, section 5.1)

var (
	errHello  = errors.New("the name of the server is known")
	errNotTLS = errors.New("the connection does not begin with TLS; a rule with Tunnel permits other protocols")
)

// hellos passes on what a client sends that begins a TLS connection to a host. A server may ask for another
// ClientHello (RFC 8446, section 4.1.4), and some serve what that one names, so it has to name the host too.
type hellos struct {
	r     *bufio.Reader // with room for a record
	host  string
	first bool  // the first record was checked
	left  int   // bytes of the present record
	over  bool  // no ClientHello can follow
	err   error // why a ClientHello was refused
}

func newHellos(r io.Reader, host string) *hellos {
	return &hellos{r: bufio.NewReaderSize(r, 5+16<<10), host: host} // the longest record that is not encrypted
}

// Read implements [io.Reader].
func (h *hellos) Read(p []byte) (int, error) {
	if h.left == 0 && !h.over {
		if err := h.record(); err != nil {
			return 0, err
		}
	}
	if h.over {
		return h.r.Read(p)
	}
	n, err := h.r.Read(p[:min(len(p), h.left)])
	h.left -= n
	return n, err
}

// record looks at the next record. Behind the first one, the first of a handshake is the last that is looked
// at: it is another ClientHello, or what follows in TLS 1.2.
func (h *hellos) record() error {
	b, err := h.r.Peek(5)
	if err != nil && !h.first {
		err = errNotTLS
	}
	if err != nil {
		return err
	}
	size := int(binary.BigEndian.Uint16(b[3:]))
	h.left = 5 + size
	if b[0] == handshake || !h.first {
		h.over = h.first
		b, _ = h.r.Peek(min(h.left, h.r.Size()))
		// Servers accept up to 131,396 bytes, of any old version. An encrypted record of TLS 1.2 is like that once in 22,000:
		// then the client has to connect again.
		if b = b[5:]; !h.first || len(b) == 0 || b[0] == 1 && (len(b) < 2 || b[1] < 3) {
			h.err = checkHello(h.r, h.left, h.host)
		}
		h.first = true
	}
	return h.err
}

// checkHello refuses a record that is not a whole ClientHello for a host.
func checkHello(r *bufio.Reader, size int, host string) error {
	b, err := r.Peek(size)
	if err != nil || size < 9 || b[0] != handshake || int(binary.BigEndian.Uint32(b[5:])&0xffffff) != size-9 {
		return errNotTLS
	}
	var name string
	var extensions []uint16
	err = tls.Server(&mute{readFrom{nil, bytes.NewReader(b)}}, &tls.Config{GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		name, extensions = h.ServerName, h.Extensions
		return nil, errHello
	}}).Handshake()
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	switch {
	case !errors.Is(err, errHello):
		return errNotTLS
	case slices.Contains(extensions, encrypted):
		return errors.New("the name of the server is encrypted (ECH), so it cannot be checked")
	case name == host || name == "" && isAddress(host):
		return nil
	}
	return errors.New("TLS names another server: " + cmp.Or(name, "none"))
}

// mute is a connection on which nothing is sent.
type mute struct{ readFrom }

func (*mute) Write(p []byte) (int, error) { return len(p), nil }
