package tools

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/aycoder/aycoder/internal/publicnet"
	"github.com/aycoder/aycoder/internal/runes"
)

const maxURL = 8 << 10 // bytes

// parse parses an address, and refuses those that cannot lead to a page on the public
// Internet. The addresses of a name are checked when it is dialled.
func (f *fetcher) parse(s string) (*url.URL, error) {
	u, err := parseURL(s)
	if err != nil {
		return nil, err
	}
	host, port := u.Hostname(), portOf(u)
	if f.allows(net.JoinHostPort(host, port)) {
		return u, nil
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		if !publicnet.Public(addr) {
			return nil, blockedHost(host)
		}
	} else if addr, number := publicnet.Number(host); number {
		if addr.IsValid() && !publicnet.Public(addr) {
			return nil, blockedHost(host)
		}
		return nil, problemf("invalid_url", "the host %s is not a name; write an address as four decimal numbers",
			showHost(host))
	} else if publicnet.Local(host) {
		return nil, blockedHost(host)
	}
	if slices.Contains(badPorts, port) {
		return nil, problemf("blocked_port", "port %s is not one of the web", port)
	}
	return u, nil
}

// blockedHost is the problem of an address on this machine or in its network, where no
// login protects what is there.
func blockedHost(host string) error {
	return problemf("blocked_address", "%s is not a host of the public Internet, and fetch reaches no other; "+
		"to look at a server on this machine use a command", showHost(host))
}

// parseURL parses an address as browsers do where they differ from net/url, so that the
// host that is checked is the host that is dialled. The error does not quote the address
// if that may hold a password.
func parseURL(s string) (*url.URL, error) {
	s = strings.TrimSpace(s)
	if len(s) > maxURL {
		return nil, problemf("invalid_url",
			"the url has %d bytes, at most %d are taken", len(s), maxURL)
	}
	end := len(s)
	if i := strings.IndexAny(s, "?#"); i >= 0 {
		end = i
	}
	u, err := url.Parse(strings.ReplaceAll(s[:end], `\`, "/") + s[end:])
	switch {
	case err != nil:
		return nil, problemf("invalid_url", "the url is not valid; write it as https://host/path")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, problemf("invalid_url", "the url must begin with http:// or https://")
	case u.Opaque != "" || u.Hostname() == "":
		return nil, problemf("invalid_url", "the url has no host; write it as https://host/path")
	case u.User != nil:
		return nil, problemf("invalid_url",
			"the url contains a login; fetch does not log in, leave it out")
	}
	u.Fragment, u.RawFragment = "", ""
	if err := checkHost(u); err != nil {
		return nil, err
	}
	return u, nil
}

// checkHost refuses hosts that look like others: letters of another alphabet have to be
// written in ASCII (RFC 5891).
func checkHost(u *url.URL) error {
	host := u.Hostname()
	if !strings.HasPrefix(u.Host, "[") && strings.Trim(strings.ToLower(host), hostLetters) != "" {
		return problemf("invalid_url", "the host %s has characters that no host name has; write a name of another "+
			"alphabet in its xn-- form", showHost(host))
	}
	if p := u.Port(); p != "" {
		if n, err := strconv.Atoi(p); err != nil || n < 1 || n > 65535 {
			return problemf("invalid_url", "there is no port %s", runes.Cut(p, 20))
		}
		return nil
	}
	u.Host = strings.TrimSuffix(u.Host, ":")
	return nil
}

const hostLetters = "abcdefghijklmnopqrstuvwxyz0123456789-_."

// portOf returns the port of a URL, or the default port of its scheme. Leading zeros are removed,
// so that "0080" is not taken for another port than "80".
func portOf(u *url.URL) string {
	if p := strings.TrimLeft(u.Port(), "0"); p != "" {
		return p
	}
	return map[string]string{"http": "80", "https": "443"}[u.Scheme]
}

// canonicalHost returns a host, with or without a port, in the form in which hosts are
// compared.
func canonicalHost(s string) string {
	host, port, err := net.SplitHostPort(strings.ToLower(s))
	if err != nil {
		host, port = strings.Trim(strings.ToLower(s), "[]"), ""
	}
	host = strings.TrimSuffix(host, ".")
	if a, err := netip.ParseAddr(host); err == nil {
		host = a.Unmap().String()
	}
	if port == "" {
		return host
	}
	return net.JoinHostPort(host, port)
}

// badPorts are the ports that browsers do not connect to (the Fetch standard, "port
// blocking"): a server there may take a request for commands.
var badPorts = []string{
	"1", "7", "9", "11", "13", "15", "17", "19", "20", "21", "22", "23", "25", "37", "42", "43", "53", "69", "77",
	"79", "87", "95", "101", "102", "103", "104", "109", "110", "111", "113", "115", "117", "119", "123", "135",
	"137", "139", "143", "161", "179", "389", "427", "465", "512", "513", "514", "515", "526", "530", "531",
	"532", "540", "548", "554", "556", "563", "587", "601", "636", "989", "990", "993", "995", "1719", "1720",
	"1723", "2049", "3659", "4045", "4190", "5060", "5061", "6000", "6566", "6665", "6666", "6667", "6668",
	"6669", "6679", "6697", "10080",
}

// showURL formats an address for a person or a model, shortened and without parts that
// may be secret.
func showURL(u *url.URL) string {
	show := *u
	if show.RawQuery != "" {
		show.RawQuery = "…"
	}
	return runes.Shorten(EscapeInvisible(strings.Replace(show.Redacted(), "?%E2%80%A6", "?…", 1)), 300)
}

// showHost formats a host for a message. A host comes from the model or a server, so it can be
// long and contain invisible characters.
func showHost(host string) string { return runes.Shorten(showPath(host), 100) }

// showStatus describes the status in our words, because those in the response are the
// server's.
func showStatus(resp *http.Response) string {
	return strings.TrimSpace(strconv.Itoa(resp.StatusCode) + " " + http.StatusText(resp.StatusCode))
}
