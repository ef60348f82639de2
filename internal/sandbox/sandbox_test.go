package sandbox

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// fake is a mechanism that does what a test says, and enforces nothing.
type fake struct {
	Report
	err    error
	before func(*exec.Cmd) error
	starts atomic.Int32
}

func (*fake) name() string { return "fake" }

func (*fake) close() {}

func (f *fake) report(*view) (*Report, error) { return f.Report.clone(), f.err }

func (f *fake) start(cmd *exec.Cmd, _ *view) error {
	f.starts.Add(1)
	if f.before != nil {
		if err := f.before(cmd); err != nil {
			return err
		}
	}
	return cmd.Start()
}

func needShell(t testing.TB) {
	t.Helper()
	if _, err := os.Stat("/bin/sh"); err != nil {
		t.Skip("this system has no /bin/sh to try")
	}
}

func open(t *testing.T, f *fake, p Policy) *Box {
	t.Helper()
	needShell(t)
	b := newBox(f, p)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	return b
}

func shell(script string) *exec.Cmd { return exec.Command("/bin/sh", "-c", script) }

// A mechanism that promises what it does not do is found out before the first command.
func TestTrialFindsLeaks(t *testing.T) {
	tests := []struct {
		name   string
		says   Report
		policy Policy
		want   string
	}{
		{"files", Report{Filesystem: true}, Policy{}, "a trial command got out: it read "},
		{"writing", Report{Filesystem: true}, Policy{Read: []string{"/"}}, "a trial command got out: it changed "},
		{"signals", Report{Signals: true}, Policy{}, "a trial command got out: it can signal the host"},
		{"settings", Report{Filesystem: true}, Policy{}, "it can change the settings of the kernel"},
		{"mounts", Report{Filesystem: true, namespaces: true}, Policy{}, "it can change /"},
		{"routes", Report{Network: true, namespaces: true}, Policy{}, "it has a way into the network"},
		{"privileges", Report{NoNewPrivs: true}, Policy{}, "it can gain privileges"},
		{"calls", Report{Syscalls: true}, Policy{}, "its system calls are not filtered"},
		{"nothing", Report{}, Policy{}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if runtime.GOOS != "linux" && (tt.says.NoNewPrivs || tt.says.Syscalls) {
				t.Skip("only Linux shows that in /proc")
			}
			if tt.name == "settings" && os.Getuid() != 0 {
				t.Skip("only root can change them outside of a sandbox")
			}
			if routes, _ := os.ReadFile("/proc/self/net/route"); tt.name == "routes" && strings.Count(string(routes), "\n") < 2 {
				t.Skip("this machine has no network")
			}
			if tt.name == "mounts" && runtime.GOOS != "linux" {
				t.Skip("only Linux shows that in /proc")
			}
			f := &fake{Report: tt.says}
			b := open(t, f, tt.policy)
			cmd := shell("exit 0")
			r, err := b.Start(t.Context(), cmd, Call{})
			if tt.want == "" {
				require.NoError(t, err)
				require.NoError(t, cmd.Wait())
				assert.Equal(t, tt.says.Filesystem, r.Filesystem)
				return
			}
			require.ErrorIs(t, err, ErrLeaks)
			require.ErrorContains(t, err, tt.want)
			assert.Nil(t, cmd.Process, "the command was started")
			assert.EqualValues(t, 1, f.starts.Load())
		})
	}
}

func TestTrialOncePerKind(t *testing.T) {
	f := &fake{Report: Report{Missing: []string{"this", "that"}}}
	b := open(t, f, Policy{})
	start := func(c Call) error {
		cmd := shell("exit 0")
		r, err := b.Start(t.Context(), cmd, c)
		if err != nil {
			return err
		}
		r.Missing[0] = "changed by the caller"
		return cmd.Wait()
	}
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() { assert.NoError(t, start(Call{})) })
	}
	wg.Wait()
	assert.EqualValues(t, 11, f.starts.Load())
	require.NoError(t, start(Call{Network: true}))
	require.NoError(t, start(Call{Network: true}))
	assert.EqualValues(t, 14, f.starts.Load())
	err := start(Call{Require: true})
	require.ErrorIs(t, err, ErrIncomplete)
	require.EqualError(t, err, "sandbox by fake: require: not everything can be enforced here: this; that")
	assert.EqualValues(t, 14, f.starts.Load())
}

func TestTrialFails(t *testing.T) {
	stop := errors.New("stop")
	tests := []struct {
		name   string
		before func(*exec.Cmd) error
		want   string
	}{
		{"not started", func(*exec.Cmd) error { return stop }, "stop"},
		{"ended early", func(c *exec.Cmd) error {
			c.Args = []string{"sh", "-c", "echo why >&2; exit 3"}
			return nil
		}, "sandbox by fake: run a trial: it stopped early: exit status 3: why\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := open(t, &fake{before: tt.before}, Policy{})
			_, err := b.Start(t.Context(), shell("exit 0"), Call{})
			require.EqualError(t, err, tt.want)
		})
	}
	_, err := open(t, &fake{err: stop}, Policy{}).Start(t.Context(), shell("exit 0"), Call{})
	require.ErrorIs(t, err, stop)
	require.EqualError(t, err, "sandbox by fake: look for it: stop")
}

// The end of the context ends a trial that hangs, and who waits for it.
func TestTrialStops(t *testing.T) {
	stop := errors.New("stop")
	started := make(chan struct{})
	b := open(t, &fake{before: func(c *exec.Cmd) error {
		c.Args = []string{"sh", "-c", "exec sleep 60"}
		close(started)
		return nil
	}}, Policy{})
	ctx, cancel := context.WithCancelCause(t.Context())
	var wg sync.WaitGroup
	start := func() {
		_, err := b.Start(ctx, shell("exit 0"), Call{})
		assert.ErrorIs(t, err, stop)
	}
	wg.Go(start)
	<-started
	wg.Go(start)
	cancel(stop)
	wg.Wait()

	ctx, cancel = context.WithCancelCause(t.Context()) // right before the trial starts
	b = open(t, &fake{before: func(*exec.Cmd) error { cancel(stop); return nil }}, Policy{})
	_, err := b.Start(ctx, shell("exit 0"), Call{})
	require.ErrorIs(t, err, stop)
}

func TestStartSetsTemporaryDirectory(t *testing.T) {
	b := open(t, &fake{}, Policy{Private: []string{"GOCACHE"}})
	cmd := shell(`test "$TMPDIR" = "$TMP" && test "$GOCACHE" = "$TMPDIR/gocache" && touch "$TMPDIR/x"`)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=/elsewhere", "GOCACHE=/elsewhere"}
	_, err := b.Start(t.Context(), cmd, Call{})
	require.NoError(t, err)
	require.NoError(t, cmd.Wait())
	assert.FileExists(t, filepath.Join(b.temp, "x"))

	require.NoError(t, os.RemoveAll(b.temp))
	cmd = shell(`touch "$TMPDIR/y"`)
	_, err = b.Start(t.Context(), cmd, Call{})
	require.NoError(t, err)
	require.NoError(t, cmd.Wait())
	require.NoError(t, b.Close())
	_, err = b.Start(t.Context(), shell("exit 0"), Call{})
	require.ErrorIs(t, err, ErrClosed)
}

func TestUnsupported(t *testing.T) {
	b := newBox(unsupported("magic"), Policy{})
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	_, err := b.Start(t.Context(), exec.Command("true"), Call{})
	require.ErrorIs(t, err, errors.ErrUnsupported)
	require.ErrorContains(t, err, "sandbox by magic: look for it: there is none on "+runtime.GOOS)
}

// tree makes files, directories (which end in a slash) and links ("name -> target").
func tree(t *testing.T, links map[string]string, names ...string) string {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	for _, name := range names {
		path := filepath.Join(base, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		if name[len(name)-1] == '/' {
			require.NoError(t, os.MkdirAll(path, 0o755))
			continue
		}
		require.NoError(t, os.WriteFile(path, nil, 0o644))
	}
	for name, target := range links {
		if err := os.Symlink(filepath.FromSlash(target), filepath.Join(base, name)); err != nil {
			t.Skipf("this system makes no links: %v", err)
		}
	}
	return base
}

func TestResolved(t *testing.T) {
	base := tree(t, map[string]string{
		"alias": "ws", "ws/out": "../out", "ws/deep/out": "../../out", "bin": "usr/bin", "abs": "out",
	}, "ws/deep/", "out/f", "usr/bin/", "usr/lib/", "wsx/", "cache/go/")
	in := func(names ...string) (out []string) {
		for _, n := range names {
			out = append(out, filepath.Join(base, n))
		}
		return out
	}
	tests := []struct {
		name                          string
		read, write, fetch            []string
		wantRead, wantWrite, wantFetc []string
	}{
		{"nested", in("usr/bin", "usr", "usr/lib"), in("ws", "ws/deep"), nil, in("usr"), in("ws"), nil},
		{"links", in("bin", "usr"), in("alias"), nil, in("usr"), in("ws"), nil},
		{"a link that a command put there", in("ws/out"), in("ws", "ws/deep/out"), in("ws/out/f"), nil, in("ws"), nil},
		{"the same by another name",
			in("alias/out", "alias/deep/out/f"), in("ws"), in("alias/out"), nil, in("ws"), nil},
		{"missing and relative", append(in("no"), "usr"), in("ws", "no"), nil, nil, in("ws"), nil},
		{"neighbours", in("wsx"), in("ws"), nil, in("wsx"), in("ws"), nil},
		{"changed ones are not only read",
			in("cache", "ws"), in("ws"), in("cache/go"), in("cache"), in("ws"), in("cache/go")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := Policy{Read: tt.read, Write: tt.write, Fetch: tt.fetch}.resolved()
			assert.Equal(t, tt.wantRead, p.Read)
			assert.Equal(t, tt.wantWrite, p.Write)
			assert.Equal(t, tt.wantFetc, p.Fetch)
		})
	}
	p := Policy{Read: in("bin", "usr"), Write: in("ws", "ws/out")}.resolved()
	assert.Equal(t, map[string]string{in("bin")[0]: in("usr/bin")[0]}, p.links)
	p = Policy{Read: in("usr"), Hide: in("bin", "usr/none")}.resolved()
	assert.Equal(t, in("usr/bin", "usr/none"), p.Hide)
	assert.False(t, (&view{Policy: p}).readable(in("usr/bin/secret")[0]), "behind a link")
}

func TestWithin(t *testing.T) {
	for _, tt := range []struct {
		path, directory string
		want            bool
	}{
		{"/a/b", "/a", true}, {"/a", "/a", true}, {"/ab", "/a", false},
		{"/a", "/a/b", false}, {"/a", "/", true}, {"/", "/", true},
	} {
		assert.Equal(t, tt.want, within(filepath.FromSlash(tt.path), filepath.FromSlash(tt.directory)), tt)
	}
}

func TestDefaults(t *testing.T) {
	base := tree(t, nil, "home/.cargo/bin/", "home/.cargo/credentials.toml", "home/.cargo/registry/",
		"home/.ssh/id", "home/go/pkg/mod/", "home/.cache/go-build/", "home/.local/bin/", "home/project/", "tool/bin/",
		"home/.npm/", "home/.m2/settings.xml", "home/.m2/repository/", "home/.local/share/uv/credentials/", "home/.local/share/uv/tools/",
		"home/.pub-cache/credentials.json", "home/.pub-cache/hosted/", "home/.dotnet/corefx/cryptography/", "home/.dotnet/sdk/")
	if runtime.GOOS == "darwin" {
		require.NoError(t, os.MkdirAll(filepath.Join(base, "home/Library/Caches/go-build"), 0o755))
	}
	in := func(n string) string { return filepath.Join(base, n) }
	env := map[string]string{
		"PATH":       strings.Join([]string{in("tool/bin"), "relative", in("home")}, string(os.PathListSeparator)),
		"CARGO_HOME": "", "VIRTUAL_ENV": in("home"), "CONDA_PREFIX": base, "JAVA_HOME": "/", "NVM_DIR": in("home/nvm"),
	}
	h := Host{in("home"), func(name string) string { return env[name] }}
	v := func(shared, network bool) *view {
		v := &view{Policy: Defaults(in("home/project"), h, shared).resolved(), temp: in("tmp")}
		v.Network = network
		return v
	}
	for path, want := range map[string]bool{
		"home/.cargo/bin/x": true, "home/.cargo/credentials.toml": false, "home/.ssh/id": false, "home/.profile": false,
		"home/go/pkg/mod/x": true, "tool/bin/x": true, "tool/lib": false, "home/project/x": true, "home/other": false,
		"home/.m2/repository/x": true, "home/.m2/settings.xml": false, "home/.local/share/uv/tools/x": true,
		"home/.local/share/uv/credentials/x": false, "home/.pub-cache/hosted/x": true, "home/.pub-cache/credentials.json": false,
		"home/.dotnet/sdk/x": true, "home/.dotnet/corefx/cryptography/x": false, "home/.npm/x": true, "tmp/x": true,
	} {
		assert.Equal(t, want, v(true, false).readable(in(path)), path)
	}
	type can struct{ shared, network, own bool }
	build := in("home/.cache/go-build")
	if runtime.GOOS == "darwin" {
		build = in("home/Library/Caches/go-build")
	}
	for path, want := range map[string]can{
		build + "/x": {true, true, false}, in("home/go/pkg/mod/x"): {false, true, false},
		in("home/.npm/x"): {false, true, false}, in("home/.cargo/registry/x"): {false, true, false},
		in("home/.cargo/bin/x"): {}, in("home/project/x"): {true, true, true},
	} {
		got := can{v(true, false).writable(path), v(true, true).writable(path), v(false, true).writable(path)}
		assert.Equal(t, want, got, path)
	}
	assert.NotContains(t, v(true, false).env(), "GOCACHE="+in("tmp/gocache"))
	assert.Contains(t, v(false, false).env(), "GOCACHE="+in("tmp/gocache"))
	assert.Contains(t, v(true, false).env(), "CCACHE_DIR="+in("tmp/ccache_dir"), "one that is missing")
	assert.True(t, covers(systemDirectories, "/run/systemd/resolve/stub-resolv.conf"))
	assert.False(t, covers(systemDirectories, "/run/systemd/resolve/io.systemd.Resolve"), "a socket that leads to the network")
	require.NoError(t, os.Symlink(base, in("alias")))
	env["PATH"] = in("alias")
	assert.False(t, v(true, false).readable(in("home/.ssh/id")), "a link to a directory that contains the home directory")
	without := Defaults(in("home/project"), Host{"", func(string) string { return "" }}, true)
	assert.NotContains(t, without.Read, "")
	assert.Equal(t, []string{in("home/project")}, without.Write)
}

func TestProfile(t *testing.T) {
	v := &view{Policy: Policy{
		Read: []string{"/usr", `/a "b" \c`}, Write: []string{"/ws"},
		Hide: []string{"/usr/x"}, Protect: []string{"/ws/a/b/.git"}, around: []string{"/ws/a/b", "/ws/a"},
	}, temp: "/tmp/t"}
	want := profileStart + profileDevices + `(allow file-read* (subpath "/usr"))
(allow file-read* (subpath "/a \"b\" \\c"))
(deny file-read* (subpath "/usr/x"))
(allow file-read* file-write* (subpath "/ws"))
(allow file-read* file-write* (subpath "/tmp/t"))
(deny file-write* (subpath "/ws/a/b/.git"))
(deny file-write-unlink (literal "/ws"))
(deny file-write-unlink (literal "/tmp/t"))
(deny file-write-unlink (literal "/ws/a/b"))
(deny file-write-unlink (literal "/ws/a"))
`
	assert.Equal(t, want, profile(v))
	v.Network = true
	assert.Equal(t, want+"(allow network* system-socket)\n", profile(v))
	v.Network, v.Sockets = false, true
	assert.Contains(t, profile(v), "(local unix-socket)")
	all := view{Policy: Policy{everything: true}.onlyReading(""), readOnly: true, temp: "/tmp/t"}
	want = profileStart + profileReading + "(allow file-read*)\n(allow file-read* file-write* (subpath \"/tmp/t\"))\n"
	assert.Equal(t, want, profile(&all))
	v.Policy = Policy{Read: []string{"/usr"}, Write: []string{"/ws"}, Network: true, Sockets: true}.onlyReading("/tmp/box")
	v.readOnly, v.temp = true, ""
	want = profileStart + profileReading + `(allow file-read* (subpath "/usr"))
(allow file-read* (subpath "/ws"))
(allow file-read* (subpath "/tmp/box"))
`
	assert.Equal(t, want, profile(v))
}

func FuzzProfile(f *testing.F) {
	f.Add(`a"b\`)
	f.Fuzz(func(t *testing.T, path string) {
		q := quoteProfile(path)
		var back []byte
		for i := 1; i < len(q)-1; i++ {
			if q[i] == '\\' {
				i++
			} else {
				require.NotEqual(t, byte('"'), q[i], "the string ends early")
			}
			require.Less(t, i, len(q)-1, "the end is escaped")
			back = append(back, q[i])
		}
		assert.Equal(t, path, string(back))
	})
}

func FuzzTrial(f *testing.F) {
	f.Add("read\nwrote\nSeccomp: 2\ndone\n")
	f.Fuzz(func(t *testing.T, out string) {
		got := parseTrial(out)
		said := parseTrial(out + "\nread\nwrote\nsignalled\ndone\n")
		assert.True(t, said.read && said.wrote && said.signalled && said.finished)
		assert.Equal(t, len(got.status), len(said.status))
	})
}
