package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aycoder/aycoder"
	sessions "github.com/aycoder/aycoder/session"
)

// A turn is a prompt in the tree of a conversation, with the nodes of its answer.
type turn struct {
	end   sessions.ID // the newest node
	said  []sessions.ID
	text  string    // the first line of the prompt
	at    time.Time // of the prompt
	label string
	files map[string]bool // that changed in it
	here  bool            // the conversation goes on behind it
	draw  string          // the lines of the tree before it
	below []*turn
}

// turns returns the prompts of a tree in the order in which they are drawn: what follows a prompt is below it, and
// each branch of the conversation is further to the right.
func turns(v *sessions.View, head sessions.ID) (out []*turn) {
	root := &turn{}
	in := []*turn{root} // the turn of each node
	known := map[string]bool{}
	for id := sessions.Root + 1; int(id) < v.Len(); id++ {
		n := v.Node(id)
		t := in[n.Parent]
		if text := promptOf(n); text != "" {
			t = &turn{text: text, at: n.At, files: map[string]bool{}}
			in[n.Parent].below = append(in[n.Parent].below, t)
		}
		in = append(in, t)
		if t == root {
			continue
		}
		if n.Message() != nil {
			t.said = append(t.said, id)
		}
		t.end, t.label = id, cmp.Or(cleanLine(v.Label(id)), t.label)
		for name, state := range n.Files {
			if known[name] || state.First == nil || !state.Same(*state.First) { // else it is noted for the first time
				t.files[name] = true
			}
			known[name] = true
		}
	}
	in[head].here = true
	var walk func(below []*turn, before string)
	walk = func(below []*turn, before string) {
		for i, t := range below {
			branch, next := "", ""
			switch {
			case len(below) > 1 && i < len(below)-1:
				branch, next = "├ ", "│ "
			case len(below) > 1:
				branch, next = "└ ", "  "
			}
			t.draw = before + branch
			out = append(out, t)
			walk(t.below, before+next)
		}
	}
	walk(root.below, "")
	return out
}

// promptBefore returns the last prompt on the way to a node, or the root.
func promptBefore(v *sessions.View, id sessions.ID) sessions.ID {
	for _, n := range slices.Backward(v.Path(id)) {
		if promptOf(n) != "" {
			return n.ID
		}
	}
	return sessions.Root
}

// promptOf returns the first line of what the user said at a node, or "".
func promptOf(n *sessions.Node) string {
	if n == nil || n.Message() == nil || n.Message().Role != aycoder.RoleUser {
		return ""
	}
	for _, p := range n.Message().Parts {
		if _, ok := p.(*aycoder.ToolOutput); ok {
			return ""
		}
	}
	line, _, _ := strings.Cut(strings.TrimSpace(n.Message().Text()), "\n")
	return cleanLine(line)
}

// showTree draws the tree of turns, which are numbered from 1.
func (c *chat) showTree(all []*turn) error {
	if len(all) == 0 {
		return errors.New("nothing has been said yet")
	}
	draw := strings.NewReplacer()
	if !c.Fancy() {
		draw = strings.NewReplacer("├", "+", "│", "|", "└", "`")
	}
	for i, t := range all {
		left := fmt.Sprintf("%3d %s%s", i+1, draw.Replace(t.draw), t.text)
		right := t.at.Local().Format("2006-01-02 15:04")
		if n := len(t.files); n > 0 {
			right = count(n, "file") + "  " + right
		}
		if t.label != "" {
			right = "[" + t.label + "]  " + right
		}
		if t.here {
			right += " " + c.Glyph("◀ here", "< here")
		}
		width := min(c.width(), 100) - 2
		left = fit(left, max(width-columns(right)-2, 10))
		c.line(pad(left, width-columns(right)) + c.paint(faint, right))
	}
	return nil
}

// tree shows the tree, and goes to one of its turns: with its files, without, or with nothing but them.
func (c *chat) tree(ctx context.Context, words string) (string, error) {
	t, err := c.chosen(words, "Go to the end of (number, Enter to stay): ")
	if t == nil {
		return "", err
	}
	words, err = c.readLine("  Take back  c talk · f [paths] files · b [paths] both (Enter: nothing): ", "")
	if err != nil {
		return "", err
	}
	what, paths, _ := strings.Cut(strings.TrimSpace(words), " ")
	only := []sessions.MoveOption{sessions.OnlyPaths(strings.Fields(paths)...)}
	switch {
	case what == "":
		return "", nil
	case what == "c" && paths == "":
		only = append(only, sessions.OnlyConversation())
	case what == "f":
		only = append(only, sessions.OnlyFiles())
	case what != "b":
		return "", fmt.Errorf("%q is none of c, f and b", cleanLine(words))
	}
	return "", c.move(ctx, func(ctx context.Context, opts ...sessions.MoveOption) (*sessions.Move, error) {
		move, err := c.talk().Checkout(ctx, t.end, opts...)
		if err == nil && paths != "" && len(move.Files) == 0 {
			err = fmt.Errorf("no file of %q was different then", cleanLine(paths))
		}
		paths = "" // only the dry run says so: what is done after it is done
		return move, err
	}, only...)
}

// chosen returns the turn that the words name by its number, or that the user picks in the tree. It is nil if the user
// wants none.
func (c *chat) chosen(words, ask string) (*turn, error) {
	all := turns(c.talk().View(), c.talk().Head())
	if words == "" {
		if err := c.showTree(all); err != nil {
			return nil, err
		}
		number, err := c.readLine("  "+ask, "")
		if words = strings.TrimSpace(number); err != nil || words == "" {
			return nil, err
		}
	}
	if words == "0" {
		return &turn{end: sessions.Root}, nil
	}
	number, message, within := strings.Cut(words, ".")
	t, err := numbered(all, number)
	if err != nil || !within {
		return t, err
	}
	return c.messageOf(t, number, message)
}

// numbered returns the turn with a number.
func numbered(all []*turn, word string) (*turn, error) {
	n, err := strconv.Atoi(word)
	if err != nil || n < 1 || n > len(all) {
		return nil, fmt.Errorf("%q is not a number of /tree", cleanLine(word))
	}
	return all[n-1], nil
}

// messageOf returns the part of a turn up to one of its messages, or lists the messages if none is named.
func (c *chat) messageOf(t *turn, number, message string) (*turn, error) {
	v := c.talk().View()
	if message == "" {
		for i, id := range t.said {
			m := v.Node(id).Message()
			text, _, _ := strings.Cut(strings.TrimSpace(m.Text()), "\n")
			for _, call := range m.Calls() {
				text += " " + call.Name
			}
			c.line(fit(fmt.Sprintf("%6s  %-9s  %s", fmt.Sprint(number, ".", i+1), m.Role, cleanLine(cmp.Or(strings.TrimSpace(text), "(results)"))), c.width()))
		}
		return nil, nil
	}
	n, err := strconv.Atoi(message)
	switch {
	case err != nil || n < 1 || n > len(t.said):
		return nil, fmt.Errorf("turn %s has no message %q: %s. lists them", number, cleanLine(message), number)
	case len(v.Node(t.said[n-1]).Message().Calls()) > 0:
		return nil, errors.New("the results of its calls belong to this message: choose the next one")
	}
	return &turn{end: t.said[n-1]}, nil
}

// branch goes on at an earlier turn. The files stay as they are.
func (c *chat) branch(ctx context.Context, words string) (string, error) {
	t, err := c.chosen(words, "Go on behind (number, Enter to stay): ")
	if t == nil {
		return "", err
	}
	if _, err = c.talk().Checkout(ctx, t.end, sessions.OnlyConversation()); err == nil {
		c.goesOn()
	}
	return "", err
}

func (c *chat) undo(ctx context.Context, _ string) (string, error) {
	return "", c.move(ctx, c.talk().Undo)
}

func (c *chat) redo(ctx context.Context, _ string) (string, error) {
	return "", c.move(ctx, c.talk().Redo)
}

// move goes elsewhere in the tree. If files differ there, the user is told how, and asked, before.
func (c *chat) move(ctx context.Context, do func(context.Context, ...sessions.MoveOption) (*sessions.Move, error), opts ...sessions.MoveOption) error {
	plan, err := do(ctx, append(slices.Clip(opts), sessions.DryRun())...)
	if err != nil {
		return err
	}
	if yes, err := c.agreed(plan); !yes || err != nil {
		return err
	}
	move, err := do(ctx, opts...)
	if err != nil {
		return err
	}
	if filesOf(move) != filesOf(plan) { // somebody has changed files meanwhile
		c.prose(faint, filesOf(move))
	}
	c.goesOn()
	return nil
}

// agreed tells what would become of files, and asks whether it may.
func (c *chat) agreed(plan *sessions.Move) (bool, error) {
	if len(plan.Files) == 0 {
		return true, nil
	}
	c.prose(faint, filesOf(plan))
	for {
		key, err := c.answerKey("Do it?", choices{"y yes", "d show the diffs", "n no"})
		switch {
		case err != nil && !errors.Is(err, io.EOF):
			return false, err
		case key == 'y':
			return true, nil
		case key != 'd':
			c.line("Nothing was done.")
			return false, nil
		}
		var all strings.Builder
		for _, f := range plan.Files {
			if f.Reason == "" { // it does not stay as it is
				all.Write(f.Diff().Unified())
			}
		}
		c.wholeDiff(all.String())
	}
}

// filesOf says what becomes of each file.
func filesOf(m *sessions.Move) string {
	var lines []string
	for _, f := range m.Files {
		text := "  " + string(f.Action) + " " + cleanLine(f.Path)
		if f.Reason != "" {
			text += ": " + cleanLine(f.Reason)
		}
		lines = append(lines, text)
	}
	return strings.Join(lines, "\n")
}

// goesOn tells where the conversation goes on. There is no last turn whose changes could be shown.
func (c *chat) goesOn() {
	c.changes = nil
	v := c.talk().View()
	text := "The conversation is at its beginning again."
	if p := promptBefore(v, c.talk().Head()); p != sessions.Root {
		text = "The conversation goes on behind the answer to: " + fit(promptOf(v.Node(p)), 60)
	}
	c.prose("", text)
}
