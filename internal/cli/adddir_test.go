package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/workspace"
)

// A further directory is a part of the workspace: tools, rules, the sandbox and the session have it.
func TestAddDir(t *testing.T) {
	t.Parallel()
	timed.Serial(t)
	base, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	lib, other := filepath.Join(base, "lib"), filepath.Join(base, "more", "lib")
	for _, dir := range []string{lib, other, filepath.Join(lib, "in")} {
		require.NoError(t, os.MkdirAll(dir, 0o755))
	}
	require.NoError(t, os.WriteFile(filepath.Join(lib, "a.txt"), []byte("old\n"), 0o644))
	k := newKept(t, newService(t, calls("read_file", `{"path":"lib:/a.txt"}`),
		calls("edit_file", `{"path":"lib:/a.txt","old_string":"old","new_string":"new"}`), says("Done.", "end_turn")))
	got := k.run(exitOK, "-p", "-add-dir", lib, "-add-dir", other, "-allow", "edit_file:lib:/**", "go")
	require.Contains(t, got.out, "Done.")
	require.Contains(t, got.err, "lib:/a.txt")
	data, err := os.ReadFile(filepath.Join(lib, "a.txt"))
	require.NoError(t, err)
	require.Equal(t, "new\n", string(data))
	require.Contains(t, k.service.requests()[0], lib+" belong to the workspace")
	require.Contains(t, k.service.requests()[0], "lib-2:/path")

	// The rule of one directory does not hold in the other one, and outside nothing is written.
	for path, code := range map[string]int{"lib-2:/a.txt": exitApproval, "a.txt": exitApproval, "lib:/../a.txt": exitOK, base + "/a.txt": exitOK} {
		k.service = newService(t, calls("write_file", `{"path":"`+path+`","content":"x"}`), says("No.", "end_turn"))
		k.run(code, "-p", "-add-dir", lib, "-add-dir", other, "-allow", "write_file:lib:/**", "go")
	}
	require.NoFileExists(t, filepath.Join(base, "a.txt"))

	for _, tt := range []struct{ args, want string }{
		{"-add-dir " + filepath.Join(base, "none"), "no such file"}, {"-add-dir " + filepath.Join(lib, "a.txt"), "not a directory"},
		{"-add-dir " + k.dir, "the same directory"}, {"-add-dir ..", "the same directory"},
		{"-add-dir " + lib + " -add-dir " + filepath.Join(lib, "in"), "one is in the other"},
		{"-add-dir x=" + lib, "no such file"}, // a name has two letters, so this is a directory
		{"-add-dir lib=" + lib + " -add-dir LIB=" + other, "two roots"},
	} {
		k.service = newService(t, says("Never.", "end_turn"))
		got := k.run(exitUsage, append([]string{"-p", "go"}, strings.Fields(tt.args)...)...)
		require.Contains(t, got.err, tt.want, tt.args)
		require.Contains(t, got.err, "aycoder: -add-dir: ", tt.args)
		require.Empty(t, k.service.requests())
	}

	// A session knows which directory a name was.
	k.service = newService(t, says("On.", "end_turn"))
	ids := k.ids()
	id := ids[len(ids)-1]
	k.run(exitOK, "-p", "-r", id, "go")
	k.run(exitOK, "-p", "-r", id, "-add-dir", "lib="+lib, "go")
	require.Contains(t, k.run(exitUsage, "-p", "-r", id, "-add-dir", other, "go").err, "was the directory "+lib)
	k.run(exitOK, "-p", "-r", id, "-add-dir", "there="+other, "go")
}

// The user's configuration can name directories, and that of a project cannot.
func TestAddDirOfTheConfiguration(t *testing.T) {
	t.Parallel()
	timed.Serial(t)
	config, lib := t.TempDir(), t.TempDir()
	k := newKept(t, newService(t, calls("write_file", `{"path":"lib:/a","content":"a\n"}`), says("Done.", "end_turn")))
	require.NoError(t, os.MkdirAll(filepath.Join(config, "aycoder"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(config, "aycoder", "config.toml"), []byte("[tools.dirs]\nlib = '"+lib+"'\n"), 0o644))
	env := append(k.env(), "XDG_CONFIG_HOME="+config)
	got := runProgram(t, env, "", "-C", k.dir, "-p", "-allow", "write_file", "go")
	require.Equal(t, exitOK, got.code, got.err)
	require.FileExists(t, filepath.Join(lib, "a"))
	require.NoError(t, os.RemoveAll(lib))
	require.Contains(t, runProgram(t, env, "", "-C", k.dir, "-p", "go").err, "aycoder: tools.dirs: \"lib\": ")

	require.NoError(t, os.MkdirAll(filepath.Join(k.dir, ".aycoder"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(k.dir, ".aycoder", "config.toml"), []byte("[tools.dirs]\nlib = '/etc'\n"), 0o644))
	k.service = newService(t, says("Never.", "end_turn"))
	got = runProgram(t, k.env(), "", "-C", k.dir, "-p", "go")
	require.NotEmpty(t, k.service.requests())
	for _, r := range k.service.requests() {
		require.NotContains(t, r, "/etc")
	}
}

func TestCompleteInDirs(t *testing.T) {
	dir, lib := t.TempDir(), t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(lib, "src"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(lib, "src", "client.go"), []byte("package a\n\nfunc NewClient() {}\n"), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(lib, "p.png"), pixel, 0o644))
	rt, err := harness.New(t.Context(), dir, harness.WithClient(script.New()), harness.WithStore(journal.Memory(), ""), harness.WithRoot("lib", lib))
	require.NoError(t, err)
	defer func() { require.NoError(t, rt.Close()) }()
	c := &chat{ui: &ui{}, session: &session{Runtime: rt}}
	defer c.session.close()
	for text, want := range map[string]string{
		"@": "@lib:/src/client.go", "see @clie": "@lib:/src/client.go", "@lib:/": "@lib:/src/client.go", "@nwc": "@lib:/src/client.go:NewClient",
	} {
		_, list := c.complete(text, len(text))
		var texts []string
		for _, cand := range list {
			texts = append(texts, cand.Text)
		}
		require.Contains(t, texts, want, text)
	}
	require.Len(t, c.images("look at @lib:/p.png"), 1)
}

func TestNameDirs(t *testing.T) {
	t.Parallel()
	wd, err := os.Getwd()
	require.NoError(t, err)
	o := &options{addDirs: []string{"/a/lib", "/b/lib", "x/y", "core=/c/d", "a=b/c", "/a/my lib"}}
	require.NoError(t, o.nameDirs())
	require.Equal(t, []workspace.Root{
		{Name: "lib", Dir: "/a/lib"}, {Name: "lib-2", Dir: "/b/lib"}, {Name: "dir", Dir: filepath.Join(wd, "x/y")},
		{Name: "core", Dir: "/c/d"}, {Name: "dir-2", Dir: filepath.Join(wd, "a=b/c")}, {Name: "my-lib", Dir: "/a/my lib"},
	}, o.roots)
}
