// Package rule matches the subjects of calls (a path, a command or an address) with the
// patterns of rules. An allow rule covers only what it surely means; ask and deny rules also
// cover what they might mean.
package rule

import (
	"path"
	"strings"
	"unicode"

	"github.com/aycoder/aycoder/internal/glob"
	"github.com/aycoder/aycoder/internal/ignore"
)

// Longer texts are covered by every deny rule and by no allow rule: nothing has such a long
// name, and matching it takes time.
const (
	maxSubject  = 4096 // bytes of a path
	maxSegments = 256
	maxCommand  = 64 << 10 // bytes of a command
	maxWords    = 256
)

// Path matches a path as it is written; the workspace resolves it later. No allow pattern
// covers a path that is absolute, contains "..", or is not slash-separated; a deny pattern
// covers such a path if it fits any suffix of it. A deny rule for the content of a directory
// also covers the directory and those above it, since a tool may search them.
func Path(pattern, name string, allow bool) bool {
	odd := strings.Contains(name, `\`) || len(name) > 1 && name[1] == ':'
	name = path.Clean(strings.ReplaceAll(name, `\`, "/"))
	plain := !odd && !path.IsAbs(name) && name != ".." && !strings.HasPrefix(name, "../")
	if len(name) > maxSubject || strings.Count(name, "/") > maxSegments {
		return !allow
	}
	if allow {
		return plain && glob.Match(pattern, name)
	}
	pattern, name = foldCase(pattern), foldCase(name)
	g, err := glob.Compile(pattern)
	if err != nil || above(name, pattern) {
		return true
	}
	for {
		if g.Match(name) || g.Match(name+inside) {
			return true
		}
		_, rest, ok := strings.Cut(name, "/")
		if !ok || plain {
			return false
		}
		name = rest
	}
}

// inside is a file that only wildcards match.
const inside = "/\x01\x01"

// above reports whether name is a directory above the fixed part of the pattern.
func above(name, pattern string) bool {
	fixed, _, wild := strings.Cut(pattern, "*")
	if i := strings.IndexAny(fixed, "?[{"); i >= 0 {
		fixed, wild = fixed[:i], true
	}
	if wild {
		fixed = fixed[:strings.LastIndexByte(fixed, '/')+1]
	}
	if fixed = strings.TrimSuffix(fixed, "/"); fixed == "" {
		return false
	}
	return name == "." || name == fixed || strings.HasPrefix(fixed, name+"/")
}

// foldCase makes names equal that some file systems treat as equal.
func foldCase(s string) string {
	return strings.Map(func(r rune) rune {
		least := r
		for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
			least = min(least, f)
		}
		return least
	}, s)
}

func anything(string) bool { return true }

const plainChars = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:@%+, "

// plainWords reports whether s has only characters without a meaning to a shell.
func plainWords(s string) bool { return strings.Trim(s, plainChars) == "" }

// wild matches s against a pattern in which * stands for any run of characters
// that ok accepts, and a backslash quotes the next character. Its time is bounded
// by the product of the lengths.
func wild(pattern, s string, ok func(string) bool) bool {
	lits := literals(pattern)
	if len(lits) == 1 {
		return lits[0] == s
	}
	first, last := lits[0], lits[len(lits)-1]
	if len(s) < len(first)+len(last) || !strings.HasPrefix(s, first) || !strings.HasSuffix(s, last) {
		return false
	}
	rest := s[len(first) : len(s)-len(last)]
	for _, lit := range lits[1 : len(lits)-1] {
		gap, after, found := strings.Cut(rest, lit)
		if !found || !ok(gap) {
			return false
		}
		rest = after
	}
	return ok(rest)
}

// literals splits a pattern at its stars.
func literals(pattern string) []string {
	lits := []string{""}
	for i := 0; i < len(pattern); i++ {
		n := len(lits) - 1
		switch {
		case pattern[i] == '*':
			lits = append(lits, "")
		case pattern[i] == '\\' && i+1 < len(pattern):
			i++
			lits[n] += pattern[i : i+1]
		default:
			lits[n] += pattern[i : i+1]
		}
	}
	return lits
}

// Text matches a subject of any other kind.
func Text(pattern, s string) bool { return wild(pattern, s, anything) }

var quoteStars = strings.NewReplacer(`\`, `\\`, `*`, `\*`)

// Quote returns the pattern that matches only the given text.
func Quote(s string) string { return quoteStars.Replace(s) }

// SuggestPath returns patterns that cover a file: its name, and that of the files beside
// it.
func SuggestPath(name string) []string {
	name = path.Clean(name)
	switch {
	case strings.ContainsAny(name, `*?[]{}\`) || !Path(name, name, true):
		return nil
	case ignore.Runs(name) != "":
		return []string{name}
	}
	return []string{name, path.Join(path.Dir(name), "*")}
}
