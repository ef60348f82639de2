package code_test

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/insight/code"
	"github.com/aycoder/aycoder/internal/gittest"
)

// git runs git in a directory, as somebody.
func git(t testing.TB, dir, who string, args ...string) string {
	t.Helper()
	return gittest.With(t, dir, []string{"GIT_AUTHOR_NAME=" + who, "GIT_AUTHOR_EMAIL=" + who + "@example.com"}, args...)
}

func write(t testing.TB, dir, name, text string) {
	t.Helper()
	file := filepath.Join(dir, filepath.FromSlash(name))
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
	require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
}

// small makes a repository with renames, a merge, a binary file, generated and vendored ones, and odd names.
func small(t testing.TB) string {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	dir := t.TempDir()
	git(t, dir, "ann", "init", "-q", "-b", "main")
	at := time.Date(2026, 1, 5, 12, 0, 0, 0, time.UTC)
	commit := func(who string) {
		t.Setenv("GIT_AUTHOR_DATE", at.Format(time.RFC3339))
		t.Setenv("GIT_COMMITTER_DATE", at.Format(time.RFC3339))
		git(t, dir, who, "add", "-A")
		git(t, dir, who, "commit", "-q", "-m", "x")
		at = at.Add(8 * 24 * time.Hour)
	}
	write(t, dir, "a.go", "package a\n\n// F is.\nfunc F(x int) int {\n\tif x > 0 && x < 9 {\n\t\treturn 1\n\t}\n\treturn 0\n}\n")
	write(t, dir, "vendor/v.go", "package v\n")
	write(t, dir, "gen.pb.go", "package a\n")
	write(t, dir, "odd\nname\x01.txt", "one\n")
	write(t, dir, "pic.bin", "\x00\x01\n")
	commit("ann")
	git(t, dir, "ann", "mv", "a.go", "b.go")
	commit("bob")
	write(t, dir, "a.go", "package a\n") // another file of the old name
	write(t, dir, "b.go", "package a\n\n// F is.\nfunc F(x int) int {\n\tfor x > 9 {\n\t\tx--\n\t}\n\treturn x\n}\n")
	commit("bob")
	git(t, dir, "ann", "checkout", "-q", "-b", "side", "HEAD~1")
	write(t, dir, "s.py", "# c\n\"\"\"doc\n\nmore\"\"\"\nif x:\n    pass  # y\n")
	commit("ann")
	git(t, dir, "ann", "checkout", "-q", "main")
	git(t, dir, "ann", "merge", "-q", "--no-ff", "-m", "m", "side")
	write(t, dir, ".mailmap", "Bob B <bob@example.com> <robert@example.com>\n")
	write(t, dir, "b.go", "package a\n")
	commit("robert")
	return dir
}

func TestSmall(t *testing.T) {
	dir := small(t)
	h, err := code.Read(t.Context(), dir, code.Options{})
	require.NoError(t, err)
	require.Equal(t, []int{6, 1, 1}, []int{h.Commits, h.Merges, h.Binary})
	files := map[string]*code.File{}
	for _, f := range h.Files {
		files[f.Path] = f
	}
	require.Len(t, files, 8)
	b := files["b.go"]
	require.Equal(t, []int{4, 9 + 3 + 0, 0 + 3 + 8}, []int{b.Commits, b.Added, b.Deleted}, "with what it had as a.go")
	require.Equal(t, 1, files["a.go"].Commits)
	require.True(t, files["vendor/v.go"].Vendored)
	require.True(t, files["gen.pb.go"].Generated)
	require.Contains(t, files, "odd\nname\x01.txt")
	s := files["s.py"]
	require.Equal(t, []int{2, 3, 1}, []int{s.Code, s.Comment, s.Blank})
	var names []string
	for _, a := range h.Authors {
		names = append(names, a.Name)
	}
	sort.Strings(names)
	require.Equal(t, []string{"Bob B", "ann", "bob"}, names, "the mailmap has one of bob's addresses")
	require.Len(t, h.Weeks, 5, "32 days")
	require.Equal(t, h.Weeks[len(h.Weeks)-1].Lines, h.Added-h.Deleted)
	count := func(h *code.History) { // as git has them
		out, err := exec.Command("git", "-C", dir, "ls-files", "*.go").Output()
		require.NoError(t, err)
		require.Equal(t, strings.Count(string(out), "\n"), h.Weeks[len(h.Weeks)-1].Files["Go"])
	}
	count(h)
	git(t, dir, "ann", "rm", "-q", "gen.pb.go")
	git(t, dir, "ann", "commit", "-q", "-m", "without")
	later, err := code.Read(t.Context(), dir, code.Options{})
	require.NoError(t, err)
	require.Equal(t, h.Weeks[0].Files, later.Weeks[0].Files)
	count(later)
	git(t, dir, "ann", "reset", "-q", "--hard", "HEAD~1")
	require.Empty(t, h.Hotspots(-1))
	require.Empty(t, h.Pairs(-1))
	owners, err := code.Owners(t.Context(), dir, "s.py")
	require.NoError(t, err)
	require.Equal(t, []code.Owner{{"ann", "ann@example.com", 6}}, owners)
	for _, name := range []string{"../x", "/etc/passwd", "nothing"} {
		_, err = code.Owners(t.Context(), dir, name)
		require.Error(t, err)
	}
	_, err = code.Read(t.Context(), t.TempDir(), code.Options{})
	require.Error(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = code.Read(ctx, dir, code.Options{})
	require.ErrorIs(t, err, context.Canceled)
}

// A part of the history has no sums, and says nothing about how many lines there were.
func TestSince(t *testing.T) {
	dir := small(t)
	page := func(o code.Options) (*code.History, string) {
		h, err := code.Read(t.Context(), dir, o)
		require.NoError(t, err)
		var b bytes.Buffer
		require.NoError(t, h.WriteHTML(&b))
		return h, b.String()
	}
	h, text := page(code.Options{})
	require.Contains(t, text, fmt.Sprintf("about %d lines at the end", h.Added-h.Deleted))
	h, text = page(code.Options{Since: h.First.Add(time.Hour)})
	require.Equal(t, 5, h.Commits)
	require.NotContains(t, text, "lines at the end")
	for _, w := range h.Weeks {
		require.Zero(t, w.Lines)
		require.Empty(t, w.Languages)
		require.Empty(t, w.Files)
	}
	require.Empty(t, h.Unread)
	data, err := json.Marshal(h)
	require.NoError(t, err)
	var out struct {
		Growth float64 `json:"lines_a_week"`
	}
	require.NoError(t, json.Unmarshal(data, &out))
	require.InDelta(t, float64(h.Added-h.Deleted-h.Weeks[0].Added+h.Weeks[0].Deleted)/float64(len(h.Weeks)-1), out.Growth, 1e-9)
}

// The oldest commits of a shallow clone seem to have written what was there before, so a report says that it is one.
func TestShallow(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "clone")
	from := small(t)
	git(t, from, "ann", "clone", "-q", "--depth", "1", "file://"+filepath.ToSlash(from), dir)
	h, err := code.Read(t.Context(), dir, code.Options{})
	require.NoError(t, err)
	require.Equal(t, 1, h.Commits)
	require.Equal(t, []string{"older commits: the clone is shallow, and its oldest ones have all lines that were there"}, h.Unread)
}

// A commit that was replaced counts as it was made.
func TestReplaced(t *testing.T) {
	dir := small(t)
	h, err := code.Read(t.Context(), dir, code.Options{})
	require.NoError(t, err)
	git(t, dir, "ann", "replace", "--graft", "HEAD")
	replaced, err := code.Read(t.Context(), dir, code.Options{})
	require.NoError(t, err)
	require.Equal(t, h.Commits, replaced.Commits)
	require.Equal(t, []string{"replacements: commits that git replace has replaced count as they were made"}, replaced.Unread)
	_, err = code.Read(t.Context(), dir, code.Options{Since: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)})
	require.ErrorContains(t, err, "there are no commits since then")
}

// A page of a repository that is a week old has a line, and no control characters of somebody's name.
func TestPageOfNewRepository(t *testing.T) {
	dir := t.TempDir()
	git(t, dir, "x\x1b[31mred", "init", "-q")
	write(t, dir, "a.go", "package a\n")
	git(t, dir, "x\x1b[31mred", "add", "-A")
	git(t, dir, "x\x1b[31mred", "commit", "-qm", "x")
	h, err := code.Read(t.Context(), dir, code.Options{})
	require.NoError(t, err)
	var page strings.Builder
	require.NoError(t, h.WriteHTML(&page))
	require.Contains(t, page.String(), `<polyline points="0.0,2.0 1000.0,2.0 "/>`)
	require.Contains(t, page.String(), "red<td>1")
	require.NotContains(t, page.String(), "\x1b")
}

// Errors say what a user can do, whatever git calls it.
func TestUnreadable(t *testing.T) {
	dir := t.TempDir()
	git(t, dir, "ann", "init", "-q", "-b", "main")
	read := func(dir string) []error {
		_, err1 := code.Read(t.Context(), dir, code.Options{})
		_, err2 := code.Changes(t.Context(), dir, "a.txt")
		_, err3 := code.Owners(t.Context(), dir, "a.txt")
		return []error{err1, err2, err3}
	}
	for _, err := range read(dir) {
		require.ErrorContains(t, err, ": there are no commits")
		require.NotContains(t, err.Error(), "fatal")
	}
	for i := range 3 {
		write(t, dir, "a.txt", strings.Repeat("line\n", i+1))
		git(t, dir, "ann", "add", "-A")
		git(t, dir, "ann", "commit", "-qm", "x")
	}
	git(t, dir, "ann", "config", "uploadpack.allowFilter", "true")
	partial := filepath.Join(t.TempDir(), "partial")
	git(t, dir, "ann", "clone", "-q", "--filter=blob:none", "file://"+filepath.ToSlash(dir), partial)
	for _, err := range read(partial) {
		require.ErrorContains(t, err, ": the clone is partial, and git fetch --refetch --no-filter gets what it lacks: ")
	}
	git(t, partial, "ann", "fetch", "-q", "--refetch", "--no-filter")
	for _, err := range read(partial) {
		require.NoError(t, err)
	}
	for _, err := range read(t.TempDir()) {
		require.ErrorContains(t, err, "not a git repository")
	}
}

// Symbolic links and other repositories do not count as files, and are still there.
func TestGone(t *testing.T) {
	dir := small(t)
	before, err := code.Read(t.Context(), dir, code.Options{})
	require.NoError(t, err)
	if err := os.Symlink("b.go", filepath.Join(dir, "link.go")); err != nil {
		t.Skip("links are not allowed")
	}
	git(t, dir, "ann", "init", "-q", "module")
	git(t, filepath.Join(dir, "module"), "ann", "commit", "-q", "--allow-empty", "-m", "x")
	git(t, dir, "ann", "add", "-A")
	git(t, dir, "ann", "commit", "-q", "-m", "x")
	h, err := code.Read(t.Context(), dir, code.Options{})
	require.NoError(t, err)
	require.Equal(t, []int{len(before.Files), 0}, []int{len(h.Files), h.Gone})
	git(t, dir, "ann", "rm", "-q", "--cached", "link.go", "module", "s.py")
	git(t, dir, "ann", "commit", "-q", "-m", "x")
	h, err = code.Read(t.Context(), dir, code.Options{})
	require.NoError(t, err)
	require.Equal(t, []int{len(before.Files) - 1, 3}, []int{len(h.Files), h.Gone})
}

// The figures do not depend on a repository's configuration, nor on the directory of it.
func TestConfigured(t *testing.T) {
	dir := small(t)
	for i, at := range []string{"m", "n"} { // moved and changed
		for _, name := range []string{"1.txt", "2.txt"} {
			write(t, dir, at+name, strings.Repeat(name+"\n", 20)+strings.Repeat("more\n", i))
		}
		git(t, dir, "ann", "add", "-A")
		git(t, dir, "ann", "commit", "-qm", "x")
		require.NoError(t, os.Remove(filepath.Join(dir, at+"1.txt")))
		require.NoError(t, os.Remove(filepath.Join(dir, at+"2.txt")))
	}
	figures := func(dir string) string {
		h, err := code.Read(t.Context(), dir, code.Options{})
		require.NoError(t, err)
		data, err := json.Marshal(h)
		require.NoError(t, err)
		return string(data)
	}
	want := figures(dir)
	lines := filepath.Join(t.TempDir(), "lines")
	require.NoError(t, os.WriteFile(lines, []byte("Eve <eve@example.com> <ann@example.com>\n"), 0o644))
	for _, c := range [][2]string{{"log.showRoot", "false"}, {"i18n.logOutputEncoding", "UTF-16"}, {"diff.relative", "true"}, {"diff.orderFile", "/none"},
		{"core.bigFileThreshold", "1"}, {"mailmap.file", lines}, {"diff.renames", "false"}, {"diff.renameLimit", "1"}, {"core.bare", "true"}} {
		git(t, dir, "x", "config", c[0], c[1])
		require.Equal(t, want, figures(dir), c)
		require.Equal(t, want, figures(filepath.Join(dir, "vendor")), c)
		git(t, dir, "x", "config", "--unset", c[0])
	}
}

// A commit with a time that is not one has that of the commit before it in the list.
func TestOddTimes(t *testing.T) {
	dir := small(t)
	head := strings.TrimSpace(git(t, dir, "x", "rev-parse", "HEAD"))
	for _, at := range []string{"18446744073709551614 +0000", "9223372036854775807 +0000", "253402300800 +0000", "-5 +0000", ""} {
		parent := head
		for _, at := range []string{at, "1780000000 +0000"} {
			cmd := exec.Command("git", "hash-object", "-t", "commit", "-w", "--stdin", "--literally")
			cmd.Dir, cmd.Stdin = dir, strings.NewReader("tree "+strings.TrimSpace(git(t, dir, "x", "rev-parse", head+"^{tree}"))+"\nparent "+parent+
				"\nauthor A <a@b> "+at+"\ncommitter A <a@b> 1780000000 +0000\n\nx\n")
			out, err := cmd.Output()
			require.NoError(t, err)
			parent = strings.TrimSpace(string(out))
		}
		git(t, dir, "x", "update-ref", "refs/heads/main", parent)
		h, err := code.Read(t.Context(), dir, code.Options{})
		require.NoError(t, err, at)
		require.Equal(t, 8, h.Commits)
		require.Equal(t, []int64{time.Date(2026, 1, 5, 12, 0, 0, 0, time.UTC).Unix(), 1780000000}, []int64{h.First.Unix(), h.Last.Unix()}, at)
		_, err = json.Marshal(h)
		require.NoError(t, err, at)
	}
}

// A commit is recent by the newest one, also if git lists an older one first.
func TestRecent(t *testing.T) {
	dir := t.TempDir()
	git(t, dir, "ann", "init", "-q", "-b", "main")
	for i, written := range []string{"2026-05-01T00:00:00Z", "2020-01-01T00:00:00Z"} {
		write(t, dir, fmt.Sprintf("%d.go", i), "package a\n")
		t.Setenv("GIT_AUTHOR_DATE", written)
		t.Setenv("GIT_COMMITTER_DATE", fmt.Sprintf("2026-05-0%dT00:00:00Z", i+1))
		git(t, dir, "ann", "add", "-A")
		git(t, dir, "ann", "commit", "-qm", "x")
	}
	h, err := code.Read(t.Context(), dir, code.Options{})
	require.NoError(t, err)
	require.Equal(t, []int{1, 0}, []int{h.Files[0].Recent, h.Files[1].Recent})
}

// Comments that begin and end again and again in one line are searched once. Else, this would take half an hour.
func TestManyComments(t *testing.T) {
	for _, end := range []string{"", `" //`} {
		text := strings.Repeat("/* */ ", 8<<20/6) + end
		n, comment, blank := code.CountLines("a.js", []byte(text))
		require.Equal(t, []int{min(1, len(end)), 1 - min(1, len(end)), 0}, []int{n, comment, blank})
	}
}

func TestCommentsOfLua(t *testing.T) {
	code, comment, blank := code.CountLines("a.lua", []byte("--[[ a\nb\n\n]]\nx = 1 --[[ c ]]\n-- d\n"))
	require.Equal(t, []int{1, 4, 1}, []int{code, comment, blank})
}

// A repository's configuration starts no program.
func TestHostile(t *testing.T) {
	dir := small(t)
	mark := filepath.Join(t.TempDir(), "mark")
	run := filepath.Join(dir, "run.sh")
	require.NoError(t, os.WriteFile(run, []byte("#!/bin/sh\ntouch "+mark+"\ncat\n"), 0o755))
	for _, c := range []string{"diff.external", "core.fsmonitor", "core.pager", "gpg.program", "diff.x.textconv", "diff.x.command", "core.sshCommand", "filter.x.clean", "filter.x.smudge"} {
		git(t, dir, "x", "config", c, run)
	}
	git(t, dir, "x", "config", "log.showSignature", "true")
	git(t, dir, "x", "config", "core.hooksPath", dir)
	require.NoError(t, os.WriteFile(filepath.Join(dir, ".git/info/attributes"), []byte("* diff=x filter=x\n"), 0o644))
	_, err := code.Read(t.Context(), dir, code.Options{})
	require.NoError(t, err)
	_, err = code.Owners(t.Context(), dir, "b.go")
	require.NoError(t, err)
	require.NoFileExists(t, mark)
}

func TestComplexity(t *testing.T) {
	t.Parallel()
	funcs, ok := code.Complexity([]byte(`package p
var f = func() { for { select { case <-c: default: } } }
func (t *T[A]) m(x any) { switch x { case 1, 2: case 3: default: }; if a && b || c { }; g := func() { for range y { } }; g() }
`))
	require.True(t, ok)
	require.Equal(t, []code.Func{{"f", 2, 3}, {"(*T).m", 3, 7}}, funcs)
	_, ok = code.Complexity([]byte("package"))
	require.False(t, ok)
}

// repos are the repositories in AYCODER_REPOS.
func repos(t testing.TB) []string {
	base := os.Getenv("AYCODER_REPOS")
	dirs, _ := filepath.Glob(filepath.Join(base, "*", ".git"))
	if base == "" || len(dirs) == 0 {
		t.Skip("AYCODER_REPOS names no directory of repositories")
	}
	for i := range dirs {
		dirs[i] = filepath.Dir(dirs[i])
	}
	return dirs
}

// The sums are those of git log --numstat -M, the owners those of git blame.
func TestAsGit(t *testing.T) {
	for _, dir := range repos(t) {
		h, err := code.Read(t.Context(), dir, code.Options{})
		require.NoError(t, err)
		commits, added, deleted, binary := 0, 0, 0, 0
		for line := range strings.Lines(git(t, dir, "x", "log", "--numstat", "-M", "--format=tformat:commit")) {
			words := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
			switch {
			case line == "commit\n":
				commits++
			case len(words) == 3 && words[0] == "-":
				binary++
			case len(words) == 3:
				a, _ := strconv.Atoi(words[0])
				d, _ := strconv.Atoi(words[1])
				added, deleted = added+a, deleted+d
			}
		}
		require.Equal(t, []int{commits, added, deleted, binary}, []int{h.Commits, h.Added, h.Deleted, h.Binary}, dir)
		same := 0
		for i := 0; same < 50 && i < len(h.Files); i += max(1, len(h.Files)/70) {
			name := h.Files[i].Path
			owners, err := code.Owners(t.Context(), dir, name)
			require.NoError(t, err)
			want := map[string]int{}
			for line := range strings.Lines(git(t, dir, "x", "blame", "--line-porcelain", "HEAD", "--", name)) {
				if who, ok := strings.CutPrefix(line, "author "); ok {
					want[strings.TrimSuffix(who, "\n")]++
				}
			}
			got := map[string]int{}
			for _, o := range owners {
				got[o.Name] += o.Lines
			}
			require.Equal(t, want, got, name)
			same++
		}
		t.Logf("%s: %d commits, %d added, %d deleted, %d files blamed", filepath.Base(dir), commits, added, deleted, same)
	}
}

// The names of files are those that cloc 1.96 lists, the longest end first.
func TestLanguageOf(t *testing.T) {
	for name, want := range map[string]string{
		"a/build.gradle.kts": "Gradle", "a.b.gradle.kts": "Gradle", "a.kts": "Kotlin", "pom.xml": "Maven", "a.pom.xml": "XML", "x.cmake.in": "CMake",
		".clang-format": "YAML", "Makefile": "make", "d.ts/x": "", "a.d.ts": "TypeScript", "a.": "", "": "", "go": "", "rg.zsh": "zsh",
		"Rakefile": "Ruby", "Gemfile": "Ruby", "a.gemspec": "Ruby", "config.ru": "Ruby", "lib/a.rake": "Ruby",
	} {
		assert.Equal(t, want, code.LanguageOf(name), name)
	}
}

// In each language that both know, there are as many files as cloc 1.96 counts, within one percent, and as many lines of code, if
// there are a thousand. Links are left out, which cloc counts like files. Among the lines, files are left out in which cloc
// takes the "/*" of a pattern such as "src/**/*.rs" in a string for the beginning of a comment. In ripgrep's tests/regression.rs it
// counts 223 of 1,281 lines.
func TestAsCloc(t *testing.T) {
	program, err := exec.LookPath("cloc")
	if err != nil {
		t.Skip("cloc is not installed")
	}
	version, err := exec.Command(program, "--version").Output()
	require.NoError(t, err)
	require.Equal(t, "1.96", strings.TrimSpace(string(version)))
	pattern := regexp.MustCompile("[\"'`#].*/\\*")
	for _, dir := range repos(t) {
		cmd := exec.Command(program, "--vcs=git", "--csv", "--quiet", "--timeout", "0", "--skip-uniqueness", "--by-file", ".")
		cmd.Dir = dir
		out, err := cmd.Output()
		require.NoError(t, err)
		rows := csv.NewReader(bytes.NewReader(out[max(0, bytes.Index(out, []byte("language,"))):]))
		rows.FieldsPerRecord = -1
		all, err := rows.ReadAll()
		require.NoError(t, err)
		h, err := code.Read(t.Context(), dir, code.Options{})
		require.NoError(t, err)
		ours := map[string]*code.File{}
		for _, f := range h.Files {
			ours[f.Path] = f
		}
		sums, left, files := map[string][3]int{}, 0, map[string]int{}
		var worst []string
		for _, row := range all[1:] {
			if len(row) < 5 || row[0] == "SUM" {
				continue
			}
			n, _ := strconv.Atoi(row[4])
			name := strings.TrimPrefix(row[1], "./")
			f := ours[name]
			data, err := os.ReadFile(filepath.Join(dir, name))
			require.NoError(t, err)
			info, err := os.Lstat(filepath.Join(dir, name))
			require.NoError(t, err)
			if info.Mode().IsRegular() {
				files[row[0]]++
			}
			if !info.Mode().IsRegular() || f == nil || f.Language == "" || pattern.Match(data) && f.Code != n {
				left++
				continue
			}
			s := sums[row[0]]
			s[0] += n
			s[1] += f.Code
			if s[2]++; f.Code != n {
				worst = append(worst, fmt.Sprintf("%6d %s %d %d", max(f.Code-n, n-f.Code), row[1], f.Code, n))
			}
			sums[row[0]] = s
		}
		slices.Sort(worst)
		slices.Reverse(worst)
		for name, s := range sums {
			t.Logf("%s %s: %d files, %d by cloc, %d here", filepath.Base(dir), name, s[2], s[0], s[1])
			if s[0] >= 1000 {
				assert.InEpsilon(t, s[0], s[1], 0.01, name)
			}
		}
		for _, l := range h.Languages {
			assert.InEpsilon(t, max(1, files[l.Name]), l.Files, 0.01, "files of %s", l.Name)
			delete(files, l.Name)
		}
		t.Logf("%d files are left out, also those of languages that have no name here: %v", left, files)
		t.Log(strings.Join(worst[:min(12, len(worst))], "\n"))
	}
}

// Each function has the complexity that gocyclo v0.6.0 gives it.
func TestAsGocyclo(t *testing.T) {
	program := os.Getenv("AYCODER_GOCYCLO")
	if program == "" {
		t.Skip("AYCODER_GOCYCLO does not name the program")
	}
	n := 0
	for _, dir := range repos(t) {
		cmd := exec.Command(program, ".")
		cmd.Dir = dir
		out, _ := cmd.Output()
		want := map[string]int{}
		for line := range strings.Lines(string(out)) {
			words := strings.Fields(line) // 9 pkg name file:line:column
			at := strings.Split(words[len(words)-1], ":")
			c, _ := strconv.Atoi(words[0])
			want[at[0]+":"+at[1]+":"+words[len(words)-2]] = c
		}
		for key, c := range want {
			name, rest, _ := strings.Cut(key, ":")
			src, err := os.ReadFile(filepath.Join(dir, name))
			require.NoError(t, err)
			funcs, ok := code.Complexity(src)
			require.True(t, ok, name)
			require.True(t, slices.ContainsFunc(funcs, func(f code.Func) bool { return fmt.Sprintf("%d:%s", f.Line, f.Name) == rest && f.Complexity == c }), "%s %d %v", key, c, funcs)
			n++
		}
	}
	t.Logf("%d functions", n)
	require.Positive(t, n)
}

// The time is compared with that of git log --numstat -M alone.
func BenchmarkRead(b *testing.B) {
	for _, dir := range repos(b) {
		b.Run(filepath.Base(dir), func(b *testing.B) {
			var bare, ours []time.Duration
			commits := 0
			for b.Loop() {
				start := time.Now()
				git(b, dir, "x", "log", "--numstat", "-M")
				bare = append(bare, time.Since(start))
				start = time.Now()
				h, err := code.Read(b.Context(), dir, code.Options{})
				require.NoError(b, err)
				ours, commits = append(ours, time.Since(start)), h.Commits
			}
			slices.Sort(bare)
			slices.Sort(ours)
			b.ReportMetric(float64(commits), "commits")
			b.ReportMetric(float64(ours[len(ours)/2])/float64(bare[len(bare)/2]), "ratio")
		})
	}
}
