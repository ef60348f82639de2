package suggest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/aycoder/aycoder/codegraph/source"
	"github.com/aycoder/aycoder/insight/code"
	"github.com/aycoder/aycoder/internal/ignore"
	"github.com/aycoder/aycoder/internal/late"
	"github.com/aycoder/aycoder/internal/runes"
	"github.com/aycoder/aycoder/workspace"
)

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what + " is"
	}
	return fmt.Sprintf("%d %ss are", n, what)
}

// some names the first few.
func some(names []string) string {
	const few = 3
	var b strings.Builder
	for i, name := range names[:min(few, len(names))] {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(runes.Path(name))
	}
	if len(names) > few {
		b.WriteString(" …")
	}
	return b.String()
}

// placeholder matches that in the place of a secret.
var placeholder = late.Regexp(`\[secret:([a-z0-9-]+):[0-9a-f]+\]`)

// A risk is a pattern that is often a hole, in the code of some languages.
type risk struct {
	languages []source.Language
	pattern   func() *regexp.Regexp
	text      string
}

// risks are patterns of code. Comments are not searched.
func risks() []risk {
	script := []source.Language{source.TypeScript}
	return []risk{
		{[]source.Language{source.Go}, late.Regexp(`\bInsecureSkipVerify\s*[:=]\s*true\b`), "the certificate of a server is not checked"},
		{[]source.Language{source.Go}, late.Regexp(`exec\.Command(?:Context)?\([^()"]*"(?:/bin/)?(?:ba|z)?sh",\s*"-c",\s*(?:fmt\.Sprintf|"[^"]*"\s*\+|[A-Za-z_.]+\s*\+)`), "a shell runs a text that is put together; pass arguments instead"},
		{[]source.Language{source.Go}, late.Regexp("(?:Query|QueryRow|Exec)(?:Context)?\\((?:ctx,\\s*)?(?:fmt\\.Sprintf\\(|[\"`](?i:select|insert|update|delete)\\b[^\"`]*[\"`]\\s*\\+)"), "SQL is put together; use parameters"},
		{[]source.Language{source.Python}, late.Regexp(`\bsubprocess\.\w+\([^()]*shell\s*=\s*True|\bos\.system\(\s*f?["'][^"']*["']\s*(?:%|\+|\.format)|\bos\.system\(\s*f["'][^"']*\{`), "a shell runs a text; pass a list of arguments"},
		{[]source.Language{source.Python}, late.Regexp(`\byaml\.load\((?:[^()]|\([^()]*\))*\)`), "yaml.load can run code; use yaml.safe_load"},
		{[]source.Language{source.Python}, late.Regexp(`\b(?:pickle|cPickle|dill)\.loads?\(`), "pickle runs code of what it reads; use it only for what you have written"},
		{[]source.Language{source.Python}, late.Regexp(`\bverify\s*=\s*False\b`), "the certificate of a server is not checked"},
		{[]source.Language{source.Python}, late.Regexp(`\.execute\(\s*(?:f["']|["'][^"']*["']\s*(?:%|\+|\.format\())`), "SQL is put together; use parameters"},
		{append(script, source.Python), late.Regexp(`(?:^|[^.\w])eval\(\s*[^)"'\s]`), "eval runs a text as code"},
		{script, late.Regexp(`\brejectUnauthorized\s*:\s*false\b`), "the certificate of a server is not checked"},
		{script, late.Regexp(`\.(?:innerHTML|outerHTML)\s*=[^=]\s*[^"'\s;]|\bdangerouslySetInnerHTML\b`), "text becomes HTML; make sure that it is escaped"},
		{script, late.Regexp("\\b(?:child_process\\.)?exec(?:Sync)?\\(\\s*`[^`]*\\$\\{"), "a shell runs a text that is put together; use execFile"},
	}
}

// texts searches all files for secrets, risky patterns and old TODOs.
func (f *finder) texts(ctx context.Context) error {
	all, blamed, looked := risks(), 0, 0
	for name := range f.s.Files() {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if _, open := slices.BinarySearch(f.open, name); ignore.Vendored(name) || isLock(name) || f.Uncommitted && !open {
			continue
		}
		if looked++; f.Uncommitted && looked > maxOpen {
			f.skip("the files that are not committed, but for %d", maxOpen)
			return nil
		}
		if file, err := f.Files.Open(name); err == nil {
			file.Close()
		} else if e, ok := errors.AsType[*workspace.Error](err); ok && e.Kind == workspace.KindSensitivePath {
			f.add(Secret, name, 0, "file", "files of this name often hold secrets, and git does not ignore it; if it holds one, take it out of git, and let .gitignore name it")
			continue
		}
		text, ok := f.text(name, maxFile)
		if wide, is := runes.UTF16([]byte(text)); is {
			text, ok = wide, true
		}
		if !ok {
			continue
		}
		f.secrets(name, text)
		facts := f.s.Facts(name)
		if facts == nil || facts.Generated {
			continue
		}
		comments := blank(facts.Language, text)
		for _, r := range all {
			if !slices.Contains(r.languages, facts.Language) || code.IsTest(name) {
				continue
			}
			for _, at := range r.pattern().FindAllStringIndex(comments.code, 20) {
				if strings.Contains(comments.code[at[0]:at[1]], "SafeLoader") {
					continue
				}
				begin := at[0]
				if text[begin] == '\n' { // as what is before a word
					begin++
				}
				line := strings.TrimSpace(lineAt(text, begin))
				f.add(Risk, name, 1+strings.Count(text[:begin], "\n"), r.text+"\x00"+line, "%s: %s", r.text, line)
			}
		}
		if len(comments.todos) > 0 && !f.Uncommitted && f.Dir != "" {
			if blamed++; blamed <= maxBlamed {
				f.todos(ctx, name, text, comments.todos)
			}
		}
	}
	if n := blamed - maxBlamed; n > 0 {
		f.skip("the age of TODOs in all but %d files: %d left out", maxBlamed, n)
	}
	return nil
}

const maxBlamed = 50 // files whose TODOs are dated

// secrets reports where the masker finds one. The texts between them are the same in both.
func (f *finder) secrets(name, text string) {
	masked := f.Masker.Mask(text)
	if masked == text {
		return
	}
	type hit struct {
		line   int
		values []string
	}
	hits := map[string]*hit{} // by kind
	defer func() {
		for _, kind := range slices.Sorted(maps.Keys(hits)) {
			h := hits[kind]
			f.add(Secret, name, h.line, kind+"\x00"+strings.Join(h.values, "\x00"), "%s in the text, of the kind %q; move it out of the repository, and replace it where it is valid",
				count(len(h.values), "secret"), kind)
		}
	}()
	at := 0
	found := placeholder().FindAllStringSubmatchIndex(masked, maxOfKind)
	last := 0
	for i, m := range found {
		at += m[0] - last
		if last = m[1]; at > len(text) {
			return
		}
		if strings.HasPrefix(text[at:], masked[m[0]:m[1]]) { // it was there before
			at += m[1] - m[0]
			continue
		}
		end := len(masked)
		if i+1 < len(found) {
			end = found[i+1][0]
		}
		next := strings.Index(text[at:], masked[m[1]:end])
		if next < 0 {
			return
		}
		if kind := masked[m[2]:m[3]]; kind != anyBase64 && (kind != byPlace || drawn(text[at:at+next])) {
			if hits[kind] == nil {
				hits[kind] = &hit{line: 1 + strings.Count(text[:at], "\n")}
			}
			hits[kind].values = append(hits[kind].values, text[at:at+next])
		}
		at += next
	}
}

// byPlace is the kind of a secret that is one only by the name beside it, and anyBase64 that of a line that could be from the middle
// of a key. A file that has a key has its first line, too; others are certificates and pictures.
const byPlace, anyBase64 = "value", "key-or-certificate"

// drawn reports whether a value looks like one that a program has drawn. The masker hides more than that.
func drawn(s string) bool {
	const short = 16
	digits, letters := 0, 0
	for _, r := range s {
		switch {
		case r >= '0' && r <= '9':
			digits++
		case r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z':
			letters++
		case !strings.ContainsRune("-_+/=.:~", r):
			return false
		}
	}
	return len(s) >= short && digits >= 3 && letters >= 3
}

// A scanned text has its code, with spaces in the place of comments, and where its TODOs are.
type scanned struct {
	code  string
	todos []int
}

var todo = late.Regexp(`\b(?:TODO|FIXME|XXX|HACK)\b`)

func blank(lang source.Language, text string) (s scanned) {
	out := []byte(text)
	for t := range source.Tokens(lang, out) {
		if t.Kind != source.Comment {
			continue
		}
		for _, at := range todo().FindAllStringIndex(text[t.Start:t.End], 100) {
			s.todos = append(s.todos, int(t.Start)+at[0])
		}
	}
	for t := range source.Tokens(lang, []byte(text)) {
		if t.Kind == source.Comment {
			for i := t.Start; i < t.End; i++ {
				if out[i] != '\n' {
					out[i] = ' '
				}
			}
		}
	}
	s.code = string(out)
	return s
}

// lineAt returns the line that has a byte.
func lineAt(text string, at int) string {
	begin := strings.LastIndexByte(text[:at], '\n') + 1
	end := strings.IndexByte(text[at:], '\n')
	if end < 0 {
		return text[begin:]
	}
	return text[begin : at+end]
}

// todos reports the TODOs of a file that are as old as they are committed.
func (f *finder) todos(ctx context.Context, name, text string, at []int) {
	all, err := code.Blame(ctx, f.Dir, name)
	if err != nil { // it is not committed
		return
	}
	ages := map[string]time.Time{}
	for _, l := range all {
		if was, ok := ages[l.Text]; !ok || l.Time.After(was) {
			ages[l.Text] = l.Time
		}
	}
	for _, i := range at {
		line := lineAt(text, i)
		when, ok := ages[line]
		if age := f.Now.Sub(when); ok && age >= f.Stale {
			f.add(Todo, name, 1+strings.Count(text[:i], "\n"), line, "since %s: %s", when.Format(time.DateOnly), strings.TrimSpace(line))
		}
	}
}

const (
	fewFunctions = 5   // of a directory, which need no test
	documented   = 0.5 // of the exported names in a language, from which comments are the custom
	fewExports   = 20
)

// directory is what the source files of a directory have in a language.
type directory struct {
	dir       string
	language  source.Language
	functions int
	tested    bool
	exports   int
	bare      []string // exported names without a comment
	first     string   // the place of the first
	line      int
}

// directories counts by directory and language.
func (f *finder) directories(each func(d *directory, name string, facts *source.Facts)) []*directory {
	all := map[string]*directory{}
	var order []*directory
	for name := range f.s.Files() {
		facts := f.s.Facts(name)
		if facts == nil || facts.Generated || ignore.Vendored(name) {
			continue
		}
		key := path.Dir(name) + "\x00" + string(facts.Language)
		d := all[key]
		if d == nil {
			d = &directory{dir: path.Dir(name), language: facts.Language}
			all[key] = d
			order = append(order, d)
		}
		each(d, name, facts)
	}
	return order
}

// tests tells which directories have functions that no test can reach in one step. Rust and C are left out: the first has its
// tests in the files, and those of the second are built in many ways.
func (f *finder) tests(context.Context) error {
	all := f.directories(func(d *directory, name string, facts *source.Facts) {
		switch {
		case code.IsTest(name):
			d.tested = true
		case !slices.Contains([]source.Language{source.Go, source.Python, source.TypeScript, source.Java}, facts.Language):
		default:
			for _, x := range facts.Decls {
				if (x.Kind == source.Func || x.Kind == source.Method) && x.Body.End > x.Body.Start && x.Name != "main" && x.Name != "init" {
					d.functions++
				}
			}
			d.tested = d.tested || slices.ContainsFunc(f.s.Dependents(name), code.IsTest)
		}
	})
	slices.SortStableFunc(all, func(a, b *directory) int { return b.functions - a.functions })
	for _, d := range all {
		if !d.tested && d.functions >= fewFunctions {
			f.add(Tests, d.dir, 0, string(d.language), "%d functions in %s, and no test uses a file here", d.functions,
				cmp.Or(map[source.Language]string{source.TypeScript: "typescript or javascript"}[d.language], string(d.language)))
		}
	}
	return nil
}

// docs tells which exported names have no comment, in languages where most names of the workspace have one.
func (f *finder) docs(context.Context) error {
	total := map[source.Language][2]int{}
	all := f.directories(func(d *directory, name string, facts *source.Facts) {
		if code.IsTest(name) || facts.Script || facts.Package == "main" || facts.Language == source.Python || facts.Language == source.C {
			return
		}
		text, ok := f.text(name, maxFile)
		if !ok {
			return
		}
		for _, x := range exports(facts, text) {
			if d.exports++; !x.documented {
				if d.first == "" {
					d.first, d.line = name, 1+strings.Count(text[:x.at], "\n")
				}
				d.bare = append(d.bare, x.name)
			}
		}
	})
	for _, d := range all {
		t := total[d.language]
		total[d.language] = [2]int{t[0] + d.exports, t[1] + d.exports - len(d.bare)}
	}
	slices.SortStableFunc(all, func(a, b *directory) int { return cmp.Compare(len(b.bare), len(a.bare)) })
	for _, d := range all {
		if t := total[d.language]; len(d.bare) > 0 && t[0] >= fewExports && float64(t[1]) >= documented*float64(t[0]) {
			f.add(Docs, d.first, d.line, d.dir+"\x00"+string(d.language), "%s without a comment in %s: %s", count(len(d.bare), "exported name"), runes.Path(d.dir), some(d.bare))
		}
	}
	return nil
}

// An export is an exported name.
type export struct {
	name       string
	at         int
	documented bool
}

// exports returns the exported names at the top of a file. The comment of a group in Go is one for all names in it.
func exports(facts *source.Facts, text string) (out []export) {
	if facts.Language == source.Go {
		return ofGo(text)
	}
	for _, x := range facts.Decls {
		if x.Exported && x.Kind != source.Field && x.Kind != source.Method && x.Parent < 0 && int(x.At.Start) < len(text) {
			out = append(out, export{x.Name, int(x.NameAt), strings.HasPrefix(strings.TrimSpace(text[x.At.Start:]), "/")})
		}
	}
	return out
}

func ofGo(text string) (out []export) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, "", text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil
	}
	add := func(id *ast.Ident, docs ...*ast.CommentGroup) {
		if id.IsExported() {
			out = append(out, export{id.Name, set.Position(id.Pos()).Offset, slices.ContainsFunc(docs, func(c *ast.CommentGroup) bool { return c != nil })})
		}
	}
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil || len(d.Recv.List) == 1 && exportedType(d.Recv.List[0].Type) {
				add(d.Name, d.Doc)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					add(spec.Name, d.Doc, spec.Doc, spec.Comment)
				case *ast.ValueSpec:
					for _, id := range spec.Names {
						add(id, d.Doc, spec.Doc, spec.Comment)
					}
				}
			}
		}
	}
	return out
}

// exportedType reports whether the type of a receiver is exported.
func exportedType(x ast.Expr) bool {
	switch x := x.(type) {
	case *ast.Ident:
		return x.IsExported()
	case *ast.StarExpr:
		return exportedType(x.X)
	case *ast.IndexExpr:
		return exportedType(x.X)
	case *ast.IndexListExpr:
		return exportedType(x.X)
	}
	return false
}
