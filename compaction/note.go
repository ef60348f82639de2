package compaction

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/jsontext"
	"github.com/aycoder/aycoder/internal/runes"
)

// A note says what requests leave out. They depend only on the history and on the note in force, so
// that each process makes the same ones.
type note struct {
	Version int `json:"v"`
	// At is the number of messages of the history when the note was made.
	At int `json:"at"`
	// From is the first message after those that the summary replaces, or 0 if there is no summary.
	From    int    `json:"from,omitempty"`
	Summary string `json:"summary,omitempty"`
	// Untrusted says that the summary has text of an untrusted source.
	Untrusted bool `json:"untrusted,omitempty"`
	// Kept are the messages of the user before From that stay.
	Kept []int `json:"kept,omitempty"`
	// In the messages before Short, texts of outputs and calls have at most Each bytes. In all
	// messages, texts have at most Most bytes.
	Short int `json:"short,omitempty"`
	Each  int `json:"each,omitempty"`
	Most  int `json:"most,omitempty"`
	// Window is the window of Model, in tokens, as its refusal has told it.
	Window int64  `json:"window,omitempty"`
	Model  string `json:"model,omitempty"`
}

const noteVersion = 1

// A conversation is what is remembered of a conversation between two requests, so that only new
// messages cost anything. It can be made anew from the history and the note.
type conversation struct {
	// The mutex of the Compactor guards these.
	run  string          // the last run
	done <-chan struct{} // is closed when that is over; nil if it is

	mu       sync.Mutex
	messages []*aycoder.Message // the history
	head     int                // messages of the first request
	note     note
	text     json.RawMessage // of note, or nil
	out      []*aycoder.Message
	// shortened is how many texts the note shortens.
	shortened int
	reads     map[string]bool // calls that read what a later one has read again, before note.At
	pinned    func(*aycoder.Message) bool
	recalls   bool

	// digest is that of the messages before digested. It is not a part of the note: it can be made again.
	digest   digest
	digested int
	heard

	sized int   // how many messages of out are in size
	size  int64 // in bytes

	sent     *aycoder.Request // the last one
	sentTurn int
}

// conversation returns what is known of a conversation, for a run that is over when done is closed. The
// caller unlocks it.
func (c *Compactor) conversation(in *aycoder.ContextInput, done <-chan struct{}) *conversation {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.IndexFunc(c.used, func(v *conversation) bool { return (v.run == in.Run || v.over()) && v.lockIf(in) })
	var v *conversation
	if i < 0 {
		v = &conversation{pinned: c.pin}
		v.mu.Lock()
	} else {
		v = c.used[i]
		c.used = slices.Delete(c.used, i, i+1)
	}
	v.recalls, v.run, v.done = c.recall.Load(), in.Run, done
	c.used = slices.Insert(c.used, 0, v)
	for i := len(c.used) - 1; i > 0 && len(c.used) > maxKnown; i-- {
		if len(c.used) > maxRuns || c.used[i].over() {
			c.used = slices.Delete(c.used, i, i+1)
		}
	}
	return v
}

// over reports whether the last run of v is over. Recall needs those that are not, and these have their
// messages in memory anyway.
func (v *conversation) over() bool {
	select {
	case <-v.done:
		return true
	default:
		return v.done == nil
	}
}

// lockIf locks v if the history begins with that of v, and reports whether it does. It stays locked until
// it has the new history: another run may continue the old one in another way.
func (v *conversation) lockIf(in *aycoder.ContextInput) bool {
	if !v.mu.TryLock() { // another run of the same conversation
		return false
	}
	n := len(v.messages)
	if n > 0 && n <= len(in.Messages) && v.messages[0] == in.Messages[0] && v.messages[n-1] == in.Messages[n-1] {
		return true
	}
	v.mu.Unlock()
	return false
}

// follow takes the present history and its note.
func (v *conversation) follow(messages []*aycoder.Message, raw json.RawMessage) {
	known := len(v.messages)
	v.messages = messages
	if string(raw) != string(v.text) || known == 0 {
		v.note, v.text = note{}, raw
		if raw != nil && (json.Unmarshal(raw, &v.note) != nil || v.note.Version != noteVersion || !v.note.fits(len(messages)) || !v.note.isOf(messages, raw)) {
			v.note = note{}
		}
		v.render()
		return
	}
	for i := known; i < len(messages); i++ {
		v.out = append(v.out, v.shown(i))
	}
}

// fits reports whether the note can be about this history.
func (n *note) fits(messages int) bool {
	outside := func(i int) bool { return i < 0 || i >= n.From }
	return n.At <= messages && 0 <= n.From && n.From <= n.At && 0 <= n.Short && n.Short <= n.At && n.Each >= 0 && n.Most >= 0 &&
		!slices.ContainsFunc(n.Kept, outside)
}

// isOf reports whether the note can be of this history, to which the host may have added messages, or from
// which it may have removed some.
func (n *note) isOf(messages []*aycoder.Message, raw json.RawMessage) bool {
	for i, m := range slices.Backward(messages) {
		if found, ok := noteIn(m); ok {
			ok, _ = n.carriedBy(i, func(i int) (*aycoder.Message, error) { return messages[i], nil })
			return ok || string(found) != string(raw) // it is of this run
		}
	}
	return true
}

// carriedBy reports whether message i can have the note: only prompts come between its making and that message,
// and the first message that stays does not have the outputs of calls that go.
func (n *note) carriedBy(i int, message func(i int) (*aycoder.Message, error)) (bool, error) {
	if i < n.At {
		return false, nil
	}
	for _, k := range append([]int{n.From}, indices(n.At, i)...) {
		if m, err := message(k); err != nil || slices.ContainsFunc(m.Parts, isOutput) {
			return false, err
		}
	}
	return true, nil
}

func indices(from, to int) (out []int) {
	for i := from; i < to; i++ {
		out = append(out, i)
	}
	return out
}

// Needed reports which messages of a history its requests need: see WithCompactor of package session. A
// history of which only these are in memory gives the same requests.
func (c *Compactor) Needed(n int, message func(i int) (*aycoder.Message, error)) (func(i int) bool, error) {
	var now note
	for i := n - 1; i >= 0; i-- {
		m, err := message(i)
		if err != nil {
			return nil, err
		}
		if raw, ok := noteIn(m); ok {
			if json.Unmarshal(raw, &now) != nil || now.Version != noteVersion || !now.fits(n) {
				now = note{}
			} else if ok, err := now.carriedBy(i, message); err != nil {
				return nil, err
			} else if !ok {
				now = note{}
			}
			break
		}
	}
	var first []*aycoder.Message
	head := 0
	for ; head == len(first) && head < now.From; head = headOf(first) {
		m, err := message(head)
		if err != nil {
			return nil, err
		}
		first = append(first, m)
	}
	return func(i int) bool { return i < head || i >= now.From || slices.Contains(now.Kept, i) }, nil
}

// noteIn returns the note that a message records: see aycoder.Compacted.
func noteIn(m *aycoder.Message) (note json.RawMessage, ok bool) {
	if n := len(m.Parts); n > 0 {
		if o, is := m.Parts[n-1].(*aycoder.Opaque); is && o.Provider == "aycoder" {
			var mark struct{ Note json.RawMessage }
			ok = json.Unmarshal(o.Raw, &mark) == nil
			note = mark.Note
			ok = ok && (note != nil || m.Role == aycoder.RoleAssistant) // the user's may be a command
		}
	}
	return note, ok
}

// render makes the messages of the request anew.
func (v *conversation) render() {
	v.head, v.shortened = headOf(v.messages), 0
	v.sized, v.size = 0, 0
	v.reads = v.repeatedReads()
	from := max(v.head, v.note.From)
	v.out = make([]*aycoder.Message, 0, len(v.messages)-from+v.head+2)
	for i := range v.head {
		v.out = append(v.out, v.shown(i))
	}
	if from > v.head {
		v.out = append(v.out, aycoder.User(v.note.message()))
		for _, i := range v.note.Kept {
			v.out = append(v.out, v.shown(i))
		}
	}
	for i := from; i < len(v.messages); i++ {
		v.out = append(v.out, v.shown(i))
	}
}

// kept returns the messages of the user, before from, that stay: those that are pinned, and those of
// the present exchange. was is the note before.
func (v *conversation) kept(was *note, from int) []int {
	const most = 8
	var out []int
	open := true
	keep := func(i int) {
		if m := v.messages[i]; isPrompt(m) && (open && len(out) < most || v.pinned(m)) {
			out = append(out, i)
		}
	}
	for i := v.note.At - 1; i >= max(v.head, was.From); i-- {
		if m := v.messages[i]; m.Role == aycoder.RoleAssistant && len(m.Calls()) == 0 {
			open = false
		}
		if i < from {
			keep(i)
		}
	}
	for _, i := range slices.Backward(was.Kept) { // they are of the same exchange if nothing has ended it
		keep(i)
	}
	slices.Reverse(out)
	return out
}

// shown returns a message as it is in the request.
func (v *conversation) shown(i int) *aycoder.Message {
	m := v.messages[i]
	if isPrompt(m) && v.pinned(m) && v.note.Most == 0 {
		return m
	}
	var parts []aycoder.Part
	each, from, to := v.share(i, m)
	for j, p := range m.Parts {
		q := v.part(i, j, p, each)
		if q != p && parts == nil {
			parts = slices.Clone(m.Parts)
		}
		if q != p {
			parts[j] = q
			v.shortened++
		}
	}
	if from < to {
		v.shortened++
		notice := &aycoder.Text{Text: fmt.Sprintf("[%d parts of this message are left out here to save room.]", to-from)}
		if parts == nil {
			parts = m.Parts
		}
		parts = slices.Concat(parts[:from], []aycoder.Part{notice}, parts[to:])
	}
	if parts == nil {
		return m
	}
	return &aycoder.Message{Role: m.Role, Parts: parts}
}

// share returns how many bytes each part of prompt i may have, so that all of them together have about
// as many as one text, and which of its parts are left out because they are too many for that. Nothing
// stands for an image or a document, so the last prompt keeps them, or does not fit.
func (v *conversation) share(i int, m *aycoder.Message) (each, from, to int) {
	const least, few = 256, 16
	room := v.note.Most
	if room == 0 || !isPrompt(m) {
		return room, 0, 0
	}
	last := i == v.note.At-1 && slices.ContainsFunc(m.Parts, isMedia)
	if n := max(room/least, few); len(m.Parts) > n && !last {
		from, to = n*2/3, len(m.Parts)-n/3
	}
	var sizes []int
	for j, p := range m.Parts {
		if j < from || j >= to {
			sizes = append(sizes, weight(p))
		}
	}
	slices.Sort(sizes)
	for i, size := range sizes {
		if each = room / (len(sizes) - i); size > each {
			return each, from, to
		}
		room -= size
	}
	return v.note.Most, from, to
}

// weight returns the number of bytes of text that have about as many tokens as a part of a prompt.
func weight(p aycoder.Part) int {
	switch p := p.(type) {
	case *aycoder.Text:
		return len(p.Text)
	case *aycoder.Media:
		switch {
		case strings.HasPrefix(p.Type, "image/"):
			return 16 << 10
		case strings.HasPrefix(p.Type, "text/"):
			return len(p.Data)
		}
		return len(p.Data) / 5 // 3,000 tokens for a page of 50 kB
	}
	return 0
}

// part returns a part of a message as it is in the request. If it is of a prompt, it has at most each
// bytes.
func (v *conversation) part(i, j int, p aycoder.Part, each int) aycoder.Part {
	most := v.note.Most
	old := i < v.note.Short && i >= v.head
	if old {
		most = least(most, v.note.Each)
	}
	switch p := p.(type) {
	case *aycoder.Text:
		if each > 0 && len(p.Text) > each { // an old text is not shortened: it has what was decided
			return &aycoder.Text{Text: v.middle(p.Text, each, fmt.Sprintf("message_%d_%d", i, j), "")}
		}
	case *aycoder.ToolUse:
		if most > 0 && len(p.Args) > 2*most {
			return &aycoder.ToolUse{ID: p.ID, Name: p.Name, Args: jsontext.Shorten(p.Args, most), Extra: p.Extra}
		}
	case *aycoder.ToolOutput:
		return v.output(p, most, old)
	case *aycoder.Media:
		if old || each > 0 && weight(p) > each && i < v.note.At-1 {
			return &aycoder.Text{Text: fmt.Sprintf("[%s of %d bytes is left out]", p.Type, len(p.Data))}
		}
	}
	return p
}

func (v *conversation) output(o *aycoder.ToolOutput, most int, old bool) aycoder.Part {
	replaced := func(parts []aycoder.Part) aycoder.Part {
		short := *o
		short.Parts = parts
		return &short
	}
	if old && v.reads[o.ID] {
		if text := "[This is left out: the file was read again later, see the newer output.]"; len(text) < len(o.Text()) {
			return replaced([]aycoder.Part{&aycoder.Text{Text: text}})
		}
	}
	var parts []aycoder.Part
	for k, p := range o.Parts {
		var q aycoder.Part
		switch p := p.(type) {
		case *aycoder.Text:
			if most > 0 && len(p.Text) > most {
				again := ""
				if o.Name == readTool {
					again = "; before the file is edited, it has to be read again"
				}
				q = &aycoder.Text{Text: v.middle(p.Text, most, o.ID, again)}
			}
		case *aycoder.Media:
			if old {
				q = &aycoder.Text{Text: fmt.Sprintf("[%s of %d bytes is left out]", p.Type, len(p.Data))}
			}
		}
		if q != nil {
			if parts == nil {
				parts = slices.Clone(o.Parts)
			}
			parts[k] = q
		}
	}
	if parts == nil {
		return o
	}
	return replaced(parts)
}

// middle shortens a text to about n bytes. The notice in it ends with more.
func (v *conversation) middle(text string, n int, id, more string) string {
	how := "read or run it again if it is needed"
	if v.recalls {
		how = fmt.Sprintf("recall returns it for the id %q", id)
	}
	notice := fmt.Sprintf("\n[%d bytes are left out here to save room; %s%s]\n", len(text)-n, how, more)
	room := max(n-len(notice), 0)
	head, tail := runes.Cut(text, room*2/3), len(text)-room/3
	for tail < len(text) && !utf8.RuneStart(text[tail]) {
		tail++
	}
	if len(head)+len(notice)+len(text)-tail >= len(text) {
		return text
	}
	return head + notice + text[tail:]
}

func least(a, b int) int {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

// headOf returns the number of messages of the first request: instructions, a welcome of the model,
// and the first prompt.
func headOf(messages []*aycoder.Message) int {
	for i, m := range messages {
		switch {
		case isPrompt(m):
			return i + 1
		case m.Role != aycoder.RoleSystem && (i > 0 || len(m.Calls()) > 0 || m.Role != aycoder.RoleAssistant):
			return i
		}
	}
	return len(messages)
}

// isPrompt reports whether the user has written a message.
func isPrompt(m *aycoder.Message) bool {
	return m.Role == aycoder.RoleUser && !slices.ContainsFunc(m.Parts, isOutput) && !isMark(m)
}

func isOutput(p aycoder.Part) bool {
	_, ok := p.(*aycoder.ToolOutput)
	return ok
}

func isMedia(p aycoder.Part) bool {
	_, ok := p.(*aycoder.Media)
	return ok
}

// sizeOf returns the size of messages in bytes, about.
func sizeOf(messages []*aycoder.Message) int64 {
	n := int64(0)
	for _, m := range messages {
		n += partsSize(m.Parts)
	}
	return n
}

func partsSize(parts []aycoder.Part) int64 {
	n := int64(0)
	for _, p := range parts {
		switch p := p.(type) {
		case *aycoder.Text:
			n += int64(len(p.Text))
		case *aycoder.Thinking:
			n += int64(len(p.Text))
		case *aycoder.ToolUse:
			n += int64(len(p.Args))
		case *aycoder.ToolOutput:
			n += partsSize(p.Parts)
		case *aycoder.Media:
			n += int64(len(p.Data))
		}
	}
	return n
}
