package session

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/journal"
)

// Fork makes a new session from the path to a node: its messages, labels and files. The new session
// is in the same store, answers with the agent of the branch, and depends on nothing of this one.
func (b *Branch) Fork(ctx context.Context, id ID, opts ...Option) (*Session, error) {
	s := b.session
	s.mu.Lock()
	agent, known, err := b.agent, s.recorded[b.jobsKey()], s.usable("fork")
	s.mu.Unlock()
	v := s.View()
	if err == nil && !v.has(id) {
		err = noNode("fork", b.Phase(), id)
	}
	if err != nil {
		return nil, err
	}
	f, err := New(ctx, s.store, agent, append([]Option{WithDir(s.config.dir)}, opts...)...)
	if err != nil {
		return nil, err
	}
	err = s.copyOutputs(ctx, f, s.outputsOn(v, v.path(id)))
	f.mu.Lock()
	defer f.mu.Unlock()
	for hash, needed := range v.objects(v.Path(id)) {
		var data []byte
		if err == nil && needed { // git has the others
			data, err = s.journal.Get(ctx, hash)
		}
		if err == nil && needed {
			err = f.journal.Put(ctx, hash, data)
		}
	}
	if err == nil {
		err = f.take(ctx, v, v.path(id))
	}
	if err == nil && f.files != nil { // it was attached without the files of the nodes
		f.files.Detach()
		err = f.attach(ctx, v.Files(id))
	}
	if err == nil {
		err = f.countJobs(ctx, known)
	}
	if err != nil {
		return nil, errors.Join(err, f.discard(ctx))
	}
	f.checkHeads()
	return f, nil
}

// objects returns the hashes of the objects that some nodes need.
func (v *View) objects(nodes []*Node) map[journal.Hash]bool {
	out := map[journal.Hash]bool{}
	for _, n := range nodes {
		for _, f := range n.Files {
			f.AddObjects(out)
		}
		n.shown.objects(out)
	}
	delete(out, "")
	return out
}

// take writes nodes into the session, which is new. A node whose parent is not among them is left
// out. The mutex is held.
func (s *Session) take(ctx context.Context, v *View, ids []ID) error {
	records := []*record{}
	moved := map[ID]ID{Root: Root}
	var labels []*record
	for _, old := range ids {
		parent, ok := moved[v.parent(old)]
		if old == Root || !ok {
			continue
		}
		id := ID(len(moved))
		moved[old] = id
		r, err := v.node(old).whole()
		if err != nil {
			return &journal.OpError{Op: "append to", Session: s.id, Err: err}
		}
		records = append(records, r.at(id, parent))
		r.Branch = ""
		if label := v.labels[old]; label != "" {
			labels = append(labels, &record{Kind: kindLabel, ID: id, Name: label})
		}
	}
	records = append(records, labels...)
	if v.title != "" {
		records = append(records, &record{Kind: kindTitle, Name: v.title})
	}
	if err := s.write(ctx, true, records...); err != nil {
		return err
	}
	return s.describe(ctx)
}

// whole returns a record that holds all of a node.
func (n *Node) whole() (*record, error) {
	m, err := n.load()
	if err != nil {
		return nil, err
	}
	rec := n.record()
	if rec.message = m; m != nil {
		rec.Message, err = wire(m, nil)
	}
	return rec, err
}

// record returns a record that holds all of a node but its message.
func (n *Node) record() *record {
	return (&record{
		Kind: kindNode, Branch: n.Branch, At: millis(n.At), Context: n.Context, Files: n.Files, Values: n.values,
		shownDelta: n.shown, Answer: n.Answer, Spent: n.Spent, Name: n.Run, Lost: n.Lost, runID: n.Run, lost: n.Lost,
	}).at(n.ID, n.Parent)
}

// Trim rewrites the records of the session without those that only a crash in a finished run would
// need, and removes objects that no node refers to. The tree is as before. It waits for nothing: if
// a run works, it is refused.
func (s *Session) Trim(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable("trim"); err != nil || s.failed != nil {
		return errors.Join(err, s.failed)
	}
	for _, b := range s.branches {
		if b.active != nil || b.busy != "" {
			return &CommandError{Command: "trim", Phase: b.phase()}
		}
	}
	return s.rewrite(ctx, false)
}

// rewrite writes the records anew in the shortest form. It removes objects that no node refers to, unless it is to keep
// all. The mutex is held, or the session is new.
func (s *Session) rewrite(ctx context.Context, keepAll bool) error {
	j := s.journal.whole()
	if j == nil { // what is held is as short as it can be
		return ctx.Err()
	}
	v := s.View()
	header := &record{Kind: kindHeader, At: millis(v.nodes[Root].At),
		Header: &header{Version: recordVersion, ID: s.id, Dir: s.entry.Dir, GitBranch: s.entry.Branch}}
	var records []*record // that follow those of the nodes
	for _, id := range slices.Sorted(maps.Keys(v.labels)) {
		records = append(records, &record{Kind: kindLabel, ID: id, Name: v.labels[id]})
	}
	if v.title != "" {
		records = append(records, &record{Kind: kindTitle, Name: v.title})
	}
	if keepAll { // Trim forgets the ids
		for _, b := range s.branches {
			for id := range b.letters {
				records = append(records, &record{Kind: kindUnsay, Branch: b.name, Letter: id})
			}
		}
	}
	first := len(records) // of a branch, which is a head
	for _, name := range slices.Sorted(maps.Keys(s.branches)) {
		records = append(records, s.branches[name].records()...)
	}
	records[first].Files = s.checkedOut
	maps.DeleteFunc(s.recorded, func(name string, v json.RawMessage) bool { return string(v) == "null" && s.config.values[name] == nil })
	if len(s.recorded) > 0 {
		records = append(records, &record{Kind: kindValue, Values: s.recorded})
	}
	objects := v.objects(v.nodes)
	for _, b := range s.branches {
		b.asked.objects(objects)
		if b.pending != nil {
			b.stepsOfRun(b.number).AddObjects(objects)
		}
	}
	for _, state := range s.checkedOut {
		state.AddObjects(objects)
	}
	s.files.AddObjects(objects)
	for _, k := range s.outputs.list {
		objects[k.Hash] = true
		records = append(records, &record{Kind: kindOutput, Output: k})
	}
	places, at := make([]journal.Place, v.Len()), int64(0)
	var bad error
	s.start = nil
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	err := j.Rewrite(ctx, func(yield func([]byte) bool) {
		for i := range v.Len() + len(records) {
			r, err := header, error(nil)
			if i >= v.Len() {
				r = records[i-v.Len()]
			} else if i > 0 {
				r, err = v.node(ID(i)).whole()
			}
			var line []byte
			if err == nil {
				r.At = cmp.Or(r.At, millis(s.entry.Used))
				line, err = r.encode()
			}
			if err != nil {
				bad = &journal.OpError{Op: "trim", Session: s.id, Err: err}
				cancel() // what is written does not take the place of the records
			}
			if err != nil || !yield(line) {
				return
			}
			size := journal.LineSize(line)
			if r.Kind == kindNode {
				places[r.ID] = journal.Place{At: at, Size: size}
			}
			at += size
		}
	}, func(h journal.Hash) bool { return keepAll || objects[h] })
	if err = cmp.Or(bad, err); err == nil && s.source != nil {
		s.source.mu.Lock()
		s.source.places = places
		s.source.mu.Unlock()
	}
	return err
}

// records returns the records of what the branch is at, beside its nodes.
func (b *Branch) records() []*record {
	out, kind := []*record(nil), kindHead
	for _, id := range append(slices.Clip(b.redo), b.session.tree.heads[b.name]) { // each undo led to the next node
		out = append(out, &record{Kind: kind, ID: id, Branch: b.name})
		kind = kindUndo
	}
	if b.moving != nil {
		out = append(out, b.moving)
	}
	for _, q := range b.said {
		out = append(out, &record{Kind: kindSay, Branch: b.name, Say: q})
	}
	if b.fresh != nil {
		out = append(out, &record{Kind: kindKeep, Branch: b.name, Values: b.fresh})
	}
	return append(out, b.suspended()...)
}

// suspended returns the records of the pending run, if there is one, with all of its state.
func (b *Branch) suspended() []*record {
	p := b.pending
	if p == nil {
		return nil
	}
	head := b.session.tree.heads[b.name]
	run := &record{Kind: kindRun, Run: b.number, Branch: b.name, Name: p.Run, ID: head, State: &p.State}
	return []*record{run, b.ask()}
}

// ask returns the record of the questions of the pending run, and of what its model was shown in the
// open turn.
func (b *Branch) ask() *record {
	r := &record{Kind: kindAsk, Run: b.number, Branch: b.name, Requests: b.pending.Requests,
		shownDelta: b.asked, Steps: b.stepsOfRun(b.number), Answer: b.answer, Spent: b.spent}
	if b.unsure || b.shown != nil && b.shown.forgot {
		r.shownDelta = shownDelta{Forgot: true}
	}
	return r
}

// Import makes a session from a document that [View.WriteJSON] wrote. The document has no contents
// of files, so no node of the session holds any.
func Import(ctx context.Context, store journal.Store, agent aycoder.Agent, r io.Reader, opts ...Option) (*Session, error) {
	var doc document
	if err := json.NewDecoder(r).Decode(&doc); err != nil {
		return nil, fmt.Errorf("import session: %w", err)
	}
	v, err := doc.view()
	if err != nil {
		return nil, fmt.Errorf("import session: %w", err)
	}
	s, err := New(ctx, store, agent, opts...)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	err = s.take(ctx, v, v.all())
	for _, name := range v.Branches() {
		if err == nil {
			err = s.write(ctx, true, &record{Kind: kindHead, ID: v.heads[name], Branch: name})
		}
	}
	if err != nil {
		return nil, errors.Join(err, s.discard(ctx))
	}
	s.checkHeads()
	return s, nil
}

// view checks the document and returns its tree.
func (doc *document) view() (*View, error) {
	switch {
	case doc.Format != documentFormat:
		return nil, fmt.Errorf("it has the format %q instead of %q", doc.Format, documentFormat)
	case doc.Version > recordVersion:
		return nil, fmt.Errorf("it has version %d, and this program reads versions up to %d", doc.Version, recordVersion)
	}
	t := newTree(time.Time{}, nil)
	t.labels, t.title = map[ID]string{}, doc.Title
	for i, n := range doc.Nodes {
		if n == nil || n.Node == nil || n.ID != ID(i+1) || n.Parent < 0 || n.Parent >= n.ID {
			return nil, fmt.Errorf("node %d is missing, or has a wrong parent", i+1)
		}
		if n.Message != nil && len(n.Message.Parts) == 0 {
			return nil, fmt.Errorf("the message of node %d is empty", i+1)
		}
		if err := aycoder.CheckHistory(n.Context); err != nil {
			return nil, fmt.Errorf("context of node %d: %w", i+1, err)
		}
		n.outline, n.Files = n.Message, nil // no content of a file is held
		if t.add(n.Node); n.Label != "" {
			t.labels[n.ID] = n.Label
		}
	}
	for name, id := range doc.Heads {
		if !t.view().has(id) {
			return nil, fmt.Errorf("branch %q continues at node %d, which is missing", name, id)
		}
		t.heads[name] = id
	}
	return t.view(), nil
}
