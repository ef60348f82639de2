package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/aycoder/aycoder"
	sessions "github.com/aycoder/aycoder/session"
)

// A turn is a prompt in the tree of a conversation, and where its answer ends.
type turn struct {
	prompt, end sessions.ID
	text        string // the first line of the prompt
	label       string
	files       int    // that changed in it
	here        bool   // the conversation goes on behind it
	draw        string // the lines of the tree before it
}

// turns returns the prompts of a tree in the order in which they are drawn: what follows a prompt is below it, and
// each branch of the conversation is further to the right.
func turns(v *sessions.View, head sessions.ID) []turn {
	var out []turn
	now := promptBefore(v, head)
	var walk func(id sessions.ID, before string)
	walk = func(id sessions.ID, before string) {
		below := prompts(v, id)
		for i, p := range below {
			branch, next := "", ""
			switch {
			case len(below) > 1 && i < len(below)-1:
				branch, next = "├ ", "│ "
			case len(below) > 1:
				branch, next = "└ ", "  "
			}
			t := turn{prompt: p, end: endOf(v, p), text: promptOf(v.Node(p)), here: p == now, draw: before + branch}
			t.look(v)
			out = append(out, t)
			walk(p, before+next)
		}
	}
	walk(sessions.Root, "")
	return out
}

// look counts the files that a turn has changed, and finds its label.
func (t *turn) look(v *sessions.View) {
	names := map[string]bool{}
	path := v.Path(t.end)
	for i := len(path) - 1; i >= 0; i-- {
		n := path[i]
		for name := range n.Files {
			names[name] = true
		}
		if t.label == "" {
			t.label = cleanLine(v.Label(n.ID))
		}
		if n.ID == t.prompt {
			break
		}
	}
	t.files = len(names)
}

// promptBefore returns the last prompt on the way to a node, or the root.
func promptBefore(v *sessions.View, id sessions.ID) sessions.ID {
	for _, n := range slices.Backward(v.Path(id)) {
		if isPrompt(n) {
			return n.ID
		}
	}
	return sessions.Root
}

// isPrompt reports whether the user said something at a node.
func isPrompt(n *sessions.Node) bool { return promptOf(n) != "" }

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

// prompts returns the prompts that follow a node directly, with nothing but answers between.
func prompts(v *sessions.View, id sessions.ID) (out []sessions.ID) {
	for _, n := range v.Children(id) {
		if isPrompt(n) {
			out = append(out, n.ID)
		} else {
			out = append(out, prompts(v, n.ID)...)
		}
	}
	return out
}

// endOf returns the last node of the newest answer to a prompt.
func endOf(v *sessions.View, id sessions.ID) sessions.ID {
	for {
		next := sessions.ID(-1)
		for _, n := range v.Children(id) {
			if !isPrompt(n) {
				next = n.ID
			}
		}
		if next < 0 {
			return id
		}
		id = next
	}
}

// showTree draws the tree of turns, which are numbered from 1.
func (c *chat) showTree(all []turn) error {
	if len(all) == 0 {
		return errors.New("nothing has been said yet")
	}
	draw := strings.NewReplacer()
	if !c.Fancy() {
		draw = strings.NewReplacer("├", "+", "│", "|", "└", "`")
	}
	for i, t := range all {
		left := fmt.Sprintf("%3d %s%s", i+1, draw.Replace(t.draw), t.text)
		right := ""
		if t.files > 0 {
			right = count(t.files, "file")
		}
		if t.label != "" {
			right = strings.TrimSpace("[" + t.label + "]  " + right)
		}
		if t.here {
			right = strings.TrimSpace(right + " " + c.glyph("◀ here", "< here"))
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
	key, err := c.readLine("  Take back  c the conversation · f files · b both (Enter: nothing): ", "")
	if err != nil {
		return "", err
	}
	var only []sessions.MoveOption
	switch strings.TrimSpace(key) {
	case "":
		return "", nil
	case "c":
		only = append(only, sessions.OnlyConversation())
	case "f":
		only = append(only, sessions.OnlyFiles())
	case "b":
	default:
		return "", fmt.Errorf("%q is none of c, f and b", cleanLine(key))
	}
	return "", c.moved(c.talk.Checkout(ctx, t.end, only...))
}

// chosen returns the turn that the words name by its number, or that the user picks in the tree. It is nil if the user
// wants none.
func (c *chat) chosen(words, ask string) (*turn, error) {
	all := turns(c.talk.View(), c.talk.Head())
	if words == "" {
		if err := c.showTree(all); err != nil {
			return nil, err
		}
		number, err := c.readLine("  "+ask, "")
		if words = strings.TrimSpace(number); err != nil || words == "" {
			return nil, err
		}
	}
	n, err := strconv.Atoi(words)
	if err != nil || n < 1 || n > len(all) {
		return nil, fmt.Errorf("%q is not a number of /tree", cleanLine(words))
	}
	return &all[n-1], nil
}

// branch goes on at an earlier turn. The files stay as they are.
func (c *chat) branch(ctx context.Context, words string) (string, error) {
	t, err := c.chosen(words, "Go on behind (number, Enter to stay): ")
	if t == nil {
		return "", err
	}
	return "", c.moved(c.talk.Checkout(ctx, t.end, sessions.OnlyConversation()))
}

func (c *chat) undo(ctx context.Context, _ string) (string, error) {
	return "", c.moved(c.talk.Undo(ctx))
}

func (c *chat) redo(ctx context.Context, _ string) (string, error) {
	return "", c.moved(c.talk.Redo(ctx))
}

// moved tells where the conversation goes on, and what has become of each file.
func (c *chat) moved(move *sessions.Move, err error) error {
	if err != nil {
		return err
	}
	for _, f := range move.Files {
		text := string(f.Action) + " " + cleanLine(f.Path)
		if f.Reason != "" {
			text += ": " + cleanLine(f.Reason)
		}
		c.prose(faint, "  "+text)
	}
	c.goesOn()
	return nil
}

// goesOn tells where the conversation goes on.
func (c *chat) goesOn() {
	v := c.talk.View()
	where := "the beginning"
	if p := promptBefore(v, c.talk.Head()); p != sessions.Root {
		where = "the answer to: " + fit(promptOf(v.Node(p)), 60)
	}
	c.prose("", "The conversation goes on behind "+where)
}
