// Package egress decides, host by host, what commands and tools reach over the network.
//
// A [Proxy] is an HTTP proxy in the process of the host program. Rules allow and deny hosts, and
// a host that no rule covers is a question to the user. A sandboxed command reaches nothing but
// the proxy, which it finds by the variables HTTP_PROXY and HTTPS_PROXY: a program that ignores
// them fails. The command does not even resolve names.
//
//	proxy, err := egress.New(egress.WithRules(
//		egress.Rule{Host: "proxy.golang.org", Action: egress.Allow},
//		egress.Rule{Host: "*.githubusercontent.com", Action: egress.Allow},
//		egress.Rule{Host: "api.github.com", Action: egress.Allow,
//			Header: http.Header{"Authorization": {"Bearer " + token}}},
//	))
//	…
//	box, err := tools.Landlock(ws)
//	…
//	coding, err := tools.Coding(ws, tools.WithSandbox(box), tools.WithProxy(proxy))
//
// # What is checked
//
// A name is resolved only after its host was allowed, so that no look-up carries data to a name
// server. The proxy connects to addresses of the public Internet only, checked as it connects:
// a rule with Private permits others. A connection by CONNECT has to begin with a TLS handshake
// that names the same host (the extension server_name) and does not encrypt the name (ECH), also if
// the server asks for a second ClientHello. So a program cannot allege one host and have a server of
// many hosts serve another, unless that server disregards the name. A rule with Inspect lets the
// proxy see the requests themselves, and hold them to the host. Redirects are for the client to
// follow, and then are new requests.
//
// # Credentials
//
// The values in the Header of a rule are added by the proxy, so no command ever has them. For
// that, the proxy serves TLS for the hosts of such rules by itself, with certificates of an
// authority that lives as long as the Proxy, and that commands trust by variables such as
// SSL_CERT_FILE. A plain http request to such a host goes on over TLS. Where the values come back
// in a response, they are masked with asterisks. This finds them as they are and in JSON, URLs
// and base64, but a server that answers in another encoding or in parts can reveal them.
package egress

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/option"
	"github.com/aycoder/aycoder/internal/publicnet"
)

// Action says what a [Rule] does. The zero value asks.
type Action int

// The actions. If several rules cover a destination, Deny comes before Ask, and Ask before Allow.
const (
	// Ask asks the user, also about a host that another rule allows.
	Ask Action = iota
	// Allow lets connections through without a question.
	Allow
	// Deny refuses connections, whatever other rules say.
	Deny
)

// Rule says what may be done with some hosts. Of the rules that cover a destination and have the
// action that counts, the first applies.
type Rule struct {
	// Host is a name ("example.com"), all names below one ("*.example.com"), an IP address
	// ("192.0.2.1", "[2001:db8::1]"), or all hosts ("*"). It may end in a port
	// ("example.com:8443") or in all ports ("example.com:*"). Without a port, a rule to allow
	// covers port 443 for TLS and port 80 for plain requests, and the others cover all ports. In
	// a rule to allow, a star does not stand for an IP address. In the others it does, and
	// "*.example.com" also covers example.com.
	Host   string
	Action Action
	// Private permits addresses that are not public: of this machine, of private networks, of a
	// cloud's metadata service.
	Private bool
	// Tunnel permits protocols other than TLS in a connection by CONNECT, for example that of
	// ssh. Nothing in such a connection is checked.
	Tunnel bool
	// Inspect makes the proxy serve TLS by itself, so that it sees the requests, logs their paths
	// and refuses those that name another host. HTTP/2 is then not available to the client.
	Inspect bool
	// Header has values that are set in each request to the host, in place of the client's, and
	// that the client must not know, such as that of Authorization. It implies Inspect, and that
	// plain http requests go on over TLS, to port 443 in place of port 80. The host must not
	// change the protocol of a connection. Values of less than eight bytes are not masked in
	// responses.
	Header http.Header
}

// Destination is where a client wants to connect. It is comparable.
type Destination struct {
	// Host is a name in lower case, or an IP address, that of IPv6 in brackets.
	Host string
	Port int
	// TLS says that the connection is encrypted, as by https.
	TLS bool
}

// String returns host:port.
func (d Destination) String() string { return d.Host + ":" + strconv.Itoa(d.Port) }

// URL returns the destination as an address: "https://example.com" or "http://example.com:8080".
func (d Destination) URL() string {
	scheme, usual := "http", 80
	if d.TLS {
		scheme, usual = "https", 443
	}
	if d.Port == usual {
		return scheme + "://" + d.Host
	}
	return scheme + "://" + d.String()
}

// DeniedError reports a connection that was refused. Get it with errors.AsType[*DeniedError](err).
type DeniedError struct {
	Destination Destination
	// Reason says why, and what would allow the connection if that is known.
	Reason string
}

// Error returns the destination and the reason.
func (e *DeniedError) Error() string { return e.Destination.String() + " is denied: " + e.Reason }

// Proxy decides what may be reached, and connects. It is safe for concurrent use. A Proxy has
// neither goroutines nor connections: those belong to a [Session].
type Proxy struct {
	config
	authority *authority // nil if no rule needs one
	asking    sync.Map   // of questions that are open: by Destination a chan struct{}, closed with the answer
}

type config struct {
	rules    []rule
	log      func(Record)
	tls      *tls.Config
	resolver *net.Resolver
	patience time.Duration
}

// Option configures a [Proxy].
type Option func(*config) error

// New returns a proxy. Without rules, it asks about every host.
func New(opts ...Option) (*Proxy, error) {
	p := &Proxy{config: config{
		log: func(Record) {}, tls: &tls.Config{},
		// The system's resolver has look-ups that outlive a session.
		resolver: &net.Resolver{PreferGo: true}, patience: 5 * time.Minute,
	}}
	if err := option.Apply(&p.config, opts); err != nil {
		return nil, fmt.Errorf("new proxy: %w", err)
	}
	if slices.ContainsFunc(p.rules, func(r rule) bool { return r.inspects() }) {
		var err error
		if p.authority, err = newAuthority(); err != nil {
			return nil, fmt.Errorf("new proxy: make an authority: %w", err)
		}
	}
	return p, nil
}

// WithRules adds rules to those of earlier options. Default: no rules.
func WithRules(rules ...Rule) Option {
	return func(c *config) error {
		for _, r := range rules {
			parsed, err := r.parse()
			if err != nil {
				return &aycoder.ConfigError{Option: "WithRules", Err: fmt.Errorf("rule for %.300q: %w", r.Host, err)}
			}
			c.rules = append(c.rules, parsed)
		}
		return nil
	}
}

// WithLog sets a function that gets a [Record] of each request and connection, also of those that
// were denied. It is called by several goroutines at the same time, and must return soon.
// Default: none.
func WithLog(log func(Record)) Option {
	return given("WithLog", log != nil, func(c *config) { c.log = log })
}

// WithTLSConfig sets how the proxy verifies the hosts that it connects to by itself, which are
// those of rules with Header or Inspect, and those of a [Session] as an [http.RoundTripper]. It
// is for the roots of a company, or for a certificate of the client. Default: the roots of the
// system.
func WithTLSConfig(t *tls.Config) Option {
	return given("WithTLSConfig", t != nil, func(c *config) { c.tls = t.Clone() })
}

// WithResolver sets what resolves names. Default: Go's resolver with the name servers of the
// system.
func WithResolver(r *net.Resolver) Option {
	return given("WithResolver", r != nil, func(c *config) { c.resolver = r })
}

// given returns an option whose value must not be nil.
func given(name string, ok bool, set func(*config)) Option {
	return func(c *config) error {
		if !ok {
			return &aycoder.ConfigError{Option: name, Err: errors.New("is nil")}
		}
		set(c)
		return nil
	}
}

// WithPatience sets how long a question may be open. After that, the answer is no. Default: 5
// minutes.
func WithPatience(d time.Duration) Option {
	return func(c *config) error {
		if d <= 0 {
			return &aycoder.ConfigError{Option: "WithPatience", Err: fmt.Errorf("is %s", d)}
		}
		c.patience = d
		return nil
	}
}

// Roots returns certificates, in PEM, for programs that connect by the proxy: those of the system
// and that of the authority of the proxy. It returns nil if no rule needs the authority. The
// result is the same each time.
func (p *Proxy) Roots() ([]byte, error) {
	if p.authority == nil {
		return nil, nil
	}
	return p.authority.roots()
}

// A rule is a Rule with its host parsed.
type rule struct {
	Rule
	host string // without "*."; "" for all hosts
	star bool   // names below host
	port int    // 0 for the usual ones, -1 for all
}

func (r *rule) inspects() bool { return r.Inspect || len(r.Header) > 0 }

func (r Rule) parse() (rule, error) {
	out := rule{Rule: r}
	host, all := strings.CutSuffix(r.Host, ":*")
	if host == "*" || strings.HasPrefix(host, "*:") {
		out.star, host = true, "all"+host[1:]
	} else {
		host, out.star = strings.CutPrefix(host, "*.")
	}
	host, port, ok := publicnet.SplitHost(host)
	n, err := strconv.Atoi(cmp.Or(port, "0"))
	switch {
	case !ok || err != nil || n > 65535 || out.star && isAddress(host):
		return out, errors.New("is not a host")
	case r.Action < Ask || r.Action > Deny:
		return out, fmt.Errorf("there is no action %d", int(r.Action))
	case r.Tunnel && (r.Inspect || len(r.Header) > 0):
		return out, errors.New("a tunnel cannot be inspected")
	}
	if out.port = n; all {
		out.port = -1
	}
	if out.host = host; strings.HasPrefix(r.Host, "*") && !strings.HasPrefix(r.Host, "*.") {
		out.host = ""
	}
	out.Header = http.Header{}
	for name, values := range r.Header {
		key := http.CanonicalHeaderKey(name)
		bad := slices.ContainsFunc(values, func(v string) bool { return strings.ContainsAny(v, "\r\n\x00") })
		if bad || name == "" || strings.ContainsAny(name, " :\r\n\x00") || slices.Contains(notSet, key) {
			return out, fmt.Errorf("the header %.100q cannot be set", name)
		}
		out.Header[key] = slices.Clone(values)
	}
	return out, nil
}

// notSet are headers that say how a request is sent.
var notSet = []string{
	"Host", "Connection", "Content-Length", "Transfer-Encoding", "Te", "Trailer", "Upgrade", "Accept-Encoding",
	"Keep-Alive", "Proxy-Authorization", "Proxy-Connection",
}

func isAddress(host string) bool {
	return strings.HasPrefix(host, "[") || net.ParseIP(host) != nil
}

// covers reports whether a rule is about a destination.
func (r *rule) covers(d Destination) bool {
	usual := d.TLS && d.Port == 443 || !d.TLS && d.Port == 80
	if r.port > 0 && r.port != d.Port || r.port == 0 && r.Action == Allow && !usual {
		return false
	}
	if r.star && isAddress(d.Host) {
		return r.host == "" && r.Action != Allow
	}
	if !r.star {
		return r.host == d.Host
	}
	return r.host == "" || strings.HasSuffix(d.Host, "."+r.host) || r.Action != Allow && r.host == d.Host
}

// String returns the action and the host as written.
func (r *rule) String() string { return [...]string{"ask", "allow", "deny"}[r.Action] + " " + r.Host }

// match returns the rule that applies to a destination, or nil.
func (p *Proxy) match(d Destination) *rule {
	for _, action := range []Action{Deny, Ask, Allow} {
		for i := range p.rules {
			if r := &p.rules[i]; r.Action == action && r.covers(d) {
				return r
			}
		}
	}
	return nil
}

// destination returns where a request leads. A plain one to a host that gets credentials goes on
// over TLS.
func (p *Proxy) destination(u *url.URL) (Destination, error) {
	d, err := parseDestination(u.Host, u.Scheme == "https")
	if err != nil || u.Scheme != "http" && u.Scheme != "https" {
		return d, errors.Join(err, badRequest("the address must begin with http:// or https://, and a host"))
	}
	safe := Destination{d.Host, d.Port, true}
	if !d.TLS && d.Port == 80 {
		safe.Port = 443
	}
	if r := p.match(safe); r != nil && len(r.Header) > 0 {
		return safe, nil
	}
	return d, nil
}

// parseDestination reads host:port or host, as strictly as rules do.
func parseDestination(hostport string, tls bool) (Destination, error) {
	d := Destination{TLS: tls, Port: 80}
	if tls {
		d.Port = 443
	}
	host, port, ok := publicnet.SplitHost(hostport)
	if port != "" {
		d.Port, _ = strconv.Atoi(port)
	}
	if d.Host = host; !ok || d.Port < 1 || d.Port > 65535 || len(host) > 255 {
		return d, badRequest("this is not a host: write a name in ASCII, or an address of IPv4 as four decimal numbers")
	}
	return d, nil
}

// badRequest is the error of a request that is wrong whoever asks.
type badRequest string

func (e badRequest) Error() string { return string(e) }

// dial connects to a destination that is allowed.
func (p *Proxy) dial(ctx context.Context, d Destination) (net.Conn, error) {
	dialer := net.Dialer{Timeout: 30 * time.Second, Resolver: p.resolver, Control: publicnet.Control}
	if r := p.match(d); r != nil && r.Private && r.Action != Deny {
		dialer.Control = nil
	}
	host := strings.Trim(d.Host, "[]")
	if strings.Contains(host, ".") && !isAddress(d.Host) {
		host += "." // not below the domains that the system would try
	}
	return dialer.DialContext(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(d.Port)))
}
