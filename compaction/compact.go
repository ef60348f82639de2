package compaction

import (
	"cmp"
	"context"
	"slices"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/part"
	"github.com/aycoder/aycoder/tokens"
)

// shortTo are the sizes, in bytes, to which old outputs are shortened, one after the other.
var shortTo = []int{8 << 10, 4 << 10, 2 << 10, 1 << 10, 512}

// compact makes the note leave out more, and reports whether it does.
func (b *build) compact(ctx context.Context, req *aycoder.Request, count tokens.Count, try int) bool {
	before, size := b.estimate(b.out...), b.size
	if b.in.Overflow != nil && try == 0 { // if nothing else tells the window, the refusal does
		b.note.Model, b.note.Window = b.model.Provider+"/"+b.model.Name, cmp.Or(b.in.Overflow.Max, count.Tokens*3/4)
		b.budget = b.tokens()
	}
	command := b.commanded()
	budget := b.budget
	if budget == 0 || command { // what is there now is a bound, too
		budget = least(budget, count.Tokens)
	}
	// The rest, such as the system prompt, cannot be shortened here, apart from the tail.
	goal := int64(float64(budget) * b.fill / count.Margin)
	goal -= max(0, count.Tokens-before-b.excess(req, goal/4))
	most := int64(float64(b.bytes) * b.fill)
	for range try { // the last step was too small
		goal, most = goal*3/4, most*3/4
	}
	goal = max(goal, 64)
	small := func() bool { return b.estimate(b.out...) <= goal && b.size <= most }
	was, open := b.note, openCalls(b.messages)
	b.note.Version, b.note.At = noteVersion, len(b.messages)
	b.note.Kept = b.kept(&was, was.From)
	b.note.Short = max(was.Short, min(b.last(goal/4, most), open))
	// From so many bytes on, a text alone takes more than a quarter of the goal.
	b.note.Most = max(1<<10, int(goal/4*max(size, 1)/max(before, 1)))
	for _, each := range shortTo {
		if each = least(was.Each, each); was.Short == b.note.Short && each == was.Each {
			continue
		}
		b.note.Each = each
		if b.render(); small() && !command { // a command is about a summary
			return true
		}
	}
	if from := b.cut(goal, most, open); from > max(was.From, b.head) {
		b.summarize(ctx, from, goal)
		b.note.Kept = b.kept(&was, from)
	}
	// Even if nothing else goes, a document does whose prompt is not the last one any more.
	b.render()
	if !small() && try > 0 { // what is left are a few large messages
		b.note.Short = max(b.note.Short, open)
		b.note.Each = least(b.note.Each, 256)
		b.note.Most = least(b.note.Most, max(256, int(goal/2)))
		b.note.Summary = shorten(b.note.Summary, int(2*b.summaryTokens(goal)))
		b.render()
	}
	return b.longTail(req) || b.estimate(b.out...) < before || b.size < size
}

func (b *build) estimate(messages ...*aycoder.Message) int64 {
	return b.counter.Estimate(b.model, &aycoder.Request{Messages: messages}).Tokens
}

// last returns the first of the last messages that have at most room tokens, and so many bytes.
func (b *build) last(room, bytes int64) int {
	i := len(b.messages)
	for ; i > max(b.head, b.note.From); i-- {
		m, _ := b.shown(i - 1)
		room -= b.estimate(m)
		bytes -= sizeOf(m.Parts)
		if room < 0 || bytes < 0 {
			break
		}
	}
	return i
}

// cut returns the first message that stays when older ones are summarised.
func (b *build) cut(goal, most int64, open int) int {
	room := goal - b.estimate(b.out[:b.head]...) - b.summaryTokens(goal)
	from := b.last(max(room, goal/4), most)
	for from < open && slices.ContainsFunc(b.messages[from].Parts, part.IsOutput) { // outputs stay with their calls
		from++
	}
	return min(from, open)
}

// summaryTokens is how many tokens a summary may have.
func (b *build) summaryTokens(goal int64) int64 { return min(goal/4, 8<<10) }

// openCalls returns the index of the last message of the model, if the model has not seen the outputs
// of its calls, or else that of the last message.
func openCalls(messages []*aycoder.Message) int {
	for i, m := range slices.Backward(messages) {
		if m.Role == aycoder.RoleAssistant {
			if len(m.Calls()) > 0 {
				return i
			}
			break
		}
	}
	return max(0, len(messages)-1)
}
