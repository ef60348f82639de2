package project

import (
	"strings"

	"github.com/aycoder/aycoder/internal/runes"
)

// aliases are the tools that both have, by the names that other agents have for them. Package dialect has
// those whose arguments are translated, too.
var aliases = map[string]string{
	"Read": "read_file", "Write": "write_file", "Edit": "edit_file", "MultiEdit": "multi_edit", "Bash": "bash",
	"BashOutput": "job_output", "TaskOutput": "job_output", "KillShell": "job_stop", "KillBash": "job_stop", "TaskStop": "job_stop",
	"Glob": "glob", "Grep": "code_search", "LS": "list_files", "WebFetch": "fetch", "TodoWrite": "todo", "Task": "subagent",
	"Agent": "subagent", "AskUserQuestion": "ask_user", "Skill": "skill",
}

// OurTool returns the name that a tool of another agent, such as "Bash", has here, and whether there is such a tool. A
// name of ours, and one of a server, which begins with "mcp__", are returned as they are.
func OurTool(theirs string) (string, bool) {
	if strings.HasPrefix(theirs, "mcp__") || theirs == "apply_patch" {
		return theirs, true
	}
	if ours, ok := aliases[theirs]; ok {
		return ours, true
	}
	for _, ours := range aliases {
		if ours == theirs {
			return ours, true
		}
	}
	return "", false
}

// ToolRef is an entry of allowed-tools, or of the tools of an agent.
type ToolRef struct {
	// Name is the name of a tool of ours. A name of a tool that is not known here is left out, with a warning.
	Name string
	// Rule is a pattern for the calls that are meant, in the language of package policy, or "" for all: "git add *" for
	// Bash(git add:*).
	Rule string
}

// ParseToolRef reads an entry such as "Bash(git add:*)", and reports whether there is such a tool here.
func ParseToolRef(entry string) (ToolRef, bool) {
	name, rule, limited := strings.Cut(strings.TrimSpace(entry), "(")
	ours, ok := OurTool(name)
	switch {
	case !ok:
		return ToolRef{}, false
	case limited:
		return ToolRef{ours, ruleOf(strings.TrimSuffix(rule, ")"))}, true
	}
	return ToolRef{Name: ours}, true
}

// toolRefs reads a list of tools.
func toolRefs(d document, key string, warn *warnings) []ToolRef {
	v := d.matter.get(key)
	entries := v.list
	if entries == nil {
		entries = fields(v.text)
	}
	switch {
	case len(entries) == 0 && v.list == nil:
		return nil
	case len(entries) == 0 && v.text == "":
		warn.add(d.file, v.line, "%s is not a list of names, so there are no tools", key)
	}
	refs := []ToolRef{} // no tool is not all tools
	for _, entry := range entries {
		name, _, _ := strings.Cut(strings.TrimSpace(entry), "(")
		ref, ok := ParseToolRef(entry)
		switch {
		case name == "":
		case name == "*":
			return nil
		case !ok:
			warn.add(d.file, v.line, "there is no tool like %s here, so it is left out", runes.Path(name))
		default:
			refs = append(refs, ref)
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
