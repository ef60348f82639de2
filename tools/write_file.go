package tools

import (
	"context"
	"strings"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/editmatch"
)

const writeDescription = `Write a whole text file of the workspace: create it and its directories,
or replace its content. To change a part of a file, use edit_file. Read an existing file first:
changes that the user has made since are merged with the text that you write. Line endings, a byte
order mark and the file's mode are kept; write \n for a line break.`

type writeArgs struct {
	Path    string `json:"path" jsonschema_description:"File, relative to the workspace."`
	Content string `json:"content" jsonschema_description:"The whole new content of the file."`
}

// WriteFile returns the tool write_file, which creates a file or replaces its content. It is an
// [aycoder.Planner]. If the file exists and the model has not read all of it, the tool does not
// replace the file and returns an error of the kind "not_read". If the user has changed the file since
// the model read it, the tool merges the changes of the user and the model.
func WriteFile(ws FS, opts ...Option) (aycoder.Tool, error) {
	what := about{"write_file", writeDescription,
		aycoder.Subject{Kind: aycoder.SubjectPath, Arg: "path"}}
	return newChanger(ws, opts, what, writeFile)
}

// writeFile proposes the new content of a file. It merges with the version that the model has
// read: the model repeats the lines of that version, and not those that the user has added since.
func writeFile(ctx context.Context, from texts, in writeArgs) (*proposal, error) {
	f, err := from.open(ctx, in.Path)
	if err == nil {
		err = f.editable()
	}
	if err != nil {
		return nil, err
	}
	if !f.exists {
		return f.create(in.Content)
	}
	base, err := f.known()
	if err != nil {
		return nil, err
	}
	e := &edited{text: likeFile(base, in.Content)}
	switch {
	case e.text == f.text:
		return nil, problemf("no_change",
			"%s has this content already, so there is nothing to do", showPath(f.path))
	case base == f.text:
		return f.change(base, e)
	}
	return f.stale(base, e)
}

// known returns the version of the file that the model knows.
func (f *textFile) known() (string, error) {
	switch {
	case f.text != "" && f.last != "" && !f.seen.HashInView(f.path):
		return "", problemf("not_read", "what you read of %s is left out of this conversation now; read it again (in parts, if it is long), and then "+
			"write it, or change a part of it with edit_file", showPath(f.path))
	case f.text == "" || f.last != "" && f.last == hashOf(f.text):
		return f.text, nil
	case f.last != "":
		for _, shown := range f.shown { // some versions were shown in part
			if f.last == hashOf(shown) {
				return shown, nil
			}
		}
		return "", problemf("stale",
			"%s has changed since you read it; read it again, and then write it", showPath(f.path))
	}
	if len(f.shown) > 0 {
		return "", problemf("not_read", "you have not read all of %s, and writing it would delete the rest; read the other lines "+
			"first, or change a part of it with edit_file, also if it has lines that are shown truncated", showPath(f.path))
	}
	return "", problemf("not_read", "%s exists and you have not read it; read it first, or change a part of it "+
		"with edit_file", showPath(f.path))
}

// likeFile gives a text the line endings and the byte order mark of another, which a
// model does not see. Lines that both have keep their endings.
func likeFile(base, text string) string {
	const mark = "\uFEFF"
	body := strings.TrimPrefix(base, mark)
	seen := strings.ReplaceAll(body, "\r\n", "\n")
	if seen == base {
		return text
	}
	text = strings.TrimPrefix(text, mark)
	if seen == strings.ReplaceAll(text, "\r\n", "\n") {
		return base
	}
	r, err := editmatch.Plan([]byte(base), editmatch.Edit{Old: body, New: text})
	if err != nil {
		return text
	}
	return string(r.Text)
}
