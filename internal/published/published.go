// Package published is for tests that install a program by its version, as a user does it, and for those that need the
// packages of others in certain versions.
package published

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

// usual is the version of the modules of which no other module says which version it needs.
const usual = "v0.9.9"

// A module is one that is published.
type module struct{ dir, path, version string }

// Install publishes the modules in some directories of the library, whose own directory is root, and installs a program
// by its version from that proxy: the package in the directory program, which is named by its path below root. The last
// module is the one with the program, whose go.mod says which versions the others have. Nothing in it may be replaced,
// and an empty module cache is filled from the proxy alone. With AYCODER_INSTALL the program is built as well, which
// takes a minute, and seconds if little has changed since; without, the go command stops before it compiles, and Install
// returns "". It returns the name of the built program.
func Install(t *testing.T, root, program string, dirs ...string) string {
	t.Helper()
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("there is no go command")
	}
	env := strings.Split(strings.TrimSpace(string(run(t, ".", nil, "env", "GOMODCACHE", "GOCACHE"))), "\n")
	downloads, builds := filepath.Join(env[0], "cache", "download"), env[1]
	if _, err := os.Stat(downloads); err != nil {
		t.Skip("the modules that the program needs are not in a cache here: ", err)
	}
	top := t.TempDir()
	proxy := filepath.Join(top, "proxy")
	modules := read(t, root, dirs)
	for _, m := range modules {
		if err := m.publish(proxy); err != nil {
			t.Fatalf("publish %s: %v", m.path, err)
		}
	}
	url := func(dir string) string { return "file://" + filepath.ToSlash(dir) }
	last := modules[len(modules)-1]
	args := []string{"install", path.Join(modules[0].path, program) + "@" + last.version}
	built := os.Getenv("AYCODER_INSTALL") != ""
	if !built {
		args = append([]string{"install", "-n"}, args[1:]...)
	}
	run(t, top, []string{ // top is in no module
		"GOPROXY=" + url(proxy) + "," + url(downloads), "GOSUMDB=off", "GONOPROXY=", "GOPRIVATE=",
		"GOMODCACHE=" + filepath.Join(top, "modules"), "GOBIN=" + filepath.Join(top, "bin"), "GOCACHE=" + builds,
		"GOFLAGS=-modcacherw -trimpath", // with which the go command uses what it has compiled in another directory
		"GO111MODULE=", "GOWORK=off", "CGO_ENABLED=0", "GOTOOLCHAIN=local",
	}, args...)
	for _, m := range modules {
		if _, err := os.Stat(filepath.Join(top, "modules", filepath.FromSlash(m.path)+"@"+m.version)); err != nil {
			t.Errorf("the program does not link the module %s: %v", m.path, err)
		}
	}
	if !built {
		t.Log("it was not built, as AYCODER_INSTALL is not set")
		return ""
	}
	return filepath.Join(top, "bin", path.Base(program))
}

func run(t *testing.T, dir string, env []string, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		text := stderr.String()
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, text[max(0, len(text)-4000):])
	}
	return out
}

// read reads the names of modules, and their versions from the go.mod of the last one.
func read(t *testing.T, root string, dirs []string) (modules []module) {
	t.Helper()
	var mod struct {
		Module  struct{ Path string }
		Require []struct{ Path, Version string }
		Replace []struct{ Old struct{ Path string } }
	}
	for _, d := range dirs {
		dir := filepath.Join(root, d)
		if err := json.Unmarshal(run(t, dir, nil, "mod", "edit", "-json"), &mod); err != nil {
			t.Fatal(err)
		}
		modules = append(modules, module{dir, mod.Module.Path, usual})
		if d == dirs[len(dirs)-1] && len(mod.Replace) > 0 {
			t.Errorf("%s replaces %s, so it cannot be installed by its version", d, mod.Replace[0].Old.Path)
		}
	}
	for i := range modules {
		for _, r := range mod.Require {
			if r.Path == modules[i].path {
				modules[i].version = r.Version
			}
		}
	}
	return modules
}

// publish writes a module to a directory that a proxy of files serves.
func (m module) publish(proxy string) error {
	to := filepath.Join(proxy, filepath.FromSlash(m.path), "@v")
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	mod, err := os.ReadFile(filepath.Join(m.dir, "go.mod"))
	if err != nil {
		return err
	}
	for name, data := range map[string]string{
		"list": m.version + "\n", m.version + ".mod": string(mod),
		m.version + ".info": fmt.Sprintf(`{"Version":%q,"Time":"2026-01-02T03:04:05Z"}`, m.version),
	} {
		if err := os.WriteFile(filepath.Join(to, name), []byte(data), 0o644); err != nil {
			return err
		}
	}
	f, err := os.Create(filepath.Join(to, m.version+".zip"))
	if err != nil {
		return err
	}
	z := zip.NewWriter(f)
	return errors.Join(m.pack(z), z.Close(), f.Close())
}

// pack adds the files of a module. Modules inside of it are not a part of it.
func (m module) pack(z *zip.Writer) error {
	return filepath.WalkDir(m.dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil || name == m.dir {
			return err
		}
		if e.IsDir() {
			_, other := os.Stat(filepath.Join(name, "go.mod"))
			if strings.HasPrefix(e.Name(), ".") || other == nil {
				return fs.SkipDir
			}
			return nil
		}
		if !e.Type().IsRegular() || strings.HasSuffix(name, "_test.go") || strings.Contains(filepath.ToSlash(name), "/testdata/") {
			return nil
		}
		rel, err := filepath.Rel(m.dir, name)
		if err != nil {
			return err
		}
		w, err := z.CreateHeader(&zip.FileHeader{Name: m.path + "@" + m.version + "/" + filepath.ToSlash(rel), Method: zip.Store})
		if err != nil {
			return err
		}
		src, err := os.Open(name)
		if err != nil {
			return err
		}
		_, err = io.Copy(w, src)
		return errors.Join(err, src.Close())
	})
}

// Packages fails the test unless a directory node_modules has some packages of npm in just the versions that are named, as in
// "@scope/name@1.2.3".
func Packages(t *testing.T, modules string, pins ...string) {
	t.Helper()
	for _, pin := range pins {
		at := strings.LastIndex(pin, "@")
		var found struct{ Version string }
		data, err := os.ReadFile(filepath.Join(modules, filepath.FromSlash(pin[:at]), "package.json"))
		if err == nil {
			err = json.Unmarshal(data, &found)
		}
		if err != nil || found.Version != pin[at+1:] {
			t.Fatalf("%s is needed: there is version %q: %v", pin, found.Version, err)
		}
	}
}
