package publicnet

import (
	"errors"
	"net"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestPublic(t *testing.T) {
	public := []string{
		"1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255",
		"128.0.0.0", "172.15.255.255", "172.32.0.0", "192.167.255.255", "192.169.0.0", "198.17.255.255",
		"198.20.0.0", "223.255.255.255", "2606:4700:4700::1111", "2a00:1450:4001::200e", "::ffff:8.8.8.8",
		"64:ff9b::8.8.8.8", "2001:200::1",
	}
	private := []string{
		"0.0.0.0", "0.1.2.3", "10.0.0.1", "10.255.255.255", "100.64.0.1", "100.100.100.200", "127.0.0.1",
		"127.255.255.254", "169.254.169.254", "169.254.170.2", "172.16.0.1", "172.31.255.255", "192.0.0.192",
		"192.0.2.1", "192.88.99.1", "192.168.1.1", "198.18.0.1", "198.19.255.255", "198.51.100.1", "203.0.113.1",
		"224.0.0.1", "239.255.255.250", "240.0.0.1", "255.255.255.255", "168.63.129.16",
		"::", "::1", "::7f00:1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:0:127.0.0.1", "fe80::1", "fe80::1%eth0",
		"2606:4700:4700::1111%eth0", "fec0::1", "fc00::1", "fd00::1", "fd00:ec2::254", "ff02::1", "ff0e::1", "64:ff9b::7f00:1",
		"64:ff9b::169.254.169.254", "64:ff9b:1::8.8.8.8", "100::1", "2001::1", "2001:0:7f00:1::", "2001:10::1",
		"2001:db8::1", "2002:7f00:1::", "2002:808:808::", "3fff::1", "5f00::1", "4000::1", "::8.8.8.8",
	}
	for _, s := range public {
		assert.True(t, Public(netip.MustParseAddr(s)), s)
	}
	for _, s := range private {
		assert.False(t, Public(netip.MustParseAddr(s)), s)
	}
	assert.False(t, Public(netip.Addr{}))
}

func TestControl(t *testing.T) {
	require.NoError(t, Control("tcp", "8.8.8.8:80", nil))
	for _, s := range []string{"127.0.0.1:80", "[::1]:80", "[fe80::1%eth0]:80", "example.com:80", "8.8.8.8", ""} {
		_, ok := errors.AsType[*BlockedError](Control("tcp", s, nil))
		require.True(t, ok, s)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	_, err = (&net.Dialer{Control: Control}).DialContext(t.Context(), "tcp", l.Addr().String())
	blocked, ok := errors.AsType[*BlockedError](err)
	require.True(t, ok, err)
	require.Equal(t, "dial "+l.Addr().String()+": not an address of the public Internet", blocked.Error())
}

func TestLocal(t *testing.T) {
	for _, s := range []string{
		"localhost", "LOCALHOST.", "a.localhost", "router", "printer.local", "nas.home.arpa", "metadata.google.internal",
		"x.INTERNAL", "instance-data", "", "a.lan",
	} {
		assert.True(t, Local(s), s)
	}
	for _, s := range []string{"example.com", "example.com.", "localhost.example.com", "mylocal.org", "internal.example.org"} {
		assert.False(t, Local(s), s)
	}
}

func TestNumber(t *testing.T) {
	tests := []struct {
		host, want string
		number     bool
	}{
		{"127.0.0.1", "127.0.0.1", true},
		{"127.0.0.1.", "127.0.0.1", true},
		{"2130706433", "127.0.0.1", true},
		{"0x7f000001", "127.0.0.1", true},
		{"0X7F000001", "127.0.0.1", true},
		{"017700000001", "127.0.0.1", true},
		{"0177.0.0.1", "127.0.0.1", true},
		{"0x7f.0.0.1", "127.0.0.1", true},
		{"0x7f.0x0.0x0.0x1", "127.0.0.1", true},
		{"127.1", "127.0.0.1", true},
		{"127.0.1", "127.0.0.1", true},
		{"127.65535", "127.0.255.255", true},
		{"0", "0.0.0.0", true},
		{"0x", "0.0.0.0", true},
		{"00.0x.0", "0.0.0.0", true},
		{"4294967295", "255.255.255.255", true},
		{"4294967296", "", true},
		{"256.0.0.1", "", true},
		{"1.2.3.4.5", "", true},
		{"1..2", "", true},
		{"example.1", "", true},
		{"08.0.0.1", "", true},
		{"1_0.0.0.1", "", true},
		{"99999999999999999999999", "", true},
		{"example.com", "", false},
		{"1.example", "", false},
		{"0x7g", "", false},
		{"", "", false},
		{"::1", "", false},
	}
	for _, tt := range tests {
		a, number := Number(tt.host)
		assert.Equal(t, tt.number, number, tt.host)
		if tt.want == "" {
			assert.False(t, a.IsValid(), tt.host)
			continue
		}
		assert.Equal(t, tt.want, a.String(), tt.host)
	}
}

// An address that net/netip takes for an IPv4 address is the same here, whatever else is
// accepted; and an address within another is judged as that one.
func FuzzNumber(f *testing.F) {
	f.Add("127.0.0.1", uint32(0x7f000001))
	f.Add("0x7f.1", uint32(0x08080808))
	f.Fuzz(func(t *testing.T, host string, n uint32) {
		a, number := Number(host)
		if want, err := netip.ParseAddr(host); err == nil && want.Is4() {
			require.True(t, number)
			require.Equal(t, want, a)
		}
		if a.IsValid() {
			require.True(t, number && a.Is4())
			again, _ := Number(a.String())
			require.Equal(t, a, again)
		}
		v4 := netip.AddrFrom4([4]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)})
		for _, prefix := range []string{"::ffff:", "64:ff9b::"} {
			require.Equal(t, Public(v4), Public(netip.MustParseAddr(prefix+v4.String())))
		}
		if v4.IsPrivate() || v4.IsLoopback() || v4.IsLinkLocalUnicast() || v4.IsMulticast() || v4.IsUnspecified() {
			require.False(t, Public(v4))
		}
		require.Equal(t, Public(v4), Control("tcp", v4.String()+":80", nil) == nil)
	})
}
