// Package publicnet distinguishes addresses of the public Internet from those of this machine,
// of a private network, and of a cloud's metadata service.
//
// The check must concern the address that is dialled, since a name may resolve to another
// address at each lookup. [Control] does that in a [net.Dialer]; the other functions only
// refuse earlier and with a better text.
package publicnet

import (
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// BlockedError is the error of an address that is not public.
type BlockedError struct {
	// Host is the name or the address.
	Host string
}

// Error implements error.
func (e *BlockedError) Error() string {
	return "dial " + e.Host + ": not an address of the public Internet"
}

// reserved are the networks of the IANA registries of special-purpose addresses, also
// those that are reachable from everywhere: no page is there.
var reserved = []string{
	"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
	"192.0.0.0/24", "192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24",
	"192.168.0.0/16", "192.175.48.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
	"224.0.0.0/3",      // multicast, reserved, broadcast
	"168.63.129.16/32", // Azure's host
	"2001::/23",        // protocol assignments: Teredo, ORCHID, benchmarks
	"2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20",
}

// Public reports whether a is an address of the public Internet. An IPv6 address that embeds an
// IPv4 address is judged by the latter; only the mapped form and the well-known prefix of NAT64
// are accepted.
func Public(a netip.Addr) bool {
	if !a.IsValid() || a.Zone() != "" {
		return false
	}
	a = a.Unmap()
	if a.Is6() {
		if !inside(a, "64:ff9b::/96") {
			return inside(a, "2000::/3") && !insideAny(a)
		}
		b := a.As16()
		a = netip.AddrFrom4([4]byte(b[12:]))
	}
	return !insideAny(a)
}

func insideAny(a netip.Addr) bool {
	return slices.ContainsFunc(reserved, func(p string) bool { return inside(a, p) })
}

func inside(a netip.Addr, prefix string) bool {
	return netip.MustParsePrefix(prefix).Contains(a)
}

// Control is for the Control field of a [net.Dialer]: it refuses connections to addresses that
// are not public, or that belong to this machine or a network that it is in, with a
// [*BlockedError]. Many machines at home have public addresses of IPv6.
func Control(_, address string, _ syscall.RawConn) error {
	a, err := netip.ParseAddrPort(address)
	if err != nil || !Public(a.Addr()) {
		return &BlockedError{Host: address}
	}
	near, err := net.InterfaceAddrs()
	if err != nil || nearby(a.Addr(), near) {
		return &BlockedError{Host: address}
	}
	return nil
}

// nearby reports whether an address is in one of the networks of this machine.
func nearby(a netip.Addr, networks []net.Addr) bool {
	a = a.Unmap()
	return slices.ContainsFunc(networks, func(n net.Addr) bool {
		p, err := netip.ParsePrefix(n.String())
		if err == nil && p.Bits() < 8 { // a tunnel to everywhere
			return p.Addr() == a
		}
		return err != nil || p.Contains(a)
	})
}

// Local reports whether a name is none of the public Internet: one without a dot, or
// below a domain that is set aside for the machine (RFC 6761), the link (RFC 6762),
// the home (RFC 8375) or the organisation ("internal", reserved by ICANN in 2024).
func Local(name string) bool {
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	if !strings.Contains(name, ".") {
		return true
	}
	return slices.ContainsFunc(local, func(d string) bool { return strings.HasSuffix(name, d) })
}

// local are set aside, but for the last, which are so common that nobody can have them.
var local = []string{
	".localhost", ".local", ".home.arpa", ".internal",
	".localdomain", ".lan", ".intranet", ".corp", ".home",
}

// Number reads a host that is an IPv4 address in any of the forms that are in use:
// one to four numbers, in decimals, octals or hexadecimals. It reports whether the
// host is meant as one, which the last number tells, and returns no valid address if
// it is none.
func Number(host string) (a netip.Addr, number bool) {
	parts := strings.Split(strings.TrimSuffix(host, "."), ".")
	if last := parts[len(parts)-1]; !digits(last) && !hex(last) {
		return netip.Addr{}, false
	}
	if len(parts) > 4 {
		return netip.Addr{}, true
	}
	var all uint64
	for i, p := range parts {
		bits := 8
		if i == len(parts)-1 {
			bits = 8 * (5 - len(parts))
		}
		n, err := strconv.ParseUint(octal(p), 0, 64)
		if err != nil || n>>bits != 0 || strings.Contains(p, "_") {
			return netip.Addr{}, true
		}
		all = all<<bits | n
	}
	return netip.AddrFrom4([4]byte{byte(all >> 24), byte(all >> 16), byte(all >> 8), byte(all)}), true
}

func digits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

func hex(s string) bool {
	rest, ok := strings.CutPrefix(strings.ToLower(s), "0x")
	return ok && strings.Trim(rest, "0123456789abcdef") == ""
}

// octal writes 010 as 0o10, and an empty number as 0.
func octal(s string) string {
	switch {
	case strings.EqualFold(s, "0x"):
		return "0"
	case digits(s) && s[0] == '0':
		return "0o" + s
	}
	return s
}
