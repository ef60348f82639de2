package egress

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A server that puts the credentials where responses have no place for them reveals them neither to a
// command, nor to a tool of the host, nor in the log.
func TestMalformedResponsesRevealNothing(t *testing.T) {
	const secret = "s3cret-of-the-host"
	answers := map[string]string{
		"/protocol": "%s 200 OK\r\n\r\n",
		"/code":     "HTTP/1.1 %s OK\r\n\r\n",
		"/status":   "HTTP/1.1 500 %s\r\nContent-Length: 2\r\n\r\nno",
		"/header":   "HTTP/1.1 200 OK\r\n%s\r\n\r\n",
		"/length":   "HTTP/1.1 200 OK\r\nContent-Length: %s\r\n\r\n",
		"/transfer": "HTTP/1.1 200 OK\r\nTransfer-Encoding: %s\r\n\r\n",
		"/encoding": "HTTP/1.1 200 OK\r\nContent-Encoding: identity\r\nContent-Encoding: %s\r\nContent-Length: 0\r\n\r\n",
		"/upgrade":  "HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n",
		"/trailer":  "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: %s\r\n\r\n0\r\n\r\n",
		"/trailers": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n0\r\n%s\r\n\r\n",
		"/chunk":    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%s\r\n",
		"/early":    "HTTP/1.1 103 %[1]s\r\nLink: %[1]s\r\n\r\nHTTP/1.1 200 %[1]s\r\nContent-Length: 0\r\n\r\n",
	}
	server := httptest.NewUnstartedServer(nil)
	server.StartTLS() // for its certificate
	server.Close()
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: server.TLS.Certificates})
	require.NoError(t, err)
	defer l.Close()
	var asked atomic.Int64
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				req, err := http.ReadRequest(bufio.NewReader(conn))
				if err == nil && req.Header.Get("X-Key") == secret {
					asked.Add(1)
					fmt.Fprintf(conn, answers[req.URL.Path], req.Header.Get("X-Key"))
				}
			}()
		}
	}()
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	var log bytes.Buffer
	_, port, _ := net.SplitHostPort(l.Addr().String())
	p, err := New(WithTLSConfig(&tls.Config{RootCAs: roots, ServerName: "example.com"}),
		WithLog(func(r Record) { fmt.Fprintf(&log, "%+v %v\n", r, r.Err) }),
		WithRules(Rule{Host: "127.0.0.1:" + port, Action: Allow, Private: true, Header: http.Header{"X-Key": {secret}}}))
	require.NoError(t, err)
	for path := range answers {
		s := p.Session(t.Context(), nil)
		front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r.URL.Scheme, r.URL.Host = "http", "127.0.0.1:"+port
			s.handle(w, r)
		}))
		conn, err := net.Dial("tcp", front.Listener.Addr().String())
		require.NoError(t, err)
		fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", path)
		command, _ := io.ReadAll(conn)
		conn.Close()
		front.Close()
		assert.NotContains(t, strings.ToLower(string(command)), secret, path)

		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://127.0.0.1:"+port+path, nil)
		require.NoError(t, err)
		resp, err := s.RoundTrip(req)
		text := fmt.Sprintf("%v %+v", err, resp)
		if err == nil {
			_, err = io.ReadAll(resp.Body)
			resp.Body.Close()
			text += fmt.Sprintf("%v %+v %+v", err, resp.Trailer, resp.Request.Header)
			assert.Same(t, req, resp.Request, path)
		}
		assert.NotContains(t, strings.ToLower(text), secret, path)
		require.NoError(t, s.Close())
	}
	assert.NotContains(t, strings.ToLower(log.String()), secret)
	assert.EqualValues(t, 2*len(answers), asked.Load())
}
