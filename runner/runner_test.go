package runner

import (
	"context"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/agenttest"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/tools"
	"github.com/aycoder/aycoder/workspace"
)

const testToken = "token-of-a-laptop"

// hub starts a server with a hub that knows the runner "laptop".
func hub(t testing.TB, opts ...HubOption) (*Hub, string) {
	t.Helper()
	authorize, err := Tokens(map[string]string{"laptop": testToken, "other": "token-of-another"})
	require.NoError(t, err)
	h, err := NewHub(authorize, opts...)
	require.NoError(t, err)
	s := httptest.NewServer(h)
	t.Cleanup(func() {
		require.NoError(t, h.Close())
		s.Close()
	})
	return h, s.URL
}

// serving serves a directory until the end of the test, or until stop is called.
func serving(t testing.TB, url, dir string, opts ...Option) (stop func() error) {
	t.Helper()
	ws, err := workspace.Open(dir)
	require.NoError(t, err)
	e, err := tools.LocalExec()
	require.NoError(t, err)
	return servingFiles(t, url, ws, e, opts...)
}

func servingFiles(t testing.TB, url string, files tools.FS, e tools.Exec, opts ...Option) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	var failed error
	go func() {
		defer close(ended)
		failed = Serve(ctx, url, testToken, files, e, opts...)
	}()
	stop = func() error {
		cancel()
		<-ended
		return failed
	}
	t.Cleanup(func() { _ = stop() })
	return stop
}

// elsewhere returns the workspace of a directory, through a runner.
func elsewhere(t testing.TB, dir string) *Environment {
	t.Helper()
	h, url := hub(t)
	serving(t, url, dir)
	e, err := h.Environment(t.Context(), "laptop")
	require.NoError(t, err)
	return e
}

func TestFSOfRunner(t *testing.T) {
	if timed.Reduced(t) {
		t.Skip("left out with the race detector: package remote has the same calls")
	}
	agenttest.TestFS(t, func(t testing.TB, dir string) tools.FS { return elsewhere(t, dir) })
}

func TestExecOfRunner(t *testing.T) {
	agenttest.TestExec(t, func(t testing.TB, dir string) (tools.Exec, string) { return elsewhere(t, dir), dir })
}

type writeFunc func()

func (w writeFunc) Write(p []byte) (int, error) { w(); return len(p), nil }
