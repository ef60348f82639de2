package tools

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/aycoder/aycoder"
)

const (
	maxEdited  = 8 << 20 // bytes of a file that is edited, before and after
	maxSplices = 100_000 // that replace_all makes
	maxMatches = 100     // that are counted
	maxListed  = 10      // of those, whose lines are named
)

const editDescription = `Change a text file of the workspace: replace old_string by new_string.
old_string must be exactly what is in the file, white space included, without the line numbers
that read_file puts in front, and must occur once, unless replace_all is true; take in more
lines around it to make it unique. An empty old_string creates the file (and its folders), or if
it exists adds new_string as lines at its end. Line endings, a byte order mark and the file's
mode are kept; write \n for a line break. The result is a unified diff.`

type editArgs struct {
	Path       string `json:"path" jsonschema_description:"File, relative to the workspace."`
	OldString  string `json:"old_string" jsonschema_description:"Text to replace; empty to create a file or to add to one."`
	NewString  string `json:"new_string" jsonschema_description:"Text to put in its place."`
	ReplaceAll bool   `json:"replace_all,omitempty" jsonschema_description:"Replace every occurrence. Default: false."`
}

// EditFile returns edit_file, which replaces text in a file, creates a file, or adds
// to one. It is an [aycoder.Previewer]: the preview is the diff that the call would
// make now. A file that somebody changes between the moment it is read and the one
// it is written is left as it is, and the result is an error of kind "stale".
func EditFile(ws FS, opts ...Option) (aycoder.Tool, error) {
	if _, err := configure(ws, opts); err != nil {
		return nil, err
	}
	e := &editor{ws: ws}
	t, err := aycoder.NewTool("edit_file", editDescription, guard(e.edit),
		aycoder.WithEffect(aycoder.EffectWrite), aycoder.WithSubject(aycoder.SubjectPath, "path"))
	if err != nil {
		return nil, err
	}
	return &editTool{t, e}, nil
}

type editTool struct {
	aycoder.Tool
	editor *editor
}

// Preview returns the diff that a call would make.
func (t *editTool) Preview(ctx context.Context, inv *invocation) (string, error) {
	var in editArgs
	if err := json.Unmarshal(inv.Args, &in); err != nil {
		return "", fmt.Errorf("preview edit_file: %w", err)
	}
	if err := checkText(inv.Args); err != nil {
		return "", err
	}
	p, err := t.editor.plan(ctx, in)
	if err != nil {
		return "", err
	}
	return p.diff().text, nil
}

type editor struct {
	ws FS

	mu sync.Mutex // one edit at a time, so that none makes another one stale
}

func (e *editor) edit(ctx context.Context, _ *invocation, in editArgs) (*result, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	p, err := e.plan(ctx, in)
	if err != nil {
		return nil, err
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	edit := aycoder.FileEdit{Path: p.path, Kind: aycoder.EditChange, Base: string(p.before), Proposed: string(p.after())}
	if p.create {
		edit.Kind = aycoder.EditCreate
	}
	plan, err := aycoder.NewEditPlan(edit)
	if err != nil {
		return nil, err
	}
	if _, err := e.ws.Apply(ctx, plan); err != nil {
		return nil, err
	}
	d := p.diff()
	return textResult(d.text, fmt.Sprintf("+%d −%d", d.added, d.removed)), nil
}

// plan is a change to a file that is not made yet.
type plan struct {
	path    string // relative
	create  bool
	before  []byte
	splices []splice // in order
}

// splice puts text in place of before[from:to].
type splice struct {
	from, to int
	text     string
}

func (s splice) growth() int { return len(s.text) - (s.to - s.from) }

func (p *plan) after() []byte {
	out := make([]byte, 0, len(p.before))
	last := 0
	for _, s := range p.splices {
		out = append(append(out, p.before[last:s.from]...), s.text...)
		last = s.to
	}
	return append(out, p.before[last:]...)
}

func (p *plan) diff() diff { return unified(p.path, p.create, p.before, p.splices) }

// plan is find, with a bound on what comes of it.
func (e *editor) plan(ctx context.Context, in editArgs) (*plan, error) {
	p, err := e.find(ctx, in)
	if err != nil {
		return nil, err
	}
	size := len(p.before)
	for _, s := range p.splices {
		size += s.growth()
	}
	if size > maxEdited {
		return nil, tooLong()
	}
	return p, nil
}

func tooLong() error {
	return problemf("too_large", "the file would get longer than %d MB; change it with bash",
		maxEdited>>20)
}

// find reads the file and finds what to replace.
func (e *editor) find(ctx context.Context, in editArgs) (*plan, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	rel, err := e.ws.Rel(in.Path)
	if err != nil {
		return nil, err
	}
	p := &plan{path: rel}
	p.before, err = e.read(in.Path)
	switch kind := kindOf(err); {
	case kind == "not_found" && in.OldString == "":
		p.create = true
		p.splices = []splice{{text: in.NewString}}
		return p, nil
	case kind == "not_found":
		return nil, problemf("not_found", "%s; to create a file, leave old_string empty",
			strings.TrimPrefix(missing(ctx, e.ws, in.Path, err).Error(), "not_found: "))
	case err != nil:
		return nil, err
	case in.OldString == in.NewString:
		return nil, problemf("no_change",
			"old_string and new_string are the same, so there is nothing to do")
	case in.OldString == "":
		p.splices = []splice{appendTo(p.before, in.NewString)}
		return p, nil
	}
	p.splices, err = replace(ctx, p.before, in)
	return p, err
}

func (e *editor) read(name string) ([]byte, error) {
	f, err := e.ws.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxEdited+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", showPath(name), err)
	case len(data) > maxEdited:
		return nil, problemf("too_large", "%s is larger than %d MB; change it with bash",
			showPath(name), maxEdited>>20)
	case bytes.IndexByte(data[:min(len(data), sniffBytes)], 0) >= 0:
		return nil, problemf("binary_file", "%s is a binary file; change it with bash", showPath(name))
	}
	return data, nil
}

// appendTo adds lines at the end, after a line break if there is none yet.
func appendTo(before []byte, text string) splice {
	v := newView(before)
	if n := len(v.text); n > 0 && v.text[n-1] != '\n' {
		text = "\n" + text
	}
	return splice{len(before), len(before), v.breaks(text, len(v.text))}
}

// replace finds the one occurrence, or all.
func replace(ctx context.Context, before []byte, in editArgs) ([]splice, error) {
	v := newView(before)
	old, text := v.unify(in.OldString), v.unify(in.NewString)
	if old == text {
		return nil, problemf("no_change",
			"old_string and new_string differ in line endings only, which are kept as they are")
	}
	found := v.find(old, in.ReplaceAll)
	switch {
	case len(found) == 0:
		return nil, noMatch(v, old)
	case len(found) > 1 && !in.ReplaceAll:
		return nil, ambiguous(v, found)
	case len(found) > maxSplices:
		return nil, problemf("too_large", "old_string occurs more than %d times; "+
			"change the file with bash", maxSplices)
	}
	// What is the same at the beginning and the end is not touched.
	head, tail := commonLines(old, text)
	splices := make([]splice, len(found))
	size := len(before)
	for i, at := range found {
		if i%1000 == 999 && ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		from, to := at+head, at+len(old)-tail
		splices[i] = splice{v.raw(from), v.raw(to), v.breaks(text[head:len(text)-tail], from)}
		if size += splices[i].growth(); size > 2*maxEdited {
			return nil, tooLong() // soon, since the texts may be copies
		}
	}
	return splices, nil
}

func ambiguous(v *view, found []int) error {
	count := fmt.Sprint(len(found))
	if len(found) > maxMatches {
		count = fmt.Sprintf("more than %d", maxMatches)
	}
	var lines []string
	for _, at := range found[:min(len(found), maxListed)] {
		lines = append(lines, fmt.Sprint(v.line(at)))
	}
	more := ""
	if len(found) > maxListed {
		more = " and others"
	}
	return problemf("ambiguous_match", "old_string occurs %s times, in lines %s%s; "+
		"take in more of the lines around it, or set replace_all", count, strings.Join(lines, ", "), more)
}

// view is the text of a file as a model sees it: without byte order mark, and with
// \n for a line break.
type view struct {
	text string
	bom  int
	crlf []int // positions in text of the line breaks that are \r\n in the file

	last int // line break, or -1

	// The line break that was found is that of every position from asked to it.
	asked, found int
}

func newView(raw []byte) *view {
	v := &view{found: -1}
	if bytes.HasPrefix(raw, []byte("\xef\xbb\xbf")) {
		v.bom = 3
	}
	v.text = string(raw[v.bom:])
	if !strings.Contains(v.text, "\r\n") {
		return v
	}
	var b strings.Builder
	for rest := v.text; ; {
		line, after, ok := strings.Cut(rest, "\r\n")
		b.WriteString(line)
		if !ok {
			break
		}
		v.crlf = append(v.crlf, b.Len())
		b.WriteByte('\n')
		rest = after
	}
	v.text = b.String()
	v.last = strings.LastIndexByte(v.text, '\n')
	return v
}

// raw returns the position in the file of one in the text.
func (v *view) raw(pos int) int {
	n, _ := slices.BinarySearch(v.crlf, pos)
	return v.bom + pos + n
}

// line returns the number of the line at a position.
func (v *view) line(pos int) int { return 1 + strings.Count(v.text[:pos], "\n") }

// unify brings line breaks to the form they have in the text. A file without CRLF
// has none that need it, and may get some.
func (v *view) unify(s string) string {
	if len(v.crlf) == 0 {
		return s
	}
	return strings.ReplaceAll(s, "\r\n", "\n")
}

// breaks gives a text the line breaks that the file has at a position: those of the
// line there, or of the last one.
func (v *view) breaks(s string, pos int) string {
	if len(v.crlf) == 0 {
		return s
	}
	s = v.unify(s)
	if _, crlf := slices.BinarySearch(v.crlf, v.lineBreak(pos)); crlf {
		s = strings.ReplaceAll(s, "\n", "\r\n")
	}
	return s
}

// lineBreak returns the position of the next line break, or of the last one.
func (v *view) lineBreak(pos int) int {
	if pos < v.asked || pos > v.found {
		v.asked, v.found = pos, len(v.text)
		if i := strings.IndexByte(v.text[pos:], '\n'); i >= 0 {
			v.found = pos + i
		}
	}
	if v.found == len(v.text) {
		return v.last
	}
	return v.found
}

// find returns where s occurs: each place, or to replace all those that do not
// overlap. It returns at most one more than are counted, or may be replaced.
func (v *view) find(s string, all bool) []int {
	var found []int
	most := maxMatches
	if all {
		most = maxSplices
	}
	for pos := 0; len(found) <= most; {
		i := strings.Index(v.text[pos:], s)
		if i < 0 {
			break
		}
		found = append(found, pos+i)
		if pos += i + 1; all {
			pos += len(s) - 1
		}
	}
	return found
}

// commonLines returns how many bytes of whole lines are the same at the beginning
// and at the end of two texts.
func commonLines(a, b string) (head, tail int) {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			break
		}
		if a[i] == '\n' {
			head = i + 1
		}
	}
	for i := 1; i <= n-head; i++ {
		if a[len(a)-i] != b[len(b)-i] {
			break
		}
		if a[len(a)-i] == '\n' {
			tail = i - 1
		}
	}
	return head, tail
}
