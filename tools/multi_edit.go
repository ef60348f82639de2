package tools

import (
	"context"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/editmatch"
)

const maxEdits = 1000 // in one call

const multiDescription = `Make several edits to one text file of the workspace at once: all of them
or none. They are applied in order, each to the result of the edits before it; old_string and
new_string are as in edit_file. Use apply_patch to change several files.`

type multiArgs struct {
	Path  string    `json:"path" jsonschema_description:"File, relative to the workspace."`
	Edits []oneEdit `json:"edits" jsonschema_description:"The edits, in order."`
}

type oneEdit struct {
	OldString  string `json:"old_string" jsonschema_description:"Text to replace; empty in the first edit to create a file."`
	NewString  string `json:"new_string" jsonschema_description:"Text to put in its place."`
	ReplaceAll bool   `json:"replace_all,omitempty" jsonschema_description:"Replace every occurrence. Default: false."`
}

// MultiEdit returns the tool multi_edit, which makes several edits to one file, either all or
// none. The edits apply in order, each in the way that [EditFile] describes. A call changes a
// single file, so a rule of package policy can allow or deny the call by the path of that file.
func MultiEdit(ws FS, opts ...Option) (aycoder.Tool, error) {
	e := &fileEditor{ws}
	what := about{"multi_edit", multiDescription,
		aycoder.Subject{Kind: aycoder.SubjectPath, Arg: "path"}}
	return newChanger(ws, opts, what, e.multi)
}

// multi proposes several edits of one file.
func (e *fileEditor) multi(ctx context.Context, from texts, in multiArgs) (*proposal, error) {
	switch n := len(in.Edits); {
	case n == 0:
		return nil, problemf("invalid_arguments", "edits is empty; give one edit at least")
	case n > maxEdits:
		return nil, problemf("invalid_arguments",
			"there are %d edits, more than %d; make several calls", n, maxEdits)
	}
	edits := make([]editmatch.Edit, len(in.Edits))
	for i, o := range in.Edits {
		edits[i] = editmatch.Edit{Old: o.OldString, New: o.NewString, ReplaceAll: o.ReplaceAll}
	}
	return e.edits(ctx, from, in.Path, edits)
}
