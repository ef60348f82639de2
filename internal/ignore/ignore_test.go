package ignore

import (
	"bytes"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/internal/timed"
)

// ignored asks the way a walk does: from the top, and not below what is ignored.
func ignored(read func(directory string) []byte, base *Layer, p string, isDir bool) bool {
	l := base.Push("", read(""))
	elems := strings.Split(p, "/")
	for i := range elems {
		sub := strings.Join(elems[:i+1], "/")
		dir := i < len(elems)-1 || isDir
		if l.Ignored(sub, dir) {
			return true
		}
		if dir {
			l = l.Push(sub, read(sub))
		}
	}
	return false
}

// world is a repository on disk with ignore files in it.
type world struct {
	dir     string
	paths   []string
	ignored int // paths so far, by git's word
}

func newWorld(t testing.TB, files map[string]string, ignores map[string]string) *world {
	w := &world{dir: t.TempDir()}
	git(t, w.dir, nil, "init", "-q")
	for name, text := range ignores {
		w.write(t, name, text)
	}
	for name, text := range files {
		w.write(t, name, text)
	}
	err := filepath.WalkDir(w.dir, func(p string, _ fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(w.dir, p)
		if rel == ".git" {
			return fs.SkipDir
		}
		if rel != "." {
			w.paths = append(w.paths, filepath.ToSlash(rel))
		}
		return err
	})
	require.NoError(t, err)
	return w
}

func (w *world) write(t testing.TB, name, text string) {
	t.Helper()
	full := filepath.Join(w.dir, filepath.FromSlash(name))
	require.NoError(t, os.MkdirAll(filepath.Dir(full), 0o755))
	require.NoError(t, os.WriteFile(full, []byte(text), 0o644))
}

func git(t testing.TB, dir string, stdin []byte, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1",
		"HOME="+dir, "XDG_CONFIG_HOME="+dir)
	cmd.Stdin = bytes.NewReader(stdin)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil && cmd.ProcessState.ExitCode() != 1 {
		require.NoError(t, err, stderr.String())
	}
	return out
}

// compare returns how many paths were compared; git's word is the truth.
func (w *world) compare(t testing.TB) int {
	t.Helper()
	in := strings.Join(w.paths, "\x00") + "\x00"
	out := git(t, w.dir, []byte(in), "-c", "core.excludesFile="+filepath.Join(w.dir, ".git", "user"),
		"check-ignore", "--no-index", "-z", "--stdin")
	want := map[string]bool{}
	for p := range strings.SplitSeq(string(out), "\x00") {
		want[p] = true
	}
	w.ignored += len(want) - 1
	read := func(directory string) []byte {
		data, _ := os.ReadFile(filepath.Join(w.dir, directory, ".gitignore"))
		return data
	}
	var base *Layer
	for _, name := range []string{".git/user", ".git/info/exclude"} {
		data, _ := os.ReadFile(filepath.Join(w.dir, name))
		base = base.Push("", data)
	}
	for _, p := range w.paths {
		info, err := os.Lstat(filepath.Join(w.dir, p))
		require.NoError(t, err)
		if got := ignored(read, base, p, info.IsDir()); got != want[p] {
			t.Errorf("ignored(%q) = %v, git says %v; ignore files: %s", p, got, want[p], w.ignores())
		}
	}
	return len(w.paths)
}

func (w *world) ignores() string {
	var b strings.Builder
	for _, p := range w.paths {
		if path.Base(p) == ".gitignore" {
			data, _ := os.ReadFile(filepath.Join(w.dir, p))
			b.WriteString(p + ": " + strings.ReplaceAll(string(data), "\n", " ⏎ ") + "\n")
		}
	}
	return b.String()
}

func needGit(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not on this machine: nothing to compare with")
	}
}

var adversarial = []string{
	"*.log\n!keep.log", "/a", "a/", "a/b", "/a/b/", "**/b", "a/**", "a/**/c", "**", "*", "!*", "*\n!a\n!*.txt",
	"a**/b", "a**b", "**b", "b**", "/**", "**/", "/**/b", "a/***/c", "***", `a\**`, "a/*", "a/*/c",
	"*/b", "?", "??", "[ab]", "[!a]", "[^a]", "[a-c]", "[]a]", "[!]a]", "[a", "a[", "[", "[a-]", "[-a]", `[\]]`,
	`[\a]`, "[a-c-e]", "[c-a]", "[[:alpha:]]", "[[:digit:]x]", "[[:bad:]]", "[[:alpha:]", "[[:alpha]", "[[a]]",
	`\a`, `a\`, `\`, `\!x`, "!x", `\#x`, "#x", "#", "!", "!!x", "/", "//", "a//", "//a", "a//b", "./a", "a/./b", "../a",
	"a ", `a\ `, `a\  `, " a", "a\t", "a\r", "a\r\nb", "\xef\xbb\xbfa", "a\xef\xbb\xbf", "{a,b}", "*.{log,txt}",
	"x y", "x\\ y", "é", "?é", "[é]", "*é", "\xff", "[\x80-\xff]*", "a\n!a/b", "a/\n!a/b", "a/*\n!a/b", "A", "*A", "a*c*d",
	"*a*a*a*a*b", "a/b\n!a/b\na/b", "foo**/bar", "foo**bar", "f*o**/bar", `a/\*`, `a\/b`, `**\/b`, "[/]", "a[/]b", "a[!x]b", "a?b",
	"*.[ch]", "*.[!ch]", "a.b", "**/a/**", "**/a/*", "**/**/b", "a/**/**/c", "*/", "**/*/", "!*/\n*", "*.*", ".*", ".", "..",
}

var names = []string{
	"a", "b", "c", "d", "A", "x", "ab", "abc", "aXb", "foo", "bar", "foobar", "fooxbar", "a.log", "keep.log",
	"a.txt", "a.c", "a.h", "a.o", "x y", "a ", " a", "é", "xé", "!x", "#x", "[a", "a[", "[", "]", "-", "*", "a*", `a\`, "{a,b}",
	"1", "a\t", "\xff", "a\r", ".a", "aaaaaaaaaaaaaaaaaaaa", "\xef\xbb\xbfa",
}

// tree is files at some depths, from the same names at each.
func tree(r *rand.Rand) map[string]string {
	files := map[string]string{}
	for _, n := range names {
		files["top/"+n] = ""
		files[n+".d/"+n] = ""
		files["a/b/c/"+n] = ""
	}
	for range 60 {
		p := ""
		for range 1 + r.IntN(4) {
			p = path.Join(p, names[r.IntN(len(names))]+".D")
		}
		files[p+"/"+names[r.IntN(len(names))]] = ""
	}
	for _, p := range []string{"foo/bar", "foo/x/bar", "d/b", "d/a/c", "d/a/x/c", "x/a/b", "c/a", "ab/b"} {
		files[p] = ""
	}
	return files
}

func TestAgainstGitAdversarial(t *testing.T) {
	timed.Long(t, "a comparison with git on hostile patterns")
	timed.Serial(t)
	needGit(t)
	r := rand.New(rand.NewPCG(1, 2))
	w := newWorld(t, tree(r), nil)
	n := 0
	for _, text := range adversarial {
		w.write(t, ".gitignore", text)
		n += w.compare(t)
	}
	t.Logf("%d decisions, %d ignored, %d files of patterns", n, w.ignored, len(adversarial))
	assert.Greater(t, w.ignored, n/20)
}

func TestAgainstGitRandom(t *testing.T) {
	timed.Long(t, "a comparison with git on random patterns")
	timed.Serial(t)
	needGit(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 3))
	w := newWorld(t, tree(r), nil)
	n := 0
	for range 120 {
		w.write(t, ".gitignore", randomFile(r))
		w.write(t, "a/.gitignore", randomFile(r))
		w.write(t, "a/b/.gitignore", randomFile(r))
		w.write(t, ".git/info/exclude", randomFile(r))
		w.write(t, ".git/user", randomFile(r))
		n += w.compare(t)
	}
	t.Logf("%d decisions, %d ignored", n, w.ignored)
	assert.Greater(t, w.ignored, n/20)
}

func randomFile(r *rand.Rand) string {
	pieces := []string{"a", "b", "c", "foo", "/", "/", "*", "**", "?", "[ab]", "[!a]", "[a-x]", `\`, ".", "é", "*."}
	var b strings.Builder
	for range 1 + r.IntN(3) {
		if r.IntN(4) == 0 {
			b.WriteString("!")
		}
		if r.IntN(3) == 0 {
			b.WriteString(names[r.IntN(len(names))])
		}
		for range r.IntN(6) {
			b.WriteString(pieces[r.IntN(len(pieces))])
		}
		if r.IntN(4) == 0 {
			b.WriteString("/")
		}
		b.WriteString([]string{"\n", "\r\n", " \n"}[r.IntN(3)])
	}
	return b.String()
}

// The names in real trees, and names that their patterns were made for. AYCODER_TREES is
// the list of the trees.
func TestAgainstGitTrees(t *testing.T) {
	needGit(t)
	list := filepath.SplitList(os.Getenv("AYCODER_TREES"))
	if len(list) == 0 {
		t.Skip("AYCODER_TREES names no trees")
	}
	for _, dir := range list {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			files, ignores := skeleton(t, dir)
			w := newWorld(t, files, ignores)
			n := w.compare(t)
			t.Logf("%d decisions, %d ignored, %d ignore files", n, w.ignored, len(ignores))
		})
	}
}

// skeleton returns the names in a tree, without their content, and its ignore files. To
// each directory come the names that the patterns in it and above it look for.
func skeleton(t *testing.T, dir string) (files, ignores map[string]string) {
	t.Helper()
	files, ignores = map[string]string{}, map[string]string{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil || d.Name() == ".git":
			if d != nil && d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case d.Name() == ".gitignore" && d.Type().IsRegular():
			data, err := os.ReadFile(filepath.Join(dir, p))
			require.NoError(t, err)
			ignores[p] = string(data)
		case d.Type().IsRegular():
			files[p] = ""
		}
		return nil
	})
	require.NoError(t, err)
	directories := map[string]bool{}
	for p := range files {
		addDirectories(directories, p)
	}
	for name, text := range ignores {
		for line := range strings.Lines(text) {
			for _, p := range meant(strings.Trim(line, "!/ \r\n")) {
				for _, in := range []string{"", "x", "x/y"} {
					addFile(files, directories, path.Join(path.Dir(name), in, p))
					addFile(files, directories, path.Join(path.Dir(name), in, p+".d", "f"))
				}
			}
		}
	}
	return files, ignores
}

func addDirectories(directories map[string]bool, name string) {
	for p := path.Dir(name); p != "."; p = path.Dir(p) {
		directories[p] = true
	}
}

// meant returns names like those that a pattern is for.
func meant(pattern string) []string {
	if pattern == "" || strings.HasPrefix(pattern, "#") || len(pattern) > 100 {
		return nil
	}
	fill := strings.NewReplacer("**/", "a/b/", "**", "c", "*", "x", "?", "y", "[", "", "]", "", `\`, "", "\x00", "")
	p := fill.Replace(pattern)
	return []string{p, p + "x", "x" + p, strings.ToUpper(p), p + "/inside"}
}

// addFile adds a file unless it is in the way of another, or one in its.
func addFile(files map[string]string, directories map[string]bool, name string) {
	name = path.Clean(name)
	if directories[name] || name == "." || strings.HasPrefix(name, "..") || path.Base(name) == ".gitignore" ||
		strings.Contains("/"+name+"/", "/.git/") {
		return
	}
	for p := path.Dir(name); p != "."; p = path.Dir(p) {
		if _, taken := files[p]; taken || path.Base(p) == ".gitignore" {
			return
		}
	}
	files[name] = ""
	addDirectories(directories, name)
}

func TestSecretAndProtected(t *testing.T) {
	tests := []struct {
		path              string
		secret, protected bool
	}{
		{"main.go", false, false},
		{".env", true, false},
		{".ENV", true, false},
		{".env.local", true, false},
		{".env.example", false, false},
		{".env.local.template", false, false},
		{"env.ts", false, false},
		{"dotenv.md", false, false},
		{"config/.env", true, false},
		{".env::$DATA", true, false},
		{".env. ", true, false},
		{"server:8443.key", true, false},
		{"db:prod.pem", true, false},
		{"host:1.tfstate", true, false},
		{"a.key:stream", true, false},
		{".ssh:x/config", true, false},
		{"agents.md:x", false, true},
		{":.go", false, false},
		{".env~", true, false},
		{"server.key~", true, false},
		{"main.go~", false, false},
		{".ſsh/id", true, false},
		{".\u00dfh/id", true, false},
		{".\u1e9eh/id", true, false},
		{".\u212aube/config", true, false},
		{".env\ufe0f", true, false},
		{"agentſ.md", false, true},
		{"id_rsa", true, false},
		{"id_rsa.pub", false, false},
		{"id_ed25519_work", true, false},
		{"id_card.go", false, false},
		{"server.PEM", true, false},
		{"pem.md", false, false},
		{"keyboard.go", false, false},
		{"x/.ssh/config", true, false},
		{".docker/config.json", true, false},
		{"terraform.tfstate", true, false},
		{"service-account-1.json", true, false},
		{".git/config", false, true},
		{".Git/hooks/x", false, true},
		{".g\u200cit/config", false, true},
		{"GIT~1/config", false, true},
		{"sub/.git", false, true},
		{".gitignore", false, false},
		{".gitmodules", false, true},
		{".github/workflows/ci.yml", false, true},
		{"AGENTS.md", false, true},
		{"docs/agents.md", false, true},
		{"agents.mdx", false, false},
		{"..", false, false},
		{"ENV~1", true, false},
		{"env~12", true, false},
		{"env~x", false, false},
		{"environ~1", false, false},
		{"SSH~1/config", true, false},
		{"x/GITHUB~1/w.yml", false, true},
		{"GITMOD~1", false, true},
		{"gi7eba~1", false, true},
		{"CREDEN~1.JSO", true, false},
		{"CREDEN~1.GO", false, false},
		{"SERVER~1.PEM", true, false},
		{"git~1::$INDEX_ALLOCATION/config", false, true},
		{".git. . /config", false, true},
		{`.git\hooks\x`, false, true},
		{`a\.ssh\id`, true, false},
		{`a\b.txt`, false, false},
		{"#.env#", true, false},
		{".#.env", true, false},
		{"..env.swp", true, false},
		{".server.pem.swp", true, false},
		{"server.pem.bak", true, false},
		{"server.pem.bak~", true, false},
		{"main.go.bak", false, false},
		{"#", false, false},
		{"~", false, false},
		{"...", false, false},
		{"\u202e.env", true, false},
		{"\u2028.env", false, false},
		{".codex/config.toml", false, true},
	}
	for _, tt := range tests {
		assert.Equal(t, tt.secret, Secret(tt.path), "Secret(%q)", tt.path)
		if !tt.secret || tt.protected { // those of ssh and docker are both
			assert.Equal(t, tt.protected, Store(tt.path) || Runs(tt.path) != "", "Store or Runs(%q)", tt.path)
		}
	}
}

func TestSkipped(t *testing.T) {
	for name, want := range map[string]bool{
		".git": true, "node_modules": true, "vendor": true, "__pycache__": true, ".venv": true, "target": true,
		"node_modules.md": false, "build": false, "src": false, ".github": false, "Target": false,
	} {
		assert.Equal(t, want, Skipped(name), "Skipped(%q)", name)
	}
	assert.True(t, vcs.has(".hg"))
	assert.False(t, vcs.has("vendor"))
}

// Each try starts git, so there are few a second.
func FuzzAgainstGit(f *testing.F) {
	if _, err := exec.LookPath("git"); err != nil {
		f.Skip("git is not on this machine: nothing to compare with")
	}
	w := newWorld(f, map[string]string{"a": "", "ab/b": "", "c/a.x/b": "", "c/d/[e": "", "x y": "", "é": "", "-": "", "c/-/A": ""}, nil)
	for _, s := range adversarial {
		f.Add([]byte(s), []byte("a\n"))
	}
	f.Fuzz(func(t *testing.T, top, below []byte) {
		if len(top) > 60 || len(below) > 60 {
			return
		}
		w.write(t, ".gitignore", string(top))
		w.write(t, "c/.gitignore", string(below))
		w.compare(t)
	})
}

func FuzzIgnored(f *testing.F) {
	for _, s := range adversarial {
		f.Add([]byte(s), "a/b")
	}
	f.Fuzz(func(t *testing.T, file []byte, p string) {
		l := (*Layer)(nil).Push("", file).Push("a", file)
		l.Ignored(p, false)
		l.Ignored(p, true)
		Secret(p)
		Store(p)
		Runs(p)
		Names(p, p)
	})
}

// An ignore file does not get to make each look at a name take long.
func TestLayersAreBounded(t *testing.T) {
	tests := []struct {
		name, line string
		want       int // patterns of two layers
	}{
		{"plain", "name\n", 2 * maxPatterns},
		{"suffix", "*.o\n", 2 * maxPatterns},
		{"path", "/a/b\n", 2 * maxPatterns},
		{"wild", "*a*b*\n", 2 * maxPatterns},
		{"wild, longer", "*a*b*c*d*e*f*g*h*i*j*k*l*\n", maxSteps / 13},
		{"wild path", "/long/x/a*b/y*\n", maxSteps / 12},
		{"long", strings.Repeat("?", maxLine-2) + "\n", maxSteps / (maxLine - 1)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			file := []byte(strings.Repeat(tt.line, 5000))
			l := (*Layer)(nil).Push("", file).Push("a", file)
			n := 0
			for at := l; at != nil; at = at.above {
				n += len(at.negative)
			}
			assert.Equal(t, tt.want, n)
			assert.LessOrEqual(t, l.steps, maxSteps)
		})
	}
}

func TestBounded(t *testing.T) {
	text := strings.Repeat("*a", 1500) + "b\n" + strings.Repeat("**/", 1000) + "b"
	start := time.Now()
	l := (*Layer)(nil).Push("", []byte(text))
	assert.False(t, l.Ignored(strings.Repeat("a/", 500)+strings.Repeat("a", 200), false))
	timed.Within(t, start, 2*time.Second)
}
