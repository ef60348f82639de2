package compaction

import (
	"slices"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/part"
)

// isPrompt reports whether the user has written a message.
func isPrompt(m *aycoder.Message) bool {
	return m.Role == aycoder.RoleUser && !slices.ContainsFunc(m.Parts, part.IsOutput) && !isMark(m)
}

func isMedia(p aycoder.Part) bool {
	_, ok := p.(*aycoder.Media)
	return ok
}

// sizeOf returns the size of parts in bytes, about.
func sizeOf(parts []aycoder.Part) int64 {
	n := int64(0)
	for _, p := range parts {
		switch p := p.(type) {
		case *aycoder.Text:
			n += int64(len(p.Text))
		case *aycoder.Thinking:
			n += int64(len(p.Text))
		case *aycoder.ToolUse:
			n += int64(len(p.Name) + len(p.Args))
		case *aycoder.ToolOutput:
			n += int64(len(p.Name)) + sizeOf(p.Parts)
		case *aycoder.Media:
			n += int64(len(p.Data))
		}
	}
	return n
}

// replaced returns what f makes of parts, without those of which it makes nil, and how many others it
// changes.
func replaced(parts []aycoder.Part, f func(i int, p aycoder.Part) aycoder.Part) (out []aycoder.Part, changed int) {
	for i, p := range parts {
		q := f(i, p)
		if q == nil {
			continue
		}
		if q != p {
			changed++
		}
		out = append(out, q)
	}
	return out, changed
}
