package codegraph

import (
	"crypto/sha256"
	"encoding/json"
	"slices"
	"weak"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/part"
)

// A chain is what is known of the messages of a request. An addition to a message is found by the hash of this
// message and all before it. So branches of a conversation share it, another process finds it, and it is
// out of use when the messages before it have changed.
type chain struct {
	run    string // the last run
	links  []*link
	before *chain // of the same run, which has gone on, until this one is kept
}

// A link is what is known of one message. It does not change.
type link struct {
	message weak.Pointer[aycoder.Message]
	sum     sum
	names   []string // of source files in it
	words   []string // its mentions, or nil if it has no words of the user
	*addition
	shown weak.Pointer[aycoder.Message] // the message with the addition, if it has a text
	run   string                        // that has looked at what to add; only the same run must send the same again
}

// maxChains is the number of runs of which the messages are known without hashing them again.
const maxChains = 64

// follow returns the chain of some messages. It has the links of the chain with which it has most messages in
// common, or of the last one of this run. It also returns the last link.
func (e *enricher) follow(run string, messages []*aycoder.Message) (*chain, link) {
	e.mu.Lock()
	defer e.mu.Unlock()
	best, common := &chain{}, 0
	for _, c := range e.chains {
		if n := c.common(messages); n > common || n == common && c.run == run && n > 0 {
			best, common = c, n
		}
	}
	now := &chain{run: run, links: slices.Clone(best.links[:common])}
	for _, m := range messages[common:] {
		now.links = append(now.links, e.link(now, m))
	}
	if common == len(best.links) && best.run == run {
		now.before = best
	}
	return now, *now.links[len(messages)-1]
}

// keep makes a chain known whose last message was looked at. The mutex is held.
func (e *enricher) keep(c *chain) {
	e.chains = slices.DeleteFunc(e.chains, func(old *chain) bool { return old == c.before })
	e.chains = slices.Insert(e.chains[:min(len(e.chains), maxChains-1)], 0, c)
	c.before = nil
}

// common returns the number of messages, from the first on, that a chain has the links of.
func (c *chain) common(messages []*aycoder.Message) int {
	n := 0
	for n < min(len(c.links), len(messages)) && c.links[n].message.Value() == messages[n] {
		n++
	}
	return n
}

// link returns the link of the message after those of a chain.
func (e *enricher) link(c *chain, m *aycoder.Message) *link {
	l := &link{message: weak.Make(m), names: e.g.named(m), words: mentions(m)}
	sent := &aycoder.Message{Role: m.Role}
	for _, p := range m.Parts {
		if !part.IsMark(p) { // no client sends it
			sent.Parts = append(sent.Parts, p)
		}
	}
	h := sha256.New()
	if len(c.links) > 0 {
		h.Write(c.links[len(c.links)-1].sum[:])
	}
	data, err := json.Marshal(sent)
	if err != nil { // nobody can send it
		data = nil
	}
	h.Write(data)
	h.Sum(l.sum[:0])
	l.addition = e.sent.get(l.sum)
	return l
}

// known is what some messages of a request have.
type known struct {
	inPlay []string         // the files that were in play, those that came last first
	played map[string]bool  // the same
	files  map[string]shown // what is shown now of others, by path
	texts  map[string]bool  // the hashes of all that is shown
	tokens int64            // of all additions
	named  []string         // the files that the messages since the last look name, the newest first
	asked  []string         // what the user has mentioned last, also in the message after them
}

// known returns what the first n messages have.
func (c *chain) known(n int) known {
	k := known{played: map[string]bool{}, files: map[string]shown{}, texts: map[string]bool{}, asked: c.links[n].words}
	looked := false
	for _, l := range slices.Backward(c.links[:n]) {
		if k.asked == nil {
			k.asked = l.words
		}
		if l.addition == nil {
			if !looked {
				k.named = append(k.named, l.names...)
			}
			continue
		}
		looked = true
		k.tokens += l.Tokens
		k.inPlay = append(k.inPlay, l.InPlay...)
		for _, p := range l.InPlay {
			k.played[p] = true
		}
		for _, f := range l.Shown {
			k.texts[f.Text] = true
			if _, later := k.files[f.Path]; !later {
				k.files[f.Path] = f
			}
		}
	}
	return k
}

// request returns a request with the additions. The mutex is held.
func (c *chain) request(req *aycoder.Request) *aycoder.Request {
	out := *req
	for i, l := range c.links {
		if l.addition == nil || l.Text == "" {
			continue
		}
		m := l.shown.Value()
		if m == nil {
			m = with(req.Messages[i], &aycoder.Text{Text: l.Text})
			with := *l
			with.shown = weak.Make(m)
			c.links[i] = &with
		}
		if &out.Messages[0] == &req.Messages[0] {
			out.Messages = slices.Clone(req.Messages)
		}
		out.Messages[i] = m
	}
	return &out
}

// with returns a message with a text more. Most services take a text beside the outputs of tools for a new request of
// the user, and remove the thinking of the model before it, so the text goes into the last output.
func with(m *aycoder.Message, text *aycoder.Text) *aycoder.Message {
	parts := slices.Clone(m.Parts)
	if o, ok := parts[len(parts)-1].(*aycoder.ToolOutput); ok && o != nil {
		longer := *o
		longer.Parts = append(slices.Clip(o.Parts), text)
		parts[len(parts)-1] = &longer
	} else {
		parts = append(parts, text)
	}
	return &aycoder.Message{Role: m.Role, Parts: parts}
}
