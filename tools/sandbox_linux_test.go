package tools

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/egress"
	"github.com/aycoder/aycoder/internal/timed"
)

var mechanisms = map[string]func(FS, ...SandboxOption) (*LocalSandbox, error){
	"landlock": Landlock, "bwrap": Bubblewrap,
}

// sandboxes returns the sandboxes that work on this machine, by name.
func sandboxes(t *testing.T, ws FS, opts ...SandboxOption) map[string]*LocalSandbox {
	t.Helper()
	out := map[string]*LocalSandbox{}
	for name, open := range mechanisms {
		s, err := open(ws, opts...)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, s.Close()) })
		if _, err := CheckSandbox(t.Context(), s, SandboxCall{}); err != nil {
			t.Logf("not on this machine: %v", err)
			continue
		}
		out[name] = s
	}
	if len(out) == 0 {
		t.Skip("this machine has no sandbox")
	}
	return out
}

// shell runs a script in a sandbox, in the directory of a workspace.
func shell(t *testing.T, s Sandbox, dir, script string, call SandboxCall) (string, error) {
	t.Helper()
	path, err := findShell()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), path, "-c", script)
	cmd.Dir = dir
	cmd.Env = environ(os.Environ(), nil, []string{
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b.c", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b.c",
		"GOFLAGS=-mod=mod", "GOPROXY=off",
	})
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if _, err := s.Start(t.Context(), cmd, call); err != nil {
		return out.String(), err
	}
	err = cmd.Wait()
	return out.String(), err
}

func TestSandboxedWork(t *testing.T) {
	timed.Long(t, "builds and tests in a sandbox")
	if timed.Reduced(t) {
		t.Skip("left out with the race detector: the work is that of other programs")
	}
	tests := []struct{ name, needs, script, want string }{
		{"commit", "git", "git init -q . && git add . && git commit -qm x && git log --oneline | wc -l", "1\n"},
		{"branch", "git", "git init -q . && git add . && git commit -qm x && " +
			"git checkout -qb y && git config a.b c && git gc -q && git status -s", ""},
		{"build", "go", "go build -o prog . && ./prog", "hi\n"},
		{"test", "go", "go vet . && go test . 2>&1 | cut -c1-2", "ok\n"},
		{"python", "python3", "python3 -c 'import json, subprocess, tempfile; print(json.dumps(1), flush=True); " +
			`subprocess.run(["echo", "2"]); tempfile.TemporaryFile()'`, "1\n2\n"},
		{"node", "node", `node -e 'require("child_process").execSync("echo 1", {stdio: "inherit"}); ` +
			`require("os").networkInterfaces()'`, "1\n"},
		{"compiler", "gcc", "echo 'int main(void) { return 7; }' >a.c && gcc -o a a.c; ./a; echo $?", "7\n"},
		{"rust", "rustc", "echo 'fn main() { println!(\"1\"); }' >a.rs && rustc a.rs && ./a", "1\n"},
		{"cargo", "cargo", "cargo init -q --name x --vcs none c && cd c && cargo run -q --offline", "Hello, world!\n"},
		{"pipes", "", "seq 1000 | sort -rn | head -n 1 | tee x | cat; cat x", "1000\n1000\n"},
		{"large sort", "", "seq 300000 | sort -R -S 1M | sort -n -S 1M | tail -n 1", "300000\n"},
		{"background", "", "(echo 1; sleep 0.1; echo 2) & wait; sleep 60 & kill %1; echo 3", "1\n2\n3\n"},
		{"here document", "", "cat <<E\n$((1+1))\nE\ncat < <(echo 3)", "2\n3\n"},
		{"temporary directory", "", `d=$(mktemp -d) && echo 1 >$d/x && cat $d/x && rm -r $d`, "1\n"},
		{"descriptors", "", "echo 1 >/dev/stdout; echo 2 >/dev/fd/1; echo 3 >/dev/stderr; " +
			"echo 4 | cat /dev/stdin", "1\n2\n3\n4\n"},
		{"replace", "", "sed -i s/hi/ho/ main.go && grep -c ho main.go", "1\n"},
		{"move", "", "mkdir -p a/b && mv main.go a/b/ && ln a/b/main.go l && ln -s l m && rm -r a && " +
			"cat m | head -n 1", "package main\n"},
		{"users and times", "", "id -u >/dev/null && TZ=Europe/Berlin date >/dev/null && echo ok", "ok\n"},
		{"patch", "patch",
			"printf -- '--- main.go\\n+++ main.go\\n@@ -1 +1 @@\\n-package main\\n+package x\\n' | patch -s && " +
				"head -n 1 main.go", "package x\n"},
		{"archive", "", "tar cf x.tar main.go && rm main.go && tar xf x.tar && ls main.go", "main.go\n"},
	}
	files := map[string]string{
		"go.mod": "module x\n\ngo 1.25\n", "main.go": "package main\n\nfunc main() { println2(\"hi\") }\n",
		"print.go":     "package main\n\nimport \"os\"\n\nfunc println2(s string) { os.Stdout.WriteString(s + \"\\n\") }\n",
		"main_test.go": "package main\n\nimport \"testing\"\n\nfunc TestX(t *testing.T) { t.TempDir() }\n",
	}
	first := newWorld(t, nil)
	for name := range sandboxes(t, first.ws) {
		for _, tt := range tests {
			t.Run(name+"/"+tt.name, func(t *testing.T) {
				if name == "bwrap" && slices.Contains([]string{"rustc", "cargo", "node", "go", "patch"}, tt.needs) {
					t.Skip("slow, and tried with landlock")
				}
				if _, err := exec.LookPath(tt.needs); tt.needs != "" && err != nil {
					t.Skipf("%s is not on this machine", tt.needs)
				}
				w := newWorld(t, files)
				s, err := mechanisms[name](w.ws)
				require.NoError(t, err)
				t.Cleanup(func() { require.NoError(t, s.Close()) })
				out, err := shell(t, s, w.ws.Dir(), tt.script, SandboxCall{})
				require.NoError(t, err, out)
				assert.Equal(t, tt.want, out)
			})
		}
	}
}

func TestSandboxRefuses(t *testing.T) {
	timed.Serial(t)
	// Under bwrap, some of these are not errors but have no effect outside.
	tests := []struct {
		name, script string
		landlock     bool
	}{
		{"read outside", "cat ../secret", false},
		{"list outside", "ls .. | grep secret", false},
		{"change outside", "echo x >>../secret", true},
		{"list the home directory", "ls ~", true},
		{"read the home directory", "cat ~/.profile ~/.bashrc ~/.gitconfig ~/.ssh/* | grep .", false},
		{"change the home directory", "echo x >~/.profile.new", false},
		{"root's secrets", "cat /etc/shadow | grep .", false},
		{"link", "ln -s ../secret s; cat s", false},
		{"move out", "echo x >f; mv f ../new", true},
		{"signal the host", "kill -0 $HOST", false},
		{"new privileges", "grep -q 'NoNewPrivs:.0' /proc/self/status", false},
		{"environment of the host", "tr '\\0' '\\n' </proc/$HOST/environ | grep PATH=", false},
		{"network", "exec 3<>/dev/tcp/127.0.0.1/PORT", false},
		{"datagrams", "echo x >/dev/udp/127.0.0.1/PORT", true},
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	w := newWorld(t, map[string]string{"f": "x"})
	require.NoError(t, os.WriteFile(filepath.Join(w.base, "secret"), []byte("s\n"), 0o666))
	for name, s := range sandboxes(t, w.ws) {
		for _, tt := range tests {
			t.Run(name+"/"+tt.name, func(t *testing.T) {
				script := strings.NewReplacer("PORT", port, "$HOST", strconv.Itoa(os.Getpid())).Replace(tt.script)
				out, err := shell(t, s, w.ws.Dir(), script, SandboxCall{})
				if _, failed := errors.AsType[*exec.ExitError](err); name == "landlock" || !tt.landlock {
					assert.True(t, failed, "%v: %s", err, out)
				}
			})
		}
		t.Run(name+"/network for one command", func(t *testing.T) {
			script := "exec 3<>/dev/tcp/127.0.0.1/" + port
			_, err := shell(t, s, w.ws.Dir(), script, SandboxCall{Network: true})
			require.NoError(t, err)
			_, err = shell(t, s, w.ws.Dir(), script, SandboxCall{})
			require.Error(t, err)
		})
	}
	data, err := os.ReadFile(filepath.Join(w.base, "secret"))
	require.NoError(t, err)
	assert.Equal(t, "s\n", string(data))
	assert.NoFileExists(t, filepath.Join(w.base, "new"))
}

func TestSandboxOptions(t *testing.T) {
	timed.Serial(t)
	w := newWorld(t, map[string]string{"f": "x", ".git/hooks/h": "x", ".git/config": "x", "d/f": "x"})
	more := filepath.Join(w.base, "more")
	require.NoError(t, os.Mkdir(more, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(w.base, "seen"), []byte("s\n"), 0o644))
	tests := []struct {
		name, script string
		opt          SandboxOption
		bwrap        bool // with bwrap only
	}{
		{"read", "cat ../seen; (! true >>../seen)", WithSandboxRead(filepath.Join(w.base, "seen")), false},
		{"write", "echo 1 >../more/x; cat ../more/x", WithSandboxWrite(more), false},
		{"protect", "cat .git/config; echo y >>f; echo y >>d/f; echo y >>d/new; " +
			"! (echo y >>.git/config) && ! (echo y >.git/new) && ! mv .git x && ! (echo y >.git/hooks/h)",
			WithSandboxProtect(".git"), false},
		{"protect inside",
			"echo y >>.git/config; echo y >.git/new && ! (echo y >.git/hooks/h) && ! (echo y >.git/hooks/n)",
			WithSandboxProtect(".git/hooks"), true},
		{"own caches", `case "$GOCACHE" in "$TMPDIR"/*) ;; *) exit 1 ;; esac; mkdir -p "$GOCACHE"`,
			WithSandboxSharedCaches(false), false},
	}
	for _, tt := range tests {
		for name, s := range sandboxes(t, w.ws, tt.opt) {
			if tt.bwrap && name != "bwrap" {
				continue
			}
			t.Run(tt.name+"/"+name, func(t *testing.T) {
				out, err := shell(t, s, w.ws.Dir(), "set -e; "+tt.script, SandboxCall{Require: true})
				require.NoError(t, err, out)
			})
		}
	}
	_, err := Landlock(w.ws, WithSandboxRead("/no/such/directory"))
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = Landlock(w.ws, WithSandboxProtect("../x"))
	require.ErrorContains(t, err, `not a path in the workspace: "../x"`)
	_, err = Landlock(nil)
	require.ErrorContains(t, err, "workspace is nil")
}

func TestSandboxTemporaryFiles(t *testing.T) {
	w := newWorld(t, nil)
	for name, s := range sandboxes(t, w.ws) {
		t.Run(name, func(t *testing.T) {
			script := "mkdir -p $TMPDIR/a/b; echo 1 >$TMPDIR/a/b/c; chmod 0 $TMPDIR/a/b $TMPDIR/a; echo -n $TMPDIR"
			out, err := shell(t, s, w.ws.Dir(), script, SandboxCall{})
			require.NoError(t, err, out)
			assert.DirExists(t, out)
			require.NoError(t, s.Close())
			assert.NoDirExists(t, out)
			require.NoError(t, s.Close())
			_, err = shell(t, s, w.ws.Dir(), "true", SandboxCall{})
			require.ErrorIs(t, err, ErrSandbox)
			require.ErrorContains(t, err, "the sandbox is closed")
		})
	}
}

// refusing is a sandbox that does not work.
type refusing struct{}

func (refusing) Start(_ context.Context, cmd *exec.Cmd, _ SandboxCall) (*SandboxReport, error) {
	cmd.Path = "/changed"
	return nil, &SandboxError{"refusing", "look for it", errors.ErrUnsupported}
}

func TestSandboxFallback(t *testing.T) {
	w := newWorld(t, nil)
	_, err := shell(t, FirstSandbox(refusing{}), w.ws.Dir(), "true", SandboxCall{})
	require.ErrorIs(t, err, ErrSandbox)
	require.ErrorIs(t, err, errors.ErrUnsupported)
	out, err := shell(t, FirstSandbox(refusing{}, NoSandbox()), w.ws.Dir(), "echo 1", SandboxCall{})
	require.NoError(t, err)
	assert.Equal(t, "1\n", out)
	_, err = shell(t, FirstSandbox(refusing{}, NoSandbox()), w.ws.Dir(), "echo 1", SandboxCall{Require: true})
	e, ok := errors.AsType[*SandboxError](err)
	require.True(t, ok)
	assert.Equal(t, "refusing", e.Mechanism)
	require.ErrorContains(t, err, "sandbox by none: require: not everything can be enforced here")
	r, err := CheckSandbox(t.Context(), NoSandbox(), SandboxCall{})
	require.NoError(t, err)
	assert.Equal(t, "none; not enforced: commands can do all that the host can", r.String())
}

// The options decide which sandbox bash gets.
func TestSandboxStarter(t *testing.T) {
	w := newWorld(t, nil)
	start := func(opts ...Option) (*SandboxReport, error) {
		c, err := configure(w.ws, opts)
		require.NoError(t, err)
		var r *SandboxReport
		cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", ":")
		if err := c.exec.(*localExec).confiner.starter(t.Context(), SandboxCall{}, &r)(cmd); err != nil {
			return nil, err
		}
		return r, cmd.Wait()
	}
	r, err := start()
	require.NoError(t, err)
	assert.Equal(t, "none", r.Mechanism)
	_, err = start(WithSandboxRequired(true))
	p, ok := errors.AsType[*problem](err)
	require.True(t, ok)
	assert.Equal(t, "no_sandbox", p.kind)
	_, err = start(WithSandbox(refusing{}))
	require.ErrorContains(t, err, "sandbox by refusing: look for it: unsupported operation; this does not change")
	for name, s := range sandboxes(t, w.ws) {
		r, err = start(WithSandbox(s), WithSandboxRequired(true))
		require.NoError(t, err)
		assert.Equal(t, name, r.Mechanism)
		t.Log(r)
	}
	_, err = configure(w.ws, []Option{WithSandbox(nil)})
	require.ErrorContains(t, err, "sandbox is nil")
}

// A program that stays has the sandbox of the commands, and no network where they have a proxy.
func TestLocalStart(t *testing.T) {
	w := newWorld(t, nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	proxy, err := egress.New()
	require.NoError(t, err)
	outside := filepath.Join(w.base, "outside")
	tries := func(opts ...Option) (writes, connects bool) {
		start, err := LocalStart(append(opts, WithExecMiddleware(func(e Exec) Exec { return e }))...)
		require.NoError(t, err)
		cmd := exec.CommandContext(t.Context(), "bash", "-c", "echo x >"+outside+"; exec 3<>/dev/tcp/"+strings.Replace(l.Addr().String(), ":", "/", 1))
		cmd.Dir = w.ws.Dir()
		require.NoError(t, start(t.Context(), cmd))
		connects = cmd.Wait() == nil
		return os.Remove(outside) == nil, connects
	}
	writes, connects := tries()
	require.True(t, writes && connects)
	for name, s := range sandboxes(t, w.ws, WithSandboxNetwork(true)) {
		writes, connects = tries(WithSandbox(s))
		require.True(t, !writes && connects, name)
		writes, connects = tries(WithSandbox(s), WithProxy(proxy))
		require.False(t, writes || connects, name)
	}
	local, err := LocalExec()
	require.NoError(t, err)
	start, err := LocalStart(WithExec(local))
	require.NoError(t, err)
	require.Nil(t, start)
	start, err = LocalStart(WithSandboxRequired(true))
	require.NoError(t, err)
	require.ErrorIs(t, start(t.Context(), exec.CommandContext(t.Context(), "true")), ErrSandbox)
}
