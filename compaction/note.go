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
	message := inMemory(v.messages)
	raw, last, _ := lastNote(len(v.messages), message)
	if string(raw) != string(v.text) { // it is of this run
		last, _ = parseNote(v.text, len(v.messages), message)
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

// A reader returns message i of a history.
type reader func(i int) (*aycoder.Message, error)

func inMemory(messages []*aycoder.Message) reader {
	return func(i int) (*aycoder.Message, error) { return messages[i], nil }
}

// lastNote returns the note that a history of n messages records last, as the loop finds it. Its parsed form
// is empty if it cannot be of this history, to which the host may have added messages, or from which it may
// have removed some.
func lastNote(n int, message reader) (raw json.RawMessage, last note, err error) {
	for i := n - 1; i >= 0; i-- {
		m, err := message(i)
		if err != nil {
			return nil, note{}, err
		}
		if len(m.Parts) == 0 {
			continue
		}
		mark, ok := part.MarkOf(m.Parts[len(m.Parts)-1])
		if !ok || mark.Note == nil && m.Role != aycoder.RoleAssistant { // the user's may be a command
			continue
		}
		last, err = parseNote(mark.Note, n, message)
		if err == nil {
			ok, err = last.carriedBy(i, message)
		}
		if !ok || err != nil {
			last = note{}
		}
		return mark.Note, last, err
	}
	return nil, note{}, nil
}

// parseNote returns a note, which is empty if it cannot be about this history of so many messages.
func parseNote(raw json.RawMessage, messages int, message reader) (n note, err error) {
	if json.Unmarshal(raw, &n) != nil || n.Version != noteVersion ||
		n.At > messages || n.From < 0 || n.From > n.At || n.Short < 0 || n.Short > n.At || n.Each < 0 || n.Most < 0 ||
		n.Server && n.From == n.At {
		return note{}, nil
	}
	last := -1
	for _, i := range n.Kept {
		if i <= last || i >= n.From {
			return note{}, nil
		}
		if m, err := message(i); err != nil || !isPrompt(m) {
			return note{}, err
		}
		last = i
	}
	return n, nil
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

// carriedBy reports whether message i can have the note: only prompts come between its making and that message,
// and the first message that stays does not have the outputs of calls that go.
func (n *note) carriedBy(i int, message reader) (bool, error) {
	if i < n.At || n.Version == 0 {
		return false, nil
	}
	plain := func(k int) (bool, error) {
		m, err := message(k)
		return err == nil && !slices.ContainsFunc(m.Parts, part.IsOutput), err
	}
	ok, err := plain(n.From)
	for k := n.At; k < i && ok; k++ {
		ok, err = plain(k)
	}
	return ok, err
}

// Needed reports which messages of a history its requests need: see WithCompactor of package session. A
// history of which only these are in memory gives the same requests.
func (c *Compactor) Needed(n int, message func(i int) (*aycoder.Message, error)) (func(i int) bool, error) {
	_, last, err := lastNote(n, message)
	if err != nil {
		return nil, err
	}
	if last.Server { // another service needs everything
		last = note{}
	}
	var first []*aycoder.Message
	head := 0
	for ; head == len(first) && head < last.From; head = headOf(first) {
		m, err := message(head)
		if err != nil {
			return nil, err
		}
		first = append(first, m)
	}
	return func(i int) bool { return i < head || i >= last.From || slices.Contains(last.Kept, i) }, nil
}
