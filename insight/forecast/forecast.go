// Package forecast says what a task may take, before it is done: by its words, and by what was done before. It knows
// conversations from their journals, and commits from git.
//
//	f, skipped, err := forecast.Load(ctx, forecast.Sources{Store: store, Files: ws, Dir: ws.Dir()})
//	fmt.Print(f.Of("fix the crash in the parser").Text())
//
// A forecast is made from the ten most similar tasks. It is a guess, and docs/benchmarks.md says how good: the words of
// a task say little about its size. A range is given only where such ranges were right for tasks that are known.
package forecast

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/aycoder/aycoder/codegraph"
	"github.com/aycoder/aycoder/insight/code"
	"github.com/aycoder/aycoder/insight/usage"
	"github.com/aycoder/aycoder/internal/ignore"
	"github.com/aycoder/aycoder/internal/runes"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/retrieval"
	"github.com/aycoder/aycoder/session"
)

// Task is a task that was done in a conversation: its first prompt, what it took, and how often each tool was called.
type Task struct {
	Words string
	usage.Figures
	Tools map[string]int
}

// Tasks returns the newest conversations of a store, at most the number most, for which keep returns true, or of all if keep is nil,
// the oldest first. Those without an answer are left out. keep may change what an entry says, to mask it.
func Tasks(ctx context.Context, store journal.Store, most int, keep func(*journal.Entry) bool) (tasks []Task, err error) {
	all, err := session.List(ctx, store, nil)
	if err != nil {
		return nil, fmt.Errorf("read tasks: %w", err)
	}
	keep = newest(all, keep, most)
	entries := map[string]*journal.Entry{}
	work, err := usage.Collect(ctx, store, func(e *journal.Entry) bool {
		entries[e.ID] = e
		return keep(e)
	})
	if err != nil {
		return nil, err
	}
	rows, calls := work.By(usage.Session, time.UTC), work.Calls()
	slices.SortStableFunc(rows, func(a, b usage.Row) int { return entries[a.Name].Created.Compare(entries[b.Name].Created) })
	for i := range rows {
		if r := &rows[i]; r.Answers > 0 {
			tasks = append(tasks, Task{cmp.Or(entries[r.Name].Prompt, r.Title), r.Figures, calls[r.Name]})
		}
	}
	return tasks, nil
}

// Options configure [New]. All of them are optional: without a source, a forecast says less.
type Options struct {
	// Tasks are what [Tasks] returns. The oldest is first.
	Tasks []Task
	// Commits are those of the repository, the oldest first: see [Commits].
	Commits []Commit
	// Graph has the files of the workspace.
	Graph *codegraph.Snapshot
	// Factor is how many hours a person works on what takes an agent one hour, as the user says. Default: none, so that
	// nothing is said about people.
	Factor float64
}

// Forecaster makes forecasts. It does not change, and is safe for concurrent use.
type Forecaster struct {
	o                               Options
	tasks, commits                  *past
	turns, minutes, tokens, dollars *ranges
	lines, files                    *ranges
	names                           *retrieval.Lexical
	churn                           map[string]int // commits in the newest 90 days
}

const recent = 90 * 24 * time.Hour

// New prepares forecasts.
func New(o Options) *Forecaster {
	f := &Forecaster{o: o, names: retrieval.NewLexical(), churn: map[string]int{}}
	words, values := []string{}, map[string][]float64{}
	for i := range o.Tasks {
		t := &o.Tasks[i]
		words = append(words, t.Words)
		for name, v := range map[string]float64{"turns": float64(t.Answers), "minutes": t.Time.Minutes(), "tokens": float64(t.Tokens()), "dollars": t.Cost} {
			values[name] = append(values[name], v)
		}
	}
	f.tasks = newPast(words)
	f.turns, f.minutes = f.tasks.ranges(values["turns"], 1), f.tasks.ranges(values["minutes"], 1)
	f.tokens, f.dollars = f.tasks.ranges(values["tokens"], 1000), f.tasks.ranges(values["dollars"], 0.01)
	words = nil
	for i := range o.Commits {
		c := &o.Commits[i]
		words = append(words, c.Subject)
		values["lines"] = append(values["lines"], float64(c.Lines))
		values["files"] = append(values["files"], float64(len(c.Files)))
		if c.Time.Add(recent).After(o.Commits[len(o.Commits)-1].Time) {
			for _, name := range c.Files {
				f.churn[name]++
			}
		}
	}
	f.commits = newPast(words)
	f.lines, f.files = f.commits.ranges(values["lines"], 1), f.commits.ranges(values["files"], 1)
	if o.Graph == nil {
		return f
	}
	for name := range o.Graph.Files() {
		var text strings.Builder
		text.WriteString(name)
		if facts := o.Graph.Facts(name); facts != nil {
			for _, d := range facts.Decls {
				text.WriteString("\n" + d.Name)
			}
		}
		f.names.Put(retrieval.Item{ID: name}, text.String())
	}
	return f
}

// Forecast is what a task may take.
type Forecast struct {
	// Kind is one of [usage.Kinds].
	Kind string `json:"kind"`
	// Tasks is how many tasks of the journals it is made from, at most ten, and Turns to Dollars are what these took. Dollars
	// is nil if the cost of one is not known.
	Tasks   int    `json:"tasks"`
	Turns   *Range `json:"turns,omitempty"`
	Minutes *Range `json:"minutes,omitempty"`
	Tokens  *Range `json:"tokens,omitempty"`
	Dollars *Range `json:"dollars,omitempty"`
	// MaxCost is a bound that all of these tasks would have kept, in US dollars, or 0.
	MaxCost float64 `json:"max_cost,omitempty"`
	// Lines and Files are what similar commits have changed.
	Lines *Range `json:"lines,omitempty"`
	Files *Range `json:"files,omitempty"`
	// Probable are files that the task may touch, the most probable first, at most ten.
	Probable []Probable `json:"probable,omitempty"`
	// Risk is "low", "medium" or "high", by the number of Reasons. It is "" if nothing is known of the files.
	Risk    string   `json:"risk,omitempty"`
	Reasons []string `json:"reasons,omitempty"`
	// Phases are shares of the calls of tools in these tasks.
	Phases []Phase `json:"phases,omitempty"`
	// Hours are those of a person, from Minutes and Factor, which the user has given, or 0.
	Hours  float64 `json:"hours,omitempty"`
	Factor float64 `json:"factor,omitempty"`
}

// Probable is a file that a task may touch.
type Probable struct {
	Path string `json:"path"`
	// Commits is how many of the similar commits have changed it.
	Commits int `json:"commits,omitempty"`
}

// Phase is a part of the work.
type Phase struct {
	Name  string  `json:"name"`
	Share float64 `json:"share"`
}

// Of returns the forecast for a task by its words.
func (f *Forecaster) Of(words string) *Forecast {
	out := &Forecast{Kind: KindOf(words)}
	if near := f.tasks.like(words, nil); len(near) > 0 {
		turns, minutes, tokens, dollars := f.turns.of(words), f.minutes.of(words), f.tokens.of(words), f.dollars.of(words)
		out.Tasks, out.Turns, out.Minutes, out.Tokens = len(near), &turns, &minutes, &tokens
		f.phases(out, near)
		priced := true
		for _, i := range near {
			priced = priced && f.o.Tasks[i].Unpriced == 0
			out.MaxCost = max(out.MaxCost, f.o.Tasks[i].Cost)
		}
		if out.MaxCost = math.Ceil(out.MaxCost*100) / 100; priced && out.MaxCost > 0 {
			out.Dollars = &dollars
		} else {
			out.MaxCost = 0
		}
		if f.o.Factor > 0 {
			out.Factor, out.Hours = f.o.Factor, minutes.Median/60*f.o.Factor
		}
	}
	if len(f.o.Commits) > 0 {
		lines, files := f.lines.of(words), f.files.of(words)
		out.Lines, out.Files = &lines, &files
	}
	out.Probable = f.probable(words)
	f.risk(out)
	return out
}

// Brief is what similar tasks took, in one line, with a bound for -max-cost. It is "" if fewer than ten tasks are known,
// the cost of one of the similar ones is not, or they took less than half a minute and half a cent.
func (f *Forecaster) Brief(words string) string {
	if len(f.o.Tasks) < similar {
		return ""
	}
	t := f.Of(words)
	if t.Dollars == nil {
		return ""
	}
	took := amount(t.Turns, "turn")
	switch minutes, dollars := t.Minutes.Median >= 0.5, t.Dollars.Median >= 0.005; {
	case minutes && dollars:
		took += fmt.Sprintf(", %s and $%.2f", amount(t.Minutes, "minute"), t.Dollars.Median)
	case minutes:
		took += " and " + amount(t.Minutes, "minute")
	case dollars:
		took += fmt.Sprintf(" and $%.2f", t.Dollars.Median)
	default:
		return ""
	}
	return fmt.Sprintf("The %d most similar tasks took %s as a median; -max-cost %.2f would have held for all of them.", t.Tasks, took, t.MaxCost)
}

// amount is a median in words.
func amount(r *Range, unit string) string {
	text := fmt.Sprintf("%.0f %s", r.Median, unit)
	if text == "1 "+unit {
		return text
	}
	return text + "s"
}

const (
	probable  = 10
	searched  = 30 // commits and files that are looked at
	smoothing = 10 // of reciprocal ranks
)

// probable fuses the files of similar commits with those whose names have the words, by the reciprocals of their ranks.
func (f *Forecaster) probable(words string) []Probable {
	score, commits := map[string]float64{}, map[string]int{}
	here := func(name string) bool { return f.o.Graph == nil || f.o.Graph.Facts(name) != nil }
	for rank, m := range f.commits.index.Search(words, searched, nil) {
		c := &f.o.Commits[atoi(m.Item.ID)]
		for _, name := range c.Files {
			if here(name) {
				score[name] += 1 / float64(smoothing+rank) / math.Sqrt(float64(len(c.Files)))
				commits[name]++
			}
		}
	}
	for rank, m := range f.names.Search(words, searched, nil) {
		if here(m.Item.ID) {
			score[m.Item.ID] += 1 / float64(smoothing+rank)
		}
	}
	names := slices.Collect(maps.Keys(score))
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(score[b], score[a]), cmp.Compare(a, b)) })
	var out []Probable
	for _, name := range names[:min(probable, len(names))] {
		out = append(out, Probable{name, commits[name]})
	}
	return out
}

const (
	looked    = 5  // files whose risk is told
	manyUsers = 10 // files that depend on one
	manyTimes = 10 // commits in 90 days
)

// risk tells what is risky about the most probable files.
func (f *Forecaster) risk(out *Forecast) {
	if len(out.Probable) == 0 || f.o.Graph == nil {
		return
	}
	var reasons []string
	all := slices.Collect(f.o.Graph.Files())
	add := func(format string, args ...any) { reasons = append(reasons, fmt.Sprintf(format, args...)) }
	for _, p := range out.Probable[:min(looked, len(out.Probable))] {
		name := runes.Path(p.Path)
		if n := f.churn[p.Path]; n >= manyTimes {
			add("%s has changed in %d commits of the newest 90 days", name, n)
		}
		users := f.o.Graph.Dependents(p.Path)
		if len(users) >= manyUsers {
			add("%d files depend on %s", len(users), name)
		}
		same := func(other string) bool { return path.Dir(other) == path.Dir(p.Path) && code.IsTest(other) }
		if !code.IsTest(p.Path) && !slices.ContainsFunc(users, code.IsTest) && !slices.ContainsFunc(all, same) {
			add("no test uses %s", name)
		}
		for _, why := range ignore.WhyRuns([]string{p.Path}, 1) {
			add("%s", why)
		}
	}
	out.Reasons, out.Risk = reasons, []string{"low", "medium", "medium", "high"}[min(len(reasons), 3)]
}

// phases tells what the calls of tools in some tasks were for.
func (f *Forecaster) phases(out *Forecast, tasks []int) {
	const few = 20
	counts, all := map[string]int{}, 0
	for _, i := range tasks {
		for tool, n := range f.o.Tasks[i].Tools {
			phase := "other tools"
			switch tool {
			case "read_file", "list_files", "glob", "search", "code_search", "semantic_search", "definition", "references":
				phase = "looking"
			case "write_file", "edit_file", "multi_edit", "apply_patch", "replace", "rename":
				phase = "changing"
			case "bash", "bash_output":
				phase = "running"
			}
			counts[phase] += n
			all += n
		}
	}
	if all < few {
		return
	}
	for _, name := range []string{"looking", "changing", "running", "other tools"} {
		if counts[name] > 0 {
			out.Phases = append(out.Phases, Phase{name, float64(counts[name]) / float64(all)})
		}
	}
}

// Text is the forecast for people.
func (t *Forecast) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "kind: %s\n", t.Kind)
	line := func(name string, r *Range, format string) {
		if r == nil {
			return
		}
		fmt.Fprintf(&b, "  %-8s "+format, name, r.Median)
		if r.Holds > 0 {
			fmt.Fprintf(&b, "; four of five from "+format+" to "+format+" (%.0f %% of the newer half were in ranges made from the older half)", r.Least, r.Most, 100*r.Holds)
		} else if name != "lines" && name != "files" {
			fmt.Fprintf(&b, "; these took "+format+" to "+format, r.Least, r.Most)
		}
		b.WriteByte('\n')
	}
	if t.Tasks > 0 {
		fmt.Fprintf(&b, "the %d most similar tasks in your journals took, as a median:\n", t.Tasks)
		line("turns", t.Turns, "%.0f")
		line("minutes", t.Minutes, "%.0f")
		line("tokens", t.Tokens, "%.0f")
		line("dollars", t.Dollars, "%.2f")
	}
	if t.MaxCost > 0 {
		fmt.Fprintf(&b, "a bound that they would have kept: -max-cost %.2f\n", t.MaxCost)
	}
	if t.Hours > 0 {
		fmt.Fprintf(&b, "a person: %.1f hours, if it takes %.1f times as long, as you say\n", t.Hours, t.Factor)
	}
	if t.Lines != nil {
		b.WriteString("similar commits changed, as a median:\n")
		line("lines", t.Lines, "%.0f")
		line("files", t.Files, "%.0f")
	}
	if len(t.Probable) > 0 {
		b.WriteString("files that it may touch:\n")
		for _, p := range t.Probable {
			fmt.Fprintf(&b, "  %s", runes.Path(p.Path))
			if p.Commits > 0 {
				fmt.Fprintf(&b, " (in %d of the similar commits)", p.Commits)
			}
			b.WriteByte('\n')
		}
	}
	if t.Risk != "" {
		fmt.Fprintf(&b, "risk: %s\n", t.Risk)
		for _, r := range t.Reasons {
			fmt.Fprintf(&b, "  %s\n", runes.Line(r))
		}
	}
	if len(t.Phases) > 0 {
		b.WriteString("their calls of tools:")
		for _, p := range t.Phases {
			fmt.Fprintf(&b, " %s %.0f %%", p.Name, 100*p.Share)
		}
		b.WriteByte('\n')
	}
	return b.String()
}
