package main

import (
	"archive/zip"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	modulePath    = "github.com/aycoder/aycoder"
	moduleVersion = "v0.9.9"
)

// The program is installed by its version from a proxy, as a user does it: nothing in the module is replaced, and an
// empty module cache is filled from the proxy alone. With AYCODER_INSTALL it is built as well, which takes a minute;
// without, the go command stops before it compiles.
func TestInstallByVersion(t *testing.T) {
	goTool, err := exec.LookPath("go")
	if err != nil {
		t.Skip("there is no go command")
	}
	out, err := exec.CommandContext(t.Context(), goTool, "env", "GOMODCACHE", "GOCACHE").Output()
	require.NoError(t, err)
	modules, builds, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	downloads := filepath.Join(modules, "cache", "download")
	if _, err := os.Stat(downloads); err != nil {
		t.Skip("the modules that the program needs are not in a cache here: ", err)
	}
	top := t.TempDir()
	proxy := filepath.Join(top, "proxy")
	publish(t, filepath.Join("..", ".."), proxy)
	url := func(dir string) string { return "file://" + filepath.ToSlash(dir) }
	install := func(flags ...string) {
		args := append(append([]string{"install"}, flags...), modulePath+"/examples/aycoder@"+moduleVersion)
		cmd := exec.CommandContext(t.Context(), goTool, args...)
		cmd.Dir = top // which is in no module
		cmd.Env = append(os.Environ(), "GOPROXY="+url(proxy)+","+url(downloads), "GOSUMDB=off", "GONOPROXY=", "GOPRIVATE=",
			"GOMODCACHE="+filepath.Join(top, "modules"), "GOBIN="+filepath.Join(top, "bin"), "GOCACHE="+builds,
			"GOFLAGS=-modcacherw", "GO111MODULE=", "GOWORK=off", "CGO_ENABLED=0", "GOTOOLCHAIN=local")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out[max(0, len(out)-4000):]))
	}
	if os.Getenv("AYCODER_INSTALL") == "" {
		install("-n")
		entries, err := os.ReadDir(filepath.Join(top, "modules", "github.com", "aycoder"))
		require.NoError(t, err)
		require.Len(t, entries, 1)
		t.Log("it was not built, as AYCODER_INSTALL is not set")
		return
	}
	install()
	out, err = exec.CommandContext(t.Context(), filepath.Join(top, "bin", "aycoder"), "-version").Output()
	require.NoError(t, err)
	require.Contains(t, string(out), "aycoder "+moduleVersion+",")
}

// publish writes the module in a directory, as a version of it, to a directory that a proxy of files serves.
func publish(t *testing.T, dir, proxy string) {
	t.Helper()
	to := filepath.Join(proxy, filepath.FromSlash(modulePath), "@v")
	require.NoError(t, os.MkdirAll(to, 0o755))
	mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	require.NoError(t, err)
	require.NotContains(t, string(mod), "replace", "a module with a replacement cannot be installed by its version")
	for name, data := range map[string]string{
		"list": moduleVersion + "\n", moduleVersion + ".mod": string(mod),
		moduleVersion + ".info": fmt.Sprintf(`{"Version":%q,"Time":"2026-01-02T03:04:05Z"}`, moduleVersion),
	} {
		require.NoError(t, os.WriteFile(filepath.Join(to, name), []byte(data), 0o644))
	}
	f, err := os.Create(filepath.Join(to, moduleVersion+".zip"))
	require.NoError(t, err)
	defer f.Close()
	z := zip.NewWriter(f)
	files := 0
	require.NoError(t, filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil || name == dir {
			return err
		}
		if e.IsDir() {
			_, other := os.Stat(filepath.Join(name, "go.mod"))
			if strings.HasPrefix(e.Name(), ".") || other == nil { // the modules in it are not a part of it
				return fs.SkipDir
			}
			return nil
		}
		if !e.Type().IsRegular() || strings.HasSuffix(name, "_test.go") || strings.Contains(filepath.ToSlash(name), "/testdata/") {
			return nil
		}
		rel, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		w, err := z.CreateHeader(&zip.FileHeader{Name: modulePath + "@" + moduleVersion + "/" + filepath.ToSlash(rel), Method: zip.Store})
		if err != nil {
			return err
		}
		src, err := os.Open(name)
		if err != nil {
			return err
		}
		defer src.Close()
		files++
		_, err = io.Copy(w, src)
		return err
	}))
	require.NoError(t, z.Close())
	require.Greater(t, files, 500)
}
