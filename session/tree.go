package session

import (
	"encoding/json"
	"iter"
	"maps"
	"slices"
	"sync/atomic"
	"time"
	"weak"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/persist"
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
	ID, Parent ID
	// Context, if it is not nil, takes the place of all messages of the path up to this node when
	// the model is asked: see [Session.Compact]. The nodes before it are still in the tree.
	Context []*aycoder.Message
	// Files are the files that differ from those of the parent, by path: see [View.Files].
	Files map[string]FileState
	// Run is the id of the run that made the node, or "".
	Run string
	// Branch is the name of the branch on which the node was made, see [Session.NewBranch].
	Branch string
	// At is the time at which the node was made.
	At time.Time
	// Answer says who wrote the message and what it cost, or, if the model did not write the message or
	// there is none, what the summary of a compaction cost. It is nil if no model was asked.
	Answer *Answer
	// Lost says that the record of the node is damaged, so that Message and Files are unknown.
	Lost bool

	outline *aycoder.Message // see outlineOf; nil if the node has no message
	source  *source          // of the message, or nil if outline is the message itself
	seen    atomic.Pointer[weak.Pointer[aycoder.Message]]

	shown   shownDelta
	values  map[string]json.RawMessage // of Branch.Keep, those that changed
	depth   int
	changed *Node // the nearest node at or above this one that has Files, or nil
	// The children are a list of siblings, the newest first. Only the head of the list changes, so
	// that a reader with an older View skips what came later.
	child   atomic.Pointer[Node]
	sibling *Node
}

// Message returns the message that the node adds to the conversation. It is nil if the node only
// records files or a Context, and for the root. A message that is not in memory is read from the store. If
// that is not possible any more, a text that says so takes the place of its contents.
func (n *Node) Message() *aycoder.Message {
	for _, m := range loaded([]*Node{n}) {
		return m
	}
	return nil
}

// loaded yields nodes with their messages.
func loaded(nodes []*Node) iter.Seq2[*Node, *aycoder.Message] {
	return func(yield func(*Node, *aycoder.Message) bool) {
		var r messageReader
		defer r.close()
		for _, n := range nodes {
			m, err := r.load(n)
			if err != nil {
				m = unreadable(n.outline, err)
			}
			if !yield(n, m) {
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
// run adds nodes. Messages that are not in memory are read from the store, also after the session is
// closed. Methods that take an ID treat one that is not in the View as the root.
type View struct {
	nodes  []*Node // the index is the ID
	labels map[ID]string
	heads  map[string]ID // by branch
	title  string
	// damaged says that some records were lost, so that a call may be without its output.
	damaged bool
}

// Len returns the number of nodes. Their IDs are 0 to Len-1.
func (v *View) Len() int { return len(v.nodes) }

// Node returns the node with an ID, or nil if there is none.
func (v *View) Node(id ID) *Node {
	if id < 0 || int(id) >= len(v.nodes) {
		return nil
	}
	return v.nodes[id]
}

// node returns the node with an ID, or the root.
func (v *View) node(id ID) *Node {
	if n := v.Node(id); n != nil {
		return n
	}
	return v.nodes[Root]
}

// Head returns the node with which the conversation of a branch continues: "" is the branch of the
// [Session] itself. A branch that does not exist has the root as its head.
func (v *View) Head(branch string) ID { return v.heads[branch] }

// Branches returns the names of the branches, sorted. The first is "".
func (v *View) Branches() []string {
	names := []string{""}
	for name := range v.heads {
		if name != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
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
func (v *View) Path(id ID) []*Node {
	n := v.node(id)
	path := make([]*Node, n.depth+1)
	for i := n.depth; i >= 0; i-- {
		path[i], n = n, v.node(n.Parent)
	}
	return path
}

// Messages returns the conversation that leads to a node, as the model gets it: the messages of the
// path, from the last Context on. It is a valid history for [aycoder.Input]: if the node is a
// message with calls, whose outputs are in the next node, outputs that say so follow it.
func (v *View) Messages(id ID) []*aycoder.Message {
	context, nodes := v.conversation(id)
	out := slices.Clip(context)
	for _, m := range loaded(nodes) {
		out = append(out, m)
	}
	return v.repaired(id, out)
}

// conversation returns the last Context of the path to a node, and the nodes with the messages after it.
func (v *View) conversation(id ID) (context []*aycoder.Message, nodes []*Node) {
	for n := v.node(id); ; n = v.node(n.Parent) {
		if n.outline != nil {
			nodes = append(nodes, n)
		}
		if n.Context != nil || n.ID == Root {
			slices.Reverse(nodes)
			return n.Context, nodes
		}
	}
}

// outlines returns the conversation that leads to a node, with outlines of messages.
func (v *View) outlines(id ID) []*aycoder.Message {
	context, nodes := v.conversation(id)
	out := slices.Grow(slices.Clip(context), len(nodes))
	for _, n := range nodes {
		out = append(out, n.outline)
	}
	return out
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
	n := v.node(id)
	for n.outline == nil && n.Context == nil && n.ID != Root {
		n = v.node(n.Parent)
	}
	return n.outline != nil && len(n.outline.Calls()) > 0
}

// Usage returns what the models have used for all nodes, and what it has cost, in US dollars, as far
// as prices are known: see [WithPrices].
func (v *View) Usage() (used aycoder.Usage, cost float64) {
	for _, n := range v.nodes {
		if n.Answer != nil {
			used = used.Add(n.Answer.Usage)
			cost += n.Answer.Cost
		}
	}
	return used, cost
}

// Children returns the nodes that follow a node, the oldest first.
func (v *View) Children(id ID) []*Node {
	var out []*Node
	for n := v.node(id).child.Load(); n != nil; n = n.sibling {
		if int(n.ID) < len(v.nodes) {
			out = append(out, n)
		}
	}
	slices.Reverse(out)
	return out
}

// Forks returns the nodes that have more than one child, the oldest first.
func (v *View) Forks() []*Node {
	return v.filter(func(n *Node) bool { return len(v.Children(n.ID)) > 1 })
}

// Leaves returns the nodes that have no child, the oldest first.
func (v *View) Leaves() []*Node {
	return v.filter(func(n *Node) bool { return len(v.Children(n.ID)) == 0 })
}

func (v *View) filter(keep func(*Node) bool) []*Node {
	var out []*Node
	for _, n := range v.nodes {
		if keep(n) {
			out = append(out, n)
		}
	}
	return out
}

// Ancestor returns the last node that is on the paths to both a and b.
func (v *View) Ancestor(a, b ID) *Node {
	x, y := v.node(a), v.node(b)
	for x.depth > y.depth {
		x = v.node(x.Parent)
	}
	for y.depth > x.depth {
		y = v.node(y.Parent)
	}
	for x != y {
		x, y = v.node(x.Parent), v.node(y.Parent)
	}
	return x
}

// Files returns the states of the files at a node, by path, as far as the nodes of its path mention
// them. The caller may change the map. A file that only later nodes mention was, as far as the
// session knows, as First of its [FileState] says.
func (v *View) Files(id ID) map[string]FileState {
	out := map[string]FileState{}
	for n := v.node(id).changed; n != nil; n = v.above(n).changed {
		for path, f := range n.Files {
			if _, ok := out[path]; !ok {
				out[path] = f
			}
		}
	}
	return out
}

// above returns the parent of a node. The root has a parent without Files.
func (v *View) above(n *Node) *Node {
	if n.ID == Root {
		return &Node{}
	}
	return v.node(n.Parent)
}

// tree is the part of a session that grows. Its owner changes it; others read a View.
type tree struct {
	nodes  persist.List[*Node]
	labels map[ID]string // replaced, never changed
	heads  map[string]ID // replaced, never changed
	title  string

	damaged bool
}

func newTree(at time.Time) *tree {
	at = fromMillis(millis(at)) // as it will be read again
	t := &tree{heads: map[string]ID{"": Root}}
	t.nodes = t.nodes.Append(&Node{At: at})
	return t
}

// view returns the snapshot of the present moment.
func (t *tree) view() *View {
	return &View{
		nodes: t.nodes.Items, labels: t.labels, heads: t.heads, title: t.title, damaged: t.damaged,
	}
}

// next returns the ID that the next node gets.
func (t *tree) next() ID { return ID(len(t.nodes.Items)) }

// add puts a node into the tree. Its ID must be the next, and its parent must be in the tree.
func (t *tree) add(n *Node) {
	parent := t.nodes.Items[n.Parent]
	n.depth = parent.depth + 1
	if n.changed = parent.changed; len(n.Files) > 0 {
		n.changed = n
	}
	n.sibling = parent.child.Load()
	t.nodes = t.nodes.Append(n)
	parent.child.Store(n)
}

// set returns a copy of a map with another value. Views share the old map.
func set[K comparable, V any](m map[K]V, key K, value V) map[K]V {
	next := make(map[K]V, len(m)+1)
	maps.Copy(next, m)
	next[key] = value
	return next
}
