package hooks

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/dialect"
)

// matches reports whether a hook is for one of the names.
func (h *hook) matches(names ...string) bool {
	return h.matcher == nil || slices.ContainsFunc(names, h.matcher.MatchString)
}

// response returns the result of a call as hooks see it.
func response(v dialect.View, text string, failed bool) map[string]any {
	out := map[string]any{"output": text, "is_error": failed}
	if v.Name == "Bash" {
		out["stdout"], out["stderr"], out["interrupted"], out["isImage"] = text, "", false, false
	}
	if f, ok := v.Input[dialect.File]; ok {
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
