package replay_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/internal/wiretest"
	"github.com/aycoder/aycoder/providers/replay"
)

// pieces reads a body and returns the offsets at which its pieces end.
func pieces(t testing.TB, r io.Reader) (data []byte, cuts []int) {
	t.Helper()
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Read(buf)
		if data = append(data, buf[:n]...); n > 0 {
			cuts = append(cuts, len(data))
		}
		if err == io.EOF {
			return data, cuts
		}
		require.NoError(t, err)
	}
}

// wireRequest returns the recorded request, with a key in place of the removed one.
func wireRequest(t testing.TB, in *wiretest.Interaction) *http.Request {
	t.Helper()
	u, err := url.Parse(in.Request.Path)
	require.NoError(t, err)
	q := u.Query()
	q.Del("key")
	u.RawQuery, u.Scheme, u.Host = q.Encode(), "https", "api.test"
	req, err := http.NewRequestWithContext(t.Context(), in.Request.Method, u.String(), bytes.NewReader(in.RequestBody()))
	require.NoError(t, err)
	req.Header.Set("X-Api-Key", testKey)
	return req
}

// Traffic of real services is played back unchanged, in the original pieces.
func TestRecordedTraffic(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tape")
	var waiting []*wiretest.Interaction
	cases, size := 0, 0
	check := func() {
		size += recordAndReplay(t, path, waiting)
		cases += len(waiting)
		waiting = waiting[:0]
	}
	wiretest.Each(t, func(r *wiretest.Recording) {
		if waiting = append(waiting, r.Interactions...); len(waiting) > 200 {
			check()
		}
	})
	check()
	t.Logf("%d interactions, %d MB of bodies", cases, size>>20)
}

// recordAndReplay returns the size of the bodies.
func recordAndReplay(t *testing.T, path string, all []*wiretest.Interaction) (size int) {
	bodies, cuts := make([][]byte, len(all)), make([][]int, len(all))
	next := 0
	// The pieces end within events and characters.
	tape := openTape(t, path, replay.WithMode(replay.Record), replay.WithTransport(
		turn(func(req *http.Request) (*http.Response, error) {
			next++
			return all[next-1].Transport(all[next-1].Body(), 997).RoundTrip(req)
		})))
	for i, in := range all {
		resp, err := tape.RoundTrip(wireRequest(t, in))
		require.NoError(t, err)
		bodies[i], cuts[i] = pieces(t, resp.Body)
		require.True(t, string(bodies[i]) == in.Body(), in.Request.Path)
		size += len(bodies[i])
	}
	require.NoError(t, tape.Close())
	back := openTape(t, path)
	for i, in := range all {
		resp, err := back.RoundTrip(wireRequest(t, in))
		require.NoError(t, err)
		body, at := pieces(t, resp.Body)
		if want := withoutGrant(bodies[i]); len(want) == len(bodies[i]) {
			require.Equal(t, cuts[i], at)
		} else {
			bodies[i] = want
		}
		require.True(t, bytes.Equal(bodies[i], body), in.Request.Path)
		require.Equal(t, in.Response.Status, resp.StatusCode)
		require.NoError(t, resp.Body.Close())
	}
	require.Empty(t, back.Unused())
	require.NoError(t, back.Close())
	return size
}

// withoutGrant removes the tokens that a service has issued, which are the only change in
// the playback.
func withoutGrant(body []byte) []byte {
	var grant struct {
		Access string `json:"access_token"`
		ID     string `json:"id_token"`
	}
	if json.Unmarshal(body, &grant) != nil {
		return body
	}
	for _, token := range []string{grant.Access, grant.ID} {
		if token != "" {
			body = bytes.ReplaceAll(body, []byte(token), []byte("[redacted]"))
		}
	}
	return body
}

type turn func(*http.Request) (*http.Response, error)

func (f turn) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
