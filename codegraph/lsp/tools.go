package lsp

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/edit"
	"github.com/aycoder/aycoder/internal/runes"
	"github.com/aycoder/aycoder/tools"
)

const (
	maxLines   = 200 // places in a result
	maxLine    = 300 // bytes
	lineSearch = 5   // how many lines beside the one that the model has named may be meant
	maxTries   = 10  // places of a name in a file that are tried
)

const (
	aboutDefinition = `Find where a name is defined, exactly as the compiler sees it. Name a place where it is used
(path, line), or give the name alone.`
	aboutReferences = `Find all places where a name is used, exactly as the compiler sees it, with its declaration.
Name one place where it stands (path, line), or give the name alone.`
	aboutRename = `Rename a function, type, method, variable or the like wherever it is used, exactly as the compiler
sees it. The result is a unified diff.`
)

type nameArgs struct {
	Name string `json:"name" jsonschema_description:"The name, as it stands in the code. Without path, a method may have its type before a dot."`
	Path string `json:"path,omitempty" jsonschema_description:"File in which the name stands, relative to the workspace. Default: the declaration is looked for in the whole workspace."`
	Line int    `json:"line,omitempty" jsonschema:"minimum=1" jsonschema_description:"1-based line of the file in which the name stands. Default: anywhere in the file."`
}

type renameArgs struct {
	Path    string `json:"path" jsonschema_description:"File in which the name stands, relative to the workspace."`
	Line    int    `json:"line" jsonschema:"minimum=1" jsonschema_description:"1-based line in which the name stands."`
	Name    string `json:"name" jsonschema_description:"The name, as it stands in that line."`
	NewName string `json:"new_name" jsonschema_description:"The new name."`
}

// Tools returns the tools with which a model asks the language servers: definition and references, which only
// read, and rename, which changes files like the tools of package tools: a person can see and reduce the change
// before it is made, and it is merged with what the user changes meanwhile. A rename has no [aycoder.Subject], as it
// changes more files than it names: a policy asks about each, unless everything is allowed. Without a server, there
// are no tools.
func (c *Client) Tools() ([]aycoder.Tool, error) {
	if len(c.servers) == 0 {
		return nil, nil
	}
	opts := []aycoder.ToolOption{
		aycoder.WithEffect(aycoder.EffectReadOnly), aycoder.WithSubject(aycoder.SubjectPath, "path")}
	definition, err := aycoder.NewTool("definition", aboutDefinition, c.definition, opts...)
	if err != nil {
		return nil, err
	}
	references, err := aycoder.NewTool("references", aboutReferences, c.references, opts...)
	if err != nil {
		return nil, err
	}
	rename, err := tools.NewPlanner(c.files, "rename", aboutRename, aycoder.Subject{}, c.rename)
	if err != nil {
		return nil, err
	}
	return []aycoder.Tool{definition, references, rename}, nil
}

func (c *Client) definition(ctx context.Context, _ *aycoder.Invocation, in nameArgs) (*aycoder.ToolResult, error) {
	places, note, err := c.places(ctx, in)
	if err != nil {
		return nil, err
	}
	if in.Path == "" { // these are the declarations
		return c.list(places, note), nil
	}
	return c.first(ctx, places, note, c.Definition)
}

func (c *Client) references(ctx context.Context, _ *aycoder.Invocation, in nameArgs) (*aycoder.ToolResult, error) {
	places, note, err := c.places(ctx, in)
	if err != nil {
		return nil, err
	}
	if in.Path == "" && len(places) > 1 {
		return nil, fmt.Errorf("%q is declared in several places; give path and line of one:\n%s",
			in.Name, c.list(places, "").Text())
	}
	return c.first(ctx, places, note, c.References)
}

// first returns what there is for the first of some places for which there is something. A server may refuse a place: a
// name often stands in a comment before it is declared.
func (c *Client) first(
	ctx context.Context, places []Location, note string, ask func(context.Context, string, Position) ([]Location, error),
) (*aycoder.ToolResult, error) {
	var failure error // of the last place
	for _, at := range places {
		found, err := ask(ctx, at.Path, at.Position)
		if len(found) > 0 {
			return c.list(found, note), nil
		}
		if _, refused := errors.AsType[*ResponseError](err); err != nil && !refused {
			return nil, err
		}
		failure = err
	}
	if failure != nil {
		return nil, failure
	}
	return c.list(nil, note), nil
}

func (c *Client) rename(ctx context.Context, in renameArgs) ([]edit.File, error) {
	places, _, err := c.places(ctx, nameArgs{in.Name, in.Path, in.Line})
	if err != nil {
		return nil, err
	}
	if at := places[0]; at.Line == in.Line {
		return c.Rename(ctx, at.Path, at.Position, in.NewName)
	}
	return nil, fmt.Errorf("%q is not in line %d of %s, but in line %d; if you mean that, give this line",
		in.Name, in.Line, runes.Path(in.Path), places[0].Line)
}

// places returns the places that a model may mean. Models cannot count columns, and count lines badly. A note says
// what was not as the model has said.
func (c *Client) places(ctx context.Context, in nameArgs) (places []Location, note string, err error) {
	if in.Path == "" {
		places, err = c.symbols(ctx, in.Name)
		if err == nil && len(places) == 0 {
			err = fmt.Errorf("no declaration of %q was found; give path and line of a place where it is used", in.Name)
		}
		return places, "", err
	}
	name, err := c.files.Rel(in.Path)
	if err != nil {
		return nil, "", err
	}
	text, err := c.read(name)
	if err != nil {
		return nil, "", err
	}
	word := in.Name[strings.LastIndexByte(in.Name, '.')+1:]
	if in.Line == 0 {
		places = inFile(name, text, word)
	} else {
		places = nearLine(name, text, word, in.Line)
	}
	switch {
	case len(places) == 0 && in.Line > 0:
		return nil, "", fmt.Errorf("%q is not in line %d of %s, nor near it", word, in.Line, runes.Path(name))
	case len(places) == 0:
		return nil, "", fmt.Errorf("%q is not in %s", word, runes.Path(name))
	case in.Line > 0 && places[0].Line != in.Line:
		note = fmt.Sprintf("(the name is in line %d, not %d)", places[0].Line, in.Line)
	}
	return places, note, nil
}

// inFile returns the first places of a name in a file.
func inFile(name, text, word string) (places []Location) {
	n := 0
	for line := range strings.Lines(text) {
		n++
		for _, column := range occurrences(line, word) {
			if len(places) == maxTries {
				return places
			}
			places = append(places, Location{Path: name, Position: Position{n, column}})
		}
	}
	return places
}

// nearLine returns the places of a name in a line, or in the nearest one that has it.
func nearLine(name, text, word string, line int) (places []Location) {
	lines := linesOf(text)
	for away := range lineSearch + 1 {
		for _, n := range []int{line - away, line + away} {
			found, _, ok := lines.line(n - 1)
			if !ok || len(places) > 0 {
				continue
			}
			for _, column := range occurrences(found, word) {
				places = append(places, Location{Path: name, Position: Position{n, column}})
			}
		}
	}
	return places
}

// list returns a result with places and the lines of those that are in the workspace.
func (c *Client) list(found []Location, note string) *aycoder.ToolResult {
	var b strings.Builder
	if note != "" {
		b.WriteString(note + "\n")
	}
	if len(found) == 0 {
		b.WriteString("The language server knows of none.\n")
	}
	name, lines := "", textLines{}
	for i, at := range found {
		if i == maxLines {
			fmt.Fprintf(&b, "(%d more are not shown)\n", len(found)-i)
			break
		}
		if at.Outside {
			fmt.Fprintf(&b, "%s:%d (outside the workspace)\n", runes.Path(at.Path), at.Line)
			continue
		}
		if at.Path != name {
			name = at.Path
			text, _ := c.read(name) // a place without its line is one, too
			lines = linesOf(text)
		}
		line, _, _ := lines.line(at.Line - 1)
		text := fmt.Sprintf("%s:%d: %s", runes.Path(at.Path), at.Line, strings.TrimSpace(line))
		b.WriteString(runes.Shorten(text, maxLine) + "\n")
	}
	r := aycoder.TextResult(runes.Clean(b.String()))
	r.Summary = fmt.Sprintf("%d found", len(found))
	return r
}
