package shell_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/internal/shell"
)

// A grammar makes scripts of programs, options, quotes, redirections, loops and
// substitutions. Most of what it knows to say is dangerous: what is allowed of it must
// not change anything.
type grammar struct{ *rand.Rand }

func (g grammar) one(list ...string) string { return list[g.IntN(len(list))] }

func (g grammar) some(p float64) bool { return g.Float64() < p }

var genFiles = []string{
	"a.go", "b.txt", "notes.txt", "src/x.py", "src", ".", "*", "*.go", "src/*", "./*", "?.go", "[ab]*",
	"{a.go,b.txt}", "\"$f\"", "$f", "$(ls)", "\"$(ls | head -1)\"",
	"out", "src/out", "../out", "/tmp/out", "~/out", "-", "nothere", "'a b.txt'", "a\\ b.txt", "\"a b.txt\"",
	"$HOME/out", "${f:-a.go}", "$((1+1))", "<(ls)", "$x", "\"${a[@]}\"", "a.go b.txt", "-- -o", "\"$1\"",
	"$(git ls-files)", "\"${f%.go}.txt\"", ".git/HEAD", ".env",
}

var genFlags = []string{
	"-n", "-l", "-r", "-R", "-i", "-o", "-o out", "-oout", "-c", "-e", "-f", "-w", "-s", "-a", "-x", "-z", "-d",
	"-p", "-0", "-1", "-n1", "-rn", "-i.bak", "--output=out", "--output out", "--outp=out",
	"--in-place", "--help", "--version", "-delete", "-exec rm {} ;", "-exec touch out \\;", "-exec cat {} +",
	"-fprint out", "-name '*.go'", "-type f", "-t", "-k1", "-u", "-v", "-q", "-A1", "--pre=touch", "--files",
	"-C src", "-T", "-S", "-b", "--", "-type", "-I{}", "-execdir touch out \\;", "-print0", "-maxdepth 1",
	"-F,", "-h", "-m1", "-E", "$x", "-g '*'", "--color=always", "-L", "-P", "-H",
}

var genPrograms = []string{
	"ls", "cat", "head", "tail", "wc", "sort", "uniq", "cut -c1", "tr a b", "grep a", "grep -l a", "rg a",
	"find", "find .", "find . -name '*.go'", "sed -n 1p", "sed", "awk '{print}'", "awk", "tee", "touch",
	"rm", "mkdir", "cp", "mv",
	"echo", "printf '%s\\n'", "printf", "true", "test", "[ -f", "stat", "file", "du", "df", "basename",
	"dirname", "realpath", "readlink", "md5sum", "base64", "od", "xxd", "diff a.go", "cmp a.go", "comm",
	"paste", "join", "nl", "tac", "rev", "fold",
	"expand", "column", "seq 3", "date", "id", "uname", "hostname", "pwd", "type", "command -v", "which",
	"shuf", "split", "csplit a.go", "iconv", "tree", "xargs", "xargs -n1", "xargs -I{}", "env", "timeout 1",
	"nice", "command", "builtin", "bash -c", "sh -c",
	"git status", "git log", "git diff", "git show", "git branch", "git tag", "git stash list", "git ls-files",
	"git grep a", "git rev-parse HEAD", "git config", "git blame", "git archive", "git reflog",
	"git remote", "git describe", "git checkout", "git worktree list", "git notes list", "git for-each-ref",
	"git symbolic-ref", "git hash-object", "git cat-file -p", "git shortlog", "git format-patch", "git apply",
	"git submodule", "git bisect", "git ls-tree HEAD", "git rev-list HEAD", "git count-objects", "git fsck",
	"git var", "git merge-base HEAD", "git check-ignore", "git diff-tree HEAD",
	"tar", "tar tf", "tar cf", "gzip", "gzip -c", "zcat", "unzip", "zip", "dd", "chmod", "ln", "mktemp",
	"truncate", "install", "jq .", "cd", "pushd", "popd", "read", "mapfile", "export", "declare", "local",
	"set", "unset", "eval", "exec", "let", "strings", "cksum", "sha256sum", "pr", "fmt", "expr",
	"numfmt", "hexdump", "locale", "getconf", "who", "nproc", "ps", "factor", "tsort", "ptx",
	"look a", "cal", "sum", "b2sum", "pathchk", "tput", "arch", "uptime", "free", "man", "less",
	"more", "perl -e", "python3 -c",
}

var genScripts = []string{
	"p", "1d", "s/a/b/", "s/a/b/w out", "w out", "e touch out", "1e touch out", "s/.*/touch out/e", "$!d",
	"/a/{p;q}", "1i\\\nx", "y/a/b/", "n;w out", "/[/]/w out", "a foo", "b;w out", ":a;w out", "r b.txt",
	"s/a/b/;w out", "s|a|b|;;p", "\\,a,w out",
	"{print}", "{print > \"out\"}", "BEGIN{system(\"touch out\")}", "{print | \"cat > out\"}",
	"BEGIN{\"touch out\"|getline}", "NR==1", "$1 > 2", "{print $1/2 > \"out\"}", "/a/ {print} /b|>/",
	"{print a,\nb > \"out\"}", "{x = $1 > 2; print x}", "{print ($1 > 2)}",
	"{printf \"%s\", $1 >> \"out\"}", "END{print NR}", "{gsub(/\"/,\"\"); print > \"out\"}",
	"ls", "touch out", "echo hi", "rm a.go", "cat a.go", "echo a > out", "$0 x", "echo \"$1\"", "$1 out", "f=1",
	"wc -l \"$@\"",
}

func (g grammar) word() string {
	switch g.IntN(12) {
	case 0:
		return "'" + g.one(genScripts...) + "'"
	case 1:
		return "\"$(" + g.pipeline(2) + ")\""
	case 2:
		return "$(" + g.command(2) + ")"
	case 3:
		return g.one("r", "t", "$", "") + g.one("'m'", "\"ouch\"", "\\m", "$'\\x6d'", "o{l,}d") + g.one("", "x")
	case 4, 5, 6:
		return g.one(genFlags...)
	}
	return g.one(genFiles...)
}

func (g grammar) command(depth int) string {
	var b strings.Builder
	if g.some(0.05) {
		b.WriteString(g.one("f=a.go ", "x=1 ", "IFS=, ", "LC_ALL=C ", "PATH=. ", "x=-o ", "TMPDIR=. "))
	}
	if g.some(0.08) {
		b.WriteString(g.one("! ", "time ", "command ", "env ", "env X=1 ", "timeout 1 ", "nice ", "xargs ",
			"builtin ", "exec ", "bash -c '", "eval "))
	}
	p := g.one(genPrograms...)
	b.WriteString(p)
	if strings.HasPrefix(p, "sed") || strings.HasPrefix(p, "awk") || strings.HasPrefix(p, "bash") ||
		strings.HasPrefix(p, "sh ") || p == "eval" {
		fmt.Fprintf(&b, " '%s'", g.one(genScripts...))
	}
	for range g.IntN(4) {
		b.WriteString(" " + g.word())
	}
	if strings.HasPrefix(p, "[") {
		b.WriteString(" ]")
	}
	if strings.Count(b.String(), "bash -c '")%2 == 1 && strings.Count(b.String(), "'")%2 == 1 {
		b.WriteString("'")
	}
	if g.some(0.15) {
		b.WriteString(" " + g.one("> out", ">> out", "2>/dev/null", "> /dev/null", "2>&1", "< a.go",
			"<<< \"$f\"", "&> out", "> \"$f\"", "< nothere", "1<> out", ">| a.go", "> /tmp/out", "3> out",
			"<<< 'touch out'"))
	}
	return b.String()
}

func (g grammar) pipeline(depth int) string {
	var s strings.Builder
	s.WriteString(g.command(depth))
	for g.some(0.3) {
		s.WriteString(" | " + g.command(depth))
	}
	return s.String()
}

func (g grammar) script(depth int) string {
	if depth == 0 {
		return g.pipeline(0)
	}
	switch g.IntN(14) {
	case 0:
		return fmt.Sprintf("for f in %s %s; do %s; done", g.word(), g.word(), g.script(depth-1))
	case 1:
		return fmt.Sprintf("if %s; then %s; else %s; fi", g.command(0), g.script(depth-1), g.script(depth-1))
	case 2:
		return fmt.Sprintf("%s | while read -r f; do %s; break; done", g.command(0), g.script(depth-1))
	case 3:
		return fmt.Sprintf("fn() { %s; }; fn %s %s", g.script(depth-1), g.word(), g.word())
	case 4:
		return fmt.Sprintf("(%s; %s)", g.script(depth-1), g.script(depth-1))
	case 5:
		return fmt.Sprintf("{ %s; }", g.script(depth-1))
	case 6:
		return fmt.Sprintf("%s %s %s", g.script(depth-1), g.one("&&", "||", ";"), g.script(depth-1))
	case 7:
		return fmt.Sprintf("f=%s; %s", g.word(), g.script(depth-1))
	case 8:
		return fmt.Sprintf("case $f in %s) %s;; esac", g.one("a*", "*", "x"), g.script(depth-1))
	case 9:
		return fmt.Sprintf("[[ %s == %s ]] && %s", g.word(), g.word(), g.script(depth-1))
	case 10:
		return fmt.Sprintf("x=%s; echo $((%s)); %s", g.one("1", "'a[$(touch out)]'", "y", "$(seq 1)", "-o",
			"src"), g.one("x", "x+1", "x++", "a[x]", "$x", "y=x"), g.script(depth-1))
	case 11:
		return fmt.Sprintf("%s <<EOF\n%s\nEOF\n", g.command(0), g.one("touch out", "$(touch out)", "$f", "`ls`",
			"a.go"))
	case 12:
		return fmt.Sprintf("cd %s; %s", g.one("src", "..", ".", "\"$f\"", "nothere"), g.script(depth-1))
	}
	return g.pipeline(1)
}

// cage is a throw-away world: a work tree with a repository and with names made to be
// taken for options, a home, and a folder for temporary files.
type cage struct{ dir, ws, home, tmp, scripts string }

func newCage(t *testing.T) cage {
	t.Helper()
	dir := t.TempDir()
	c := cage{dir, dir + "/ws", dir + "/home", dir + "/tmp", dir + "/scripts"}
	for _, d := range []string{c.ws + "/src/deep", c.home, c.tmp, c.scripts} {
		require.NoError(t, os.MkdirAll(d, 0o755))
	}
	for name, text := range map[string]string{
		"a.go": "package a\n", "b.txt": "b a 3\n", "notes.txt": "touch out\nx\n", "src/x.py": "a = 1\n",
		"a b.txt": "a\n", "-o": "x\n", "-oout": "y\n", "--output=out": "z\n", "--pre=touch": "\n",
		"-delete": "\n", "-exec": "\n", "--in-place": "a\n", "-i": "a\n", "src/-o": "a\n",
		"$(touch out)": "a\n", "out;touch out": "a\n", ".env": "S=1\n", "src/deep/z": "z\n", "old": "o\n",
		"a -oout": "\n", "a\n-oout": "\n", "--files0-from=x": "a\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(c.ws, name), []byte(text), 0o644))
	}
	git := exec.Command("sh", "-c",
		"git init -q && git add -A && "+
			"git -c user.name=a -c user.email=a@b -c commit.gpgsign=false commit -qm a && git tag v1")
	git.Dir, git.Env = c.ws, append(os.Environ(), "HOME="+c.home)
	out, err := git.CombinedOutput()
	require.NoError(t, err, string(out))
	return c
}

// snapshot is everything that a command could have changed.
func (c cage) snapshot(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	for _, root := range []string{c.ws, c.home, c.tmp} {
		require.NoError(t, filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			sum, when := "", int64(0)
			if d.Type().IsRegular() {
				data, err := os.ReadFile(p)
				if err != nil {
					return err
				}
				sum, when = fmt.Sprintf("%x", sha256.Sum256(data)), info.ModTime().UnixNano()
			}
			fmt.Fprintf(&b, "%s %v %d %v %s\n", p, info.Mode(), info.Size(), when, sum)
			return nil
		}))
	}
	return b.String()
}

// run runs scripts in the cage: no network, everything else read-only. It returns how
// many ended in time.
func (c cage) run(t *testing.T, scripts []string) int {
	t.Helper()
	require.NoError(t, os.RemoveAll(c.scripts))
	require.NoError(t, os.MkdirAll(c.scripts, 0o755))
	for i, s := range scripts {
		require.NoError(t, os.WriteFile(fmt.Sprintf("%s/%05d", c.scripts, i), []byte(s+"\n"), 0o644))
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(60+2*len(scripts))*time.Second)
	defer cancel()
	args := []string{"--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL", "--dev",
		"/dev", "--proc", "/proc"}
	for _, d := range []string{"/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc"} {
		args = append(args, "--ro-bind-try", d, d)
	}
	args = append(args, "--bind", c.ws, "/ws", "--bind", c.home, "/home/user", "--bind", c.tmp, "/tmp",
		"--ro-bind", c.scripts, "/scripts",
		"--chdir", "/ws", "--clearenv", "--setenv", "PATH", "/usr/bin:/bin", "--setenv", "HOME", "/home/user",
		"--setenv", "GIT_OPTIONAL_LOCKS", "0", "--setenv", "GIT_PAGER", "cat",
		"sh", "-c", `find /scripts -type f -print0 | xargs -0 -n 25 timeout -k 1 25 bash -c '
			for s; do (. "$s") </dev/null >/dev/null 2>&1; echo ran; done' _`)
	cmd := exec.CommandContext(ctx, "bwrap", args...)
	out, err := cmd.CombinedOutput()
	require.NoError(t, ctx.Err(), "%d scripts took too long", len(scripts))
	if err != nil && bytes.Contains(out, []byte("bwrap:")) {
		t.Skipf("bwrap does not work here: %s", out)
	}
	return bytes.Count(out, []byte("ran\n"))
}

// What is allowed changes nothing: random scripts that Analyze allows run in a real bash.
// AYCODER_SHELL_SCRIPTS says how many.
func TestAllowedChangesNothing(t *testing.T) {
	if _, err := exec.LookPath("bwrap"); err != nil {
		t.Skip("needs bwrap, to run scripts where they can do no harm")
	}
	for _, name := range []string{"bash", "git", "timeout"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("needs %s", name)
		}
	}
	want := 400
	if testing.Short() {
		want = 100
	}
	if s := os.Getenv("AYCODER_SHELL_SCRIPTS"); s != "" {
		n, err := strconv.Atoi(s)
		require.NoError(t, err)
		want = n
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	g := grammar{rand.New(rand.NewPCG(seed, 0))}
	made, ran := 0, 0
	for ran < want {
		c := newCage(t)
		var batch []string
		for len(batch) < min(1000, want-ran) {
			s := g.script(g.IntN(4))
			if made++; shell.AnalyzeBare(s, world).Allow {
				batch = append(batch, s)
			}
		}
		before := c.snapshot(t)
		n := c.run(t, batch)
		require.Positive(t, n)
		ran += n
		if c.snapshot(t) != before {
			culprits(t, batch)
		}
	}
	t.Logf("%d scripts allowed of %d, and run", ran, made)
	require.Positive(t, ran)
}

// Nothing that the grammar makes is a reason to panic.
func TestGeneratedScripts(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	g := grammar{rand.New(rand.NewPCG(seed, 0))}
	n, parsed := 5000, 0
	for range n {
		s := g.script(g.IntN(5))
		a := shell.AnalyzeBare(s, world)
		require.NotNil(t, a, s)
		if slices.ContainsFunc(a.Commands, func(c shell.Command) bool { return c.Argv != nil }) {
			parsed++
		}
	}
	t.Logf("%d scripts, %d of them understood", n, parsed)
	require.Greater(t, parsed, n/2)
}

// culprits finds which scripts of a batch changed something, each in a fresh cage.
func culprits(t *testing.T, batch []string) {
	t.Helper()
	if len(batch) > 1 {
		for _, half := range [][]string{batch[:len(batch)/2], batch[len(batch)/2:]} {
			c := newCage(t)
			before := c.snapshot(t)
			if c.run(t, half); c.snapshot(t) != before {
				culprits(t, half)
			}
		}
		return
	}
	c := newCage(t)
	before := c.snapshot(t)
	c.run(t, batch)
	t.Errorf("%q was allowed, and changed:", batch[0])
	for line := range strings.Lines(c.snapshot(t)) {
		if !strings.Contains(before, line) {
			t.Logf("now there is %s", line)
		}
	}
}
