package policy

import (
	"net/url"
	"strings"
	"testing"

	"github.com/aycoder/aycoder/internal/publicnet"
	"github.com/stretchr/testify/require"
)

// The host of an address is the one that net/url finds, and the rule that is
// suggested for an address covers it, as does the deny rule for its host.
func FuzzOrigins(f *testing.F) {
	for _, s := range []string{
		"https://a.example.com:8080/x", "http://[::1]:80/", `http://a\@b/`, "http://1.2.3.4", "HTTPS://[::ffff:1.2.3.4]#",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, address string) {
		o, ok := originOf(address)
		if !ok {
			require.True(t, matchURL("example.com", address, false))
			require.False(t, matchURL("*", address, true))
			return
		}
		require.True(t, matchURL(o.host, address, false))
		require.True(t, matchURL(o.String(), address, true), o)
		u, err := url.Parse(address)
		if err != nil { // of its path
			return
		}
		require.Nil(t, u.User)
		host, ok := publicnet.HostName(u.Hostname())
		if strings.Contains(u.Host, "[") {
			host, ok = publicnet.HostName("[" + u.Hostname() + "]")
		}
		require.True(t, ok)
		require.Equal(t, o.host, host)
		require.Contains(t, []string{"", o.port}, strings.TrimLeft(u.Port(), "0"))
	})
}
