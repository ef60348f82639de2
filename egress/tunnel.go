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
	begun, checked := &readFrom{conn, buffered.Reader}, &hellos{}
	if r == nil || !r.Tunnel {
		_ = conn.SetDeadline(time.Now().Add(helloTime))
		if checked, err = checkHellos(buffered.Reader, strings.Trim(d.Host, "[]")); err != nil {
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

// hellos passes on what a client sends that begins a TLS connection to a host. A server may ask for another
// ClientHello (RFC 8446, section 4.1.4), and some serve what that one names, so it has to name the host too.
type hellos struct {
	r     *bufio.Reader
	host  string
	ready []byte // a ClientHello that was checked
	left  int    // bytes of the present record
	over  bool   // no ClientHello can follow
	err   error  // why the second ClientHello was refused
}

// checkHellos reads the first ClientHello, and refuses one that is not for the host.
func checkHellos(r *bufio.Reader, host string) (*hellos, error) {
	hello, err := helloFor(r, host)
	return &hellos{r: r, host: host, ready: hello}, err
}

// Read implements [io.Reader].
func (h *hellos) Read(p []byte) (int, error) {
	if len(h.ready) == 0 && h.left == 0 && !h.over {
		if err := h.record(); err != nil {
			return 0, err
		}
	}
	if len(h.ready) > 0 {
		took := copy(p, h.ready)
		h.ready = h.ready[took:]
		return took, nil
	}
	if h.over {
		return h.r.Read(p)
	}
	took, err := h.r.Read(p[:min(len(p), h.left)])
	h.left -= took
	return took, err
}

// record looks at the next record. The first one of a handshake is the last that is looked at: it is
// another ClientHello, or what follows in TLS 1.2.
func (h *hellos) record() error {
	head, err := h.r.Peek(recordHeader)
	if err != nil {
		return err
	}
	size := int(binary.BigEndian.Uint16(head[3:]))
	if h.left = recordHeader + size; head[0] != handshake {
		return nil
	}
	h.over = true
	head, err = h.r.Peek(recordHeader + min(size, 6))
	if err != nil {
		return err
	}
	// An encrypted record of TLS 1.2 has at least 16 bytes, and is as good as never like this.
	if b := head[recordHeader:]; size == 0 || b[0] == 1 && (size < 2 || b[1] == 0) && (size < 5 || b[4] == 3) {
		h.ready, h.err = helloFor(h.r, h.host)
	}
	return h.err
}

const (
	recordHeader = 5
	handshake    = 22
	maxHello     = 64 << 10
)

var (
	errHello  = errors.New("the name of the server is known")
	errNotTLS = errors.New("the connection does not begin with TLS; a rule with Tunnel permits other protocols")
)

// readHello reads the records of one ClientHello, and nothing behind it (RFC 8446, section 5.1).
func readHello(r io.Reader) (records []byte, err error) {
	for want, got := 4, 0; got < want; {
		at := len(records)
		records = append(records, make([]byte, recordHeader)...)
		if _, err := io.ReadFull(r, records[at:]); err != nil {
			return nil, errNotTLS
		}
		size := int(binary.BigEndian.Uint16(records[at+3:]))
		if records[at] != handshake || size == 0 || got+size > maxHello {
			return nil, errNotTLS
		}
		records = append(records, make([]byte, size)...)
		if _, err := io.ReadFull(r, records[at+recordHeader:]); err != nil {
			return nil, errNotTLS
		}
		if at == 0 && size >= 4 {
			want = 4 + int(binary.BigEndian.Uint32(records[recordHeader:])&0xffffff)
		}
		if got += size; at == 0 && size < 4 || got > want {
			return nil, errNotTLS
		}
	}
	return records, nil
}

// helloFor reads a ClientHello, and refuses one that is not for a host. It returns what it has read.
func helloFor(r io.Reader, host string) ([]byte, error) {
	records, err := readHello(r)
	if err != nil {
		return nil, err
	}
	var name string
	var extensions []uint16
	err = tls.Server(&mute{readFrom{nil, bytes.NewReader(records)}}, &tls.Config{GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		name, extensions = h.ServerName, h.Extensions
		return nil, errHello
	}}).Handshake()
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	switch {
	case !errors.Is(err, errHello):
		return nil, errNotTLS
	case slices.Contains(extensions, encrypted):
		return nil, errors.New("the name of the server is encrypted (ECH), so it cannot be checked")
	case name == host || name == "" && isAddress(host):
		return records, nil
	}
	return nil, errors.New("TLS names another server: " + cmp.Or(name, "none"))
}

// mute is a connection on which nothing is sent.
type mute struct{ readFrom }

func (*mute) Write(p []byte) (int, error) { return len(p), nil }
