package aycoder

import (
	"cmp"
	"slices"
	"strings"
)

// Spent is what an agent has spent on a model in a run.
type Spent struct {
	// Agent is the name of the agent: see [Place]. Provider and Model name the model that answered, as
	// in [MessageDone]. They are empty for tokens of a tool that does not tell its model.
	Agent    string `json:"agent,omitempty"`
	Provider string `json:"provider,omitempty"`
	Model    string `json:"model,omitempty"`
	// Answers is the number of answers, with those that broke off and those that were a summary.
	Answers int `json:"answers"`
	// Usage is the sum of their tokens, without those of Uncounted answers, of which nobody told them.
	Usage     Usage `json:"usage"`
	Uncounted int   `json:"uncounted,omitempty"`
	// Cost is the sum of their costs in US dollars, without those of Unpriced answers, whose cost is
	// unknown: see [MessageDone].
	Cost     float64 `json:"cost"`
	Unpriced int     `json:"unpriced,omitempty"`
}

// answered counts one answer. The costs of the last model stand apart: to copy a list for each message
// would take more.
func (s *machine) answered(provider, model string, u Usage, cost *float64) {
	one := Spent{Provider: provider, Model: model, Answers: 1, Usage: u}
	switch {
	case cost != nil:
		one.Cost = *cost
	case u == (Usage{}):
		one.Uncounted = 1
		fallthrough
	default:
		one.Unpriced = 1
	}
	if !s.lastSpent.add(&one) {
		s.spent, s.lastSpent = s.allSpent(), one
	}
}

// allSpent returns what the run has spent.
func (s *machine) allSpent() []Spent {
	if s.lastSpent.Answers == 0 {
		return s.spent
	}
	return spend(s.spent, &s.lastSpent)
}

// add adds what else was spent on the same model for the same agent, and reports whether it is the same.
func (s *Spent) add(m *Spent) bool {
	if s.Agent != m.Agent || s.Provider != m.Provider || s.Model != m.Model {
		return false
	}
	s.Answers, s.Usage, s.Uncounted = s.Answers+m.Answers, s.Usage.Add(m.Usage), s.Uncounted+m.Uncounted
	s.Cost, s.Unpriced = s.Cost+m.Cost, s.Unpriced+m.Unpriced
	return true
}

// spend returns all with what else was spent. It leaves all as it is.
func spend(all []Spent, more *Spent) []Spent { return merge(slices.Clone(all), more) }

// merge adds to all what else was spent.
func merge(all []Spent, more *Spent) []Spent {
	for i := range all {
		if all[i].add(more) {
			return all
		}
	}
	return append(all, *more)
}

// brokeOff counts an answer that began and did not end.
func (s *machine) brokeOff() {
	provider, model, _ := strings.Cut(s.rules.model, "/")
	s.answered(provider, model, Usage{}, nil)
}

// total returns the number of tokens.
func (u Usage) total() int64 { return u.Input + u.CacheRead + u.CacheWrite + u.Output }

// costOf returns the cost of an answer, or nil if it is unknown.
func (r *run) costOf(d *MessageDone) *float64 {
	if d.Cost != nil || d.Usage == (Usage{}) {
		return d.Cost
	}
	p, ok := As[ModelInfoer](r.setup.Load().client)
	if !ok {
		return nil
	}
	info, ok := p.ModelInfo(cmp.Or(d.Model, r.base.Model))
	if !ok || info.Price == nil || d.Provider != "" && d.Provider != info.Provider { // of a client to which this one fell back
		return nil
	}
	return new(d.Usage.Cost(*info.Price))
}

// spentIn returns what was spent in a call, and its tokens, if the tool has told that it used some. The
// mutex is held.
func (r *run) spentIn(a *RunTool, told Usage) (spent []Spent, sum Usage) {
	spent = a.inner
	for i := range spent {
		sum = sum.Add(spent[i].Usage)
	}
	rest := Usage{
		Input:      max(0, told.Input-sum.Input),
		Output:     max(0, told.Output-sum.Output),
		Reasoning:  max(0, told.Reasoning-sum.Reasoning),
		CacheRead:  max(0, told.CacheRead-sum.CacheRead),
		CacheWrite: max(0, told.CacheWrite-sum.CacheWrite),
	}
	if rest != (Usage{}) {
		r.used(rest.total())
		spent = spend(spent, &Spent{Answers: 1, Usage: rest, Unpriced: 1})
	}
	return spent, sum.Add(rest)
}

// used counts tokens for the limits of this run and of those around it.
func (r *run) used(tokens int64) {
	for ; r != nil; r = r.parent {
		r.tokens.Add(tokens)
	}
}

// exhausted returns the error of a run that must not ask the model again, because it or a run around it
// has used all its tokens.
func (r *run) exhausted() error {
	for ; r != nil; r = r.parent {
		if most := r.setup.Load().Limits.Total; most > 0 && r.tokens.Load() >= most {
			return &LimitError{Limit: "tokens of a run", Max: most}
		}
	}
	return nil
}

// report tells the run around this one what this one has spent, unless that run has looked already.
func (r *run) report() {
	spent := r.spentSoFar()
	r.parent.mu.Lock()
	defer r.parent.mu.Unlock()
	for _, a := range r.parent.running {
		if i := slices.Index(a.runs, r); i >= 0 {
			a.runs = slices.Delete(a.runs, i, i+1)
			for i := range spent {
				a.inner = spend(a.inner, &spent[i])
			}
		}
	}
}

// spentSoFar returns what this run and those inside of its calls have spent.
func (r *run) spentSoFar() []Spent {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append(r.spent(), r.spentInside()...)
}

// spentInside returns what runs inside of the calls that work have spent. The mutex is held. Only runs around
// these hold theirs meanwhile.
func (r *run) spentInside() (all []Spent) {
	for _, a := range r.running {
		all = append(all, a.inner...)
		for _, c := range a.runs {
			all = append(all, c.spentSoFar()...)
		}
	}
	return all
}

// spent returns what the run has spent, with the name of its agent. The mutex is held.
func (r *run) spent() (all []Spent) {
	add := func(s Spent) {
		if s.Agent == "" {
			s.Agent = r.name
		}
		all = merge(all, &s)
	}
	for _, s := range r.state.spent {
		add(s)
	}
	if last := r.state.lastSpent; last.Answers > 0 {
		add(last)
	}
	return all
}
