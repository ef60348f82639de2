// Package dialect translates calls of tools between the names and arguments of this library and those that the authors of
// hooks and of programs around other agents know. Names and arguments that its table lacks are the same on both sides.
package dialect

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/aycoder/aycoder/internal/patch"
)

// A naming is what others call a tool.
type naming struct {
	names []string          // of which the first is shown, and each is understood
	keys  map[string]string // from our arguments to theirs
}

// File is the argument that holds a path, which is an absolute one there.
const File = "file_path"

var table = map[string]naming{
	"bash":        {[]string{"Bash"}, map[string]string{"timeout": "timeout", "background": "run_in_background"}},
	"read_file":   {[]string{"Read"}, map[string]string{"path": File}},
	"write_file":  {[]string{"Write"}, map[string]string{"path": File}},
	"edit_file":   {[]string{"Edit"}, map[string]string{"path": File}},
	"multi_edit":  {[]string{"MultiEdit", "Edit"}, map[string]string{"path": File}},
	"apply_patch": {[]string{"Edit", "MultiEdit", "Write"}, nil},
	"glob":        {[]string{"Glob"}, nil},
	"list_files":  {[]string{"LS"}, nil},
	"code_search": {[]string{"Grep"}, map[string]string{"include": "glob", "ignore_case": "-i", "context": "-C",
		"max_results": "head_limit"}},
	"fetch":    {[]string{"WebFetch"}, nil},
	"todo":     {[]string{"TodoWrite"}, nil},
	"ask_user": {[]string{"AskUserQuestion"}, nil},
	"subagent": {[]string{"Task", "Agent"}, map[string]string{"task": "prompt", "agent": "subagent_type"}},
}

// A View is a call as others see it.
type View struct {
	Name  string
	Input map[string]any
	Patch bool // one file of a patch
}

const maxFiles = 64 // of a patch

// Views returns how others see a call of ours in a workspace with that root: a patch as one edit for each of its
// files, else as it is.
func Views(root, tool string, args json.RawMessage) ([]View, error) {
	in, err := decode(args)
	if err != nil {
		return nil, err
	}
	d := table[tool]
	v := View{Name: tool, Input: map[string]any{}}
	if len(d.names) > 0 {
		v.Name = d.names[0]
	}
	if text, ok := in["patch"].(string); ok && tool == "apply_patch" {
		return patched(root, v.Name, text)
	}
	for key, value := range in {
		their, known := d.keys[key]
		if !known {
			their = key
		}
		v.Input[their] = outward(root, tool, their, value)
	}
	return []View{v}, nil
}

func patched(root, name, text string) ([]View, error) {
	files, ok := patch.Paths(text)
	if !ok || len(files) == 0 || len(files) > maxFiles {
		return nil, fmt.Errorf("the patch names %d files, and others can be shown 1 to %d", len(files), maxFiles)
	}
	var all []View
	for _, f := range files {
		all = append(all, View{name, map[string]any{File: Absolute(root, f), "patch": text}, true})
	}
	return all, nil
}

// outward converts a value for others.
func outward(root, tool, key string, value any) any {
	switch n, number := value.(json.Number); {
	case key == File:
		if s, ok := value.(string); ok {
			return Absolute(root, s)
		}
	case number && tool == "bash" && key == "timeout": // seconds here, milliseconds there
		if f, err := n.Float64(); err == nil && math.Abs(f) < 1e9 {
			return json.Number(fmt.Sprint(int64(f * 1000)))
		}
	}
	return value
}

// Inward converts what others give as the input of a call into arguments of our tool. v is how they have seen the call.
func Inward(root, tool string, v View, input json.RawMessage) (json.RawMessage, error) {
	if v.Patch {
		return nil, errors.New("the input of a patch cannot be replaced")
	}
	in, err := decode(input)
	if err != nil {
		return nil, err
	}
	out := map[string]any{}
	for key, value := range in {
		ours := key
		for our, their := range table[tool].keys {
			if their == key {
				ours = our
			}
		}
		if _, twice := out[ours]; twice {
			return nil, fmt.Errorf("the argument %s is there twice", ours)
		}
		s, isText := value.(string)
		n, isNumber := value.(json.Number)
		switch {
		case key == File && isText:
			value = relative(root, s)
		case isNumber && tool == "bash" && key == "timeout":
			if f, err := n.Float64(); err == nil {
				value = int64(math.Ceil(min(max(f/1000, 0), 1e6)))
			}
		}
		out[ours] = value
	}
	return encode(out)
}

// Absolute returns the path of a file of the workspace as others expect it.
func Absolute(root, name string) string {
	switch {
	case path.IsAbs(name):
		return path.Clean(name) // so that no guard misses it
	case filepath.IsAbs(name) || name == "":
		return name
	}
	return path.Join(filepath.ToSlash(root), name)
}

// relative is the inverse of [Absolute]. Other paths stay as they are, for the workspace to refuse.
func relative(root, name string) string {
	if rest, ok := strings.CutPrefix(path.Clean(name), filepath.ToSlash(root)+"/"); ok {
		return rest
	}
	return name
}

// Names returns the names by which others know a tool of ours, and its own at the end.
func Names(tool string) []string { return append(slices.Clone(table[tool].names), tool) }

var modes = map[string]string{"accept-edits": "acceptEdits", "plan": "plan", "full-auto": "bypassPermissions"}

// Mode returns what others call a mode of ours.
func Mode(ours string) string { return cmp.Or(modes[ours], "default") }

// decode decodes an object, and keeps its numbers as they are.
func decode(data json.RawMessage) (map[string]any, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var out map[string]any
	if err := d.Decode(&out); err != nil {
		return nil, err
	}
	if out == nil {
		return nil, errors.New("is not an object")
	}
	return out, nil
}

// encode encodes without escapes that change a text's length.
func encode(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSpace(b.Bytes()), err
}
