package compaction

import (
	"cmp"
	"context"
	"slices"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/tokens"
)

// shortTo are the sizes, in bytes, to which old outputs are shortened, one after the other.
var shortTo = []int{8 << 10, 4 << 10, 2 << 10, 1 << 10, 512}

// compact makes the note leave out more, and reports whether it does.
func (b *build) compact(ctx context.Context, model tokens.Model, req *aycoder.Request, count tokens.Count, try int) bool {
	before, size := b.estimate(model, b.out), sizeOf(b.out)
	b.limits(model, count, try)
	command := b.commanded()
	budget := b.budget
	if budget == 0 || command { // what is there now is a bound, too
		budget = min(cmp.Or(budget, count.Tokens), count.Tokens)
	}
	// The rest, such as the system prompt, cannot be shortened here, apart from the tail.
	goal := int64(float64(budget) * b.fill / count.Margin)
	goal -= max(0, count.Tokens-before-b.excess(model, req, goal/4))
	most := int64(float64(b.bytes) * b.fill)
	for range try { // the last step was too small
		goal, most = goal*3/4, most*3/4
	}
	goal = max(goal, 64)
	small := func() bool { return b.estimate(model, b.out) <= goal && sizeOf(b.out) <= most }
	was := b.note
	b.note.Version, b.note.At = noteVersion, len(b.messages)
	b.note.Kept = b.kept(&was, was.From)
	b.note.Most = b.quarter(model, goal)
	open := openCalls(b.messages)
	recent := b.suffix(model, goal/4)
	b.note.Short = max(was.Short, min(recent, open))
	for _, each := range shortTo {
		if each = least(was.Each, each); was.Short == b.note.Short && each == was.Each {
			continue
		}
		b.note.Each = each
		if b.render(); small() && !command { // a command is about a summary
			return true
		}
	}
	if from := b.cut(model, goal, most, open); from > max(was.From, b.head) {
		b.summarize(ctx, model, from, goal)
		b.note.Kept = b.kept(&was, from)
		b.render()
	}
	if !small() && try > 0 { // what is left are a few large messages
		b.note.Short = max(b.note.Short, open)
		b.note.Each = least(b.note.Each, 256)
		b.note.Most = least(b.note.Most, max(256, int(goal/2)))
		b.note.Summary = shorten(b.note.Summary, int(2*b.summaryTokens(goal)))
		b.render()
	}
	return b.longTail(req) || b.estimate(model, b.out) < before || sizeOf(b.out) < size
}

// limits finds out what the budget is, if only a refusal of the model tells it.
func (b *build) limits(model tokens.Model, count tokens.Count, try int) {
	over := b.in.Overflow
	if over == nil || try > 0 {
		return
	}
	b.note.Model, b.note.Window = model.Provider+"/"+model.Name, over.Max
	if over.Max == 0 {
		b.note.Window = count.Tokens * 3 / 4
	}
	b.budget = b.tokens(model)
}

func (b *build) estimate(model tokens.Model, messages []*aycoder.Message) int64 {
	return b.counter.Estimate(model, &aycoder.Request{Messages: messages}).Tokens
}

// quarter returns the number of bytes from which on a text alone takes more than a quarter of the
// goal. Shorter texts need no look at their tokens.
func (b *build) quarter(model tokens.Model, goal int64) int {
	bytes := sizeOf(b.out)
	n := b.estimate(model, b.out)
	if n == 0 || bytes == 0 {
		return int(goal)
	}
	return max(1024, int(goal/4*bytes/n))
}

// suffix returns the first message of the last ones that have at most a number of tokens.
func (b *build) suffix(model tokens.Model, room int64) int {
	i := len(b.messages)
	for ; i > max(b.head, b.note.From); i-- {
		if room -= b.estimate(model, b.messages[i-1:i]); room < 0 {
			break
		}
	}
	return i
}

// cut returns the first message that stays when older ones are summarised.
func (b *build) cut(model tokens.Model, goal, most int64, open int) int {
	room := goal - b.estimate(model, b.out[:b.head]) - b.summaryTokens(goal)
	room = max(room, goal/4)
	from := len(b.messages)
	for i := len(b.messages) - 1; i >= max(b.head, b.note.From); i-- {
		m := b.shown(i)
		room -= b.estimate(model, []*aycoder.Message{m})
		most -= partsSize(m.Parts)
		if (room < 0 || most < 0) && from <= open {
			break
		}
		if !slices.ContainsFunc(b.messages[i].Parts, isOutput) { // outputs stay with their calls
			from = i
		}
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
