package session

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/background"
	"github.com/aycoder/aycoder/internal/option"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/snapshot"
	"github.com/aycoder/aycoder/workspace"
)

// Session is a conversation that is kept. It is the only writer of its tree: commands go in as
// method calls, and [Session.View] gives out snapshots. The embedded [Branch] is the conversation
// with which the session began; [Session.NewBranch] makes further ones. Between runs, a Session has no
// goroutine. Its methods are safe for concurrent use.
type Session struct {
	*Branch

	id     string
	store  journal.Store
	config config
	shown  atomic.Pointer[View]

	mu       sync.Mutex // guards all that follows, also that of the branches
	tree     *tree
	journal  *depot
	source   *source // of the messages, or nil if they are in memory
	entry    journal.Entry
	branches map[string]*Branch
	runs     int64        // the number of the last run
	start    *startRecord // the last one that was recorded
	older    bool         // the records are of an older version
	damage   []error
	failed   error // why nothing is recorded any more
	values   map[string]*kept
	recorded map[string]json.RawMessage // what is recorded of values
	changes  []Change
	outputs  outputs
	closed   bool
	waking   sync.WaitGroup // runs that notes have begun

	files       *snapshot.Tracker         // nil without WithFiles
	checkedOut  map[string]snapshot.State // that a checkout has recorded, and no node since
	interrupted []*workspace.InterruptedPlan
}

// Option configures a [Session] in [New] and [Open].
type Option func(*config) error

type config struct {
	clock  aycoder.Clock
	sync   Sync
	memory bool
	late   bool
	id     string
	dir    string
	files  *snapshot.Files
	prices func(provider, model string) (aycoder.Price, bool)
	values map[string]Value

	compactor Compactor
}

// Sync says how much a loss of power may cost. The end of the process, even by kill -9, costs
// nothing with either.
type Sync int

const (
	// SyncRecords flushes each record to disk before what follows from it begins. It is the default.
	SyncRecords Sync = iota
	// SyncTurns flushes when a message is complete, and before a tool starts or the result of a declared
	// one is asked for. A loss of power costs at most the message in progress, whose model call is then
	// made again.
	SyncTurns
)

// WithSync sets when records are flushed to disk. Default: [SyncRecords].
func WithSync(s Sync) Option {
	return func(c *config) error {
		if s != SyncRecords && s != SyncTurns {
			return &aycoder.ConfigError{Option: "WithSync", Err: fmt.Errorf("no such value: %d", s)}
		}
		c.sync = s
		return nil
	}
}

// WithoutStopping makes runs go on in memory if the journal fails, for example because the disk is
// full. [Session.Err] then returns the error, and nothing more is recorded. Contents of files are kept
// in memory, up to 64 MiB, so that Checkout still takes the files back. Nobody knows then how far a run
// has gone on. So when the session is opened again, the open calls of an interrupted run are not run: their outputs say that
// they may have been. Default: the run ends with a [*journal.OpError], and all later commands return it.
func WithoutStopping() Option {
	return func(c *config) error { c.memory = true; return nil }
}

// WithClock sets the source of the times in the nodes. Default: [aycoder.SystemClock].
func WithClock(clock aycoder.Clock) Option {
	return func(c *config) error {
		if clock == nil {
			return &aycoder.ConfigError{Option: "WithClock", Err: errors.New("is nil")}
		}
		c.clock = clock
		return nil
	}
}

// WithID sets the id of a session that [New] makes: see [CheckID]. If the store has a session with this id, the
// error is one for which errors.Is(err, [fs.ErrExist]) is true. [Open] ignores it. Default: a random id.
func WithID(id string) Option {
	return func(c *config) error {
		if err := journal.CheckID(id); err != nil {
			return &aycoder.ConfigError{Option: "WithID", Err: err}
		}
		c.id = id
		return nil
	}
}

// WithDir sets the directory that lists of sessions show, normally the workspace. If it is in a git
// repository of this machine, they also show the branch that is checked out. Default: that of [New],
// or none.
func WithDir(dir string) Option {
	return func(c *config) (err error) {
		if c.dir = dir; dir != "" {
			c.dir, err = filepath.Abs(dir)
		}
		return err
	}
}

// WithPrices sets where the costs of messages come from, for example the Lookup method of package
// catalog. The cost of a message is recorded with it, so later changes of prices do not matter.
// Default, also for models without a price: [aycoder.MessageDone].Cost, if the run knows it. The costs in
// calls (Spent of a [Node]) are those that the run knows, and only others have these prices.
func WithPrices(price func(provider, model string) (aycoder.Price, bool)) Option {
	return func(c *config) error { c.prices = price; return nil }
}

// New starts a session in a store. agent answers on its first branch.
func New(ctx context.Context, store journal.Store, agent aycoder.Agent, opts ...Option) (*Session, error) {
	s, err := newSession(store, agent, opts)
	if err != nil {
		return nil, fmt.Errorf("new session: %w", err)
	}
	s.id = cmp.Or(s.config.id, newID())
	s.journal, s.source = &depot{store: store, id: s.id, spare: s.config.memory}, newSource(store, s.id)
	if !s.config.late {
		if err := s.journal.begin(ctx); err != nil {
			return nil, err
		}
	}
	head := header{Version: recordVersion, ID: s.id, Dir: s.config.dir, GitBranch: s.config.gitBranch()}
	if err = s.write(ctx, true, &record{Kind: kindHeader, Header: &head}); err == nil {
		s.restoreValues()
		err = s.attach(ctx, nil)
	}
	if err != nil {
		return nil, errors.Join(err, s.discard(ctx))
	}
	_ = s.describe(ctx) // the list of sessions is a convenience
	return s, nil
}

// discard removes a session that could not be made.
func (s *Session) discard(ctx context.Context) error {
	s.files.Detach()
	err := s.journal.close()
	if s.journal.now() != nil {
		if gone := s.store.Delete(context.WithoutCancel(ctx), s.id); !errors.Is(gone, fs.ErrNotExist) {
			err = errors.Join(err, gone)
		}
	}
	return err
}

func checkStore(store journal.Store) error {
	if store == nil {
		return &aycoder.ConfigError{Option: "store", Err: errors.New("is nil")}
	}
	return nil
}

// emptySession returns a session without a tree.
func emptySession(store journal.Store) *Session {
	return &Session{store: store, branches: map[string]*Branch{}, checkedOut: map[string]snapshot.State{},
		recorded: map[string]json.RawMessage{}, config: config{clock: aycoder.SystemClock(), values: map[string]Value{}}}
}

func newSession(store journal.Store, agent aycoder.Agent, opts []Option) (*Session, error) {
	s := emptySession(store)
	err := option.Apply(&s.config, opts)
	err = errors.Join(err, checkStore(store))
	if agent == nil {
		err = errors.Join(err, &aycoder.ConfigError{Option: "agent", Err: errors.New("is nil")})
	}
	s.Branch = s.branch("")
	s.agent = agent
	return s, err
}

// newID returns an id for a session: 26 random letters and digits.
func newID() string { return strings.ToLower(rand.Text()) }

// NewID returns the id of the session that [New] would make with the options: that of [WithID], or else a random one. A
// host that has to know the id before there is a session passes it to WithID, last.
func NewID(opts ...Option) string {
	c := config{values: map[string]Value{}}
	_ = option.Apply(&c, opts) // New returns the error
	return cmp.Or(c.id, newID())
}

// ID returns the id of the session in its store.
func (s *Session) ID() string { return s.id }

// View returns a snapshot of the tree. It takes no lock, so a display may call it while runs work.
func (s *Session) View() *View { return s.shown.Load() }

// Damage returns what could not be read when the session was opened: a [*journal.DamageError] for each
// record. Everything else is there.
func (s *Session) Damage() []error { return slices.Clone(s.damage) }

// Err returns why the session is not recorded any more, or nil if it is: see [WithoutStopping].
func (s *Session) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}

// SetLabel gives a node a label, by which a user finds it. An empty label removes the one it has.
func (s *Session) SetLabel(ctx context.Context, id ID, label string) error {
	return s.command(ctx, "label", &record{Kind: kindLabel, ID: id, Name: label})
}

// SetTitle gives the session a title for lists of sessions. An empty title removes it.
func (s *Session) SetTitle(ctx context.Context, title string) error {
	return s.command(ctx, "rename", &record{Kind: kindTitle, Name: title})
}

// command records something.
func (s *Session) command(ctx context.Context, name string, r *record) error {
	return s.do(name, func() error {
		if !s.View().has(r.ID) {
			return noNode(name, s.phase(), r.ID)
		}
		if err := s.write(ctx, true, r); err != nil {
			return err
		}
		return s.describe(ctx)
	})
}

// NewBranch makes a branch that begins at the node from, on which agent answers. Runs of different
// branches may work at the same time. If the name is in use, the error is a [*CommandError].
func (s *Session) NewBranch(ctx context.Context, name string, from ID, agent aycoder.Agent) (*Branch, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable("branch"); err != nil {
		return nil, err
	}
	switch _, used := s.tree.heads[name]; {
	case used:
		return nil, &CommandError{Command: "branch", Phase: s.phase(), Reason: fmt.Sprintf("there is a branch %q", name)}
	case !s.View().has(from):
		return nil, noNode("branch", s.phase(), from)
	case !utf8.ValidString(name):
		return nil, &aycoder.ConfigError{Option: "name", Err: errors.New("is not valid UTF-8")}
	case agent == nil:
		return nil, &aycoder.ConfigError{Option: "agent", Err: errors.New("is nil")}
	}
	if err := s.write(ctx, true, &record{Kind: kindHead, ID: from, Branch: name}); err != nil {
		return nil, err
	}
	s.checkHead(from)
	b := s.branch(name)
	b.agent = agent
	return b, nil
}

// BranchOf returns the branch of a name, or nil if there is none. The name "" is that of the branch
// with which the session began.
func (s *Session) BranchOf(name string) *Branch {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.branches[name]
}

// branch returns the branch of a name, and makes it if there is none. The mutex is held.
func (s *Session) branch(name string) *Branch {
	b := s.branches[name]
	if b == nil {
		b = &Branch{session: s, name: name, values: map[string]*kept{}}
		s.branches[name] = b
	}
	return b
}

// Close ends the session. A run or command that works is cancelled, and Close waits for its end, which
// needs the reader of the run to leave or finish its loop. A closed session can be opened again.
func (s *Session) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	var ends []chan struct{}
	var groups []*background.Group
	for _, b := range s.branches {
		if b.active != nil {
			b.active.cancel(errClosed)
			ends = append(ends, b.active.done)
		}
		if b.busy != "" {
			b.cancel(errClosed)
			ends = append(ends, b.idle)
		}
		if b.jobs.stop != nil {
			b.jobs.stop(errClosed)
		}
		if b.jobs.group != nil {
			groups = append(groups, b.jobs.group)
		}
	}
	s.mu.Unlock()
	for _, end := range ends {
		<-end
	}
	for _, g := range groups {
		_ = g.Close() // always nil
	}
	s.waking.Wait()
	s.files.Detach()
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	if s.failed == nil { // the host may have changed a value since the last record
		err = s.write(context.Background(), true)
	}
	return errors.Join(err, s.journal.close())
}

var errClosed = errors.New("the session was closed")

// usable returns an error if no command can be carried out. The mutex is held.
func (s *Session) usable(command string) error {
	switch {
	case s.closed:
		return &CommandError{Command: command, Phase: PhaseClosed, Reason: "the session is closed"}
	case s.failed != nil && !s.config.memory:
		return s.failed
	}
	return nil
}

// do carries out a command that is possible in each phase, with the mutex.
func (s *Session) do(command string, f func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(command); err != nil {
		return err
	}
	return f()
}

// write records something, after the values that have changed, and does it to the tree. The mutex is
// held, or the session is new.
func (s *Session) write(ctx context.Context, durable bool, records ...*record) error {
	news, err := s.news()
	if err == nil {
		records = append(news, records...)
		err = s.append(ctx, durable, records)
	}
	if err != nil {
		for _, r := range records {
			if r.Forgot || len(r.Shown) > 0 {
				s.branch(r.Branch).untold()
			}
		}
		return err
	}
	for _, r := range records {
		if s.apply(r); r.message != nil {
			s.tree.nodes[r.ID].remember(r.message)
		}
	}
	if slices.ContainsFunc(records, func(r *record) bool { return r.Kind != kindFact }) {
		s.publish()
	}
	return nil
}

func (s *Session) append(ctx context.Context, durable bool, records []*record) error {
	if s.failed != nil {
		return s.stopped()
	}
	var lines [][]byte
	for _, r := range records {
		if r.At == 0 && r.Kind != kindRun && r.Kind != kindFact { // a run begins with a node, which has the time
			r.At = millis(s.config.clock.Now())
		}
		line, err := r.encode()
		if err == nil && !s.config.memory { // nothing is wrong with the journal
			err = journal.CheckRecord(line)
		}
		if err != nil {
			return &journal.OpError{Op: "append to", Session: s.id, Err: err}
		}
		lines = append(lines, line)
	}
	if len(lines) == 0 {
		return nil
	}
	held, at := !says(records) && s.journal.hold(lines), int64(0)
	if !held {
		err := s.journal.begin(ctx)
		begun := err == nil
		if begun && s.source != nil {
			at = s.locator().End()
		}
		if begun {
			err = s.journal.append(ctx, durable, lines)
		}
		if err != nil {
			cancelled := ctx.Err() != nil && errors.Is(err, ctx.Err()) // nothing is wrong with the journal
			again := !begun && !s.config.memory                        // the next run may be able to create the session
			if (cancelled || again) && !errors.Is(err, journal.ErrUncertain) {
				return err
			}
			s.failed = err
			return s.stopped()
		}
	}
	for i, r := range records {
		s.used(r)
		if s.source != nil && !held {
			size := journal.LineSize(lines[i])
			r.placed(journal.Place{At: at, Size: size})
			at += size
		}
	}
	return nil
}

// fail puts an error of write into Err where it has no caller to go to, so that nothing is lost without one.
func (s *Session) fail(err error) {
	if s.failed == nil {
		s.failed = err
	}
}

// stopped returns why nothing is recorded, unless the session goes on in memory.
func (s *Session) stopped() error {
	if s.config.memory {
		return nil
	}
	return s.failed
}

func (s *Session) publish() {
	s.shown.Store(s.tree.view())
}

// describe updates the entry in the list of sessions.
func (s *Session) describe(ctx context.Context) error {
	if s.failed != nil {
		return s.stopped()
	}
	s.entry.Branch = s.config.gitBranch()
	if j := s.journal.whole(); j != nil { // else there is nothing to list
		return j.Describe(ctx, s.entry)
	}
	return nil
}

// apply does to the tree what a record says. The record fits the tree: the caller has checked it.
func (s *Session) apply(r *record) {
	t := s.tree
	if r.Letter != "" {
		b := s.branch(r.Branch)
		if b.letters == nil {
			b.letters = map[string]bool{}
		}
		b.letters[r.Letter] = true
	}
	switch r.Kind {
	case kindHeader:
		at := fromMillis(r.At)
		s.tree = newTree(at, s.source)
		s.entry = journal.Entry{ID: s.id, Dir: r.Header.Dir, Branch: r.Header.GitBranch, Nodes: 1, Created: at, Used: at}
	case kindNode:
		n := r.node()
		b := s.branch(r.Branch)
		if b.fresh != nil {
			n.values, b.fresh = b.fresh, nil
		}
		if r.message != nil && r.place.Size > 0 {
			s.source.put(r.ID, r.place)
			n.source, n.outline = s.source, outlineOf(r.message)
		}
		if r.Run != b.stepsOf && r.Run > 0 {
			b.steps, b.stepsOf = nil, r.Run
		}
		b.steps = b.steps.Join(r.Steps)
		if r.message != nil {
			n.shown, b.asked = b.asked.then(n.shown), shownDelta{}
		}
		if b.files != nil && n.Parent == t.heads[r.Branch] {
			maps.Copy(b.files, n.Files)
		} else {
			b.files = nil
		}
		t.add(n)
		t.heads = merged(t.heads, map[string]ID{r.Branch: n.ID})
		b.moving = nil
		if r.message != nil || n.Context != nil {
			b.redo = nil
		}
		b.delivered(r.message)
		s.note(n, r.message)
	case kindMove:
		s.branch(r.Branch).moving = r
	case kindAsk:
		b := s.branch(r.Branch)
		b.asked = b.asked.then(r.shownDelta)
		b.steps, b.stepsOf = r.Steps, r.Run
	case kindHead, kindUndo, kindRedo:
		b := s.branch(r.Branch)
		b.moving, b.files, b.fresh, b.asked = nil, nil, nil, shownDelta{}
		switch {
		case r.Kind == kindUndo:
			b.redo = append(b.redo, t.heads[r.Branch])
		case r.Kind == kindRedo && len(b.redo) > 0:
			b.redo = b.redo[:len(b.redo)-1]
		default:
			b.redo = nil
		}
		t.heads = merged(t.heads, map[string]ID{r.Branch: r.ID})
	case kindLabel:
		if t.labels = merged(t.labels, map[ID]string{r.ID: r.Name}); r.Name == "" {
			delete(t.labels, r.ID)
		}
	case kindRun:
		if r.Start != nil {
			s.start = r.Start
		}
	case kindTitle:
		t.title = r.Name
		s.entry.Title = r.Name
	case kindSay:
		b := s.branch(r.Branch)
		b.said = append(b.said, r.Say)
		fallthrough // a note comes with the jobs that are left
	case kindValue:
		maps.Copy(s.recorded, r.Values)
		noteValues(s.values, r.Values)
	case kindUnsay:
		s.branch(r.Branch).said = nil
	case kindOutput:
		s.outputs.add(r.Output)
	case kindKeep:
		b := s.branch(r.Branch)
		b.fresh = merged(b.fresh, r.Values)
		noteValues(b.values, r.Values)
	}
}
