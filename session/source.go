package session

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
	"sync"
	"weak"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/original"
	"github.com/aycoder/aycoder/internal/part"
)

// The messages of a session in a [Dir] or [Memory] store are not held in memory: a long conversation is
// much larger than what its requests show. A node has the outline of its message, and the source of the
// session reads the message again from the records. A message that is in use is not read twice.

// source reads messages from the journal of a session, also once the session is closed.
type source struct {
	store *dirStore
	id    string

	mu     sync.Mutex
	places []place // by the ID of the node
}

// place is the part of a journal in which the records of a message are. The last of them is that of the
// node. Those of other messages may be between them.
type place struct{ at, size int64 }

// newSource returns the source of a session, or nil if its store cannot read a single record.
func newSource(store Store, id string) *source {
	if s, ok := store.(*dirStore); ok {
		return &source{store: s, id: id}
	}
	return nil
}

// dirJournal returns the journal of a session that has a source.
func (s *Session) dirJournal() *dirJournal {
	if spare, ok := s.journal.(*spareJournal); ok {
		return spare.Journal.(*dirJournal)
	}
	return s.journal.(*dirJournal)
}

// records yields the records of the journal.
func (s *Session) records(ctx context.Context) iter.Seq2[located, error] {
	if s.source != nil {
		return s.dirJournal().located(ctx)
	}
	return func(yield func(located, error) bool) {
		for line, err := range s.journal.Records(ctx) {
			if !yield(located{line: line}, err) {
				return
			}
		}
	}
}

func (s *source) place(id ID) place {
	s.mu.Lock()
	defer s.mu.Unlock()
	if int(id) >= len(s.places) {
		return place{}
	}
	return s.places[id]
}

func (s *source) put(id ID, p place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for int(id) >= len(s.places) {
		s.places = append(s.places, place{})
	}
	s.places[id] = p
}

// find finds the records of a node again, after another process has rewritten them. It returns false if
// they are where they were.
func (s *source) find(id ID, was place) bool {
	if now := s.place(id); now != was {
		return true
	}
	found, err := readSession(context.Background(), s.store, s.id)
	if err != nil {
		return false
	}
	_ = found.journal.Close() // it was only read
	s.mu.Lock()
	s.places = found.source.places
	s.mu.Unlock()
	if s.place(id) == was {
		s.put(id, place{}) // looking for it again is of no use
		return false
	}
	return true
}

// messageReader reads the messages of nodes one after the other. It has to be closed.
type messageReader struct {
	source *source
	file   diskFile
	in     *bufio.Reader
}

func (r *messageReader) close() {
	if r.file != nil {
		r.file.Close()
		r.file = nil
	}
}

// load returns the message of a node, or nil if it has none.
func (r *messageReader) load(n *Node) (*aycoder.Message, error) {
	if n.source == nil {
		return n.outline, nil
	}
	if w := n.seen.Load(); w != nil {
		if m := w.Value(); m != nil {
			return m, nil
		}
	}
	was := n.source.place(n.ID)
	m, err := r.read(n, was)
	if err != nil && was.size > 0 && n.source.find(n.ID, was) {
		r.close()
		m, err = r.read(n, n.source.place(n.ID))
	}
	if err != nil {
		return nil, journalError("read", n.source.id, fmt.Errorf("message of node %d: %w", n.ID, err))
	}
	n.remember(m)
	return m, nil
}

// remember makes the message of a node be found without reading it, as long as it is in use.
func (n *Node) remember(m *aycoder.Message) {
	if n.source != nil {
		w := weak.Make(m)
		n.seen.Store(&w)
	}
}

var errNoRecord = errors.New("its record cannot be read")

func (r *messageReader) read(n *Node, p place) (*aycoder.Message, error) {
	if p.size == 0 {
		return nil, errNoRecord
	}
	if r.source != n.source {
		r.close()
	}
	if r.source = n.source; r.file == nil {
		err := r.source.store.start(context.Background(), "read", r.source.id, func(d disk) (err error) {
			r.file, err = d.open(r.source.id+"/"+journalName, os.O_RDONLY)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	var lines []string
	if section := io.NewSectionReader(r.file, p.at, p.size); r.in == nil {
		r.in = bufio.NewReaderSize(section, int(min(p.size, 64<<10)))
	} else {
		r.in.Reset(section)
	}
	err := readRecords(r.in, func(_ int, line []byte, err error) bool {
		if err == nil {
			lines = append(lines, string(line))
		}
		return true
	})
	if err != nil || len(lines) == 0 {
		return nil, errors.Join(err, errNoRecord)
	}
	var rec record
	last := len(lines) - 1
	if json.Unmarshal([]byte(lines[last]), &rec) != nil || rec.Kind != kindNode || rec.ID != n.ID || rec.Message == nil {
		return nil, errNoRecord
	}
	parts := map[int64]json.RawMessage{}
	for _, line := range lines[:last] {
		if number, seq, part := factPart([]byte(line)); part != nil && number == runRef(rec.Run) {
			parts[seq] = part
		}
	}
	m, err := rec.Message.message(func(n int64) json.RawMessage { return parts[n] })
	if errors.Is(err, errLostPart) && n.Lost {
		err = nil
	}
	return m, err
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
		switch o := p.(type) {
		case *aycoder.Opaque:
			if p == markOnly[0] {
				continue
			}
		case *aycoder.Text:
			p = text
		case *aycoder.ToolOutput:
			lost := *o
			lost.Parts = []aycoder.Part{text}
			p = &lost
		}
		out.Parts = append(out.Parts, p)
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
