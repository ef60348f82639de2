package policy

import (
	"strings"

	"github.com/aycoder/aycoder/internal/publicnet"
)

// An origin is the host of an address, in a canonical form, and its port.
type origin struct {
	host, port string
	usual      bool // the port is that of the scheme
}

func (o origin) String() string {
	if o.usual {
		return o.host
	}
	return o.host + ":" + o.port
}

const maxURL = 16 << 10 // bytes

// originOf parses an address strictly. It rejects everything that some parsers take for another
// host: logins, backslashes, blanks, escapes in the host, names that are not ASCII, and numbers
// other than four decimals. An attacker could otherwise show one host to the rule and another
// to the client.
func originOf(address string) (origin, bool) {
	scheme, rest, _ := strings.Cut(address, "://")
	usual := map[string]string{"http": "80", "https": "443"}[strings.ToLower(scheme)]
	if usual == "" || len(address) > maxURL || strings.ContainsFunc(address, odd) {
		return origin{}, false
	}
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		rest = rest[:i]
	}
	host, port, ok := publicnet.SplitHost(rest)
	if port == "" {
		port = usual
	}
	return origin{host, port, port == usual}, ok
}

// odd reports characters on which parsers of addresses disagree.
func odd(r rune) bool { return r <= ' ' || r >= 0x7f || r == '\\' }

// matchURL matches the host of an address. An allow rule covers a port other than the default only
// if the rule names it. A deny rule covers every address whose host is ambiguous, and
// "*.example.com" in it also covers example.com.
func matchURL(pattern, address string, allow bool) bool {
	o, ok := originOf(address)
	if !ok {
		return !allow
	}
	pattern = strings.ToLower(pattern)
	full := o.host + ":" + o.port
	if allow {
		return matchText(pattern, o.String()) || matchText(pattern, full)
	}
	if _, rest, ok := strings.Cut(pattern, "://"); ok {
		pattern = rest
	}
	pattern, _, _ = strings.Cut(pattern, "/")
	if h, ok := publicnet.HostName(pattern); ok {
		pattern = h
	}
	if strings.ContainsFunc(pattern, odd) && strings.Contains(o.host, "xn--") {
		return true // the same name, perhaps
	}
	return matchText(pattern, o.host) || matchText(pattern, full) || pattern == "*."+o.host
}
