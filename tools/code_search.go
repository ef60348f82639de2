package tools

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"regexp/syntax"
	"strings"
	"sync/atomic"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/glob"
	"github.com/aycoder/aycoder/internal/late"
	"github.com/aycoder/aycoder/internal/runes"
	"github.com/aycoder/aycoder/internal/search"
)

const (
	maxPattern = 2048
	maxResults = 1000
	maxContext = 20
	maxFound   = 60 * 1024 // bytes of a result
)

const searchDescription = `Search the text of the files of the workspace for a regular expression
(RE2 syntax: no look-around, no backreferences). It is matched within each line; $ also matches
before CR LF. Left out are files that .gitignore names, version control and dependency directories,
binary files, files of keys and passwords, and files over 16 MB. The result has a block for each
file: its path, then "number:line" for a match and "number-line" for context.`

type searchArgs struct {
	Pattern    string `json:"pattern" jsonschema_description:"Regular expression, or with literal=true plain text."`
	Path       string `json:"path,omitempty" jsonschema_description:"Directory or file to search. Default: the whole workspace."`
	Include    string `json:"include,omitempty" jsonschema_description:"Only files that match this glob, such as *.go or src/**/*.{ts,tsx}; without a slash it is for the name."`
	Exclude    string `json:"exclude,omitempty" jsonschema_description:"Not files that match this glob."`
	IgnoreCase bool   `json:"ignore_case,omitempty" jsonschema_description:"Upper and lower case are the same. Default: false."`
	Literal    bool   `json:"literal,omitempty" jsonschema_description:"Pattern is plain text. Default: false."`
	Context    int    `json:"context,omitempty" jsonschema:"minimum=0,maximum=20" jsonschema_description:"Lines to show before and after each match. Default: 0."`
	MaxResults int    `json:"max_results,omitempty" jsonschema:"minimum=0,maximum=1000" jsonschema_description:"How many matching lines to return. Default: 100."`
}

// CodeSearch returns the tool code_search, which searches files for lines that match a regular
// expression. It leaves out files that git ignores.
func CodeSearch(ws FS, opts ...Option) (aycoder.Tool, error) {
	c, err := configure(ws, opts)
	if err != nil {
		return nil, err
	}
	find := func(ctx context.Context, inv *invocation, in searchArgs) (*result, error) {
		return codeSearch(ctx, within(ctx, ws), inv, c, in)
	}
	return aycoder.NewTool("code_search", searchDescription, guard(find),
		aycoder.WithEffect(aycoder.EffectReadOnly), aycoder.WithSubject(aycoder.SubjectPath, "path"))
}

// codeSearch searches the workspace. It keeps the text of small files that match, so that an edit
// of a found line can be merged if the user changes the file meanwhile.
func codeSearch(
	ctx context.Context, ws FS, inv *invocation, c *config, in searchArgs,
) (*result, error) {
	q, err := in.query()
	if err != nil {
		return nil, err
	}
	q.Ignored, q.Keep = c.ignored, maxLookedBytes
	name := cmp.Or(in.Path, ".")
	rel, err := ws.Rel(name)
	if err != nil {
		return nil, err
	}
	stop := watch(inv, func() aycoder.Progress {
		return aycoder.Progress{Current: q.Searched.Load(), Message: "files searched"}
	})
	found, err := search.Search(ctx, walking(ctx, ws, rel, c.ignored), rel, q)
	stop()
	if err != nil {
		return nil, missing(ctx, ws, name, err)
	}
	if err := reached(ws, "search", name); err != nil {
		return nil, err
	}
	return showFound(ctx, ws, found, inv.Whole), nil
}

// query validates the arguments. Numbers are limited to what the tool can return. Patterns
// and globs are refused with advice, because a model can correct them.
func (in *searchArgs) query() (*search.Query, error) {
	q := &search.Query{Max: min(in.MaxResults, maxResults), Searched: new(atomic.Int64)}
	q.Context = min(max(in.Context, 0), maxContext)
	if q.Max <= 0 {
		q.Max = 100
	}
	switch {
	case in.Pattern == "":
		return nil, problemf("invalid_arguments",
			"pattern is empty; to see which files there are, use list_files")
	case len(in.Pattern) > maxPattern:
		return nil, problemf("invalid_arguments",
			"pattern is longer than %d bytes; search for a part of it", maxPattern)
	}
	m, err := search.Compile(in.Pattern, in.Literal, in.IgnoreCase)
	if err != nil {
		return nil, badRegex(err)
	}
	q.Matcher = m
	for _, g := range []struct {
		glob string
		to   *[]string
	}{{in.Include, &q.Include}, {in.Exclude, &q.Exclude}} {
		if g.glob == "" {
			continue
		}
		if err := checkGlob(g.glob); err != nil {
			return nil, err
		}
		*g.to = []string{g.glob}
	}
	return q, nil
}

// badRegex explains an invalid pattern. Models often write the syntax of PCRE, or plain text
// with parentheses in it, so the text names both differences.
func badRegex(err error) error {
	if errors.Is(err, search.ErrTooLarge) {
		return problemf("invalid_regex", "too large; use smaller numbers in {n,m}, or * and +")
	}
	text := err.Error()
	if e, ok := errors.AsType[*syntax.Error](err); ok {
		text = e.Code.String() + ": " + runes.Cut(e.Expr, 100)
	}
	return problemf("invalid_regex", "%s. The syntax is RE2: there is no look-ahead, "+
		"look-behind or backreference, and ( ) [ ] { } . * + ? | \\ need a backslash "+
		"to stand for themselves. "+
		"To search for the pattern as plain text, call again with literal=true.", text)
}

// leavesWorkspace matches a leading slash and "..", as a path element.
var leavesWorkspace = late.Regexp(`^/|(^|[/{,])\.\.([/},]|$)`)

// checkGlob refuses a glob that cannot match. One that leads out of the workspace would
// just find nothing, which a model takes for an answer.
func checkGlob(g string) error {
	if _, err := glob.Compile(g); err != nil {
		return problemf("invalid_arguments", "%v; write it like *.go or src/**/*.{ts,tsx}", err)
	}
	if leavesWorkspace().MatchString(g) {
		return problemf("outside_workspace", "a glob is relative to the workspace and does not "+
			"lead out of it; write it like *.go or src/**/*.{ts,tsx}")
	}
	return nil
}

// showFound formats the result. The text of each file that is shown is recorded as seen, but
// only as a part: an edit may refer to it, while write_file still requires that the whole
// file was read. The result has up to whole bytes, of which the model gets the first.
func showFound(ctx context.Context, ws FS, r *search.Result, whole int) *result {
	var b strings.Builder
	shown := 0
	for _, f := range r.Files {
		r.More = r.More || b.Len() > maxFound
		if b.Len() > max(maxFound, whole) {
			break
		}
		if b.Len() > 0 {
			b.WriteString("\n")
		}
		seen := b.Len() <= maxFound
		shown += showFile(&b, f, whole)
		if rel, err := ws.Rel(f.Path); err == nil && f.Text != "" && seen {
			ws.Seen().For(ctx).AddPart(rel, f.Text)
		}
	}
	end := b.Len()
	switch {
	case r.Matches == 0:
		b.WriteString("No matches.")
	case r.More || shown < r.Matches:
		fmt.Fprintf(&b, "\n[first %s; there are more: "+
			"narrow the pattern, path or include, or raise max_results]", plural(shown, "match"))
	}
	fmt.Fprintf(&b, "\n[%s searched%s]\n", plural(int(r.Searched), "file"), leftOut(r))
	more := ""
	if r.More {
		more = "+"
	}
	res := textResult(b.String(), strings.Replace(plural(shown, "match"), " ", more+" ", 1))
	showEnds(res, 0, end, maxFound, 0)
	return res
}

// leftOut lists what was not searched, and how to search it.
func leftOut(r *search.Result) string {
	var all []string
	for _, x := range []struct {
		n    int64
		what string
	}{
		{r.Binary, "binary"},
		{r.Large, "over 16 MB (use bash with grep)"},
		{r.Refused, "not readable or secret"},
		{r.Ignored, "ignored by git, version control or dependencies (name one as the path)"},
		{r.Partial, "directories with too many entries, in part (use bash with grep)"},
	} {
		if x.n > 0 {
			all = append(all, fmt.Sprintf("%d %s", x.n, x.what))
		}
	}
	if len(all) == 0 {
		return ""
	}
	return "; left out: " + strings.Join(all, ", ")
}

// showFile writes the block of a file and returns the number of its matches that the model gets.
func showFile(b *strings.Builder, f search.File, whole int) int {
	b.WriteString(showPath(path.Clean(f.Path)) + "\n")
	last, n := 0, 0
	for _, l := range f.Lines {
		if b.Len() > max(maxFound, whole) {
			break
		}
		shown := b.Len() <= maxFound
		if last > 0 && l.Number > last+1 && hasContext(f) {
			b.WriteString("--\n")
		}
		sep := "-"
		if l.Match {
			sep = ":"
			if shown {
				n++
			}
		}
		fmt.Fprintf(b, "%d%s%s\n", l.Number, sep, l.Text)
		last = l.Number
	}
	return n
}

// hasContext reports whether a file is shown with context lines. Only then do separators help, as
// in the output of grep.
func hasContext(f search.File) bool { return len(f.Lines) > f.Matches }
