package hooks

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/patch"
)

// The authors of hooks know other names of tools and arguments than this library has. This table says
// which, so that hooks, and the input with which they answer, work in both directions. Names and arguments
// that it lacks are the same on both sides.

// A dialect is what hooks call a tool.
type dialect struct {
	names []string          // of which hooks read the first, and match any
	keys  map[string]string // from our arguments to theirs
}

// file is the argument that holds a path. Hooks expect an absolute one.
const file = "file_path"

var dialects = map[string]dialect{
	"bash":        {[]string{"Bash"}, map[string]string{"timeout": "timeout", "background": "run_in_background"}},
	"read_file":   {[]string{"Read"}, map[string]string{"path": file}},
	"write_file":  {[]string{"Write"}, map[string]string{"path": file}},
	"edit_file":   {[]string{"Edit"}, map[string]string{"path": file}},
	"multi_edit":  {[]string{"MultiEdit", "Edit"}, map[string]string{"path": file}},
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

// A view is a call as hooks see it.
type view struct {
	name  string
	input map[string]any
	patch bool // one file of a patch
}

const maxFiles = 64 // of a patch

// views returns how hooks see a call: a patch as one edit for each of its files, else as it is.
func (r *Runner) views(tool string, args json.RawMessage) ([]view, error) {
	in, err := decode(args)
	if err != nil {
		return nil, err
	}
	d := dialects[tool]
	v := view{name: tool, input: map[string]any{}}
	if len(d.names) > 0 {
		v.name = d.names[0]
	}
	if text, ok := in["patch"].(string); ok && tool == "apply_patch" {
		return r.patched(v.name, text)
	}
	for key, value := range in {
		their, known := d.keys[key]
		if !known {
			their = key
		}
		v.input[their] = r.outward(tool, their, value)
	}
	return []view{v}, nil
}

func (r *Runner) patched(name, text string) ([]view, error) {
	files, ok := patch.Paths(text)
	if !ok || len(files) == 0 || len(files) > maxFiles {
		return nil, fmt.Errorf("the patch names %d files, and hooks can be shown 1 to %d", len(files), maxFiles)
	}
	var all []view
	for _, f := range files {
		all = append(all, view{name, map[string]any{file: r.absolute(f), "patch": text}, true})
	}
	return all, nil
}

// outward converts a value for hooks.
func (r *Runner) outward(tool, key string, value any) any {
	switch n, number := value.(json.Number); {
	case key == file:
		if s, ok := value.(string); ok {
			return r.absolute(s)
		}
	case number && tool == "bash" && key == "timeout": // seconds here, milliseconds there
		if f, err := n.Float64(); err == nil && math.Abs(f) < 1e9 {
			return json.Number(fmt.Sprint(int64(f * 1000)))
		}
	}
	return value
}

// inward converts the input of a hook into arguments of a tool.
func (r *Runner) inward(tool string, v view, input json.RawMessage) (json.RawMessage, error) {
	if v.patch {
		return nil, errors.New("the input of a patch cannot be replaced")
	}
	in, err := decode(input)
	if err != nil {
		return nil, err
	}
	out := map[string]any{}
	for key, value := range in {
		ours := key
		for our, their := range dialects[tool].keys {
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
		case key == file && isText:
			value = r.relative(s)
		case isNumber && tool == "bash" && key == "timeout":
			if f, err := n.Float64(); err == nil {
				value = int64(math.Ceil(min(max(f/1000, 0), 1e6)))
			}
		}
		out[ours] = value
	}
	return encode(out)
}

// absolute returns the path of a file of the workspace as hooks expect it.
func (r *Runner) absolute(name string) string {
	switch {
	case path.IsAbs(name):
		return path.Clean(name) // so that no guard misses it
	case filepath.IsAbs(name) || name == "":
		return name
	}
	return path.Join(filepath.ToSlash(r.conf.Root), name)
}

// relative is the inverse of absolute. Other paths stay as they are, for the workspace to refuse.
func (r *Runner) relative(name string) string {
	if rest, ok := strings.CutPrefix(path.Clean(name), filepath.ToSlash(r.conf.Root)+"/"); ok {
		return rest
	}
	return name
}

// matches reports whether a hook is for one of the names.
func (h *hook) matches(names ...string) bool {
	return h.matcher == nil || slices.ContainsFunc(names, h.matcher.MatchString)
}

// toolNames returns the names by which a matcher finds a tool.
func toolNames(tool string) []string { return append(slices.Clone(dialects[tool].names), tool) }

// response returns the result of a call as hooks see it.
func response(v view, text string, failed bool) map[string]any {
	out := map[string]any{"output": text, "is_error": failed}
	if v.name == "Bash" {
		out["stdout"], out["stderr"], out["interrupted"], out["isImage"] = text, "", false, false
	}
	if f, ok := v.input[file]; ok {
		out["filePath"], out["success"] = f, !failed
	}
	return out
}

// replacement returns the text by which a hook replaces a result: a text, or an object of the form of
// response.
func replacement(value json.RawMessage) string {
	var text string
	if json.Unmarshal(value, &text) == nil {
		return text
	}
	var out struct {
		Stdout, Stderr, Output, Content *string
	}
	if json.Unmarshal(value, &out) == nil {
		switch {
		case out.Stdout != nil && out.Stderr != nil && *out.Stderr != "":
			return *out.Stdout + "\n" + *out.Stderr
		case out.Stdout != nil:
			return *out.Stdout
		case out.Output != nil:
			return *out.Output
		case out.Content != nil:
			return *out.Content
		}
	}
	return string(value)
}

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

// textOf returns the texts of a result. A tool may return parts that are nil.
func textOf(res *aycoder.ToolResult) string {
	var b strings.Builder
	if res == nil {
		return ""
	}
	for _, p := range res.Parts {
		if t, ok := p.(*aycoder.Text); ok && t != nil {
			b.WriteString(t.Text)
		}
	}
	return b.String()
}
