package publicnet

import (
	"net/netip"
	"strings"
)

// SplitHost reads host, host:port, [v6] or [v6]:port strictly, and returns the canonical form of
// the host and the port without leading zeros, "" if there is none. It rejects everything that
// some parsers take for another host: see [HostName].
func SplitHost(s string) (host, port string, ok bool) {
	i := strings.LastIndexByte(s, ':')
	if i > strings.LastIndexByte(s, ']') {
		s, port = s[:i], strings.TrimLeft(s[i+1:], "0")
		if port == "" || len(port) > 5 || !digits(port) {
			return "", "", false
		}
	}
	host, ok = HostName(s)
	return host, port, ok
}

// HostName returns the canonical form of a name or an IP address: in lower case, without a dot at
// the end, with an IPv6 address in brackets. It rejects names that are not ASCII, and numbers
// other than four decimals.
func HostName(s string) (string, bool) {
	if strings.HasPrefix(s, "[") && strings.HasSuffix(s, "]") {
		a, err := netip.ParseAddr(s[1 : len(s)-1])
		if err != nil || !a.Is6() || a.Zone() != "" {
			return "", false
		}
		if a = a.Unmap(); a.Is4() {
			return a.String(), true
		}
		return "[" + a.String() + "]", true
	}
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789-_."
	s = strings.TrimSuffix(strings.ToLower(s), ".")
	last := s[strings.LastIndexByte(s, '.')+1:]
	if last == "" || s[0] == '.' || strings.Contains(s, "..") || strings.Trim(s, letters) != "" {
		return "", false
	}
	if last[0] >= '0' && last[0] <= '9' {
		_, err := netip.ParseAddr(s)
		return s, err == nil
	}
	return s, true
}
