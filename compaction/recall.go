package compaction

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/envelope"
	"github.com/aycoder/aycoder/internal/original"
	"github.com/aycoder/aycoder/internal/part"
	"github.com/aycoder/aycoder/internal/runes"
	"github.com/aycoder/aycoder/internal/whole"
)

const (
	page    = 16 << 10 // bytes that recall returns at a time
	notices = 512      // bytes that it adds, at most
)

type recallArgs struct {
	ID     string `json:"id" jsonschema_description:"The id that the notice in the shortened text names"`
	Offset int    `json:"offset,omitempty" jsonschema_description:"Where to begin, in bytes; the answer names the next one"`
}

// Recall returns the tool recall, with which the model gets the whole of a text that was shortened in
// its requests, or of an output that was cut before (see [Compactor.KeepOutput]), 16 kB at a time. It
// only reads what the history of the run holds or points to. A text of an untrusted source stays
// untrusted.
func (c *Compactor) Recall() aycoder.Tool {
	c.recall.Store(true)
	t, err := aycoder.NewTool("recall", "Returns the whole of an output or message that was shortened to save room.",
		func(ctx context.Context, inv *aycoder.Invocation, in recallArgs) (*aycoder.ToolResult, error) {
			f, err := c.find(ctx, inv.Run, in.ID)
			if context.Cause(ctx) != nil {
				return nil, context.Cause(ctx)
			}
			if err != nil {
				return aycoder.ErrorResult(err.Error()), nil
			}
			return f.pageAt(in.Offset), nil
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

// pageAt returns the result with the page that begins at an offset.
func (f *found) pageAt(offset int) *aycoder.ToolResult {
	text := f.text
	if offset < 0 || offset > len(text) {
		return aycoder.ErrorResult(fmt.Sprintf("the text has %d bytes", len(text)))
	}
	begin, end := len(runes.Cut(text, offset)), len(runes.Cut(text, offset+f.page))
	more := "that is the end"
	if end < len(text) {
		more = fmt.Sprintf("go on with offset %d", end)
	}
	part := text[begin:end]
	if f.untrusted { // the marks around the text may be on other pages
		part = envelope.Wrap("an earlier output", part)
	}
	res := aycoder.TextResult(fmt.Sprintf("%s\n[bytes %d to %d of %d; %s]\n", part, begin, end, len(text), more))
	res.Untrusted = f.untrusted
	return res
}

var (
	errUnknown = errors.New("there is no text with this id in this conversation")
	errUnread  = errors.New("the text with this id cannot be read now")
)

// find returns a text of the conversation of a run. Its error is for the model.
func (c *Compactor) find(ctx context.Context, run, id string) (found, error) {
	c.mu.Lock()
	i := slices.IndexFunc(c.used, func(v *conversation) bool { return v.run == run })
	if i < 0 || run == "" { // a call that is not in a run has no conversation
		c.mu.Unlock()
		return found{}, errUnknown
	}
	v := c.used[i]
	c.mu.Unlock()
	v.mu.Lock()
	messages, page := v.messages, v.page()
	v.mu.Unlock()
	f, err := c.textOf(ctx, messages, id)
	f.page = page
	return f, err
}

// page returns how many bytes of a text fit into requests.
func (v *conversation) page() int {
	if v.note.Most > 0 {
		return min(page, max(v.note.Most-notices, v.note.Most/2))
	}
	return page
}

// textOf returns a text of a history, or one to which it points.
func (c *Compactor) textOf(ctx context.Context, messages []*aycoder.Message, id string) (found, error) {
	problem := errUnknown
	isKey := len(whole.Keys(id)) > 0
	for i, m := range messages {
		name := messageID(i)
		mayHave := strings.HasPrefix(id, name) || m.Role == aycoder.RoleUser && original.IsOutline(m) || // which may lack the ids of calls
			slices.ContainsFunc(part.Outputs(m), func(o *aycoder.ToolOutput) bool { return isKey || o.ID == id })
		if !mayHave {
			continue
		}
		m, err := original.Message(ctx, i, m)
		if err != nil {
			problem = errUnread
			continue
		}
		for j, p := range m.Parts {
			if t, ok := p.(*aycoder.Text); ok && id == name+strconv.Itoa(j) {
				return found{text: t.Text, untrusted: part.Untrusted(m)}, nil
			}
		}
		for _, o := range part.Outputs(m) {
			key, size := kept(o)
			if id != o.ID && (key == "" || id != key) {
				continue
			}
			shown := found{text: o.Text(), untrusted: o.Untrusted}
			if key == "" {
				return shown, nil
			}
			f, err := c.whole(ctx, key, size)
			f.untrusted = f.untrusted || o.Untrusted
			switch {
			case err == nil:
				return f, nil
			case id == o.ID: // what the model got is there
				return shown, nil
			}
			return found{}, fmt.Errorf("the whole output of %d bytes is not kept any more; recall returns what was shown of it "+
				"for the id %q", size, o.ID)
		}
	}
	return found{}, problem
}

// messageID returns how the ids of the texts in message i begin. The index of the part follows.
func messageID(i int) string { return fmt.Sprintf("message_%d_", i) }

const pointer = "\n[The whole output has %d bytes; recall returns it for the id %q.]\n"

// maxOutputs is how many bytes of outputs are in memory: those that belong to no session, and those of
// sessions that the model reads page by page. The ones that were not used for the longest time go first.
const maxOutputs = 64 << 20

// KeepOutput keeps the whole of an output that is too large for the model: see
// [aycoder.WithWholeOutputs]. The output names the id by which the tool of [Compactor.Recall] returns
// it, in the same conversation and as long as it is kept: in the session in a run of package session,
// and else in up to 64 MiB of memory. Without that tool, nothing is kept.
func (c *Compactor) KeepOutput(ctx context.Context, out *aycoder.ToolOutput) string {
	text := out.Text()
	if !c.recall.Load() || text == "" {
		return ""
	}
	key, data := whole.Key(out.ID, text), "t"+text
	if out.Untrusted {
		data = "u" + text
	}
	session := whole.From(ctx)
	if (session == nil || session.Put(ctx, key, []byte(data)) != nil) && !c.outputs.Put(key, []byte(data)) {
		return ""
	}
	return fmt.Sprintf(pointer, len(text), key)
}

// kept returns the key and the size of the whole of an output, if it was kept.
func kept(o *aycoder.ToolOutput) (key string, size int) {
	for _, p := range o.Parts {
		if t, ok := p.(*aycoder.Text); ok {
			if n, _ := fmt.Sscanf(t.Text, pointer, &size, &key); n == 2 {
				return key, size
			}
		}
	}
	return "", 0
}

var errGone = errors.New("is not kept any more")

// whole returns the whole of an output.
func (c *Compactor) whole(ctx context.Context, key string, size int) (found, error) {
	data, ok := c.outputs.Get(key)
	if session := whole.From(ctx); !ok && session != nil {
		data, _ = session.Get(ctx, key)
		ok = len(data) == size+1
	}
	if ctx.Err() != nil {
		return found{}, context.Cause(ctx)
	}
	if !ok {
		return found{}, errGone
	}
	c.outputs.Put(key, data)
	return found{text: string(data[1:]), untrusted: data[0] == 'u'}, nil
}
