package session

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/snapshot"
)

// A session is stored as records, each one line of JSON. The first is the header. The other kinds
// are the constants below; a record without a kind is a fact of a run.
//
// A run first records facts: each part of the model's message and each output of a call is in one.
// When the message is complete, the record of its node names these facts instead of repeating them.
// So content is written once, and a crash at any moment leaves the facts from which the run is
// continued.
//
// Each record can be read on its own, apart from those references. So a damaged record costs only
// what it holds.

const (
	kindFact   = ""
	kindHeader = "session"
	kindRun    = "run"    // a run begins
	kindEnd    = "end"    // a run is over
	kindAsk    = "ask"    // a run is suspended; holds its questions
	kindNode   = "node"   // a node of the tree
	kindHead   = "head"   // a branch begins, or continues elsewhere
	kindLabel  = "label"  // a node gets a label
	kindTitle  = "title"  // the session gets a title
	kindSay    = "say"    // a message of the user waits for a run
	kindUnsay  = "unsay"  // the waiting messages of a branch are withdrawn
	kindMove   = "move"   // a head record is about to follow, when the files are those of its node
	kindUndo   = "undo"   // a head record that Redo takes back
	kindRedo   = "redo"   // a head record that takes an undo back
	kindValue  = "value"  // values of the session have changed
	kindOutput = "output" // a whole output of a tool is kept
	kindKeep   = "keep"   // values of a branch have changed; they belong to its next node
)

// record is any record but a fact. Each kind uses some of the fields.
type record struct {
	Kind string `json:"t"`
	// ID is the node that the record is about. Parent is that of a node, unless it is ID-1.
	ID     ID  `json:"n,omitempty"`
	Parent *ID `json:"p,omitempty"`
	// Run is the number of a run, counted from 1 in a session.
	Run    int64  `json:"r,omitempty"`
	Branch string `json:"b,omitempty"`
	At     int64  `json:"at,omitempty"` // milliseconds since 1970

	Message *wireMessage              `json:"m,omitempty"`
	Context []*aycoder.Message        `json:"context,omitempty"`
	Files   map[string]snapshot.State `json:"files,omitempty"` // of a head: those that a checkout has changed
	shownDelta
	Steps  snapshot.Steps  `json:"steps,omitempty"` // what the run has changed: of a node since the last one
	Answer *Answer         `json:"answer,omitempty"`
	Cost   float64         `json:"cost,omitempty"`  // of the answer, if a fact has the rest of it
	Spent  []aycoder.Spent `json:"spent,omitempty"` // in calls

	Values map[string]json.RawMessage `json:"values,omitempty"` // see WithValue

	Name     string                    `json:"name,omitempty"`  // the id of a run, a label, a title or a kind
	Paths    []string                  `json:"paths,omitempty"` // of the files that go back
	Lost     bool                      `json:"lost,omitempty"`  // of a node: its record was damaged
	Start    *startRecord              `json:"start,omitempty"`
	Loose    bool                      `json:"loose,omitempty"` // of a run: it goes on if the journal fails
	State    *aycoder.State            `json:"state,omitempty"` // with which a run begins that the session did not begin
	Requests []aycoder.ApprovalRequest `json:"requests,omitempty"`
	Say      *aycoder.Steered          `json:"say,omitempty"`
	Output   *keptOutput               `json:"output,omitempty"`

	Header *header `json:"session,omitempty"`

	Letter string `json:"letter,omitempty"` // of a message, or of one that a migrated session has had: see SteerOnce

	line    []byte           // of a fact
	seq     int64            // of a fact
	part    aycoder.Part     // that a fact carries, or nil
	place   journal.Place    // in the journal, if its records can be read again
	first   *record          // of a node: the first fact that has a part of it
	message *aycoder.Message // of a node
	answer  *Answer          // of a node, if the fact of its run has it
	runID   string           // of a node: the id of its run
	lost    bool             // a node whose own record is damaged
}

// parent returns the parent of a node.
func (r *record) parent() ID {
	if r.Parent != nil {
		return *r.Parent
	}
	return r.ID - 1
}

// at gives the record of a node its place in the tree.
func (r *record) at(id, parent ID) *record {
	if r.ID, r.Parent = id, nil; parent != id-1 {
		r.Parent = &parent
	}
	return r
}

// node returns the node that the record adds to the tree.
func (r *record) node() *Node {
	return &Node{
		ID: r.ID, Parent: r.parent(), outline: r.message, Context: r.Context, Files: r.Files, Branch: r.Branch,
		shown: r.shownDelta, Run: r.runID, At: fromMillis(r.At), Answer: r.answered(), Spent: r.Spent, Lost: r.lost, values: r.Values,
	}
}

// header is the first record of a session.
type header struct {
	Version int    `json:"version"`
	ID      string `json:"id"`
	Dir     string `json:"dir,omitempty"`
	// GitBranch is the branch of git that was checked out in Dir.
	GitBranch string `json:"git_branch,omitempty"`
}

// startRecord is what a run starts with, beside the conversation. It is recorded when it differs
// from that of the run before.
type startRecord struct {
	Model    string         `json:"model,omitempty"`
	MaxTurns int            `json:"max_turns,omitempty"`
	MaxCalls int            `json:"max_calls,omitempty"`
	Tools    map[string]int `json:"tools,omitempty"` // effects by name
	Own      []string       `json:"own,omitempty"`   // those that only this run had, not the agent
	// GitBranch is as in the header.
	GitBranch string `json:"git_branch,omitempty"`
}

// wireMessage is a message whose parts are JSON objects, or numbers of facts of the run that carried
// them.
type wireMessage struct {
	Role  aycoder.Role      `json:"role"`
	Parts []json.RawMessage `json:"parts"`
}

// encode returns the line of a record.
func (r *record) encode() ([]byte, error) {
	if r.Kind == kindFact {
		return r.line, nil
	}
	line, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", r.Kind, err)
	}
	return line, nil
}

// placed notes where the record is.
func (r *record) placed(p journal.Place) {
	if r.first != nil {
		p = journal.Place{At: r.first.place.At, Size: p.At + p.Size - r.first.place.At}
	}
	r.place, r.first = p, nil
}

// needs notes that a fact, which may be nil, has a part of the node.
func (r *record) needs(fact *record) {
	if fact != nil && (r.first == nil || fact.seq < r.first.seq) {
		r.first = fact
	}
}

// wire returns the stored form of a message. facts are the facts that carried parts.
func wire(m *aycoder.Message, facts map[aycoder.Part]*record) (*wireMessage, error) {
	own := aycoder.Message{Role: m.Role, Parts: slices.Clone(m.Parts)}
	for i, p := range m.Parts {
		if facts[p] != nil {
			own.Parts[i] = new(aycoder.Text) // keeps the place
		}
	}
	data, err := own.MarshalJSON()
	if err != nil {
		return nil, err
	}
	w := new(wireMessage)
	if err := json.Unmarshal(data, w); err != nil {
		return nil, err
	}
	for i, p := range m.Parts {
		if f := facts[p]; f != nil {
			w.Parts[i] = strconv.AppendInt(nil, f.seq, 10)
		}
	}
	return w, nil
}

var errLostPart = errors.New("a part of the message is lost with another record")

// message returns the message. carried returns the part that a fact carried, by number. If it is nil, a text
// takes the place of the part, and the error is errLostPart.
func (w *wireMessage) message(carried func(int64) aycoder.Part) (*aycoder.Message, error) {
	own := wireMessage{Role: w.Role, Parts: append([]json.RawMessage{}, w.Parts...)}
	facts := map[int]int64{} // by the index of the part
	for i, p := range w.Parts {
		if n, err := strconv.ParseInt(string(p), 10, 64); err == nil {
			facts[i], own.Parts[i] = n, json.RawMessage(`{"type":"text"}`) // keeps the place
		}
	}
	data, err := json.Marshal(own)
	if err != nil {
		return nil, err
	}
	m := new(aycoder.Message)
	if err := json.Unmarshal(data, m); err != nil {
		return nil, err
	}
	var lost error
	for _, i := range slices.Sorted(maps.Keys(facts)) {
		if m.Parts[i] = carried(facts[i]); m.Parts[i] == nil {
			m.Parts[i], lost = &aycoder.Text{Text: "[this part was lost with a damaged record]"}, errLostPart
		}
	}
	return m, lost
}

// carried returns the part that a fact brings into the conversation, or nil.
func carried(f aycoder.Fact) aycoder.Part {
	switch f := f.(type) {
	case *aycoder.BlockDone:
		return f.Part
	case *aycoder.BlockTruncated:
		return f.Call
	case *aycoder.ToolDone:
		if f.Output != nil {
			return f.Output
		}
	}
	return nil
}

func millis(t time.Time) int64 { return t.UnixMilli() }

func fromMillis(ms int64) time.Time { return time.UnixMilli(ms) }
