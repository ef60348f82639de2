package harness

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"unicode"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/harness/project"
	"github.com/aycoder/aycoder/internal/part"
)

// Rules are rules of work for the system prompt, with their numbers. The key agent.rules adds the usual ones; a host
// passes others:
//
//	harness.WithSection("rules", harness.DefaultRules().Text())
type Rules struct {
	// PlanVerbs and PlanFiles are how many verbs of a task, or how many files, need a plan.
	PlanVerbs, PlanFiles int
	// Failures is how many failures in a row at the same step need a new plan.
	Failures int
	// ReviewLines and ReviewFiles are how large a change is that needs a review, and SmallLines how small one is that
	// needs no plan.
	ReviewLines, ReviewFiles, SmallLines int
	// UnknownFiles is how many files that the model does not know, and Used what percentage of the window, make it
	// hand the work to another agent.
	UnknownFiles, Used int
}

// DefaultRules returns the usual numbers.
func DefaultRules() Rules {
	return Rules{
		PlanVerbs: 3, PlanFiles: 3, Failures: 2, ReviewLines: 50, ReviewFiles: 3, SmallLines: 10,
		UnknownFiles: 5, Used: 20,
	}
}

// Text returns the rules as the model reads them.
func (r Rules) Text() string {
	return fmt.Sprintf(`How to work:
- plan: if the task has %d or more different actions, touches %d or more files, needs a new module or changes an API, write the steps to PLAN.md first.
- correct: after %d failures in a row at the same step, stop and plan again.
- verify: call nothing done before the type check or the build and the tests have passed, and you have looked at the diff and at what the program does.
- uncertain: do not ask about details. Take the best way, and write "Assumption: …".
- elegance: after a change of more than %d lines, or of %d or more files, pause and review it. A change of %d lines or fewer needs no plan.
- delegate: for %d or more files that you do not know, or if more than %d %% of the context is used, give the search to a subagent.`,
		r.PlanVerbs, r.PlanFiles, r.Failures, r.ReviewLines, r.ReviewFiles, r.SmallLines, r.UnknownFiles, r.Used)
}

// planFile is where a plan is.
const planFile = "PLAN.md"

// A guard suggests a plan for the first message of the user that has several actions.
type guard struct {
	files  project.Files
	notify func(source, text string)
	verbs  int
	done   atomic.Bool
}

// beforeTurn adds a line to the tail of the first request of a run, once.
func (g *guard) beforeTurn(next aycoder.ContextBuilder) aycoder.ContextBuilder {
	return part.Tail(next, func(_ context.Context, in aycoder.ContextInput) string {
		if in.Turn != 1 || len(in.Messages) == 0 {
			return ""
		}
		verbs := actions(in.Messages[len(in.Messages)-1].Text())
		if len(verbs) < g.verbs || g.planned() || g.done.Swap(true) {
			return ""
		}
		g.notify("plan", fmt.Sprintf("The task has %d actions (%s), and there is no %s: a plan may help.",
			len(verbs), strings.Join(verbs, ", "), planFile))
		return fmt.Sprintf(
			"[The task has %d actions. Consider to write the steps to %s first. This is not a message of the user.]\n",
			len(verbs), planFile)
	})
}

// planned reports whether the workspace has a plan.
func (g *guard) planned() bool {
	f, err := g.files.Open(planFile)
	if err != nil {
		return false
	}
	_ = f.Close()
	return true
}

// actionVerbs are words that ask for work, in their base form.
var actionVerbs = set("add", "adapt", "analyse", "analyze", "apply", "benchmark", "build", "change", "clean", "configure",
	"connect", "convert", "copy", "create", "debug", "delete", "deploy", "deprecate", "design", "document", "drop", "enable",
	"extend", "extract", "fix", "format", "generate", "handle", "implement", "improve", "inline", "install", "integrate",
	"introduce", "investigate", "merge", "migrate", "modify", "move", "optimise", "optimize", "port", "publish", "refactor",
	"reduce", "release", "remove", "rename", "reorganise", "reorganize", "replace", "restructure", "review", "rewrite",
	"simplify", "sort", "split", "support", "test", "translate", "update", "upgrade", "validate", "verify", "wire", "write")

// beforeNouns are words after which a word like "test" is not a verb.
var beforeNouns = set("a", "all", "an", "any", "each", "every", "its", "my", "no", "of", "our", "that", "the", "their", "these",
	"this", "those", "your")

func set(words ...string) map[string]bool {
	m := map[string]bool{}
	for _, w := range words {
		m[w] = true
	}
	return m
}

// actions returns the different verbs of a text that ask for work, in their base form and in their order.
func actions(text string) []string {
	var found []string
	last := ""
	for word := range strings.FieldsFuncSeq(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) }) {
		if verb := baseForm(word); verb != "" && !beforeNouns[last] && !slices.Contains(found, verb) {
			found = append(found, verb)
		}
		last = word
	}
	return found
}

// baseForm returns the base form of an action verb, or "".
func baseForm(word string) string {
	for _, end := range []string{"", "s", "es", "d", "ed", "ing"} {
		stem, ok := strings.CutSuffix(word, end)
		if !ok {
			continue
		}
		doubled := stem // dropping, dropped
		if n := len(stem); n > 2 && stem[n-1] == stem[n-2] {
			doubled = stem[:n-1]
		}
		for _, base := range []string{stem, stem + "e", doubled, strings.TrimSuffix(stem, "i") + "y"} {
			if actionVerbs[base] && (end != "" || base == stem) {
				return base
			}
		}
	}
	return ""
}
