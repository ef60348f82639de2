package compaction

import (
	"encoding/json"
	"hash/crc32"
	"slices"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/original"
	"github.com/aycoder/aycoder/internal/part"
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
	// Server says that the service of the model wrote the summary, which is a part of message From.
	Server bool `json:"server,omitempty"`
	// Sum is that of the texts before From, or 0 if it is unknown: a host may have edited them.
	Sum uint32 `json:"sum,omitempty"`
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

// load takes the note in force.
func (v *conversation) load() {
	h := inMemory(v.messages)
	raw, last := h.lastNote()
	if string(raw) != string(v.text) { // it is of this run
		last = h.parse(v.text)
	}
	if last.Sum != 0 && last.Sum != sumOf(0, v.messages[:last.From], last.Sum) { // a host has edited what it stands for
		last = note{}
	}
	if last.Server && !v.compacted(v.messages[last.From]) { // only its own service knows what was before
		last.From, last.Sum, last.Kept, last.Summary, last.Server = 0, 0, nil, "", false
	}
	v.note, v.searched = last, 0
	v.render()
}

// A history reads the messages of a conversation, which may be in a store. After the first error, they are empty.
type history struct {
	n    int
	read func(i int) (*aycoder.Message, error)
	err  error
}

func inMemory(messages []*aycoder.Message) *history {
	return &history{n: len(messages), read: func(i int) (*aycoder.Message, error) { return messages[i], nil }}
}

func (h *history) at(i int) (m *aycoder.Message) {
	if h.err == nil {
		m, h.err = h.read(i)
	}
	if h.err != nil {
		return &aycoder.Message{}
	}
	return m
}

// head returns the number of messages of the first request: instructions, a welcome of the model,
// and the first prompt.
func (h *history) head() int {
	for i := range h.n {
		switch m := h.at(i); {
		case isPrompt(m):
			return i + 1
		case m.Role != aycoder.RoleSystem && (i > 0 || len(m.Calls()) > 0 || m.Role != aycoder.RoleAssistant):
			return i
		}
	}
	return h.n
}

// lastNote returns the note that the history records last, as the loop finds it. Its parsed form is empty if it
// cannot be of this history, to which the host may have added messages, or from which it may have removed some.
func (h *history) lastNote() (raw json.RawMessage, last note) {
	for i := h.n - 1; i >= 0; i-- {
		m := h.at(i)
		if len(m.Parts) == 0 {
			continue
		}
		mark, ok := part.MarkOf(m.Parts[len(m.Parts)-1])
		if !ok || mark.Note == nil && m.Role != aycoder.RoleAssistant { // the user's may be a command
			continue
		}
		if last = h.parse(mark.Note); !h.carries(i, &last) {
			last = note{}
		}
		return mark.Note, last
	}
	return nil, note{}
}

// parse returns a note, which is empty if it cannot be about this history.
func (h *history) parse(raw json.RawMessage) (n note) {
	if json.Unmarshal(raw, &n) != nil || n.Version != noteVersion ||
		n.At > h.n || n.From < 0 || n.From > n.At || n.Short < 0 || n.Short > n.At || n.Each < 0 || n.Most < 0 ||
		n.Server && n.From == n.At {
		return note{}
	}
	last := -1
	for _, i := range n.Kept {
		if i <= last || i >= n.From || !isPrompt(h.at(i)) {
			return note{}
		}
		last = i
	}
	return n
}

// carries reports whether message i can have a note: only prompts come between its making and that message, and the
// first message that stays does not have the outputs of calls that go.
func (h *history) carries(i int, n *note) bool {
	plain := func(k int) bool { return !slices.ContainsFunc(h.at(k).Parts, part.IsOutput) }
	ok := i >= n.At && n.Version > 0 && plain(n.From)
	for k := n.At; k < i && ok; k++ {
		ok = plain(k)
	}
	return ok
}

// sumOf adds the texts of messages to a sum. If one of them is an outline, it returns unknown.
func sumOf(sum uint32, messages []*aycoder.Message, unknown uint32) uint32 {
	castagnoli := crc32.MakeTable(crc32.Castagnoli)
	for _, m := range messages {
		if original.IsOutline(m) {
			return unknown
		}
		sum = crc32.Update(sum, castagnoli, []byte(m.Text()))
		for _, o := range part.Outputs(m) {
			sum = crc32.Update(sum, castagnoli, []byte(o.Text()))
		}
	}
	return sum
}

// replace makes the note say that something stands for the messages before from.
func (v *conversation) replace(from int, summary string, server bool) {
	n := &v.note
	if n.From == 0 || n.Sum != 0 {
		n.Sum = sumOf(n.Sum, v.messages[n.From:from], 0)
	}
	n.From, n.Summary, n.Server = from, summary, server
}

// Needed reports which messages of a history its requests need: see WithCompactor of package session. A
// history of which only these are in memory gives the same requests.
func (c *Compactor) Needed(n int, message func(i int) (*aycoder.Message, error)) (func(i int) bool, error) {
	h := &history{n: n, read: message}
	_, last := h.lastNote()
	if last.Server { // another service needs everything
		last = note{}
	}
	head := min(h.head(), last.From)
	return func(i int) bool { return i < head || i >= last.From || slices.Contains(last.Kept, i) }, h.err
}
