package session

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/gitrepo"
	"github.com/aycoder/aycoder/journal"
)

// used notes the time of a record in the entry, and the files of which a checkout has the last word. The nodes of a fork
// are older than the fork.
func (s *Session) used(r *record) {
	for name, state := range r.Files {
		if r.Kind == kindNode {
			delete(s.checkedOut, name)
		} else {
			s.checkedOut[name] = state
		}
	}
	if at := fromMillis(r.At); r.At > 0 && at.After(s.entry.Used) {
		s.entry.Used = at
	}
}

// note keeps the entry up to date with a new node.
func (s *Session) note(n *Node, m *aycoder.Message) {
	s.entry.Nodes = len(s.tree.nodes)
	if a := n.Answer; a != nil && m != nil && m.Role == aycoder.RoleAssistant { // not the writer of a summary
		s.entry.Model = cmp.Or(a.Model, s.entry.Model)
	}
	_, cost := n.spending()
	s.entry.Cost += cost
	if s.entry.Prompt == "" && m != nil && m.Role == aycoder.RoleUser {
		s.entry.Prompt = firstLine(m.Text())
	}
}

// answered returns the answer of a node. If a fact of its run has it, the record of the node adds
// the cost.
func (r *record) answered() *Answer {
	if r.Answer != nil || r.answer == nil {
		return r.Answer
	}
	a := *r.answer
	a.Cost = r.Cost
	return &a
}

// charged returns an answer with its cost by the host's prices, or else with that which the run says.
func (c *config) charged(a *Answer) *Answer {
	if a == nil || c.prices == nil {
		return a
	}
	price, ok := c.prices(a.Provider, a.Model)
	if !ok {
		return a
	}
	out := *a
	out.Cost = a.Usage.Cost(price)
	return &out
}

// priced adds the costs by the host's prices to what calls have spent, where they are not known.
func (c *config) priced(spent []aycoder.Spent) []aycoder.Spent {
	if c.prices == nil {
		return spent
	}
	spent = slices.Clone(spent)
	for i := range spent {
		x := &spent[i]
		if price, ok := c.prices(x.Provider, x.Model); ok && x.Unpriced == x.Answers && x.Uncounted == 0 {
			x.Cost, x.Unpriced = x.Usage.Cost(price), 0
		}
	}
	return spent
}

// spent returns what the summary of a compaction has used, or nil.
func (c *config) spent(done *aycoder.Compacted) *Answer {
	if done == nil || done.Usage == (aycoder.Usage{}) {
		return nil
	}
	return c.charged(answerOf(&aycoder.MessageDone{Provider: done.Provider, Model: done.Model, Usage: done.Usage, Cost: done.Cost}))
}

// firstLine returns the first line of a text that is not blank, shortened to 200 bytes.
func firstLine(text string) string {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			if len(line) > 200 {
				line = strings.ToValidUTF8(line[:200], "") + "…"
			}
			return line
		}
	}
	return ""
}

func (c *config) gitBranch() string {
	if c.dir == "" {
		return ""
	}
	return gitrepo.Branch(c.dir)
}

// List returns the entries of the sessions for which keep returns true, the one that was used last
// first. If keep is nil, it returns all. So the newest session of a directory is the first one of:
//
//	session.List(ctx, store, func(e *journal.Entry) bool { return e.Dir == dir })
//
// If the store has lost the description of a session, List reads the session and stores the
// description again. If the session cannot be read, its entry has only ID and Used.
func List(ctx context.Context, store journal.Store, keep func(*journal.Entry) bool) ([]journal.Entry, error) {
	if err := checkStore(store); err != nil {
		return nil, fmt.Errorf("list sessions: %w", err)
	}
	var list []journal.Entry
	for e, err := range store.List(ctx) {
		if err != nil {
			return nil, err
		}
		if e == (journal.Entry{ID: e.ID, Used: e.Used}) {
			e = described(ctx, store, e)
		}
		if keep == nil || keep(&e) {
			list = append(list, e)
		}
	}
	slices.SortFunc(list, newestFirst)
	return list, ctx.Err()
}

// described reads a session and describes it in its store. If that fails, it returns e.
func described(ctx context.Context, store journal.Store, e journal.Entry) journal.Entry {
	s, err := readSession(ctx, store, e.ID)
	if err != nil {
		return e
	}
	if j, err := store.Open(ctx, e.ID, false); err == nil {
		_ = j.Describe(ctx, s.entry) // if it fails, the next List tries again
		_ = j.Close()
	}
	return s.entry
}

func newestFirst(a, b journal.Entry) int {
	return cmp.Or(b.Used.Compare(a.Used), cmp.Compare(a.ID, b.ID))
}
