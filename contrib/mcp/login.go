package mcp

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"github.com/aycoder/aycoder/config"
	"github.com/aycoder/aycoder/internal/flock"
	"github.com/aycoder/aycoder/internal/replace"
)

// WithLogins sets the directory in which the tokens of logins are kept, one file of mode 0600 for each address, so that
// a server may ask for a login by OAuth. It is made if it is missing. Several processes may use it at once. Default:
// none, and a server that asks for a login is an error.
func WithLogins(dir string) Option {
	return func(o *options) error { o.logins = dir; return nil }
}

// A grant is what a login has given. It is what a file of the directory has.
type grant struct {
	Server       string    `json:"server"`
	Resource     string    `json:"resource,omitempty"`
	ClientID     string    `json:"client_id"`
	ClientSecret string    `json:"client_secret,omitempty"`
	TokenURL     string    `json:"token_url"`
	Basic        bool      `json:"basic,omitempty"` // the client's secret goes into a header
	Scopes       []string  `json:"scopes,omitempty"`
	Access       string    `json:"access_token"`
	Refresh      string    `json:"refresh_token,omitempty"`
	Expiry       time.Time `json:"expiry,omitzero"`
}

// A login is what is known of the tokens for an address. There is one renewal at a time, whose outcome all get who need it.
type login struct {
	server config.Server
	file   string
	client *http.Client
	wait   time.Duration     // for the authorization server
	life   context.Context   // of the client
	spawn  func(func()) bool // runs what Close waits for

	mu      sync.Mutex // is held no longer than it takes to read or write the file
	renewal *renewal   // that is under way, or nil
	grant   *grant
	seen    os.FileInfo // of the file that was read last
	needed  bool        // the server wants a login that there is not
	header  http.Header // of its last refusal
	fresh   string      // the token of the last refresh, which has not worked yet
	bad     string      // a token that the server has refused
	retry   time.Time   // the next time to refresh, after the authorization server has failed
	refused int         // times that it has failed in a row
	fault   error       // of the last time
}

func (c *client) newLogin() *login {
	sum := sha256.Sum256([]byte(c.s.URL))
	return &login{
		server: c.s, file: filepath.Join(c.logins, hex.EncodeToString(sum[:16])+".json"), client: &http.Client{Timeout: c.refreshFor, CheckRedirect: sameHost},
		wait: c.refreshFor, life: c.life, spawn: c.spawn,
	}
}

// read takes up what another process, or a login, has written.
func (l *login) read() {
	info, err := os.Stat(l.file)
	if err != nil || l.seen != nil && os.SameFile(info, l.seen) && info.Size() == l.seen.Size() && info.ModTime().Equal(l.seen.ModTime()) {
		return
	}
	data, err := os.ReadFile(l.file)
	g := new(grant)
	if err != nil || json.Unmarshal(data, g) != nil || g.Server != l.server.URL || g.Access == "" {
		return
	}
	l.seen = info
	if l.grant == nil || g.Access != l.grant.Access {
		l.take(g)
	}
}

// take is given a grant that works, as far as one knows.
func (l *login) take(g *grant) {
	l.grant, l.needed, l.fresh, l.bad, l.retry, l.refused, l.fault = g, false, "", "", time.Time{}, 0, nil
}

// write keeps a grant.
func (l *login) write(g *grant) error {
	data, err := json.Marshal(g)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(l.file), 0o700); err != nil {
		return err
	}
	return replace.File(l.file, ".new-*", func(f *os.File) error { _, err := f.Write(data); return err })
}

// used reports whether there was a login.
func (l *login) used() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.read()
	return l.grant != nil
}

// hopeless returns why a request would be refused, or nil.
func (l *login) hopeless() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.read()
	switch {
	case l.needed:
		return ErrUnauthorized
	case l.renewal != nil:
		return ErrRefresh
	case time.Now().Before(l.retry):
		return l.fault
	}
	return nil
}

// token returns the token for a request, or "" for the first one of a server that may not need any.
func (l *login) token(ctx context.Context) (string, error) {
	l.mu.Lock()
	l.read()
	switch g := l.grant; {
	case l.needed:
		l.mu.Unlock()
		return "", ErrUnauthorized
	case g == nil:
		l.mu.Unlock()
		return "", nil
	case g.Access != l.bad && (g.Expiry.IsZero() || time.Until(g.Expiry) > renewBefore || g.Refresh == ""):
		l.mu.Unlock()
		return g.Access, nil
	case g.Access != l.bad && time.Until(g.Expiry) > 0: // it still counts, so that nobody has to wait
		if !time.Now().Before(l.retry) {
			l.renewing()
		}
		l.mu.Unlock()
		return g.Access, nil
	}
	return l.refresh(ctx)
}

const (
	// renewBefore is how long before its end a token is renewed.
	renewBefore = 10 * time.Second
	// patience is how long requests wait for a renewal, from its begin. So a run in which nobody can log in fails within a
	// second, also if a call takes several requests.
	patience = 700 * time.Millisecond
)

// worked notes that the server has taken a token.
func (l *login) worked(token string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fresh == token {
		l.fresh = ""
	}
}

// refuse is told that the server has not taken a token, or has asked for one. It returns another one to try, once.
func (l *login) refuse(ctx context.Context, token string, resp *http.Response) (string, error) {
	l.mu.Lock()
	l.read()
	l.header = resp.Header.Clone()
	wider := resp.StatusCode == http.StatusForbidden // a token of more scopes is needed, which no refresh brings
	switch g := l.grant; {
	case l.needed:
	case g == nil || wider || g.Access == token && (g.Refresh == "" || l.fresh == token):
		l.needed = true
	case g.Access != token:
		l.mu.Unlock()
		return g.Access, nil // somebody has refreshed it meanwhile
	default:
		l.bad = token
		return l.refresh(ctx)
	}
	l.mu.Unlock()
	return "", ErrUnauthorized
}

// A renewal is under way, or has an outcome.
type renewal struct {
	begin time.Time
	done  chan struct{} // closed when there is an outcome
	token string
	err   error
}

// refresh returns another token. It is called with mu, which it gives back. A renewal that takes longer than a request
// may wait goes on, as it does when ctx ends: the authorization server has perhaps used up the refresh token.
func (l *login) refresh(ctx context.Context) (string, error) {
	if l.renewal == nil && time.Now().Before(l.retry) {
		defer l.mu.Unlock()
		return "", l.fault
	}
	r := l.renewing()
	l.mu.Unlock()
	late := time.NewTimer(time.Until(r.begin.Add(patience)))
	defer late.Stop()
	select {
	case <-r.done:
		return r.token, r.err
	case <-late.C:
		select {
		case <-r.done:
			return r.token, r.err
		default:
		}
		return "", fmt.Errorf("%w: the authorization server has not answered within %v; the renewal goes on", ErrRefresh, patience)
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// renewing returns the renewal that is under way, or begins one. mu is held.
func (l *login) renewing() *renewal {
	if l.renewal != nil {
		return l.renewal
	}
	r := &renewal{begin: time.Now(), done: make(chan struct{}), err: ErrClosed}
	old := l.grant
	if !l.spawn(func() {
		defer close(r.done)
		ctx, cancel := context.WithTimeout(l.life, l.wait)
		defer cancel()
		r.token, r.err = l.renew(ctx, old)
	}) {
		close(r.done)
		return r
	}
	l.renewal = r
	return r
}

// renew asks the authorization server for another token, unless another process has done so, or the user has logged in.
func (l *login) renew(ctx context.Context, old *grant) (string, error) {
	unlock, err := flock.Lock(ctx, l.file+".lock")
	if err == nil {
		defer unlock()
	}
	if err == nil && !l.replaced(old) {
		var next *grant
		if next, err = l.post(ctx, old); err == nil {
			return l.renewed(old, next)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.renewal = nil
	if l.read(); l.grant.Access != old.Access {
		return l.grant.Access, nil
	}
	if refusal, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		status := refusal.Response.StatusCode
		err = errors.New(clean(cmp.Or(refusal.ErrorCode, refusal.Response.Status), 256)) // without the body
		if status < 500 && status != http.StatusTooManyRequests {
			l.needed = true
			return "", fmt.Errorf("%w: the authorization server has not renewed it: %w", ErrUnauthorized, err)
		}
	}
	l.refused++
	l.retry = time.Now().Add(min(time.Second<<min(l.refused-1, 6), time.Minute))
	l.fault = fmt.Errorf("%w: %w", ErrRefresh, err)
	return "", l.fault
}

// replaced reports whether there is another grant than the one that is to be renewed.
func (l *login) replaced(old *grant) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.read()
	return l.grant.Access != old.Access
}

// renewed keeps what a renewal has brought.
func (l *login) renewed(old, next *grant) (string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.renewal = nil
	if l.read(); l.grant.Access != old.Access {
		return l.grant.Access, nil // the user has logged in meanwhile
	}
	err := l.write(next)
	l.take(next)
	l.fresh = next.Access
	if err != nil {
		return "", fmt.Errorf("keep the token: %w", err)
	}
	return next.Access, nil
}

// post makes the request of RFC 6749, section 6, with the resource that the protocol demands, which [oauth2.Config] leaves out.
func (l *login) post(ctx context.Context, g *grant) (*grant, error) {
	c := clientcredentials.Config{ClientID: g.ClientID, ClientSecret: g.ClientSecret, TokenURL: g.TokenURL, AuthStyle: oauth2.AuthStyleInParams,
		EndpointParams: url.Values{"grant_type": {"refresh_token"}, "refresh_token": {g.Refresh}}}
	if g.Resource != "" {
		c.EndpointParams.Set("resource", g.Resource)
	}
	if g.Basic {
		c.AuthStyle = oauth2.AuthStyleInHeader
	}
	t, err := c.Token(context.WithValue(ctx, oauth2.HTTPClient, l.client))
	if err != nil {
		return nil, err
	}
	next := *g
	next.Access, next.Refresh, next.Expiry = t.AccessToken, cmp.Or(t.RefreshToken, g.Refresh), t.Expiry
	return &next, nil
}

// asksForScope reports whether a refusal with status 403 asks for a token of more scopes.
func asksForScope(resp *http.Response) bool {
	list, err := oauthex.ParseWWWAuthenticate(resp.Header.Values("WWW-Authenticate"))
	return err == nil && slices.ContainsFunc(list, func(c oauthex.Challenge) bool { return c.Params["error"] == "insufficient_scope" })
}
