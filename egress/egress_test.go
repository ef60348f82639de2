package egress

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
)

func TestRules(t *testing.T) {
	name := func(host string, port int, tls bool) Destination { return Destination{host, port, tls} }
	tests := []struct {
		host   string
		action Action
		d      Destination
		want   bool
	}{
		{"example.com", Allow, name("example.com", 443, true), true},
		{"Example.COM.", Allow, name("example.com", 443, true), true},
		{"example.com", Allow, name("example.com", 80, false), true},
		{"example.com", Allow, name("example.com", 80, true), false},
		{"example.com", Allow, name("example.com", 443, false), false},
		{"example.com", Allow, name("example.com", 8443, true), false},
		{"example.com", Allow, name("www.example.com", 443, true), false},
		{"example.com", Allow, name("notexample.com", 443, true), false},
		{"example.com:8443", Allow, name("example.com", 8443, true), true},
		{"example.com:8443", Allow, name("example.com", 8443, false), true},
		{"example.com:8443", Allow, name("example.com", 443, true), false},
		{"example.com:*", Allow, name("example.com", 22, true), true},
		{"*.example.com", Allow, name("a.b.example.com", 443, true), true},
		{"*.example.com", Allow, name("example.com", 443, true), false},
		{"*.example.com", Allow, name("aexample.com", 443, true), false},
		{"*.example.com:99", Allow, name("a.example.com", 99, true), true},
		{"*", Allow, name("example.com", 443, true), true},
		{"*", Allow, name("example.com", 22, true), false},
		{"*:22", Allow, name("example.com", 22, true), true},
		{"*:*", Allow, name("example.com", 1, false), true},
		{"*:*", Allow, name("8.8.8.8", 443, true), false},
		{"*", Allow, name("[2606:4700::1]", 443, true), false},
		{"8.8.8.8", Allow, name("8.8.8.8", 443, true), true},
		{"[2606:4700:0:0::1]", Allow, name("[2606:4700::1]", 443, true), true},
		{"example.com", Deny, name("example.com", 22, true), true},
		{"example.com:22", Deny, name("example.com", 443, true), false},
		{"*.example.com", Deny, name("example.com", 443, true), true},
		{"*", Deny, name("8.8.8.8", 443, true), true},
		{"*", Ask, name("[::1]", 1, false), true},
	}
	for _, tt := range tests {
		r, err := Rule{Host: tt.host, Action: tt.action}.parse()
		require.NoError(t, err, tt.host)
		assert.Equal(t, tt.want, r.covers(tt.d), "%s %s", &r, tt.d)
	}
	for _, host := range []string{
		"", "*.", "a b", "a*", "*a", "a.*", "*.*.com", "http://a", "a/b", "a:0:0", "a:65536", "a:x", "0x7f.1", "127.1", "017.0.0.1",
		"2130706433", "::1", "[::1%lo]", "*.8.8.8.8", "*.[::1]", "ä.de", "a..b", ".a", "a@b", "*:0x1", "a:*:*",
	} {
		_, err := Rule{Host: host}.parse()
		assert.Error(t, err, host)
	}
	for _, r := range []Rule{
		{Host: "a", Action: 3}, {Host: "a", Action: -1}, {Host: "a", Tunnel: true, Inspect: true},
		{Host: "a", Header: http.Header{"Host": {"b"}}}, {Host: "a", Header: http.Header{"connection": {"b"}}},
		{Host: "a", Header: http.Header{"A": {"b\r\nC: d"}}}, {Host: "a", Header: http.Header{"A:": {"b"}}},
	} {
		_, err := New(WithRules(r))
		_, ok := errors.AsType[*aycoder.ConfigError](err)
		assert.True(t, ok, "%+v: %v", r, err)
	}
	for _, o := range []Option{WithLog(nil), WithTLSConfig(nil), WithResolver(nil), WithPatience(0), nil} {
		_, err := New(o)
		_, ok := errors.AsType[*aycoder.ConfigError](err)
		assert.True(t, ok, err)
	}
}

// Deny comes before ask, and ask before allow, in whatever order the rules are.
func TestRulesOrder(t *testing.T) {
	rules := []Rule{{Host: "*.com", Action: Allow}, {Host: "a.com"}, {Host: "b.a.com", Action: Allow}, {Host: "*.a.com", Action: Deny}}
	for range 50 {
		rand.Shuffle(len(rules), func(i, j int) { rules[i], rules[j] = rules[j], rules[i] })
		p, err := New(WithRules(rules...))
		require.NoError(t, err)
		for host, want := range map[string]Action{"b.a.com": Deny, "a.com": Deny, "c.com": Allow} {
			assert.Equal(t, want, p.match(Destination{host, 443, true}).Action, "%s %v", host, rules)
		}
		assert.Nil(t, p.match(Destination{"c.org", 443, true}))
	}
}

// A host that is accepted is the same for all parsers, and is always written in the same way.
func FuzzDestination(f *testing.F) {
	for _, s := range []string{"example.com:443", "[::1]:80", "127.1", "a@b", "0x7f.0.0.1:1", "[::ffff:1.2.3.4]", "a:080", "1.2.3.4.", "x\x00y"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d, err := parseDestination(s, true)
		if err != nil {
			return
		}
		again, err := parseDestination(d.String(), true)
		require.NoError(t, err)
		require.Equal(t, d, again)
		u, err := url.Parse("https://" + s)
		require.NoError(t, err)
		require.Equal(t, s, u.Host)
		host := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
		if a, err := netip.ParseAddr(host); err == nil {
			require.Equal(t, a.Unmap(), netip.MustParseAddr(strings.Trim(d.Host, "[]")))
		} else {
			require.Equal(t, host, d.Host)
			require.NotRegexp(t, `(^|\.)(0x)?[0-9]+$`, d.Host, "a number")
		}
	})
}

// However a text comes in pieces, what is masked is what a search of the whole finds.
func TestMask(t *testing.T) {
	const secret = `ab/c+d"efgh`
	forms := secrets(http.Header{"Authorization": {"Bearer " + secret, "Basic " + base64.StdEncoding.EncodeToString([]byte("me:pass-word-1"))}})
	pieces := []string{secret, "Bearer ", "ab/c", secret[:5], secret[5:], "x", url.QueryEscape(secret), "me:pass-word-1", "pass-word-1", "\n",
		base64.StdEncoding.EncodeToString([]byte("me:pass-word-1")), `ab\/c+d\"efgh`}
	bare := secretForms(slices.Clone(forms))
	for i := range 2000 {
		r := rand.New(rand.NewPCG(1, uint64(i)))
		var b strings.Builder
		for range r.IntN(12) {
			b.WriteString(pieces[r.IntN(len(pieces))])
		}
		text := b.String()
		want := text
		for _, f := range bare {
			want = strings.ReplaceAll(want, f, strings.Repeat("*", len(f)))
		}
		resp := &http.Response{Body: io.NopCloser(strings.NewReader(text)), Header: http.Header{"X": {text}}, Trailer: http.Header{}}
		switch i % 3 {
		case 0:
			resp.Body = io.NopCloser(iotest.OneByteReader(strings.NewReader(text)))
		case 1:
			resp.Body = io.NopCloser(iotest.HalfReader(iotest.DataErrReader(strings.NewReader(text))))
		}
		resp.Trailer.Set("T", text)
		forms.mask(resp)
		got, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		for _, f := range []string{secret, url.QueryEscape(secret), "pass-word-1", `ab\/c+d\"efgh`} {
			require.NotContains(t, string(got), f, text)
		}
		require.Len(t, got, len(text))
		if i%3 != 0 { // byte by byte, a shorter form may be masked before a longer one is complete
			require.Equal(t, want, string(got), text)
		}
		require.Equal(t, want, resp.Header.Get("X"))
		require.Equal(t, want, resp.Trailer.Get("T"))
	}
}

// Nothing is held back that cannot be a part of a secret.
func TestMaskDoesNotWait(t *testing.T) {
	r, w := io.Pipe()
	resp := &http.Response{Body: r}
	secrets(http.Header{"A": {"abcdefgh"}}).mask(resp)
	buf := make([]byte, 100)
	go func() { _, _ = io.WriteString(w, "event: abc\n") }()
	n, err := resp.Body.Read(buf)
	require.NoError(t, err)
	require.Equal(t, "event: abc\n", string(buf[:n]))
	go func() {
		_, _ = io.WriteString(w, "abcd")
		_, _ = io.WriteString(w, "efghi")
	}()
	n, err = resp.Body.Read(buf)
	require.NoError(t, err)
	require.Equal(t, "********i", string(buf[:n]))
	resp.Body.Close()
}

// firstHello returns the ClientHello of a client.
func firstHello(t *testing.T, config *tls.Config) []byte {
	a, b := net.Pipe()
	defer a.Close()
	go func() { _ = tls.Client(b, config).Handshake() }()
	buf := make([]byte, 16<<10)
	n, err := a.Read(buf)
	require.NoError(t, err)
	return buf[:n]
}

func record(kind byte, payload []byte) []byte {
	return slices.Concat([]byte{kind, 3, 3, byte(len(payload) >> 8), byte(len(payload))}, payload)
}

// A second ClientHello must not name another server than the first.
func TestSecondHello(t *testing.T) {
	good, evil := firstHello(t, &tls.Config{ServerName: "example.com"}), firstHello(t, &tls.Config{ServerName: "evil.test"})
	var bytewise []byte
	for _, b := range evil[5:] {
		bytewise = append(bytewise, record(22, []byte{b})...)
	}
	change, data := record(20, []byte{1}), record(23, bytes.Repeat([]byte("x"), 1<<14))
	finished := record(22, append([]byte{1, 3, 9, 9, 9}, make([]byte, 35)...)) // encrypted
	// Servers with TLS 1.3 do not look at the old version, and OpenSSL takes 131,396 bytes.
	otherVersion, large := slices.Clone(evil), slices.Clone(evil[:5+1000])
	otherVersion[9], large[6] = 9, 2
	for _, tt := range []struct {
		name string
		then []byte
		ok   bool
	}{
		{"nothing", nil, true},
		{"the same", slices.Concat(change, good, data), true},
		{"data only", slices.Concat(change, data, data), true},
		{"TLS 1.2", slices.Concat(record(22, []byte{16, 0, 0, 1, 0}), change, finished, evil), true},
		{"TLS 1.2, resumed", slices.Concat(change, finished, data, data), true},
		{"another", evil, false},
		{"another after a change of ciphers", slices.Concat(change, evil), false},
		{"another after early data", slices.Concat(change, data, data, evil), false},
		{"another in pieces", bytewise, false},
		{"another of another version", slices.Concat(change, otherVersion), false},
		{"the beginning of a large one", slices.Concat(change, large), false},
		{"another after an empty record", slices.Concat(record(22, nil), evil), false},
		{"the head of a record", evil[:5], false},
		{"another after empty data", slices.Concat(record(23, nil), evil), false},
	} {
		h := newHellos(iotest.HalfReader(bytes.NewReader(append(slices.Clone(good), tt.then...))), "example.com")
		require.NoError(t, h.record())
		passed, err := io.ReadAll(h)
		assert.Equal(t, tt.ok, err == nil && h.err == nil, "%s: %v, %v", tt.name, err, h.err)
		if tt.ok {
			assert.Equal(t, append(slices.Clone(good), tt.then...), passed, tt.name)
		}
		assert.Equal(t, tt.ok && strings.Contains(string(tt.then), "evil"), strings.Contains(string(passed), "evil"), tt.name)
	}
	together := record(22, append(slices.Clone(good[5:]), evil[5:]...))
	require.Error(t, newHellos(bytes.NewReader(together), "example.com").record(), "two in one record")
}

// A second ClientHello is checked before the server gets it.
func TestSecondHelloIsHeldBack(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	sent := make(chan []byte, 1)
	go func() {
		conn, err := l.Accept()
		if err == nil {
			data, _ := io.ReadAll(conn)
			conn.Close()
			sent <- data
		}
	}()
	log := make(chan Record, 2)
	p, err := New(WithRules(Rule{Host: l.Addr().String(), Action: Allow, Private: true}), WithLog(func(r Record) { log <- r }))
	require.NoError(t, err)
	s := p.Session(t.Context(), nil)
	front := httptest.NewServer(http.HandlerFunc(s.handle))
	defer front.Close()
	conn, err := net.Dial("tcp", front.Listener.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	fmt.Fprintf(conn, "CONNECT %[1]s HTTP/1.1\r\nHost: %[1]s\r\n\r\n", l.Addr())
	first := firstHello(t, &tls.Config{InsecureSkipVerify: true})
	_, _ = conn.Write(slices.Concat(first, record(20, []byte{1}), firstHello(t, &tls.Config{ServerName: "evil.test"})))
	_, _ = io.Copy(io.Discard, conn)
	require.Equal(t, append(first, record(20, []byte{1})...), <-sent)
	require.NoError(t, s.Close())
	got := <-log // the record comes as the tunnel ends, after the client knows
	require.ErrorContains(t, got.Err, "TLS names another server: evil.test")
	require.False(t, got.Allowed)
}

// A server that asks for a second ClientHello works, and so do the versions of TLS.
func TestHandshakes(t *testing.T) {
	server := httptest.NewUnstartedServer(nil)
	server.StartTLS() // for its certificate
	server.Close()
	for name, config := range map[string]*tls.Config{
		"TLS 1.3":           {MinVersion: tls.VersionTLS13},
		"asks for a second": {MinVersion: tls.VersionTLS13, CurvePreferences: []tls.CurveID{tls.CurveP521}},
		"TLS 1.2":           {MaxVersion: tls.VersionTLS12},
	} {
		t.Run(name, func(t *testing.T) {
			config.Certificates = server.TLS.Certificates
			client, near := net.Pipe()
			far, served := net.Pipe()
			var work sync.WaitGroup
			work.Go(func() {
				defer far.Close()
				_, _ = io.Copy(far, newHellos(near, "example.com"))
			})
			work.Go(func() { _, _ = io.Copy(near, far) })
			work.Go(func() {
				conn := tls.Server(served, config)
				_, _ = io.Copy(conn, conn)
				served.Close()
			})
			conn := tls.Client(client, &tls.Config{ServerName: "example.com", InsecureSkipVerify: true})
			text := make([]byte, 100_000)
			go func() { _, _ = conn.Write(text) }()
			got := make([]byte, len(text))
			_, err := io.ReadFull(conn, got)
			require.NoError(t, err)
			require.Equal(t, config.CurvePreferences != nil, conn.ConnectionState().HelloRetryRequest)
			client.Close()
			near.Close()
			work.Wait()
		})
	}
}

func TestHello(t *testing.T) {
	first := func(config *tls.Config) []byte { return firstHello(t, config) }
	hello := first(&tls.Config{ServerName: "Example.com"})
	split := slices.Concat([]byte{22, 3, 1, 0, 10}, hello[5:15], []byte{22, 3, 1, byte((len(hello) - 15) >> 8), byte(len(hello) - 15)}, hello[15:])
	for _, tt := range []struct {
		name  string
		bytes []byte
		host  string
		ok    bool
	}{
		{"same", hello, "example.com", true},
		{"in two records", split, "example.com", false},
		{"more behind it", append(slices.Clone(hello), "more"...), "example.com", true},
		{"other", hello, "example.org", false},
		{"below", hello, "www.example.com", false},
		{"none", first(&tls.Config{InsecureSkipVerify: true}), "example.com", false},
		{"none, for an address", first(&tls.Config{InsecureSkipVerify: true}), "8.8.8.8", true},
		{"one, for an address", hello, "8.8.8.8", false},
		{"cut", hello[:len(hello)-1], "example.com", false},
		{"nothing", nil, "example.com", false},
		{"HTTP", []byte("GET / HTTP/1.1\r\nHost: example.com\r\n\r\n"), "example.com", false},
		{"ssh", []byte("SSH-2.0-OpenSSH_9.9\r\n"), "example.com", false},
		{"an alert", []byte{21, 3, 3, 0, 2, 1, 0}, "example.com", false},
		{"data", []byte{23, 3, 3, 0, 2, 1, 0}, "example.com", false},
	} {
		h := newHellos(bytes.NewReader(tt.bytes), tt.host)
		err := h.record()
		assert.Equal(t, tt.ok, err == nil, "%s: %v", tt.name, err)
		if err == nil {
			got, _ := io.ReadAll(io.LimitReader(h, int64(len(hello))))
			assert.True(t, bytes.HasPrefix(tt.bytes, got), "%s: what was read is sent on", tt.name)
		}
	}
}

func FuzzHello(f *testing.F) {
	f.Add([]byte{22, 3, 1, 0, 4, 1, 0, 0, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		if newHellos(bytes.NewReader(data), "example.com").record() == nil {
			require.Contains(t, strings.ToLower(string(data)), "example.com")
		}
	})
}

// here is a proxy for a server of this machine, that any name with a dot in it leads to.
func here(t *testing.T, handler http.HandlerFunc, rules ...Rule) (p *Proxy, host string, records func() []Record) {
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	host = strings.TrimPrefix(server.URL, "http://")
	for i := range rules {
		rules[i].Host = strings.ReplaceAll(rules[i].Host, "HERE", host)
	}
	var mu sync.Mutex
	var all []Record
	p, err := New(WithRules(rules...), WithLog(func(r Record) {
		mu.Lock()
		defer mu.Unlock()
		all = append(all, r)
	}))
	require.NoError(t, err)
	return p, host, func() []Record { mu.Lock(); defer mu.Unlock(); return slices.Clone(all) }
}

func hello(w http.ResponseWriter, r *http.Request) {
	data, _ := io.ReadAll(r.Body)
	fmt.Fprintf(w, "hello %s %s %d", r.Method, r.Host, len(data))
}

func TestRecords(t *testing.T) {
	p, host, records := here(t, hello, Rule{Host: "HERE", Action: Allow, Private: true}, Rule{Host: "evil.test", Action: Deny})
	s := p.Session(t.Context(), nil)
	client := &http.Client{Transport: s}
	resp, err := client.Post("http://"+host+"/a/"+strings.Repeat("b", 600)+"?secret=1", "text/plain", strings.NewReader("12345"))
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, resp.Body)
	require.NoError(t, err)
	resp.Body.Close()
	_, err = client.Get("https://evil.test/x")
	denied, ok := errors.AsType[*DeniedError](err)
	require.True(t, ok, err)
	assert.Equal(t, Destination{"evil.test", 443, true}, denied.Destination)
	assert.Equal(t, "evil.test:443 is denied: by the rule deny evil.test", denied.Error())
	_, err = client.Get("http://0x7f.1/")
	require.Error(t, err)
	require.NoError(t, s.Close())
	got := records()
	require.Len(t, got, 3)
	assert.Equal(t, []string{"POST", "GET", "GET"}, []string{got[0].Method, got[1].Method, got[2].Method})
	assert.Equal(t, []bool{true, false, false}, []bool{got[0].Allowed, got[1].Allowed, got[2].Allowed})
	assert.Equal(t, "allow "+host, got[0].Rule)
	assert.EqualValues(t, 5, got[0].Sent)
	assert.EqualValues(t, len("hello POST "+host+" 5"), got[0].Received)
	assert.LessOrEqual(t, len(got[0].Path), 512)
	assert.NotContains(t, fmt.Sprintf("%+v", got), "secret")
	assert.Len(t, s.Denied(), 1)
}

// The certificate of a host has to be for its name, whatever name the configuration has.
func TestCertificateIsOfHost(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(hello))
	defer server.Close()
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	at := strings.TrimPrefix(server.URL, "https://127.0.0.1")
	p, err := New(WithTLSConfig(&tls.Config{RootCAs: roots, ServerName: "example.com"}),
		WithRules(Rule{Host: "127.0.0.1" + at, Action: Allow, Private: true}, Rule{Host: "localhost" + at, Action: Allow, Private: true}))
	require.NoError(t, err)
	s := p.Session(t.Context(), nil)
	defer s.Close()
	client := &http.Client{Transport: s}
	resp, err := client.Get("https://127.0.0.1" + at)
	require.NoError(t, err)
	resp.Body.Close()
	assert.Equal(t, "HTTP/1.1", resp.Proto)
	resp, err = client.Get("https://localhost" + at)
	if err == nil {
		resp.Body.Close()
	}
	_, ok := errors.AsType[x509.HostnameError](err)
	require.True(t, ok, "%v", err)
}

// A server that accepts a connection and then says nothing is given up.
func TestServerWithoutHandshake(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	p, err := New(WithRules(Rule{Host: l.Addr().String(), Action: Allow, Private: true}))
	require.NoError(t, err)
	s := p.Session(t.Context(), nil)
	defer s.Close()
	require.NotZero(t, s.transport.TLSHandshakeTimeout)
	s.transport.TLSHandshakeTimeout = time.Millisecond
	_, err = (&http.Client{Transport: s}).Get("https://" + l.Addr().String())
	require.ErrorContains(t, err, "TLS handshake timeout")
}

// An address that is not public, and one of this machine, is refused when it is dialled.
func TestAddresses(t *testing.T) {
	p, host, _ := here(t, hello, Rule{Host: "HERE", Action: Allow}, Rule{Host: "169.254.169.254", Action: Allow}, Rule{Host: "[::1]:*", Action: Allow})
	s := p.Session(t.Context(), nil)
	defer s.Close()
	for _, address := range []string{"http://" + host, "http://169.254.169.254/", "http://[::1]:1/", "https://[::1]:1/"} {
		_, err := (&http.Client{Transport: s}).Get(address)
		denied, ok := errors.AsType[*DeniedError](err)
		require.True(t, ok, "%s: %v", address, err)
		assert.Contains(t, denied.Reason, "which is not public; a rule with Private permits that")
	}
}

// A session ends with all that belongs to it, whatever that is doing.
func TestSessionEnds(t *testing.T) {
	entered, release := make(chan struct{}, 9), make(chan struct{})
	defer close(release)
	p, host, records := here(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "" {
			conn, _, _ := http.NewResponseController(w).Hijack()
			fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
			defer conn.Close()
		} else {
			w.(http.Flusher).Flush()
		}
		entered <- struct{}{}
		<-release
	}, Rule{Host: "HERE", Action: Allow, Private: true, Tunnel: true})
	s := p.Session(t.Context(), func(ctx context.Context, d Destination) (bool, string) {
		entered <- struct{}{}
		<-ctx.Done()
		return true, "" // too late
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s.Serve(l)
	var work sync.WaitGroup
	for _, text := range []string{
		"GET http://" + host + "/ HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET http://" + host + "/ HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
		"CONNECT " + host + " HTTP/1.1\r\nHost: x\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET http://unknown.test/ HTTP/1.1\r\nHost: x\r\n\r\n",
	} {
		conn, err := net.Dial("tcp", l.Addr().String())
		require.NoError(t, err)
		_, err = io.WriteString(conn, text)
		require.NoError(t, err)
		work.Go(func() { // ends with the session
			defer conn.Close()
			_, _ = io.Copy(io.Discard, conn)
		})
		<-entered
	}
	idle, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	defer idle.Close()
	require.NoError(t, s.Close())
	work.Wait()
	_, err = net.Dial("tcp", l.Addr().String())
	require.Error(t, err, "it still listens")
	_, err = s.RoundTrip(httptest.NewRequest("GET", "http://"+host+"/", nil))
	require.Error(t, err)
	_, err = s.RoundTrip(httptest.NewRequest("GET", "http://other.test/", nil))
	require.Error(t, err)
	s.Serve(l)
	for _, r := range records() {
		assert.False(t, r.Allowed && r.Destination.Host == "unknown.test")
	}
	require.NoError(t, s.Close())
}

// One question for a destination, whoever asks: those of other sessions wait, and one at a time
// in a session. A panic is a no.
func TestOneQuestion(t *testing.T) {
	p, err := New()
	require.NoError(t, err)
	var open, most, total atomic.Int32
	ask := func(ctx context.Context, d Destination) (bool, string) {
		total.Add(1)
		most.Store(max(most.Load(), open.Add(1)))
		defer open.Add(-1)
		for range 1000 {
			runtime.Gosched() // for those that do not wait
		}
		if d.Host == "panic.test" {
			panic("ask")
		}
		return false, "no"
	}
	var sessions []*Session
	var work sync.WaitGroup
	for range 4 {
		s := p.Session(t.Context(), ask)
		sessions = append(sessions, s)
		for range 8 {
			work.Go(func() {
				_, err := s.RoundTrip(httptest.NewRequest("GET", "http://a.test/", nil))
				denied, ok := errors.AsType[*DeniedError](err)
				assert.True(t, ok && denied.Reason == "no", err)
			})
		}
	}
	work.Wait()
	assert.EqualValues(t, 4, total.Load())
	assert.EqualValues(t, 1, most.Load())
	s := sessions[0]
	_, err = s.RoundTrip(httptest.NewRequest("GET", "http://panic.test/", nil))
	_, ok := errors.AsType[*DeniedError](err)
	require.True(t, ok, err)
	for i := range 2 * maxAsked {
		_, err = s.RoundTrip(httptest.NewRequest("GET", fmt.Sprintf("http://%d.test/", i), nil))
		_, ok := errors.AsType[*DeniedError](err)
		require.True(t, ok, err)
	}
	assert.EqualValues(t, 4+maxAsked-1, total.Load(), "questions are bounded")
	assert.Len(t, s.Denied(), maxDenied)
	for _, s := range sessions {
		require.NoError(t, s.Close())
	}
}

// An answer that comes when the question is over is a no.
func TestLateAnswer(t *testing.T) {
	p, err := New(WithPatience(1))
	require.NoError(t, err)
	s := p.Session(t.Context(), func(ctx context.Context, _ Destination) (bool, string) {
		<-ctx.Done()
		return true, ""
	})
	defer s.Close()
	_, err = s.RoundTrip(httptest.NewRequest("GET", "http://a.test/", nil))
	denied, ok := errors.AsType[*DeniedError](err)
	require.True(t, ok, err)
	require.Equal(t, "the question was not answered", denied.Reason)
}

// The number of connections is bounded.
func TestManyConnections(t *testing.T) {
	p, err := New()
	require.NoError(t, err)
	s := p.Session(t.Context(), nil)
	defer s.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s.Serve(l)
	var conns []net.Conn
	for range maxOpen {
		conn, err := net.Dial("tcp", l.Addr().String())
		require.NoError(t, err)
		defer conn.Close()
		conns = append(conns, conn)
	}
	_, err = io.Copy(io.Discard, conns[maxOpen-1]) // the listener counts too
	require.NoError(t, err, "it was not closed")
	s.mu.Lock()
	defer s.mu.Unlock()
	assert.Len(t, s.open, maxOpen)
}
