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

// A resolution is the text that the user has chosen for a file with a conflict.
type resolution struct {
	text string
	ok   bool
}

// conflicts lets the tools ask the user about conflicts.
func (a *asks) conflicts() harness.Option {
	return harness.WithToolOptions(tools.WithConflicts(func(ctx context.Context, f *edit.FileResult) (string, bool) {
		r := put(ctx, a, func(c *chat) resolution { return c.resolve(f) })
		return r.text, r.ok
	}))
}

var toConflict = choices{"y yours", "t agent's", "o one by one", "e edit", "w markers", "n refuse"}

// resolve shows both sides of a conflict, and lets the user choose. A choice holds for all conflicts of the file,
// unless the user wants to go through them one by one.
func (c *chat) resolve(f *edit.FileResult) resolution {
	c.saidAll()
	c.fresh()
	c.headline(cleanLine(f.Path), "  you changed this file since the model read it")
	for _, o := range f.Open() {
		c.showRegion(f, o)
	}
	c.opened = nil
	for !c.stopping {
		key, err := c.answerKey("Which?", toConflict)
		if err == nil && key == 'o' {
			key, err = c.oneByOne(f)
		}
		switch {
		case err == nil && key == backToFile:
			continue
		case c.halted(err):
			c.fresh()
			continue
		case err != nil || key == endOfInput || key == 'n':
			return resolution{}
		}
		c.marked[f.Path] = key == 'w' && len(f.Open()) > 0
		text, err := c.chooses(f, key)
		if err != nil {
			c.prose(red, "  "+clean(err.Error()))
			continue
		}
		return resolution{text, true}
	}
	return resolution{}
}

// showRegion shows both sides of a conflict, and why the first two texts are suggested for it. A text itself is shown
// if it is not that of a side.
func (c *chat) showRegion(f *edit.FileResult, o merge.OpenConflict) {
	g := f.Merge.Regions[o.Region]
	side := func(mark, style string, text []byte) {
		c.prose(faint, "  "+mark)
		for line := range strings.Lines(clean(tools.EscapeInvisible(string(text)))) {
			c.line("  " + c.paint(style, strings.TrimRight(line, "\n")))
		}
	}
	side(fmt.Sprintf("<<<<<<< yours, line %d", g.Ours.FirstLine+1), green, g.Ours.Of([]byte(f.Ours)))
	side("=======", cyan, g.Theirs.Of([]byte(f.Theirs)))
	c.line("  " + c.paint(faint, ">>>>>>> agent"))
	for i, s := range o.Suggestions[:min(len(o.Suggestions), 2)] {
		why := fmt.Sprintf("%s, %s: %s", [...]string{"suggested", "or else"}[i], s.Grade, s.Reason("yours", "the agent's"))
		if s.From == merge.Ours || s.From == merge.Theirs {
			c.prose(faint, "  "+cleanLine(why))
		} else {
			side(cleanLine(why), notice, s.Text)
		}
	}
}

// backToFile is what oneByOne returns to ask about the whole file again.
const backToFile = 0

// oneByOne goes through the open conflicts of a file. It returns the key that writes the text of the merge when all
// are resolved and the user agrees, or the one that ended it.
func (c *chat) oneByOne(f *edit.FileResult) (byte, error) {
	var done [][]int // the regions that each answer has resolved, for undo
	last := noSide
	for {
		may, open := choices{"y yes"}, f.Open()
		what := "Write it?"
		if len(open) > 0 {
			what = fmt.Sprintf("Line %d, %d open:", f.Merge.Regions[open[0].Region].Ours.FirstLine+1, len(open))
			c.showRegion(f, open[0])
			may = choices{"y keep yours", "t take the agent's"}
			if len(open[0].Suggestions) > 0 {
				may = append(may, "s take what is suggested")
			}
			if len(open[0].Suggestions) > 1 {
				may = append(may, "e or else")
			}
			if last != noSide {
				may = append(may, "r the same for the rest")
			}
		}
		if len(done) > 0 {
			may = append(may, "u undo")
		}
		may = append(may, "b back")
		key, err := c.answerKey(what, may)
		switch {
		case err != nil || key == endOfInput:
			return key, err
		case key == 'b':
			return backToFile, nil
		case key == 'u':
			last = noSide
			for _, region := range done[len(done)-1] {
				err = errors.Join(err, f.Merge.Reopen(region))
			}
			done = done[:len(done)-1]
		case len(open) == 0:
			return 'w', nil
		default:
			var regions []int
			regions, last, err = resolveRegion(f.Merge, open[0], key, last)
			done = append(done, regions)
		}
		if err != nil {
			return 0, err
		}
	}
}

// noSide stands for an answer that took no side.
const noSide merge.Choice = -1

// resolveRegion does what a key says about an open conflict. It returns the regions that are resolved now, and the
// side that was taken.
func resolveRegion(m *merge.Result, o merge.OpenConflict, key byte, last merge.Choice) ([]int, merge.Choice, error) {
	side := merge.ChooseOurs
	switch key {
	case 's', 'e':
		s := o.Suggestions[strings.IndexByte("se", key)]
		return []int{o.Region}, noSide, m.ResolveWith(o.Region, s.Text)
	case 'r':
		regions, err := m.ResolveRest(o.Region-1, last)
		return regions, last, err
	case 't':
		side = merge.ChooseTheirs
	}
	return []int{o.Region}, side, m.Resolve(o.Region, side)
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
	for i, g := range f.Merge.Regions {
		if g.Kind != merge.Conflict {
			continue
		}
		if err := f.Merge.Resolve(i, choice); err != nil {
			return "", err
		}
	}
	return string(f.Merge.Bytes()), nil
}

// editConflict lets the user edit the text with markers. Markers that are left are not taken for a resolution.
func (c *chat) editConflict(f *edit.FileResult) (string, error) {
	if c.edit == nil {
		return "", errors.New("there is no editor: set EDITOR")
	}
	marked := f.Merge.Bytes()
	text, err := c.editAgain(filepath.Ext(f.Path), marked)
	switch {
	case err != nil:
		return "", err
	case bytes.Equal(text, marked):
		return "", errors.New("nothing was changed")
	}
	for line := range strings.Lines(string(text)) {
		mark := len(line) > 7 && slices.Contains([]string{"<<<<<<<", "=======", ">>>>>>>"}, line[:7])
		if mark && bytes.Contains(marked, []byte(line)) && !strings.Contains(f.Ours+f.Theirs, line) {
			return "", errors.New("there are markers left; w writes the file with them")
		}
	}
	return string(text), nil
}
