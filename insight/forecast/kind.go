package forecast

import (
	"strings"

	"github.com/aycoder/aycoder/insight/usage"
)

// KindOf returns the kind of work that words ask for, one of [usage.Kinds]. It knows the prefixes of conventional
// commits, such as "feat(ui):", and otherwise is [usage.Kind].
func KindOf(words string) string {
	prefix, _, ok := strings.Cut(words, ":")
	prefix, _, _ = strings.Cut(prefix, "(")
	if ok {
		switch strings.ToLower(strings.Trim(prefix, "! ")) {
		case "feat", "feature":
			return usage.Feature
		case "fix", "bugfix", "hotfix":
			return usage.Fix
		case "refactor", "perf", "style", "chore", "build", "ci", "deps":
			return usage.Refactor
		case "test", "tests":
			return usage.Tests
		case "docs", "doc":
			return usage.Docs
		}
	}
	return usage.Kind(words)
}
