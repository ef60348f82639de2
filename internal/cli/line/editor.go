// Package line is an editor for what a user types at a prompt. It is a state machine
// without a terminal: it gets keys, and returns events and the lines to show.
//
//	editor := line.New(line.Options{Prompt: "> ", History: history})
//	for key := range input.Keys() {
//		switch ev := editor.Key(key); ev.Kind {
//		case line.Submit:
//			…
//		}
//		view := editor.View(cols)
//		screen.Status(view.Lines, tty.Cursor{Row: view.Row, Col: view.Col})
//	}
package line

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/aycoder/aycoder/internal/cli/tty"
)

// Options configure an [Editor].
type Options struct {
	Prompt   string            // in front of the first line
	Rows     int               // lines of text that are shown. Default: 12
	Vi       bool              // vi keys instead of those of Emacs
	Bindings map[string]string // actions by key, added to the usual ones; "" removes a key
	History  *History          // nil for none
	// Complete returns candidates for the text between from and the cursor, a byte offset.
	Complete func(text string, cursor int) (from int, list []Candidate)
}

// A Kind is a kind of event.
type Kind int

const (
	// None means that the key was for the editor.
	None Kind = iota
	// Unbound means that the key has no meaning here, as Ctrl-C does.
	Unbound
	// Submit means that Text was entered; the editor is empty.
	Submit
	// EndOfInput means Ctrl-D in an empty line.
	EndOfInput
	// EditText asks for the text to be opened in an editor, and [Editor.SetText] then.
	EditText
	// PlanMode asks for the plan mode, or for the mode before it.
	PlanMode
)

// An Event is the effect of a key that the host must know about.
type Event struct {
	Kind  Kind
	Text  string    // with the contents of pastes
	Began time.Time // time of the first key of the text
}

// An Editor holds the text that is being typed. The cursor is always between two
// characters that a user sees, and the text is valid UTF-8. It belongs to one goroutine.
type Editor struct {
	o        Options
	actions  map[string]func()
	bindings map[string]string

	buffer
	began  time.Time
	pastes []string
	past   []buffer // for undo, the newest last
	doing  string   // the last action, for those that go on with the one before
	event  Event
	goal   int // column that up and down keep, or -1

	kills  []string // the newest last
	yanked int      // index of the kill that was put in last
	from   int      // its begin

	stash  string // a draft that was set aside, with markers of its pastes
	recall recall
	search search
	menu   menu
	vi     vi
}

// A buffer is a text and the place of the cursor in it.
type buffer struct {
	text string
	at   int
}

// New returns an empty editor. It ignores bindings of actions that do not exist;
// [Editor.Actions] has their names.
func New(o Options) *Editor {
	if o.Rows <= 0 {
		o.Rows = 12
	}
	e := &Editor{o: o, goal: -1, bindings: defaultBindings()}
	e.actions = e.table()
	maps.Copy(e.bindings, o.Bindings)
	e.vi.insert = true
	return e
}

// Actions returns the names of the actions that keys can be bound to.
func (e *Editor) Actions() []string { return slices.Collect(maps.Keys(e.actions)) }

// TakesEsc reports whether Esc has a meaning here: it ends a menu or a search. With vi keys it is for the text and the
// command that are typed; who is used to them presses it too often rather than too seldom.
func (e *Editor) TakesEsc() bool {
	return e.menu.on || e.search.on || e.o.Vi && (e.text != "" || len(e.vi.command) > 0)
}

// Text returns the text with the contents of its pastes.
func (e *Editor) Text() string { return e.whole(e.text) }

// Empty reports whether there is no text, nor a search in the history, whose query is typed.
func (e *Editor) Empty() bool { return e.text == "" && !e.search.on }

// SetText replaces the text, which can be undone. The cursor is at its end.
func (e *Editor) SetText(text string) {
	e.save("")
	text = sanitize(text)
	e.buffer = buffer{text, len(text)}
	e.leaveModes()
}

// SetPrompt changes the prompt.
func (e *Editor) SetPrompt(prompt string) { e.o.Prompt = prompt }

// Key changes the text as a key wants it.
func (e *Editor) Key(k tty.Key) Event {
	e.event = Event{}
	e.dispatch(k)
	e.snap()
	switch {
	case e.text == "":
		e.began = time.Time{}
	case e.began.IsZero():
		e.began = k.At
	}
	if e.event.Kind == Submit && e.event.Began.IsZero() {
		e.event.Began = k.At
	}
	return e.event
}

func (e *Editor) dispatch(k tty.Key) {
	switch {
	case k.Name == tty.Paste:
		e.leaveModes()
		e.doing = ""
		e.insertPaste(k.Text)
	case e.search.on && e.searchKey(k):
	case e.menu.on && e.menuKey(k):
	case e.o.Vi && e.viKey(k):
	default:
		e.plainKey(k)
	}
}

// plainKey runs the action of a key, or inserts its character.
func (e *Editor) plainKey(k tty.Key) {
	if name, bound := e.bindings[k.String()]; bound && e.actions[name] != nil {
		e.run(name)
		return
	}
	if !k.Printable() {
		e.doing = ""
		e.event.Kind = Unbound
		return
	}
	e.recall.on = false
	e.typed(string(k.Rune))
}

// run runs an action. Actions that go on with the one before see its name in doing.
func (e *Editor) run(name string) {
	if name != "up" && name != "down" {
		e.goal, e.recall.on = -1, false
	}
	e.actions[name]()
	e.doing = name
}

// typing is what an editor is doing while characters are inserted.
const typing = "typing"

// typed inserts a character. A word is undone as a whole, and with vi keys all that is
// typed in insert mode.
func (e *Editor) typed(text string) {
	if e.doing != typing || text == " " && !e.o.Vi {
		e.save("")
	}
	e.insert(sanitize(text))
	e.doing = typing
}

// insert puts text in front of the cursor.
func (e *Editor) insert(text string) {
	e.goal = -1
	e.text = e.text[:e.at] + text + e.text[e.at:]
	e.at += len(text)
}

// remove deletes a part of the text, and returns it.
func (e *Editor) remove(from, to int) string {
	cut := e.text[from:to]
	e.text = e.text[:from] + e.text[to:]
	e.at = from
	return cut
}

const (
	maxUndo      = 200
	maxUndoBytes = 8 << 20
)

// save keeps the text for undo, unless the action goes on with the one before.
func (e *Editor) save(goesOn string) {
	if goesOn != "" && e.doing == goesOn {
		return
	}
	e.past = append(e.past, e.buffer)
	size := 0
	for i := len(e.past) - 1; i >= 0; i-- {
		size += len(e.past[i].text)
		if size > maxUndoBytes || len(e.past)-i > maxUndo {
			e.past = append([]buffer(nil), e.past[i+1:]...)
			return
		}
	}
}

func (e *Editor) undo() {
	for len(e.past) > 0 {
		last := e.past[len(e.past)-1]
		e.past = e.past[:len(e.past)-1]
		if last.text != e.text {
			e.buffer = last
			return
		}
	}
}

// leaveModes ends the search, the menu and the walk through the history.
func (e *Editor) leaveModes() {
	e.search.on, e.menu.on, e.recall.on, e.goal = false, false, false, -1
}

// submit hands the text over. A backslash in front of the cursor asks for a new line.
func (e *Editor) submit() {
	if e.at > 0 && e.text[e.at-1] == '\\' {
		e.save("")
		e.remove(e.at-1, e.at)
		e.insert("\n")
		return
	}
	e.event = Event{Kind: Submit, Text: e.Text(), Began: e.began}
	e.Clear()
	e.past = nil
	e.forgetPastes()
}

// Clear removes the text. That can be undone.
func (e *Editor) Clear() {
	e.save("")
	e.buffer = buffer{}
	e.leaveModes()
	e.vi.reset(true)
}

// forgetPastes drops the pastes if nothing that can come back has a marker of one.
func (e *Editor) forgetPastes() {
	if !strings.ContainsFunc(e.stash+e.vi.register+strings.Join(e.kills, ""), isMarker) {
		e.pastes = nil
	}
}

// putAside keeps the text for later, and brings back what was kept before.
func (e *Editor) putAside() {
	e.save("")
	text := e.text
	e.buffer = buffer{e.stash, len(e.stash)}
	e.stash = text
	e.leaveModes()
}

// Aside returns the first line of the draft that was set aside.
func (e *Editor) Aside() string {
	first, _, _ := strings.Cut(e.shown(e.stash), "\n")
	return first
}
