// Package usage tells what conversations have used: tokens, money, time and tools, by day, model, project and task,
// and what they were worth. Its figures come from the journals of package session alone: nothing runs beside
// them, and nothing leaves the machine.
//
//	work, err := usage.Collect(ctx, store, nil)
//	for _, row := range work.By(usage.Model, time.Local) {
//		fmt.Printf("%s: %d answers, $%.2f\n", row.Name, row.Answers, row.Cost)
//	}
//	report, err := work.Report(usage.Options{Days: 30})
//	err = report.WriteText(os.Stdout)
//
// # What is counted
//
// Each answer of a model counts once, also one that no branch leads to any more: those of the conversation, those of
// the agents that its tools have run, and the summaries of compactions. A fork or an import has copies of nodes; the
// oldest session that has a node is the one that it counts for. An answer that broke off has no figures, so
// it is not counted, and the last turn of a run that waits for somebody counts when it ends.
//
// A cost is what was recorded with the answer. An answer without one is Unpriced: its cost is unknown, which is not
// the same as free.
//
// The time of a turn is that from the message before it to its end, with the time that a question waited,
// but at most 30 minutes.
package usage

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/part"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/session"
)

// mostOfTurn is how long a turn counts at most: behind it, somebody was asked and was not there.
const mostOfTurn = 30 * time.Minute

// Figures are what some work has used.
type Figures struct {
	// Sessions is the number of conversations, and Prompts that of the messages that began a run.
	Sessions int `json:"sessions"`
	Prompts  int `json:"prompts"`
	// Answers is the number of answers of models, of which Unpriced have no known cost. Cost is the sum of
	// the others in US dollars.
	Answers  int     `json:"answers"`
	Unpriced int     `json:"unpriced"`
	Cost     float64 `json:"cost"`
	// Usage is the sum of the tokens.
	Usage aycoder.Usage `json:"usage"`
	// Calls is the number of calls of tools, of which Failed gave an error.
	Calls  int `json:"calls"`
	Failed int `json:"failed"`
	// Approved and Denied are the decisions of the user, as far as audit logs tell: see [Work.AddAudit].
	Approved int `json:"approved"`
	Denied   int `json:"denied"`
	// Time is how long the agents worked. In JSON, it is in nanoseconds.
	Time time.Duration `json:"time"`
}

func (f *Figures) add(g *Figures) {
	f.Sessions, f.Prompts = f.Sessions+g.Sessions, f.Prompts+g.Prompts
	f.Answers, f.Unpriced, f.Cost = f.Answers+g.Answers, f.Unpriced+g.Unpriced, f.Cost+g.Cost
	f.Usage = f.Usage.Add(g.Usage)
	f.Calls, f.Failed = f.Calls+g.Calls, f.Failed+g.Failed
	f.Approved, f.Denied = f.Approved+g.Approved, f.Denied+g.Denied
	f.Time += g.Time
}

// Tokens is the number of tokens, in and out.
func (f *Figures) Tokens() int64 {
	return f.Usage.Input + f.Usage.CacheRead + f.Usage.CacheWrite + f.Usage.Output
}

// Work is what conversations have used. Its memory grows with the quarters of an hour in which something was done and the
// decisions in audit logs, and by some bytes with each message. It belongs to one goroutine.
type Work struct {
	sessions []*journal.Entry
	items    []item
	seen     map[uint64]int32 // how many nodes with a hash of their nodeKey are counted
	seed     maphash.Seed
	runs     map[string]int // the session of a run
	skipped  []error
}

// item is what a session has used in a quarter of an hour in one way.
type item struct {
	of itemKey
	Figures
}

type itemKey struct {
	session            int // in sessions
	at                 int64
	model, agent, tool string
}

// quarter is the time that items are put together in. Days begin with one, wherever they are.
const quarter = 15 * 60

// nodeKey is what copies of a node have in common, and hardly any two others.
type nodeKey struct {
	run    string
	at     int64
	role   aycoder.Role
	answer session.Answer
	spent  aycoder.Usage
}

// Collect reads the sessions of a store for which keep returns true, or all if keep is nil. One that cannot be read is left
// out: see [Work.Skipped].
func Collect(ctx context.Context, store journal.Store, keep func(*journal.Entry) bool) (*Work, error) {
	entries, err := session.List(ctx, store, nil)
	if err != nil {
		return nil, fmt.Errorf("collect usage: %w", err)
	}
	slices.SortStableFunc(entries, func(a, b journal.Entry) int { return a.Created.Compare(b.Created) })
	w := new(Work)
	for i := range entries {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("collect usage: %w", err)
		}
		if keep != nil && !keep(&entries[i]) {
			continue
		}
		v, damage, err := session.Read(ctx, store, entries[i].ID)
		if err != nil {
			w.skipped = append(w.skipped, fmt.Errorf("session %s: %w", entries[i].ID, err))
			continue
		}
		for _, d := range damage {
			w.skipped = append(w.skipped, fmt.Errorf("session %s: %w", entries[i].ID, d))
		}
		w.Add(&entries[i], v)
	}
	return w, nil
}

// Skipped returns why something is not counted: sessions and records that cannot be read.
func (w *Work) Skipped() []error { return w.skipped }

// Add adds a session. Copies of nodes count for the session that was added first, so older ones are to come
// before their forks.
func (w *Work) Add(e *journal.Entry, v *session.View) {
	if w.seen == nil {
		w.seen, w.seed, w.runs = map[uint64]int32{}, maphash.MakeSeed(), map[string]int{}
	}
	c := &counting{Work: w, session: len(w.sessions), view: v, index: map[itemKey]int{}}
	here := map[uint64]int32{}
	w.sessions = append(w.sessions, e)
	for i := range v.Len() {
		n := v.Node(session.ID(i))
		if n == nil || n.ID == session.Root {
			continue
		}
		m := n.Message()
		key := maphash.Comparable(w.seed, keyOf(n, m))
		if here[key]++; here[key] > w.seen[key] {
			c.node(n, m)
		}
	}
	for key, n := range here {
		w.seen[key] = max(n, w.seen[key])
	}
	w.items = append(w.items, c.items...)
}

// counting adds a session.
type counting struct {
	*Work
	session int
	view    *session.View
	items   []item
	index   map[itemKey]int // in items
}

func (c *counting) put(at time.Time, key itemKey, f Figures) {
	key.session, key.at = c.session, at.Unix()/quarter*quarter
	i, ok := c.index[key]
	if !ok {
		i = len(c.items)
		c.index[key], c.items = i, append(c.items, item{of: key})
	}
	c.items[i].add(&f)
}

func keyOf(n *session.Node, m *aycoder.Message) nodeKey {
	k := nodeKey{run: n.Run, at: n.At.UnixMilli()}
	if m != nil {
		k.role = m.Role
	}
	if n.Answer != nil {
		k.answer = *n.Answer
	}
	for i := range n.Spent {
		k.spent = k.spent.Add(n.Spent[i].Usage)
	}
	return k
}

// node counts what a node has.
func (c *counting) node(n *session.Node, m *aycoder.Message) {
	if _, ok := c.runs[n.Run]; !ok && n.Run != "" {
		c.runs[n.Run] = c.session
	}
	of := itemKey{}
	if a := n.Answer; a != nil && a.Provider != part.NoModel {
		of.model = modelName(a.Provider, a.Model)
		f := Figures{Answers: 1, Usage: a.Usage, Cost: a.Cost}
		if a.Cost == 0 {
			f.Unpriced = 1
		}
		c.put(n.At, of, f)
	}
	for i := range n.Spent {
		s := &n.Spent[i]
		c.put(n.At, itemKey{model: modelName(s.Provider, s.Model), agent: s.Agent},
			Figures{Answers: s.Answers, Usage: s.Usage, Cost: s.Cost, Unpriced: s.Unpriced})
	}
	if n.Run == "" {
		return
	}
	if parent := c.before(n); parent.Run == n.Run { // also if n is a summary, which the time before it went to
		c.put(n.At, of, Figures{Time: min(max(0, n.At.Sub(parent.At)), mostOfTurn)})
	} else if m != nil && m.Role == aycoder.RoleUser {
		c.put(n.At, of, Figures{Prompts: 1})
	}
	if m == nil {
		return
	}
	for _, p := range m.Parts {
		if out, ok := p.(*aycoder.ToolOutput); ok {
			f := Figures{Calls: 1}
			if out.IsError {
				f.Failed = 1
			}
			c.put(n.At, itemKey{tool: cmp.Or(out.Name, unknown)}, f)
		}
	}
}

// before returns the node before one of a run, without those of files that the user has changed while the run waited.
func (c *counting) before(n *session.Node) *session.Node {
	parent := c.view.Node(n.Parent)
	for range mostBetween {
		if parent.Run != "" || parent.ID == session.Root {
			break
		}
		parent = c.view.Node(parent.Parent)
	}
	return parent
}

const mostBetween = 100 // nodes

const unknown = "unknown"

func modelName(provider, model string) string {
	return cmp.Or(strings.Trim(provider+"/"+model, "/"), unknown)
}

// maxAuditLine bounds a line of an audit log, in bytes. Those of package policy are much shorter.
const maxAuditLine = 1 << 20

// AddAudit adds the decisions of the user in an audit log of package policy, for runs of the sessions that were
// added. A line that is not a record is left out, and counted in the error.
func (w *Work) AddAudit(r io.Reader) error {
	bad, in := 0, bufio.NewScanner(r)
	in.Buffer(nil, maxAuditLine)
	for in.Scan() {
		var rec aycoder.AuditRecord
		if json.Unmarshal(in.Bytes(), &rec) != nil {
			bad++
			continue
		}
		index, ok := w.runs[rec.Run]
		if !ok || rec.By != aycoder.ByUser {
			continue
		}
		var f Figures
		switch rec.Verdict {
		case "allow":
			f.Approved = 1
		case "deny":
			f.Denied = 1
		default:
			continue
		}
		w.items = append(w.items, item{itemKey{session: index, at: rec.Time.Unix() / quarter * quarter, tool: rec.Tool}, f})
	}
	err := in.Err()
	if err == nil && bad > 0 {
		err = fmt.Errorf("%d lines are no records", bad)
	}
	if err != nil {
		return fmt.Errorf("read audit log: %w", err)
	}
	return nil
}

// Total returns the figures of all work.
func (w *Work) Total() Figures {
	var f Figures
	counted := map[int]bool{}
	for i := range w.items {
		f.add(&w.items[i].Figures)
		counted[w.items[i].of.session] = true
	}
	f.Sessions = len(counted)
	return f
}

// Between returns the work from one time until before another, to a quarter of an hour. A zero time sets no limit.
func (w *Work) Between(from, until time.Time) *Work {
	out := &Work{sessions: w.sessions, skipped: w.skipped}
	for _, x := range w.items {
		if (from.IsZero() || x.of.at >= from.Unix()) && (until.IsZero() || x.of.at < until.Unix()) {
			out.items = append(out.items, x)
		}
	}
	return out
}

// By says how work is put together in rows.
type By string

// The ways to put work together. The names of days are like 2006-01-02, of weeks like 2006-W01 (ISO 8601), of months like
// 2006-01. Project is the directory of the session, Task the kind of work that its first prompt asks for (see [Kind]),
// Agent the agent inside a call that spent, and Session the id.
const (
	Day     By = "day"
	Week    By = "week"
	Month   By = "month"
	Model   By = "model"
	Project By = "project"
	Session By = "session"
	Task    By = "task"
	Tool    By = "tool"
	Agent   By = "agent"
)

// Ways lists all ways to put work together.
func Ways() []By { return []By{Day, Week, Month, Model, Project, Session, Task, Tool, Agent} }

// Row is the figures of one day, model and so on.
type Row struct {
	Name string `json:"name"`
	// Title describes a session: its title, or else the first line of its first prompt.
	Title string `json:"title,omitempty"`
	Figures

	prompt string // of a session
}

// By returns the figures by something. Days, weeks and months are those of a place (of UTC, if it is nil), in their order; of others, the
// dearest is first, and then the one with the most tokens and calls. Some work is in no
// row, such as the calls of tools in those of models.
func (w *Work) By(by By, loc *time.Location) []Row {
	loc = cmp.Or(loc, time.UTC)
	rows := map[string]*Row{}
	counted := map[[2]string]bool{} // sessions in rows
	for i := range w.items {
		x := &w.items[i]
		e := w.sessions[x.of.session]
		name := w.name(by, x, loc)
		if name == "" {
			continue
		}
		row := rows[name]
		if row == nil {
			row = &Row{Name: name}
			if by == Session {
				row.Title, row.prompt = cmp.Or(e.Title, e.Prompt), e.Prompt
			}
			rows[name] = row
		}
		row.add(&x.Figures)
		if k := [2]string{name, e.ID}; !counted[k] {
			counted[k] = true
			row.Sessions++
		}
	}
	out := []Row{}
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		out = append(out, *rows[name])
	}
	if by != Day && by != Week && by != Month {
		slices.SortStableFunc(out, func(a, b Row) int {
			return cmp.Or(cmp.Compare(b.Cost, a.Cost), cmp.Compare(b.Tokens(), a.Tokens()), b.Calls-a.Calls)
		})
	}
	return out
}

// Calls returns how often each tool was called in each session: the keys are the id of a session, and the name of a tool.
func (w *Work) Calls() map[string]map[string]int {
	calls := map[string]map[string]int{}
	for i := range w.items {
		x := &w.items[i]
		if x.of.tool == "" {
			continue
		}
		id := w.sessions[x.of.session].ID
		if calls[id] == nil {
			calls[id] = map[string]int{}
		}
		calls[id][x.of.tool] += x.Figures.Calls
	}
	return calls
}

func (w *Work) name(by By, x *item, loc *time.Location) string {
	at, e := time.Unix(x.of.at, 0).In(loc), w.sessions[x.of.session]
	switch by {
	case Day:
		return at.Format(time.DateOnly)
	case Week:
		year, week := at.ISOWeek()
		return fmt.Sprintf("%d-W%02d", year, week)
	case Month:
		return at.Format("2006-01")
	case Model:
		return x.of.model
	case Project:
		return cmp.Or(e.Dir, unknown)
	case Session:
		return e.ID
	case Task:
		return Kind(e.Prompt)
	case Tool:
		return x.of.tool
	case Agent:
		return x.of.agent
	}
	return ""
}
