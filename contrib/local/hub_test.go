package local

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
)

const (
	testRepo     = "owner/model-GGUF"
	testRevision = "0123456789abcdef0123456789abcdef01234567"
)

// A fakeHub answers like Hugging Face: files come from another host, to which it redirects.
type fakeHub struct {
	hub, cdn *httptest.Server

	mu       sync.Mutex
	files    map[string][]byte
	etags    map[string]string
	gated    bool
	repo     string // another name, if it was renamed
	requests []*http.Request
	fault    func(w http.ResponseWriter, r *http.Request, data []byte) bool // of the CDN: true if it has answered
}

func newFakeHub(t *testing.T, files map[string][]byte) *fakeHub {
	f := &fakeHub{files: files, etags: map[string]string{}}
	f.hub = httptest.NewServer(http.HandlerFunc(f.answer))
	f.cdn = httptest.NewServer(http.HandlerFunc(f.content))
	t.Cleanup(f.hub.Close)
	t.Cleanup(f.cdn.Close)
	return f
}

func sum(data []byte) string {
	h := sha256.Sum256(data)
	return hex.EncodeToString(h[:])
}

// client returns a client with a directory.
func (f *fakeHub) client(t *testing.T, dir string, opts ...HubOption) *Hub {
	h, err := NewHub(append([]HubOption{WithEndpoint(f.hub.URL), WithDir(dir), WithToken("hf_secret")}, opts...)...)
	require.NoError(t, err)
	h.chunk = 16 << 10
	h.wait = func(ctx context.Context, _ time.Duration) error { return context.Cause(ctx) }
	h.sync = func(*os.File) error { return nil }
	return h
}

func (f *fakeHub) note(r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests = append(f.requests, r)
}

func (f *fakeHub) answer(w http.ResponseWriter, r *http.Request) {
	f.note(r)
	if f.gated && r.Header.Get("Authorization") == "" {
		w.Header().Set("X-Error-Code", "GatedRepo")
		http.Error(w, "gated", http.StatusUnauthorized)
		return
	}
	switch {
	case r.URL.Path == "/api/models":
		json.NewEncoder(w).Encode([]map[string]any{{"id": testRepo, "downloads": 7, "gated": "auto"}, {"id": "../evil"}})
	case r.URL.Path == "/api/models/"+testRepo && f.repo != "":
		http.Redirect(w, r, "/api/models/"+f.repo+"?blobs=true", http.StatusTemporaryRedirect)
	case r.URL.Path == "/api/models/"+testRepo, f.repo != "" && r.URL.Path == "/api/models/"+f.repo:
		var siblings []map[string]any
		for name, data := range f.files {
			siblings = append(siblings, map[string]any{"rfilename": name, "size": len(data), "lfs": map[string]any{"sha256": sum(data), "size": len(data)}})
		}
		json.NewEncoder(w).Encode(map[string]any{"id": strings.TrimPrefix(r.URL.Path, "/api/models/"), "sha": testRevision, "gated": f.gated,
			"tags": []string{"gguf", "license:apache-2.0"}, "siblings": siblings})
	case strings.Contains(r.URL.Path, "/resolve/"+testRevision+"/"):
		_, name, _ := strings.Cut(r.URL.Path, "/resolve/"+testRevision+"/")
		http.Redirect(w, r, f.cdn.URL+(&url.URL{Path: "/" + name}).EscapedPath()+"?signature=secret", http.StatusFound)
	default:
		w.Header().Set("X-Error-Code", "RepoNotFound")
		http.Error(w, "none", http.StatusNotFound)
	}
}

func (f *fakeHub) content(w http.ResponseWriter, r *http.Request) {
	f.note(r)
	name := strings.TrimPrefix(r.URL.Path, "/")
	f.mu.Lock()
	data, etag, fault := f.files[name], f.etags[name], f.fault
	f.mu.Unlock()
	if etag == "" {
		etag = `"` + sum(data)[:16] + `"`
	}
	w.Header().Set("Etag", etag)
	if fault == nil || !fault(w, r, data) {
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
	}
}

// pull pulls to the end.
func pull(ctx context.Context, h *Hub, name string) (last Progress, err error) {
	for p, e := range h.Pull(ctx, name) {
		if err = e; e == nil {
			last = p
		}
	}
	return last, err
}

func noise(n int, seed uint64) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)})
	r.Read(b)
	return b
}

func TestPull(t *testing.T) {
	files := map[string][]byte{
		"model-Q4_K_M.gguf": noise(200_001, 1), "model-Q8_0.gguf": noise(400_000, 2), "mmproj-F16.gguf": noise(10, 3), "README.md": []byte("x"),
		"UD-IQ2_XXS/model-UD-IQ2_XXS-00001-of-00002.gguf": noise(70_000, 4), "UD-IQ2_XXS/model-UD-IQ2_XXS-00002-of-00002.gguf": noise(50_000, 5),
	}
	f := newFakeHub(t, files)
	h := f.client(t, t.TempDir())
	repo, err := h.Files(t.Context(), testRepo)
	require.NoError(t, err)
	assert.Equal(t, "apache-2.0", repo.License)
	var quants []string
	for _, c := range repo.Choices() {
		quants = append(quants, c.Quantization+" "+strconv.FormatInt(c.Size(), 10))
	}
	assert.ElementsMatch(t, []string{"Q4_K_M 200001", "Q8_0 400000", "UD-IQ2_XXS 120000"}, quants)

	for _, name := range []string{testRepo, "hf.co/" + testRepo + ":q8_0", testRepo + ":UD-IQ2_XXS"} {
		last, err := pull(t.Context(), h, name)
		require.NoError(t, err, name)
		assert.Equal(t, "done", last.Status)
		assert.Equal(t, last.Total, last.Done)
	}
	list, err := h.List(t.Context())
	require.NoError(t, err)
	require.Len(t, list, 3)
	for _, m := range list {
		for _, p := range m.Files {
			data, err := os.ReadFile(p)
			require.NoError(t, err)
			_, name, _ := strings.Cut(filepath.ToSlash(p), testRevision+"/")
			assert.True(t, bytes.Equal(files[name], data), name)
		}
		require.NoError(t, h.Verify(t.Context(), m.Name, nil))
	}
	assert.Equal(t, testRepo+":UD-IQ2_XXS", list[2].Name)
	assert.Len(t, list[2].Files, 2)

	// The token is for the hub only, and what is there is not downloaded again.
	f.mu.Lock()
	for _, r := range f.requests {
		want := "Bearer hf_secret"
		if r.Host != strings.TrimPrefix(f.hub.URL, "http://") {
			want = ""
		}
		assert.Equal(t, want, r.Header.Get("Authorization"), r.Host)
	}
	before := len(f.requests)
	f.mu.Unlock()
	_, err = pull(t.Context(), h, testRepo)
	require.NoError(t, err)
	assert.Len(t, f.requests, before+1)

	// A file that rots is found, and a model can be deleted.
	require.NoError(t, os.WriteFile(list[0].Files[0], noise(200_001, 9), 0o600))
	assert.ErrorIs(t, h.Verify(t.Context(), list[0].Name, nil), ErrHash)
	for _, m := range list {
		require.NoError(t, h.Delete(t.Context(), m.Name))
	}
	list, err = h.List(t.Context())
	require.NoError(t, err)
	assert.Empty(t, list)
	assert.ErrorIs(t, h.Delete(t.Context(), testRepo), ErrNotFound)
	left, err := filepath.Glob(filepath.Join(h.Dir(), "models--owner--model-GGUF", "blobs", "*"))
	require.NoError(t, err)
	for _, name := range left {
		assert.True(t, strings.HasSuffix(name, ".lock"), name)
	}
}

func TestHubErrors(t *testing.T) {
	f := newFakeHub(t, map[string][]byte{"m-Q4_0.gguf": noise(1000, 1)})
	h := f.client(t, t.TempDir())
	_, err := h.Resolve(t.Context(), testRepo+":Q8_0")
	require.ErrorIs(t, err, ErrNotFound)
	assert.ErrorContains(t, err, "there are Q4_0")
	_, err = h.Files(t.Context(), "owner/none")
	assert.ErrorIs(t, err, ErrNotFound)
	for _, bad := range []string{"", "x", "../x/y", "a/b/c", "a/..", "a/b?x=1"} {
		_, err = h.Files(t.Context(), bad)
		assert.Error(t, err, bad)
	}
	f.gated = true
	_, err = pull(t.Context(), f.client(t, t.TempDir(), WithToken("")), testRepo)
	require.ErrorIs(t, err, ErrGated)
	hubErr, ok := errors.AsType[*HubError](err)
	require.True(t, ok)
	assert.Equal(t, http.StatusUnauthorized, hubErr.Status)
	_, err = pull(t.Context(), h, testRepo)
	require.NoError(t, err)
	f.repo = "new-owner/new-name"
	c, err := h.Resolve(t.Context(), testRepo)
	require.NoError(t, err)
	assert.Equal(t, "new-owner/new-name:Q4_0", c.Name())

	found, err := h.Search(t.Context(), "model", 5)
	require.NoError(t, err)
	require.Len(t, found, 1)
	assert.True(t, found[0].Gated)

	h = f.client(t, t.TempDir())
	h.free = func(string) (int64, error) { return 999, nil }
	_, err = pull(t.Context(), h, testRepo)
	assert.ErrorIs(t, err, ErrSpace)

	f.hub.Close()
	_, err = h.Files(t.Context(), testRepo)
	require.Error(t, err)
	assert.NotContains(t, err.Error(), "secret")
	_, err = NewHub(WithEndpoint("ftp://x"), WithConnections(0), nil)
	_, ok = errors.AsType[*aycoder.ConfigError](err)
	assert.True(t, ok)
}

// Names of files of a hub that lies do not leave the directory.
func TestPathsOfHub(t *testing.T) {
	for _, name := range []string{"../x.gguf", "/x.gguf", "a/../../x.gguf", `a\..\x.gguf`, "C:x.gguf", "a//x.gguf", "x\n.gguf", "./x.gguf"} {
		r := repoJSON{}
		require.NoError(t, json.Unmarshal(fmt.Appendf(nil, `{"siblings":[{"rfilename":%s}]}`, must(json.Marshal(name))), &r))
		assert.Empty(t, r.repo().Files, name)
	}
}

// The name of a file may have a percent sign.
func TestPercent(t *testing.T) {
	data := noise(40<<10, 1)
	for _, name := range []string{"100%-Q4_K_M.gguf", "a%20b-Q4_K_M.gguf", "d%2e%2e/a b#c-Q4_K_M.gguf"} {
		f := newFakeHub(t, map[string][]byte{name: data})
		dir := t.TempDir()
		_, err := pull(t.Context(), f.client(t, dir), testRepo)
		require.NoError(t, err, name)
		got, err := os.ReadFile(filepath.Join(dir, repoDir(testRepo), "snapshots", testRevision, filepath.FromSlash(name)))
		require.NoError(t, err, name)
		require.True(t, bytes.Equal(data, got), name)
	}
}

// A file in the place of a name that has other bytes is replaced.
func TestOtherFileOfName(t *testing.T) {
	data := noise(40<<10, 1)
	f := newFakeHub(t, map[string][]byte{"m-Q4_K_M.gguf": data})
	dir := t.TempDir()
	name := filepath.Join(dir, repoDir(testRepo), "snapshots", testRevision, "m-Q4_K_M.gguf")
	require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
	require.NoError(t, os.WriteFile(name, data[:100], 0o644))
	_, err := pull(t.Context(), f.client(t, dir), testRepo)
	require.NoError(t, err)
	got, err := os.ReadFile(name)
	require.NoError(t, err)
	require.True(t, bytes.Equal(data, got), "%d bytes", len(got))
}

// A server that asks to wait for longer than there are nanoseconds is asked again.
func TestRetryAfter(t *testing.T) {
	f := newFakeHub(t, map[string][]byte{"m-Q4_K_M.gguf": noise(1<<10, 1)})
	asked := 0
	f.fault = func(w http.ResponseWriter, _ *http.Request, _ []byte) bool {
		if asked++; asked > 1 {
			return false
		}
		w.Header().Set("Retry-After", "9999999999")
		http.Error(w, "busy", http.StatusServiceUnavailable)
		return true
	}
	h := f.client(t, t.TempDir())
	waited := time.Duration(0)
	h.wait = func(_ context.Context, d time.Duration) error { waited += d; return nil }
	_, err := pull(t.Context(), h, testRepo)
	require.NoError(t, err)
	require.Equal(t, time.Minute, waited)
}

func must(data []byte, _ error) []byte { return data }

func TestQuantizationOf(t *testing.T) {
	for name, want := range map[string]string{
		"qwen2.5-coder-7b-instruct-q4_k_m.gguf":          "Q4_K_M",
		"Llama-3.2-3B-Instruct-Q8_0.gguf":                "Q8_0",
		"Qwen3-Coder-30B-A3B-UD-Q4_K_XL.gguf":            "UD-Q4_K_XL",
		"x/DeepSeek-R1-UD-IQ1_S-00003-of-00004.gguf":     "UD-IQ1_S",
		"gpt-oss-20b-mxfp4.gguf":                         "MXFP4",
		"codellama-7b.Q5_K_S.gguf":                       "Q5_K_S",
		"BF16/model-BF16-00001-of-00002.gguf":            "BF16",
		"model-IQ4_NL.gguf":                              "IQ4_NL",
		"model-TQ1_0.gguf":                               "TQ1_0",
		"model.gguf":                                     "",
		"gemma-3-4b-it-Q4_K_M.gguf.part":                 "",
		"gemma-3-27b-it-qat-q4_0.gguf":                   "Q4_0",
		"model-q3_k_l.gguf":                              "Q3_K_L",
		"gpt-oss-120b-mxfp4-00001-of-00003.gguf":         "MXFP4",
		"Qwen3-235B-A22B-Instruct-2507-Q2_K_L-00001.txt": "",
	} {
		assert.Equal(t, want, quantizationOf(name), name)
	}
}

// faults are what a CDN may do wrong with a request. They return false if it should answer as usual.
var faults = map[string]func(r *rand.Rand, f *fakeHub) func(http.ResponseWriter, *http.Request, []byte) bool{
	"cut": func(r *rand.Rand, _ *fakeHub) func(http.ResponseWriter, *http.Request, []byte) bool {
		at := r.IntN(20_000)
		return func(w http.ResponseWriter, req *http.Request, data []byte) bool {
			http.ServeContent(&cutter{w, at}, req, "", time.Time{}, bytes.NewReader(data))
			return true
		}
	},
	"cut before the head": func(*rand.Rand, *fakeHub) func(http.ResponseWriter, *http.Request, []byte) bool {
		return func(http.ResponseWriter, *http.Request, []byte) bool { panic(http.ErrAbortHandler) }
	},
	"slow": func(*rand.Rand, *fakeHub) func(http.ResponseWriter, *http.Request, []byte) bool {
		return func(w http.ResponseWriter, req *http.Request, data []byte) bool {
			http.ServeContent(&dripper{w}, req, "", time.Time{}, bytes.NewReader(data))
			return true
		}
	},
	"status": func(r *rand.Rand, _ *fakeHub) func(http.ResponseWriter, *http.Request, []byte) bool {
		code := []int{429, 500, 502, 503, 403, 416}[r.IntN(6)]
		return func(w http.ResponseWriter, _ *http.Request, _ []byte) bool {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(code)
			return true
		}
	},
	"gone": func(*rand.Rand, *fakeHub) func(http.ResponseWriter, *http.Request, []byte) bool {
		return func(w http.ResponseWriter, _ *http.Request, _ []byte) bool {
			w.WriteHeader(http.StatusNotFound)
			return true
		}
	},
	"redirects for ever": func(*rand.Rand, *fakeHub) func(http.ResponseWriter, *http.Request, []byte) bool {
		return func(w http.ResponseWriter, req *http.Request, _ []byte) bool {
			http.Redirect(w, req, req.URL.String(), http.StatusFound)
			return true
		}
	},
	"whole instead of a part": func(*rand.Rand, *fakeHub) func(http.ResponseWriter, *http.Request, []byte) bool {
		return func(w http.ResponseWriter, req *http.Request, data []byte) bool {
			req.Header.Del("Range")
			http.ServeContent(w, req, "", time.Time{}, bytes.NewReader(data))
			return true
		}
	},
	"another part": func(r *rand.Rand, _ *fakeHub) func(http.ResponseWriter, *http.Request, []byte) bool {
		from := r.IntN(1000)
		return func(w http.ResponseWriter, req *http.Request, data []byte) bool {
			req.Header.Set("Range", fmt.Sprintf("bytes=%d-", from))
			req.Header.Del("If-Range")
			http.ServeContent(w, req, "", time.Time{}, bytes.NewReader(data))
			return true
		}
	},
	"a shorter length": func(*rand.Rand, *fakeHub) func(http.ResponseWriter, *http.Request, []byte) bool {
		return func(w http.ResponseWriter, req *http.Request, data []byte) bool {
			w.Header().Set("Content-Length", "100")
			w.Header().Set("Content-Range", strings.Replace(req.Header.Get("Range"), "=", " ", 1)+"/"+strconv.Itoa(len(data)))
			w.WriteHeader(http.StatusPartialContent)
			var from int
			fmt.Sscanf(req.Header.Get("Range"), "bytes=%d-", &from)
			w.Write(data[from:min(from+100, len(data))])
			return true
		}
	},
	"another size": func(*rand.Rand, *fakeHub) func(http.ResponseWriter, *http.Request, []byte) bool {
		return func(w http.ResponseWriter, req *http.Request, data []byte) bool {
			http.ServeContent(w, req, "", time.Time{}, bytes.NewReader(data[:len(data)/2]))
			return true
		}
	},
	"a wrong byte": func(r *rand.Rand, _ *fakeHub) func(http.ResponseWriter, *http.Request, []byte) bool {
		at := r.IntN(100)
		return func(w http.ResponseWriter, req *http.Request, data []byte) bool {
			data = bytes.Clone(data)
			for i := at; i < len(data); i += 10_000 {
				data[i] ^= 1
			}
			http.ServeContent(w, req, "", time.Time{}, bytes.NewReader(data))
			return true
		}
	},
	"a changed file": func(r *rand.Rand, _ *fakeHub) func(http.ResponseWriter, *http.Request, []byte) bool {
		seed := r.Uint64()
		return func(w http.ResponseWriter, req *http.Request, data []byte) bool {
			w.Header().Set("Etag", fmt.Sprintf(`"%x"`, seed))
			http.ServeContent(w, req, "", time.Time{}, bytes.NewReader(noise(len(data), seed)))
			return true
		}
	},
	"a page": func(*rand.Rand, *fakeHub) func(http.ResponseWriter, *http.Request, []byte) bool {
		return func(w http.ResponseWriter, _ *http.Request, _ []byte) bool {
			io.WriteString(w, "<html>log in to this network</html>")
			return true
		}
	},
}

// A cutter ends the connection after so many bytes.
type cutter struct {
	http.ResponseWriter
	left int
}

func (c *cutter) Write(p []byte) (int, error) {
	if c.left -= len(p); c.left < 0 {
		c.ResponseWriter.Write(p[:max(0, len(p)+c.left)])
		http.NewResponseController(c.ResponseWriter).Flush()
		panic(http.ErrAbortHandler)
	}
	return c.ResponseWriter.Write(p)
}

// A dripper sends few bytes at a time.
type dripper struct{ http.ResponseWriter }

func (d *dripper) Write(p []byte) (int, error) {
	for i := 0; i < len(p); i += 997 {
		d.ResponseWriter.Write(p[i:min(i+997, len(p))])
		if err := http.NewResponseController(d.ResponseWriter).Flush(); err != nil {
			return i, err
		}
	}
	return len(p), nil
}

// After each of 200 random faults, and whatever the user does between, the file is what it is on the hub. Until then it is not
// a model.
func TestFaults(t *testing.T) {
	names := []string{"leave", "cancel"}
	for name := range faults {
		names = append(names, name)
	}
	slices.Sort(names)
	var attempts, failed, struck int
	for round := range 200 {
		r := rand.New(rand.NewPCG(uint64(round), 1))
		name := names[round%len(names)]
		data := noise(1+r.IntN(150_000), uint64(round))
		f := newFakeHub(t, map[string][]byte{"m-Q4_0.gguf": data})
		// The fault strikes some requests of the first attempts, and then no more.
		left, every := 1+r.IntN(12), 1+r.IntN(3)
		if make := faults[name]; make != nil {
			fault := make(r, f)
			seen := 0
			f.fault = func(w http.ResponseWriter, req *http.Request, data []byte) bool {
				f.mu.Lock()
				seen++
				strike := left > 0 && seen%every == 0
				if strike {
					left--
					struck++
				}
				f.mu.Unlock()
				return strike && fault(w, req, data)
			}
		}
		dir := t.TempDir()
		for attempt := 0; ; attempt++ {
			require.Less(t, attempt, 30, "%d: %s", round, name)
			attempts++
			h := f.client(t, dir, WithConnections(1+r.IntN(4)))
			h.chunk = int64(1000 + r.IntN(40_000))
			ctx, cancel := context.WithCancel(t.Context())
			var err error
			steps := 1 + r.IntN(3)
			for _, e := range h.Pull(ctx, testRepo) {
				if err = e; attempt < 3 && name == "leave" {
					if steps--; steps == 0 {
						err = context.Canceled
						break
					}
				}
				if attempt < 3 && name == "cancel" {
					cancel()
				}
			}
			cancel()
			list, listErr := h.List(t.Context())
			require.NoError(t, listErr)
			if err == nil {
				require.Len(t, list, 1, "%d: %s", round, name)
				got, err := os.ReadFile(list[0].Files[0])
				require.NoError(t, err)
				require.True(t, bytes.Equal(data, got), "%d: %s", round, name)
				break
			}
			failed++
			for _, m := range list { // leaving at the last step is not a failure
				require.NoError(t, h.Verify(t.Context(), m.Name, nil), "%d: %s: %v", round, name, err)
			}
			if r.IntN(2) == 0 {
				crash(t, dir, sum(data))
			}
		}
		f.hub.Close()
		f.cdn.Close()
	}
	t.Logf("200 rounds, %d kinds of faults, %d answers with one: %d attempts, of which %d ended with an error", len(names), struck, attempts, failed)
	assert.Greater(t, struck, 200)
	assert.Greater(t, failed, 50)
}

// crash loses what was written and not yet recorded.
func crash(t *testing.T, dir, sum string) {
	blob := filepath.Join(dir, "models--owner--model-GGUF", "blobs", sum)
	part, err := os.ReadFile(blob + ".part")
	if err != nil {
		return
	}
	var s state
	if data, err := os.ReadFile(blob + ".state"); err == nil {
		require.NoError(t, json.Unmarshal(data, &s))
	}
	lost := make([]byte, len(part))
	for i, n := range s.Done {
		from := int64(i) * s.Chunk
		copy(lost[from:from+n], part[from:])
	}
	require.NoError(t, os.WriteFile(blob+".part", lost, 0o600))
}

// The chunks that are there are not requested again.
func TestResume(t *testing.T) {
	data := noise(160_000, 1)
	f := newFakeHub(t, map[string][]byte{"m-Q4_0.gguf": data})
	served := 0
	f.fault = func(_ http.ResponseWriter, r *http.Request, _ []byte) bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		if served++; served > 5 {
			panic(http.ErrAbortHandler)
		}
		return false
	}
	dir := t.TempDir()
	h := f.client(t, dir, WithConnections(1))
	_, err := pull(t.Context(), h, testRepo)
	require.Error(t, err)
	f.mu.Lock()
	f.fault, f.requests = nil, nil
	f.mu.Unlock()
	_, err = pull(t.Context(), f.client(t, dir), testRepo)
	require.NoError(t, err)
	total := 0
	for _, r := range f.requests {
		var from, to int
		if _, err := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-%d", &from, &to); err == nil && r.Host != strings.TrimPrefix(f.hub.URL, "http://") {
			total += to + 1 - from
			assert.NotEmpty(t, r.Header.Get("If-Range"))
		}
	}
	assert.Equal(t, len(data)-5*16<<10, total)
}

// The rest of a download can be deleted, but not while it is at work, and not by the name of another quantisation.
func TestDeleteUnfinished(t *testing.T) {
	f := newFakeHub(t, map[string][]byte{"m-Q4_0-00001-of-00002.gguf": noise(100, 3), "m-Q4_0-00002-of-00002.gguf": noise(160_000, 1), "m-Q8_0.gguf": noise(100, 2)})
	h := f.client(t, t.TempDir(), WithConnections(1))
	_, err := pull(t.Context(), h, testRepo+":Q8_0")
	require.NoError(t, err)
	during := make(chan error, 2*maxTries)
	f.fault = func(_ http.ResponseWriter, r *http.Request, _ []byte) bool {
		if !strings.HasPrefix(r.Header.Get("Range"), "bytes=0-") {
			during <- h.Delete(t.Context(), testRepo+":Q4_0")
			panic(http.ErrAbortHandler)
		}
		return false
	}
	_, err = pull(t.Context(), h, testRepo+":Q4_0")
	require.Error(t, err)
	assert.ErrorIs(t, <-during, ErrBusy)
	left := func() int {
		all, _ := filepath.Glob(filepath.Join(h.Dir(), "*", "blobs", "*"))
		return len(slices.DeleteFunc(all, func(name string) bool { return strings.HasSuffix(name, ".lock") }))
	}
	require.Equal(t, 4, left(), "two files, a part and its state")
	assert.ErrorIs(t, h.Delete(t.Context(), testRepo+":Q5_0"), ErrNotFound)
	assert.Equal(t, 4, left())
	require.NoError(t, h.Delete(t.Context(), testRepo+":Q4_0"))
	assert.Equal(t, 1, left())
	assert.ErrorIs(t, h.Delete(t.Context(), testRepo+":Q4_0"), ErrNotFound)
	require.NoError(t, h.Verify(t.Context(), testRepo+":Q8_0", nil))
}

// A disk that has room for the first file of a model only is told before anything is downloaded.
func TestSpaceOfSplit(t *testing.T) {
	f := newFakeHub(t, map[string][]byte{"m-Q4_0-00001-of-00002.gguf": noise(60_000, 1), "m-Q4_0-00002-of-00002.gguf": noise(60_000, 2)})
	h := f.client(t, t.TempDir())
	h.free = func(string) (int64, error) { return 100_000, nil }
	last, err := pull(t.Context(), h, testRepo)
	assert.ErrorIs(t, err, ErrSpace)
	assert.Zero(t, last)
}

// A server that sends nothing is asked again, and then it is an error.
func TestStall(t *testing.T) {
	f := newFakeHub(t, map[string][]byte{"m-Q4_0.gguf": noise(1000, 1)})
	f.fault = func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		return true
	}
	h := f.client(t, t.TempDir())
	h.idle = time.Second / 20
	h2 := f.client(t, h.dir)
	h.client = h2.client
	c, err := h2.Resolve(t.Context(), testRepo)
	require.NoError(t, err)
	root, err := os.OpenRoot(h.dir)
	require.NoError(t, err)
	defer root.Close()
	d := &download{h: h, root: root, repo: c.Repo, file: c.Files[0], report: func(Progress) {}}
	err = d.run(t.Context())
	_, ok := errors.AsType[*aycoder.TimeoutError](err)
	assert.True(t, ok, "%v", err)
}

// Two processes do not download the same file at a time.
func TestBusy(t *testing.T) {
	f := newFakeHub(t, map[string][]byte{"m-Q4_0.gguf": noise(100_000, 1)})
	dir := t.TempDir()
	var once sync.Once
	other := f.client(t, dir)
	var second error
	f.fault = func(http.ResponseWriter, *http.Request, []byte) bool {
		once.Do(func() { _, second = pull(t.Context(), other, testRepo) })
		return false
	}
	_, err := pull(t.Context(), f.client(t, dir), testRepo)
	require.NoError(t, err)
	assert.ErrorIs(t, second, ErrBusy)
}

// The metadata of a model is read from the hub, by the first parts of its files.
func TestModelOfHub(t *testing.T) {
	g := build(small()[0], true)
	head, size := g.header()
	data := append(head, make([]byte, size)...)
	f := newFakeHub(t, map[string][]byte{"m-Q4_K_M.gguf": data})
	h := f.client(t, t.TempDir())
	c, err := h.Resolve(t.Context(), testRepo)
	require.NoError(t, err)
	m, err := h.Model(t.Context(), c)
	require.NoError(t, err)
	assert.Equal(t, g.model(t).Size, m.Size)
	var asked int64
	for _, r := range f.requests {
		var from, to int64
		if _, err := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-%d", &from, &to); err == nil && r.Host != strings.TrimPrefix(f.hub.URL, "http://") {
			asked += to + 1 - from
		}
	}
	assert.LessOrEqual(t, asked, int64(1<<20))

	n := 0
	f.fault = func(w http.ResponseWriter, _ *http.Request, _ []byte) bool {
		n++
		w.Header().Set("Etag", strconv.Itoa(n))
		return false
	}
	r := &remoteFile{ctx: t.Context(), h: h, url: h.fileURL(c.Repo, c.Files[0]), size: int64(len(data)), step: 1000}
	_, err = Read("changed", r)
	assert.ErrorIs(t, err, ErrChanged)
}

// The environment says where the hub is, what the token is, and where the models are.
func TestHubEnvironment(t *testing.T) {
	home := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(home, "token"), []byte("hf_file\n"), 0o600))
	t.Setenv("HF_HOME", home)
	t.Setenv("HF_ENDPOINT", "https://mirror.test/")
	t.Setenv("HF_TOKEN", "")
	t.Setenv("HF_HUB_CACHE", "")
	h, err := NewHub()
	require.NoError(t, err)
	assert.Equal(t, filepath.Join(home, "hub"), h.Dir())
	assert.Equal(t, "hf_file", h.token)
	assert.Equal(t, "https://mirror.test", h.endpoint.String())
	t.Setenv("HF_TOKEN", "hf_env")
	t.Setenv("HF_HUB_CACHE", "/elsewhere")
	h, err = NewHub()
	require.NoError(t, err)
	assert.Equal(t, "/elsewhere", h.Dir())
	assert.Equal(t, "hf_env", h.token)

	req := &http.Request{Method: "GET", URL: must2(url.Parse("http://mirror.test/x")), Header: http.Header{"Authorization": {"Bearer x"}}}
	via := &http.Request{URL: must2(url.Parse("https://mirror.test/x"))}
	assert.Error(t, checkRedirect(req, []*http.Request{via}))
	assert.Empty(t, req.Header)
}

func must2(u *url.URL, _ error) *url.URL { return u }

// The address that a redirect leads to may be signed: no error has it.
func TestModelHidesAddress(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://127.0.0.1:1/x?signature=s3cret", http.StatusFound)
	}))
	defer s.Close()
	h, err := NewHub(WithEndpoint(s.URL), WithDir(t.TempDir()))
	require.NoError(t, err)
	_, err = h.Model(t.Context(), Choice{Repo: Repo{ID: "a/b", Revision: "abcdef0", Files: []File{{Path: "m.gguf", Size: 1000}}}})
	require.Error(t, err)
	require.NotContains(t, err.Error(), "s3cret")
}

// An answer of the hub that is made to be large takes little memory.
func TestLargeAnswers(t *testing.T) {
	body := ""
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) }))
	defer s.Close()
	h, err := NewHub(WithEndpoint(s.URL), WithDir(t.TempDir()))
	require.NoError(t, err)
	for _, size := range []int{3 << 20, 31 << 20} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		body = "[" + strings.Repeat("{},", size/3) + "{}]"
		_, searched := h.Search(t.Context(), "words", 1)
		body = `{"siblings":` + body + "}"
		_, listed := h.Files(t.Context(), "a/b")
		runtime.ReadMemStats(&after)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(512<<20), "%d bytes", size)
		for _, err := range []error{searched, listed} {
			if _, ok := errors.AsType[*HubError](err); size > 4<<20 || err != nil {
				require.True(t, ok, err)
			}
		}
	}
}
