package session_test

import (
	"bytes"
	"compress/flate"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/session"
	"github.com/aycoder/aycoder/snapshot"
	"github.com/aycoder/aycoder/workspace"
)

// A session of many nodes over many files takes little more room than its messages and the distinct
// contents of the files. AYCODER_NODES sets the number of nodes. The times are only logged.
func TestSizeOfSession(t *testing.T) {
	timed.Serial(t)
	nodes, files := 300, 200
	if n, err := strconv.Atoi(os.Getenv("AYCODER_NODES")); err == nil {
		nodes = n
	}
	r := rand.New(rand.NewPCG(1, 2))
	code := source(t)
	dir, stored := t.TempDir(), t.TempDir()
	unique := map[journal.Hash]int{} // compressed sizes
	write := func(n int) {
		size := 2000 + r.IntN(18000)
		at := r.IntN(len(code) - size)
		text := code[at : at+size]
		require.NoError(t, os.WriteFile(filepath.Join(dir, fmt.Sprint(n)), text, 0o644))
		var short bytes.Buffer
		w, err := flate.NewWriter(&short, 1)
		require.NoError(t, err)
		_, err = w.Write(text)
		require.NoError(t, err)
		require.NoError(t, w.Close())
		unique[journal.HashOf(text)] = short.Len()
	}
	for n := range files {
		write(n)
	}
	ws, err := workspace.Open(dir)
	require.NoError(t, err)
	defer ws.Close()
	store, err := journal.Dir(stored)
	require.NoError(t, err)
	s, err := session.New(t.Context(), store, parrot{new(int)}, session.WithFiles(snapshot.New(ws)), session.WithSync(session.SyncTurns))
	require.NoError(t, err)
	for n := range files {
		require.NoError(t, s.Pin(t.Context(), fmt.Sprint(n)))
	}
	var runs, floors []time.Duration
	for i := 0; s.View().Len() < nodes; i++ {
		if r.IntN(20) == 0 {
			_, err := s.Checkout(t.Context(), session.ID(r.IntN(s.View().Len())), session.OnlyConversation())
			require.NoError(t, err)
		}
		for range 1 + r.IntN(2) {
			write(r.IntN(files))
		}
		at := r.IntN(len(code) - 500)
		begin := time.Now()
		for _, err := range s.Run(t.Context(), aycoder.Input{Prompt: string(bytes.ToValidUTF8(code[at:at+500], nil))}) {
			require.NoError(t, err)
		}
		runs = append(runs, time.Since(begin))
	}
	messages := 0
	v := s.View()
	for id := range session.ID(v.Len()) {
		if m := v.Node(id).Message(); m != nil {
			data, err := json.Marshal(m)
			require.NoError(t, err)
			messages += len(data)
		}
	}
	least := messages
	for _, n := range unique {
		least += n
	}
	require.NoError(t, s.Close())
	sum := 0
	require.NoError(t, filepath.WalkDir(filepath.Join(stored, s.ID()), func(_ string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			info, err := e.Info()
			require.NoError(t, err)
			sum += int(info.Size())
		}
		return err
	}))
	slices.Sort(runs)
	t.Logf("%d nodes, %d files: %d bytes, %.2f times the %d of messages and distinct contents; median run %v", v.Len(), files, sum,
		float64(sum)/float64(least), least, runs[len(runs)/2])
	require.LessOrEqual(t, float64(sum), 1.5*float64(least))

	begin := time.Now()
	data, err := os.ReadFile(filepath.Join(stored, s.ID(), "journal.jsonl"))
	require.NoError(t, err)
	for line := range bytes.Lines(data) {
		var decoded []any
		require.NoError(t, json.Unmarshal(line, &decoded))
	}
	floors = append(floors, time.Since(begin))
	begin = time.Now()
	o, err := session.Open(context.Background(), store, s.ID(), parrot{new(int)})
	require.NoError(t, err)
	open := time.Since(begin)
	t.Logf("opening took %v, %.2f times reading and decoding the lines", open, float64(open)/float64(floors[0]))
	require.Equal(t, v.Len(), o.View().Len())
	require.NoError(t, o.Close())
}

// source returns about a megabyte of Go code.
func source(t *testing.T) []byte {
	var out []byte
	for _, dir := range []string{".", "..", "../tools", "../workspace"} {
		names, err := filepath.Glob(filepath.Join(dir, "*.go"))
		require.NoError(t, err)
		for _, name := range names {
			data, err := os.ReadFile(name)
			require.NoError(t, err)
			out = append(out, data...)
		}
	}
	return out
}
