package usage_test

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/compaction"
	"github.com/aycoder/aycoder/insight/usage"
	"github.com/aycoder/aycoder/internal/payer"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/middleware"
	"github.com/aycoder/aycoder/session"
	"github.com/aycoder/aycoder/tools"
)

// overloaded is a client that refuses every third request, so that another one answers.
type overloaded struct {
	aycoder.ModelClient
	n int
}

func (o *overloaded) Stream(ctx context.Context, req *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
	if o.n++; o.n%3 != 0 {
		return o.ModelClient.Stream(ctx, req)
	}
	return func(yield func(aycoder.ModelEvent, error) bool) {
		yield(nil, &aycoder.OverloadedError{ModelError: &aycoder.ModelError{Status: 529}})
	}
}

func sessions(t *testing.T) int {
	if n, err := strconv.Atoi(os.Getenv("AYCODER_SESSIONS")); err == nil {
		return n
	}
	return 40
}

// The totals of random sessions equal what their models have charged, each answer once: with forks and
// imports of sessions, several branches, summaries of compactions, fallbacks, agents inside, and sessions that were deleted.
func TestTotals(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store, err := journal.Dir(dir)
	require.NoError(t, err)
	bill := new(payer.Bill)
	forks, imports, compacted, small, spare := 0, 0, 0, 0, 0
	for i := range uint64(sessions(t)) {
		r := rand.New(rand.NewPCG(i, 22))
		look, err := aycoder.NewTool("read", "returns a long text",
			func(_ context.Context, _ *aycoder.Invocation, in struct {
				Text string `json:"text"`
			}) (*aycoder.ToolResult, error) {
				return aycoder.TextResult(strings.Repeat(in.Text+" and more of it\n", 300)), nil
			}, aycoder.WithEffect(aycoder.EffectReadOnly))
		require.NoError(t, err)
		sub, err := tools.Subagent(tools.SubagentConfig{Name: "sub", Model: payer.New(bill, i, "small", "read"), Tools: []aycoder.Tool{look}, MaxTurns: 4})
		require.NoError(t, err)
		model := middleware.Fallback(payer.New(bill, i, "spare", "read", "sub"))(&overloaded{payer.New(bill, i, "large", "read", "sub"), 0})
		keep, err := compaction.New(model, compaction.WithWindow(8000), compaction.WithSummarizer(payer.New(bill, i, "summary"), "summary"))
		require.NoError(t, err)
		loop, err := aycoder.New(model, aycoder.WithTools(look, sub), aycoder.WithContextMiddleware(keep.Middleware), aycoder.WithLimits(aycoder.Limits{Turns: 6}))
		require.NoError(t, err)
		s, err := session.New(t.Context(), store, loop, session.WithDir(dir))
		require.NoError(t, err)
		run := func(b interface {
			Run(context.Context, aycoder.Input, ...aycoder.RunOption) iter.Seq2[aycoder.Event, error]
		}) {
			for ev := range b.Run(t.Context(), aycoder.Input{Prompt: "fix it"}) {
				if _, ok := ev.(*aycoder.Compacted); ok {
					compacted++
				}
			}
		}
		for range 1 + r.IntN(4) {
			run(s)
		}
		if r.IntN(2) == 0 {
			b, err := s.NewBranch(t.Context(), "other", session.ID(r.IntN(s.View().Len())), loop)
			require.NoError(t, err)
			run(b)
		}
		if r.IntN(3) == 0 {
			f, err := s.Fork(t.Context(), session.ID(r.IntN(s.View().Len())))
			require.NoError(t, err)
			run(f)
			forks++
			require.NoError(t, f.Close())
		}
		if r.IntN(4) == 0 {
			var doc bytes.Buffer
			require.NoError(t, s.View().WriteJSON(&doc))
			c, err := session.Import(t.Context(), store, loop, &doc)
			require.NoError(t, err)
			imports++
			require.NoError(t, c.Close())
			if r.IntN(2) == 0 { // the copy is what is left
				require.NoError(t, s.Close())
				require.NoError(t, store.Delete(t.Context(), s.ID()))
				continue
			}
		}
		require.NoError(t, s.Close())
	}
	w, err := usage.Collect(t.Context(), store, nil)
	require.NoError(t, err)
	require.Empty(t, w.Skipped())
	answers, tokens, cents := bill.Total()
	got := w.Total()
	require.Equal(t, answers, got.Answers)
	require.Equal(t, tokens, got.Usage)
	require.InDelta(t, float64(cents)/100, got.Cost, 1e-6)
	require.Zero(t, got.Unpriced)
	for _, row := range w.By(usage.Model, time.UTC) {
		require.InDelta(t, float64(bill.Cents(strings.TrimPrefix(row.Name, "fake/")))/100, row.Cost, 1e-6, row.Name)
		switch row.Name {
		case "fake/small":
			small = row.Answers
		case "fake/spare":
			spare = row.Answers
		}
	}
	for _, by := range []usage.By{usage.Day, usage.Week, usage.Month, usage.Project, usage.Session, usage.Task} {
		sum := 0
		for _, row := range w.By(by, time.UTC) {
			sum += row.Answers
		}
		require.Equal(t, answers, sum, by)
	}
	calls := map[string]int{}
	for id, tools := range w.Calls() {
		require.NotEmpty(t, id)
		for tool, n := range tools {
			calls[tool] += n
		}
	}
	for _, row := range w.By(usage.Tool, time.UTC) {
		require.Equal(t, row.Calls, calls[row.Name], row.Name)
		delete(calls, row.Name)
	}
	require.Empty(t, calls)
	t.Logf("%d sessions, %d forks, %d imports, %d compactions, %d answers, %d of agents inside, %d of fallbacks",
		got.Sessions, forks, imports, compacted, answers, small, spare)
	for _, n := range []int{forks, imports, compacted, small, spare} {
		require.Positive(t, n)
	}
}

// clock is set by a test.
type clock struct {
	aycoder.Clock
	now time.Time
}

func (c *clock) Now() time.Time { return c.now }

// known makes sessions whose figures are known.
func known(t testing.TB) (w *usage.Work, ids, runs []string) {
	store := journal.Memory()
	c := &clock{aycoder.SystemClock(), time.Time{}}
	for i, x := range []struct {
		at     time.Time
		prompt string
		cost   float64
		turn   time.Duration
	}{
		{time.Date(2026, 2, 3, 9, 0, 0, 0, time.UTC), "fix the parser", 1, time.Minute},
		{time.Date(2026, 2, 3, 23, 50, 0, 0, time.UTC), "fix the lexer", 1, 2 * time.Minute},
		{time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC), "add a flag", 2, 3 * time.Minute},
		{time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC), "add tests for the flag", 0, 4 * time.Minute},
		{time.Date(2026, 3, 9, 10, 0, 0, 0, time.UTC), "=cmd|' /C calc'!A0", 1, 5 * time.Hour},
		{time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC), "why is it slow?", 7, 10 * time.Minute},
	} {
		c.now = x.at
		model := modelFunc(func(yield func(aycoder.ModelEvent, error) bool) {
			c.now = c.now.Add(x.turn)
			done := &aycoder.MessageDone{Stop: aycoder.StopEndTurn, Model: "m", Provider: "p", Usage: aycoder.Usage{Input: 100, Output: 10}}
			if x.cost > 0 {
				done.Cost = &x.cost
			}
			_ = yield(&aycoder.BlockDone{Part: &aycoder.Text{Text: "ok"}}, nil) && yield(done, nil)
		})
		loop, err := aycoder.New(model)
		require.NoError(t, err)
		s, err := session.New(t.Context(), store, loop, session.WithClock(c), session.WithID(fmt.Sprintf("session%d", i)))
		require.NoError(t, err)
		for _, err := range s.Run(t.Context(), aycoder.Input{Prompt: x.prompt}) {
			require.NoError(t, err)
		}
		require.NoError(t, s.Close())
		ids, runs = append(ids, s.ID()), append(runs, s.View().Node(1).Run)
	}
	w, err := usage.Collect(t.Context(), store, nil)
	require.NoError(t, err)
	return w, ids, runs
}

type modelFunc func(yield func(aycoder.ModelEvent, error) bool)

func (f modelFunc) Stream(context.Context, *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
	return iter.Seq2[aycoder.ModelEvent, error](f)
}

func names(rows []usage.Row) (out []string) {
	for _, r := range rows {
		out = append(out, fmt.Sprintf("%s %.2f", r.Name, r.Cost))
	}
	return out
}

func TestReport(t *testing.T) {
	t.Parallel()
	w, ids, _ := known(t)
	now := time.Date(2026, 3, 11, 0, 0, 0, 0, time.UTC)
	r, err := w.Report(usage.Options{
		Now: now, Location: time.UTC, Budget: 20, Rate: 60,
		Manual: map[string]time.Duration{usage.Fix: time.Hour, ids[2]: 30 * time.Minute},
	})
	require.NoError(t, err)
	require.Equal(t, 6, r.Total.Sessions)
	require.Equal(t, 6, r.Total.Prompts)
	require.Equal(t, 1, r.Total.Unpriced)
	require.InDelta(t, 12, r.Total.Cost, 1e-9)
	require.Equal(t, 50*time.Minute, r.Total.Time, "of five hours, half an hour counts")
	require.Equal(t, []string{"2026-02-03 2.00", "2026-03-01 2.00", "2026-03-02 0.00", "2026-03-09 1.00", "2026-03-10 7.00"}, names(r.Days))
	require.Equal(t, []string{"question 7.00", "fix 2.00", "feature 2.00", "other 1.00", "tests 0.00"}, names(r.Tasks))
	require.Equal(t, ids[5], r.Dearest[0].Name)
	require.Len(t, r.Dearest, 5, "one has no price")
	require.InDelta(t, 1, r.Median, 1e-9)
	require.Equal(t, []string{ids[5] + " 7.00"}, names(r.Outliers), "two dollars are not more than twice the median")
	require.InDelta(t, 10, r.Month.Cost, 1e-9)
	require.InDelta(t, 31, *r.Month.Projected, 1e-9, "ten of 31 days")
	require.Contains(t, r.Month.Alert, "about $31.00")

	// By hand 2 × 60 + 30 minutes; spent 1 + 2 + 3.
	require.Equal(t, 150*time.Minute, r.Return.All.Manual)
	require.Equal(t, 6*time.Minute, r.Return.All.Spent)
	require.InDelta(t, 25, r.Return.All.Multiplier, 1e-9)
	require.InDelta(t, 144-4, *r.Return.Net, 1e-9)
	require.Equal(t, 3, r.Return.Without)
	require.Contains(t, strings.Join(r.Notes, "\n"), "fix 1.0 h")
	require.Contains(t, strings.Join(r.Notes, "\n"), "a run that waits for somebody, are not in the sums")
	require.Contains(t, strings.Join(r.Notes, "\n"), "1 of 6 answers have no known price")

	// In another place, a night belongs to another day.
	r, err = w.Report(usage.Options{Now: now, Location: time.FixedZone("", 3600), Days: 3})
	require.NoError(t, err)
	require.Equal(t, []string{"2026-03-09 1.00", "2026-03-10 7.00"}, names(r.Days))
	require.Nil(t, r.Return)
	require.Equal(t, []string{"2026-02-03 1.00", "2026-02-04 1.00"}, names(w.By(usage.Day, time.FixedZone("", 3600)))[:2])
	require.Equal(t, []string{"2026-W06 2.00", "2026-W09 2.00", "2026-W10 0.00", "2026-W11 8.00"}, names(w.By(usage.Week, time.UTC)))
}

func TestReportOptions(t *testing.T) {
	t.Parallel()
	require.Empty(t, new(usage.Work).By(usage.Day, nil))
	for _, o := range []usage.Options{{Days: -1}, {Budget: -1}, {Rate: -1}, {Manual: map[string]time.Duration{"fix": 0}},
		{Manual: map[string]time.Duration{"fxi": time.Hour}}} {
		_, err := new(usage.Work).Report(o)
		require.ErrorAs(t, err, new(*aycoder.ConfigError))
	}
	r, err := new(usage.Work).Report(usage.Options{})
	require.NoError(t, err)
	require.Nil(t, r.Month)
	for _, write := range []func(*bytes.Buffer) error{
		func(b *bytes.Buffer) error { return r.WriteText(b) }, func(b *bytes.Buffer) error { return r.WriteHTML(b) },
	} {
		var b bytes.Buffer
		require.NoError(t, write(&b))
		require.NotContains(t, b.String(), "NaN")
	}
}

func TestForms(t *testing.T) {
	t.Parallel()
	w, ids, _ := known(t)
	r, err := w.Report(usage.Options{Now: time.Date(2026, 3, 11, 0, 0, 0, 0, time.UTC), Location: time.UTC, Rate: 60,
		Manual: map[string]time.Duration{usage.Fix: time.Hour}})
	require.NoError(t, err)
	var b bytes.Buffer
	require.NoError(t, usage.WriteCSV(&b, usage.Session, w.By(usage.Session, time.UTC)))
	rows, err := csv.NewReader(&b).ReadAll()
	require.NoError(t, err)
	require.Len(t, rows, 7)
	require.Equal(t, []string{ids[5], "why is it slow?", "1", "1", "1", "0", "7"}, rows[1][:7])
	require.Contains(t, []string{rows[3][1], rows[4][1], rows[5][1]}, "'=cmd|' /C calc'!A0")
	b.Reset()
	require.NoError(t, r.WriteHTML(&b))
	require.NotContains(t, b.String(), "<script")
	require.Equal(t, 4, strings.Count(b.String(), "<rect "), "a day without a cost has no bar")
	require.NotContains(t, b.String(), "%!")
	require.Contains(t, b.String(), "about $31.00 if it goes on")
	data, err := json.Marshal(r)
	require.NoError(t, err)
	var back usage.Report
	require.NoError(t, json.Unmarshal(data, &back))
	require.Equal(t, r.Total, back.Total)
	require.Equal(t, r.Return.All, back.Return.All)
}

// A cost of less than half a cent is shown as one.
func TestSmallCosts(t *testing.T) {
	for cost, want := range map[float64]string{0: "$0.00", 1e-9: "<$0.01", 0.0049: "<$0.01", 0.005: "$0.01", 1.234: "$1.23"} {
		require.Equal(t, want+", 1 answer", usage.Figures{Answers: 1, Cost: cost}.Line())
	}
}

// A token that was written to a cache went in, on the page as in the text.
func TestTokensOfPage(t *testing.T) {
	row := usage.Row{Name: "2026-03-01", Figures: usage.Figures{Answers: 1, Usage: aycoder.Usage{Input: 1000, CacheRead: 30, CacheWrite: 50, Output: 200}}}
	require.Contains(t, row.Line(), "1050 tokens in, 200 out, 30 cached")
	var b bytes.Buffer
	require.NoError(t, (&usage.Report{Days: []usage.Row{row}}).WriteHTML(&b))
	require.Contains(t, b.String(), "<td>1050<td>200<td>30<td>")
}

// charging returns an agent whose answers take a minute each and cost a dollar.
func charging(t *testing.T, c *clock, opts ...aycoder.Option) aycoder.Agent {
	loop, err := aycoder.New(answering(c, 1000), opts...)
	require.NoError(t, err)
	return loop
}

func answering(c *clock, words int) modelFunc {
	return func(yield func(aycoder.ModelEvent, error) bool) {
		c.now = c.now.Add(time.Minute)
		done := &aycoder.MessageDone{Stop: aycoder.StopEndTurn, Model: "m", Provider: "p", Cost: new(1.0), Usage: aycoder.Usage{Input: 100, Output: 10}}
		_ = yield(&aycoder.BlockDone{Part: &aycoder.Text{Text: strings.Repeat("word ", words)}}, nil) && yield(done, nil)
	}
}

// The time of a summary is a part of the time of its run.
func TestTimeOfSummary(t *testing.T) {
	t.Parallel()
	c := &clock{aycoder.SystemClock(), time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	keep, err := compaction.New(answering(c, 1000), compaction.WithWindow(8000), compaction.WithSummarizer(answering(c, 100), "summary"))
	require.NoError(t, err)
	store, summaries := journal.Memory(), 0
	s, err := session.New(t.Context(), store, charging(t, c, aycoder.WithContextMiddleware(keep.Middleware)), session.WithClock(c))
	require.NoError(t, err)
	began := c.now
	for range 20 {
		for ev, err := range s.Run(t.Context(), aycoder.Input{Prompt: "go on"}) {
			require.NoError(t, err)
			if done, ok := ev.(*aycoder.Compacted); ok && done.Usage.Output > 0 {
				summaries++
			}
		}
	}
	require.NoError(t, s.Close())
	require.Positive(t, summaries)
	w, err := usage.Collect(t.Context(), store, nil)
	require.NoError(t, err)
	require.Equal(t, c.now.Sub(began), w.Total().Time)
}

// Changes of files while a run waits do not end the turn.
func TestTimeWithChanges(t *testing.T) {
	t.Parallel()
	store := journal.Memory()
	s, err := session.Import(t.Context(), store, charging(t, &clock{Clock: aycoder.SystemClock()}), strings.NewReader(`{"format":"aycoder-tree","version":1,"heads":{"main":4},"nodes":[
		{"id":1,"parent":0,"run":"r","at":"2026-03-01T12:00:00Z","message":{"role":"user","parts":[{"type":"text","text":"go"}]}},
		{"id":2,"parent":1,"at":"2026-03-01T12:03:00Z"},
		{"id":3,"parent":2,"run":"r","at":"2026-03-01T12:05:00Z","message":{"role":"assistant","parts":[{"type":"text","text":"ok"}]}},
		{"id":4,"parent":3,"run":"q","at":"2026-03-01T12:06:00Z","message":{"role":"user","parts":[{"type":"text","text":"go"}]}}]}`))
	require.NoError(t, err)
	require.NoError(t, s.Close())
	w, err := usage.Collect(t.Context(), store, nil)
	require.NoError(t, err)
	require.Equal(t, 5*time.Minute, w.Total().Time)
	require.Equal(t, 2, w.Total().Prompts)
}

// A report begins with its first day where that has no midnight, and its picture has a place for each day.
func TestOddDays(t *testing.T) {
	t.Parallel()
	c := &clock{Clock: aycoder.SystemClock()}
	store, agent := journal.Memory(), charging(t, c)
	for _, at := range []time.Time{
		time.Date(2016, 3, 1, 4, 0, 0, 0, time.UTC), time.Date(2018, 10, 20, 12, 0, 0, 0, time.UTC),
		time.Date(2018, 11, 4, 2, 40, 0, 0, time.UTC), time.Date(2018, 11, 4, 3, 10, 0, 0, time.UTC),
	} {
		c.now = at
		s, err := session.New(t.Context(), store, agent, session.WithClock(c))
		require.NoError(t, err)
		for _, err := range s.Run(t.Context(), aycoder.Input{Prompt: "x"}) {
			require.NoError(t, err)
		}
		require.NoError(t, s.Close())
	}
	w, err := usage.Collect(t.Context(), store, nil)
	require.NoError(t, err)
	place, err := time.LoadLocation("America/Sao_Paulo") // 2018-11-04 began at 1:00, which was 3:00 in UTC
	if err != nil {
		t.Skip("this system does not know the time zones")
	}
	o := usage.Options{Now: time.Date(2018, 11, 4, 12, 0, 0, 0, time.UTC), Location: place, Days: 1}
	r, err := w.Report(o)
	require.NoError(t, err)
	require.Equal(t, []string{"2018-11-04 1.00"}, names(r.Days))
	o.Days = 0
	r, err = w.Report(o)
	require.NoError(t, err)
	var b strings.Builder
	require.NoError(t, r.WriteHTML(&b))
	var xs []float64
	for _, bar := range strings.Split(b.String(), `<rect x="`)[1:] {
		x, err := strconv.ParseFloat(bar[:strings.IndexByte(bar, '"')], 64)
		require.NoError(t, err)
		xs = append(xs, x)
	}
	require.Len(t, xs, 3, "one day is too long ago")
	require.InDelta(t, 14, (xs[1]-xs[0])/(xs[2]-xs[1]), 1e-9, "14 days, and then one")
}

// A report begins with its first day where that has two midnights.
func TestTwoMidnights(t *testing.T) {
	t.Parallel()
	place, err := time.LoadLocation("Asia/Amman") // 2021-10-29 began at 21:00 UTC, and again at 22:00
	if err != nil {
		t.Skip("this system does not know the time zones")
	}
	c, store := &clock{aycoder.SystemClock(), time.Date(2021, 10, 28, 21, 30, 0, 0, time.UTC)}, journal.Memory()
	s, err := session.New(t.Context(), store, charging(t, c), session.WithClock(c))
	require.NoError(t, err)
	for _, err := range s.Run(t.Context(), aycoder.Input{Prompt: "x"}) {
		require.NoError(t, err)
	}
	require.NoError(t, s.Close())
	w, err := usage.Collect(t.Context(), store, nil)
	require.NoError(t, err)
	require.Equal(t, []string{"2021-10-29 1.00"}, names(w.By(usage.Day, place)))
	r, err := w.Report(usage.Options{Now: time.Date(2021, 10, 29, 12, 0, 0, 0, time.UTC), Location: place, Days: 1})
	require.NoError(t, err)
	require.Equal(t, []string{"2021-10-29 1.00"}, names(r.Days))
}

// The decisions of the user come from audit logs, and belong to the sessions of their runs.
func TestAudit(t *testing.T) {
	t.Parallel()
	w, ids, runs := known(t)
	require.NotEmpty(t, runs[0])
	var log strings.Builder
	for _, r := range []aycoder.AuditRecord{
		{Place: aycoder.Place{Run: runs[0]}, Verdict: "allow", By: aycoder.ByUser, Tool: "bash"},
		{Place: aycoder.Place{Run: runs[0]}, Verdict: "deny", By: aycoder.ByUser, Tool: "bash"},
		{Place: aycoder.Place{Run: runs[2]}, Verdict: "deny", By: aycoder.ByUser, Tool: "fetch"},
		{Place: aycoder.Place{Run: runs[2]}, Verdict: "allow", By: aycoder.ByRule, Tool: "fetch"},
		{Place: aycoder.Place{Run: "another"}, Verdict: "allow", By: aycoder.ByUser, Tool: "bash"},
	} {
		r.Time = time.Date(2026, 2, 3, 9, 0, 0, 0, time.UTC)
		line, err := json.Marshal(r)
		require.NoError(t, err)
		log.Write(append(line, '\n'))
	}
	require.ErrorContains(t, w.AddAudit(strings.NewReader(log.String()+"nonsense\n")), "1 lines are no records")
	require.Equal(t, 1, w.Total().Approved)
	require.Equal(t, 2, w.Total().Denied)
	for _, row := range w.By(usage.Session, time.UTC) {
		require.Equal(t, map[string]int{ids[0]: 1, ids[2]: 1}[row.Name], row.Denied, row.Name)
	}
}

// A decision without a run belongs to no session, not even to one with messages of no run.
func TestAuditWithoutRun(t *testing.T) {
	t.Parallel()
	c, store := &clock{aycoder.SystemClock(), time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}, journal.Memory()
	s, err := session.New(t.Context(), store, charging(t, c), session.WithClock(c))
	require.NoError(t, err)
	say := func(role aycoder.Role) *aycoder.Message {
		return &aycoder.Message{Role: role, Parts: []aycoder.Part{&aycoder.Text{Text: "x"}}}
	}
	for _, err := range s.Run(t.Context(), aycoder.Input{Messages: []*aycoder.Message{say(aycoder.RoleUser), say(aycoder.RoleAssistant)}, Prompt: "go"}) {
		require.NoError(t, err)
	}
	require.NoError(t, s.Close())
	w, err := usage.Collect(t.Context(), store, nil)
	require.NoError(t, err)
	require.NoError(t, w.AddAudit(strings.NewReader(`{"time":"2026-03-01T12:00:00Z","verdict":"allow","by":"user","tool":"bash"}`+"\n")))
	require.Zero(t, w.Total().Approved)
}

func TestKind(t *testing.T) {
	t.Parallel()
	for prompt, want := range map[string]string{
		"Fix the flaky test in server": usage.Fix, "please add a test for Parse": usage.Tests, "Write the README": usage.Docs,
		"Add retries to the client": usage.Feature, "rename Foo to Bar": usage.Refactor, "Why does it fail?": usage.Question,
		"review this change": usage.Review, "": usage.Other, "🙂 123": usage.Other, "Let's go": usage.Other,
		"update the docs of the client": usage.Docs, "How do I build this?": usage.Question,
	} {
		require.Equal(t, want, usage.Kind(prompt), prompt)
		require.Contains(t, usage.Kinds(), want)
	}
}
