package mcp

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/config"
)

// The time of a call does not pass while the host is asked something, also if the call begins meanwhile.
func TestTimeStandsStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := newClient("x", config.Server{}, options{})
		require.NoError(t, err)
		answered := c.asks()
		ctx, cancel := c.within(t.Context(), time.Second)
		defer cancel()
		time.Sleep(time.Hour)
		require.NoError(t, ctx.Err())
		answered()
		time.Sleep(2 * time.Second)
		require.Error(t, ctx.Err())
	})
}

type replaced struct{ http.RoundTripper }

// A host may have replaced the transport of its process.
func TestReplacedTransport(t *testing.T) {
	old := http.DefaultTransport
	defer func() { http.DefaultTransport = old }()
	http.DefaultTransport = replaced{old}
	r, _ := dial(config.Server{URL: "http://127.0.0.1:1"}, nil)
	require.NotNil(t, r.base.Proxy)
}
