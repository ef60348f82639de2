package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/internal/cli"
)

// tinyGGUF is a model with one layer and hardly any weights.
func tinyGGUF() []byte {
	var b bytes.Buffer
	put := func(values ...any) {
		for _, v := range values {
			if s, ok := v.(string); ok {
				_ = binary.Write(&b, binary.LittleEndian, uint64(len(s)))
				b.WriteString(s)
				continue
			}
			_ = binary.Write(&b, binary.LittleEndian, v)
		}
	}
	b.WriteString("GGUF")
	put(uint32(3), uint64(2), uint64(5))
	put("general.architecture", uint32(8), "llama", "llama.block_count", uint32(4), uint32(1), "llama.embedding_length", uint32(4), uint32(64))
	put("llama.attention.head_count", uint32(4), uint32(2), "llama.context_length", uint32(4), uint32(8192))
	put("token_embd.weight", uint32(2), uint64(64), uint64(100), uint32(0), uint64(0))
	put("blk.0.attn_k.weight", uint32(2), uint64(64), uint64(64), uint32(1), uint64(25600))
	return append(b.Bytes(), make([]byte, 25600+8192+64)...)
}

// localHub answers like the hub, with one model.
func localHub(t *testing.T) {
	data := tinyGGUF()
	sum := sha256.Sum256(data)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/api/models":
			_, _ = io.WriteString(w, `[{"id":"owner/tiny-GGUF","downloads":12}]`)
		case r.URL.Path == "/api/models/owner/tiny-GGUF":
			_ = json.NewEncoder(w).Encode(map[string]any{"id": "owner/tiny-GGUF", "sha": strings.Repeat("a", 40), "tags": []string{"license:mit\x1b[31m"},
				"siblings": []any{map[string]any{"rfilename": "tiny-Q4_0.gguf", "size": len(data), "lfs": map[string]any{"sha256": hex.EncodeToString(sum[:]), "size": len(data)}}}})
		case strings.HasSuffix(r.URL.Path, "/tiny-Q4_0.gguf"):
			w.Header().Set("Etag", `"x"`)
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(s.Close)
	t.Setenv("HF_ENDPOINT", s.URL)
	t.Setenv("HF_HOME", t.TempDir())
	t.Setenv("HF_HUB_CACHE", "")
	t.Setenv("HF_TOKEN", "")
}

// "aycoder models" finds, downloads, weighs and deletes models.
func TestModels(t *testing.T) {
	localHub(t)
	run := func(args ...string) (string, error) {
		var out bytes.Buffer
		err := models(t.Context(), cli.Program{Out: &out, Err: io.Discard}, args)
		return out.String(), err
	}
	const name = "owner/tiny-GGUF:Q4_0"
	says := func(want string, args ...string) {
		t.Helper()
		out, err := run(args...)
		require.NoError(t, err)
		require.Contains(t, out, want)
		require.NotContains(t, out, "\x1b")
	}
	says("12 downloads  owner/tiny-GGUF", "search", "tiny")
	says(name, "files", "owner/tiny-GGUF")
	says("llama-server -ngl 2 -c 4096", "advise", name, "-c", "4096", "-gpu", "4", "-ram", "8")
	says("Qwen2.5-Coder-7B", "recommend", "-use", "code", "-gpu", "6")
	says("", "pull", name)
	says(name, "local")
	says("is what the hub has", "verify", name)
	says("all of it on the host", "advise", name, "-c", "4096", "-gpu", "0", "-ram", "8")
	says("", "delete", name)
	_, err := run("delete", name)
	require.ErrorContains(t, err, "not found")
	_, err = run("advise", name, "-gpu", "0", "-ram", "0.001")
	require.ErrorContains(t, err, "does not fit")
	for _, wrong := range [][]string{{"pull"}, {"local", "x"}, {"advise", name, "-gpu", "many"}} {
		_, err := run(wrong...)
		require.ErrorIs(t, err, cli.ErrUsage, wrong)
	}
	file := filepath.Join(t.TempDir(), "tiny.gguf")
	require.NoError(t, os.WriteFile(file, tinyGGUF(), 0o600))
	says("llama-server", "advise", file, "-gpu", "1", "-ram", "8")
	says("usage: aycoder models advise", "advise", "-h")
}

// "aycoder gpu" shows the memory of this machine at least.
func TestGPU(t *testing.T) {
	var out bytes.Buffer
	p := cli.Program{Out: &out, Err: io.Discard}
	require.NoError(t, gpu(t.Context(), p, nil))
	require.Contains(t, out.String(), "host: ")
	out.Reset()
	require.NoError(t, gpu(t.Context(), p, []string{"-json"}))
	var h struct{ Total int64 }
	require.NoError(t, json.Unmarshal(out.Bytes(), &h))
	require.ErrorIs(t, gpu(t.Context(), p, []string{"x"}), cli.ErrUsage)
	ctx, cancel := context.WithCancel(t.Context())
	require.NoError(t, gpu(ctx, cli.Program{Out: writerFunc(func(b []byte) (int, error) { cancel(); return len(b), nil })}, []string{"-watch"}))
	broken := errors.New("nobody reads")
	require.ErrorIs(t, gpu(t.Context(), cli.Program{Out: writerFunc(func([]byte) (int, error) { return 0, broken })}, []string{"-watch"}), broken)
	require.NotEmpty(t, fmt.Sprint(h))
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

// A wrong amount of memory, or use, is told and not taken for another one.
func TestModelsWrongFlags(t *testing.T) {
	for _, flag := range []string{"-gpu=NaN", "-gpu=-5", "-gpu=1e300", "-ram=Inf", "-ram=-2", "-use=games"} {
		err := models(t.Context(), cli.Program{Out: io.Discard, Err: io.Discard}, []string{"recommend", flag})
		require.ErrorIs(t, err, cli.ErrUsage, flag)
	}
}
