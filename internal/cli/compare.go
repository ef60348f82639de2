package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/diff"
	"github.com/aycoder/aycoder/insight/usage"
	"github.com/aycoder/aycoder/journal"
	sessions "github.com/aycoder/aycoder/session"
	"github.com/aycoder/aycoder/tools"
)

const (
	replayLines = 8 // of an output
	mostPause   = 5 * time.Second
)

// told is what a message says: the same for the same words and actions, whatever the ids of its calls.
func told(m *aycoder.Message, lines int) string {
	var b strings.Builder
	for _, p := range m.Parts {
		switch p := p.(type) {
		case *aycoder.Text:
			who := "model"
			if m.Role == aycoder.RoleUser {
				who = "user"
			}
			fmt.Fprintf(&b, "%s: %s\n", who, strings.TrimSuffix(p.Text, "\n"))
		case *aycoder.Media:
			fmt.Fprintf(&b, "user: [%s]\n", p.Type)
		case *aycoder.ToolUse:
			fmt.Fprintf(&b, "call %s %s\n", p.Name, compact(p.Args))
		case *aycoder.ToolOutput:
			state := "output"
			if p.IsError {
				state = "error"
			}
			text := strings.TrimSuffix(p.Text(), "\n")
			if all := strings.SplitAfter(text, "\n"); lines > 0 && len(all) > lines {
				text = strings.Join(all[:lines], "") + fmt.Sprintf("… %d more lines", len(all)-lines)
			}
			fmt.Fprintf(&b, "%s of %s:\n  %s\n", state, p.Name, strings.ReplaceAll(text, "\n", "\n  "))
		}
	}
	return b.String()
}

// transcript returns what was said and done at nodes, without secrets.
func transcript(nodes []*sessions.Node) (text []byte) {
	mask := tools.NewMasker(nil).Mask
	for _, n := range nodes {
		if m := n.Message(); m != nil {
			text = append(text, mask(told(m, 0))...)
		}
	}
	return text
}

// compact returns JSON without blanks.
func compact(raw json.RawMessage) string {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return string(raw)
	}
	return b.String()
}

// replay prints a conversation message by message, as it was recorded: nothing is asked and nothing is done. With a speed,
// the pauses are those of the conversation divided by it, and at most five seconds.
func (c *sessionCall) replay(ctx context.Context, id, speed string) error {
	if c.json {
		return fmt.Errorf("%w: a replay has no JSON; aycoder sessions export %s json prints all of it", ErrUsage, id)
	}
	factor := 0.0
	if speed != "" {
		var err error
		if factor, err = strconv.ParseFloat(strings.TrimSuffix(speed, "x"), 64); err != nil || !(factor > 0) {
			return fmt.Errorf("%w: a speed is a number above 0, not %q", ErrUsage, speed)
		}
	}
	v, err := c.view(ctx, id)
	if err != nil {
		return err
	}
	var before time.Time
	for _, n := range v.Path(v.Head("")) {
		m := n.Message()
		if m == nil {
			continue
		}
		if factor > 0 && !before.IsZero() {
			pause := time.NewTimer(paused(n.At.Sub(before), factor))
			select {
			case <-pause.C:
			case <-ctx.Done():
				pause.Stop()
				return context.Cause(ctx)
			}
		}
		before = n.At
		text := n.At.Local().Format(time.TimeOnly) + "\n" + c.mask(told(m, replayLines)) + "\n"
		if err := c.write(clean(text)); err != nil {
			return err
		}
	}
	return nil
}

// paused returns how long a pause of a conversation is with a speed.
func paused(was time.Duration, factor float64) time.Duration {
	return time.Duration(min(float64(max(0, was))/factor, float64(mostPause)))
}

// A side is one of two conversations.
type side struct {
	ID      string        `json:"id"`
	Figures usage.Figures `json:"figures"`

	text  []byte
	files map[string]string // contents, by their hashes
}

// A comparison tells what differs between two conversations.
type comparison struct {
	A     side     `json:"a"`
	B     side     `json:"b"`
	Files []string `json:"files"` // that are not the same at the end
	Diff  string   `json:"diff"`  // of what was said and done
}

func (c *sessionCall) side(ctx context.Context, e *journal.Entry) (side, error) {
	v, err := c.view(ctx, e.ID)
	if err != nil {
		return side{}, err
	}
	work, head := new(usage.Work), v.Head("")
	work.Add(e, v)
	s := side{ID: e.ID, Figures: work.Total(), text: transcript(v.Path(head)), files: map[string]string{}}
	for name, state := range v.Files(head) {
		s.files[name] = fmt.Sprint(state.Kind, state.Mode, state.Hash, state.NotHeld)
	}
	return s, nil
}

// compare prints what differs between two conversations: what was said and done, the files, and what was used.
func (c *sessionCall) compare(ctx context.Context, a, b *journal.Entry) error {
	var d comparison
	var err error
	if d.A, err = c.side(ctx, a); err != nil {
		return err
	}
	if d.B, err = c.side(ctx, b); err != nil {
		return err
	}
	d.Diff = string(diff.Compare(d.A.text, d.B.text, diff.WithNames(a.ID, b.ID)).Unified())
	d.Files = []string{}
	both := maps.Clone(d.A.files)
	maps.Copy(both, d.B.files)
	for _, name := range slices.Sorted(maps.Keys(both)) {
		if d.A.files[name] != d.B.files[name] {
			d.Files = append(d.Files, name)
		}
	}
	return c.print(d, func(w io.Writer) {
		for _, s := range []side{d.A, d.B} {
			fmt.Fprintf(w, "%s  %s\n", s.ID, s.Figures.Line())
		}
		if len(d.Files) > 0 {
			fmt.Fprintln(w, "\nfiles that are not the same at the end")
		}
		for _, name := range d.Files {
			fmt.Fprintln(w, "  "+cleanLine(name))
		}
		if d.Diff == "" {
			fmt.Fprintln(w, "\nThe same was said and done.")
			return
		}
		fmt.Fprint(w, "\n"+d.Diff)
	})
}

// compare shows what differs between two points of the tree, such as the ends of two branches: what was said and done, and
// the files. Without a second number, the other point is the present one.
func (c *chat) compare(ctx context.Context, numbers []string) error {
	v, here := c.talk().View(), c.talk().Head()
	all, ends, names := turns(v, here), []sessions.ID(nil), []string(nil)
	for _, word := range numbers {
		t, err := numbered(all, word)
		if err != nil {
			return err
		}
		ends, names = append(ends, t.end), append(names, "turn "+word)
	}
	if len(ends) > 2 {
		return errors.New("say one or two numbers of /tree")
	}
	ends, names = append(ends, here), append(names, "here")
	c.line(fmt.Sprintf("- %s, + %s", names[0], names[1]))
	common := v.Ancestor(ends[0], ends[1]).ID
	since := func(end sessions.ID) []byte {
		return transcript(slices.DeleteFunc(v.Path(end), func(n *sessions.Node) bool { return n.ID <= common }))
	}
	if said := diff.Compare(since(ends[0]), since(ends[1]), diff.WithNames("talk", "talk")); len(said.Hunks) > 0 {
		c.wholeDiff(string(said.Unified()))
	} else {
		c.line("The same was said and done.")
	}
	files, err := c.talk().Compare(ctx, ends[0], ends[1])
	if err != nil {
		return err
	}
	if len(files) > 0 {
		c.prose(faint, filesOf(&sessions.Move{Files: files}))
	}
	for _, f := range files {
		c.wholeDiff(string(f.Diff().Unified()))
	}
	return nil
}
