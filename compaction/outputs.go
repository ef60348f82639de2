package compaction

import (
	"context"
	"errors"
	"fmt"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/whole"
)

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
