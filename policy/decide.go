package policy

import (
	"context"
	"slices"
	"strings"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/glob"
	"github.com/aycoder/aycoder/internal/shell"
)

// Decide implements [aycoder.Approver]. The package comment describes the order in which rules
// and mode are consulted.
func (p *Policy) Decide(ctx context.Context, call *aycoder.ToolUse, spec *aycoder.ToolSpec) aycoder.Verdict {
	return p.now.Load().judge(p.look(ctx, call, spec))
}

// planText tells the model to stop trying and to present its plan.
const planText = "plan mode: only what provably reads runs now. Do not try it another way; " +
	"finish looking, then present your plan to the user and wait"

// judge decides. Arguments against a call are checked before those for it, and denials before
// questions. This order guarantees that adding a restriction never lets more calls run.
func (s *snapshot) judge(q *inquiry) aycoder.Verdict {
	denied, sure, unsure := s.strict(q, RuleDeny)
	asked, asks, perhaps := s.strict(q, RuleAsk)
	switch {
	case sure:
		return q.deny(denyText(denied), denied)
	case s.mode == Plan && (q.class > shell.ReadOnly || q.requested):
		return q.deny(planText, nil)
	case q.script != nil && q.script.Deny && !s.exactly(q):
		return q.deny("a command of this kind destroys too much: "+strings.Join(q.reasons(), ", "), nil)
	case unsure:
		return q.ask(denied, "may be what the rule "+short(denied.String())+" forbids")
	case asks || perhaps:
		return q.ask(asked, "is what the rule "+short(asked.String())+" asks about")
	case s.tainted && q.far() && !s.trusted(q):
		return q.ask(nil, "comes after a stranger's text, and reaches far or is not known")
	case q.requested && !s.exactly(q):
		return q.request()
	}
	if r, ok := s.allows(q, func(*rule) bool { return true }); ok {
		return aycoder.Allow().WithRationale(q.grounds(r))
	}
	if s.runs(q) {
		g := q.grounds(nil)
		g.ReadOnly = q.script != nil && q.harmless() && !q.requested
		g.Named = q.guarded != nil
		return aycoder.Allow().WithRationale(g)
	}
	return s.question(q)
}

// request asks about a command for which the model itself has asked for approval, although its
// words only read. Only a rule that is this very command answers the question.
func (q *inquiry) request() aycoder.Verdict {
	g := q.grounds(nil)
	g.Reasons = append(g.Reasons, "asks to do more than read")
	g.Suggested = q.suggestions()
	g.Suggested = g.Suggested[:min(1, len(g.Suggested))]
	return aycoder.Ask().WithRationale(g)
}

// runs reports whether the mode lets a call run that no rule covers.
func (s *snapshot) runs(q *inquiry) bool {
	switch {
	case q.harmless():
		return true
	case q.guarded != nil:
		return s.mode == FullAuto && !slices.ContainsFunc(q.guarded, func(g guarded) bool { return !g.own })
	}
	return s.mode == FullAuto || s.mode == AcceptEdits && q.edits && q.class <= shell.WritesWorkspace
}

// trusted reports whether a managed rule still allows the call after text from an untrusted
// source has come in.
func (s *snapshot) trusted(q *inquiry) bool {
	if !s.exempt {
		return false
	}
	_, ok := s.allows(q, func(r *rule) bool { return r.source == Managed })
	return ok
}

func denyText(r *rule) string {
	if r.Reason != "" {
		return r.Reason
	}
	return "the rule " + short(r.String()) + " forbids it"
}

// reasons returns the reasons for a question.
func (q *inquiry) reasons() []string {
	var out []string
	for _, w := range q.why {
		out = append(out, short(w))
	}
	for _, g := range q.guarded {
		out = append(out, g.how+" "+short(g.name)+": "+g.why)
	}
	return out
}

func (q *inquiry) grounds(r *rule) aycoder.Grounds {
	g := aycoder.Grounds{Class: q.class.String(), Reasons: q.reasons()}
	if r != nil {
		g.Rule = string(r.source) + " " + string(r.Action) + " " + short(r.String())
		g.Named = r.Action == RuleAllow && r.names(q)
	}
	return g
}

func (q *inquiry) deny(why string, r *rule) aycoder.Verdict {
	return aycoder.Deny(why).WithRationale(q.grounds(r))
}

// ask returns a question that no new rule could answer, and so suggests none.
func (q *inquiry) ask(r *rule, why string) aycoder.Verdict {
	g := q.grounds(r)
	g.Reasons = append(g.Reasons, why)
	return aycoder.Ask().WithRationale(g)
}

// question returns a question with suggested rules that would answer it in the future.
func (s *snapshot) question(q *inquiry) aycoder.Verdict {
	g := q.grounds(nil)
	g.Suggested = q.suggestions()
	return aycoder.Ask().WithRationale(g)
}

// strict finds an ask or deny rule that covers the call. It also finds rules that cover a
// possible meaning of the call; sure reports whether the call surely has that meaning.
func (s *snapshot) strict(q *inquiry, action RuleAction) (found *rule, sure, maybe bool) {
	for i := range s.rules {
		r := &s.rules[i]
		if r.Action != action {
			continue
		}
		certain, possible := r.against(q)
		if certain {
			return r, true, false
		}
		if possible && !maybe {
			found, maybe = r, true
		}
	}
	return found, false, maybe
}

// against reports whether an ask or deny rule covers the call, surely or possibly.
func (r *rule) against(q *inquiry) (sure, maybe bool) {
	if q.script != nil && r.Pattern != "" {
		return r.againstScript(q)
	}
	return (!r.bounded || q.class >= r.class) && r.covers(q), false
}

// allows finds allow rules that cover the call, among those that may accepts.
func (s *snapshot) allows(q *inquiry, may func(*rule) bool) (*rule, bool) {
	var rules []*rule
	for i := range s.rules {
		if r := &s.rules[i]; r.Action == RuleAllow && may(r) {
			rules = append(rules, r)
		}
	}
	for _, r := range rules {
		if r.whole(q) {
			return r, true
		}
	}
	if q.script == nil || q.guarded != nil || q.script.Deny {
		return nil, false
	}
	return covered(q, rules)
}

// whole reports whether an allow rule covers the call as a whole.
func (r *rule) whole(q *inquiry) bool {
	if q.script == nil {
		return r.reachesCall(q) && r.covers(q) && r.names(q)
	}
	if r.exact(q) {
		return true
	}
	return r.Pattern == "" && q.guarded == nil && !q.script.Deny &&
		r.reaches(q.class, q.writes()) && r.covers(q)
}

// covers reports whether the rule's tool and pattern cover the call; the pattern counts only
// if the call is not a script. An allow rule covers only calls that it certainly means, ask
// and deny rules cover all calls that they might mean.
func (r *rule) covers(q *inquiry) bool {
	allow := r.Action == RuleAllow
	switch {
	case !glob.Match(r.Tool, q.call.Name):
		return false
	case r.Pattern == "":
		return true
	case q.spec.Subject.Arg == "" && allow && q.spec.Definition != "":
		return matchText(r.Pattern, q.spec.Definition)
	case !q.has:
		return !allow
	}
	switch q.spec.Subject.Kind {
	case aycoder.SubjectPath, aycoder.SubjectPatch:
		return r.coversFiles(q, allow)
	case aycoder.SubjectURL:
		return matchURL(r.Pattern, q.subject, allow)
	}
	if allow {
		return matchText(r.Pattern, q.subject)
	}
	return matchText(foldCase(r.Pattern), foldCase(q.subject)) || q.named != nil && r.coversFiles(q, allow)
}

// coversFiles reports whether an allow rule covers all files of a call, or another rule one of
// them.
func (r *rule) coversFiles(q *inquiry, allow bool) bool {
	names, ok := q.filesOf()
	if !ok {
		return !allow
	}
	for _, name := range names {
		if matchPath(r.Pattern, name, allow) != allow {
			return !allow
		}
	}
	return allow
}

// reachesCall is reaches for a call that is not a command. If the tool has no subject, a rule
// that names it is as specific as possible.
func (r *rule) reachesCall(q *inquiry) bool {
	if q.spec.Subject.Arg == "" && !r.bounded {
		return !strings.Contains(r.Tool, "*") || r.reaches(q.class, nil)
	}
	return r.reaches(q.class, nil)
}
