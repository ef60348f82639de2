package retrieval_test

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/retrieval"
)

const smallDim = 16

func small(tb testing.TB, n int) (*retrieval.Index, []retrieval.Vector) {
	tb.Helper()
	var texts []string
	for i := range n {
		texts = append(texts, fmt.Sprintf("alpha%d beta%d", i, i%7))
	}
	vectors := vectorsOf(texts, 0, smallDim)
	for i := range vectors {
		vectors[i].Path, vectors[i].Language, vectors[i].Kind = fmt.Sprintf("d/ü%d.go", i), "go", "func"
	}
	ix := newIndex(tb, smallDim)
	require.NoError(tb, ix.Add(tb.Context(), vectors...))
	return ix, vectors
}

func load(path string) (*retrieval.Index, error) {
	return retrieval.Load(path, "hashed", smallDim)
}

func TestSaveAndLoad(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "index")
	empty, err := load(path)
	require.NoError(t, err)
	require.Zero(t, empty.Stats().Items)

	ix, vectors := small(t, 200)
	require.NoError(t, ix.Delete(t.Context(), vectors[3].ID, vectors[4].ID))
	require.NoError(t, ix.Save(path))
	info, err := os.Stat(path)
	require.NoError(t, err)
	if os.PathSeparator == '/' {
		require.Equal(t, os.FileMode(0o600), info.Mode())
	}
	again, err := load(path)
	require.NoError(t, err)
	require.Equal(t, ix.Stats(), again.Stats())
	for _, v := range vectors {
		want, err := ix.Search(v.Values, 5, nil)
		require.NoError(t, err)
		got, err := again.Search(v.Values, 5, nil)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	require.True(t, again.Has(vectors[5].ID))
	require.False(t, again.Has(vectors[3].ID))
	require.NoError(t, again.Add(t.Context(), vectors[3]))
	found, err := again.Search(vectors[3].Values, 1, nil)
	require.NoError(t, err)
	require.InDelta(t, 1, found[0].Score, 1e-5)

	for model, dim := range map[string]int{"other": smallDim, "hashed": smallDim + 1} {
		fresh, err := retrieval.Load(path, model, dim)
		mismatch, ok := errors.AsType[*retrieval.MismatchError](err)
		require.True(t, ok, "%v", err)
		require.Equal(t, "hashed", mismatch.GotModel)
		require.Zero(t, fresh.Stats().Items)
	}
	files, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, files, 1)
	require.Error(t, ix.Save(filepath.Join(path, "below a file")))
}

// A file that is cut anywhere, has a wrong bit or is not an index gives an error and an empty index.
func TestDamagedFiles(t *testing.T) {
	t.Parallel()
	timed.Serial(t)
	path := filepath.Join(t.TempDir(), "index")
	ix, _ := small(t, 40)
	require.NoError(t, ix.Save(path))
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	rnd := rand.New(rand.NewPCG(1, 2))
	check := func(data []byte, what string) {
		require.NoError(t, os.WriteFile(path, data, 0o600))
		got, err := load(path)
		_, damaged := errors.AsType[*retrieval.DamageError](err)
		_, mismatch := errors.AsType[*retrieval.MismatchError](err)
		require.True(t, damaged || mismatch, "%s: %v", what, err)
		require.Zero(t, got.Stats().Items)
		require.NoError(t, got.Add(t.Context(), retrieval.Vector{Values: hashed("a", smallDim)}))
	}
	for range 500 {
		check(whole[:rnd.IntN(len(whole))], "cut")
		i := rnd.IntN(len(whole))
		data := bytes.Clone(whole)
		data[i] ^= 1 << rnd.IntN(8)
		check(data, fmt.Sprint("bit of byte ", i))
	}
	check(nil, "empty")
	check(append(bytes.Clone(whole), 0), "longer")
	check([]byte(strings.Repeat("package main\n", 1000)), "foreign")
	require.NoError(t, os.Remove(path))
	require.NoError(t, os.Mkdir(path, 0o700))
	_, err = load(path)
	require.Error(t, err)
}

// An index that is saved while others change it can be loaded.
func TestSaveMeanwhile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "index")
	ix, vectors := small(t, 100)
	var work sync.WaitGroup
	work.Go(func() {
		for i := range 400 {
			v := vectors[i%len(vectors)]
			v.Values = vectors[(i*7)%len(vectors)].Values
			require.NoError(t, ix.Add(t.Context(), v))
		}
	})
	for range 20 {
		require.NoError(t, ix.Save(path))
		got, err := load(path)
		require.NoError(t, err)
		require.InDelta(t, len(vectors), got.Stats().Items, 1) // one may be between its old and its new vector
	}
	work.Wait()
}

const savingEnv = "AYCODER_RETRIEVAL_SAVING"

// TestSavingProcess is the process that TestKilledSave kills. It says which saves are complete.
func TestSavingProcess(t *testing.T) {
	path := os.Getenv(savingEnv)
	if path == "" {
		return
	}
	ix, err := load(path)
	if err != nil {
		fmt.Println("FAILED:", err)
		os.Exit(3)
	}
	for i := ix.Stats().Items; ; i++ {
		if err := ix.Add(t.Context(), retrieval.Vector{Item: retrieval.Item{ID: strconv.Itoa(i)}, Values: hashed(strings.Repeat("x", i+1), smallDim)}); err != nil {
			os.Exit(3)
		}
		if err := ix.Save(path); err != nil {
			os.Exit(3)
		}
		fmt.Println(i + 1)
	}
}

// A process that is killed while it saves loses nothing that it saved before.
func TestKilledSave(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	t.Parallel()
	path := filepath.Join(t.TempDir(), "index")
	rnd := rand.New(rand.NewPCG(3, 4))
	saved, kills := 0, 25
	if timed.Reduced(t) {
		kills = 3
	}
	for range kills {
		cmd := exec.Command(os.Args[0], "-test.run=^TestSavingProcess$")
		cmd.Env = append(os.Environ(), savingEnv+"="+path)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		lines := bufio.NewScanner(out)
		for n := rnd.IntN(20); n >= 0 && lines.Scan(); n-- {
			saved, err = strconv.Atoi(lines.Text())
			require.NoError(t, err, lines.Text())
		}
		spin := 0
		for range rnd.IntN(2_000_000) { // any moment
			spin++
		}
		require.NoError(t, cmd.Process.Kill())
		rest, _ := io.ReadAll(out)
		_ = cmd.Wait()
		for line := range strings.FieldsSeq(string(rest)) {
			if n, err := strconv.Atoi(line); err == nil {
				saved = max(saved, n)
			}
		}
		got, err := load(path)
		require.NoError(t, err)
		require.GreaterOrEqual(t, got.Stats().Items, saved)
		saved = got.Stats().Items
	}
	t.Logf("%d saves", saved)
}

func FuzzLoad(f *testing.F) {
	dir := f.TempDir()
	ix, _ := small(f, 3)
	require.NoError(f, ix.Save(filepath.Join(dir, "seed")))
	whole, err := os.ReadFile(filepath.Join(dir, "seed"))
	require.NoError(f, err)
	f.Add(whole[:len(whole)-sha256.Size])
	f.Add([]byte("aycoder vectors 3\n\x09\x00\x00\x00\x00\x00\x00\x00\x00\x0chashed\x20\xff\xff\x01"))
	f.Fuzz(func(t *testing.T, body []byte) {
		path := filepath.Join(t.TempDir(), "index")
		sum := sha256.Sum256(body) // else nothing but the checksum is tested
		require.NoError(t, os.WriteFile(path, append(body, sum[:]...), 0o600))
		got, err := load(path)
		require.NotNil(t, got)
		if err != nil {
			require.Zero(t, got.Stats().Items)
			return
		}
		_, err = got.Search(hashed("alpha1", smallDim), 3, nil)
		require.NoError(t, err)
		require.NoError(t, got.Add(t.Context(), retrieval.Vector{Values: hashed("a", smallDim)}))
	})
}
