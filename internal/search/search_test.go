package search

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"regexp/syntax"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/internal/runes"
	"github.com/aycoder/aycoder/internal/timed"
)

// dir is a plain directory as a source.
type dir string

func (d dir) ReadDir(_ context.Context, name string) ([]fs.DirEntry, error) {
	return os.ReadDir(filepath.Join(string(d), filepath.FromSlash(name)))
}

func (d dir) Open(name string) (fs.File, error) {
	f, err := os.Open(filepath.Join(string(d), filepath.FromSlash(name)))
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err == nil && !info.Mode().IsRegular() {
		f.Close()
		return nil, errors.New("not a regular file")
	}
	return f, nil
}

func directory(t testing.TB, files map[string]string) dir {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		full := filepath.Join(root, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(full), 0o755))
		require.NoError(t, os.WriteFile(full, []byte(text), 0o644))
	}
	return dir(root)
}

func query(t testing.TB, expr string) *Query {
	t.Helper()
	m, err := Compile(expr, false, false)
	require.NoError(t, err)
	return &Query{Matcher: m, Max: 100}
}

// render writes a result as path:number:text lines.
func render(r *Result) string {
	var b strings.Builder
	for _, f := range r.Files {
		for _, l := range f.Lines {
			sep := map[bool]string{true: ":", false: "-"}[l.Match]
			fmt.Fprintf(&b, "%s%s%d%s%s\n", f.Path, sep, l.Number, sep, l.Text)
		}
	}
	return b.String()
}

func TestSearch(t *testing.T) {
	src := directory(t, map[string]string{
		"a.go":                  "one\ntwo hit\r\nthree\nfour\nhit\n",
		"b/c.ts":                "hit",
		"b/d.tsx":               "a hit\n",
		"b/node_modules/x.ts":   "hit\n",
		"b/node_modules.md":     "hit\n",
		".git/info/exclude":     "excluded\n",
		"excluded":              "hit\n",
		".gitignore":            "*.log\n!keep.log\n",
		"x.log":                 "hit\n",
		"b/keep.log":            "hit\n",
		"bin":                   "hit\x00",
		"late":                  strings.Repeat("x", runes.Sniffed) + "\nhit\x00\xff\n",
		"name\nwith\tcontrol":   "hit\n",
		"b/.gitignore":          "e\n",
		"b/e":                   "hit\n",
		"ignored.log/inside.go": "hit\n",
	})
	all := "a.go:2:two hit\na.go:5:hit\nb/c.ts:1:hit\nb/d.tsx:1:a hit\nb/keep.log:1:hit\nb/node_modules.md:1:hit\n" +
		"late:2:hit\uFFFD\uFFFD\nname\nwith\tcontrol:1:hit\n"
	tests := []struct {
		name, in string
		change   func(*Query)
		want     string
	}{
		{"all", ".", nil, all},
		{"directory", "b", nil, "b/c.ts:1:hit\nb/d.tsx:1:a hit\nb/keep.log:1:hit\nb/node_modules.md:1:hit\n"},
		{"file", "a.go", nil, "a.go:2:two hit\na.go:5:hit\n"},
		{"ignored file by name", "x.log", nil, "x.log:1:hit\n"},
		{"dependencies by name", "b/node_modules", nil, "b/node_modules/x.ts:1:hit\n"},
		{"include", ".", func(q *Query) { q.Include = []string{"*.{ts,tsx}"} }, "b/c.ts:1:hit\nb/d.tsx:1:a hit\n"},
		{"include path", ".", func(q *Query) { q.Include = []string{"b/*.ts"} }, "b/c.ts:1:hit\n"},
		{"include path from the directory", ".", func(q *Query) { q.Include = []string{"./b//*.ts"} }, "b/c.ts:1:hit\n"},
		{"include directory", "b", func(q *Query) { q.Include = []string{"b/"}; q.Exclude = []string{"./b/k*", "b/n*"} }, "b/c.ts:1:hit\nb/d.tsx:1:a hit\n"},
		{"exclude", "b", func(q *Query) { q.Exclude = []string{"b/**/*.ts*", "*.md"} }, "b/keep.log:1:hit\n"},
		{"context", "a.go", func(q *Query) { q.Context = 1 }, "a.go-1-one\na.go:2:two hit\na.go-3-three\na.go-4-four\na.go:5:hit\n"},
		{"wide context", "a.go", func(q *Query) { q.Context = 9 }, "a.go-1-one\na.go:2:two hit\na.go-3-three\na.go-4-four\na.go:5:hit\n"},
		{"max", ".", func(q *Query) { q.Max = 3 }, "a.go:2:two hit\na.go:5:hit\nb/c.ts:1:hit\n"},
		{"max in a file", ".", func(q *Query) { q.Max, q.Context = 1, 1 }, "a.go-1-one\na.go:2:two hit\na.go-3-three\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			q := query(t, "hit$|hit\\x00")
			if tt.change != nil {
				tt.change(q)
			}
			r, err := Search(t.Context(), src, tt.in, q)
			require.NoError(t, err)
			assert.Equal(t, tt.want, render(r))
			assert.Equal(t, q.Max < 100, r.More)
		})
	}
}

// As in ripgrep, the first line begins behind a byte order mark.
func TestSearchBehindTheByteOrderMark(t *testing.T) {
	src := directory(t, map[string]string{"a": "\uFEFFhit\nx\n", "b": "\uFEFF", "c": "x\uFEFFhit\n"})
	q := query(t, "^hit")
	q.Context, q.Keep = 1, 100
	r, err := Search(t.Context(), src, ".", q)
	require.NoError(t, err)
	assert.Equal(t, "a:1:hit\na-2-x\n", render(r))
	assert.Equal(t, "\uFEFFhit\nx\n", r.Files[0].Text)
}

func TestSearchErrors(t *testing.T) {
	src := directory(t, map[string]string{"a": "x"})
	_, err := Search(t.Context(), src, "missing", query(t, "x"))
	require.ErrorIs(t, err, fs.ErrNotExist)
	q := query(t, "x")
	q.Include = []string{"{a"}
	_, err = Search(t.Context(), src, ".", q)
	require.Error(t, err)
	q.Include, q.Exclude = nil, []string{"[a"}
	_, err = Search(t.Context(), src, ".", q)
	require.Error(t, err)
}

// The order in which goroutines come to an end must not show.
func TestStable(t *testing.T) {
	files := map[string]string{}
	for i := range 300 {
		files[fmt.Sprintf("d%d/f%d", i%7, i)] = strings.Repeat("hit\n", i%5)
	}
	src := directory(t, files)
	q := query(t, "hit")
	q.Max = 37
	want := ""
	for i := range 20 {
		r, err := Search(t.Context(), src, ".", q)
		require.NoError(t, err)
		assert.Equal(t, 37, r.Matches)
		assert.True(t, r.More)
		if i == 0 {
			want = render(r)
		}
		require.Equal(t, want, render(r))
	}
}

// opening tells when a file is opened.
type opening struct {
	dir
	name   string
	opened chan<- struct{}
}

func (o opening) Open(name string) (fs.File, error) {
	if name == o.name {
		o.opened <- struct{}{}
	}
	return o.dir.Open(name)
}

func TestCancel(t *testing.T) {
	text := strings.Repeat(strings.Repeat("a", 1000)+"\n", 15000) + strings.Repeat("a", 1<<20)
	src := directory(t, map[string]string{"a": text})
	slow := query(t, "(a|b)*[cd]") // takes seconds
	stop := errors.New("stop")
	t.Run("before", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(stop)
		_, err := Search(ctx, src, ".", slow)
		require.ErrorIs(t, err, stop)
	})
	t.Run("during", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		opened, ended := make(chan struct{}), make(chan error)
		go func() {
			_, err := Search(ctx, opening{src, "a", opened}, ".", slow)
			ended <- err
		}()
		<-opened
		start := time.Now()
		cancel(stop)
		require.ErrorIs(t, <-ended, stop)
		timed.Within(t, start, 2*time.Second) // alone it is under 100 ms
	})
}

func TestNoGoroutineLeft(t *testing.T) {
	src := directory(t, map[string]string{"a/b/c": "x", "d": "x"})
	synctest.Test(t, func(t *testing.T) { // fails if one is left
		_, err := Search(t.Context(), src, ".", query(t, "x"))
		require.NoError(t, err)
	})
}

func TestLongLines(t *testing.T) {
	long := strings.Repeat("é", 5000) + "NEEDLE" + strings.Repeat("é", 5000)
	huge := strings.Repeat("y", 3*window) + "NEEDLE"
	src := directory(t, map[string]string{"a": long + "\n", "b": huge + "\n"})
	for _, expr := range []string{"NEEDLE", "NE+DLE", "[N]EE"} {
		r, err := Search(t.Context(), src, ".", query(t, expr))
		require.NoError(t, err)
		require.Len(t, r.Files, 2, expr)
		text := r.Files[0].Lines[0].Text
		assert.Contains(t, text, "NEEDLE", expr)
		assert.LessOrEqual(t, len(text), maxText+6)
		assert.Equal(t, strings.ToValidUTF8(text, ""), text)
	}
}

// naive is what Matcher has to agree with.
func naive(re *regexp.Regexp, text []byte) (lines []int) {
	for n := 1; len(text) > 0; n++ {
		line, rest, _ := bytes.Cut(text, []byte("\n"))
		if re.Match(bytes.TrimSuffix(line, []byte("\r"))) {
			lines = append(lines, n)
		}
		text = rest
	}
	return lines
}

func fast(m *Matcher, text []byte) (lines []int) {
	s := m.scan(newMachine(m), text)
	for pos := 0; ; {
		start, end, ok := s.next(context.Background(), pos)
		if !ok {
			return lines
		}
		lines = append(lines, 1+bytes.Count(text[:start], []byte("\n")))
		pos = end + 1
	}
}

var expressions = []string{
	"hit", "(?i)hit", "hit|foo|bar", `\bhit\b`, `\b-\b`, "h.t", "h+", "(hit)+x", "(hit){2}", "^hit", "hit$", "^$", "", ".*", "a|",
	"(?i)kelvin", "(?i)straße", "(?i)ſ", "[a-z]_[a-z]", "x{0,3}", "(?i:h)it", "hit.*foo", "(?:foo|bar)hit", "\uFFFD", `\xff`, "(?s).", `\n`,
	"(?i)hit|foo", "(?i:foo)|Яx", "(?i:foo)|İx", "(?i:hit)|bar|é", `\bfoo`, `h(?:it|at)`, "[Hh]it", "(?i)k", "(?i)s", `\Bhit`, "(?m)^hit$", `\Ahit\z`,
	`\r`, `\r$`, `a\r?b`, `[^a]$`, `\bhit|foo\b`, `^\s*$`, `\w+\s\w+$`, `.{3}$`, "hit[^x]*?$", "(?i)[a-c]_", `\B\B`, `^\b`, `\b$`,
}

var texts = []string{
	"hit\nfoo\nbar\n", "Hit\nhIT\nxhitx\nhit hit\n", "a\r\nhit\r\n\r\nb", "\n\n\n", "", "hit", "kelvin \u212Aelvin KELVIN\nſ s S\n",
	"STRASSE straße\n", "Яx\nİx\nfoo\nяX\nBAR\nbar\n", "a_b\nfoo hit\nhit foo\n", "\xff\xfe\n\uFFFD\n", "foo-hit\na-b\n- \n", "hithit\nhithitx\nbarhit\n", "hat\nhit_\n_hit\n", "a\r\r\nb\r", "a\rb\na\r", "\r\n\r\n", "\r", "hit\r\nhit", "a_b\r\n",
}

func TestMatcherAgreesWithRegexp(t *testing.T) {
	for _, expr := range expressions {
		for _, fold := range []bool{false, true} {
			m, err := Compile(expr, false, fold)
			require.NoError(t, err)
			for _, text := range texts {
				want := naive(m.re, []byte(text))
				assert.Equal(t, want, fast(m, []byte(text)), "%q (fold %v) in %q", expr, fold, text)
				whole := *m
				whole.words, whole.whole, whole.bound = nil, false, false // the automaton goes through all of it
				assert.Equal(t, want, fast(&whole, []byte(text)), "%q (fold %v) in %q", expr, fold, text)
			}
		}
	}
}

// A long line is gone through in one piece: anchors are at its ends only.
func TestLongLinesAgreeWithRegexp(t *testing.T) {
	timed.Serial(t)
	exprs := []string{"^needle", "^[^;]*$", "^x+$", "x$", `\Bneedle`, "needle(;y)*$", `\bx`, "x{3};", `^x.*(é|\x{FFFD})`, "z"}
	line := strings.Repeat("x", 60<<10) + "needle" + strings.Repeat(";y", 5<<10)
	text := []byte(line + "\n" + line + "é\r\n" + line[:len(line)/2] + "\xff\n")
	for _, expr := range exprs {
		m, err := Compile(expr, false, false)
		require.NoError(t, err)
		want := naive(m.re, text)
		assert.Equal(t, want, fast(m, text), expr)
		m.size = 1000 // as if it were slow
		assert.Equal(t, want, fast(m, text), expr)
	}
}

func TestProgramSize(t *testing.T) {
	tests := []struct {
		expr string
		ok   bool
	}{
		{"", true},
		{"(?i)kelvin|straße", true},
		{`\w{1,64}@\w{1,64}\.[a-z]{2,10}`, true},
		{".{0,1000}", true},
		{strings.Repeat("x", 2000), true},
		{"(((a{2}){3}){4}b?)+", true},
		{strings.Repeat(".{0,1000}", 3), false},
		{strings.Repeat(".{0,1000}", 200) + "[^x]", false},
		{"(?:(?:.{10}x?){10}y*){10}|" + strings.Repeat("(?:abcdefgh){100}", 9), false},
	}
	for _, tt := range tests {
		m, err := Compile(tt.expr, false, false)
		if !tt.ok {
			assert.ErrorIs(t, err, ErrTooLarge, tt.expr)
			continue
		}
		require.NoError(t, err, tt.expr)
		tree, err := syntax.Parse(tt.expr, syntax.Perl)
		require.NoError(t, err)
		prog, err := syntax.Compile(tree.Simplify())
		require.NoError(t, err)
		assert.LessOrEqual(t, len(prog.Inst), 2*m.size+4, tt.expr)
		assert.LessOrEqual(t, m.size, 2*len(prog.Inst), tt.expr)
	}
}

// looking counts how often it was asked whether it has ended, and then ends.
type looking struct {
	context.Context
	looks, end int
}

func (l *looking) Err() error {
	if l.looks++; l.looks >= l.end {
		return context.Canceled
	}
	return nil
}

// The more steps an expression has, the more often the context is looked at.
func TestSlowExpressionStops(t *testing.T) {
	m, err := Compile(".{0,1000}.{0,1000}[^x]", false, false)
	require.NoError(t, err)
	line := strings.Repeat("x", 8000)
	for name, text := range map[string]string{"one line": line, "lines": strings.Repeat(line[:100]+"\n", 80)} {
		ctx := &looking{t.Context(), 0, 4}
		d := newMachine(m)
		d.failed = true // package regexp does it all
		_, _, found := m.scan(d, []byte(text)).next(ctx, 0)
		assert.False(t, found, name)
		assert.GreaterOrEqual(t, ctx.looks, 4, name)
	}
	m, err = Compile("[ab]*a"+strings.Repeat("[ab]{1000}", 2)+"c", false, false)
	require.NoError(t, err)
	r := rand.New(rand.NewPCG(1, 2))
	text := make([]byte, 100_000)
	for i := range text {
		text[i] = "ab"[r.IntN(2)]
	}
	d := newMachine(m)
	ctx := &looking{t.Context(), 0, 2}
	_, what := d.find(ctx, text, 0)
	assert.EqualValues(t, unknown, what)
	assert.Equal(t, 2, ctx.looks)
}

// An expression with too many states is left to package regexp, and memory is bounded.
func TestMachineGivesUp(t *testing.T) {
	m, err := Compile("[ab]*a[ab]{40}c", false, false)
	require.NoError(t, err)
	r := rand.New(rand.NewPCG(3, 4))
	var text []byte
	for range 500 {
		for range 100 {
			text = append(text, "ab"[r.IntN(2)])
		}
		text = append(text, "\ncd"[r.IntN(2)])
	}
	d := newMachine(m)
	var lines []int
	s := m.scan(d, text)
	for pos := 0; ; {
		start, end, ok := s.next(t.Context(), pos)
		if !ok {
			break
		}
		lines = append(lines, 1+bytes.Count(text[:start], []byte("\n")))
		pos = end + 1
	}
	assert.Equal(t, naive(m.re, text), lines)
	assert.True(t, d.failed)
	assert.LessOrEqual(t, len(d.states), maxStates)
	assert.LessOrEqual(t, d.insts, maxInsts+len(m.prog.Inst))
}

func TestChildrenCancelled(t *testing.T) {
	src := directory(t, map[string]string{".gitignore": "*a*b*\n", "a": "x", "b": "x"})
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("stop")
	cancel(stop)
	_, err := Children(ctx, src, Start(src, ".", nil), true)
	require.ErrorIs(t, err, stop)
}

// strict is a source that does nothing once the context has ended.
type strict struct{ dir }

func (s strict) ReadDir(ctx context.Context, name string) ([]fs.DirEntry, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return s.dir.ReadDir(ctx, name)
}

func TestCancelledIsNoOtherError(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("stop")
	cancel(stop)
	_, err := Search(ctx, strict{directory(t, map[string]string{"a/b": "x"})}, "a", query(t, "x"))
	require.ErrorIs(t, err, stop)
}

func TestWords(t *testing.T) {
	tests := []struct {
		expr  string
		words string
	}{
		{"func ", "func "},
		{`func \(\w+`, "func ("},
		{"TODO|FIXME|XXX", "TODO,FIXME,XXX"},
		{"(?i)permission", "permi"},
		{"[a-z]{3}_[a-z]{4}", "_"},
		{"[a-z]{3}:[A-Z]{4}", ""},
		{"[0-9]{3}e[0-9]{4}|x-", ""},
		{"[a-z]{3}__[a-z]{4}", "__"},
		{"a*", ""},
		{"(abc)+", "abc"},
		{"(abc)*", ""},
		{"ab?cde", "cde"},
		{"a|b*", ""},
	}
	for _, tt := range tests {
		m, err := Compile(tt.expr, false, false)
		require.NoError(t, err)
		assert.Equal(t, tt.words, strings.Join(m.words, ","), tt.expr)
	}
	m, err := Compile("a.b", true, false)
	require.NoError(t, err)
	assert.True(t, m.whole)
}

func FuzzMatcher(f *testing.F) {
	for _, expr := range expressions {
		f.Add(expr, texts[1]+texts[6], false)
	}
	f.Fuzz(func(t *testing.T, expr, text string, fold bool) {
		if len(expr) > 40 || len(text) > 400 {
			return
		}
		for _, literal := range []bool{false, true} {
			m, err := Compile(expr, literal, fold)
			if err != nil {
				continue
			}
			want := naive(m.re, []byte(text))
			assert.Equal(t, want, fast(m, []byte(text)), "%q in %q", expr, text)
			m.words, m.whole, m.bound = nil, false, false // the automaton goes through all of it
			assert.Equal(t, want, fast(m, []byte(text)), "%q in %q, without words", expr, text)
		}
	})
}
