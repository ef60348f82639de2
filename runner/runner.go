package runner

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/option"
	"github.com/aycoder/aycoder/remote"
	"github.com/aycoder/aycoder/tools"
)

// The headers of the request that becomes a connection, and of its answer.
const (
	protocol       = "aycoder-runner"
	headerInstance = "Aycoder-Instance" // random, one for each process
	headerFence    = "Aycoder-Fence"    // that of the last connection, or 0; in the answer, that of this one
	headerKind     = "Aycoder-Refused"  // the Kind of an error

	answerTime = 30 * time.Second // until the server answers the request
	leaveTime  = 5 * time.Second
	firstWait  = 100 * time.Millisecond // before the second try, then twice as long
	lastWait   = 15 * time.Second
)

// Option configures [Serve].
type Option func(*dialer) error

// WithVersion sets what the manifest says about the version of the program, in ASCII. The rest after 100 bytes is left
// out. Default: "".
func WithVersion(v string) Option {
	return func(d *dialer) error {
		d.version = v
		return nil
	}
}

// WithTransport sets what sends the requests, such as one that trusts a further authority. It must not speak
// HTTP/2. Default: one of HTTP/1.1, by the proxies that the environment sets.
func WithTransport(t http.RoundTripper) Option {
	return func(d *dialer) error {
		if t == nil {
			return &aycoder.ConfigError{Option: "WithTransport", Err: errors.New("is nil")}
		}
		d.transport = t
		return nil
	}
}

// WithPlainHTTP allows an http address that is not of this machine. Everybody on the way then sees the token and the
// files, and can change what is done. Default: false.
func WithPlainHTTP(allowed bool) Option {
	return func(d *dialer) error {
		d.plain = allowed
		return nil
	}
}

// WithReport sets what gets the log: each connection and its end. Default: nothing.
func WithReport(l *slog.Logger) Option {
	return func(d *dialer) error {
		if l == nil {
			return &aycoder.ConfigError{Option: "WithReport", Err: errors.New("is nil")}
		}
		d.log = l
		return nil
	}
}

// dialer is the side of the workspace.
type dialer struct {
	url, token string
	version    string
	files      tools.FS
	exec       tools.Exec
	transport  http.RoundTripper
	plain      bool
	log        *slog.Logger

	instance string
	fence    uint64 // of the last connection

	mu sync.Mutex // held while the texts of the project are read, for one question at a time
}

// Serve makes files and commands available to the server with a [Hub] at an address, such as
// "https://agent.example.com/api/runner". It connects to the server, so that this machine needs no open port, and again
// whenever the connection is cut, until ctx ends or the server refuses it for good. The error is then that of ctx, or an
// [*Error], of [KindUnauthorized], [KindTaken], [KindFenced] or [KindProtocol], or a [*remote.VersionError].
//
// At the end of a connection, and before the next one, all calls are cancelled and all commands killed. If e is nil,
// commands are refused. For the rest, Serve is as [remote.Serve].
func Serve(ctx context.Context, address, token string, files tools.FS, e tools.Exec, opts ...Option) error {
	d := &dialer{url: address, token: token, files: files, exec: e, log: slog.New(slog.DiscardHandler), instance: rand.Text()}
	if err := errors.Join(option.Apply(d, opts), d.check()); err != nil {
		return fmt.Errorf("serve workspace: %w", err)
	}
	defer d.leave(ctx)
	for wait := time.Duration(0); ; {
		begun := time.Now()
		err := d.once(ctx)
		if cause := context.Cause(ctx); cause != nil {
			return fmt.Errorf("serve workspace: %w", cause)
		}
		refused, ok := errors.AsType[*Error](err)
		_, other := errors.AsType[*remote.VersionError](err)
		if other || ok && refused.after == 0 {
			return fmt.Errorf("serve workspace: %w", err)
		}
		if wait = min(max(2*wait, firstWait), lastWait); time.Since(begun) > lastWait { // it was a connection of use
			wait = firstWait
		}
		pause := wait
		if ok {
			pause = max(wait, refused.after)
		}
		d.log.Warn("not connected", "error", err, "again in", pause)
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// check returns what is wrong with the address and the token.
func (d *dialer) check() error {
	u, err := url.Parse(d.url)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil {
		return &aycoder.ConfigError{Option: "server", Err: errors.New("is not the address of a server, such as https://agent.example.com/api/runner")}
	}
	if u.Scheme == "http" && !d.plain && !loopback(u.Hostname()) {
		return &aycoder.ConfigError{Option: "server", Err: errors.New("must be https: everybody on the way would see the token")}
	}
	if d.token == "" {
		return &aycoder.ConfigError{Option: "token", Err: errors.New("is missing")}
	}
	if d.transport == nil {
		only1 := new(http.Protocols)
		only1.SetHTTP1(true) // a request of HTTP/2 cannot become a connection
		d.transport = &http.Transport{
			Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: answerTime}).DialContext, TLSHandshakeTimeout: answerTime,
			ResponseHeaderTimeout: answerTime, Protocols: only1, DisableKeepAlives: true,
		}
	}
	return nil
}

func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// once connects, and serves until the connection ends. The error is an [*Error] if the server has refused it.
func (d *dialer) once(ctx context.Context) error {
	res, err := d.send(ctx, http.MethodGet)
	if err != nil {
		return err
	}
	conn, ok := res.Body.(io.ReadWriteCloser)
	if res.StatusCode != http.StatusSwitchingProtocols || !ok {
		late := time.AfterFunc(answerTime, func() { res.Body.Close() })
		defer late.Stop()
		defer res.Body.Close()
		return refusal(res)
	}
	fence, err := strconv.ParseUint(res.Header.Get(headerFence), 10, 64)
	switch {
	case err != nil || res.Header.Get("Upgrade") != protocol || res.Header.Get(headerInstance) != d.instance:
		conn.Close()
		return &Error{Kind: KindProtocol, Err: errors.New("the answer is not that of a hub to this request"), after: firstWait}
	case fence <= d.fence: // an answer that was recorded, or a server whose clock was turned back
		conn.Close()
		return &Error{Kind: KindProtocol, Err: fmt.Errorf("the fencing token %d is not higher than the last one, %d", fence, d.fence), after: firstWait}
	}
	d.fence = fence
	d.log.Info("connected", "fence", fence)
	err = remote.Serve(ctx, conn, conn, d.files, d.exec, remote.WithAbout(d.about))
	if err == nil {
		err = io.EOF
	}
	return err
}

// about returns the manifest.
func (d *dialer) about(ctx context.Context) ([]byte, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	m, err := d.describe(ctx)
	if err != nil {
		return nil, err
	}
	return json.Marshal(m)
}

// send sends a request about the connection.
func (d *dialer) send(ctx context.Context, method string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, d.url, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+d.token)
	req.Header.Set(headerInstance, d.instance)
	req.Header.Set(headerFence, strconv.FormatUint(d.fence, 10))
	if method == http.MethodGet {
		req.Header.Set("Connection", "Upgrade")
		req.Header.Set("Upgrade", protocol)
	}
	return d.transport.RoundTrip(req) // follows no redirect, which could lead the token elsewhere
}

// refusal makes an error of an answer.
func refusal(res *http.Response) error {
	text, _ := io.ReadAll(io.LimitReader(res.Body, 1<<10))
	kind := Kind(res.Header.Get(headerKind))
	switch kind {
	case KindUnauthorized, KindTaken, KindHeld, KindFenced, KindOffline, KindProtocol:
	default:
		if res.StatusCode < 500 && res.StatusCode != http.StatusTooManyRequests {
			return refuse("", KindProtocol, "the server answers %s: %.200q", res.Status, text)
		}
		return fmt.Errorf("the server answers %s", res.Status) // a proxy, while the server restarts
	}
	e := refuse("", kind, "%.200q", text)
	if kind == KindHeld || kind == KindOffline {
		seconds, _ := strconv.Atoi(res.Header.Get("Retry-After"))
		e.after = time.Duration(min(max(seconds, 1), 300)) * time.Second
	}
	return e
}

// leave tells the server that nothing of this runner works any more, so that another one may have its name.
func (d *dialer) leave(ctx context.Context) {
	if d.fence == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTime)
	defer cancel()
	if res, err := d.send(ctx, http.MethodDelete); err == nil {
		res.Body.Close()
	}
}
