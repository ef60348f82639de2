package session

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strconv"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/snapshot"
)

// Open opens a session of a store and becomes its writer. agent answers on its first branch; give
// the others theirs with [Branch.SetAgent]. [Session.Damage] returns the records that cannot be
// read, and [Session.Changes] what is not as it was. A run that was suspended, or that its process did
// not end, is in [Branch.Pending].
func Open(ctx context.Context, store journal.Store, id string, agent aycoder.Agent, opts ...Option) (*Session, error) {
	s, err := newSession(store, agent, opts)
	if err != nil {
		return nil, fmt.Errorf("open session: %w", err)
	}
	l, err := s.read(ctx, id, true)
	if l == nil {
		return nil, err
	}
	if err == nil && s.older { // before anything is appended; the workspace may still need the objects
		err = s.rewrite(ctx, true)
	}
	if err == nil {
		err = s.attach(ctx, l.files)
	}
	if err != nil {
		return nil, errors.Join(err, s.journal.close())
	}
	for _, b := range s.branches {
		b.requeue(&b.control)
	}
	s.restoreValues()
	if err := s.compare(ctx, l.files); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.config.dir = cmp.Or(s.config.dir, s.entry.Dir)
	s.entry.Dir = s.config.dir
	_ = s.describe(ctx) // the list of sessions is a convenience
	return s, nil
}

// Read returns the present snapshot of a session, which another process may be writing. The errors
// say which records could not be read.
func Read(ctx context.Context, store journal.Store, id string) (*View, []error, error) {
	s, err := readSession(ctx, store, id)
	if err != nil {
		return nil, nil, err
	}
	return s.View(), s.damage, nil
}

// ReadPending returns what [Branch.Pending] of the first branch returns to the writer of a session, for a process that only
// reads it: the questions of a suspended run, for example.
func ReadPending(ctx context.Context, store journal.Store, id string) (*aycoder.Pending, error) {
	return readPending(ctx, store, id, func(b *Branch) bool { return b.name == "" })
}

// ReadRun is [ReadPending] for the run with an id, on any branch. It returns nil if the run is over or unknown.
func ReadRun(ctx context.Context, store journal.Store, id, run string) (*aycoder.Pending, error) {
	return readPending(ctx, store, id, func(b *Branch) bool { return b.pending.Run == run })
}

// readPending returns the pending run of the branch for which is returns true.
func readPending(ctx context.Context, store journal.Store, id string, is func(*Branch) bool) (*aycoder.Pending, error) {
	s, err := readSession(ctx, store, id)
	if err != nil {
		return nil, err
	}
	for _, b := range s.branches {
		if b.pending != nil && is(b) {
			return b.pending, nil
		}
	}
	return nil, nil
}

// readSession reads a session. Its journal is closed again.
func readSession(ctx context.Context, store journal.Store, id string) (*Session, error) {
	if err := checkStore(store); err != nil {
		return nil, fmt.Errorf("read session: %w", err)
	}
	s := emptySession(store)
	l, err := s.read(ctx, id, false)
	if l == nil {
		return nil, err
	}
	return s, errors.Join(err, s.journal.close())
}

// read opens the journal, and rebuilds the session from its records. After an error behind this, the loader is not nil,
// and the journal is open.
func (s *Session) read(ctx context.Context, id string, write bool) (*loader, error) {
	j, err := s.store.Open(ctx, id, write)
	if err != nil {
		return nil, err
	}
	s.id = id
	s.journal, s.source = &depot{store: s.store, id: id, spare: s.config.memory, journal: j}, newSource(s.store, id)
	l := &loader{session: s, open: map[int64]*openRun{}, files: map[string]snapshot.State{}}
	if err = l.load(ctx); err == nil {
		err = l.resume(ctx, !write || s.older)
	}
	return l, err
}

var errNoHeader = errors.New("it has no header")

// loader rebuilds a session from its records.
type loader struct {
	session *Session
	open    map[int64]*openRun
	lost    ID                        // how many nodes
	files   map[string]snapshot.State // as the last records of all branches say
	at      int64                     // the time of the last record that has one
}

// maxLost is the number of lost nodes for which a session has nodes without a message.
const maxLost = 1 << 20

// openRun is a run whose end has not been read.
type openRun struct {
	progress
	branch   string
	from     ID  // the node at which it began
	added    int // nodes since
	start    *startRecord
	first    *aycoder.State // its first state, if it began in another session
	facts    []aycoder.Fact
	since    int               // the number of facts before the last node
	by       *record           // the fact that carried the answer
	parts    map[int64]*record // the facts that carry some, by number, until the node is read
	requests []aycoder.ApprovalRequest
	damaged  bool // some of its facts may be missing
	loose    bool // it may have gone on without records
	unsure   bool // a call has ended, and no record says what the model was shown then
}

// load reads all records.
func (l *loader) load(ctx context.Context) error {
	s := l.session
	position := 0
	for rec, err := range s.records(ctx) {
		position++
		if err == nil {
			if bad := l.line(rec); bad != nil {
				err = &journal.DamageError{OpError: &journal.OpError{Op: "open", Session: s.id, Err: bad}, Record: position}
			}
		}
		if damage, ok := errors.AsType[*journal.DamageError](err); ok {
			s.damage = append(s.damage, damage)
			for _, run := range l.open {
				run.damaged = run.damaged || isLoss(damage)
			}
			continue
		}
		if err != nil {
			return err
		}
	}
	if s.tree == nil {
		return &journal.OpError{Op: "open", Session: s.id, Err: errNoHeader}
	}
	s.tree.damaged = slices.ContainsFunc(s.damage, isLoss)
	s.checkHeads()
	s.publish()
	return nil
}

// checkHeads is checkHead for all branches.
func (s *Session) checkHeads() {
	for _, id := range s.tree.heads {
		s.checkHead(id)
	}
}

// checkHead finds out whether the conversation to a node is valid: what another program has written may be whole, and make no sense,
// and so may a copy of what is left of a damaged session. The mutex is held.
func (s *Session) checkHead(id ID) {
	if !s.tree.damaged && aycoder.CheckHistory(s.tree.view().outlined(id)) != nil {
		s.tree.damaged = true
		s.publish()
	}
}

// isLoss reports whether a record that had been acknowledged is damaged.
func isLoss(damage error) bool { return !damage.(*journal.DamageError).Torn }

// line takes one record.
func (l *loader) line(rec journal.Located) error {
	s, r := l.session, &record{place: rec.Place}
	if !bytes.HasPrefix(rec.Line, []byte(`{"t":`)) {
		return l.fact(rec)
	}
	if err := json.Unmarshal(rec.Line, r); err != nil {
		return err
	}
	first := s.tree == nil
	if first && (r.Kind != kindHeader || r.Header == nil) { // the header is damaged
		s.apply(&record{Kind: kindHeader, At: r.At, Header: new(header)})
	}
	s.used(r)
	maps.Copy(l.files, r.Files)
	l.at = cmp.Or(r.At, l.at)
	switch r.Kind {
	case kindHeader:
		if !first || r.Header == nil {
			return errors.New("the header comes late, or is empty")
		}
		s.apply(r)
	case kindNode:
		return l.node(r)
	case kindRun:
		l.begin(r)
	case kindEnd:
		delete(l.open, r.Run)
	case kindAsk:
		run := l.run(r.Run)
		run.requests, run.unsure, run.loose = r.Requests, false, false
		if r.Answer != nil { // the facts may be gone
			run.answer, run.by, run.spent = r.Answer, nil, r.Spent
		}
		s.apply(r)
	case kindHead, kindMove, kindUndo, kindRedo, kindLabel:
		if r.ID < 0 || r.ID >= s.tree.next() {
			return fmt.Errorf("%s names the node %d, which is lost", r.Kind, r.ID)
		}
		s.apply(r)
	case kindTitle, kindUnsay, kindValue, kindKeep, kindOutput:
		s.apply(r)
	case kindSay:
		if r.Say == nil || r.Say.Message == nil {
			return errors.New("say without a message")
		}
		s.apply(r)
	default:
		return fmt.Errorf("no such kind of record: %q", r.Kind)
	}
	return nil
}

// run returns an open run. If the record of its start is damaged, it makes one.
func (l *loader) run(number int64) *openRun {
	run := l.open[number]
	if run == nil {
		run = &openRun{progress: progress{number: number}, damaged: true, parts: map[int64]*record{}}
		l.open[number] = run
	}
	return run
}

// begin takes the start of a run, or of its continuation in another process.
func (l *loader) begin(r *record) {
	s := l.session
	s.runs = max(s.runs, r.Run)
	if r.Start != nil {
		s.start = r.Start
		s.entry.Branch = r.Start.GitBranch
	}
	if r.State != nil { // it has all that is known of the run
		delete(l.open, r.Run)
	}
	run := l.open[r.Run]
	if run == nil {
		maps.DeleteFunc(l.open, func(_ int64, o *openRun) bool { return o.branch == r.Branch }) // it has ended
		run = l.run(r.Run)
		run.branch, run.from, run.start, run.first, run.damaged = r.Branch, r.ID, s.start, r.State, false
	}
	run.id, run.requests, run.loose = r.Name, nil, run.loose || r.Loose
	s.branch(r.Branch).start = s.start
}

// part returns a part that is in the message of a node, or nil if it is lost.
func (run *openRun) part(n int64, r *record) aycoder.Part {
	fact := run.parts[n]
	if fact == nil {
		return nil
	}
	r.needs(fact)
	delete(run.parts, n)
	return fact.part
}

// fact takes a fact of a run.
func (l *loader) fact(rec journal.Located) error {
	var f aycoder.FactRecord
	if err := json.Unmarshal(rec.Line, &f); err != nil {
		return err
	}
	number, err := strconv.ParseInt(f.Run, 10, 64)
	if err != nil {
		return fmt.Errorf("fact of an unknown run: %w", err)
	}
	run := l.run(number)
	run.facts, run.seq = append(run.facts, f.Fact), f.Seq
	fact := &record{seq: f.Seq, part: carried(f.Fact), place: rec.Place}
	if fact.part != nil {
		run.parts[fact.seq] = fact
	}
	switch f := f.Fact.(type) {
	case *aycoder.MessageDone:
		run.answer, run.by = answerOf(f), fact
	case *aycoder.ToolDone:
		if f.ID != "" { // else a node has it
			run.spent = append(run.spent, f.Spent...)
		}
		run.unsure = run.unsure || f.ID != "" // without an id, it says only what was spent
	}
	return nil
}

// node takes a node. For nodes that are lost between the last one and this one, it puts nodes
// without a message into the tree.
func (l *loader) node(r *record) (bad error) {
	s := l.session
	if r.ID < s.tree.next() {
		return fmt.Errorf("node %d comes twice", r.ID)
	}
	gap := r.ID - s.tree.next()
	if gap > maxLost-l.lost {
		return fmt.Errorf("node %d is out of range", r.ID)
	}
	if err := aycoder.CheckHistory(r.Context); err != nil {
		return err
	}
	l.lost += gap
	for s.tree.next() < r.ID {
		s.apply(&record{Kind: kindNode, ID: s.tree.next(), Branch: r.Branch, At: r.At, lost: true})
	}
	p := r.parent()
	if p < 0 || p >= r.ID {
		return fmt.Errorf("node %d has the parent %d", r.ID, p)
	}
	run := l.open[r.Run]
	if run == nil {
		run = new(openRun)
	}
	run.id = cmp.Or(run.id, r.Name)
	if r.runID = run.id; r.Name != "" && r.Name != run.id { // nodes share the string
		r.runID = r.Name
	}
	if r.lost = r.Lost; r.Message != nil {
		if run.since = len(run.facts); r.ID > run.from { // the nodes lost before it on its path are of the run, too
			run.added += 1 + max(0, int(p-max(run.from, r.ID-1-gap)))
		}
		if r.Message.Role == aycoder.RoleAssistant {
			r.needs(run.by)
		}
		m, err := r.Message.message(func(n int64) aycoder.Part { return run.part(n, r) })
		r.placed(r.place)
		r.message, r.lost = m, r.Lost || err != nil
		switch {
		case m == nil:
			*r, bad = record{Kind: kindNode, ID: r.ID, Parent: r.Parent, Branch: r.Branch, At: r.At, lost: true}, err
		case m.Role == aycoder.RoleAssistant:
			r.answer, run.answer, run.by = run.answer, nil, nil
		default:
			run.unsure, run.spent = false, nil
		}
	} else if r.Answer != nil {
		run.answer, run.by = nil, nil
	}
	s.apply(r)
	return bad
}

// startOf returns what is recorded of the start of a run.
func startOf(in *aycoder.StartInput) *startRecord {
	s := &startRecord{Model: in.Model, MaxTurns: in.MaxTurns, MaxCalls: in.MaxCalls, Tools: map[string]int{}}
	for _, t := range in.Tools {
		s.Tools[t.Name] = int(t.Effect)
	}
	return s
}

func (s *startRecord) equal(t *startRecord) bool {
	return t != nil && s.Model == t.Model && s.MaxTurns == t.MaxTurns && s.MaxCalls == t.MaxCalls && s.GitBranch == t.GitBranch &&
		maps.Equal(s.Tools, t.Tools) && slices.Equal(s.Own, t.Own)
}

// runRef is how the facts of a run name it.
func runRef(number int64) string { return strconv.FormatInt(number, 10) }

// Continue opens the session of a directory that was used last, or starts one if there is none. The
// directory is that of [WithDir], which need not be among opts. Sessions that are open in another
// process are passed over.
func Continue(ctx context.Context, store journal.Store, dir string, agent aycoder.Agent, opts ...Option) (*Session, error) {
	found, err := List(ctx, store, func(e *journal.Entry) bool {
		return e.Dir == dir && !e.Created.IsZero() // else it cannot be read: it was killed when it was made
	})
	if err != nil {
		return nil, err
	}
	for _, e := range found {
		s, err := Open(ctx, store, e.ID, agent, opts...)
		_, busy := errors.AsType[*journal.BusyError](err)
		gone := errors.Is(err, fs.ErrNotExist) || errors.Is(err, errNoHeader) // it was removed meanwhile, or its file is empty
		if !busy && !gone {
			return s, err
		}
	}
	return New(ctx, store, agent, append([]Option{WithDir(dir)}, opts...)...)
}
