package tools

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/edit"
	"github.com/aycoder/aycoder/internal/editmatch"
	"github.com/aycoder/aycoder/internal/patch"
	"github.com/aycoder/aycoder/merge"
	"github.com/aycoder/aycoder/workspace"
)

// maxChunks bounds the changes of one patch, each of which is looked for in its file.
const maxChunks = 1000 // of one patch

const patchDescription = `Change several text files of the workspace at once, all of them or none,
with a patch:
*** Begin Patch
*** Add File: new.txt
+each line with a plus
*** Update File: dir/a.go
*** Move to: dir/b.go
@@ func f() {
 a line that stays
-a line that goes
+a line that comes
*** Delete File: old.txt
*** End Patch
Paths are relative to the workspace. Give about 3 unchanged lines around each change. If these lines
are not unique, put the line of the enclosing function or class after @@. "*** End of File" after a
change says that it is at the end. Use "*** Move to" only to rename a file.`

type patchArgs struct {
	Patch string `json:"patch" jsonschema_description:"The patch, from *** Begin Patch to *** End Patch."`
}

// ApplyPatch returns the tool apply_patch, which adds, deletes, changes and renames files. It is
// an [aycoder.Planner]. It carries out a patch either completely or not at all. A renamed file
// keeps its permissions.
//
// Each change in a patch contains the old lines that it replaces. If several places in the file
// match the old lines, the patch can still select one of the places: by the lines after @@, by
// the order of its changes, or by the end-of-file marker. The call fails if no place matches, if
// several places match and the patch does not select one of them, or if the only place is above
// a line after @@ that is in the file.
func ApplyPatch(ws FS, opts ...Option) (aycoder.Tool, error) {
	p := &patcher{ws}
	what := about{"apply_patch", patchDescription,
		aycoder.Subject{Arg: "patch", Kind: aycoder.SubjectPatch}}
	return newChanger(ws, opts, what, p.find)
}

// A patcher makes one plan for all files of a patch. If one file cannot be changed, none is: a
// model that reads "failed" would otherwise repeat the parts that succeeded.
type patcher struct{ ws FS }

// find makes the plan. Problems are worded for the model, which has to write the patch
// anew.
func (p *patcher) find(ctx context.Context, from texts, in patchArgs) (*proposal, error) {
	if len(in.Patch) > maxEdited {
		return nil, problemf("too_large",
			"the patch is larger than %d MB; make several calls", maxEdited>>20)
	}
	files, err := patch.Parse(in.Patch)
	if err == nil {
		files, err = joined(files)
	}
	if e, ok := errors.AsType[*patch.Error](err); ok {
		return nil, problemf("invalid_patch", "%v", e)
	}
	all := &proposal{}
	for i := range files {
		one, err := p.file(ctx, from, &files[i])
		if err != nil {
			return nil, err
		}
		all.edits = append(all.edits, one.edits...)
		for _, n := range one.notes {
			n.Name = showPath(n.path) + ", " + n.Name
			all.notes = append(all.notes, n)
		}
	}
	return all, noneTwice(all.edits)
}

// joined merges several updates of the same file into one. Models often write one section for
// each place in a file; taken separately, each section would be matched against the text before
// the others.
func joined(files []patch.File) ([]patch.File, error) {
	var out []patch.File
	at := map[string]int{}
	chunks := 0
	for _, f := range files {
		if chunks += len(f.Chunks); chunks > maxChunks {
			return nil, &patch.Error{Line: f.Line, Reason: fmt.Sprintf("there are more than %d changes; make several calls", maxChunks)}
		}
		i, twice := at[f.Path]
		if !twice {
			at[f.Path] = len(out)
			out = append(out, f)
			continue
		}
		if out[i].Kind != patch.Update || f.Kind != patch.Update || out[i].MoveTo != "" {
			return nil, &patch.Error{Line: f.Line,
				Reason: "the patch has done something else to this file already"}
		}
		out[i].Chunks = append(out[i].Chunks, f.Chunks...)
		out[i].MoveTo = f.MoveTo
	}
	return out, nil
}

// noneTwice refuses a patch that mentions one file in two edits.
func noneTwice(edits []edit.File) error {
	seen := map[string]bool{}
	for _, e := range edits {
		if seen[e.Path] {
			return problemf("invalid_patch", "%s is in the patch twice", showPath(e.Path))
		}
		seen[e.Path] = true
	}
	return nil
}

// file proposes the change of one file.
func (p *patcher) file(ctx context.Context, from texts, file *patch.File) (*proposal, error) {
	f, err := from.open(ctx, file.Path)
	if err != nil {
		return nil, err
	}
	if file.Kind == patch.Add {
		return f.add(file)
	}
	if !f.exists {
		return nil, missing(ctx, p.ws, file.Path, &workspace.Error{Op: "patch", Path: file.Path, Kind: workspace.KindNotFound, Err: errNoFile})
	}
	if file.Kind == patch.Delete {
		return f.delete()
	}
	if err := f.editable(); err != nil {
		return nil, err
	}
	f.resolves = f.resolves && file.MoveTo == "" // a resolution changes the file under its old name
	one := &proposal{edits: []edit.File{{Path: f.path, Kind: edit.Change, Base: f.text, Proposed: f.text}}}
	if len(file.Chunks) > 0 {
		one, err = f.propose(func(text string) (*edited, error) { return inChunks(ctx, text, file.Chunks) })
		if err != nil {
			return nil, inFile(f.path, err)
		}
	}
	if file.MoveTo == "" {
		return one, nil
	}
	return f.move(ctx, from, file, one)
}

// inFile adds the path of the file to a problem.
func inFile(path string, err error) error {
	if p, ok := errors.AsType[*problem](err); ok {
		return problemf(p.kind, "%s: %s", showPath(path), p.text)
	}
	return err
}

// add proposes a new file. An empty file may exist already: programs and users create empty files
// as placeholders, and no line can be lost in them.
func (f *textFile) add(file *patch.File) (*proposal, error) {
	if f.exists && f.text != "" {
		return nil, problemf("exists", "%s exists already; change it with *** Update File, or delete it before",
			showPath(f.path))
	}
	if f.exists {
		return f.change("", &edited{text: file.Text})
	}
	return f.create(file.Text)
}

// delete proposes to delete the file. A change that the user made since the file was
// shown to the model is a conflict.
func (f *textFile) delete() (*proposal, error) {
	base := f.text
	if len(f.shown) > 0 {
		base = f.shown[0]
	} else if f.last != "" && f.last != hashOf(f.text) { // what was shown is kept no more
		return nil, problemf("stale", "%s has changed since you read it; read it again, and then delete it", showPath(f.path))
	}
	if base != f.text {
		r := edit.FileResult{
			Path: f.path, Kind: edit.Delete, Outcome: edit.OutcomeConflicted,
			Reason: "was changed, and was to be deleted", Content: f.text, Exists: true, Base: base, Ours: f.text,
			Merge: new(merge.Merge([]byte(base), []byte(f.text), nil)),
		}
		return nil, &edit.ConflictError{Files: []edit.FileResult{r}}
	}
	return &proposal{edits: []edit.File{{Path: f.path, Kind: edit.Delete, Base: base}}}, nil
}

// move proposes the changed text under a new name. A plan has no kind for renaming, so the move
// is a creation and a deletion, which [workspace.Workspace.Apply] carries out together or not at
// all.
func (f *textFile) move(
	ctx context.Context, from texts, file *patch.File, one *proposal,
) (*proposal, error) {
	to, err := from.open(ctx, file.MoveTo)
	if err != nil {
		return nil, err
	}
	planned := one.edits[0]
	switch {
	case to.path == f.path:
		return one, nil
	case isLink(ctx, from.ws, f.path):
		return nil, problemf("invalid_patch", "%s is a symbolic link; rename it with bash", showPath(f.path))
	case to.exists:
		return nil, problemf("exists",
			"%s exists already; delete it before, or take another name", showPath(to.path))
	case planned.Base != f.text: // it was merged without conflict to get here
		m := merge.Merge([]byte(planned.Base), []byte(f.text), []byte(planned.Proposed))
		planned.Proposed = string(m.Bytes())
	}
	for i := range one.notes {
		one.notes[i].path = to.path
	}
	one.notes = append(one.notes, note{MovedTo: to.path, path: f.path})
	one.edits = []edit.File{
		{Path: to.path, Kind: edit.Create, Proposed: planned.Proposed, Mode: f.mode},
		{Path: f.path, Kind: edit.Delete, Base: f.text},
	}
	return one, nil
}

// isLink reports whether a path is that of a symbolic link. Renamed by a patch, it would be replaced by a
// copy of the file that it leads to.
func isLink(ctx context.Context, ws FS, name string) bool {
	all, _ := ws.ReadDir(ctx, path.Dir(name))
	return slices.ContainsFunc(all, func(e fs.DirEntry) bool {
		return e.Name() == path.Base(name) && e.Type()&fs.ModeSymlink != 0
	})
}

// inChunks applies the chunks of a patch in order, each to the outcome of those before
// it. A last line without a line break has one meanwhile, since a patch does not show whether there is
// one: without it, the last line would not count as a place for lines that are further up, too.
func inChunks(ctx context.Context, text string, chunks []patch.Chunk) (*edited, error) {
	var j journal
	missing, kept := "", strings.HasSuffix(text, "\r")
	if text != "" && !strings.HasSuffix(text, "\n") {
		missing = lineEnd(text)
	}
	text += missing
	after := 0 // where the last change ends
	for i := range chunks {
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		more := slices.ContainsFunc(chunks[i:], func(c patch.Chunk) bool { return len(c.Old) > 0 })
		c := chunker{Chunk: &chunks[i], text: text, after: after, more: more}
		m, splices, err := c.make()
		if err != nil {
			return nil, c.refusal(err)
		}
		j.add(fmt.Sprintf("line %d of the patch: ", c.Line), text, m, splices)
		text, after = c.text, c.after
		if len(c.Old) == 0 { // its lines are the last ones, and whole
			missing = ""
		}
		if len(text) > maxEdited {
			return nil, problemf("too_large",
				"the file would get longer than %d MB; change it with bash", maxEdited>>20)
		}
	}
	if missing != "" { // or the break of a line before the last one, which went
		if text = strings.TrimSuffix(text, "\n"); !kept {
			text = strings.TrimSuffix(text, "\r")
		}
	}
	return j.edited(text), nil
}

// lineEnd returns what ends the first line of a text.
func lineEnd(text string) string {
	if line, _, ok := strings.Cut(text, "\n"); ok && strings.HasSuffix(line, "\r") {
		return "\r\n"
	}
	return "\n"
}

// chunker applies one chunk.
type chunker struct {
	*patch.Chunk
	text  string
	after int
	more  bool // changes of other lines follow
}

// make finds the lines of a chunk and replaces them. If the chunk demands it, the end of the file
// is preferred. Headers that are in the file bind: the lines are looked for below them, and
// lines that are only above them are not those that were meant. Without headers, the whole file is
// searched, and if several places match, the text after the previous chunk.
func (c *chunker) make() (editmatch.Match, []editmatch.Splice, error) {
	switch {
	case len(c.Old) == 0:
		return c.append()
	case slices.Equal(c.Old, c.New):
		return editmatch.Match{}, nil, nil // the chunk only shows context
	}
	if c.AtEnd {
		if m, s, err := c.within(c.lastLines(len(c.Old)), len(c.text)); err == nil {
			return m, s, nil
		}
	}
	at, regions := c.regions()
	for _, r := range regions {
		if m, s, err := c.within(r[0], r[1]); err == nil {
			return m, s, nil
		}
	}
	header := strings.Count(c.text[:at], "\n") + 1
	m, s, err := c.within(0, len(c.text))
	e, ok := errors.AsType[*editmatch.Error](err)
	switch {
	case err == nil && m.Places[0].LastLine < header:
		return m, nil, problemf("no_match", "the change in line %d of the patch: its old text is in line %d of the file, above "+
			"the line after @@, which is line %d. Read the file again. If line %[2]d is meant, put no line after @@, or one that is above it",
			c.Line, m.Places[0].FirstLine, header)
	case ok && e.Kind == editmatch.Ambiguous && len(c.Headers) == 0:
		if m, s, err := c.within(c.after, len(c.text)); err == nil {
			return m, s, nil
		}
	}
	return m, s, err
}

// refusal describes to the model why a chunk was refused.
func (c *chunker) refusal(err error) error {
	if e, ok := errors.AsType[*patch.Error](err); ok {
		return problemf("invalid_patch", "%v", e)
	}
	p, ok := errors.AsType[*problem](refusal(err, fmt.Sprintf("the change in line %d of the patch: ", c.Line)))
	if !ok {
		return err
	}
	more := "give more of the lines around it, or put the line of the function or class that it is in after @@"
	if len(c.Headers) > 0 {
		more = "give more of the lines around it, or after @@ a line above it that is in the file once"
	}
	text := strings.NewReplacer("old_string", "its old text", "new_string", "its new text",
		"take in more of the lines around it, or set replace_all", more).Replace(p.text)
	return problemf(p.kind, "%s", text)
}

// append adds lines at the end of the file, unless headers, line numbers or later changes say that
// they belong elsewhere.
func (c *chunker) append() (editmatch.Match, []editmatch.Splice, error) {
	if (len(c.Headers) > 0 || c.Numbered && c.text != "" || c.more) && !c.AtEnd {
		return editmatch.Match{}, nil, &patch.Error{Line: c.Line,
			Reason: "the change does not say where its lines go; give the lines that stay before and after them"}
	}
	added := wholeLines(c.New)
	if lineEnd(c.text) == "\r\n" {
		added = strings.ReplaceAll(strings.ReplaceAll(added, "\r\n", "\n"), "\n", "\r\n")
	}
	n := strings.Count(c.text, "\n")
	c.text += added
	c.after = len(c.text)
	return editmatch.Match{Places: []editmatch.Place{{FirstLine: max(n, 1), LastLine: max(n, 1)}}}, nil, nil
}

// within applies the chunk to a part of the text that consists of whole lines. The
// positions in the returned match and splices are those of the whole text.
func (c *chunker) within(from, to int) (editmatch.Match, []editmatch.Splice, error) {
	planned := editmatch.Edit{Old: wholeLines(c.Old), New: wholeLines(c.New), WholeLines: true}
	r, err := editmatch.Plan([]byte(c.text[from:to]), planned)
	if err != nil {
		return editmatch.Match{}, nil, err
	}
	m := r.Match
	before := strings.Count(c.text[:from], "\n")
	for i := range m.Places {
		m.Places[i].FirstLine += before
		m.Places[i].LastLine += before
	}
	for i := range r.Splices {
		r.Splices[i].From += from
		r.Splices[i].To += from
	}
	c.after = r.Splices[len(r.Splices)-1].To + len(r.Text) - (to - from)
	c.text = c.text[:from] + string(r.Text) + c.text[to:]
	return m, r.Splices, nil
}

func wholeLines(lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	return strings.Join(lines, "\n") + "\n"
}

// lastLines returns the offset at which the last n lines begin.
func (c *chunker) lastLines(n int) int {
	at := len(strings.TrimSuffix(c.text, "\n"))
	for range n {
		if at = strings.LastIndexByte(c.text[:at], '\n'); at < 0 {
			return 0
		}
	}
	return at + 1
}

// regions returns where the line is that the headers name, and the parts of the text to which they
// may refer, the most likely first. There are none if the headers do not name one line.
func (c *chunker) regions() (at int, _ [][2]int) {
	at, from, to, ok := c.named(0)
	if !ok {
		at, from, to, ok = c.named(c.after)
	}
	if !ok {
		return 0, nil
	}
	out := [][2]int{{from, to}, {at, len(c.text)}}
	if from <= c.after && c.after < to {
		out = append(out, [2]int{c.after, to})
	}
	return at, out
}

// named returns the start of the line that the headers name in the text after an offset, and the
// region below it: the lines that are indented more than it. Each header must occur once.
func (c *chunker) named(from int) (at, start, end int, ok bool) {
	start, end = from, len(c.text)
	for _, h := range c.Headers {
		var next int
		if at, next, ok = c.lineOf(h, start, end); !ok {
			return 0, 0, 0, false
		}
		start, end = next, c.blockEnd(at, next, end)
	}
	return at, start, end, ok
}

// lineOf returns the start of the only line that a header matches, and the start of the
// next line.
func (c *chunker) lineOf(header string, from, to int) (at, next int, ok bool) {
	same := func(line string) bool { return line == header }
	begins := func(line string) bool { return strings.HasPrefix(line, header) }
	for _, fits := range []func(string) bool{same, begins} {
		count, pos := 0, from
		for line := range strings.Lines(c.text[from:to]) {
			if fits(strings.TrimSpace(line)) {
				count, at, next = count+1, pos, pos+len(line)
			}
			pos += len(line)
		}
		if count > 0 {
			return at, next, count == 1
		}
	}
	return 0, 0, false
}

// blockEnd returns the end of the block that follows a line: the lines that are indented
// more. The line that closes the block belongs to it, since it may be a bracket.
func (c *chunker) blockEnd(at, next, to int) int {
	least, pos := indentWidth(c.text[at:next]), next
	for line := range strings.Lines(c.text[next:to]) {
		pos += len(line)
		if strings.TrimSpace(line) != "" && indentWidth(line) <= least {
			break
		}
	}
	return pos
}

// indentWidth returns the width of the indentation, with a tab as eight columns.
func indentWidth(line string) int {
	n := 0
	for _, r := range line {
		switch r {
		case ' ':
			n++
		case '\t':
			n += 8 - n%8
		default:
			return n
		}
	}
	return n
}
