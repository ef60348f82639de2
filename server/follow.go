package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"iter"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/session"
)

// A Followed is an event of a run that works in any process.
type Followed struct {
	// ID is the place behind the event, for [Follow]. Run is the id of the run in its session.
	ID, Run string
	// Event is the event. Questions in it cannot be answered: answer them where the run works.
	Event aycoder.Event
}

// Follow yields the events of a run that works in another process, and in any process after that, until the run is over. If
// run is "", it yields those of all runs of the session, one after the other, until ctx ends. It begins after the event with
// the ID after, or at the beginning. It holds nothing that keeps the run from going on elsewhere.
//
// The events that the journal holds come from the journal, each once and in order. A feed adds those that the journal does not
// hold, or not yet. Whatever the feed loses, the texts are complete at the end of each part of a message;
// if a text that came from the feed is not the one in the journal, a [aycoder.Retrying] discards it first. As in the streams of
// a [Server], progress and events of runs inside calls may be missing, and the end of a call has only the output.
//
// If the store has a method Following() journal.Store, whose journals have records that do not end but wait for the next one,
// as that of contrib/postgres has, the records are read once. Those of other stores are read anew every second. An error about the
// place has a method StatusCode() int, which returns the HTTP status for it.
func Follow(ctx context.Context, store journal.Store, feed Feed, id, run, after string) iter.Seq2[Followed, error] {
	return func(yield func(Followed, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		f := &follower{ctx: ctx, store: store, feed: feed, id: id, wanted: run, old: map[string]bool{}, asked: map[string]bool{}, newest: map[string]int64{}}
		var at followedID
		if after != "" && (len(after) > maxCursor || transparent(after, &at) != nil) {
			yield(Followed{}, invalid("the id is not that of an event"))
			return
		}
		f.run, f.at, f.yield = at.Run, at.At.position, yield
		if at.Over && run == "" {
			f.ended, f.run, f.at = f.run, "", position{}
		}
		if err := f.follow(); err != nil && !errors.Is(err, errLeft) {
			yield(Followed{}, err)
		}
	}
}

// followedID is the ID of a [Followed].
type followedID struct {
	Run  string `json:"r"`
	At   cursor `json:"p"`
	Over bool   `json:"o,omitempty"`
}

// errLeft says that the caller has left the loop, or the run is over.
var errLeft = errors.New("nothing more is wanted")

const (
	quiet    = 250 * time.Millisecond // after which a run that needs nothing but an answer is taken to wait for one
	lookLate = 10 * time.Second       // after which the session is read anew whatever the facts say
	maxHeld  = 1 << 20                // bytes of messages that came before what precedes them
)

// A follower is one use of [Follow].
type follower struct {
	ctx        context.Context
	store      journal.Store
	feed       Feed
	id, wanted string
	yield      func(Followed, error) bool

	run         string          // the present one
	old         map[string]bool // runs before it
	ended       string          // the last run that is over, or ""
	passed      bool            // the facts that come are behind it
	replay      *replay         // of it, or nil
	at          position        // that was shown
	text, think string          // that were shown of the present turn, as far as this follower has shown them
	partial     bool            // it has not shown all of the turn
	asked       map[string]bool // the questions that were shown
	newest      map[string]int64
	held        []*liveMessage
	heldBytes   int
	waited      time.Duration // of the last read of the session
}

// follow brings together what the journal and the feed have.
func (f *follower) follow() error {
	var work sync.WaitGroup
	ctx, cancel := context.WithCancel(f.ctx)
	defer work.Wait()
	defer cancel()
	facts, messages, failed := make(chan *aycoder.FactRecord), make(chan []byte), make(chan error, 1)
	work.Go(func() { failed <- f.pump(ctx, facts) })
	if f.feed != nil {
		work.Go(func() { f.subscribe(ctx, messages) })
	}
	if f.partial = !f.at.fresh(); f.wanted != "" {
		f.begin(f.wanted)
	}
	look := time.NewTimer(lookLate)
	defer look.Stop()
	late := lookLate
	for {
		var err error
		select {
		case rec := <-facts:
			if rec == nil { // the records are read again from the first one
				if f.replay = nil; f.wanted != "" {
					f.begin(f.wanted)
				}
				clear(f.old)
				f.passed = false
				continue
			}
			err = f.fact(rec)
			late = lookLate
			look.Reset(f.patience(late))
		case data := <-messages:
			var m liveMessage
			if json.Unmarshal(data, &m) != nil {
				continue
			}
			if m.Look {
				look.Reset(max(quiet/10, 4*f.waited))
			}
			f.hold(&m)
			err = f.release()
		case <-look.C:
			err = f.look()
			late = min(2*late, 8*lookLate)
			look.Reset(late)
		case err = <-failed:
			return err
		case <-f.ctx.Done():
			return f.ctx.Err()
		}
		if err != nil {
			return err
		}
	}
}

// patience returns after what time without a fact the session is to be read.
func (f *follower) patience(late time.Duration) time.Duration {
	p := f.replay
	switch {
	case p == nil:
		return late
	case p.end != "", p.done != nil, p.events == nil && p.last != nil && p.last.Stop != aycoder.StopToolUse:
		return max(quiet, 4*f.waited)
	}
	return late
}

// pump sends the facts of the session. Before those that are read again, it sends nil.
func (f *follower) pump(ctx context.Context, facts chan<- *aycoder.FactRecord) error {
	store := f.store
	if s, ok := store.(interface{ Following() journal.Store }); ok {
		store = s.Following()
	} else {
		store = polled{store}
	}
	send := func(rec *aycoder.FactRecord) error {
		select {
		case facts <- rec:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	for failures := 0; ; failures++ {
		for rec, err := range session.Facts(ctx, store, f.id, f.wanted) {
			if err != nil {
				if ctx.Err() != nil || errors.Is(err, fs.ErrNotExist) || failures >= 20 {
					return err
				}
				break
			}
			if err := send(rec); err != nil {
				return err
			}
			failures = 0
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := send(nil); err != nil {
			return err
		}
	}
}

// subscribe sends the messages of the feed.
func (f *follower) subscribe(ctx context.Context, messages chan<- []byte) {
	for ctx.Err() == nil {
		for m, err := range f.feed.Subscribe(ctx, f.id) {
			if err != nil {
				break
			}
			select {
			case messages <- m:
			case <-ctx.Done():
				return
			}
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
		}
	}
}

// show yields an event.
func (f *follower) show(ev aycoder.Event) error {
	if r, ok := ev.(*aycoder.Retrying); ok && r.Discarded {
		f.text, f.think, f.partial = "", "", false
	}
	if _, ok := ev.(*aycoder.TurnFinished); ok {
		f.text, f.think, f.partial = "", "", false
	}
	if text, thinks, ok := textIn(ev); ok && thinks {
		f.think += text
	} else if ok {
		f.text += text
	}
	f.at = f.at.after(ev)
	_, over := ev.(*aycoder.RunFinished)
	id := opaque(followedID{Run: f.run, At: cursor{log: "-", position: f.at}, Over: over})
	if !f.yield(Followed{ID: id, Run: f.run, Event: ev}, nil) {
		return errLeft
	}
	return nil
}

// begin goes over to another run.
func (f *follower) begin(run string) {
	if f.run != run {
		if f.run != "" {
			f.old[f.run] = true
		}
		f.run, f.at, f.text, f.think, f.partial = run, position{}, "", "", false
		clear(f.asked)
	}
	f.replay = &replay{output: func(call string) *aycoder.ToolOutput { return f.output(run, call) }}
}

// output returns the output of a call that was not run. It is recorded soon after the facts that led to it.
func (f *follower) output(run, call string) *aycoder.ToolOutput {
	for wait := 5 * time.Millisecond; ; wait *= 2 {
		v, _, err := session.Read(f.ctx, f.store, f.id)
		if err == nil {
			if o := outputIn(v, run, call); o != nil {
				return o
			}
		}
		if wait > time.Second || f.ctx.Err() != nil {
			return nil
		}
		select {
		case <-time.After(wait):
		case <-f.ctx.Done():
		}
	}
}

// fact shows what a fact adds.
func (f *follower) fact(rec *aycoder.FactRecord) error {
	switch {
	case f.old[rec.Run]:
		return nil
	case f.run == "" && f.ended != "" && !f.passed:
		f.old[rec.Run], f.passed = true, rec.Run == f.ended
		return nil
	case f.run != rec.Run && f.replay == nil && f.run != "": // before the place where it begins
		f.old[rec.Run] = true
		return nil
	case f.run != rec.Run && f.replay != nil: // the run is over, and another one has begun
		if err := f.show(&aycoder.RunFinished{Result: f.replay.result()}); err != nil {
			return err
		}
		f.begin(rec.Run)
	case f.replay == nil:
		f.begin(rec.Run)
	}
	turn := f.replay.turn
	if m, ok := rec.Fact.(*aycoder.ModelFailed); ok && m.Retry && !f.replay.began() && f.at.turn == turn && !f.at.fresh() {
		if err := f.show(&aycoder.Retrying{Discarded: true, Attempt: 1, After: m.After, Err: errAgain}); err != nil {
			return err
		}
	}
	finished := f.replay.take(rec.Fact)
	err := f.turn(turn, finished, true)
	if err == nil {
		err = f.turn(f.replay.turn, f.replay.events, f.replay.done != nil)
	}
	if err == nil {
		err = f.release()
	}
	return err
}

// turn shows those of the events of a turn that were not shown. Unless the message is whole, the feed may be ahead of the journal.
func (f *follower) turn(turn int, events []aycoder.Event, whole bool) error {
	if len(events) == 0 || f.at.turn > turn {
		return nil
	}
	seen := f.at
	text, think := textOf(events)
	switch {
	case whole || seen.turn != turn:
	case f.partial && (len(text) < seen.text || len(think) < seen.think):
		return nil // until the journal has as much
	case !f.partial && strings.HasPrefix(f.text, text) && strings.HasPrefix(f.think, think):
		for _, ev := range events {
			if ev = unseen(ev, &seen); ev != nil {
				if err := f.show(ev); err != nil {
					return err
				}
			}
		}
		return nil
	}
	for _, ev := range missed(turn, events, seen) {
		if err := f.show(ev); err != nil {
			return err
		}
	}
	return nil
}

// hold keeps a message until it fits.
func (f *follower) hold(m *liveMessage) {
	for f.heldBytes+m.size() > maxHeld && len(f.held) > 0 {
		f.heldBytes -= f.held[0].size()
		f.held = f.held[1:]
	}
	f.held = append(f.held, m)
	f.heldBytes += m.size()
}

func (m *liveMessage) size() int {
	n := 200
	for _, e := range m.Events {
		n += len(e)
	}
	return n
}

// release shows what the messages have that fit, and forgets those that are late.
func (f *follower) release() error {
	for again := true; again; {
		again = false
		all := f.held
		f.held, f.heldBytes = nil, 0
		for i, m := range all {
			took, err := f.live(m)
			if err != nil {
				f.held = append(f.held, all[i:]...)
				return err
			}
			if again = again || took; !took {
				f.held = append(f.held, m)
				f.heldBytes += m.size()
			}
		}
		again = again && len(f.held) > 0
	}
	return nil
}

// live shows what a message has. It reports false if the message is to be held.
func (f *follower) live(m *liveMessage) (took bool, err error) {
	switch {
	case f.old[m.Run] || m.Run == f.run && m.Turn < f.at.turn || min(m.Text, m.Think) < 0:
		return true, nil
	case f.wanted != "" && m.Run != f.wanted:
		return true, nil
	case m.Run != f.run || f.replay == nil || m.Turn > f.at.turn || m.Turn > f.replay.turn ||
		m.Text > f.at.text || m.Think > f.at.think:
		return false, nil
	case f.partial && !f.recall(m) || m.Text > len(f.text) || m.Think > len(f.think):
		return true, nil // what was shown before by somebody else cannot be compared
	case hashMore(0, f.text[:m.Text]) != m.Hash[0] || hashMore(0, f.think[:m.Think]) != m.Hash[1]:
		return true, nil // of another attempt
	}
	first := m.N > f.newest[m.From]
	if len(f.newest) > 100 {
		clear(f.newest)
	}
	f.newest[m.From] = max(m.N, f.newest[m.From])
	place := [2]int{m.Text, m.Think}
	for _, data := range m.Events {
		ev, err := aycoder.DecodeEvent(data)
		if err != nil {
			continue // of a newer kind
		}
		text, thinks, ok := textIn(ev)
		if ok {
			shown, at := f.text, &place[0]
			if thinks {
				shown, at = f.think, &place[1]
			}
			if *at > len(shown) {
				return true, nil
			}
			rest := shown[*at:]
			if *at += len(text); strings.HasPrefix(rest, text) {
				continue
			}
			if !strings.HasPrefix(text, rest) {
				return true, nil
			}
			ev = textEvent(text[len(rest):], thinks)
		} else if !f.wants(ev, first) {
			continue
		}
		if err := f.show(ev); err != nil {
			return true, err
		}
		if r, ok := ev.(*aycoder.Retrying); ok && r.Discarded {
			place = [2]int{}
		}
	}
	return true, nil
}

// recall takes the texts that somebody else has shown of the turn from a message that begins with them.
func (f *follower) recall(m *liveMessage) bool {
	if m.Text+m.Think > 0 {
		return false
	}
	var events []aycoder.Event
	for _, data := range m.Events {
		if ev, err := aycoder.DecodeEvent(data); err == nil {
			events = append(events, ev)
		}
	}
	text, think := textOf(events)
	if !begins(text, f.at.text, f.at.hash[0]) || !begins(think, f.at.think, f.at.hash[1]) {
		return false
	}
	f.text, f.think, f.partial = text[:f.at.text], think[:f.at.think], false
	return true
}

// wants reports whether an event of a feed that is not a text is to be shown.
func (f *follower) wants(ev aycoder.Event, first bool) bool {
	switch ev := ev.(type) {
	case *aycoder.ToolProgress:
		return first && slices.Contains(f.at.calls, mark("s", ev.CallID))
	case *aycoder.ChildEvent:
		return first && slices.Contains(f.at.calls, mark("s", ev.CallID))
	case *aycoder.Retrying:
		return first && (!ev.Discarded || !f.at.fresh())
	case *aycoder.ToolDelta, *aycoder.Notice, *aycoder.Compacting, *aycoder.Merged, *aycoder.Conflicted, *aycoder.JobsChanged:
		return first
	}
	return false // the journal has it
}

// look reads whether the run asks something, or is over.
func (f *follower) look() error {
	if f.replay == nil {
		return f.gone()
	}
	start := time.Now()
	p, err := session.ReadRun(f.ctx, f.store, f.id, f.run)
	f.waited = time.Since(start)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) || f.ctx.Err() != nil {
			return err
		}
		return nil // it is tried again
	}
	if p != nil {
		for i := range p.Requests {
			q := p.Requests[i]
			q.Plan = nil // holds whole files
			if key := q.CallID + " " + q.Digest; !f.asked[key] {
				f.asked[key] = true
				if err := f.show(&aycoder.ApprovalRequested{Request: q}); err != nil {
					return err
				}
			}
		}
		return nil
	}
	return f.over()
}

// gone returns an error if the session has nothing of the run after which the follower is to begin: it was trimmed.
func (f *follower) gone() error {
	run := cmp.Or(f.run, f.ended)
	if run == "" || f.run == "" && f.passed {
		return nil
	}
	for _, err := range session.Facts(f.ctx, f.store, f.id, run) {
		return err
	}
	return refuse(http.StatusGone, "gone", "the session does not hold the run of this event any more: begin anew")
}

// over shows the end of the run, after the last of its facts.
func (f *follower) over() error {
	p := &replay{output: f.replay.output}
	for rec, err := range session.Facts(f.ctx, f.store, f.id, f.run) {
		if err != nil {
			return err
		}
		turn := p.turn
		if err := f.turn(turn, p.take(rec.Fact), true); err != nil {
			return err
		}
	}
	if err := f.turn(p.turn, p.events, true); err != nil {
		return err
	}
	if err := f.show(&aycoder.RunFinished{Result: p.result()}); err != nil {
		return err
	}
	if f.wanted != "" {
		return errLeft
	}
	f.ended, f.passed = f.run, true
	f.begin("")
	f.replay = nil
	return nil
}
