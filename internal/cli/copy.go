package cli

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/cli/line"
	sessions "github.com/aycoder/aycoder/session"
)

const mostAnswers = 10 // that /copy offers, with their blocks of code

// copyOut copies one of the last answers, or a block of code of them, to the clipboards that can be reached: that of the
// terminal, and that of this machine.
func (c *chat) copyOut(ctx context.Context, words string) (string, error) {
	texts, list := copies(c.talk().View(), c.talk().Head())
	if len(texts) == 0 {
		return "", errors.New("there is no answer yet")
	}
	n := 0
	if words != "" || len(texts) > 1 {
		var err error
		if n, err = c.choose("Copy", list, words); n < 0 {
			return "", err
		}
	}
	var to []string
	if name, err := toClipboard(ctx, c.app.getenv, texts[n]); err != nil {
		c.complain(err)
	} else if name != "" {
		to = append(to, name)
	}
	if c.Copy(texts[n]) {
		to = append(to, "the terminal, if it supports that (OSC 52)")
	}
	if len(to) == 0 {
		return "", errors.New("there is no clipboard: no program such as xclip, and no terminal that would take the text")
	}
	c.prose("", "Copied "+count(strings.Count(strings.TrimSuffix(texts[n], "\n"), "\n")+1, "line")+" with "+strings.Join(to, " and "))
	return "", nil
}

// copies returns what can be copied: the last answers, the newest first, each followed by its blocks of code.
func copies(v *sessions.View, head sessions.ID) (texts []string, list []line.Candidate) {
	answers := 0
	for _, n := range slices.Backward(v.Path(head)) {
		m := n.Message()
		if m == nil || m.Role != aycoder.RoleAssistant || strings.TrimSpace(m.Text()) == "" {
			continue
		}
		if answers++; answers > mostAnswers {
			break
		}
		add := func(what, text string) {
			first, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
			texts = append(texts, text)
			list = append(list, line.Candidate{Text: what + fit(cleanLine(first), 50), Note: count(strings.Count(strings.TrimSpace(text), "\n")+1, "line")})
		}
		add("", strings.TrimSpace(m.Text()))
		for _, b := range codeBlocks(m.Text()) {
			add("code: ", b)
		}
	}
	return texts, list
}

// codeBlocks returns the texts between fences of Markdown. A fence ends at one that is not shorter.
func codeBlocks(text string) (blocks []string) {
	fence, block := "", ""
	for l := range strings.Lines(text) {
		bare := strings.TrimSpace(l)
		mark := bare[:len(bare)-len(strings.TrimLeft(bare, "`~"))]
		switch {
		case fence == "" && len(mark) >= 3:
			fence, block = mark, ""
		case fence != "" && bare == mark && strings.HasPrefix(mark, fence):
			blocks = append(blocks, block)
			fence = ""
		case fence != "":
			block += l
		}
	}
	return blocks
}
