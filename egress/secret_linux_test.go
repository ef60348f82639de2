//go:build linux && (amd64 || arm64)

package egress_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/egress"
	"github.com/aycoder/aycoder/tools"
	"github.com/aycoder/aycoder/workspace"
)

const (
	token    = `tk-4f/9+c"b7e2d1a8` // with characters that other encodings write differently
	password = "correct-horse-staple"
)

// echoes is a server that sends back what it is given, in many ways. It counts the requests that
// had the credentials.
func echoes(t *testing.T, known *atomic.Int64) (server *httptest.Server, roots *tls.Config) {
	login := "Basic " + base64.StdEncoding.EncodeToString([]byte("user:"+password))
	server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		auth, basic := r.Header.Get("Authorization"), r.Header.Get("X-Login")
		if auth == "Bearer "+token && basic == login && len(r.Header["Authorization"]) == 1 {
			known.Add(1)
		}
		w.Header().Set("Trailer", "X-Trailer")
		w.Header().Set("X-Echo", auth)
		w.Header().Set("Link", auth)
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Set("Location", "/?"+url.Values{"a": {auth}}.Encode())
		if r.URL.Path == "/encoded" {
			w.Header().Set("Content-Encoding", "br")
		}
		inJSON, _ := json.Marshal(auth)
		fmt.Fprintf(w, "%s\n%s\n%s\n%s\n%s\n%s\n", auth, inJSON, url.QueryEscape(auth), basic,
			base64.StdEncoding.EncodeToString([]byte("x"+auth)), "user:"+password)
		for _, c := range auth { // in pieces
			fmt.Fprintf(w, "%c", c)
			w.(http.Flusher).Flush()
		}
		fmt.Fprintln(w, "\nthe end", r.Header.Get("Accept-Encoding"), r.Proto)
		w.Header().Set("X-Trailer", auth)
	}))
	server.Config.ErrorLog = quiet()
	server.StartTLS()
	t.Cleanup(server.Close)
	pool := x509.NewCertPool()
	pool.AddCert(server.Certificate())
	return server, &tls.Config{RootCAs: pool}
}

// search looks for two texts wherever a command can look: in variables, files and processes. They
// come by standard input, so that the command line does not have them.
const search = `read -r a; read -r b
{
	env; cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline
	find . "$TMPDIR" "${TMPDIR%/*}" "$SSL_CERT_FILE" -type f -exec cat {} +
	head -c 1000000 /proc/HOST/mem /proc/HOST/environ /proc/HOST/maps
} 2>/dev/null | command grep -acF -f <(printf "%s\n" "$a" "$b")`

// The credentials that the proxy adds reach the server and are found nowhere inside.
func TestCredentials(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "ws")
	require.NoError(t, os.Mkdir(dir, 0o755))
	ws, err := workspace.Open(dir)
	require.NoError(t, err)
	defer ws.Close()
	all := boxes(t, ws)
	var known atomic.Int64
	server, roots := echoes(t, &known)
	_, port, _ := net.SplitHostPort(server.Listener.Addr().String())
	proxy, err := egress.New(egress.WithTLSConfig(roots),
		egress.WithResolver(resolver(t, func(string) []string { return []string{"127.0.0.1"} })),
		egress.WithRules(egress.Rule{Host: "example.com:" + port, Action: egress.Allow, Private: true, Header: http.Header{
			"authorization": {"Bearer " + token},
			"X-Login":       {"Basic " + base64.StdEncoding.EncodeToString([]byte("user:"+password))},
		}}))
	require.NoError(t, err)
	inJSON, _ := json.Marshal(token)
	forms := []string{token, string(inJSON[1 : len(inJSON)-1]), url.QueryEscape(token), password,
		base64.StdEncoding.EncodeToString([]byte("user:" + password)), base64.StdEncoding.EncodeToString([]byte("xBearer " + token))[8:24]}
	for name, box := range all {
		run := func(script string) string { return run(t, box, proxy, dir, strings.ReplaceAll(script, "PORT", port)) }
		for _, tt := range []struct{ name, script string }{
			{"https", "curl -sSi --raw https://example.com:PORT/"},
			{"http", "curl -sSi --raw http://example.com:PORT/"},
			{"own header", "curl -sSi -H 'Authorization: mine' -H 'Connection: authorization' https://example.com:PORT/"},
			{"compressed", "curl -sSi --compressed https://example.com:PORT/"},
			{"python", "/usr/bin/python3 -c 'import urllib.request as u; print(u.urlopen(\"https://example.com:PORT/\").read())'"},
			{"redirect", "curl -sSi -L --max-redirs 2 https://example.com:PORT/"},
		} {
			known.Store(0)
			out := run(tt.script)
			assert.NotZero(t, known.Load(), "%s, %s: %s", name, tt.name, out)
			assert.Contains(t, out, "the end", tt.name)
			assert.Contains(t, out, "********")
			for _, f := range forms {
				assert.NotContains(t, out, f, "%s, %s", name, tt.name)
			}
		}
		out := run("curl -sSi https://example.com:PORT/encoded; curl -sSi -X TRACE https://example.com:PORT/")
		assert.Contains(t, out, "the response is encoded")
		assert.Contains(t, out, "the method TRACE")
		for _, f := range forms {
			assert.NotContains(t, out, f, name)
		}
	}
	// A search of everything inside finds what is planted there, and nothing else.
	script := "curl -sS https://example.com:" + port + "/ >page; " + strings.ReplaceAll(search, "HOST", fmt.Sprint(os.Getpid()))
	for name, box := range all {
		for planted, want := range map[string]string{"": "0\n", token + "\n": "1\n"} {
			require.NoError(t, os.WriteFile(filepath.Join(dir, "notes"), []byte(planted), 0o600))
			assert.Equal(t, want, run(t, box, proxy, dir, script), "%s: planted %q", name, planted)
			page, err := os.ReadFile(filepath.Join(dir, "page"))
			require.NoError(t, err)
			assert.Contains(t, string(page), "the end")
		}
	}
}

// run runs a script in a sandbox, and returns what it printed.
func run(t *testing.T, box tools.Sandbox, proxy *egress.Proxy, dir, script string) string {
	t.Helper()
	start, end := in(t.Context(), box, proxy, nil)
	defer end()
	var out strings.Builder
	cmd := exec.CommandContext(t.Context(), "bash", "-c", script)
	cmd.Dir, cmd.Env = dir, []string{"PATH=/usr/local/bin:/usr/bin:/bin"}
	cmd.Stdin = strings.NewReader(token + "\n" + password + "\n")
	cmd.Stdout, cmd.Stderr = &out, &out
	require.NoError(t, start(cmd))
	_ = cmd.Wait()
	return out.String()
}
