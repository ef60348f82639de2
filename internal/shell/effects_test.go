package shell_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/internal/corpus"
	"github.com/aycoder/aycoder/internal/shell"
	"github.com/aycoder/aycoder/internal/timed"
)

// A maker makes scripts that do not come from the grammar or the tables of the
// classifier: of the options that the installed manuals have, of the forms in which bash
// reads text again as code, and of cases of attacks and scripts of others, mutated.
type maker struct {
	*rand.Rand
	manuals []manual
	seeds   []string
}

func (m maker) one(list ...string) string { return list[m.IntN(len(list))] }

func (m maker) some(p float64) bool { return m.Float64() < p }

var (
	makerFiles = []string{"a.txt", "b.txt", "data.json", "src", ".", "*.txt", "\"$f\"", "a.tar", "a.gz", "prog.sed", "prog.awk",
		"src/x.sh", "-", "./-o", "HEAD", "HEAD:a.txt", "a.txt b.txt", "*", "v1", "stash@{0}", "'a b.txt'", "{a,b}.txt", "out",
		"prog.bin", "x.zip", "<(cat a.txt)", "a.txt out", ".gitignore"}
	makerValues = []string{"out", "1", "a.txt", "src", "x", "'touch out'", "exec=touch\\ out", "./src/x.sh", "always", "json", "%s",
		"'%G? %s'", "never", "out,1", "sh", "'a[$(touch out)]'", "a:out", "/ws/out", "'|touch out'", "prog.awk"}
	makerPrograms = []string{"p", "s/a/b/", "s/a/touch out/e", "w out", "1e touch out", ":a e touch out", "/a/{p;q}", "/[/]/w out",
		":a;N;$!ba;s/\\n/ /", "{print $1}", "1system(\"touch out\")", "{print > \"out\"}", "{print $1/2 > \"out\"}",
		"BEGIN{\"touch out\"|getline}", "NR==1", ".", ".name", "$1 > 2", "{print $1; x = 1 > 2}", "{gsub(/[a\\/]/,\"\");print}", "a",
		"{printf \"%s\\n\", $1 > \"/ws/out\"}", "/a/,/b/p", "s|a|b|w out", "$!d", "1,3{/a/d}", "y/a/b/", "length > 1", "!x[$0]++"}
	// makerForms are the forms of which the rows of found causes are made; %s is a command.
	makerForms = []string{
		"%s", "%s", "%s", "%s", "%s | head -2", "cat a.txt | %s", "(%s)", "{ %s; }", "! %s", "time %s", "x=$(%s); echo \"$x\"", "echo \"`%s`\"",
		"for f in *.txt; do %s; done", "for f in a.txt b.txt; do %s; done", "if %s; then echo y; fi", "while read -r f; do %s; break; done < a.txt",
		"f=a.txt; %s", "f=-o; %s", "timeout 2 %s", "env LC_ALL=C %s", "LC_ALL=C %s", "env X=out %s", "nice %s", "command %s", "%s 2>/dev/null", "%s > out",
		"%s >/dev/null 2>&1", "%s # \\\ntouch out", "%s # touch out", "%s \\\n  a.txt", "bash -c '%s'", "sh -c '%s'", "find . -name 'a*' | xargs %s", "ls *.txt | xargs -n1 %s",
		"bash -c '%s \"$0\"' -o", "sh -c '%s $0 $1' a.txt -o", "bash -c '%s $0' --out=out",
		"find . -name '*.txt' -exec %s {} \\;", "find . -name 'a*' -exec %s {} +", "git ls-files -z | xargs -0 %s", "printf '%%s\\n' a.txt | xargs -I{} %s {}",
		"fn() { %s; }; fn a.txt", "case a in a) %s;; esac", "cd src && %s", "cd src; %s; cd ..", "cat <<EOF\n$(%s)\nEOF", "cat <<'EOF' | %s\ntouch out\nEOF", "%s <<< 'touch out'",
		"%s < a.txt", "%s && touch out", "%s; ls", "diff <(%s) a.txt", "[[ -n $(%s) ]] && echo y", "[ -f a.txt ] && %s", "x='a[$(touch out)]'; %s", "set -e; %s", "echo {a,b} | %s",
		"x='a[$(touch out)]'; %s; echo $((x))", "a=('b[$(touch out)]'); ((a)); %s", "x=y; y=z; z='a[$(touch out)]'; echo $((x)); %s", "mapfile a < a.txt; ((a)); %s",
		"declare -a a='($(touch out))'; %s", "env x='a[$(touch out)]' bash -c '((x)); %s'", "i=1; while [ $i -lt 3 ]; do %s; i=$((i+1)); done", "export LC_ALL=C; %s", "PAGER='touch out' %s",
		"xargs -a a.txt %s", "%s || true", "eval '%s'", "trap '%s' EXIT", "%s & wait", "read x < a.txt; %s \"$x\"", "%s -- -o", "f() { %s \"$@\"; }; f --out=out a.txt", "[[ a =~ a ]] && %s",
		"%s $'a.txt'", "%s \"a.txt\"'' a\\.txt", "%s {a.txt,out}", "export GREP_COLOR=1; %s", "TZ=UTC %s", "select x in a; do %s; done", "%s \"${x:-a.txt}\"", "%s ${f%%.txt}.txt", "for ((i=0;i<2;i++)); do %s; done",
	}
)

// call is a call of a known program with options of its manual.
func (m maker) call() string {
	p := m.manuals[m.IntN(len(m.manuals))]
	words := []string{p.program}
	for range 1 + m.IntN(3) {
		words = append(words, m.option(p))
	}
	program := ""
	switch name, _, _ := strings.Cut(p.program, " "); name {
	case "sed", "gsed", "awk", "gawk", "mawk", "nawk", "jq", "yq", "grep", "rg":
		program = "'" + m.one(makerPrograms...) + "'"
		words = append(words, program)
	case "find":
		words = append([]string{p.program, "."}, words[1:]...)
	case "[":
		return strings.Join(append(words, m.one(makerFiles...), "]"), " ")
	}
	for range m.IntN(3) {
		words = append(words, m.one(makerFiles...))
	}
	if m.some(0.1) { // options behind the operands
		words = append(words, m.option(p))
	}
	return strings.Join(words, " ")
}

func (m maker) option(p manual) string {
	o := p.options[m.IntN(len(p.options))]
	value := m.one(makerValues...)
	name := strings.TrimRight(o, "=?")
	switch {
	case m.some(0.03) && len(name) > 5: // cut short
		return name[:3+m.IntN(len(name)-3)]
	case m.some(0.03):
		return "--new-option=" + value
	case m.some(0.05) && !strings.HasPrefix(name, "--"):
		other := p.options[m.IntN(len(p.options))]
		return name + strings.Trim(other, "-=?")
	case name == o && m.some(0.9), strings.HasSuffix(o, "?") && m.some(0.6):
		return name
	case strings.HasPrefix(name, "--") && m.some(0.6):
		return name + "=" + value
	case m.some(0.3) && len(name) == 2:
		return name + value
	}
	return name + " " + value
}

func (m maker) script() string {
	if len(m.seeds) > 0 && m.some(0.35) {
		return m.mutant()
	}
	form := m.one(makerForms...)
	return strings.ReplaceAll(strings.ReplaceAll(form, "%s", m.call()), "%%", "%")
}

// mutant changes a case of others: words are swapped with those of another, dropped,
// doubled or quoted, options and forms are put in.
func (m maker) mutant() string {
	s := m.one(m.seeds...)
	for range 1 + m.IntN(3) {
		words := strings.Split(s, " ")
		i := m.IntN(len(words))
		switch m.IntN(10) {
		case 0:
			other := strings.Split(m.one(m.seeds...), " ")
			words[i] = other[m.IntN(len(other))]
		case 1:
			words = append(words[:i], words[i+1:]...)
		case 2:
			p := m.manuals[m.IntN(len(m.manuals))]
			words[i] += " " + m.option(p)
		case 3:
			words[i] = m.one("'", "\"", "$'") + words[i] + m.one("'", "\"")
		case 4:
			return strings.Join(words, " ") + m.one("; ", " && ", " | ", "\n", " || ", " # \\\n") + m.one(m.seeds...)
		case 5:
			return strings.ReplaceAll(m.one(makerForms...), "%s", strings.Join(words, " "))
		case 6:
			words[i] = m.one(makerFiles...)
		case 7:
			at := m.IntN(len(s) + 1)
			return s[:at] + m.one("\\\n", "#", "'", "\"", "`", "$(", ")", "{", "}", "(", "[", ";", "\n", " ", "$", "\\", "((", "<<E\n", "!") + s[at:]
		case 8:
			words[0] = m.manuals[m.IntN(len(m.manuals))].program
		case 9:
			words[i] += m.one("$x", "\"$f\"", "$(ls)", "{,x}", "*", "=out", "${x:-o}", "$((1+1))")
		}
		s = strings.Join(words, " ")
	}
	return s
}

// seeds are the shared cases, and the scripts in the directory that AYCODER_SHELL_SEEDS
// names: of each a line or a piece.
func seeds(t testing.TB) []string {
	t.Helper()
	harmless, others := daily(t)
	out := append(harmless, others...)
	if _, ok := corpus.Find(t, "attacks/shell_commands.shared.json"); ok {
		for _, c := range attacks(t) {
			out = append(out, c.Cmd)
		}
	} else {
		t.Log("no shared cases to mutate")
	}
	for _, family := range asks {
		out = append(out, family...)
	}
	files, _ := filepath.Glob(filepath.Join(os.Getenv("AYCODER_SHELL_SEEDS"), "*"))
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil || os.Getenv("AYCODER_SHELL_SEEDS") == "" {
			continue
		}
		for line := range strings.Lines(string(data)) {
			if line = strings.TrimSpace(line); len(line) > 3 && len(line) < 300 && line[0] != '#' {
				out = append(out, line)
			}
		}
	}
	return out
}

// A cage is a throw-away world inside a separate sandbox: namespaces without network, a
// read-only system, bounded time. Scripts run in it under strace.
type cage struct{ dir string }

const cageSetup = `cd ws && printf 'touch out\na b 1\n' > a.txt && printf 'x\ty\n3\n' > b.txt && printf '{"name":1}' > data.json &&
mkdir -p src/deep && printf '#!/bin/sh\ntouch out\n' > src/x.sh && chmod +x src/x.sh && cp src/x.sh src/x && echo a > 'a b.txt' &&
echo 'w out' > prog.sed && echo 'BEGIN{system("touch out")}' > prog.awk && echo x > .gitignore && echo S=1 > .env && cp /bin/true prog.bin &&
for f in -o --output=out --pre=touch -exec -i --in-place -C --compile '$(touch out)' 'out;touch out' '-oout' --files0-from=x; do echo a > "./$f"; done &&
tar cf a.tar a.txt && gzip -c a.txt > a.gz && mkdir old && echo o > old/x && echo 'main(){}' > main.go && cp a.txt notes.txt && cp a.txt README.md &&
{ zip -q x.zip a.txt || : ; } && git init -q && git add -A && git -c user.name=a -c user.email=a@b commit -qm a && git tag v1 && git branch x &&
echo c >> a.txt && git -c user.name=a -c user.email=a@b stash -q && echo d >> b.txt`

func newCage(t *testing.T) cage {
	t.Helper()
	c := cage{t.TempDir()}
	for _, d := range []string{"ws", "home", "tmp", "scripts", "log"} {
		require.NoError(t, os.MkdirAll(filepath.Join(c.dir, d), 0o755))
	}
	cmd := exec.Command("bash", "-c", cageSetup)
	cmd.Dir, cmd.Env = c.dir, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + c.dir + "/home", "GIT_CONFIG_NOSYSTEM=1"}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	return c
}

// traced are the system calls by which a program changes or reaches something.
const traced = "open,openat,openat2,creat,unlink,unlinkat,rename,renameat,renameat2,mkdir,mkdirat,rmdir,link,linkat,symlink," +
	"symlinkat,mknod,mknodat,chmod,fchmod,fchmodat,chown,lchown,fchown,fchownat,utime,utimes,utimensat,futimesat,setxattr," +
	"lsetxattr,fsetxattr,removexattr,lremovexattr,fremovexattr,truncate,ftruncate,connect,bind,kill,setpgid,execve,execveat,mount,umount2," +
	"sethostname,settimeofday,clock_settime,reboot"

// run runs scripts in the cage, and returns the effects that each had.
func (c cage) run(t *testing.T, scripts []string) (effects map[int]string, ran int) {
	t.Helper()
	for i, s := range scripts {
		require.NoError(t, os.WriteFile(fmt.Sprintf("%s/scripts/%05d", c.dir, i), []byte(s), 0o644))
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(60+4*len(scripts))*time.Second)
	defer cancel()
	args := []string{"--unshare-all", "--die-with-parent", "--new-session", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/run"}
	for _, d := range []string{"/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc"} {
		args = append(args, "--ro-bind-try", d, d)
	}
	for _, d := range []string{"ws", "tmp", "log"} {
		args = append(args, "--bind", filepath.Join(c.dir, d), "/"+d)
	}
	args = append(args, "--bind", c.dir+"/home", "/home/user", "--ro-bind", c.dir+"/scripts", "/scripts", "--chdir", "/ws", "--clearenv")
	for _, v := range cageEnv {
		name, value, _ := strings.Cut(v, "=")
		args = append(args, "--setenv", name, value)
	}
	args = append(args, "sh", "-c", `ulimit -u 500 -f 20000; ls /scripts | xargs -P 2 -n 20 sh -c '
		for n; do timeout -k 1 5 strace -f -qq --seccomp-bpf -s 200 -e signal=none -e trace=`+traced+` -o /log/$n \
			bash -c "$(cat /scripts/$n)" </dev/null >/dev/null 2>&1; echo ran; done' _`)
	out, err := exec.CommandContext(ctx, "bwrap", args...).CombinedOutput()
	require.NoError(t, ctx.Err(), "%d scripts took too long", len(scripts))
	if err != nil && bytes.Contains(out, []byte("bwrap:")) {
		t.Skipf("skipped: bwrap does not work here: %s", out)
	}
	effects = map[int]string{}
	for i := range scripts {
		log, err := os.ReadFile(fmt.Sprintf("%s/log/%05d", c.dir, i))
		if err != nil || len(log) == 0 {
			continue
		}
		ran++
		leads := map[string]bool{} // a process group, as the program timeout does to end what it has started
		for line := range strings.Lines(string(log)) {
			pid, call, _ := strings.Cut(line, " ")
			call = strings.TrimSpace(call)
			to, _, _ := strings.Cut(strings.TrimPrefix(call, "kill("), ",")
			switch {
			case strings.HasPrefix(call, "setpgid("):
				leads[pid] = leads[pid] || strings.HasPrefix(call, "setpgid(0, 0)")
			case strings.HasPrefix(call, "kill(") && leads[pid] && (to == "0" || strings.Contains("\n"+string(log), "\n"+to+" ")):
			case effect(line):
				effects[i] = strings.TrimSpace(line)
			}
		}
	}
	return effects, ran
}

var (
	callLine  = regexp.MustCompile(`^\d+ +(\w+)\((.*)`)
	harmlessF = regexp.MustCompile(`^(?:AT_FDCWD, )?"(?:/dev/(?:null|tty|stdout|stderr|fd/\d+)|/proc/self/fd/\d+)"`)
	nameCache = regexp.MustCompile(`sun_path="/(?:var/)?run/(?:nscd/socket|systemd/userdb/[^"]*)"`)
	ownFile   = regexp.MustCompile(`^"(?:/ws|/home|/tmp|\.|src|old)|^"[^/"]+"`)
)

// effect reports whether a line of strace is something that a command which only reads
// must not do.
func effect(line string) bool {
	m := callLine.FindStringSubmatch(line)
	if m == nil || strings.Contains(m[2], "resumed>") {
		return false
	}
	switch name, args := m[1], m[2]; name {
	case "open", "openat", "openat2":
		return regexp.MustCompile(`O_WRONLY|O_RDWR|O_CREAT|O_TRUNC|O_APPEND`).MatchString(args) && !harmlessF.MatchString(args)
	case "execve", "execveat":
		return ownFile.MatchString(args)
	case "connect":
		return !nameCache.MatchString(args)
	}
	return true
}

func needsCage(t *testing.T) {
	t.Helper()
	for _, name := range []string{"bwrap", "strace", "bash", "git", "timeout", "tar", "gzip"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("skipped: needs %s, to run scripts where they can do no harm", name)
		}
	}
}

// TestEffectsAreSeen shows that the next test can fail: what has an effect is seen.
func TestEffectsAreSeen(t *testing.T) {
	timed.Serial(t)
	needsCage(t)
	scripts := []string{"touch out", "rm notes.txt", "mv src/x out", "chmod 600 a.txt", "touch -d 2001-01-01 a.txt", "mkdir out", "ln -s a.txt out",
		"echo x >> a.txt", ": > out", "./src/x.sh", "cat < /dev/tcp/127.0.0.1/9", "kill -0 1", "cp a.txt /tmp/x", "touch ~/x", "sed -i s/a/b/ a.txt",
		"git status; git add b.txt", "awk 'BEGIN{system(\"touch out\")}'", "sort -o a.txt a.txt", "truncate -s0 a.txt", "timeout 5 sh -c 'kill -0 1'"}
	c := newCage(t)
	effects, ran := c.run(t, append(scripts, "ls -la", "cat a.txt | sort | uniq -c", "git log --oneline", "git status", "ls > /dev/null 2>&1", "timeout 0.1 sleep 4"))
	if ran == 0 {
		t.Skip("skipped: strace does not work here")
	}
	for i, s := range scripts {
		require.Contains(t, effects, i, s)
	}
	require.Len(t, effects, len(scripts), "%v", effects)
}

// TestAllowedHasNoEffects runs scripts that Analyze allows under strace: none writes,
// changes, connects or runs a file of the tree. AYCODER_SHELL_SCRIPTS says how many.
func TestAllowedHasNoEffects(t *testing.T) {
	timed.Serial(t)
	needsCage(t)
	want := 150
	if s := os.Getenv("AYCODER_SHELL_SCRIPTS"); s != "" {
		n, err := strconv.Atoi(s)
		require.NoError(t, err)
		want = n
	}
	seed := rand.Uint64()
	if s := os.Getenv("AYCODER_SHELL_SEED"); s != "" {
		seed, _ = strconv.ParseUint(s, 10, 64)
	}
	m := maker{rand.New(rand.NewPCG(seed, 0)), manuals(t), seeds(t)}
	made, allowed, ran := 0, 0, 0
	seen := map[string]bool{}
	for ran < want {
		var batch []string
		for len(batch) < min(500, want-ran) {
			s := m.script()
			if made++; !seen[s] && !strings.Contains(s, "\x00") && shell.AnalyzeBare(s, world).Allow {
				seen[s] = true
				batch = append(batch, s)
			}
		}
		allowed += len(batch)
		effects, n := newCage(t).run(t, batch)
		if n == 0 {
			t.Skip("skipped: strace does not work here")
		}
		ran += n
		for i, line := range effects {
			t.Errorf("%q was allowed, and did: %s", batch[i], line)
		}
	}
	t.Logf("seed %d: %d scripts made, %d allowed, %d run under strace", seed, made, allowed, ran)
}
