package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/corpus"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/workspace"
)

// Commands that would do all kinds of harm are run here as if each only read, so that
// only the confinement to reading stops them. They always run inside a second wall:
// namespaces without a way out, in which nobody is root, where the tree and the home
// directory are the only places of a disk that can be changed, and where processes,
// memory and time are bounded.

const secondWall = "AYCODER_TEST_SECOND_WALL"

// An attackCase is one of the commands of the shared attacks.
type attackCase struct {
	ID, Cmd, Class  string
	DefaultDecision string `json:"default_decision"`
}

func attackCases(t testing.TB) []attackCase {
	data, err := os.ReadFile(corpus.Path(t, "attacks/shell_commands.shared.json", "599 commands"))
	require.NoError(t, err)
	var file struct{ Cases []attackCase }
	require.NoError(t, json.Unmarshal(data, &file))
	require.NotEmpty(t, file.Cases)
	return file.Cases
}

// evaders are commands that a classifier once took for read-only. P is the name of a file
// that they make.
var evaders = []string{
	"ls # \\\nrm -rf src",
	"sed ':a e touch P' README.md",
	"sed -n '1{e touch P\n}' README.md",
	"sed 's/.*/touch P/e' README.md",
	"sed -n 'w P' README.md",
	"a=('b[$(touch P)]'); ((a))",
	"x=y; y=z; z='a[$(touch P)]'; echo $((x))",
	"echo 'a[$(touch P)]' >$TMPDIR/f; mapfile a <$TMPDIR/f; ((a))",
	"declare -a a='($(touch P))'",
	"env x='a[$(touch P)]' bash -c '((x))'",
	"awk '1system(\"touch P\")' README.md",
	"awk 'BEGIN{print > \"P\"}'",
	"awk 'BEGIN{print | \"touch P\"}'",
	"echo 'BEGIN{system(\"touch P\")}' >$TMPDIR/evil.awk; awk -W exec=$TMPDIR/evil.awk",
	"git submodule --quiet foreach 'touch P'",
	"git log --output=P",
	"git -c core.pager='touch P' -p log",
	"xz -l -d a.xz", "xz -d a.xz", "gzip -d a.gz",
	"pip list --log P",
	"tar tf a.tar --volno-file=P",
	"tar tf a.tar --checkpoint=1 --checkpoint-action=exec='touch P'",
	"shfmt --write x.sh",
	"cat --exec=rm README.md",
	"git log --some-new-exec=rm",
	"find . -fprint P", "find . -delete", "find . -exec rm {} +",
	"sort -o P README.md", "sort --compress-program='touch P' -S 1 README.md",
	"rm -rf \"$UNSET\"/", "rm -rf /", "rm -rf ~ .", "reboot", "shutdown -h now", "kill -9 -1", "killall5 -9",
	":(){ :|:& };:",
	"yes >P", "yes >$TMPDIR/y", "cat /dev/zero | tail", "setsid sleep 1000 & disown", "nohup sleep 1000 >/dev/null 2>&1 &",
	"(setsid setsid sleep 1000 &) ; ulimit -R 5; setsid sleep 1000 &",
}

// effects are commands that each do a different, harmless thing. They prove that the
// checks would find it.
func effects(l *listeners) []string {
	return []string{
		"touch new", "touch README.md", "touch -a README.md", "touch -d 2001-01-01 notes.txt", "rm notes.txt", "rm -r old",
		"mv main.go other.go", "mv src src2", "chmod 600 README.md", "chmod u+s data.csv", "chmod 700 .",
		"setfattr -n user.x -v 1 README.md", "setfattr -h -x user.kept data.csv", "setfacl -m u:1000:r data.csv",
		"chattr +d README.md", "ln README.md hard", "ln -s README.md soft", "mkdir dir", "rmdir empty",
		"truncate -s 0 data.csv", ">Makefile", "echo x >>package.json", "printf y | dd of=README.md conv=notrunc status=none",
		"sed -i s/a/b/ README.md", "cp README.md copy", "echo x | tee tee.txt", "mkfifo pipe", "sort -o sorted README.md",
		"git config a.b c", "git add -A", "tar cf x.tar README.md", "gzip -k README.md", "split -l 1 README.md part",
		"mktemp ./tmp.XXXXXX", "install -m 755 README.md installed", "echo x >>~/.bashrc", "mv ~/.profile ~/profile",
		"echo x >/dev/shm/x", "ipcmk -M 64",
		"exec 3<>/dev/tcp/127.0.0.1/" + l.tcp, "echo x >/dev/udp/127.0.0.1/" + l.udp,
		"perl -MIO::Socket::UNIX -e 'IO::Socket::UNIX->new(Peer => \"/home/user/agent.sock\") or die'",
		"setsid sleep 1000 &", "(sleep 1001 &)",
	}
}

// listeners count the connections and signals that reach them.
type listeners struct {
	tcp, udp string
	reached  atomic.Int64
}

func listenAll(t *testing.T) *listeners {
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	path, err := net.Listen("unix", "/home/user/agent.sock")
	require.NoError(t, err)
	abstract, err := net.Listen("unix", "@agent")
	require.NoError(t, err)
	_, tcpPort, _ := net.SplitHostPort(tcp.Addr().String())
	_, udpPort, _ := net.SplitHostPort(udp.LocalAddr().String())
	l := &listeners{tcp: tcpPort, udp: udpPort}
	for _, accept := range []net.Listener{tcp, path, abstract} {
		go func() {
			for {
				c, err := accept.Accept()
				if err != nil {
					return
				}
				l.reached.Add(1)
				c.Close()
			}
		}()
	}
	go func() {
		for buf := make([]byte, 16); ; l.reached.Add(1) {
			if _, _, err := udp.ReadFrom(buf); err != nil {
				return
			}
		}
	}()
	for _, c := range []io.Closer{tcp, udp, path, abstract} {
		t.Cleanup(func() { c.Close() })
	}
	return l
}

// scene is the state that is compared before and after.
type scene struct {
	t *testing.T
	l *listeners
}

// look describes everything that a command could have changed, one line for each thing.
func (s *scene) look() map[string]string {
	s.t.Helper()
	all := map[string]string{}
	for _, root := range []string{"/ws", "/home/user"} {
		require.NoError(s.t, filepath.WalkDir(root, func(name string, _ fs.DirEntry, err error) error {
			require.NoError(s.t, err)
			all[name] = describe(s.t, name)
			return nil
		}))
	}
	for _, dir := range []string{"/tmp", "/dev/shm", "/dev/mqueue"} {
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			all[filepath.Join(dir, e.Name())] = "is there"
		}
	}
	for _, kind := range []string{"shm", "sem", "msg"} {
		data, err := os.ReadFile("/proc/sysvipc/" + kind)
		require.NoError(s.t, err)
		all[kind] = string(data)
	}
	for _, pid := range others(s.t) {
		cmd, _ := os.ReadFile("/proc/" + pid + "/cmdline")
		all["process "+pid] = string(cmd)
	}
	all["reached"] = strconv.FormatInt(s.l.reached.Load(), 10)
	return all
}

// describe returns the content, names, mode, owner, times, attributes and flags of a
// file. The access time is left out, since reading may change it.
func describe(t *testing.T, name string) string {
	var st unix.Stat_t
	require.NoError(t, unix.Lstat(name, &st))
	var text strings.Builder
	text.WriteString(fmt.Sprintf("%o %d:%d %d links, %d bytes, %v %v", st.Mode, st.Uid, st.Gid, st.Nlink, st.Size, st.Mtim, st.Ctim))
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		data, err := os.ReadFile(name)
		require.NoError(t, err)
		text.WriteString(fmt.Sprintf(" %q", data))
	case unix.S_IFLNK:
		to, err := os.Readlink(name)
		require.NoError(t, err)
		text.WriteString(" to " + to)
	}
	list := make([]byte, 1<<12)
	n, err := unix.Llistxattr(name, list)
	require.NoError(t, err)
	for attr := range strings.SplitSeq(strings.TrimRight(string(list[:n]), "\x00"), "\x00") {
		value := make([]byte, 1<<12)
		n, _ := unix.Lgetxattr(name, attr, value)
		text.WriteString(fmt.Sprintf(" %s=%q", attr, value[:max(n, 0)]))
	}
	if f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0); err == nil {
		flags, err := unix.IoctlGetUint32(int(f.Fd()), unix.FS_IOC_GETFLAGS)
		text.WriteString(fmt.Sprintf(" flags %x %v", flags, err))
		f.Close()
	}
	return text.String()
}

// others returns the processes other than this one and the first of the namespace,
// without those that the first is about to reap.
func others(t *testing.T) []string {
	entries, err := os.ReadDir("/proc")
	require.NoError(t, err)
	var out []string
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == 1 || pid == os.Getpid() {
			continue
		}
		stat, _ := os.ReadFile("/proc/" + e.Name() + "/stat")
		_, state, _ := strings.Cut(string(stat), ") ")
		if len(stat) > 0 && !strings.HasPrefix(state, "Z 1 ") && !killed(e.Name(), strings.Fields(state)) {
			out = append(out, e.Name())
		}
	}
	return out
}

// killed reports whether a process is ending, which takes a while if it has much memory: it is exiting, or SIGKILL
// is pending. The fields are those of proc_pid_stat(5) from the state on.
func killed(pid string, stat []string) bool {
	const flags, exiting, sigkill = 6, 4, 1 << (syscall.SIGKILL - 1)
	bits := func(s string, base int) uint64 {
		n, _ := strconv.ParseUint(s, base, 64)
		return n
	}
	if len(stat) > flags && bits(stat[flags], 10)&exiting != 0 {
		return true
	}
	status, _ := os.ReadFile("/proc/" + pid + "/status")
	for line := range strings.Lines(string(status)) {
		if name, mask, _ := strings.Cut(line, ":"); (name == "SigPnd" || name == "ShdPnd") && bits(strings.TrimSpace(mask), 16)&sigkill != 0 {
			return true
		}
	}
	return false
}

// differences compares two looks.
func differences(before, after map[string]string) (out []string) {
	for name, text := range after {
		if was, ok := before[name]; was != text || !ok {
			out = append(out, fmt.Sprintf("%s: %.200q -> %.200q", name, was, text))
		}
	}
	for name := range before {
		if _, ok := after[name]; !ok {
			out = append(out, name+" is gone")
		}
	}
	slices.Sort(out)
	return out
}

// build makes the tree and the home directory.
func build(t *testing.T) {
	files := map[string]string{
		"/ws/README.md": "# a\nb\n", "/ws/main.go": "package main\n", "/ws/data.csv": "a,b\n1,2\n", "/ws/notes.txt": "TODO\n",
		"/ws/.env": "KEY=1\n", "/ws/scripts/build.sh": "#!/bin/sh\ntouch built\n", "/ws/src/a.py": "print(1)\n",
		"/ws/my file.txt": "x\n", "/ws/Makefile": "all:\n\ttouch made\n", "/ws/package.json": "{}\n", "/ws/old/x.txt": "x\n",
		"/ws/x.sh": "echo  1\n", "/home/user/.bashrc": "# rc\n", "/home/user/.profile": "# profile\n",
		"/home/user/.ssh/id_ed25519": "key\n", "/home/user/.aws/credentials": "secret\n",
	}
	for name, text := range files {
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
		require.NoError(t, os.WriteFile(name, []byte(text), 0o644))
	}
	require.NoError(t, os.Chmod("/ws/scripts/build.sh", 0o755))
	require.NoError(t, os.Mkdir("/ws/empty", 0o755))
	require.NoError(t, unix.Setxattr("/ws/data.csv", "user.kept", []byte("1"), 0))
	script := `git init -q . && git add README.md main.go && git -c user.name=a -c user.email=a@b commit -qm x &&
tar cf a.tar README.md && echo x | gzip >a.gz; echo x | xz >a.xz; git config alias.x '!touch P'`
	out, err := exec.CommandContext(t.Context(), "bash", "-c", "cd /ws; "+script).CombinedOutput()
	require.NoError(t, err, string(out))
}

// TestHeldInSecondWall runs inside of the second wall, as its program.
func TestHeldInSecondWall(t *testing.T) {
	if os.Getenv(secondWall) == "" {
		t.Skip("TestHeld starts this inside of a second wall")
	}
	// The rest is harmful anywhere else.
	require.Less(t, os.Getpid(), 100, "no namespace of processes")
	require.NotZero(t, os.Getuid())
	ifs, err := net.Interfaces()
	require.NoError(t, err)
	require.Len(t, ifs, 1, "no namespace of the network")
	require.ErrorIs(t, os.WriteFile("/etc/aycoder-test", nil, 0o600), syscall.EROFS)

	build(t)
	s := &scene{t, listenAll(t)}
	s.controls()
	cases := effects(s.l)
	cases = append(cases, evaders...)
	var shared []string
	data, err := os.ReadFile("/cases.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &shared))
	s.held(append(cases, shared...))
	t.Logf("%d effects, %d evaders and %d shared cases did nothing", len(effects(s.l)), len(evaders), len(shared))
}

// notFound is the exit status of a shell that does not find a program.
const notFound = 127

// controls runs each effect without confinement, and checks that it is found. An effect whose
// program this machine lacks is named; the others must suffice.
func (s *scene) controls() {
	all, seen := effects(s.l), 0
	for _, c := range all {
		before := s.look()
		cmd := exec.CommandContext(s.t.Context(), "bash", "-c", c)
		cmd.Dir = "/ws" // no pipe for output: a surviving process would keep it open
		err := cmd.Run()
		if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() == notFound {
			s.t.Logf("not on this machine: %s", c)
			continue
		}
		if !assert.NoError(s.t, err, c) {
			continue
		}
		found := func() bool { return len(differences(before, s.look())) > 0 }
		timed.Until(s.t, found, c, " to be seen")
		for _, pid := range others(s.t) {
			n, _ := strconv.Atoi(pid)
			_ = syscall.Kill(n, syscall.SIGKILL)
		}
		timed.Until(s.t, func() bool { return len(others(s.t)) == 0 }, "all processes to end")
		seen++
	}
	assert.GreaterOrEqual(s.t, seen, 40)
	s.t.Logf("%d of %d effects were seen", seen, len(all))
}

// held runs commands confined to reading, and checks that nothing changed.
func (s *scene) held(cases []string) {
	require.NoError(s.t, os.RemoveAll("/dev/shm/x"))
	ws, err := workspace.Open("/ws")
	require.NoError(s.t, err)
	defer ws.Close()
	bash, err := Bash(ws, WithMemoryLimit(512<<20), WithEnv("HOME=/home/user"))
	require.NoError(s.t, err)
	report, err := CheckSandbox(s.t.Context(), NoSandbox(), SandboxCall{ReadOnly: true})
	require.NoError(s.t, err)
	require.True(s.t, report.ReadOnly, report)
	before := s.look()
	for _, c := range cases {
		// A fork bomb must not take threads from this process.
		script := "ulimit -u 150\n" + c
		inv := aycoder.NewInvocation("1", "bash", mustJSON(s.t, args{"command": script, "timeout": 1}), nil)
		inv.ReadOnly = true
		r, err := bash.Call(s.t.Context(), inv)
		require.NoError(s.t, err, c)
		after := s.look()
		if diff := differences(before, after); len(diff) > 0 {
			s.t.Errorf("%s\n%s\ndid this:\n%s", c, r.Text(), strings.Join(diff, "\n"))
			before = after
		}
	}
}

// No command changes anything, even if a classifier took it for read-only.
func TestHeld(t *testing.T) {
	timed.Serial(t)
	timed.Long(t, "commands that are held to reading")
	t.Parallel()
	if r, err := CheckSandbox(t.Context(), NoSandbox(), SandboxCall{ReadOnly: true}); err != nil || !r.ReadOnly {
		t.Skipf("nothing holds commands to reading here: %v %v", r, err)
	}
	var cases []string
	for _, c := range attackCases(t) {
		if c.Class != "read_only" {
			cases = append(cases, c.Cmd)
		}
	}
	if testing.Short() {
		for i := range len(cases) / 4 {
			cases[i] = cases[4*i]
		}
		cases = cases[:len(cases)/4]
	}
	cmd := newSecondWall(t, cases)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	require.Contains(t, string(out), "--- PASS: TestHeldInSecondWall")
	t.Logf("%s", out)
}

// newSecondWall returns the command that runs TestHeldInSecondWall in bwrap. It skips the
// test where namespaces are not available.
func newSecondWall(t *testing.T, cases []string) *exec.Cmd {
	t.Helper()
	bwrap, err := exec.LookPath("bwrap")
	if err != nil {
		t.Skip("bwrap is not on this machine, and nothing of this runs without it")
	}
	base, err := os.MkdirTemp("", "aycoder-wall-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(base)) })
	exe, err := os.Executable()
	require.NoError(t, err)
	data, err := os.ReadFile(exe)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(base, "probe"), data, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(base, "cases.json"), mustJSON(t, cases), 0o644))
	argv := []string{
		"--unshare-all", "--die-with-parent", "--new-session", "--uid", "1000", "--gid", "1000", "--cap-drop", "ALL",
		"--size", "268435456", "--tmpfs", "/", "--dev", "/dev", "--proc", "/proc", "--dir", "/tmp",
		"--ro-bind", filepath.Join(base, "probe"), "/probe", "--ro-bind", filepath.Join(base, "cases.json"), "/cases.json",
		"--clearenv", "--setenv", "HOME", "/home/user", "--setenv", "PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
		"--setenv", secondWall, "1", "--chdir", "/ws",
	}
	for _, name := range []string{"ws", "home"} {
		require.NoError(t, os.Mkdir(filepath.Join(base, name), 0o755))
	}
	argv = append(argv, "--bind", filepath.Join(base, "ws"), "/ws", "--bind", filepath.Join(base, "home"), "/home/user")
	for _, name := range []string{"usr", "bin", "sbin", "lib", "lib32", "lib64", "etc"} {
		if to, err := os.Readlink("/" + name); err == nil {
			argv = append(argv, "--symlink", to, "/"+name)
		} else {
			argv = append(argv, "--ro-bind-try", "/"+name, "/"+name)
		}
	}
	argv = append(argv, "--remount-ro", "/etc")
	wall := func(ctx context.Context, program ...string) *exec.Cmd {
		limits := `ulimit -u 2000 -f 524288 -c 0; exec "$0" "$@"`
		cmd := exec.CommandContext(ctx, "bash", slices.Concat([]string{"-c", limits, bwrap}, argv, []string{"--"}, program)...)
		cmd.Dir = "/"
		cmd.WaitDelay = 10 * time.Second
		if os.Getuid() == 0 {
			require.NoError(t, exec.CommandContext(ctx, "chown", "-R", "65534:65534", base).Run())
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		}
		return cmd
	}
	if out, err := wall(t.Context(), "true").CombinedOutput(); err != nil {
		t.Skipf("bwrap can make no namespaces here, and nothing of this runs without: %v: %s", err, out)
	}
	return wall(t.Context(), "/probe", "-test.run=^TestHeldInSecondWall$", "-test.v")
}

// Commands that only read do the same when they are confined to that.
func TestHeldCommandsRead(t *testing.T) {
	timed.Long(t, "commands that are held to reading")
	if timed.Reduced(t) {
		t.Skip("left out with the race detector: the work is that of other programs")
	}
	if r, err := CheckSandbox(t.Context(), NoSandbox(), SandboxCall{ReadOnly: true}); err != nil || !r.ReadOnly {
		t.Skipf("nothing holds commands to reading here: %v %v", r, err)
	}
	w := newWorld(t, map[string]string{
		"README.md": "# a\nfoo\n", "main.go": "package main\n", "data.csv": "a,b\n1,2\n", "notes.txt": "TODO\nb\n",
		"scripts/build.sh": "#!/bin/sh\n", "src/a.py": "import os\n", "my file.txt": "x\n", "Makefile": "all:\n",
		"package.json": "{\"a\": 4}\n", "old/x.txt": "x\n", "-weird": "x\n", "go.mod": "module x\n\ngo 1.25\n",
	})
	setup := "git init -q . && git add . && git -c user.name=a -c user.email=a@b commit -qm x && echo y >>main.go && " +
		"git -c user.name=a -c user.email=a@b commit -qam y"
	c := exec.CommandContext(t.Context(), "bash", "-c", setup)
	c.Dir = w.ws.Dir()
	out, err := c.CombinedOutput()
	require.NoError(t, err, string(out))
	t.Setenv("TMPDIR", t.TempDir())
	conf, err := configure(w.ws, nil)
	require.NoError(t, err)
	run := func(cmd string, readOnly bool) (string, int) {
		var out strings.Builder
		res, err := conf.exec.Run(t.Context(), &ExecCommand{
			Script: cmd, Root: w.ws.Dir(), Dir: w.ws.Dir(), Env: environ(os.Environ(), nil, nil), Output: &out, ReadOnly: readOnly,
		})
		require.NoError(t, err, cmd)
		require.Equal(t, readOnly, res.ReadOnly, cmd)
		return out.String(), res.Code
	}
	same, vary, missing := 0, 0, 0
	for _, c := range attackCases(t) {
		if c.DefaultDecision != "allow" {
			continue
		}
		want, code := run(c.Cmd, false)
		if code == 127 {
			missing++
			t.Logf("not on this machine: %s", c.Cmd)
			continue
		}
		got, gotCode := run(c.Cmd, true)
		assert.Equal(t, code, gotCode, "%s: %s", c.Cmd, got)
		if got == want {
			same++
			continue
		}
		// Only what prints something else without being confined may do so here. Some
		// repeat themselves by chance: two runs often take the same number of milliseconds.
		varies := false
		for i := 0; i < 50 && !varies; i++ {
			again, _ := run(c.Cmd, false)
			varies = again != want
		}
		assert.True(t, varies, "%s printed\n%s\nand when confined\n%s", c.Cmd, want, got)
		vary++
		t.Logf("says something else now and then: %s", c.Cmd)
	}
	t.Logf("%d say the same, %d something else each time, %d are not on this machine", same, vary, missing)
	assert.Greater(t, same, 90)
	left, err := os.ReadDir(os.TempDir())
	require.NoError(t, err)
	assert.Empty(t, left)
}
