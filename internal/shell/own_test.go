package shell_test

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/internal/cases"
	"github.com/aycoder/aycoder/internal/shell"
	"github.com/aycoder/aycoder/internal/timed"
)

var attacksFile = filepath.Join("testdata", "attacks.txt")

// ownAttacks is how many commands of testdata have to run at least.
const ownAttacks = 450

// ownAttack is a row of testdata: what a command does at worst, whether it may run unasked
// (allow), or must never run by a slip (deny), and who says so.
type ownAttack struct {
	class                shell.Class
	decision             string
	why, source, command string
}

func readAttacks(t testing.TB) (all []ownAttack) {
	t.Helper()
	for _, r := range cases.ReadTable(t, attacksFile, 5) {
		class, ok := shell.ParseClass(r[0])
		require.True(t, ok, r)
		require.Contains(t, []string{"allow", "ask", "deny"}, r[1], r)
		all = append(all, ownAttack{class, r[1], r[2], r[3], r[4]})
	}
	return all
}

// TestOwnAttacks holds the classifier to the attacks of testdata: nothing runs unasked
// that should not, nothing is called less than it is, and what only reads is not in the
// way.
func TestOwnAttacks(t *testing.T) {
	var harmless, allowed, exact int
	all := readAttacks(t)
	for _, c := range all {
		a := shell.Analyze(c.command, world)
		assert.Equal(t, c.decision == "deny", a.Deny, "%q: deny", c.command)
		if c.decision == "allow" {
			harmless++
			allowed += count(a.Allow)
		} else {
			assert.False(t, a.Allow, "%q is allowed: %s", c.command, c.why)
		}
		// Facts that the text does not tell lead to a question, which is never too little.
		if a.Class < c.class && a.Class != shell.NeedsApproval {
			t.Errorf("%q is %s, want %s: %s (%q)", c.command, a.Class, c.class, c.why, a.Why)
		}
		exact += count(a.Class == c.class)
		if a.Class != c.class || c.decision == "allow" && !a.Allow {
			t.Logf("%q is %s, %s would do: %s (%q)", c.command, a.Class, c.class, c.why, a.Why)
		}
	}
	t.Logf("%d attacks ran", len(all))
	t.Logf("%d of %d classes exact, %d of %d harmless commands run unasked", exact, len(all), allowed, harmless)
	require.GreaterOrEqual(t, len(all), ownAttacks)
	assert.GreaterOrEqual(t, exact*100, len(all)*85)
	assert.GreaterOrEqual(t, allowed*100, harmless*95)
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}

const seenBy = "strace: "

// TestOwnAttacksAreSeen runs attacks of testdata under strace in a throw-away world, and
// looks for the effect that testdata says was seen. It takes some of them, and with
// AYCODER_ATTACKS=all all. With -update it writes down what is seen where it agrees with
// the class.
func TestOwnAttacksAreSeen(t *testing.T) {
	timed.Serial(t)
	needsCage(t)
	if testing.Short() {
		t.Skip("skipped with -short: takes a shell under strace for each command")
	}
	every := 16
	if *update || os.Getenv("AYCODER_ATTACKS") == "all" {
		every = 1
	}
	var picked []ownAttack
	for i, c := range readAttacks(t) {
		if i%every == 0 && (strings.HasPrefix(c.source, seenBy) || c.source == "?") {
			picked = append(picked, c)
		}
	}
	logs := newCage(t).runEach(t, picked)
	found, missing := map[string]string{}, 0
	for i, c := range picked {
		effects := effectsOf(logs[i])
		if *update {
			if e := supports(c.class, effects); e != "" {
				found[c.command] = seenBy + e
			} else {
				t.Logf("%s %q: %s: not seen in %q", c.class, c.command, c.why, effects)
			}
			continue
		}
		want := strings.TrimPrefix(c.source, seenBy)
		if name, _, _ := strings.Cut(c.command, " "); len(effects) == 0 && want != nothing && absent(name) {
			missing++
			t.Logf("not run, as %s is not installed: %q", name, c.command)
		} else if want == nothing {
			assert.Empty(t, effects, "%q", c.command)
		} else {
			assert.Contains(t, effects, want, "%q", c.command)
		}
	}
	t.Logf("%d commands were run, %d not", len(picked)-missing, missing)
	if *update {
		writeSources(t, found)
	}
}

// absent reports whether there is no program, builtin or keyword of a plain name.
func absent(name string) bool {
	return strings.Trim(name, "abcdefghijklmnopqrstuvwxyz") == "" && exec.Command("bash", "-c", `type "$0"`, name).Run() != nil
}

func writeSources(t *testing.T, found map[string]string) {
	data, err := os.ReadFile(attacksFile)
	require.NoError(t, err)
	var out strings.Builder
	for line := range strings.Lines(string(data)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(f) == 5 && (f[3] == "?" || strings.HasPrefix(f[3], seenBy)) {
			if f[3] = "?"; found[cases.Unquote(f[4])] != "" {
				f[3] = found[cases.Unquote(f[4])]
			}
		}
		out.WriteString(strings.Join(f, "\t") + "\n")
	}
	require.NoError(t, os.WriteFile(attacksFile, []byte(out.String()), 0o644))
}

// runEach runs each command in a separate world, and returns what strace saw.
func (c cage) runEach(t *testing.T, all []ownAttack) []string {
	t.Helper()
	logs := make([]string, len(all))
	var wg sync.WaitGroup
	next := make(chan int)
	for range 3 {
		wg.Go(func() {
			for i := range next {
				logs[i] = c.runOne(t, i, all[i].command)
			}
		})
	}
	for i := range all {
		next <- i
	}
	close(next)
	wg.Wait()
	return logs
}

func (c cage) runOne(t *testing.T, i int, script string) string {
	log := fmt.Sprintf("%s/log/one%d", c.dir, i)
	if err := os.WriteFile(log, nil, 0o644); err != nil {
		t.Error(err)
	}
	args := []string{"--unshare-all", "--die-with-parent", "--new-session", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/run"}
	for _, d := range []string{"/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc"} {
		args = append(args, "--ro-bind-try", d, d)
	}
	args = append(args, "--ro-bind", c.dir+"/ws", "/was", "--tmpfs", "/ws", "--tmpfs", "/home/user", "--tmpfs", "/tmp",
		"--bind", log, "/log", "--chdir", "/ws", "--clearenv")
	for _, v := range cageEnv {
		name, value, _ := strings.Cut(v, "=")
		args = append(args, "--setenv", name, value)
	}
	args = append(args, "sh", "-c", `cp -a /was/. . && git update-index -q --refresh; exec timeout -k 1 6 strace -f -qq -y --seccomp-bpf -s 200 -e signal=none `+
		`-e trace=`+traced+` -o /log bash -c "$1" </dev/null >/dev/null 2>&1`, "sh", script)
	_ = exec.CommandContext(t.Context(), "bwrap", args...).Run() // many fail, or are ended by timeout(1)
	data, err := os.ReadFile(log)
	if err != nil {
		t.Error(err)
	}
	return string(data)
}

const nothing = "no effect"

// Of a line of strace -y, the name of the call, the directory and the name of the file;
// of a connection, where to.
var (
	callY     = regexp.MustCompile(`^\d+ +(\w+)\((.*)`)
	fileY     = regexp.MustCompile(`(?:(?:AT_FDCWD|\d+)<([^>]*)>, )?"([^"]*)"`)
	makesLast = regexp.MustCompile(`^(?:rename|link|symlink)`)
	fdY       = regexp.MustCompile(`^\d+<([^>]*)>`)
	netY      = regexp.MustCompile(`sin6?_port=htons\((\d+)\)`)
	writingY  = regexp.MustCompile(`O_WRONLY|O_RDWR|O_CREAT|O_TRUNC|O_APPEND`)
	// Git takes locks and makes temporary files, and bash makes one for a long here document.
	passingY = regexp.MustCompile(`\.lock$|/tmp_|/sed[A-Za-z0-9]{6}\b|\.o[A-Za-z0-9]{6}$|/XX[A-Za-z0-9]{6}$|/tmp/pp[A-Za-z0-9]{6}$|/sh-thd|/objects/|^/(?:dev|proc/self/fd)/|\.(?:pyc|swp)|__pycache__|/run/|/log$`)
)

// effectsOf are the effects that a log of strace shows, sorted, each as the call and the
// file: "unlinkat old/x".
func effectsOf(log string) []string {
	all := map[string]bool{}
	for line := range strings.Lines(log) {
		m := callY.FindStringSubmatch(line)
		if m == nil || strings.Contains(line, "resumed>") {
			continue
		}
		name, args := m[1], m[2]
		file, known := fileOf(name, args)
		switch name {
		case "open", "openat", "openat2":
			if !writingY.MatchString(args) {
				continue
			}
			name = "open"
		case "execve", "execveat":
			if !below(file, "/ws", "/home/user", "/tmp") {
				continue
			}
		case "connect", "bind":
			p := netY.FindStringSubmatch(args)
			if p == nil {
				continue
			}
			file, known = "port "+p[1], true
		case "kill":
			file, known = "", true
		case "mount", "umount2", "sethostname":
			known = true
		}
		if known && !passingY.MatchString(file) {
			all[strings.TrimSpace(name+" "+strings.TrimPrefix(file, "/ws/"))] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

func below(file string, dirs ...string) bool {
	return slices.ContainsFunc(dirs, func(d string) bool { return strings.HasPrefix(file, d+"/") })
}

// fileOf is the absolute path of the file that a call is about, of a link or a rename what
// it makes.
func fileOf(call, args string) (string, bool) {
	all := fileY.FindAllStringSubmatch(args, -1)
	if len(all) > 0 {
		m := all[0]
		if makesLast.MatchString(call) {
			m = all[len(all)-1]
		}
		if path.IsAbs(m[2]) {
			return path.Clean(m[2]), true
		}
		if m[1] == "" {
			m[1] = "/ws"
		}
		return path.Join(m[1], m[2]), true
	}
	if m := fdY.FindStringSubmatch(args); m != nil {
		return m[1], true
	}
	return "", false
}

// supports returns an effect that shows that a command is of a class, or "".
func supports(class shell.Class, effects []string) string {
	first := func(calls string, fits func(file string) bool) string {
		for _, e := range effects {
			name, file, _ := strings.Cut(e, " ")
			if slices.Contains(strings.Fields(calls), name) && fits(file) {
				return e
			}
		}
		return ""
	}
	inside := func(file string) bool { return !path.IsAbs(file) }
	outside := func(file string) bool { return path.IsAbs(file) }
	any := func(string) bool { return true }
	const makes = "open creat mkdir mkdirat rename renameat renameat2 link linkat symlink symlinkat chmod fchmod fchmodat " +
		"utimensat setxattr mknod mknodat truncate ftruncate"
	or := func(s ...string) string {
		for _, e := range s {
			if e != "" {
				return e
			}
		}
		return ""
	}
	switch class {
	case shell.ReadOnly:
		if len(effects) == 0 {
			return nothing
		}
		return ""
	case shell.WritesWorkspace:
		return first(makes, inside)
	case shell.WritesOutside:
		return first(makes, outside)
	case shell.Network:
		return first("connect bind", any)
	case shell.Destructive:
		return or(first("unlink unlinkat rmdir", any), first("kill", any), first("truncate ftruncate", any),
			first("open", func(f string) bool { return f == "notes.txt" || f == "b.txt" }))
	case shell.Escalates:
		return or(first("open", func(f string) bool { return f == "out" || f == "deep/out" }), first("execve", any),
			first("open rename link linkat symlink symlinkat mkdir mkdirat", func(f string) bool { return f != "a.txt" }),
			first("connect", any))
	}
	return or(first("execve", any), first(makes, any))
}

// cageEnv is the environment of the scripts in a cage.
var cageEnv = []string{
	"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/home/user", "GIT_OPTIONAL_LOCKS=0", "GIT_PAGER=cat", "PAGER=cat",
	"TERM=dumb", "GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0", "GIT_CONFIG_COUNT=1",
	"GIT_CONFIG_KEY_0=diff.autoRefreshIndex", "GIT_CONFIG_VALUE_0=false", "LANG=C.UTF-8",
	"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b",
}
