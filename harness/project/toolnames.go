package project

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/aycoder/aycoder/internal/runes"
)

// An alias is a tool under the name that other agents have for it.
type alias struct {
	theirs, ours string
	args         []arg
}

// An arg is an argument under both names.
type arg struct {
	theirs, ours string
	unit         int64 // that one of ours has of theirs, if not 0: milliseconds of a second
}

// aliases are the tools that both have. Of several with one of our names, the first is the one that is told to hooks.
var aliases = []alias{
	{"Read", "read_file", []arg{{theirs: "file_path", ours: "path"}}},
	{"Write", "write_file", []arg{{theirs: "file_path", ours: "path"}}},
	{"Edit", "edit_file", []arg{{theirs: "file_path", ours: "path"}}},
	{"MultiEdit", "multi_edit", []arg{{theirs: "file_path", ours: "path"}}},
	{"Bash", "bash", []arg{{"timeout", "timeout", 1000}, {theirs: "run_in_background", ours: "background"}}},
	{"BashOutput", "job_output", []arg{{theirs: "bash_id", ours: "id"}}},
	{"TaskOutput", "job_output", []arg{{theirs: "task_id", ours: "id"}}},
	{"KillShell", "job_stop", []arg{{theirs: "shell_id", ours: "id"}}},
	{"KillBash", "job_stop", []arg{{theirs: "shell_id", ours: "id"}}},
	{"TaskStop", "job_stop", []arg{{theirs: "task_id", ours: "id"}}},
	{"Glob", "glob", nil},
	{"Grep", "code_search", []arg{{theirs: "glob", ours: "include"}, {theirs: "-i", ours: "ignore_case"},
		{theirs: "-C", ours: "context"}, {theirs: "head_limit", ours: "max_results"}}},
	{"LS", "list_files", nil},
	{"WebFetch", "fetch", nil},
	{"TodoWrite", "todo", nil},
	{"Task", "subagent", []arg{{theirs: "prompt", ours: "task"}, {theirs: "subagent_type", ours: "agent"}}},
	{"Agent", "subagent", []arg{{theirs: "prompt", ours: "task"}, {theirs: "subagent_type", ours: "agent"}}},
	{"AskUserQuestion", "ask_user", nil},
	{"Skill", "skill", []arg{{theirs: "skill", ours: "name"}}},
}

// OurTool returns the name that a tool of another agent, such as "Bash", has here, and whether there is such a tool. A
// name of ours, and one of a server, which begins with "mcp__", are returned as they are.
func OurTool(theirs string) (string, bool) {
	if strings.HasPrefix(theirs, "mcp__") || theirs == "apply_patch" {
		return theirs, true
	}
	i := slices.IndexFunc(aliases, func(a alias) bool { return a.theirs == theirs || a.ours == theirs })
	if i < 0 {
		return "", false
	}
	return aliases[i].ours, true
}

// TheirTool returns the name that other agents have for a tool of ours, or the name itself if they have none.
func TheirTool(ours string) string {
	if i := slices.IndexFunc(aliases, func(a alias) bool { return a.ours == ours }); i >= 0 {
		return aliases[i].theirs
	}
	return ours
}

var errNoObject = errors.New("the arguments are not a JSON object")

// ToTheirs translates a call of a tool of ours for a program that was written for other agents. Paths of files become
// absolute, below dir. Arguments that they do not have keep their names. A tool that they do not have keeps its name
// and its arguments.
func ToTheirs(dir, tool string, args json.RawMessage) (name string, input json.RawMessage, err error) {
	i := slices.IndexFunc(aliases, func(a alias) bool { return a.ours == tool })
	if i < 0 {
		return tool, args, nil
	}
	input, err = rename(args, aliases[i].args, func(a arg) (from, to string) { return a.ours, a.theirs },
		func(a arg, v any) any {
			switch v := v.(type) {
			case json.Number:
				if n, err := v.Int64(); err == nil && a.unit > 0 {
					return n * a.unit
				}
			case string:
				if a.theirs == "file_path" && !filepath.IsAbs(v) && !path.IsAbs(v) {
					return path.Join(filepath.ToSlash(dir), v)
				}
			}
			return v
		})
	return aliases[i].theirs, input, err
}

// ToOurs is the reverse of [ToTheirs]: it translates the arguments of a call that a program has changed to those of our
// tool. The caller checks them against its schema: nothing is left out here. Absolute paths stay as they are.
func ToOurs(tool string, input json.RawMessage) (json.RawMessage, error) {
	i := slices.IndexFunc(aliases, func(a alias) bool { return a.ours == tool })
	if i < 0 {
		return input, nil
	}
	return rename(input, aliases[i].args, func(a arg) (from, to string) { return a.theirs, a.ours },
		func(a arg, v any) any {
			if number, ok := v.(json.Number); ok && a.unit > 0 {
				if n, err := number.Int64(); err == nil {
					return (n + a.unit - 1) / a.unit
				}
			}
			return v
		})
}

// rename gives the values of an object other names.
func rename(data json.RawMessage, args []arg, names func(arg) (from, to string), convert func(arg, any) any) (
	json.RawMessage, error,
) {
	dec := json.NewDecoder(strings.NewReader(string(data)))
	dec.UseNumber()
	var in map[string]any
	if err := dec.Decode(&in); err != nil || in == nil {
		return nil, errNoObject
	}
	out := map[string]any{}
	for key, v := range in {
		for _, a := range args {
			if from, to := names(a); from == key {
				key, v = to, convert(a, v)
				break
			}
		}
		if _, twice := out[key]; twice {
			return nil, fmt.Errorf("the argument %s is there under both of its names", runes.Path(key))
		}
		out[key] = v
	}
	return json.Marshal(out)
}

// ToolRef is an entry of allowed-tools, or of the tools of an agent.
type ToolRef struct {
	// Name is the name of a tool of ours. A name of a tool that is not known here is left out, with a warning.
	Name string
	// Rule is a pattern for the calls that are meant, in the language of package policy, or "" for all: "git add *" for
	// Bash(git add:*).
	Rule string
}

// toolRefs reads a list of tools.
func toolRefs(d document, key string, warn *warnings) []ToolRef {
	v := d.matter.get(key)
	entries := v.list
	if entries == nil {
		entries = fields(v.text)
	}
	if len(entries) == 0 && v.list == nil {
		return nil
	}
	refs := []ToolRef{} // no tool is not all tools
	for _, entry := range entries {
		name, rule, limited := strings.Cut(strings.TrimSpace(entry), "(")
		ours, ok := OurTool(name)
		switch {
		case name == "":
		case name == "*":
			return nil
		case !ok:
			warn.add(d.file, v.line, "there is no tool like %s here, so it is left out", runes.Path(name))
		case limited:
			refs = append(refs, ToolRef{ours, ruleOf(strings.TrimSuffix(rule, ")"))})
		default:
			refs = append(refs, ToolRef{Name: ours})
		}
	}
	return refs
}

// ruleOf translates a pattern of other agents: "git add:*" means "git add" with any words after it.
func ruleOf(pattern string) string {
	if before, ok := strings.CutSuffix(pattern, ":*"); ok {
		return strings.TrimSpace(before + " *")
	}
	if host, ok := strings.CutPrefix(pattern, "domain:"); ok {
		return host
	}
	if pattern == "*" {
		return ""
	}
	return pattern
}

// fields splits a list at commas and blanks that are not in parentheses.
func fields(text string) []string {
	depth := 0
	return strings.FieldsFunc(text, func(r rune) bool {
		switch r {
		case '(':
			depth++
		case ')':
			depth--
		}
		return depth <= 0 && (r == ',' || r == ' ' || r == '\t' || r == '\n')
	})
}
