package usage

import (
	"strings"
	"unicode"
)

// The kinds of work that [Kind] knows. Those are in the order in which reports list them.
const (
	Fix      = "fix"
	Feature  = "feature"
	Refactor = "refactor"
	Tests    = "tests"
	Docs     = "docs"
	Review   = "review"
	Question = "question"
	Other    = "other"
)

// Kinds lists all kinds of work.
func Kinds() []string { return []string{Fix, Feature, Refactor, Tests, Docs, Review, Question, Other} }

// verb returns the kind of work that a word asks for, or "".
func verb(word string) string {
	switch word {
	case "fix", "repair", "debug", "broken", "bug", "bugs", "crash", "crashes", "crashed", "fails", "failing", "failed", "error", "wrong",
		"regression", "hang", "hangs", "leak", "correct":
		return Fix
	case "add", "implement", "create", "build", "write", "support", "introduce", "generate", "make", "extend", "allow", "enable", "new":
		return Feature
	case "refactor", "rename", "clean", "cleanup", "simplify", "extract", "move", "split", "restructure", "deduplicate", "reorganize", "inline",
		"remove", "delete", "replace", "migrate", "upgrade", "update":
		return Refactor
	case "test", "tests", "cover", "coverage", "fuzz":
		return Tests
	case "document", "docs", "documentation", "readme", "changelog", "comment", "comments", "translate":
		return Docs
	case "review", "audit", "check", "verify", "inspect", "analyze", "analyse", "assess":
		return Review
	case "what", "why", "how", "where", "when", "who", "which", "explain", "describe", "show", "tell", "list", "find", "does", "is", "are", "can",
		"should":
		return Question
	}
	return ""
}

// object returns the kind of work that a word behind a verb like "add" asks for, or "".
func object(word string) string {
	switch word {
	case "test", "tests", "testcase", "testcases", "coverage", "benchmark", "benchmarks", "fuzz":
		return Tests
	case "docs", "documentation", "readme", "changelog", "comment", "comments", "godoc", "docstring", "docstrings":
		return Docs
	}
	return ""
}

// objectWithin is how many words behind the verb its object may be.
const objectWithin = 5

// Kind says what kind of work a prompt asks for, by its words: the first one of a list of English verbs, or what
// is behind "add" and "write". It is a guess, which a report says. A prompt without such words is [Other].
func Kind(prompt string) string {
	all := strings.FieldsFunc(strings.ToLower(prompt), func(r rune) bool { return !unicode.IsLetter(r) })
	for i, w := range all {
		kind := verb(w)
		if kind == "" {
			continue
		}
		if kind == Feature || kind == Refactor {
			for _, w := range all[i+1 : min(len(all), i+1+objectWithin)] {
				if of := object(w); of != "" {
					return of
				}
			}
		}
		return kind
	}
	return Other
}
