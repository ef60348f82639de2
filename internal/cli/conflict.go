package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/aycoder/aycoder/edit"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/merge"
	"github.com/aycoder/aycoder/tools"
)

// A conflict waits for the user, on the goroutine of a tool.
type conflict struct {
	file  *edit.FileResult
	reply chan resolution
}

type resolution struct {
	text string
	ok   bool
}

// conflicts are what tools ask the user, who answers on the goroutine of the chat.
type conflicts chan *conflict

func (c conflicts) option() harness.Option {
	return harness.WithToolOptions(tools.WithConflicts(func(ctx context.Context, f *edit.FileResult) (string, bool) {
		ask := &conflict{f, make(chan resolution, 1)}
		select {
		case c <- ask:
		case <-ctx.Done():
			return "", false
		}
		select {
		case r := <-ask.reply:
			return r.text, r.ok
		case <-ctx.Done():
			return "", false
		}
	}))
}

var toConflict = choices{"yYtTeEwWnN", "y yours · t the agent's · e edit · w with markers · n refuse",
	[]string{"y", "yes", "t", "e", "w", "n", "no"}}

// resolve shows both sides of a conflict, and lets the user choose. A choice holds for all conflicts of the file.
func (c *chat) resolve(ask *conflict) {
	f := ask.file
	c.saidAll()
	c.fresh()
	c.line("")
	c.line(c.paint(yellow, c.glyph("◆", "?")) + " " + c.paint(bold, cleanLine(f.Path)) + "  you changed this file since the model read it")
	for i, g := range f.Merge.Regions {
		if g.Kind == merge.Conflict {
			c.showRegion(f, f.Merge.Regions[i])
		}
	}
	for !c.stopping {
		key, err := c.answerKey("Which?", toConflict, c.send)
		switch {
		case c.halted(err):
			c.fresh()
			continue
		case err != nil || key == endOfInput || key == 'n':
			ask.reply <- resolution{}
			return
		}
		text, err := c.chooses(f, key)
		if err != nil {
			c.line("  " + c.paint(red, clean(err.Error())))
			continue
		}
		ask.reply <- resolution{text, true}
		return
	}
	ask.reply <- resolution{}
}

func (c *chat) showRegion(f *edit.FileResult, g merge.Region) {
	side := func(mark, style string, text []byte) {
		c.line("  " + c.paint(faint, mark))
		for line := range strings.Lines(clean(string(text))) {
			c.line("  " + c.paint(style, strings.TrimRight(line, "\n")))
		}
	}
	side(fmt.Sprintf("<<<<<<< yours, line %d", g.Ours.FirstLine+1), green, g.Ours.Of([]byte(f.Ours)))
	side("=======", cyan, g.Theirs.Of([]byte(f.Theirs)))
	c.line("  " + c.paint(faint, ">>>>>>> agent"))
}

// chooses returns the text of a file after a choice.
func (c *chat) chooses(f *edit.FileResult, key byte) (string, error) {
	switch key {
	case 'w':
		return string(f.Merge.Bytes()), nil
	case 'e':
		return c.editConflict(f)
	}
	choice := merge.ChooseOurs
	if key == 't' {
		choice = merge.ChooseTheirs
	}
	m := *f.Merge
	m.Regions = slices.Clone(m.Regions)
	for i, g := range m.Regions {
		if g.Kind != merge.Conflict {
			continue
		}
		if err := m.Resolve(i, choice); err != nil {
			return "", err
		}
	}
	return string(m.Bytes()), nil
}

// editConflict lets the user edit the text with markers. Markers that are left are not taken for a resolution.
func (c *chat) editConflict(f *edit.FileResult) (string, error) {
	if c.edit == nil {
		return "", errors.New("there is no editor: set EDITOR")
	}
	marked := f.Merge.Bytes()
	text, err := c.edit(filepath.Ext(f.Path), marked)
	switch {
	case err != nil:
		return "", err
	case bytes.Equal(text, marked):
		return "", errors.New("nothing was changed")
	}
	for line := range bytes.Lines(text) {
		if bytes.HasPrefix(line, []byte("<<<<<<<")) && bytes.Contains(marked, line) {
			return "", errors.New("there are markers left; w writes the file with them")
		}
	}
	return string(text), nil
}
