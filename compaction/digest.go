package compaction

import (
	"strings"

	"github.com/aycoder/aycoder"
)

type digest struct {
	Lines []string `json:"lines,omitempty"`
}

func (d digest) add(messages []*aycoder.Message) digest {
	lines := append([]string{}, d.Lines...)
	for _, m := range messages {
		if t := strings.TrimSpace(m.Text()); t != "" {
			lines = append(lines, string(m.Role)+": "+shorten(t, 200))
		}
	}
	if len(lines) > 100 {
		lines = lines[len(lines)-100:]
	}
	return digest{lines}
}

func (d digest) text(most int) string { return shorten(strings.Join(d.Lines, "\n"), most) }
