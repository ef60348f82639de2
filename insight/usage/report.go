package usage

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/journal"
)

// Options say what a [Report] tells. The zero Options are valid.
type Options struct {
	// Now is the time of the report. Default: that of the clock.
	Now time.Time
	// Days is how many days it is about, today included. Default: all.
	Days int
	// Location is where days begin. Default: [time.Local].
	Location *time.Location
	// Budget is what a month may cost in US dollars. Default: none, so that no budget is mentioned.
	Budget float64
	// Manual says how long the work would take somebody by hand: by kind of task (see [Kinds]) or by the id of a session,
	// which goes before. Sessions without such a time have no part in the [Return]. Default: no Return.
	Manual map[string]time.Duration
	// Rate is what an hour of this work costs in US dollars. Default: none, so that no time is turned into money.
	Rate float64
}

// check returns a [*aycoder.ConfigError] for figures that make no sense.
func (o *Options) check() error {
	bad := func(name, reason string) error {
		return &aycoder.ConfigError{Option: "usage.Options." + name, Err: errors.New(reason)}
	}
	for name, x := range map[string]float64{"Budget": o.Budget, "Rate": o.Rate} {
		if x < 0 || math.IsNaN(x) || math.IsInf(x, 0) {
			return bad(name, "is no amount of money")
		}
	}
	if o.Days < 0 || o.Days > 100*366 {
		return bad("Days", "is not between 0 and a hundred years")
	}
	for name, d := range o.Manual {
		if d <= 0 {
			return bad("Manual", fmt.Sprintf("the time for %q is not positive", name))
		}
	}
	return nil
}

// Report tells what was used in some days.
type Report struct {
	// From and Until are the first moment and the end. From is the zero time if all work is counted.
	From  time.Time `json:"from,omitzero"`
	Until time.Time `json:"until"`
	Total Figures   `json:"total"`
	// Days to Agents are the figures by these, see [Work.By].
	Days     []Row `json:"days"`
	Models   []Row `json:"models"`
	Projects []Row `json:"projects"`
	Tasks    []Row `json:"tasks"`
	Tools    []Row `json:"tools"`
	Agents   []Row `json:"agents,omitempty"`
	// Dearest are the ten sessions with the highest costs. Median is the median of the costs of all sessions that
	// have one, and Outliers are those that cost more than twice as much, at least five sessions given.
	Dearest  []Row   `json:"dearest"`
	Median   float64 `json:"median"`
	Outliers []Row   `json:"outliers"`
	// Month says what the present month costs, or is nil if it has no work.
	Month *Projection `json:"month,omitempty"`
	// Return says what the work was worth, or is nil without Options.Manual.
	Return *Return `json:"return,omitempty"`
	// Notes are the assumptions behind the figures, and what is missing in them. Skipped says what could not be read.
	Notes   []string `json:"notes"`
	Skipped []string `json:"skipped,omitempty"`
}

// Projection is what a month costs.
type Projection struct {
	// Name is like 2006-01. Cost is what it has cost so far, in US dollars.
	Name string  `json:"name"`
	Cost float64 `json:"cost"`
	// Projected is what the whole month costs if it goes on as it did. It is nil on its first day, and without work.
	Projected *float64 `json:"projected,omitempty"`
	// Budget is that of the Options, and Alert says that it is used up, nearly used up (80 %), or will be.
	Budget float64 `json:"budget,omitempty"`
	Alert  string  `json:"alert,omitempty"`
}

// Return compares the work with what it would have taken by hand.
type Return struct {
	// Tasks are the kinds of tasks for which the time by hand is known, and All is their sum.
	Tasks []TaskReturn `json:"tasks"`
	All   TaskReturn   `json:"all"`
	// Net is the time saved times the hourly rate, less the costs, in US dollars. It is nil without a rate or a
	// session.
	Net  *float64 `json:"net,omitempty"`
	Rate float64  `json:"rate,omitempty"`
	// Without is the number of sessions without a time by hand, which are left out.
	Without int `json:"without"`
}

// TaskReturn is the return of a kind of task. The times are in nanoseconds in JSON.
type TaskReturn struct {
	Name     string `json:"name"`
	Sessions int    `json:"sessions"`
	// Manual is what the user says it takes by hand, Spent is how long the agents worked, Saved is the difference,
	// which may be negative.
	Manual time.Duration `json:"manual"`
	Spent  time.Duration `json:"spent"`
	Saved  time.Duration `json:"saved"`
	// Multiplier is Manual divided by Spent, or 0 if nothing was spent.
	Multiplier float64 `json:"multiplier"`
	// Cost is what the models have cost, of which Unpriced answers have no known cost.
	Cost     float64 `json:"cost"`
	Unpriced int     `json:"unpriced"`
}

const (
	dearest     = 10
	outlierFrom = 5   // sessions with costs
	nearly      = 0.8 // of a budget
)

// Report makes a report. The error is a [*aycoder.ConfigError] about the options.
func (w *Work) Report(o Options) (*Report, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	for name := range o.Manual {
		if !slices.Contains(Kinds(), name) && !slices.ContainsFunc(w.sessions, func(e *journal.Entry) bool { return e.ID == name }) {
			return nil, &aycoder.ConfigError{Option: "usage.Options.Manual", Err: fmt.Errorf("%q is neither a kind of task (%s) nor a session", name, strings.Join(Kinds(), ", "))}
		}
	}
	if o.Now.IsZero() {
		o.Now = time.Now()
	}
	if o.Location == nil {
		o.Location = time.Local
	}
	now := o.Now.In(o.Location)
	r := &Report{Until: now}
	if o.Days > 0 {
		r.From = beginning(now.Year(), now.Month(), now.Day()-o.Days+1, o.Location)
	}
	part := w.Between(r.From, time.Time{})
	r.Total = part.Total()
	by := func(by By) []Row { return part.By(by, o.Location) }
	r.Days, r.Models, r.Projects, r.Tasks, r.Tools, r.Agents = by(Day), by(Model), by(Project), by(Task), by(Tool), by(Agent)
	r.Notes = []string{
		"The time of a turn is that from the message before it to its end, with waiting for answers, and at most " + short(mostOfTurn) + ".",
		"The kind of a task is guessed from the words of the first prompt.",
		"Answers that broke off, and the last one of a run that waits for somebody, are not in the sums.",
	}
	if n := r.Total.Unpriced; n > 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("%d of %d answers have no known price: their cost is not in the sums, and is not zero.", n, r.Total.Answers))
	}
	for _, err := range w.skipped {
		r.Skipped = append(r.Skipped, err.Error())
	}
	sessions := by(Session)
	r.rank(sessions)
	r.Month = w.month(now, o.Budget)
	if len(o.Manual) > 0 {
		r.Return = part.worth(sessions, &o)
		r.Notes = append(r.Notes, o.assumed()...)
	}
	return r, nil
}

// beginning returns when a day begins: at midnight, at the first of two where the clocks are put back, or after it where they are
// put forward then.
func beginning(year int, month time.Month, day int, loc *time.Location) time.Time {
	at := time.Date(year, month, day, 0, 0, 0, 0, loc)
	if at.Hour() > 12 { // still the day before
		_, at = at.ZoneBounds()
	}
	start, _ := at.ZoneBounds()
	_, before := start.Add(-1).Zone()
	_, now := at.Zone()
	if first := at.Add(time.Duration(now-before) * time.Second); first.Before(start) {
		return first
	}
	return at
}

// rank finds the dearest sessions, which come first.
func (r *Report) rank(sessions []Row) {
	n := slices.IndexFunc(sessions, func(s Row) bool { return s.Cost <= 0 })
	if n < 0 {
		n = len(sessions)
	}
	priced := sessions[:n]
	r.Dearest, r.Outliers = slices.Clip(priced[:min(n, dearest)]), []Row{}
	if n == 0 {
		return
	}
	r.Median = (priced[(n-1)/2].Cost + priced[n/2].Cost) / 2
	if n < outlierFrom {
		return
	}
	for _, s := range priced {
		if s.Cost > 2*r.Median {
			r.Outliers = append(r.Outliers, s)
		}
	}
}

// month returns what the month costs.
func (w *Work) month(now time.Time, budget float64) *Projection {
	first := beginning(now.Year(), now.Month(), 1, now.Location())
	next := beginning(now.Year(), now.Month()+1, 1, now.Location())
	f := w.Between(first, next).Total()
	if f.Sessions == 0 && budget == 0 {
		return nil
	}
	p := &Projection{Name: first.Format("2006-01"), Cost: f.Cost, Budget: budget}
	if past := now.Sub(first); past >= 24*time.Hour && f.Sessions > 0 {
		p.Projected = new(f.Cost * float64(next.Sub(first)) / float64(past))
	}
	switch {
	case budget == 0:
	case p.Cost >= budget:
		p.Alert = fmt.Sprintf("the budget of $%.2f is used up", budget)
	case p.Cost >= nearly*budget:
		p.Alert = fmt.Sprintf("%.0f %% of the budget of $%.2f are used", 100*p.Cost/budget, budget)
	case p.Projected != nil && *p.Projected > budget:
		p.Alert = fmt.Sprintf("the month will cost about $%.2f, more than the budget of $%.2f", *p.Projected, budget)
	}
	return p
}

// worth compares sessions with what they would have taken by hand.
func (w *Work) worth(sessions []Row, o *Options) *Return {
	r := &Return{Rate: o.Rate, All: TaskReturn{Name: "all"}}
	tasks := map[string]*TaskReturn{}
	for i := range sessions {
		s := &sessions[i]
		kind := Kind(s.prompt)
		manual, ok := o.Manual[s.Name]
		if !ok {
			manual, ok = o.Manual[kind]
		}
		if !ok {
			r.Without++
			continue
		}
		if tasks[kind] == nil {
			tasks[kind] = &TaskReturn{Name: kind}
		}
		for _, t := range []*TaskReturn{tasks[kind], &r.All} {
			t.Sessions++
			t.Manual, t.Spent = t.Manual+manual, t.Spent+s.Time
			t.Cost, t.Unpriced = t.Cost+s.Cost, t.Unpriced+s.Unpriced
		}
	}
	for _, kind := range Kinds() {
		if t := tasks[kind]; t != nil {
			t.end()
			r.Tasks = append(r.Tasks, *t)
		}
	}
	if r.All.end(); o.Rate > 0 && r.All.Sessions > 0 {
		r.Net = new(r.All.Saved.Hours()*o.Rate - r.All.Cost)
	}
	return r
}

func (t *TaskReturn) end() {
	if t.Saved = t.Manual - t.Spent; t.Spent > 0 {
		t.Multiplier = float64(t.Manual) / float64(t.Spent)
	}
}

// assumed says what the user has given.
func (o *Options) assumed() []string {
	var times []string
	for name, d := range o.Manual {
		times = append(times, name+" "+short(d))
	}
	slices.SortFunc(times, cmp.Compare[string])
	out := []string{"Time by hand, as given, for each session: " + strings.Join(times, ", ") + "."}
	if o.Rate > 0 {
		out = append(out, fmt.Sprintf("An hour costs $%.2f, as given. Net value = time saved × this rate − costs of the models.", o.Rate))
	}
	return append(out, "Reading and correcting what the agents did is not counted as time spent.")
}

// short writes a duration in hours, minutes or seconds.
func short(d time.Duration) string {
	switch {
	case d < 0:
		return "-" + short(-d)
	case d >= time.Hour:
		return fmt.Sprintf("%.1f h", d.Hours())
	case d >= time.Minute:
		return fmt.Sprintf("%.0f min", d.Minutes())
	default:
		return fmt.Sprintf("%.0f s", d.Seconds())
	}
}
