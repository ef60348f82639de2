package tools

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A vocabulary lists the keys that the runner of a tool's recorded cases understands. A
// case with other keys is not run, and counted with the reason: without its other keys,
// it would prove something else.
type vocabulary struct{ args, expect []string }

var (
	caseKeys  = []string{"tool", "name", "setup", "args", "expect", "why", "id", "split"}
	setupKeys = []string{
		"file", "content", "dir", "file_b64", "b64", "repeat", "unit", "n", "many_files", "symlink", "to", "fifo", "mode",
		"background", "chmod", "tmpfs", "sparse", "bytes", "hardlink",
	}
	jobSteps   = []string{"start", "start_many", "output", "kill", "cancel_turn", "wait_ms"}
	usual      = []string{"outcome", "max_ms", "max_output_bytes", "valid_utf8", "contains", "not_contains", "error_kind"}
	editExpect = append([]string{
		"file_after", "file_after_b64", "file_after_one_of", "mode_after", "still_symlink", "must_keep", "all_applied",
		"no_temp_left", "max_ms_override",
	}, usual...)
	readExpect = append([]string{"contains_all", "file_after", "file_after_b64", "stable", "side_effects", "meta", "max_rss_mb"}, usual...)

	vocabularies = map[string]vocabulary{
		"read_file":   {[]string{"path", "offset", "limit", "cancel_at_ms", "parallel", "encoding"}, readExpect},
		"list_files":  {[]string{"path", "recursive", "cancel_at_ms"}, readExpect},
		"code_search": {[]string{"pattern", "path", "glob", "context", "ignore_case", "hidden", "env"}, readExpect},
		"edit_file":   {editKeys, editExpect},
		"multi_edit":  {editKeys, editExpect},
		"write_file":  {editKeys, editExpect},
		"apply_patch": {editKeys, editExpect},
		"bash": {[]string{"command", "timeout_ms", "working_dir", "cancel_at_ms", "host_env"}, append([]string{
			"contains_all", "file_after", "exit_code", "exit_code_nonzero", "survivors", "survivors_allowed_without_pidns", "ordered",
			"host_alive", "max_rss_mb", "documented",
		}, usual...)},
		"bash_background": {[]string{"steps"}, append([]string{
			"second_output_excludes", "second", "survivors", "survivors_after_close", "max_rss_mb",
		}, usual...)},
		"fetch":    {[]string{"url"}, append([]string{"max_rss_mb", "reported"}, usual...)},
		"todo":     {[]string{"todos", "todos_n"}, usual},
		"ask_user": {[]string{"question", "options", "headless", "cancel_at_ms"}, usual},
		"subagent": {[]string{"task", "tools", "depth", "parent_rule", "parent_tools"}, usual},
	}
)

var editKeys = []string{
	"path", "old", "new", "replace_all", "edits", "patch", "content", "read_first", "external_change", "same_mtime",
	"approval", "parallel_appends", "write_bytes",
}

// notUnderstood says why a case cannot be run as it is written, or "".
func notUnderstood(c map[string]any) string {
	tool, _ := c["tool"].(string)
	v, ok := vocabularies[tool]
	if !ok {
		return fmt.Sprintf("no runner for tool %q", tool)
	}
	if k := unknownKey(c, caseKeys); k != "" {
		return "key " + k
	}
	in, _ := c["args"].(map[string]any)
	expect, _ := c["expect"].(map[string]any)
	setup, _ := c["setup"].([]any)
	if k := unknownKey(in, v.args); k != "" {
		return "argument " + k
	}
	if k := unknownKey(expect, v.expect); k != "" {
		return "expectation " + k
	}
	meta, _ := expect["meta"].(map[string]any)
	if k := unknownKey(meta, []string{"total_lines", "line_ending"}); k != "" {
		return "expectation meta " + k
	}
	for _, s := range setup {
		m, _ := s.(map[string]any)
		if k := unknownKey(m, setupKeys); k != "" || len(m) == 0 {
			return "setup " + k
		}
	}
	steps, _ := in["steps"].([]any)
	for _, s := range steps {
		words, _ := s.([]any)
		if len(words) == 0 || !slices.Contains(jobSteps, fmt.Sprint(words[0])) {
			return fmt.Sprintf("step %v", s)
		}
	}
	return ""
}

// unknownKey returns the first key that is not a known one.
func unknownKey(m map[string]any, known []string) string {
	for _, k := range slices.Sorted(maps.Keys(m)) {
		if !slices.Contains(known, k) {
			return k
		}
	}
	return ""
}

// robustCases returns the recorded cases of some tools that can be run as they are
// written, and logs the others, with the reason.
func robustCases[C any](t *testing.T, tools ...string) (cases []C) {
	t.Helper()
	var file struct {
		Version      int
		World, Split string
		Cases        []json.RawMessage
	}
	shared(t, "attacks/robustness.shared.json", "212 cases", &file)
	left := map[string][]string{}
	for _, raw := range file.Cases {
		var m map[string]any
		require.NoError(t, json.Unmarshal(raw, &m))
		if tool, _ := m["tool"].(string); !slices.Contains(tools, tool) {
			if _, ok := vocabularies[tool]; !ok {
				t.Errorf("no runner takes case %v of tool %q", m["id"], tool)
			}
			continue
		}
		if why := notUnderstood(m); why != "" {
			left[why] = append(left[why], fmt.Sprint(m["id"]))
			continue
		}
		var c C
		require.NoError(t, json.Unmarshal(raw, &c))
		cases = append(cases, c)
	}
	for why, ids := range left {
		t.Logf("not run, %s: %d: %v", why, len(ids), ids)
	}
	return cases
}

// A runner never passes over a key that it does not know.
func TestRunnersRefuseWhatTheyDoNotKnow(t *testing.T) {
	tests := []struct{ text, want string }{
		{`{"tool":"read_file","args":{"path":"f","parallel":2},"expect":{"outcome":"ok"}}`, ""},
		{`{"tool":"bash","args":{"command":"x","cwd_deleted":true}}`, "argument cwd_deleted"},
		{`{"tool":"edit_file","args":{"path":"f","kill_at":"rename"}}`, "argument kill_at"},
		{`{"tool":"bash","args":{"command":"x","parallel":9}}`, "argument parallel"},
		{`{"tool":"bash_background","args":{"steps":[["start","x"],["host_killed"]]}}`, "step [host_killed]"},
		{`{"tool":"bash_background","args":{"steps":[[]]}}`, "step []"},
		{`{"tool":"bash","args":{"command":"x"},"expect":{"fsynced":true}}`, "expectation fsynced"},
		{`{"tool":"bash","args":{"command":"x"},"setup":[{"socket":"s"}]}`, "setup socket"},
		{`{"tool":"bash","args":{"command":"x"},"platform":"plan9"}`, "key platform"},
		{`{"tool":"read_file","args":{"path":"f"},"expect":{"meta":{"encoding":"utf16"}}}`, "expectation meta encoding"},
		{`{"tool":"teleport"}`, `no runner for tool "teleport"`},
	}
	for _, tt := range tests {
		var c map[string]any
		require.NoError(t, json.Unmarshal([]byte(tt.text), &c))
		assert.Equal(t, tt.want, notUnderstood(c), tt.text)
	}
}
