package codegraph

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/codegraph/source"
	"github.com/aycoder/aycoder/internal/runes"
)

const (
	maxLines  = 200      // of a result
	maxResult = 24 << 10 // bytes
	maxCode   = 60       // lines of a declaration
	maxLine   = 300      // bytes
)

type pathArgs struct {
	Path string `json:"path" jsonschema_description:"File, relative to the workspace."`
}

type symbolArgs struct {
	Name string `json:"name" jsonschema_description:"Name of a function, type, method, constant or variable, such as NewClient or Client.Stream."`
	Path string `json:"path,omitempty" jsonschema_description:"File or directory in which it is declared. Default: anywhere."`
}

type whyArgs struct {
	From string `json:"from" jsonschema_description:"File, relative to the workspace."`
	To   string `json:"to" jsonschema_description:"File that it may depend on, relative to the workspace."`
}

type findArgs struct {
	Query string `json:"query" jsonschema_description:"Letters of the name in their order, such as usrprof for user_profile.go or newcl for NewClient."`
}

// Tools returns the tools with which a model asks about the code of a workspace: outline, symbol, dependencies,
// dependents, why and find_file. All of them only read. Before each answer, the graph is brought up to date.
func Tools(g *Graph) ([]aycoder.Tool, error) {
	path := aycoder.WithSubject(aycoder.SubjectPath, "path")
	var tools []aycoder.Tool
	var failure error
	add := func(t aycoder.Tool, err error) {
		if tools = append(tools, t); err != nil && failure == nil {
			failure = err
		}
	}
	add(tool(g, "outline", "Show what a source file imports and declares: its declarations with their lines, without the bodies of functions. Cheaper than reading the file.", g.outline, path))
	add(tool(g, "symbol", "Find where a name is declared, show the declaration, and list the files that use it.", g.symbol))
	add(tool(g, "dependencies", "List the files of the workspace that a file depends on, and what it uses of each.", g.dependencies, path))
	add(tool(g, "dependents", "List the files of the workspace that depend on a file, and what each uses of it. Look at them before changing what the file exports.", g.dependents, path))
	add(tool(g, "why", "Show the shortest chain of files by which one file depends on another.", g.why))
	add(tool(g, "find_file", "Find files and declarations by a few letters of their names. Up to 30 are listed, the best first.", g.findFile))
	if failure != nil {
		return nil, failure
	}
	return tools, nil
}

// tool returns a tool whose function gets an up-to-date snapshot. Its error is meant for the model.
func tool[In any](g *Graph, name, description string, ask func(context.Context, *Snapshot, In) (*answer, error), opts ...aycoder.ToolOption) (aycoder.Tool, error) {
	call := func(ctx context.Context, _ *aycoder.Invocation, in In) (*aycoder.ToolResult, error) {
		s, err := g.Refresh(ctx)
		if err != nil {
			return nil, err
		}
		a, err := ask(ctx, s, in)
		return a.result(s, err)
	}
	return aycoder.NewTool(name, description, call, append(opts, aycoder.WithEffect(aycoder.EffectReadOnly))...)
}

// An answer is the text of a result under construction.
type answer struct {
	out     bytes.Buffer
	lines   int
	left    int // lines that had no room
	summary string
}

// line adds a line, if it has room.
func (a *answer) line(format string, args ...any) {
	s := runes.Cut(fmt.Sprintf(format, args...), maxLine)
	if a.lines >= maxLines || a.out.Len()+len(s) > maxResult {
		a.left++
		return
	}
	a.lines++
	a.out.WriteString(s + "\n")
}

// result returns the result of a tool, unless there was an error.
func (a *answer) result(s *Snapshot, err error) (*aycoder.ToolResult, error) {
	if err != nil {
		return nil, err
	}
	if s.Partial() {
		a.line("The workspace has more files than are looked at; others may fit too.")
	}
	if a.left > 0 {
		fmt.Fprintf(&a.out, "(%d more lines are not shown)\n", a.left)
	}
	r := aycoder.TextResult(a.out.String())
	r.Summary = a.summary
	return r, nil
}

// source returns a source file of a snapshot, with its content.
func (g *Graph) source(s *Snapshot, name string) (*file, []byte, error) {
	name = g.pathOf(name)
	f := s.file(name)
	switch {
	case f == nil:
		return nil, nil, fmt.Errorf("there is no file %s in the code of the workspace%s", runes.Path(name), s.similar(name))
	case f.facts == nil:
		return nil, nil, fmt.Errorf("%s is not known as source code; read it instead", runes.Path(name))
	}
	src, ok := g.current(f)
	if !ok {
		return nil, nil, fmt.Errorf("%s has just changed; ask again", runes.Path(name))
	}
	return f, src, nil
}

// pathOf returns the path of a name that the model gives, relative to the workspace.
func (g *Graph) pathOf(name string) string {
	if rel, ok := g.rel(name); ok {
		return rel
	}
	return path.Clean(strings.TrimPrefix(name, "/"))
}

// similar returns a hint at files with similar names.
func (s *Snapshot) similar(name string) string {
	var names []string
	for _, f := range s.Find(path.Base(name), 8) {
		if f.Decl < 0 && len(names) < 3 {
			names = append(names, runes.Path(f.Path))
		}
	}
	if len(names) == 0 {
		return ""
	}
	return "; did you mean " + strings.Join(names, ", ") + "?"
}

func (g *Graph) outline(_ context.Context, s *Snapshot, in pathArgs) (*answer, error) {
	f, src, err := g.source(s, in.Path)
	if err != nil {
		return nil, err
	}
	a := &answer{summary: fmt.Sprintf("%d declarations", len(f.facts.Decls))}
	for i, e := range f.imports {
		if i == 0 || f.imports[i-1].To != e.To {
			a.line("imports %s", runes.Path(e.To))
		}
	}
	if len(f.imports)+len(f.facts.Decls) == 0 {
		a.line("%s declares nothing, and imports no file of the workspace.", runes.Path(f.path))
	}
	lines := newLines(src)
	for _, d := range f.facts.Decls {
		indent := ""
		if d.Parent >= 0 {
			indent = "    "
		}
		a.line("%d-%d: %s%s", lines.of(d.At.Start), lines.of(max(d.At.End-1, d.At.Start)), indent, signature(src, d))
	}
	return a, nil
}

// signature returns the line of a declaration that has its name, up to its body.
func signature(src []byte, d source.Decl) string {
	start := d.At.Start + int32(bytes.LastIndexByte(src[d.At.Start:d.NameAt], '\n')+1)
	end := d.At.End
	if d.Body.End > d.Body.Start {
		end = d.Body.Start
	}
	text := src[start:max(end, start)]
	if i := bytes.IndexByte(text[d.NameAt-start:], '\n'); i >= 0 && d.Body.End <= d.Body.Start {
		text = text[:int(d.NameAt-start)+i]
	}
	return strings.Join(strings.Fields(string(text[:min(len(text), 8*maxLine)])), " ") // a line can be the whole file
}

func (g *Graph) symbol(ctx context.Context, s *Snapshot, in symbolArgs) (*answer, error) {
	below := g.pathOf(in.Path)
	name := plain(in.Name)
	found := s.declared(in.Name, below, false)
	for _, inDirs := range []bool{false, true} {
		if len(found) == 0 {
			found = s.declared(name, below, inDirs)
		}
	}
	if len(found) == 0 {
		return nil, s.undeclared(in.Name, below)
	}
	a := &answer{summary: fmt.Sprintf("%d declarations", len(found))}
	a.left = max(len(found)-maxLines, 0) // each of which costs reading a file
	for _, at := range found[:len(found)-a.left] {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		f, src, err := g.source(s, at.Path)
		if err != nil {
			continue // it has changed since
		}
		d := f.facts.Decls[at.Decl]
		a.line("%s:%d", runes.Path(at.Path), newLines(src).of(d.NameAt))
		code := strings.Split(strings.TrimRight(string(src[d.At.Start:d.At.End]), "\n"), "\n")
		if len(found) > 3 {
			code = []string{signature(src, d)}
		}
		for i, line := range code {
			if i == maxCode {
				a.line("    … %d more lines", len(code)-i)
				break
			}
			a.line("    %s", line)
		}
		for _, u := range s.users(at.Path, d.Name) {
			a.line("  used by %s", u)
		}
	}
	return a, nil
}

// plain returns one form of those in which languages write a name: Client::new, Client#new, (*Client[K]).New, http.(*Client).New
// and Client.new(int). The brackets of an operator of C++ are a part of its name.
func plain(name string) string {
	operator := ""
	if i := strings.LastIndex(name, "operator"); i >= 0 {
		rest := name[i+len("operator"):]
		if strings.IndexAny(rest, "+-*/%^&|~!=<>,") == 0 || strings.HasPrefix(rest, "()") || strings.HasPrefix(rest, "[]") {
			name, operator = name[:i], name[i:]
		}
	}
	depth, begins := 0, true // of brackets, and whether a part of the name begins
	return strings.Map(func(r rune) rune {
		switch {
		case depth == 0 && begins && strings.ContainsRune("(*.", r):
		case strings.ContainsRune("([<", r):
			depth++
		case strings.ContainsRune(")]>", r):
			depth = max(depth-1, 0)
		case depth == 0 && r != '*':
			begins = r == '.'
			return r
		}
		return -1
	}, strings.NewReplacer("::", ".", "#", ".").Replace(name)) + operator
}

// undeclared returns the error for a name that is not declared below a path, with names that are.
func (s *Snapshot) undeclared(name, below string) error {
	_, last := qualifier(plain(name))
	var near []string
	for _, f := range s.Find(last, 20) {
		if f.Decl < 0 || len(near) == 4 {
			continue
		}
		similar := s.file(f.Path).facts.Decls[f.Decl].Name
		if similar == name {
			similar += " in " + runes.Path(f.Path)
		}
		if !slices.Contains(near, similar) {
			near = append(near, similar)
		}
	}
	text := fmt.Sprintf("no declaration of %q was found", runes.Shorten(name, maxLine))
	if below != "." {
		text += " in " + runes.Path(below)
	}
	if len(near) > 0 {
		text += "; similar names: " + strings.Join(near, ", ")
	}
	return errors.New(text)
}

// qualifier divides a name at its last dot, and returns only the last part of the first, also of a path.
func qualifier(name string) (of, last string) {
	i := strings.LastIndexByte(name, '.')
	of = name[:max(i, 0)]
	return of[strings.LastIndexAny(of, "./")+1:], name[i+1:]
}

// declared returns the declarations of a name, which may have its type, its package or its module before a dot, below a path. With
// inDirs, that may also be a directory in which it is, as of namespaces and packages that export what their modules declare.
func (s *Snapshot) declared(name, below string, inDirs bool) (found []Found) {
	of, last := qualifier(name)
	for _, f := range s.files {
		if f.facts == nil || below != "." && f.path != below && !strings.HasPrefix(f.path, below+"/") {
			continue
		}
		module := strings.TrimSuffix(path.Base(f.path), path.Ext(f.path))
		inDir := inDirs && strings.Contains("/"+f.path, "/"+of+"/")
		for i, d := range f.facts.Decls {
			parent := d.Of
			if d.Parent >= 0 {
				parent = f.facts.Decls[d.Parent].Name
			}
			if d.Name == last && (of == "" || parent == of || module == of || path.Base(f.facts.Package) == of || inDir) {
				found = append(found, Found{Path: f.path, Decl: i})
			}
		}
	}
	return found
}

// users returns the files that use a name that a file declares, with how often.
func (s *Snapshot) users(file, name string) (out []string) {
	i, ok := s.at(file)
	if !ok {
		return nil
	}
	for _, u := range s.links().users[i] {
		for r := range s.files[u].refs.All() {
			if r.To == file && r.Name == name {
				out = append(out, fmt.Sprintf("%s (%d)", runes.Path(s.files[u].path), max(r.Count, 1)))
			}
		}
	}
	return out
}

func (g *Graph) dependencies(_ context.Context, s *Snapshot, in pathArgs) (*answer, error) {
	f, _, err := g.source(s, in.Path)
	if err != nil {
		return nil, err
	}
	deps := s.Dependencies(f.path)
	a := &answer{summary: fmt.Sprintf("%d files", len(deps))}
	if len(deps) == 0 {
		a.line("%s depends on no other file of the workspace.", runes.Path(f.path))
	}
	for _, d := range deps {
		a.line("%s%s", runes.Path(d), f.usesOf(d))
	}
	return a, nil
}

func (g *Graph) dependents(_ context.Context, s *Snapshot, in pathArgs) (*answer, error) {
	f, _, err := g.source(s, in.Path)
	if err != nil {
		return nil, err
	}
	users := s.Dependents(f.path)
	a := &answer{summary: fmt.Sprintf("%d files", len(users))}
	if len(users) == 0 {
		a.line("No other file of the workspace depends on %s.", runes.Path(f.path))
	}
	for _, u := range users {
		a.line("%s%s", runes.Path(u), s.file(u).usesOf(f.path))
	}
	return a, nil
}

// usesOf returns the names that a file uses of another, for a line.
func (f *file) usesOf(other string) string {
	var names []string
	for r := range f.refs.All() {
		if r.To == other && r.Name != "" {
			names = append(names, r.Name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return ": " + listed(names, 12)
}

func (g *Graph) why(_ context.Context, s *Snapshot, in whyArgs) (*answer, error) {
	from, _, err := g.source(s, in.From)
	if err != nil {
		return nil, err
	}
	to, _, err := g.source(s, in.To)
	if err != nil {
		return nil, err
	}
	chain := s.Why(from.path, to.path)
	a := &answer{summary: fmt.Sprintf("%d steps", max(len(chain)-1, 0))}
	if chain == nil {
		a.line("%s does not depend on %s.", runes.Path(from.path), runes.Path(to.path))
	}
	for i, p := range chain {
		if i+1 == len(chain) {
			a.line("%s", runes.Path(p))
		} else if uses := s.file(p).usesOf(chain[i+1]); uses != "" {
			a.line("%s uses of the next%s", runes.Path(p), uses)
		} else {
			a.line("%s imports the next", runes.Path(p))
		}
	}
	return a, nil
}

func (g *Graph) findFile(_ context.Context, s *Snapshot, in findArgs) (*answer, error) {
	query := in.Query
	if rel, ok := g.rel(query); ok && (strings.HasPrefix(query, "./") || filepath.IsAbs(query)) {
		query = rel
	}
	found := s.Find(query, 30)
	if len(found) == 0 { // a capital letter may be of another way to write the name
		found = s.Find(strings.ToLower(query), 30)
	}
	a := &answer{summary: fmt.Sprintf("%d found", len(found))}
	if len(found) == 0 {
		a.line("Nothing has these letters in its name in this order.")
	}
	for _, f := range found {
		if f.Decl < 0 {
			a.line("%s", runes.Path(f.Path))
			continue
		}
		a.line("%s: %s", runes.Path(f.Path), s.file(f.Path).facts.Decls[f.Decl].Name)
	}
	return a, nil
}

// lines finds the line of a byte.
type lines []int32 // where each begins

func newLines(src []byte) lines {
	l := lines{0}
	for i, c := range src {
		if c == '\n' {
			l = append(l, int32(i)+1)
		}
	}
	return l
}

// of returns the number of a line, counted from 1.
func (l lines) of(pos int32) int {
	i, found := slices.BinarySearch(l, pos)
	if found {
		i++
	}
	return i
}
