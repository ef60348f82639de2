package compaction

import (
	"context"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/aycoder/aycoder"
)

const (
	page    = 16 << 10 // bytes that recall returns at a time
	notices = 128      // bytes that it adds
)

type recallArgs struct {
	ID     string `json:"id" jsonschema_description:"The id that the notice in the shortened text names"`
	Offset int    `json:"offset,omitempty" jsonschema_description:"Where to begin, in bytes; the answer names the next one"`
}

// Recall returns the tool recall, with which the model gets the whole of a text that was shortened in
// its requests, 16 kB at a time. It only reads what the history of the run holds. A text of an untrusted
// source stays untrusted.
func (c *Compactor) Recall() aycoder.Tool {
	c.recall = true
	t, err := aycoder.NewTool("recall", "Returns the whole of an output or message that was shortened to save room.",
		func(_ context.Context, inv *aycoder.Invocation, in recallArgs) (*aycoder.ToolResult, error) {
			f, ok := c.find(inv.Run, in.ID)
			text := f.text
			if !ok {
				return aycoder.ErrorResult("there is no text with this id in this conversation"), nil
			}
			if in.Offset < 0 || in.Offset > len(text) {
				return aycoder.ErrorResult(fmt.Sprintf("the text has %d bytes", len(text))), nil
			}
			begin, end := in.Offset, min(len(text), in.Offset+f.page)
			for begin > 0 && begin < len(text) && !utf8.RuneStart(text[begin]) {
				begin--
			}
			for end < len(text) && !utf8.RuneStart(text[end]) {
				end--
			}
			more := "that is the end"
			if end < len(text) {
				more = fmt.Sprintf("go on with offset %d", end)
			}
			res := aycoder.TextResult(fmt.Sprintf("%s\n[bytes %d to %d of %d; %s]\n", text[begin:end], begin, end, len(text), more))
			res.Untrusted = f.untrusted
			return res, nil
		}, aycoder.WithEffect(aycoder.EffectReadOnly))
	if err != nil {
		panic(err) // the arguments above are constant
	}
	return t
}

// found is a text of a conversation.
type found struct {
	text      string
	untrusted bool
	page      int // bytes that requests do not shorten
}

// find returns a text of the conversation of a run.
func (c *Compactor) find(run, id string) (f found, ok bool) {
	c.mu.Lock()
	known := slices.Clone(c.used)
	c.mu.Unlock()
	for _, v := range known {
		if f, ok = v.find(run, id); ok {
			break
		}
	}
	return f, ok
}

func (v *conversation) find(run, id string) (f found, ok bool) {
	if !v.mu.TryLock() { // a request of it is being made, so that none of its tools can ask
		return f, false
	}
	defer v.mu.Unlock()
	if v.run != run {
		return f, false
	}
	f.page = page
	if v.note.Most > 0 {
		f.page = min(page, max(v.note.Most-notices, v.note.Most/2))
	}
	var i, j int
	if n, err := fmt.Sscanf(id, "message_%d_%d", &i, &j); err == nil && n == 2 && i >= 0 && i < len(v.messages) && j >= 0 {
		if parts := v.messages[i].Parts; j < len(parts) {
			if t, is := parts[j].(*aycoder.Text); is {
				f.text = t.Text
				return f, true
			}
		}
	}
	for _, m := range v.messages {
		for _, p := range m.Parts {
			if o, is := p.(*aycoder.ToolOutput); is && o.ID == id {
				f.text, f.untrusted = o.Text(), o.Untrusted
				return f, true
			}
		}
	}
	return f, false
}
