package session

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"sync"
	"weak"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/original"
	"github.com/aycoder/aycoder/internal/part"
	"github.com/aycoder/aycoder/journal"
)

// The messages of a session in a [journal.Dir] or [journal.Memory] store are not held in memory: a long conversation is
// much larger than what its requests show. A node has the outline of its message, and the source of the
// session reads the message again from the records. A message that is in use is not read twice.

// source reads messages from the journal of a session, also once the session is closed.
type source struct {
	store journal.LineStore
	id    string

	mu     sync.Mutex
	places []journal.Place // by the ID of the node
}

// newSource returns the source of a session, or nil if its store cannot read a single record.
func newSource(store journal.Store, id string) *source {
	if s, ok := store.(journal.LineStore); ok {
		return &source{store: s, id: id}
	}
	return nil
}

// locator returns the journal of a session that has a source.
func (s *Session) locator() journal.Locator { return s.journal.now().(journal.Locator) }

// stored yields the records of the journal as they are stored.
func (s *Session) stored(ctx context.Context) iter.Seq2[journal.Located, error] {
	if s.source != nil {
		return s.locator().Located(ctx)
	}
	return func(yield func(journal.Located, error) bool) {
		for line, err := range s.journal.now().Records(ctx) {
			if !yield(journal.Located{Line: line}, err) {
				return
			}
		}
	}
}

func (s *source) place(id ID) journal.Place {
	s.mu.Lock()
	defer s.mu.Unlock()
	if int(id) >= len(s.places) {
		return journal.Place{}
	}
	return s.places[id]
}

func (s *source) put(id ID, p journal.Place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for int(id) >= len(s.places) {
		s.places = append(s.places, journal.Place{})
	}
	s.places[id] = p
}

// find finds the records of a node again, after another process has rewritten them. It returns false if
// they are where they were.
func (s *source) find(id ID, was journal.Place) bool {
	if now := s.place(id); now != was {
		return true
	}
	found, err := readSession(context.Background(), s.store, s.id)
	if err != nil {
		return false
	}
	s.mu.Lock()
	s.places = append(found.source.places, s.places[min(len(found.source.places), len(s.places)):]...) // with those of newer nodes
	s.mu.Unlock()
	if s.place(id) == was {
		s.put(id, journal.Place{}) // looking for it again is of no use
		return false
	}
	return true
}

// load returns the message of a node, or nil if it has none.
func (n *Node) load() (*aycoder.Message, error) {
	if n.source == nil {
		return n.outline, nil
	}
	if m := n.inUse(); m != nil {
		return m, nil
	}
	rec, err := n.source.record(n.ID)
	if err == nil && rec.lost && !n.Lost {
		err = journal.Error("read", n.source.id, fmt.Errorf("message of node %d: %w", n.ID, errLostPart))
	}
	if err != nil {
		return nil, err
	}
	n.remember(rec.message)
	return rec.message, nil
}

// released reads a node. One that cannot be read any more is lost.
func (v *View) released(id ID) *Node {
	rec, err := v.source.record(id)
	if err != nil {
		return &Node{ID: id, Parent: v.parent(id), Lost: true, outline: v.nodes[id].outline, source: v.source}
	}
	n := rec.node()
	n.source, n.outline = v.source, outlineOf(rec.message)
	n.remember(rec.message)
	return n
}

// remember makes the message of a node be found without reading it, as long as it is in use.
func (n *Node) remember(m *aycoder.Message) {
	if n.source != nil {
		w := weak.Make(m)
		n.seen.Store(&w)
	}
}

// inUse returns the message that was read or written last, if somebody has it still.
func (n *Node) inUse() *aycoder.Message {
	if w := n.seen.Load(); w != nil {
		return w.Value()
	}
	return nil
}

var errNoRecord = errors.New("its record cannot be read")

// record returns the record of a node that has a message, with all that the node has.
func (s *source) record(id ID) (*record, error) {
	for try := 0; ; try++ {
		was := s.place(id)
		rec, err := s.read(id, was)
		if err == nil {
			return rec, nil
		}
		if was.Size == 0 || try == 1 || !s.find(id, was) {
			return nil, journal.Error("read", s.id, fmt.Errorf("message of node %d: %w", id, err))
		}
	}
}

func (s *source) read(id ID, p journal.Place) (*record, error) {
	if p.Size == 0 {
		return nil, errNoRecord
	}
	file, err := s.store.Lines(s.id)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var lines [][]byte // the facts of its run, of which the first one is
	var last, run []byte
	in := bufio.NewReaderSize(io.NewSectionReader(file, p.At, p.Size), int(min(p.Size, 64<<10)))
	err = journal.ReadRecords(in, func(_ int, line []byte, err error) bool {
		if err != nil {
			return true
		}
		if run == nil {
			run = bytes.Clone(line[:bytes.IndexByte(line, ',')+1])
		} else if bytes.HasPrefix(last, run) { // the others are of other branches
			lines = append(lines, bytes.Clone(last))
		}
		last = append(last[:0], line...)
		return true
	})
	if err != nil || last == nil {
		return nil, errors.Join(err, errNoRecord)
	}
	rec := new(record)
	if json.Unmarshal(last, rec) != nil || rec.Kind != kindNode || rec.ID != id || rec.Message == nil {
		return nil, errNoRecord
	}
	parts := map[int64]aycoder.Part{}
	for _, line := range lines {
		var f aycoder.FactRecord
		if json.Unmarshal(line, &f) != nil || f.Run != runRef(rec.Run) {
			continue
		}
		if done, ok := f.Fact.(*aycoder.MessageDone); ok && rec.Message.Role == aycoder.RoleAssistant {
			rec.answer = answerOf(done)
		}
		parts[f.Seq] = carried(f.Fact)
	}
	rec.runID, rec.lost = rec.Name, rec.Lost
	rec.message, err = rec.Message.message(func(n int64) aycoder.Part { return parts[n] })
	if errors.Is(err, errLostPart) {
		rec.lost, err = true, nil
	}
	return rec, err
}

// outlineOf returns a message without its contents: its role, the ids of its calls and outputs, whether
// strangers wrote some of it, and what the user has asked of a compactor. With it in the place of the
// message, a history is as valid as before.
func outlineOf(m *aycoder.Message) *aycoder.Message {
	if m == nil {
		return nil
	}
	var parts, marks []aycoder.Part
	for _, p := range m.Parts {
		switch p := p.(type) {
		case *aycoder.ToolUse:
			parts = append(parts, &aycoder.ToolUse{ID: p.ID, Name: p.Name, Args: json.RawMessage("{}")})
		case *aycoder.ToolOutput:
			odd := markOnly
			for _, p := range p.Parts {
				if !isContent(p) {
					odd = append(odd, p)
				}
			}
			parts = append(parts, &aycoder.ToolOutput{ID: p.ID, Name: p.Name, Parts: odd, IsError: p.IsError, Untrusted: p.Untrusted})
		case *aycoder.Opaque:
			if mark := outlineOfMark(p); mark != nil {
				marks = append(marks, mark)
			}
		default:
			if _, thinking := p.(*aycoder.Thinking); !isContent(p) && !(thinking && m.Role == aycoder.RoleAssistant) {
				parts = append(parts, p) // it does not belong there, and must not pass
			}
		}
	}
	if o := plainOutlines[m.Role]; o != nil && parts == nil {
		if marks == nil {
			return o
		}
		parts = o.Parts[1:]
	}
	if len(parts) > 0 && !part.IsOutput(parts[0]) {
		parts = append(markOnly, parts...)
	}
	return &aycoder.Message{Role: m.Role, Parts: slices.Concat(parts, marks)}
}

// outlineOfMark returns what outlines keep of a mark of the loop: not its note, which is large. It
// returns nil if that is nothing.
func outlineOfMark(o *aycoder.Opaque) aycoder.Part {
	m, ok := part.MarkOf(o)
	if !ok || !m.Untrusted && (m.Compact == nil || *m.Compact == "") {
		return nil
	}
	m.Note = nil
	return m.Part()
}

// unreadable returns an outline with a text that says why the message cannot be read.
func unreadable(outline *aycoder.Message, err error) *aycoder.Message {
	text := &aycoder.Text{Text: "[this message was lost: " + err.Error() + "]"}
	out := &aycoder.Message{Role: outline.Role}
	for _, p := range outline.Parts {
		if mark, ok := part.MarkOf(p); ok {
			if mark.Outline = false; !mark.Untrusted && mark.Compact == nil {
				continue
			}
			p = mark.Part()
		}
		switch o := p.(type) {
		case *aycoder.Text:
			p = text
		case *aycoder.ToolOutput:
			lost := *o
			lost.Parts = []aycoder.Part{text}
			p = &lost
		}
		out.Parts = append(out.Parts, p)
	}
	if !slices.ContainsFunc(out.Parts, func(p aycoder.Part) bool { return !part.IsMark(p) }) {
		out.Parts = slices.Insert(out.Parts, 0, aycoder.Part(text))
	}
	return out
}

func isContent(p aycoder.Part) bool {
	switch p.(type) {
	case *aycoder.Text, *aycoder.Media, *aycoder.Opaque:
		return true
	}
	return false
}

var plainOutlines = map[aycoder.Role]*aycoder.Message{
	aycoder.RoleUser: plainOutline(aycoder.RoleUser), aycoder.RoleAssistant: plainOutline(aycoder.RoleAssistant),
	aycoder.RoleSystem: plainOutline(aycoder.RoleSystem),
}

func plainOutline(r aycoder.Role) *aycoder.Message {
	return &aycoder.Message{Role: r, Parts: append(markOnly, &aycoder.Text{Text: "[this message is left out]"})}
}

// markOnly has no room for more.
var markOnly = []aycoder.Part{original.Mark()}
