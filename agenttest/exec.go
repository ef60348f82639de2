package agenttest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aycoder/aycoder/tools"
)

// execSuite is one check of a [tools.Exec].
type execSuite struct {
	tools.Exec
	t     testing.TB
	found *findings
	base  string // has ws and what is outside of it
	dir   string // of the workspace, on this machine
	root  string // the same where commands run
}

// TestExec tests that commands run by the contract of [tools.Exec], with a subtest for each of its
// sentences. The function newExec gets a directory of this machine, which is the workspace; it
// returns what runs the commands, and the path that the directory has there. A shell and the usual
// programs (cat, chmod, env, kill, printf, sleep) must be there. On Windows the suite is skipped.
func TestExec(t *testing.T, newExec func(t testing.TB, dir string) (e tools.Exec, root string)) {
	if runtime.GOOS == "windows" {
		t.Skip("there is no shell here")
	}
	for _, c := range execChecks {
		t.Run(c.name, func(t *testing.T) {
			s := newExecSuite(t, newExec)
			c.check(s)
			s.found.report(t)
		})
	}
}

func newExecSuite(t testing.TB, newExec func(t testing.TB, dir string) (tools.Exec, string)) *execSuite {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	s := &execSuite{t: t, found: &findings{}, base: base, dir: filepath.Join(base, "ws")}
	if err == nil {
		err = os.MkdirAll(filepath.Join(s.dir, "sub"), 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	s.Exec, s.root = newExec(t, s.dir)
	return s
}

// execChecks are the checks of the suite, in the order of the contract.
var execChecks = []struct {
	name  string
	check func(*execSuite)
}{
	{"Output", (*execSuite).output},
	{"EveryByte", (*execSuite).everyByte},
	{"WhileRunning", (*execSuite).whileRunning},
	{"WriteIsExclusive", (*execSuite).writeIsExclusive},
	{"Script", (*execSuite).script},
	{"LongScript", (*execSuite).longScript},
	{"Once", (*execSuite).once},
	{"NoInput", (*execSuite).noInput},
	{"Code", (*execSuite).code},
	{"Signal", (*execSuite).signal},
	{"LeavesNothing", (*execSuite).leavesNothing},
	{"LeavesNoDaemon", (*execSuite).leavesNoDaemon},
	{"Cancel", (*execSuite).cancel},
	{"CancelledBefore", (*execSuite).cancelledBefore},
	{"Directory", (*execSuite).directory},
	{"LastDirectory", (*execSuite).lastDirectory},
	{"DirectoryOutside", (*execSuite).directoryOutside},
	{"Environment", (*execSuite).environment},
	{"ReadOnly", (*execSuite).readOnly},
	{"Concurrent", (*execSuite).concurrent},
	{"Environ", (*execSuite).environ},
	{"Approved", (*execSuite).approved},
}

// wrong reports that a sentence of the contract is broken.
func (s *execSuite) wrong(format string, args ...any) { s.found.add("commands", format, args...) }

// sinkBuffer collects output, and notices what is not allowed.
type sinkBuffer struct {
	mu      sync.Mutex
	b       bytes.Buffer
	writing atomic.Int32
	closed  atomic.Bool
	bad     atomic.Pointer[string]
	when    string // call seen when this was written
	seen    func()
}

func (w *sinkBuffer) Write(p []byte) (int, error) {
	if w.writing.Add(1) > 1 {
		w.bad.Store(new("Write is called concurrently"))
	}
	defer w.writing.Add(-1)
	if w.closed.Load() {
		w.bad.Store(new("Write is called after Run has returned"))
	}
	w.mu.Lock()
	w.b.Write(p)
	seen := w.seen
	if seen != nil && strings.Contains(w.b.String(), w.when) {
		w.seen = nil
	} else {
		seen = nil
	}
	w.mu.Unlock()
	runtime.Gosched() // for another Write to be noticed
	if seen != nil {
		seen()
	}
	return len(p), nil
}

// command returns a command with a plain environment.
func (s *execSuite) command(script string) *tools.ExecCommand {
	env := []string{"PATH=" + os.Getenv("PATH")}
	if r, ok := s.Exec.(tools.RemoteExec); ok {
		env = r.Environ()
	}
	return &tools.ExecCommand{Script: script, Root: s.root, Dir: s.root, Env: append(env, "LC_ALL=C")}
}

// run runs a command, and checks what holds for all of them.
func (s *execSuite) run(ctx context.Context, c *tools.ExecCommand) (string, *tools.ExecResult, error) {
	out, _ := c.Output.(*sinkBuffer)
	if out == nil {
		out = &sinkBuffer{}
		c.Output = out
	}
	res, err := s.Run(ctx, c)
	out.closed.Store(true)
	if bad := out.bad.Load(); bad != nil {
		s.wrong("%s", *bad)
	}
	switch {
	case res == nil && err == nil:
		s.wrong("Run returns neither a result nor an error")
	case res != nil && err == nil && (res.Survivors != 0 || res.Held):
		s.wrong("a result has survivors: %+v", res)
	case res != nil && res.ReadOnly && !c.ReadOnly:
		s.wrong("a command was held to reading that was not to be")
	}
	out.mu.Lock()
	defer out.mu.Unlock()
	return out.b.String(), res, err
}

// prints runs a script that ends well, and checks its output.
func (s *execSuite) prints(script, want string) {
	got, res, err := s.run(s.t.Context(), s.command(script))
	if err != nil || res == nil || res.Code != 0 || res.Signal != "" || got != want {
		s.wrong("%s prints %s (%+v, %v), want %s", shown(script), shown(got), res, err, shown(want))
	}
}

// patience is how long the suite waits for what a right implementation does at once.
const patience = 20 * time.Second

func (s *execSuite) output() {
	s.prints("echo a; echo b >&2; echo c; printf d >&2; echo e", "a\nb\nc\nde\n")
	s.prints("true", "")
}

func (s *execSuite) everyByte() {
	want := noise(3<<20 + 11)
	if err := os.WriteFile(filepath.Join(s.dir, "noise"), []byte(want), 0o644); err != nil {
		s.t.Fatal(err)
	}
	s.prints("cat noise", want)
}

func (s *execSuite) whileRunning() {
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	c := s.command("echo ready; while [ ! -e go ]; do sleep 0.01; done; echo gone")
	c.Output = &sinkBuffer{when: "ready\n", seen: func() {
		if err := os.WriteFile(filepath.Join(s.dir, "go"), nil, 0o644); err != nil {
			s.wrong("write: %v", err)
		}
	}}
	if got, _, err := s.run(ctx, c); err != nil || got != "ready\ngone\n" {
		s.wrong("output comes only when the command has ended: %q, %v", got, err)
	}
}

func (s *execSuite) writeIsExclusive() {
	c := s.command("for i in 1 2 3 4 5 6 7 8; do (j=0; while [ $j -lt 200 ]; do echo $i; echo $i >&2; j=$((j+1)); done) & done; wait")
	out := &sinkBuffer{}
	c.Output = out
	got, _, err := s.run(s.t.Context(), c)
	if err != nil || len(got) != 8*200*4 {
		s.wrong("8 processes print %d bytes (%v), want %d", len(got), err, 8*200*4)
	}
	s.prints("sleep 0.1", "") // time for a Write that comes late
	if bad := out.bad.Load(); bad != nil {
		s.wrong("%s", *bad)
	}
}

func (s *execSuite) script() {
	s.prints("printf '%s|' 'a  b' \"c'd\" 'é\tü' '$HOME' '`x`' '\\' '*'\nprintf '%s' \"$((1+1))\" # no comment", "a  b|c'd|é\tü|$HOME|`x`|\\|*|2")
	s.prints("cat <<'END'\n$x `y` \\\nEND\n", "$x `y` \\\n")
	s.prints("f() { echo in f; }; f; if true; then echo yes; fi", "in f\nyes\n")
}

func (s *execSuite) longScript() {
	line := "# " + strings.Repeat("x", 97) + "\n"
	for _, n := range []int{90 << 10, 200 << 10, 1<<20 - 200} {
		s.prints("echo begin\n"+strings.Repeat(line, n/len(line))+"echo end", "begin\nend\n")
	}
}

func (s *execSuite) once() {
	for range 5 {
		s.prints("echo x >>count", "")
	}
	if data, err := os.ReadFile(filepath.Join(s.dir, "count")); string(data) != strings.Repeat("x\n", 5) {
		s.wrong("5 commands have left %q, %v", data, err)
	}
}

func (s *execSuite) noInput() {
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	if got, _, err := s.run(ctx, s.command("cat; read x; echo \"[$x]\"")); err != nil || got != "[]\n" {
		s.wrong("a command that reads its input prints %q, %v", got, err)
	}
}

func (s *execSuite) code() {
	for _, code := range []int{0, 1, 7, 255} {
		got, res, err := s.run(s.t.Context(), s.command(fmt.Sprintf("echo out; exit %d", code)))
		if err != nil || res == nil || res.Code != code || res.Signal != "" || got != "out\n" {
			s.wrong("exit %d gives %+v, %v", code, res, err)
		}
	}
}

func (s *execSuite) signal() {
	_, res, err := s.run(s.t.Context(), s.command("kill -9 $$; sleep 1"))
	if err != nil || res == nil || res.Code != -1 || res.Signal == "" {
		s.wrong("a command that a signal ended gives %+v, %v, want the code -1 and the signal", res, err)
	}
}

// alive reports whether a process with this number is there, where commands run. One that has ended
// stays for a while until its parent notices, as a zombie.
func (s *execSuite) alive(pid string) bool {
	_, res, err := s.run(s.t.Context(), s.command("kill -0 "+pid+" 2>/dev/null && { [ ! -e /proc/self ] || grep -q ') [^ZX]' /proc/"+pid+"/stat 2>/dev/null; }"))
	return err == nil && res != nil && res.Code == 0
}

// gone checks that a process has ended when Run has returned. It kills one that has not.
func (s *execSuite) gone(pid, what string) {
	if pid = strings.TrimSpace(pid); pid == "" || s.alive(pid) {
		s.wrong("%s is still there (process %q)", what, pid)
		_, _, _ = s.run(s.t.Context(), s.command("kill -9 "+pid))
	}
}

func (s *execSuite) leavesNothing() {
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	for _, script := range []string{"sleep 1000 & echo $!", "sleep 1000 >/dev/null 2>&1 & echo $!", "(sleep 1000 & echo $!) ; exit 3"} {
		pid, _, err := s.run(ctx, s.command(script))
		if err != nil {
			s.wrong("Run waits for %q: %v", script, err)
		}
		s.gone(pid, "what a command has left")
	}
}

// leavesNoDaemon starts processes that leave the process group and the session of the command, the second
// of them without a living parent. On systems without /proc, nothing leads from the command to such a
// process.
func (s *execSuite) leavesNoDaemon() {
	if _, res, err := s.run(s.t.Context(), s.command("[ -e /proc/self/stat ] && command -v setsid")); err != nil || res == nil || res.Code != 0 {
		s.t.Skip("no setsid or no /proc here")
	}
	for _, script := range []string{
		"setsid sleep 1000 >/dev/null 2>&1 & echo $!",
		"pid=$(setsid sh -c 'sleep 1000 >/dev/null 2>&1 & echo $!'); echo $pid",
	} {
		pid, _, err := s.run(s.t.Context(), s.command(script))
		if err != nil {
			s.wrong("%q: %v", script, err)
		}
		s.gone(pid, "a daemon")
	}
}

func (s *execSuite) cancel() {
	why := errors.New("why it was cancelled")
	ctx, cancel := context.WithCancelCause(s.t.Context())
	var at time.Time
	c := s.command("sleep 1000 & echo $!; wait")
	c.Output = &sinkBuffer{when: "\n", seen: func() { at = time.Now(); cancel(why) }}
	stop := time.AfterFunc(patience, func() { cancel(errors.New("no output")) })
	defer stop.Stop()
	pid, res, err := s.run(ctx, c)
	if took := time.Since(at); took > patience/2 {
		s.wrong("Run returns %s after a cancel", took)
	}
	if !errors.Is(err, why) || res == nil {
		s.wrong("a cancelled Run returns %+v, %v, want a result and the cause", res, err)
	}
	s.gone(pid, "a process of a cancelled command")
}

func (s *execSuite) cancelledBefore() {
	why := errors.New("why it was cancelled")
	ctx, cancel := context.WithCancelCause(s.t.Context())
	cancel(why)
	if _, res, err := s.run(ctx, s.command("echo x >run")); res != nil || !errors.Is(err, why) {
		s.wrong("Run returns %+v, %v, want no result and the cause", res, err)
	}
	if _, err := os.Stat(filepath.Join(s.dir, "run")); err == nil {
		s.wrong("a command has run that was cancelled before")
	}
}

func (s *execSuite) directory() {
	c := s.command("pwd -P; echo x >here")
	c.Dir = filepath.Join(s.root, "sub")
	got, _, err := s.run(s.t.Context(), c)
	if _, there := os.Stat(filepath.Join(s.dir, "sub", "here")); err != nil || strings.TrimSpace(got) != c.Dir || there != nil {
		s.wrong("a command in %s runs in %q (%v)", c.Dir, got, err)
	}
}

func (s *execSuite) lastDirectory() {
	sub := filepath.Join(s.root, "sub")
	for script, want := range map[string][]string{
		"true": {s.root}, "cd sub": {sub}, "cd sub; exit 3": {sub}, "(cd sub)": {s.root}, "cd /": {"/"}, "exec true": {"", s.root},
	} {
		if _, res, err := s.run(s.t.Context(), s.command(script)); err != nil || res == nil || !slices.Contains(want, res.Dir) {
			s.wrong("after %q, the directory is %+v, %v, want %q", script, res, err, want)
		}
	}
}

func (s *execSuite) directoryOutside() {
	if err := os.Symlink(s.base, filepath.Join(s.dir, "out")); err != nil {
		s.t.Skip(err)
	}
	for _, dir := range []string{"/", filepath.Dir(s.root), filepath.Join(s.root, "out"), filepath.Join(s.root, "none"),
		filepath.Join(s.root, "sub", "..", ".."), s.root + "x"} {
		c := s.command("echo x >run")
		c.Dir = dir
		if _, res, err := s.run(s.t.Context(), c); res != nil || !errors.Is(err, tools.ErrExecDir) {
			s.wrong("Run in %s returns %+v, %v, want ErrExecDir", dir, res, err)
		}
	}
	if _, err := os.Stat(filepath.Join(s.base, "run")); err == nil {
		s.wrong("a command has run outside of the workspace")
	}
}

func (s *execSuite) environment() {
	const leak = "AYCODER_TEST_LEAK"
	if err := os.Setenv(leak, "x"); err != nil {
		s.t.Fatal(err)
	}
	defer os.Unsetenv(leak)
	c := s.command("printf '%s|' \"$A\" \"$B\" \"${" + leak + "-none}\"")
	c.Env = append(c.Env, "A=one two", "B=é=\nü", "A=last")
	if got, _, err := s.run(s.t.Context(), c); err != nil || got != "last|é=\nü|none|" {
		s.wrong("a command has the environment %q, %v", got, err)
	}
}

// readOnly runs a command that changes files in the workspace and outside, and compares the files with
// package os.
func (s *execSuite) readOnly() {
	for _, name := range []string{"ws/keep", "ws/gone", "keep"} {
		if err := os.WriteFile(filepath.Join(s.base, name), []byte("old"), 0o644); err != nil {
			s.t.Fatal(err)
		}
	}
	before := files(s.t, s.base)
	for _, script := range []string{
		"echo x >run", "echo x >>keep", ": >keep", "rm gone", "mv gone moved", "mkdir dir", "ln -s keep link", "ln keep hard",
		"chmod 600 keep", "touch -t 200001010000 keep", "echo x >'" + filepath.Dir(s.root) + "/run'", "rm '" + filepath.Dir(s.root) + "/keep'",
	} {
		c := s.command(script)
		c.ReadOnly = true
		_, res, err := s.run(s.t.Context(), c)
		if err != nil || res == nil || !res.ReadOnly {
			s.t.Skip("commands are not confined to reading here")
		}
		if after := files(s.t, s.base); !maps.Equal(before, after) {
			s.wrong("%q was confined to reading and has changed files: %v, then %v", script, before, after)
			return
		}
	}
}

// files returns what a change to the files of a directory would change.
func files(t testing.TB, dir string) map[string]string {
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil {
			all[name] = fmt.Sprint(info.Mode(), info.ModTime().UnixNano(), info.Size())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// approved passes the digest of the command and that of another one. Only an Exec on another machine
// compares them, so a command of another digest may run, but not if Run says that it did not.
func (s *execSuite) approved() {
	c := s.command("echo x >run")
	other := *c
	c.Approved = c.Digest()
	if _, res, err := s.run(s.t.Context(), c); err != nil || res == nil || res.Code != 0 {
		s.wrong("the command that was approved gives %+v, %v", res, err)
	}
	run := filepath.Join(s.dir, "run")
	if err := os.Remove(run); err != nil {
		s.wrong("the command that was approved has not run: %v", err)
	}
	other.Approved = c.Approved
	other.Script, other.Output = "echo y >run", nil
	_, res, err := s.run(s.t.Context(), &other)
	if err == nil {
		return
	}
	if _, there := os.Stat(run); res != nil || !errors.Is(err, tools.ErrNotApproved) || there == nil {
		s.wrong("a command that was not approved gives %+v, %v (has run: %v), want ErrNotApproved alone", res, err, there == nil)
	}
}

func (s *execSuite) concurrent() {
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			s.prints(fmt.Sprintf("echo %d; printf %%s \"$(cat sub/none 2>/dev/null)\"; echo %d >f%d; cat f%d", i, i, i, i), fmt.Sprintf("%d\n%d\n", i, i))
		})
	}
	wg.Wait()
}

func (s *execSuite) environ() {
	r, ok := s.Exec.(tools.RemoteExec)
	if !ok {
		s.t.Skip("not a tools.RemoteExec")
	}
	all := r.Environ()
	for _, v := range all {
		if name, _, ok := strings.Cut(v, "="); !ok || name == "" {
			s.wrong("Environ has %q", v)
		}
	}
	if !slices.ContainsFunc(all, func(v string) bool { return strings.HasPrefix(v, "PATH=") }) {
		s.wrong("Environ has no PATH: %q", all)
	}
}
