package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/aycoder/aycoder"
	sessions "github.com/aycoder/aycoder/session"
)

// A used is what some answers have used.
type used struct {
	answers, unpriced int
	usage             aycoder.Usage
	cost              float64
}

// A tally adds up what conversations have used.
type tally struct {
	models, days map[string]*used
	tools        map[string]*callCount
}

// A callCount counts the calls of a tool.
type callCount struct{ all, failed int }

func newTally() *tally {
	return &tally{models: map[string]*used{}, days: map[string]*used{}, tools: map[string]*callCount{}}
}

// add adds a conversation with all its branches.
func (t *tally) add(v *sessions.View) {
	for i := range v.Len() {
		n := v.Node(sessions.ID(i))
		if n == nil {
			continue
		}
		if a := n.Answer; a != nil {
			for _, u := range []*used{
				entryOf(t.models, cleanLine(strings.Trim(a.Provider+"/"+a.Model, "/"))), entryOf(t.days, n.At.Local().Format(time.DateOnly)),
			} {
				u.add(a)
			}
		}
		if m := n.Message(); m != nil {
			t.count(m)
		}
	}
}

func (t *tally) count(m *aycoder.Message) {
	for _, p := range m.Parts {
		if out, ok := p.(*aycoder.ToolOutput); ok {
			c := entryOf(t.tools, cleanLine(cmp.Or(out.Name, "unknown")))
			if c.all++; out.IsError {
				c.failed++
			}
		}
	}
}

func entryOf[T any](m map[string]*T, key string) *T {
	if m[key] == nil {
		m[key] = new(T)
	}
	return m[key]
}

func (u *used) add(a *sessions.Answer) {
	u.answers++
	u.usage.Input += a.Usage.Input
	u.usage.Output += a.Usage.Output
	u.usage.CacheRead += a.Usage.CacheRead
	u.usage.CacheWrite += a.Usage.CacheWrite
	u.cost += a.Cost
	if a.Cost == 0 {
		u.unpriced++
	}
}

// String describes what was used on one line.
func (u *used) String() string {
	text := fmt.Sprintf("%s  %d in, %d out, %d from the cache  $%.4f", count(u.answers, "answer"),
		u.usage.Input+u.usage.CacheWrite, u.usage.Output, u.usage.CacheRead, u.cost)
	if u.unpriced > 0 {
		text += fmt.Sprintf(" and %s without a price", count(u.unpriced, "answer"))
	}
	return text
}

// cost tells what the conversation has used, or all conversations of this directory.
func (c *chat) cost(ctx context.Context, words string) (string, error) {
	t := newTally()
	switch {
	case words == "":
		t.add(c.talk.View())
	case words != "all":
		return "", errors.New("say /cost, or /cost all")
	case c.working:
		return "", errors.New("not while the agent works; /cost alone tells about this conversation")
	default:
		if err := c.apart(ctx, func(ctx context.Context) error { return c.tallyAll(ctx, t) }); err != nil {
			return "", err
		}
	}
	if len(t.models) == 0 {
		c.line("No model has answered yet.")
		return "", nil
	}
	show := func(title string, all map[string]*used) {
		c.line(c.paint(faint, title))
		for _, name := range slices.Sorted(maps.Keys(all)) {
			c.line("  " + name + "  " + all[name].String())
		}
	}
	show("by model", t.models)
	show("by day", t.days)
	if len(t.tools) > 0 {
		c.line(c.paint(faint, "by tool"))
	}
	for _, name := range slices.SortedFunc(maps.Keys(t.tools), func(a, b string) int {
		return cmp.Or(t.tools[b].all-t.tools[a].all, cmp.Compare(a, b))
	}) {
		text := "  " + name + "  " + count(t.tools[name].all, "call")
		if n := t.tools[name].failed; n > 0 {
			text += fmt.Sprintf(", %d failed", n)
		}
		c.line(text)
	}
	return "", nil
}

// tallyAll adds the conversations of this directory. One that cannot be read is left out.
func (c *chat) tallyAll(ctx context.Context, t *tally) error {
	store, err := c.app.store(c.settings)
	if err != nil {
		return err
	}
	all, err := sessionsHere(ctx, store)
	if err != nil {
		return err
	}
	for _, e := range all {
		if err := ctx.Err(); err != nil {
			return err
		}
		if v, _, err := sessions.Read(ctx, store, e.ID); err == nil {
			t.add(v)
		}
	}
	return nil
}
