package line

import (
	"strings"

	"github.com/aycoder/aycoder/internal/cli/tty"
)

// A recall is a walk through the entries of the history that begin like the draft did.
type recall struct {
	on    bool
	list  []string // the newest first
	index int
	draft buffer
}

// older puts in the entry before.
func (e *Editor) older() {
	r := &e.recall
	if !r.on {
		*r = recall{list: e.entries(e.text[:e.at]), index: -1, draft: e.buffer}
	}
	if r.index+1 >= len(r.list) {
		return
	}
	if !r.on {
		e.save("")
	}
	r.on = true
	r.index++
	e.recalled(r.list[r.index])
}

// newer puts in the entry after, and the draft after all entries.
func (e *Editor) newer() {
	r := &e.recall
	switch {
	case !r.on:
	case r.index == 0:
		r.on = false
		e.buffer = r.draft
	default:
		r.index--
		e.recalled(r.list[r.index])
	}
}

func (e *Editor) recalled(text string) {
	text = e.compact(text)
	e.buffer = buffer{text, len(text)}
	e.goal = -1
}

// entries returns the entries with a prefix, except the text that is there.
func (e *Editor) entries(prefix string) (out []string) {
	if e.o.History == nil {
		return nil
	}
	for _, entry := range e.o.History.Entries() {
		if strings.HasPrefix(entry, prefix) && entry != e.text {
			out = append(out, entry)
		}
	}
	return out
}

// A search looks for entries of the history while the query is typed.
type search struct {
	on     bool
	query  string
	index  int // of the entry found, or -1
	failed bool
	list   []string
	before buffer
}

func (s *search) prompt() string {
	what := "search"
	if s.failed {
		what = "not found"
	}
	return what + " \"" + tty.CleanLine(s.query) + "\": "
}

func (e *Editor) startSearch() {
	if e.o.History == nil {
		e.event.Kind = Unbound
		return
	}
	e.save("")
	e.leaveModes()
	e.search = search{on: true, index: -1, list: e.o.History.Entries(), before: e.buffer}
}

// searchKey reports whether a key was for the search. Other keys end it, and keep the
// entry.
func (e *Editor) searchKey(k tty.Key) bool {
	s := &e.search
	switch name := k.String(); {
	case k.Printable():
		s.query += sanitize(string(k.Rune))
		e.find(max(s.index, 0))
	case name == "backspace" || name == "ctrl+h":
		b := buffer{text: s.query}
		s.query = s.query[:b.prev(len(s.query))]
		e.find(0)
	case name == "ctrl+r":
		e.find(s.index + 1)
	case name == "esc" || name == "ctrl+g":
		s.on = false
		e.buffer = s.before
	case name == "enter":
		s.on = false
	default:
		s.on = false
		return false
	}
	return true
}

// find shows the first entry from an index that contains the query.
func (e *Editor) find(from int) {
	s := &e.search
	query := strings.ToLower(s.query)
	for i := from; i < len(s.list); i++ {
		at := strings.Index(strings.ToLower(s.list[i]), query)
		if query == "" || at < 0 || s.index >= 0 && i > s.index && s.list[i] == s.list[s.index] {
			continue
		}
		s.index, s.failed = i, false
		e.recalled(s.list[i])
		e.at = min(at, len(e.text))
		return
	}
	s.failed = query != ""
}
