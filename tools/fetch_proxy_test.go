package tools

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/egress"
)

// Fetch reaches by a proxy what the proxy lets it reach, with its credentials.
func TestFetchByProxy(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		fmt.Fprintf(w, "token %s", r.Header.Get("X-Token"))
	}))
	defer server.Close()
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	host := server.Listener.Addr().String()
	get := func(address string, rules ...egress.Rule) *aycoder.ToolResult {
		proxy, err := egress.New(egress.WithTLSConfig(&tls.Config{RootCAs: roots}), egress.WithRules(rules...))
		require.NoError(t, err)
		fetch, err := Fetch(WithProxy(proxy), WithPrivateHosts(host))
		require.NoError(t, err)
		r, err := fetch.Call(t.Context(), aycoder.NewInvocation("1", "fetch", mustJSON(t, args{"url": address}), nil))
		require.NoError(t, err)
		return r
	}
	secret := http.Header{"X-Token": {"token-of-the-host"}}
	r := get("https://"+host+"/", egress.Rule{Host: host, Action: egress.Allow, Private: true, Header: secret})
	assert.Contains(t, r.Text(), "token *****************", "it came, and is masked")
	r = get("http://"+host+"/", egress.Rule{Host: host, Private: true, Header: secret})
	assert.Contains(t, r.Text(), "token *****************", "the approval of the call is the answer")
	r = get("https://"+host+"/", egress.Rule{Host: host, Private: true}, egress.Rule{Host: "*", Action: egress.Deny})
	assert.Contains(t, r.Text(), "blocked_address: ")
	assert.Contains(t, r.Text(), "by the rule deny *")
	r = get("https://" + host + "/")
	assert.Contains(t, r.Text(), "a rule with Private permits that", "unless the proxy permits it too")
}

// A proxy without something that holds commands to it would be half a wall.
func TestProxyNeedsSandbox(t *testing.T) {
	w := newWorld(t, nil)
	proxy, err := egress.New()
	require.NoError(t, err)
	_, err = Bash(w.ws, WithProxy(proxy))
	require.ErrorContains(t, err, "WithProxy needs WithSandbox")
	_, err = Coding(w.ws, WithProxy(proxy))
	require.ErrorContains(t, err, "WithProxy needs WithSandbox")
	_, err = Fetch(WithProxy(proxy), WithHTTPClient(http.DefaultClient))
	require.ErrorContains(t, err, "WithProxy goes without WithHTTPClient")
	_, err = Fetch(WithProxy(nil))
	require.Error(t, err)
	for name, box := range map[string]Sandbox{"none": NoSandbox(), "of the host": oblivious{NoSandbox()}} {
		bash, err := Bash(w.ws, WithProxy(proxy), WithSandbox(box))
		require.NoError(t, err)
		r, err := bash.Call(t.Context(), aycoder.NewInvocation("1", "bash", mustJSON(t, args{"command": "touch f"}), nil))
		require.NoError(t, err)
		assert.Contains(t, r.Text(), "no_sandbox: ", name)
		assert.NoFileExists(t, w.path("f"), name)
	}
}

// oblivious is a sandbox of a host that knows nothing of proxies.
type oblivious struct{ Sandbox }

// Start implements [Sandbox].
func (f oblivious) Start(ctx context.Context, cmd *exec.Cmd, call SandboxCall) (*SandboxReport, error) {
	return f.Sandbox.Start(ctx, cmd, SandboxCall{Network: call.Network})
}
