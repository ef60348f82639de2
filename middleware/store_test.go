package middleware_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/middleware"
)

func key(n int) string { return fmt.Sprintf("%064x", n) }

func load(t *testing.T, s middleware.CacheStore, n int) string {
	t.Helper()
	data, ok, err := s.Load(t.Context(), key(n))
	require.NoError(t, err)
	require.Equal(t, ok, data != nil)
	return string(data)
}

func save(t *testing.T, s middleware.CacheStore, n int, data string) {
	t.Helper()
	require.NoError(t, s.Store(t.Context(), key(n), []byte(data)))
}

func openDir(t *testing.T, dir string, size int64) *middleware.DirStore {
	t.Helper()
	s, err := middleware.OpenDirStore(dir, size)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func TestStores(t *testing.T) {
	stores := map[string]func(size int64) middleware.CacheStore{
		"memory":    func(size int64) middleware.CacheStore { return middleware.NewMemoryStore(size) },
		"directory": func(size int64) middleware.CacheStore { return openDir(t, t.TempDir(), size) },
	}
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			s := open(1 << 20)
			require.Empty(t, load(t, s, 1))
			save(t, s, 1, "one")
			save(t, s, 2, "two")
			save(t, s, 1, "uno")
			require.Equal(t, "uno", load(t, s, 1))
			require.Equal(t, "two", load(t, s, 2))
			save(t, s, 3, strings.Repeat("x", 2<<20))
			require.Empty(t, load(t, s, 3), "it is larger than the store")
			require.Equal(t, "two", load(t, s, 2), "and takes nobody's place")

			none := open(0)
			save(t, none, 1, "x")
			require.Empty(t, load(t, none, 1))
		})
		t.Run(name+" concurrently", func(t *testing.T) {
			s := open(64 << 10)
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() {
					for i := range 60 {
						want := strings.Repeat("x", i%20*500+1)
						save(t, s, i%20, want)
						if got := load(t, s, i%20); got != "" && got != want {
							t.Errorf("%d bytes, want %d", len(got), len(want))
						}
					}
				})
			}
			wg.Wait()
		})
	}
}

func TestMemoryStoreForgetsTheUnused(t *testing.T) {
	s := middleware.NewMemoryStore(10_000) // room for some 7 of 1,000 bytes
	for n := range 100 {
		save(t, s, n, strings.Repeat("x", 1000))
		require.NotEmpty(t, load(t, s, 0), "it is in use")
	}
	require.Empty(t, load(t, s, 50))
	require.NotEmpty(t, load(t, s, 99))
	kept := 0
	for n := range 100 {
		if load(t, s, n) != "" {
			kept++
		}
	}
	require.Equal(t, 7, kept)
}

func TestDirStoreForgetsTheUnused(t *testing.T) {
	dir := t.TempDir()
	s := openDir(t, dir, 40<<10) // ten files of up to 4 KiB
	for n := range 10 {
		save(t, s, n, "x")
		old := time.Now().Add(time.Duration(n-100) * time.Minute)
		require.NoError(t, os.Chtimes(filepath.Join(dir, key(n)), old, old))
	}
	require.NotEmpty(t, load(t, s, 0), "now it is in use")
	save(t, s, 10, "x")
	require.NotEmpty(t, load(t, s, 0))
	require.Empty(t, load(t, s, 1))
	require.Empty(t, load(t, s, 2), "a tenth is free")
	require.NotEmpty(t, load(t, s, 3))
	for n := range 200 {
		save(t, s, n, "x")
	}
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.LessOrEqual(t, len(files), 10)

	small := openDir(t, dir, 12<<10)
	files, err = os.ReadDir(dir)
	require.NoError(t, err)
	require.LessOrEqual(t, len(files), 3, "the bound holds from the start")
	save(t, small, 1, "x")
}

// Each of several processes looks from time to time what the others wrote.
func TestDirStoreIsShared(t *testing.T) {
	dir := t.TempDir()
	const size = 160 << 10 // forty files
	stores := []*middleware.DirStore{openDir(t, dir, size), openDir(t, dir, size), openDir(t, dir, size)}
	most := 0
	for n := range 300 {
		save(t, stores[n%3], n, "x")
		files, err := os.ReadDir(dir)
		require.NoError(t, err)
		most = max(most, len(files))
	}
	require.Greater(t, most, 35)
	require.LessOrEqual(t, most, 40+3*(40/8+1))
}

func TestDirStoreInADirectoryWithOtherThings(t *testing.T) {
	dir := t.TempDir()
	touch := func(name string, age time.Duration) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte("keep"), 0o600))
		at := time.Now().Add(-age)
		require.NoError(t, os.Chtimes(path, at, at))
		return path
	}
	mine := touch("README", 1000*time.Hour)
	young, old := touch(".tmp-young", time.Minute), touch(".tmp-old", 2*time.Hour)
	outside := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(outside, []byte("secret"), 0o600))
	if runtime.GOOS != "windows" {
		require.NoError(t, os.Symlink(outside, filepath.Join(dir, key(7))))
	}
	require.NoError(t, os.Mkdir(filepath.Join(dir, key(8)), 0o700))

	s := openDir(t, dir, 8<<10)
	require.FileExists(t, mine)
	require.FileExists(t, young)
	require.NoFileExists(t, old)
	for n := range 5 {
		save(t, s, n, "x")
	}
	require.FileExists(t, mine)
	require.NoError(t, os.WriteFile(filepath.Join(dir, key(9)), make([]byte, 9<<10), 0o600))
	for _, n := range []int{7, 8, 9} {
		if n == 7 && runtime.GOOS == "windows" {
			continue
		}
		_, ok, err := s.Load(t.Context(), key(n))
		require.False(t, ok)
		require.ErrorContains(t, err, "not a file of this store")
	}
	require.Error(t, s.Store(t.Context(), key(8), []byte("x")), "a directory is not replaced")
	names, err := filepath.Glob(filepath.Join(dir, ".tmp-*"))
	require.NoError(t, err)
	require.Equal(t, []string{young}, names, "nothing is left of what failed")
}

func TestDirStoreRefuses(t *testing.T) {
	s := openDir(t, filepath.Join(t.TempDir(), "a", "b"), 1<<20)
	for _, k := range []string{"", "x", "../" + key(1)[3:], strings.ToUpper(fmt.Sprintf("%064x", 0xabc)), key(1) + "0"} {
		_, _, err := s.Load(t.Context(), k)
		require.ErrorContains(t, err, "64 hexadecimal digits", k)
		require.ErrorContains(t, s.Store(t.Context(), k, nil), "64 hexadecimal digits", k)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err := s.Load(ctx, key(1))
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, s.Store(ctx, key(1), nil), context.Canceled)

	file := filepath.Join(t.TempDir(), "f")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err = middleware.OpenDirStore(file, 1<<20)
	require.ErrorContains(t, err, "open cache")
}

func TestDirStoreFilesArePrivate(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no such permissions")
	}
	dir := filepath.Join(t.TempDir(), "cache")
	s := openDir(t, dir, 1<<20)
	save(t, s, 1, "x")
	for _, path := range []string{dir, filepath.Join(dir, key(1))} {
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.Zero(t, info.Mode().Perm()&0o077)
	}
}
