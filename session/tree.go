package session

import (
	"cmp"
	"encoding/json"
	"iter"
	"maps"
	"slices"
	"sync/atomic"
	"time"
	"weak"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/snapshot"
)

// ID identifies a node of a session. The root is 0, and each further node has the next number.
type ID int

// Root is the node with which each session begins. It has no message and no parent.
const Root ID = 0

// Node is a point of a conversation: a message, and what the files of the workspace looked like
// when the message was complete. Nodes form a tree. A node never changes, so it can be read without
// a lock; its messages and its maps must not be changed.
type Node struct {
	// ID is the number of the node, and Parent that of the node before. The Parent of the root
	// is the root.
	ID     ID `json:"id"`
	Parent ID `json:"parent"`
	// Context, if it is not nil, takes the place of all messages of the path up to this node when
	// the model is asked: see [Session.Compact]. The nodes before it are still in the tree.
	Context []*aycoder.Message `json:"context,omitempty"`
	// Files are the files that differ from those of the parent, by path: see [View.Files].
	Files map[string]snapshot.State `json:"files,omitempty"`
	// Run is the id of the run that made the node, or "".
	Run string `json:"run,omitempty"`
	// Branch is the name of the branch on which the node was made, see [Session.NewBranch].
	Branch string `json:"branch,omitempty"`
	// At is the time at which the node was made.
	At time.Time `json:"at"`
	// Answer says who wrote the message and what it cost, or, if the model did not write the message or
	// there is none, what the summary of a compaction cost. It is nil if no model was asked.
	Answer *Answer `json:"answer,omitempty"`
	// Spent says what the calls whose outputs are in the message have spent on models, such as the agents that a tool
	// runs. If the node has no message, it is what an agent in the background has spent. The first message of a run whose
	// agent ignores [aycoder.WithFacts] has what the run has spent.
	Spent []aycoder.Spent `json:"spent,omitempty"`
	// Lost says that the record of the node is damaged or gone, so that Message and Files are unknown.
	Lost bool `json:"-"`

	outline *aycoder.Message // see outlineOf; nil if the node has no message
	source  *source          // of the message, or nil if outline is the message itself
	seen    atomic.Pointer[weak.Pointer[aycoder.Message]]

	shown  shownDelta
	values map[string]json.RawMessage // of Branch.Keep, those that changed
	stays  bool                       // it is never released, see release
}

// spending returns what models have used for the node, and its cost.
func (n *Node) spending() (used aycoder.Usage, cost float64) {
	if n.Answer != nil {
		used, cost = n.Answer.Usage, n.Answer.Cost
	}
	for i := range n.Spent {
		used, cost = used.Add(n.Spent[i].Usage), cost+n.Spent[i].Cost
	}
	return used, cost
}

// Message returns the message that the node adds to the conversation. It is nil if the node only
// records files or a Context, and for the root. A message that is not in memory is read from the store. If
// that is not possible any more, a text that says so takes the place of its contents.
func (n *Node) Message() *aycoder.Message {
	m, err := n.load()
	if err != nil {
		return unreadable(n.outline, err)
	}
	return m
}

// loaded yields nodes with their messages.
func (v *View) loaded(ids []ID) iter.Seq2[*Node, *aycoder.Message] {
	return func(yield func(*Node, *aycoder.Message) bool) {
		for _, id := range ids {
			if n := v.node(id); !yield(n, n.Message()) {
				return
			}
		}
	}
}

// Answer says which model wrote a message, and how many tokens it used.
type Answer struct {
	// Provider and Model say who answered, which may be another model than the one that was asked
	// first: see package middleware. ID is the id of the message, and RequestID that of the request.
	Provider  string        `json:"provider,omitempty"`
	Model     string        `json:"model,omitempty"`
	ID        string        `json:"id,omitempty"`
	RequestID string        `json:"request_id,omitempty"`
	Usage     aycoder.Usage `json:"usage,omitzero"`
	// Cost is the price of the message in US dollars, or 0 if it was unknown: see [WithPrices].
	Cost float64 `json:"cost,omitempty"`
}

// View is a snapshot of a session. It never changes, and reading it takes no lock, also while a
// run adds nodes. Messages and nodes that are not in memory are read from the store, also after the session
// is closed; a node that is gone from there is Lost. Methods that take an ID treat one that is not in the View as the root.
type View struct {
	nodes   []*Node // the index is the ID; a stub stands for one that has to be read
	parents []edge
	source  *source // of nodes that have to be read
	calls   []callSum
	labels  map[ID]string
	heads   map[string]ID // by branch
	title   string
	used    aycoder.Usage
	cost    float64
	// damaged says that some records were lost, so that a call may be without its output.
	damaged bool
}

// Len returns the number of nodes. Their IDs are 0 to Len-1.
func (v *View) Len() int { return len(v.nodes) }

// Node returns the node with an ID, or nil if there is none.
func (v *View) Node(id ID) *Node {
	if !v.has(id) {
		return nil
	}
	return v.node(id)
}

func (v *View) has(id ID) bool { return id >= 0 && int(id) < len(v.nodes) }

// all returns the IDs of all nodes.
func (v *View) all() []ID {
	ids := make([]ID, len(v.nodes))
	for i := range ids {
		ids[i] = ID(i)
	}
	return ids
}

// known returns an ID, or that of the root if there is no such node.
func (v *View) known(id ID) ID {
	if v.has(id) {
		return id
	}
	return Root
}

// An edge says which parent a node has, if it is not the node before.
type edge struct{ node, parent ID }

// parent returns the parent of a node. That of the root is the root.
func (v *View) parent(id ID) ID {
	i, ok := slices.BinarySearchFunc(v.parents, id, func(e edge, id ID) int { return cmp.Compare(e.node, id) })
	if ok {
		return v.parents[i].parent
	}
	return id - 1
}

// node returns the node with an ID, or the root.
func (v *View) node(id ID) *Node {
	id = v.known(id)
	if n := v.nodes[id]; !n.isStub() {
		return n
	}
	return v.released(id)
}

// Head returns the node with which the conversation of a branch continues: "" is the branch of the
// [Session] itself. A branch that does not exist has the root as its head.
func (v *View) Head(branch string) ID { return v.heads[branch] }

// Branches returns the names of the branches, sorted. The first is "".
func (v *View) Branches() []string {
	return slices.Sorted(maps.Keys(v.heads))
}

// Title returns the title that the user gave to the session, or "".
func (v *View) Title() string { return v.title }

// Label returns the label of a node, or "".
func (v *View) Label(id ID) string { return v.labels[id] }

// Labelled returns the node with a label. If several nodes have it, it returns the newest.
func (v *View) Labelled(label string) (ID, bool) {
	found, ok := Root, false
	for id, l := range v.labels {
		if l == label && id >= found {
			found, ok = id, true
		}
	}
	return found, ok
}

// Path returns the nodes from the root to a node, both included.
func (v *View) Path(id ID) []*Node { return v.read(v.path(id)) }

// read returns nodes.
func (v *View) read(ids []ID) []*Node {
	var out []*Node
	for _, id := range ids {
		out = append(out, v.node(id))
	}
	return out
}

// path returns the IDs of the nodes from the root to a node, both included.
func (v *View) path(id ID) []ID {
	path := []ID{v.known(id)}
	for at := path[0]; at != Root; {
		at = v.parent(at)
		path = append(path, at)
	}
	slices.Reverse(path)
	return path
}

// Messages returns the conversation that leads to a node, as the model gets it: the messages of the
// path, from the last Context on. It is a valid history for [aycoder.Input]: if the node is a
// message with calls, whose outputs are in the next node, outputs that say so follow it.
func (v *View) Messages(id ID) []*aycoder.Message {
	context, ids := v.conversation(id)
	out, lost := slices.Clip(context), false
	for n, m := range v.loaded(ids) {
		out, lost = append(out, m), lost || n.Lost
	}
	if lost {
		return aycoder.RepairHistory(out)
	}
	return v.repaired(id, out)
}

// conversation returns the last Context of the path to a node, and the nodes with the messages after it.
func (v *View) conversation(id ID) (context []*aycoder.Message, ids []ID) {
	for id = v.known(id); ; id = v.parent(id) {
		n := v.nodes[id]
		if n.outline != nil {
			ids = append(ids, id)
		}
		if n.Context != nil || id == Root {
			slices.Reverse(ids)
			return n.Context, ids
		}
	}
}

// repaired returns the messages that lead to a node as a valid history.
func (v *View) repaired(id ID, messages []*aycoder.Message) []*aycoder.Message {
	if v.damaged || v.unanswered(id) {
		return aycoder.RepairHistory(messages)
	}
	return messages
}

// unanswered reports whether the path to a node ends with calls that have no outputs.
func (v *View) unanswered(id ID) bool {
	id = v.known(id)
	for n := v.nodes[id]; n.outline == nil && n.Context == nil && id != Root; n = v.nodes[id] {
		id = v.parent(id)
	}
	n := v.node(id)
	return n.outline != nil && len(n.outline.Calls()) > 0
}

// Usage returns what the models have used for all nodes, and what it has cost, in US dollars, as far
// as prices are known: see [WithPrices].
func (v *View) Usage() (used aycoder.Usage, cost float64) { return v.used, v.cost }

// Children returns the nodes that follow a node, the oldest first.
func (v *View) Children(id ID) []*Node {
	id = v.known(id)
	return v.filter(func(child ID) bool { return v.parent(child) == id && child != Root })
}

// Forks returns the nodes that have more than one child, the oldest first.
func (v *View) Forks() []*Node {
	n := v.children()
	return v.filter(func(id ID) bool { return n[id] > 1 })
}

// Leaves returns the nodes that have no child, the oldest first.
func (v *View) Leaves() []*Node {
	n := v.children()
	return v.filter(func(id ID) bool { return n[id] == 0 })
}

// children returns how many children each node has.
func (v *View) children() []int {
	n := make([]int, len(v.nodes))
	for id := Root + 1; v.has(id); id++ {
		n[v.parent(id)]++
	}
	return n
}

func (v *View) filter(keep func(ID) bool) []*Node {
	return v.read(slices.DeleteFunc(v.all(), func(id ID) bool { return !keep(id) }))
}

// Ancestor returns the last node that is on the paths to both a and b.
func (v *View) Ancestor(a, b ID) *Node {
	for a, b = v.known(a), v.known(b); a != b; { // a parent is older than its children
		if a, b = max(a, b), min(a, b); a != b {
			a = v.parent(a)
		}
	}
	return v.node(a)
}

// Files returns the states of the files at a node, by path, as far as the nodes of its path mention
// them. The caller may change the map. A file that only later nodes mention was, as far as the
// session knows, as First of its [snapshot.State] says.
func (v *View) Files(id ID) map[string]snapshot.State {
	out := map[string]snapshot.State{}
	for _, id := range v.path(id) {
		maps.Copy(out, v.nodes[id].Files)
	}
	return out
}

// tree is the part of a session that grows. Its owner changes it; others read a View. Nodes and parents are
// appended, behind the end of those in a View; the other slices and the maps are replaced, never changed.
type tree struct{ View }

func newTree(at time.Time, source *source) *tree {
	t := &tree{View: View{source: source, heads: map[string]ID{"": Root}}}
	t.add(&Node{At: at})
	return t
}

// view returns the snapshot of the present moment.
func (t *tree) view() *View { return new(t.View) }

// next returns the ID that the next node gets.
func (t *tree) next() ID { return ID(len(t.nodes)) }

// add puts a node into the tree. Its ID must be the next, and its parent must be in the tree.
func (t *tree) add(n *Node) {
	used, cost := n.spending()
	t.used, t.cost = t.used.Add(used), t.cost+cost
	t.nodes = append(t.nodes, n)
	if n.Parent != n.ID-1 {
		t.parents = append(t.parents, edge{n.ID, n.Parent})
	}
}

// merged returns a new map, in which b takes precedence. Views share the old one.
func merged[K comparable, V any](a, b map[K]V) map[K]V {
	out := make(map[K]V, len(a)+len(b))
	maps.Copy(out, a)
	maps.Copy(out, b)
	return out
}
