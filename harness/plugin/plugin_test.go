package plugin_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/harness/plugin"
	"github.com/aycoder/aycoder/internal/gittest"
	"github.com/aycoder/aycoder/tools"
)

// whole is a plugin with a part of each kind.
var whole = map[string]string{
	".claude-plugin/plugin.json": `{"name": "lint", "version": "1.0", "description": "Checks code.", "skills": ["./more"], "colour": 1,
		"tools": [{"name": "echo", "description": "Says it again.", "command": ["${CLAUDE_PLUGIN_ROOT}/bin/echo", "a b"],
			"inputSchema": {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]}}]}`,
	"bin/echo":               "#!/bin/sh\nread -r line\nprintf '{\"text\": \"%s\"}' \"$1 $(printf %s \"$line\" | tr -d '\"{}')\"\n",
	"commands/fix.md":        "Fix $ARGUMENTS\n",
	"commands/run.md":        "See !`sh ${CLAUDE_PLUGIN_ROOT}/run.sh`\n",
	"agents/checker.md":      "---\nname: checker\ndescription: Checks.\n---\nYou check.\n",
	"skills/style/SKILL.md":  "---\nname: style\ndescription: How to write.\n---\nShort.\n",
	"more/deep/SKILL.md":     "---\nname: deep\ndescription: More.\n---\nLong.\n",
	"hooks/hooks.json":       `{"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "${CLAUDE_PLUGIN_ROOT}/bin/check # \\n\u202eevil"}]}]}}`,
	".mcp.json":              `{"mcpServers": {"db": {"command": "${CLAUDE_PLUGIN_ROOT}/bin/db", "args": ["${DB_URL}", "${PORT:-1}"], "env": {"A": "${DB_URL}"}}}}`,
	"skills/style/script.sh": "echo run\n",
}

func write(t testing.TB, dir string, files map[string]string) string {
	t.Helper()
	for name, text := range files {
		name = filepath.Join(dir, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
		mode := os.FileMode(0o644)
		if strings.Contains(name, "/bin/") {
			mode = 0o755
		}
		require.NoError(t, os.WriteFile(name, []byte(text), mode))
	}
	return dir
}

// install installs a directory.
func install(t *testing.T, s *plugin.Store, from plugin.Source) *plugin.Plugin {
	t.Helper()
	st, err := s.Stage(t.Context(), from)
	require.NoError(t, err)
	require.NoError(t, st.Install(t.Context()))
	require.NoError(t, st.Discard())
	return st.Plugin
}

func one(t *testing.T, s *plugin.Store) plugin.Installed {
	t.Helper()
	list, err := s.List(t.Context())
	require.NoError(t, err)
	require.Len(t, list, 1)
	return list[0]
}

func TestRead(t *testing.T) {
	dir := write(t, t.TempDir(), whole)
	p, err := plugin.Read(t.Context(), dir, "other")
	require.NoError(t, err)
	require.Equal(t, "lint", p.Name)
	require.NotNil(t, p.Library.Command("lint:fix"))
	require.Equal(t, "See !`sh "+dir+"/run.sh`\n", p.Library.Command("lint:run").Text)
	require.NotNil(t, p.Library.Agent("lint:checker"))
	require.NotNil(t, p.Library.Skill("lint:style"))
	require.NotNil(t, p.Library.Skill("lint:deep"))
	require.Len(t, p.Hooks, 1)
	require.Equal(t, []string{"CLAUDE_PLUGIN_ROOT=" + dir}, p.Hooks[0].Env)
	require.Equal(t, []string{
		"command /lint:fix", "command /lint:run, which runs: sh ${CLAUDE_PLUGIN_ROOT}/run.sh", "agent lint:checker", "skill lint:style", "skill lint:deep",
		"hook at PreToolUse Bash: ${CLAUDE_PLUGIN_ROOT}/bin/check # \\n<U+202E>evil",
		"server db: ${CLAUDE_PLUGIN_ROOT}/bin/db ${DB_URL} ${PORT:-1}, with environment A=${DB_URL}, with the variables DB_URL, PORT",
		"tool echo, which runs: ${CLAUDE_PLUGIN_ROOT}/bin/echo 'a b'",
	}, p.Brings())
	require.Len(t, p.Warnings, 1)
	require.Contains(t, p.Warnings[0].String(), `"colour" is ignored`)

	s, err := p.Server("db", func(name string) (string, bool) { return "v-" + name, name == "DB_URL" })
	require.NoError(t, err)
	require.Equal(t, dir+"/bin/db", s.Command)
	require.Equal(t, []string{"v-DB_URL", "1"}, s.Args)
	_, err = p.Server("db", func(string) (string, bool) { return "", false })
	require.ErrorContains(t, err, "the variable DB_URL is not set")
}

// A plugin without a manifest, such as an index, may be in a directory that is not a name for a plugin.
func TestNameOfDirectory(t *testing.T) {
	for dir, want := range map[string]string{
		"a.b_c": "a.b_c", "my plugins (2)": "my-plugins-2-", ".claude": "claude", "größe": "gr-e", "+": "plugin", strings.Repeat("a", 70): strings.Repeat("a", 64),
	} {
		from := write(t, filepath.Join(t.TempDir(), dir), map[string]string{"commands/fix.md": "Fix.\n"})
		require.Equal(t, want, install(t, plugin.NewStore(t.TempDir()), plugin.Source{Path: from}).Name)
	}
}

func TestLifeInStore(t *testing.T) {
	ctx := t.Context()
	from := write(t, t.TempDir(), whole)
	s := plugin.NewStore(filepath.Join(t.TempDir(), "store"))
	p := install(t, s, plugin.Source{Path: from})
	x := one(t, s)
	require.NoError(t, x.Err)
	require.True(t, x.Enabled)
	require.False(t, x.Trusted)
	require.ErrorContains(t, s.Allowed(ctx, p), "is not trusted")
	require.NoError(t, s.Trust(ctx, p, true))
	require.True(t, one(t, s).Trusted)
	require.NoError(t, s.Allowed(ctx, p))
	require.NoError(t, s.Enable(ctx, "lint", false))
	require.ErrorContains(t, s.Allowed(ctx, p), "is switched off")

	// an update shows what changes, stays switched off, and is not trusted
	write(t, from, map[string]string{"commands/fix.md": "Fix all\n", "new.txt": "new"})
	require.NoError(t, os.Remove(filepath.Join(from, "more/deep/SKILL.md")))
	st, err := s.Stage(ctx, x.Source)
	require.NoError(t, err)
	require.Equal(t, p.Hash, st.Before.Hash)
	require.Equal(t, []plugin.Change{
		{Name: "commands/fix.md"}, {Name: "more/deep/SKILL.md", Removed: true}, {Name: "new.txt", Added: true},
	}, st.Changes)
	require.True(t, one(t, s).Trusted, "nothing changes before it is installed")
	require.NoError(t, st.Install(ctx))
	x = one(t, s)
	require.False(t, x.Enabled)
	require.False(t, x.Trusted)
	require.ErrorContains(t, s.Trust(ctx, p, true), "another version is installed")

	require.NoError(t, s.Remove(ctx, "lint"))
	require.ErrorContains(t, s.Remove(ctx, "lint"), "is not installed")
	left, err := os.ReadDir(filepath.Join(filepath.Dir(filepath.Dir(x.Plugin.Dir)), "files"))
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestChangedAfterTrust(t *testing.T) {
	ctx := t.Context()
	for name, change := range map[string]func(dir string) error{
		"contents": func(dir string) error { return os.WriteFile(filepath.Join(dir, "bin/echo"), []byte("evil"), 0o755) },
		"new file": func(dir string) error { return os.WriteFile(filepath.Join(dir, "commands/x.md"), []byte("x"), 0o644) },
		"removed":  func(dir string) error { return os.Remove(filepath.Join(dir, "bin/echo")) },
		"mode":     func(dir string) error { return os.Chmod(filepath.Join(dir, "commands/fix.md"), 0o755) },
	} {
		t.Run(name, func(t *testing.T) {
			if name == "mode" && runtime.GOOS == "windows" {
				t.Skip("there are no such modes")
			}
			s := plugin.NewStore(t.TempDir())
			p := install(t, s, plugin.Source{Path: write(t, t.TempDir(), whole)})
			require.NoError(t, s.Trust(ctx, p, true))
			require.NoError(t, change(p.Dir))
			require.ErrorContains(t, s.Allowed(ctx, p), "has changed")
			require.Error(t, p.Hooks[0].Verify())
			x := one(t, s)
			require.Nil(t, x.Plugin)
			require.ErrorContains(t, x.Err, "not those that were installed")
			if name == "contents" {
				_, err := p.Files.Open("bin/echo")
				require.ErrorContains(t, err, "has changed")
			}
		})
	}
}

func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	return strings.TrimSpace(gittest.Run(t, dir, args...))
}

// repo makes a repository with files, and returns its address and its commit.
func repo(t *testing.T, files map[string]string) (dir, address, commit string) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("needs git")
	}
	dir = write(t, t.TempDir(), files)
	git(t, dir, "init", "-q")
	git(t, dir, "add", "-A", "-f")
	git(t, dir, "commit", "-q", "-m", "one")
	return dir, "file://" + filepath.ToSlash(dir), git(t, dir, "rev-parse", "HEAD")
}

func TestGit(t *testing.T) {
	dir, address, commit := repo(t, map[string]string{"plugins/a/commands/go.md": "Go\n", "plugins/a/bin/x": "#!/bin/sh\n", "other": "x"})
	s := plugin.NewStore(t.TempDir())
	p := install(t, s, plugin.Source{Git: address, Subdir: "plugins/a"})
	require.Equal(t, []string{"bin/x", "commands/go.md"}, p.Files.Names())
	require.Equal(t, "a", p.Name)
	require.Equal(t, commit, one(t, s).Source.Commit)

	write(t, dir, map[string]string{"plugins/a/commands/go.md": "Go on\n"})
	git(t, dir, "commit", "-q", "-a", "-m", "two")
	pinned, err := s.Stage(t.Context(), one(t, s).Source)
	require.NoError(t, err)
	require.Empty(t, pinned.Changes, "the old commit is pinned")
	require.NoError(t, pinned.Discard())
	from := one(t, s).Source
	from.Commit = ""
	newest, err := s.Stage(t.Context(), from)
	require.NoError(t, err)
	require.Equal(t, []plugin.Change{{Name: "commands/go.md"}}, newest.Changes)
	require.NoError(t, newest.Discard())
}

// TestHostileRepositories installs repositories whose settings, filters, hooks, links and modules would run or read
// something else.
func TestHostileRepositories(t *testing.T) {
	proof := filepath.Join(t.TempDir(), "ran")
	secret := write(t, t.TempDir(), map[string]string{"key": "secret"})
	_, module, _ := repo(t, map[string]string{"x": "x"})
	dir, address, _ := repo(t, map[string]string{
		".gitattributes": "* filter=evil export-subst\nhidden export-ignore\n", "commands/a.md": "$Format:%H$\n", "hidden": "x",
		".gitmodules": "[submodule \"m\"]\n\tpath = m\n\turl = " + module + "\n", ".lfsconfig": "[lfs]\n\turl = http://127.0.0.1:1\n",
	})
	require.NoError(t, os.Symlink(filepath.Join(secret, "key"), filepath.Join(dir, "skills")))
	git(t, dir, "add", "skills")
	git(t, dir, "update-index", "--add", "--cacheinfo", "160000,"+git(t, dir, "rev-parse", "HEAD")+",m")
	git(t, dir, "commit", "-q", "-m", "link")
	for _, kv := range [][2]string{
		{"filter.evil.smudge", "touch " + proof}, {"filter.evil.clean", "touch " + proof}, {"core.fsmonitor", "touch " + proof},
		{"uploadpack.packObjectsHook", "touch " + proof}, {"core.sshCommand", "touch " + proof}, {"core.pager", "touch " + proof},
	} {
		git(t, dir, "config", kv[0], kv[1])
	}
	for _, name := range []string{"post-checkout", "reference-transaction", "post-merge", "pre-auto-gc"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, ".git/hooks", name), []byte("#!/bin/sh\ntouch "+proof+"\n"), 0o755))
	}
	s := plugin.NewStore(t.TempDir())
	for _, from := range []plugin.Source{{Git: address, Name: "evil"}, {Path: dir, Name: "evil"}} {
		st, err := s.Stage(t.Context(), from)
		require.NoError(t, err)
		var notes []string
		for _, w := range st.Plugin.Warnings {
			notes = append(notes, w.String())
		}
		require.Contains(t, strings.Join(notes, "\n"), "skills: is a symbolic link", from)
		require.Equal(t, from.Git != "", strings.Contains(strings.Join(notes, "\n"), "evil/m: "), "a module is left out")
		require.NoError(t, st.Discard())
	}
	p := install(t, s, plugin.Source{Git: address, Name: "evil"})
	require.NoFileExists(t, proof)
	require.Equal(t, []string{".gitattributes", ".gitmodules", ".lfsconfig", "commands/a.md", "hidden"}, p.Files.Names())
	require.Equal(t, "$Format:%H$\n", p.Library.Command("evil:a").Text)

	// as a directory
	p = install(t, plugin.NewStore(t.TempDir()), plugin.Source{Path: dir, Name: "evil"})
	require.NotContains(t, p.Files.Names(), "skills")
	require.NoFileExists(t, proof)
}

// All that is on the disk is in the hash, and is installed once.
func TestNothingIsOutsideOfTheHash(t *testing.T) {
	for _, name := range []string{".git/run.sh", "a/.GIT/run.sh", ".git./x", "GIT~1/x"} {
		dir := t.TempDir()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			continue // there is no such name
		}
		write(t, dir, map[string]string{name: "x", "commands/a.md": "x"})
		_, err := plugin.Read(t.Context(), dir, "x")
		require.ErrorContains(t, err, "repository of git", name)
	}
	s := plugin.NewStore(t.TempDir())
	st, err := s.Stage(t.Context(), plugin.Source{Path: write(t, t.TempDir(), whole)})
	require.NoError(t, err)
	require.NoError(t, st.Install(t.Context()))
	require.ErrorContains(t, st.Install(t.Context()), "has been installed")
	p := one(t, s).Plugin
	require.NotNil(t, p)
	if os.Symlink("echo", filepath.Join(p.Dir, "bin", "more")) == nil {
		require.ErrorContains(t, p.Verify(t.Context()), "has changed")
	}
	_, err = s.Stage(t.Context(), plugin.Source{Path: write(t, t.TempDir(), whole), Name: "other"})
	require.ErrorContains(t, err, `it is "lint" and not "other"`)
}

// A server that says nothing holds nobody up, and nothing of git is left.
func TestCancelledFetch(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("needs git")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := make(chan error, 1)
	mine := errors.New("enough")
	go func() {
		conn, err := l.Accept()
		cancel(mine)
		if err == nil {
			_, err = io.Copy(io.Discard, conn)
			conn.Close()
		}
		gone <- err
	}()
	dir := t.TempDir()
	_, err = plugin.NewStore(dir).Stage(ctx, plugin.Source{Git: "https://" + l.Addr().String() + "/x.git"})
	require.ErrorIs(t, err, mine)
	<-gone // the other end of the connection
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestRefusedSources(t *testing.T) {
	s := plugin.NewStore(t.TempDir())
	proof := filepath.Join(t.TempDir(), "ran")
	for _, from := range []plugin.Source{
		{}, {Path: "a", Git: "https://x/y"}, {Git: "ext::sh -c touch% " + proof}, {Git: "--upload-pack=touch " + proof}, {Git: "git://x/y"},
		{Git: "http://x/y"}, {Git: "ssh://-oProxyCommand=touch/y"}, {Git: "https://u:p@x/y"}, {Git: "file://host/x"}, {Git: "/tmp/x"},
		{Git: "https://x/y", Commit: "HEAD"}, {Git: "https://x/y", Ref: "--upload-pack=x"}, {Git: "https://x/y", Ref: "a..b"},
		{Path: ".", Subdir: "../x"}, {Path: ".", Subdir: "/etc"}, {Git: "https://x/y", Commit: strings.Repeat("a", 39)},
		{Git: "x@y:z"}, {Git: "ssh://-u@x/y"}, {Path: filepath.Join(t.TempDir(), "none")},
	} {
		_, err := s.Stage(t.Context(), from)
		require.IsType(t, &plugin.Error{}, err, "%+v", from)
	}
	require.NoFileExists(t, proof)
}

// A directory in an index that is a link does not lead out of the directory of the index.
func TestSubdirectoryIsNoWayOut(t *testing.T) {
	out := write(t, t.TempDir(), map[string]string{"commands/secret.md": "x"})
	dir := t.TempDir()
	if err := os.Symlink(out, filepath.Join(dir, "up")); err != nil {
		t.Skip(err)
	}
	offers, _ := plugin.ParseIndex([]byte(`{"plugins": [{"name": "up", "source": "./up"}]}`), plugin.Source{Path: dir})
	require.Len(t, offers, 1)
	_, err := plugin.NewStore(t.TempDir()).Stage(t.Context(), offers[0].Source)
	require.IsType(t, &plugin.Error{}, err)
}

func TestRefusedPlugins(t *testing.T) {
	for name, files := range map[string]map[string]string{
		"no json": {"plugin.json": "{"}, "array": {"plugin.json": "[]"}, "name up": {"plugin.json": `{"name": "../x"}`},
		"name empty": {"plugin.json": `{"name": " "}`}, "type": {"plugin.json": `{"commands": 1}`},
		"line break": {"a\nb": "x"}, "large": {"big": strings.Repeat("x", 16<<20+1)},
	} {
		t.Run(name, func(t *testing.T) {
			if runtime.GOOS == "windows" && name == "line break" {
				t.Skip("there is no such name")
			}
			_, err := plugin.Read(t.Context(), write(t, t.TempDir(), files), "x")
			require.IsType(t, &plugin.Error{}, err)
		})
	}
	dir := t.TempDir()
	for i := range 5001 {
		require.NoError(t, os.WriteFile(filepath.Join(dir, fmt.Sprint("f", i)), nil, 0o644))
	}
	_, err := plugin.Read(t.Context(), dir, "x")
	require.ErrorContains(t, err, "more than 5000 files")

	p, err := plugin.Read(t.Context(), write(t, t.TempDir(), map[string]string{
		"plugin.json": `{"commands": ["../up", "/etc"], "hooks": "../../hooks.json", "mcpServers": "/etc/passwd", "tools": [
			{"name": "a b", "description": "x", "command": ["x"]}, {"name": "b", "description": "x"}, {"name": "c", "command": ["x"]},
			{"name": "d", "description": "x", "command": ["x"], "effect": "none"},
			{"name": "e", "description": "x", "command": ["x"], "inputSchema": []}]}`,
	}), "x")
	require.NoError(t, err)
	require.Empty(t, p.Brings())
	require.Len(t, p.Warnings, 9)
}

// call calls the tool of a plugin with a program.
func call(t *testing.T, ctx context.Context, script, more string) (*aycoder.ToolResult, error) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("needs a shell")
	}
	p, err := plugin.Read(t.Context(), write(t, t.TempDir(), map[string]string{
		"bin/x":       "#!/bin/sh\n" + script,
		"plugin.json": `{"tools": [{"name": "x", "description": "x", "command": ["${CLAUDE_PLUGIN_ROOT}/bin/x"]` + more + `}]}`,
	}), "p")
	require.NoError(t, err)
	exec, err := tools.LocalExec()
	require.NoError(t, err)
	list := p.Tools(plugin.Host{Exec: exec, Root: t.TempDir(), Env: tools.Environ(exec)})
	require.Len(t, list, 1, "%v", p.Warnings)
	spec := list[0].Spec()
	require.Equal(t, "plugin__p__x", spec.Name)
	require.Equal(t, aycoder.EffectWrite, spec.Effect)
	return list[0].Call(ctx, aycoder.NewInvocation("1", "plugin__p__x", json.RawMessage(`{"word": "it's $HOME"}`), nil))
}

func TestProgram(t *testing.T) {
	res, err := call(t, t.Context(), `cat >in; printf '{"text": "done"}'; echo note >&2; cat in >&2`, "")
	require.NoError(t, err)
	require.Equal(t, "done", res.Text())
	res, err = call(t, t.Context(), `read -r l; printf '{"text": %s}' "$(printf '%s' "$l" | sed 's/.*/"&"/; s/["{}]//g; s/.*/"&"/')"`, "")
	require.NoError(t, err)
	require.Contains(t, res.Text(), "word:it's $HOME")
	res, err = call(t, t.Context(), `echo '{"error": "no such thing"}'`, "")
	require.NoError(t, err)
	require.True(t, res.IsError)
	for script, want := range map[string]string{
		"exit 3": "exit code 3", "echo no": "not understood", "echo '{}'": "neither text nor error", "kill -9 $$": "exit code 137",
		"yes": "wrote more than", "sleep 100 & sleep 100": "longer than 200ms", "echo '[]'": "not understood", "cat /nowhere; exit 1": "/nowhere",
	} {
		_, err := call(t, t.Context(), script, `, "timeout": `+map[bool]string{true: "0.2", false: "20"}[strings.Contains(script, "sleep")])
		require.ErrorContains(t, err, want, script)
		require.IsType(t, &plugin.Error{}, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = call(t, ctx, "echo", "")
	require.ErrorIs(t, err, context.Canceled)
}

func TestParseIndex(t *testing.T) {
	sha := strings.Repeat("a", 40)
	offers, problems := plugin.ParseIndex([]byte(`{"name": "m", "plugins": [
		{"name": "a", "source": "./plugins/a", "description": "A\nline", "version": "1"},
		{"name": "b", "source": {"source": "git-subdir", "url": "https://example.com/x.git", "path": "plugins/b", "sha": "`+sha+`"}},
		{"name": "c", "source": {"source": "github", "repo": "o/r", "ref": "main"}},
		{"name": "d", "source": {"source": "local", "path": "./d"}},
		{"name": "top", "source": "./"},
		{"name": "up", "source": "../up"}, {"name": "abs", "source": "/etc"}, {"name": "../n", "source": "./n"},
		{"name": "file", "source": {"source": "url", "url": "file:///etc"}}, {"name": "ext", "source": {"source": "url", "url": "ext::x"}},
		{"name": "npm", "source": {"source": "npm", "package": "x"}}, {"name": "none"}
	]}`), plugin.Source{Git: "https://example.com/m.git", Commit: sha})
	require.Len(t, problems, 7, "%v", problems)
	require.Equal(t, []plugin.Offer{
		{Name: "a", Description: "A line", Version: "1", Source: plugin.Source{Git: "https://example.com/m.git", Commit: sha, Subdir: "plugins/a", Name: "a"}},
		{Name: "b", Source: plugin.Source{Git: "https://example.com/x.git", Commit: sha, Subdir: "plugins/b", Name: "b"}},
		{Name: "c", Source: plugin.Source{Git: "https://github.com/o/r.git", Ref: "main", Name: "c"}},
		{Name: "d", Source: plugin.Source{Git: "https://example.com/m.git", Commit: sha, Subdir: "d", Name: "d"}},
		{Name: "top", Source: plugin.Source{Git: "https://example.com/m.git", Commit: sha, Name: "top"}},
	}, offers)
	_, problems = plugin.ParseIndex([]byte("{"), plugin.Source{})
	require.Len(t, problems, 1)
}
