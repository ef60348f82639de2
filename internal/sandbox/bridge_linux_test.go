package sandbox

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A bridged command is one whose connections go to a proxy, which answers each with a text.
type bridged struct {
	box      *Box
	listener net.Listener
	ended    chan error // why the listener failed
}

const pong = "pong\n"

func (b *bridged) serve(l net.Listener) {
	b.listener = l
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				b.ended <- err
				return
			}
			go func() {
				defer conn.Close()
				_, _ = io.WriteString(conn, pong)
			}()
		}
	}()
}

// eachBridge runs a test with each mechanism that can hand connections to a proxy.
func eachBridge(t *testing.T, test func(t *testing.T, p *place, b *bridged)) {
	for name, open := range map[string]func(Policy) *Box{"landlock": Landlock, "bwrap": Bubblewrap} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t, os.Getuid())
			b := &bridged{box: open(p.policy(t)), ended: make(chan error, 1)}
			defer func() { require.NoError(t, b.box.Close()) }()
			cmd := exec.Command("true")
			if _, err := b.box.Start(t.Context(), cmd, Call{Proxy: func(l net.Listener) { l.Close() }}); err != nil {
				t.Skipf("not possible here: %v", err)
			}
			require.NoError(t, cmd.Wait())
			test(t, p, b)
		})
	}
}

// run runs a command, and returns what it printed.
func (b *bridged) run(t *testing.T, call Call, argv ...string) string {
	t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin", probeVar + "=connects"}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	call.Proxy = b.serve
	r, err := b.box.Start(t.Context(), cmd, call)
	require.NoError(t, err)
	assert.True(t, r.Proxied && r.Network, r)
	_ = cmd.Wait()
	return out.String()
}

func TestBridge(t *testing.T) {
	eachBridge(t, func(t *testing.T, p *place, b *bridged) {
		out := b.run(t, Call{}, "bash", "-c", `cat </dev/tcp/127.0.0.1/3128; cat </dev/tcp/127.0.0.1/"${HTTP_PROXY##*:}"; : </dev/tcp/`+strings.Replace(p.tcp, ":", "/", 1))
		assert.Equal(t, 2, strings.Count(out, pong), out)
		assert.Regexp(t, "Network is unreachable|Connection refused", out)
		// The last process is gone, so nobody can connect any more.
		require.ErrorIs(t, <-b.ended, io.EOF)
		b.listener.Close()
	})
}

// When the listener is closed, a command that goes on has no way out.
func TestBridgeClosed(t *testing.T) {
	eachBridge(t, func(t *testing.T, p *place, b *bridged) {
		cmd := exec.Command("bash", "-c", `read -r _; cat </dev/tcp/127.0.0.1/3128; : </dev/tcp/`+strings.Replace(p.tcp, ":", "/", 1))
		in, err := cmd.StdinPipe()
		require.NoError(t, err)
		var out bytes.Buffer
		cmd.Stderr, cmd.Stdout = &out, &out
		_, err = b.box.Start(t.Context(), cmd, Call{Proxy: b.serve})
		require.NoError(t, err)
		b.listener.Close()
		require.ErrorIs(t, <-b.ended, net.ErrClosed)
		in.Close()
		require.Error(t, cmd.Wait())
		assert.Equal(t, 2, strings.Count(out.String(), "connect: Function not implemented"), out.String())
	})
}

// The variables name the proxy and the certificates, which no command can change.
func TestBridgeVariables(t *testing.T) {
	eachBridge(t, func(t *testing.T, _ *place, b *bridged) {
		out := b.run(t, Call{Roots: []byte("certificates\n")}, "bash", "-c",
			`echo "$https_proxy $HTTPS_PROXY"; cat "$SSL_CERT_FILE"; echo x 2>&1 >>"$SSL_CERT_FILE"; rm -f "$GIT_SSL_CAINFO" 2>&1; cat "$NODE_EXTRA_CA_CERTS"`)
		assert.Contains(t, out, "http://127.0.0.1:3128 http://127.0.0.1:3128\n")
		assert.Equal(t, 2, strings.Count(out, "certificates\n"), out)
		assert.NotContains(t, out, "\nx\n")
		<-b.ended
		out = b.run(t, Call{}, "bash", "-c", `echo "${SSL_CERT_FILE-none}"`)
		assert.Contains(t, out, "none\n")
		files, err := filepath.Glob(filepath.Join(filepath.Dir(b.box.temp), "roots*"))
		require.NoError(t, err)
		assert.Empty(t, files, "left by a write")
	})
}

// The connection that replaces a socket has its flags, and a network of the sandbox can be used.
func TestBridgeWithin(t *testing.T) {
	eachBridge(t, func(t *testing.T, _ *place, b *bridged) {
		exe, err := os.Executable()
		require.NoError(t, err)
		out := b.run(t, Call{}, exe)
		want := "blocking\nnot blocking\nclosed on exec\n"
		if t.Name() == "TestBridgeWithin/bwrap" {
			want += "server\nblocking server\nrefused\nfull\n"
		}
		assert.Equal(t, want, out)
	})
}

// connects tries connections inside of a sandbox.
func connects() error {
	proxy := sockaddr(proxyAddress())
	say := func(ok bool, what string) {
		if ok {
			fmt.Println(what)
		}
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		return err
	}
	buf := make([]byte, 8)
	err = unix.Connect(fd, proxy)
	n, _ := unix.Read(fd, buf)
	flags, _ := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	kept, _ := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	say(err == nil && string(buf[:n]) == pong && flags&unix.O_NONBLOCK == 0 && kept == 0, "blocking")
	if fd, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0); err != nil {
		return err
	}
	err = unix.Connect(fd, proxy)
	flags, _ = unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	kept, _ = unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	say(err == nil && flags&unix.O_NONBLOCK != 0, "not blocking")
	say(kept == unix.FD_CLOEXEC, "closed on exec")
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil // there are no servers in this sandbox
	}
	conn, err := net.Dial("tcp4", l.Addr().String())
	say(err == nil && conn != nil, "server")
	blocking := func(to unix.Sockaddr) error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
		if err != nil {
			return err
		}
		return unix.Connect(fd, to)
	}
	at := sockaddr(l.Addr().(*net.TCPAddr).AddrPort())
	say(blocking(at) == nil, "blocking server")
	l.Close()
	say(errors.Is(blocking(at), unix.ECONNREFUSED), "refused")
	// Nobody accepts, and the queue has one place.
	if fd, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0); err != nil {
		return err
	}
	if err = errors.Join(unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), unix.Listen(fd, 0)); err != nil {
		return err
	}
	full, err := unix.Getsockname(fd)
	for range 5 {
		if err == nil {
			err = blocking(full)
		}
	}
	say(errors.Is(err, unix.ETIMEDOUT), "full")
	return nil
}
