package ollama

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aycoder/aycoder"
)

const (
	defaultPort = "11434"
	// probeTime is the timeout of [Find] for one address.
	probeTime = time.Second
)

// hostURL returns the base URL for a value of OLLAMA_HOST, in the same way as Ollama: a
// host, a port, both, or a URL. Without a scheme it is http and port 11434; with a
// scheme, the port of that scheme. Addresses that a server can listen on but a client
// cannot connect to become the loopback address of the same family.
func hostURL(s string) string {
	s = strings.Trim(strings.TrimSpace(s), `"'`)
	scheme, rest, ok := strings.Cut(s, "://")
	port := map[string]string{"http": "80", "https": "443"}[scheme]
	switch {
	case s == "ollama.com":
		return cloudURL
	case !ok:
		scheme, rest, port = "http", s, defaultPort
	}
	hostport, path, _ := strings.Cut(rest, "/")
	host, given, err := net.SplitHostPort(hostport)
	if err != nil {
		host, given = strings.Trim(hostport, "[]"), port
	}
	if n, err := strconv.Atoi(given); err != nil || n < 0 || n > 65535 {
		given = port
	}
	base := scheme + "://" + net.JoinHostPort(reachable(host), given)
	if base == cloudURL+":443" {
		base = cloudURL
	}
	return strings.TrimRight(base+"/"+path, "/")
}

// reachable replaces the unspecified address.
func reachable(host string) string {
	ip := net.ParseIP(host)
	switch {
	case host == "", ip != nil && ip.IsUnspecified() && ip.To4() != nil:
		return "127.0.0.1"
	case ip != nil && ip.IsUnspecified():
		return "::1"
	}
	return host
}

// Find returns the base URL of a running Ollama server. First it tries the URL of
// [WithBaseURL] or else of the environment variable OLLAMA_HOST, if one of them is set.
// Then it tries this machine: 127.0.0.1:11434 and [::1]:11434. Each attempt takes at most
// one second. Find sends the API key and the headers of the options only to the
// configured URL.
//
// If an option or OLLAMA_HOST is invalid, the error is an [*aycoder.ConfigError]. If Find
// does not find a server, the error is an [*aycoder.ModelError]. If ctx ended the search,
// the ModelError wraps the error of ctx.
func Find(ctx context.Context, opts ...Option) (string, error) {
	c, err := configure(opts)
	if host := os.Getenv(hostEnv); err == nil && c.BaseURL == "" && strings.TrimSpace(host) != "" {
		err = c.SetBaseURL(hostEnv, hostURL(host))
	}
	if err != nil {
		return "", fmt.Errorf("find %s: %w", provider, err)
	}
	set := c.BaseURL
	bases := []string{set, "http://127.0.0.1:" + defaultPort, "http://[::1]:" + defaultPort}
	if set == "" {
		bases = bases[1:]
	}
	bases = slices.Compact(bases)
	var errs []error
	for _, c.BaseURL = range bases {
		err := newClient("", c).probe(ctx, c.BaseURL == set)
		if err == nil {
			return c.BaseURL, nil
		}
		if errs = append(errs, err); ctx.Err() != nil {
			break
		}
	}
	return "", &aycoder.ModelError{Provider: provider,
		Err: fmt.Errorf("nothing found at %s: %w", strings.Join(bases, ", "), errors.Join(errs...))}
}

// probe requests the version of a server. Only an address that the caller configured gets
// the API key and the headers.
func (c *Client) probe(ctx context.Context, named bool) error {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	x := c.exchange("", "/api/version")
	if !named {
		x.SetHeaders = func(h http.Header) { h.Set("User-Agent", "aycoder") }
	}
	_, err := version(ctx, x)
	return err
}
