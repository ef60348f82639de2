package session

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/callid"
	"github.com/aycoder/aycoder/internal/part"
)

// Nodes that no request needs would take most of the memory of a long conversation. Those of which the
// records say everything, and of which nothing counts at later nodes, are released: a stub takes the place of
// the node in the tree, and a View reads the node again. In a history, the message of a stub has neither contents nor calls. The first of these
// messages has the hashes of all ids of such calls, so that no other call gets one of these ids.

// stubs are the nodes that stand for released ones.
var stubs = map[stubKind]*Node{
	{aycoder.RoleUser, false}: stubOf(aycoder.RoleUser, false), {aycoder.RoleAssistant, false}: stubOf(aycoder.RoleAssistant, false),
	{aycoder.RoleUser, true}: stubOf(aycoder.RoleUser, true), {aycoder.RoleAssistant, true}: stubOf(aycoder.RoleAssistant, true),
}

type stubKind struct {
	role      aycoder.Role
	untrusted bool
}

func stubOf(role aycoder.Role, untrusted bool) *Node {
	outline := &aycoder.Message{Role: role, Parts: []aycoder.Part{part.Mark{Outline: true, Untrusted: untrusted}.Part()}}
	if role == aycoder.RoleAssistant { // a mark at the end of its message would be a note
		outline.Parts = append(outline.Parts, plainOutlines[role].Parts[1])
	}
	return &Node{ID: -1, outline: outline}
}

func (n *Node) isStub() bool { return n.ID < 0 }

// callSum is the hash of the id of a call in a node that was released.
type callSum struct {
	node int32
	sum  callid.Sum
}

// mostReleased is how many nodes are released at once: each of them is read again.
const mostReleased = 4096

// release releases those of some nodes whose messages nobody has. The mutex is held, or the session is new.
func (s *Session) release(v *View, ids []ID) {
	nodes, calls := []*Node(nil), slices.Clip(v.calls)
	left := mostReleased
	for _, id := range ids {
		n := v.nodes[id]
		if n.stays || n.source == nil || n.inUse() != nil {
			continue
		}
		if left--; left < 0 {
			break
		}
		if n.stays = n.stub() == nil || n.asked() || n.counts() || !n.same(v.released(id)); n.stays {
			continue
		}
		if nodes == nil { // other views keep the old ones
			nodes = slices.Clone(v.nodes)
		}
		nodes[id] = n.stub()
		for _, sum := range sumsOf(n.outline) {
			calls = append(calls, callSum{int32(id), sum})
		}
	}
	if nodes == nil {
		return
	}
	slices.SortStableFunc(calls, func(a, b callSum) int { return int(a.node - b.node) })
	s.tree.nodes, s.tree.calls = nodes, slices.Clone(calls) // without room for more
	s.publish()
}

// asked reports whether the user has asked something of a compactor in the message of a node.
func (n *Node) asked() bool {
	return slices.ContainsFunc(n.outline.Parts, func(p aycoder.Part) bool {
		m, _ := part.MarkOf(p)
		return m.Compact != nil
	})
}

// counts reports whether what holds at later nodes, such as the state of a file, comes from a node.
func (n *Node) counts() bool {
	return n.Context != nil || len(n.Files) > 0 || n.shown.Forgot || len(n.shown.Shown) > 0 || len(n.values) > 0
}

// same reports whether two nodes are the same but for their messages.
func (n *Node) same(m *Node) bool {
	a, err1 := json.Marshal(n.record())
	b, err2 := json.Marshal(m.record())
	return err1 == nil && err2 == nil && bytes.Equal(a, b)
}

// outlined returns the conversation that leads to a node, with outlines of messages.
func (v *View) outlined(id ID) []*aycoder.Message {
	context, ids := v.conversation(id)
	return append(slices.Clip(context), v.outlines(ids, func(int) bool { return false })...)
}

// outlines returns messages of a conversation as outlines. Those that are whole do not stand for others.
func (v *View) outlines(ids []ID, whole func(i int) bool) []*aycoder.Message {
	var out []*aycoder.Message
	first, sums, calls := -1, []callid.Sum(nil), v.calls
	for i, id := range ids {
		n := v.nodes[id]
		if !n.isStub() && v.nodes[ids[v.partner(ids, i)]].isStub() { // they are only valid together
			sums = append(sums, sumsOf(n.outline)...)
			n = n.stub()
		}
		for ; len(calls) > 0 && ID(calls[0].node) <= id; calls = calls[1:] {
			if ID(calls[0].node) == id {
				sums = append(sums, calls[0].sum)
			}
		}
		if first < 0 && n.isStub() && !whole(i) {
			first = len(out)
		}
		out = append(out, n.outline)
	}
	if len(sums) > 0 && first >= 0 {
		m := out[first]
		mark := part.Mark{Calls: callid.Set(sums), Outline: true, Untrusted: part.Untrusted(m)}
		out[first] = &aycoder.Message{Role: m.Role, Parts: append([]aycoder.Part{mark.Part()}, m.Parts[1:]...)}
	}
	return out
}

// whole returns which messages a history has whole: those that are needed, and those that were released and
// belong to one that is needed.
func (v *View) whole(ids []ID, needed func(i int) bool) func(i int) bool {
	return func(i int) bool {
		p := v.partner(ids, i)
		return needed(i) || needed(p) && (v.nodes[ids[i]].isStub() || v.nodes[ids[p]].isStub())
	}
}

// partner returns which message has the outputs of the calls of message i, or the calls of its outputs. It
// returns i if there is none.
func (v *View) partner(ids []ID, i int) int {
	switch {
	case i+1 < len(ids) && v.calling(ids[i]):
		return i + 1
	case i > 0 && v.calling(ids[i-1]):
		return i - 1
	}
	return i
}

// calling reports whether the message of a node has calls.
func (v *View) calling(id ID) bool {
	if n := v.nodes[id]; !n.isStub() {
		return slices.ContainsFunc(n.outline.Parts, isUse)
	}
	_, ok := slices.BinarySearchFunc(v.calls, id, func(c callSum, id ID) int { return cmp.Compare(ID(c.node), id) })
	return ok
}

func isUse(p aycoder.Part) bool {
	_, ok := p.(*aycoder.ToolUse)
	return ok
}

// stub returns the node that stands for n when it is released, or nil.
func (n *Node) stub() *Node { return stubs[stubKind{n.outline.Role, part.Untrusted(n.outline)}] }

func sumsOf(m *aycoder.Message) []callid.Sum {
	var out []callid.Sum
	for _, use := range m.Calls() {
		out = append(out, callid.SumOf(use.ID))
	}
	return out
}
