package aycoder

import (
	"context"
	"slices"
	"strings"

	"github.com/aycoder/aycoder/internal/ignore"
	"github.com/aycoder/aycoder/internal/patch"
	"github.com/aycoder/aycoder/internal/runes"
)

// This file keeps files that run code though nobody runs them by name, and those that
// tell agents what they may do, from being written unasked. The list is [ignore.Runs].
// Three places hold to it, each for what the one before cannot see:
//
//   - [Rule.Covers] and the verdict: what is allowed without naming such a file is asked
//     about, by the names in the arguments;
//   - the question: it says why, by the names in the plan;
//   - Workspace.Apply of package workspace: it writes none without WithApproved, by the names on the disk.

// written returns the names of the files that a call writes, as far as its arguments say.
func written(call *ToolUse, spec *ToolSpec) []string {
	subject, ok := subjectOf(call, spec)
	switch {
	case !ok || spec.Effect == EffectReadOnly:
		return nil
	case spec.Subject.Kind == SubjectPath:
		return []string{subject}
	case spec.Subject.Kind == SubjectPatch:
		names, _ := patch.Paths(subject)
		return names
	}
	return nil
}

// runsCode returns those of the files that run code, with the reasons, and nil if there
// is none.
func runsCode(names []string) []string {
	var why []string
	for _, name := range names {
		if w := ignore.Runs(name); w != "" && len(why) < maxReasons {
			why = append(why, "writes "+runes.Path(name)+": "+w)
		}
	}
	return why
}

const maxReasons = 8 // of one kind, in a question

// names reports whether the rule names the files that a call writes, as far as they have
// to be named.
func (r Rule) names(call *ToolUse, spec *ToolSpec) bool {
	return !slices.ContainsFunc(written(call, spec), func(name string) bool {
		return ignore.Runs(name) != "" && !ignore.Names(r.Pattern, name)
	})
}

// named makes a question of a verdict that allows files to be written which it does not
// name.
func (v Verdict) named(call *ToolUse, spec *ToolSpec) Verdict {
	if v.kind != verdictAllow || v.why != nil && v.why.Named {
		return v
	}
	if v.args != nil {
		call = &ToolUse{ID: call.ID, Name: call.Name, Args: v.args}
	}
	why := runsCode(written(call, spec))
	if why == nil {
		return v
	}
	g := v.Grounds()
	return Ask().On(Grounds{Class: g.Class, Reasons: append(slices.Clip(g.Reasons), why...)})
}

// allNamed marks what a rule allows: it names what it covers, see [Rule.Covers].
func (v Verdict) allNamed(call *ToolUse, spec *ToolSpec) Verdict {
	if v.kind == verdictAllow && runsCode(written(call, spec)) != nil {
		return v.On(Grounds{Named: true})
	}
	return v
}

// reasons adds to those of a question why files of the plan run code.
func (p EditPlan) reasons(told []string) []string {
	for _, f := range p.files {
		w := ignore.Runs(f.Path)
		if w != "" && !slices.ContainsFunc(told, func(s string) bool { return strings.HasSuffix(s, w) }) {
			told = append(slices.Clip(told), "writes "+runes.Path(f.Path)+": "+w)
		}
	}
	return told
}

// pins returns the function that pins plans, of the run or one around it.
func (r *run) pins() func(context.Context, *run, *Invocation, *tool) error {
	for ; r != nil; r = r.parent {
		if r.loop.pins != nil {
			return r.loop.pins
		}
	}
	return nil
}

// pinPlan gives a call that was allowed by a rule which names what it writes the plan
// that it would have been asked about.
func pinPlan(ctx context.Context, r *run, inv *Invocation, t *tool) error {
	p, ok := t.impl.(Planner)
	if !ok || inv.Plan != nil || runsCode(written(&ToolUse{Args: inv.Args}, &t.spec)) == nil {
		return nil
	}
	plan, err := safePlan(ctx, p, inv)
	if err == nil {
		inv.Plan = &plan
	}
	return err
}

// shownSubject returns what a call is about, for display: of a patch its files.
func shownSubject(call *ToolUse, spec *ToolSpec) string {
	s, _ := subjectOf(call, spec)
	if spec.Subject.Kind == SubjectPatch {
		names, _ := patch.Paths(s)
		return strings.Join(names, ", ")
	}
	return s
}
