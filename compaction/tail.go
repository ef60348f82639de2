package compaction

import (
	"slices"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/runes"
)

// shortTail shortens the texts of a request's tail like those of messages. The tail is not a part of
// the history, so nothing can recall the rest.
func (b *build) shortTail(req *aycoder.Request) *aycoder.Request {
	short := *req
	short.Tail = slices.Clone(req.Tail)
	for i, t := range short.Tail {
		if b.long(t) {
			short.Tail[i] = &aycoder.Text{Text: runes.HeadTail(t.Text, b.note.Most)}
			b.shortened++
		}
	}
	return &short
}

func (b *build) longTail(req *aycoder.Request) bool { return slices.ContainsFunc(req.Tail, b.long) }

func (b *build) long(t *aycoder.Text) bool {
	return t != nil && b.note.Most > 0 && len(t.Text) > b.note.Most
}

// excess returns how many tokens of a request's tail are in texts, or parts of them, beyond a limit.
func (b *build) excess(req *aycoder.Request, limit int64) (n int64) {
	for _, t := range req.Tail {
		one := &aycoder.Request{Tail: []*aycoder.Text{t}}
		n += max(0, b.counter.Estimate(b.model, one).Tokens-limit)
	}
	return n
}
