package tools

import (
	"context"
	"fmt"
	"strings"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/editmatch"
	"github.com/aycoder/aycoder/internal/view"
	"github.com/aycoder/aycoder/workspace"
)

const editDescription = `Change a text file of the workspace: replace old_string by new_string.
old_string must be the exact text in the file, white space included, without the line numbers that
read_file puts in front, and must occur once, unless replace_all is true; include more lines around
it to make it unique. In a file that you have not looked at, it must match exactly. An empty
old_string creates the file and its directories. Line endings, a byte order mark and the file's mode
are kept; write \n for a line break. If the user has changed the file since you read it, both
changes are merged. The result is a unified diff.`

type editArgs struct {
	Path       string `json:"path" jsonschema_description:"File, relative to the workspace."`
	OldString  string `json:"old_string" jsonschema_description:"Text to replace; empty to create a file."`
	NewString  string `json:"new_string" jsonschema_description:"Text to put in its place."`
	ReplaceAll bool   `json:"replace_all,omitempty" jsonschema_description:"Replace every occurrence. Default: false."`
}

// EditFile returns the tool edit_file, which replaces text in a file or creates a file. It is an
// [aycoder.Planner].
//
// The tool first searches for the old text exactly. If that fails, it searches for an inexact
// match: a text that differs from the old text only by mistakes that models make when they copy,
// such as other line endings, trailing blanks, indentation and typographic characters. The result
// names the differences. A model is shown a file by a file tool, or by a read-only command that
// names the file. In a file that the model was not shown, only the line endings may differ,
// because any other inexact match would be a guess.
//
// The old text must match exactly one place, unless the model asks to replace every occurrence.
// If the old text is no longer in the file, but was in the version that the model was shown, the
// tool merges the edit with the changes that were made since.
func EditFile(ws FS, opts ...Option) (aycoder.Tool, error) {
	e := &fileEditor{ws}
	what := about{"edit_file", editDescription,
		aycoder.Subject{Kind: aycoder.SubjectPath, Arg: "path"}}
	return newChanger(ws, opts, what, e.edit)
}

// fileEditor edits one file.
type fileEditor struct{ ws FS }

// edit proposes one replacement.
func (e *fileEditor) edit(ctx context.Context, from texts, in editArgs) (*proposal, error) {
	one := editmatch.Edit{Old: in.OldString, New: in.NewString, ReplaceAll: in.ReplaceAll}
	return e.edits(ctx, from, in.Path, []editmatch.Edit{one})
}

// edits applies several edits, each to the outcome of those before it.
func (e *fileEditor) edits(
	ctx context.Context, from texts, name string, edits []editmatch.Edit,
) (*proposal, error) {
	f, err := from.open(ctx, name)
	if err == nil {
		err = f.editable()
	}
	if err != nil {
		return nil, err
	}
	if !f.exists {
		return e.begin(ctx, f, name, edits)
	}
	return f.propose(func(text string) (*edited, error) { return inOrder(ctx, text, edits) })
}

// begin proposes a new file, which the first edit creates.
func (e *fileEditor) begin(
	ctx context.Context, f *textFile, name string, edits []editmatch.Edit,
) (*proposal, error) {
	if edits[0].Old != "" {
		err := missing(ctx, e.ws, name,
			&workspace.Error{Op: "edit", Path: name, Kind: workspace.KindNotFound, Err: errNoFile})
		return nil, problemf("not_found", "%s; to create a file, leave old_string empty",
			strings.TrimPrefix(err.Error(), "not_found: "))
	}
	r := &edited{text: edits[0].New}
	if len(edits) > 1 {
		var err error
		if r, err = inOrder(ctx, "", edits); err != nil {
			return nil, err
		}
	}
	return f.create(r.text)
}

// inOrder applies edits to a text, each to the outcome of those before it.
func inOrder(ctx context.Context, text string, edits []editmatch.Edit) (*edited, error) {
	var j journal
	for i := range edits {
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		name := ""
		if len(edits) > 1 {
			name = fmt.Sprintf("edit %d: ", i+1)
		}
		r, err := editmatch.Plan(view.Bytes(text), edits[i])
		if err != nil {
			return nil, refusal(err, name)
		}
		j.add(name, text, r.Match, r.Splices)
		if text = view.String(r.Text); len(text) > maxEdited {
			return nil, problemf("too_large",
				"%sthe file would get longer than %d MB; change it with bash", name, maxEdited>>20)
		}
	}
	return j.edited(text), nil
}
