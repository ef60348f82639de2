package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"golang.org/x/oauth2"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/config"
	"github.com/aycoder/aycoder/internal/option"
)

// loginFor is how long a user may take to log in.
const loginFor = 5 * time.Minute

// WithBrowser sets the function that shows the user an address, at which they log in: in their browser, mostly. The
// authorization server has named it, so it must not go through a shell. If the function returns, the login goes on until
// the browser is sent back to a port of this machine, for at most five minutes. Default: none, so that only [Login] of
// another program, with the same directory, brings a token.
func WithBrowser(open func(ctx context.Context, address string) error) Option {
	return func(o *options) error { o.browse = open; return nil }
}

// WithClientDocument sets the address of a document that describes the host as a client, for authorization servers that
// take such addresses. Default: none, and the client is that of the configuration, or is registered with each login.
func WithClientDocument(address string) Option {
	return func(o *options) error { o.document = address; return nil }
}

// Login lets the user log in to a server that has an address, and keeps the tokens. The options must have [WithLogins]
// and [WithBrowser]. It is for a command of the host; clients that want a login notice the token. ctx bounds it, and five
// minutes do.
func Login(ctx context.Context, name string, s config.Server, opts ...Option) error {
	var o options
	if err := option.Apply(&o, opts); err != nil {
		return err
	}
	c, err := newClient(name, s, o)
	if err != nil {
		return err
	}
	if c.login == nil || c.browse == nil {
		return errors.Join(&aycoder.ConfigError{Option: "Login", Err: errors.New("needs a server with an address, WithLogins and WithBrowser")}, c.Close())
	}
	return errors.Join(c.logIn(ctx, func(aycoder.Progress) {}), c.Close())
}

// logIn lets the user log in, and reports where.
func (c *client) logIn(ctx context.Context, report func(aycoder.Progress)) error {
	ctx, stop := c.untilClose(ctx)
	defer stop()
	ctx, cancel := context.WithTimeoutCause(ctx, loginFor, fmt.Errorf("nobody has logged in within %v", loginFor))
	defer cancel()
	o := c.options
	o.browse = func(ctx context.Context, address string) error {
		report(aycoder.Progress{Message: "log in at " + clean(address, 4<<10)})
		return c.browse(ctx, address)
	}
	if err := c.login.browse(ctx, o); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return &Error{Server: c.name, Op: "log in", Err: withoutKeys(err, c.s.URL)}
	}
	return nil
}

// browse goes the way of an authorization code: it finds the authorization server, registers a client, and waits for the
// browser to come back.
func (l *login) browse(ctx context.Context, o options) error {
	refusal, err := l.challenge(ctx)
	if err != nil {
		return err
	}
	back, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer back.Close()
	got := grant{Server: l.server.URL}
	client := &http.Client{Timeout: l.wait}
	setup := &auth.AuthorizationCodeHandlerConfig{
		RedirectURL: "http://" + back.Addr().String() + "/callback", RequestRefreshToken: true, AcceptUnadvertisedIss: true,
		Client: client,
		AuthorizationCodeFetcher: func(ctx context.Context, args *auth.AuthorizationArgs) (*auth.AuthorizationResult, error) {
			u, err := url.Parse(args.URL)
			if err != nil || u.Scheme != "https" && u.Scheme != "http" {
				return nil, errors.New("the authorization server has no address for a browser")
			}
			got.Resource = u.Query().Get("resource")
			client.CheckRedirect = sameHost // what follows has the code and the client's secret
			return redirected(ctx, back, u.Query().Get("state"), func() error { return o.browse(ctx, args.URL) })
		},
		ScopeFilter: func(found []string) []string { return union(l.scopes(), found) },
		NewTokenSource: func(_ context.Context, c *oauth2.Config, t *oauth2.Token) (oauth2.TokenSource, error) {
			got.ClientID, got.ClientSecret, got.TokenURL, got.Scopes = c.ClientID, c.ClientSecret, c.Endpoint.TokenURL, c.Scopes
			got.Basic = c.ClientSecret != "" && c.Endpoint.AuthStyle != oauth2.AuthStyleInParams
			got.Access, got.Refresh, got.Expiry = t.AccessToken, t.RefreshToken, t.Expiry
			return oauth2.StaticTokenSource(t), nil
		},
	}
	if o.document != "" {
		setup.ClientIDMetadataDocumentConfig = &auth.ClientIDMetadataDocumentConfig{URL: o.document}
	}
	if l.server.ClientID != "" {
		setup.PreregisteredClient = &oauthex.ClientCredentials{ClientID: l.server.ClientID}
		if l.server.ClientSecret != "" {
			setup.PreregisteredClient.ClientSecretAuth = &oauthex.ClientSecretAuth{ClientSecret: l.server.ClientSecret}
		}
	} else {
		setup.DynamicClientRegistrationConfig = &auth.DynamicClientRegistrationConfig{Metadata: &oauthex.ClientRegistrationMetadata{
			ClientName: "aycoder", RedirectURIs: []string{setup.RedirectURL}, ResponseTypes: []string{"code"},
			GrantTypes: []string{"authorization_code", "refresh_token"},
		}}
	}
	h, err := auth.NewAuthorizationCodeHandler(setup)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, l.server.URL, nil)
	if err != nil {
		return err
	}
	if err := h.Authorize(ctx, req, refusal); err != nil {
		return err
	}
	if got.Access == "" {
		return errors.New("the authorization server has given no token")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.write(&got); err != nil {
		return fmt.Errorf("keep the token: %w", err)
	}
	l.take(&got)
	return nil
}

// challenge returns the server's refusal of a request without a token: the last one, or that of a new request.
func (l *login) challenge(ctx context.Context) (*http.Response, error) {
	l.mu.Lock()
	l.read()
	header := l.header
	l.mu.Unlock()
	if header != nil {
		return &http.Response{StatusCode: http.StatusUnauthorized, Header: header, Body: http.NoBody}, nil
	}
	ask := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"aycoder","version":"0"}}}`
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, l.server.URL, strings.NewReader(ask))
	if err != nil {
		return nil, err
	}
	for name, value := range l.server.Headers {
		req.Header.Set(name, value)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	client := &http.Client{Timeout: l.wait, CheckRedirect: sameHost}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusUnauthorized {
		return nil, fmt.Errorf("the server does not ask for a login, but answers with %s", resp.Status)
	}
	resp.Body = http.NoBody
	return resp, nil
}

// scopes returns those of the last login, which another one is not to lose.
func (l *login) scopes() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.grant == nil {
		return nil
	}
	return l.grant.Scopes
}

func union(a, b []string) []string {
	out := slices.Clone(a)
	for _, s := range b {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// redirected waits until the browser is sent back with an answer to the question with this state. Requests with another
// one, which any page may make, change nothing.
func redirected(ctx context.Context, back net.Listener, state string, open func() error) (*auth.AuthorizationResult, error) {
	type outcome struct {
		res *auth.AuthorizationResult
		err error
	}
	done := make(chan outcome, 1)
	s := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		if r.URL.Path != "/callback" || q.Get("state") != state {
			http.NotFound(w, r)
			return
		}
		o := outcome{res: &auth.AuthorizationResult{Code: q.Get("code"), State: state, Iss: q.Get("iss")}}
		text := "You are logged in. You can close this page."
		if q.Get("code") == "" {
			o.err = fmt.Errorf("the authorization server has refused the login: %s", clean(cmp.Or(q.Get("error"), "no code"), 256))
			text = "You are not logged in. You can close this page."
		}
		select {
		case done <- o:
		default: // it has an answer
		}
		_, _ = io.WriteString(w, text) // to a browser that may have gone
	})}
	served := make(chan struct{})
	go func() { defer close(served); _ = s.Serve(back) }() // until it is closed
	defer func() {
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		if s.Shutdown(late) != nil { // the page was not fetched
			_ = s.Close()
		}
		<-served
	}()
	if err := open(); err != nil {
		return nil, err
	}
	select {
	case o := <-done:
		return o.res, o.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// loginName is the name of the tool that asks for a login.
const loginName = "oauth_login"

// loginTool asks the user to log in. It is there as long as the server wants a login or has had one, so that neither the
// list of tools nor a question about it depends on whether a token is valid. A call is asked about like any other, and a
// run that can ask nobody is suspended by it.
func (c *client) loginTool() *tool {
	t, err := c.define(&mcp.Tool{Name: loginName, InputSchema: json.RawMessage(`{"type":"object","additionalProperties":false}`),
		Description: "Asks the user to log in to the server " + c.name + ", whose other tools need it. If a tool says that it wants a login, call this."})
	if err != nil { // the schema is valid
		c.tell("login: %v", err)
	}
	t.login = true
	return t
}

// enter is a call of the login tool: it connects, and asks the user to log in if that is still necessary.
func (c *client) enter(ctx context.Context, report func(aycoder.Progress)) (*aycoder.ToolResult, error) {
	err := c.begin(ctx)
	if c.browse != nil && isLogin(err) {
		if err = c.logIn(ctx, report); err == nil {
			err = c.begin(ctx)
		}
	}
	if err != nil {
		return nil, err
	}
	return aycoder.TextResult("The user is logged in. The tools of the server " + c.name + " are there now."), nil
}

// loggedOut returns why there is no token that might work, or nil.
func (c *client) loggedOut() error {
	c.mu.Lock()
	out := c.out
	c.mu.Unlock()
	if !out {
		return nil
	}
	return c.login.hopeless()
}

// logOut notes that there is no token that might work, until there is another.
func (c *client) logOut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.out = true; len(c.tools) == 0 {
		c.tools = []aycoder.Tool{c.loginTool()}
	}
}
