package policy

import (
	"path"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/aycoder/aycoder/internal/glob"
	"github.com/aycoder/aycoder/internal/rootpath"
)

// The patterns of rules: the parser of their words, and the matchers for commands whose syntax
// is not known, for paths and for other texts. Addresses are in url.go, commands in command.go.
// The package comment documents the language.

// splitPattern splits a pattern at blanks that no backslash quotes. The words keep their
// backslashes.
func splitPattern(s string) []string {
	var words []string
	start, in := 0, false
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == ' ' || s[i] == '\t':
			if in {
				words = append(words, s[start:i])
			}
			in = false
			continue
		case !in:
			start, in = i, true
		}
		if s[i] == '\\' {
			i++
		}
	}
	if in {
		words = append(words, s[start:])
	}
	return words
}

// trimBlanks removes what is blank to a shell. Other spaces are letters to it.
func trimBlanks(script string) string { return strings.Trim(script, " \t\n") }

// plainText removes the backslashes, and reports whether the pattern has no unquoted star.
func plainText(pattern string) (string, bool) {
	var b strings.Builder
	literal := true
	for i := 0; i < len(pattern); i++ {
		if pattern[i] == '\\' && i+1 < len(pattern) {
			i++
		} else if pattern[i] == '*' {
			literal = false
		}
		b.WriteByte(pattern[i])
	}
	return b.String(), literal
}

// matchText matches a text against a pattern in which a star is any run of bytes, and a
// backslash quotes. Its time is bounded by the product of the lengths.
func matchText(pattern, word string) bool {
	p, w := 0, 0
	star, mark := -1, 0
	for w < len(word) {
		lit, n := byte(0), 0
		if p < len(pattern) && pattern[p] != '*' {
			lit, n = pattern[p], 1
			if lit == '\\' && p+1 < len(pattern) {
				lit, n = pattern[p+1], 2
			}
		}
		switch {
		case n > 0 && lit == word[w]:
			p, w = p+n, w+1
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, w
			p++
		case star >= 0:
			mark++
			p, w = star+1, mark
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}

// operators separate commands; each is a separate token.
const operators = "\n;&|()<>`"

// tokens splits a script, or the pattern of an ask or deny rule, roughly as a shell does:
// quotes join words and are taken off, and operators are words. A backslash makes the next
// character literal; in a pattern it stays, since it also quotes stars.
func tokens(s string, pattern bool) []string {
	var out []string
	var word strings.Builder
	quote, in := byte(0), false
	end := func() {
		if in {
			out = append(out, word.String())
		}
		word.Reset()
		in = false
	}
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c == '\\' && i+1 < len(s) && quote != '\'':
			i++
			if in = true; pattern {
				word.WriteByte(c)
			}
			word.WriteByte(s[i])
		case c == quote:
			quote = 0
		case quote != 0:
			word.WriteByte(c)
		case c == '"' || c == '\'':
			quote, in = c, true
		case strings.IndexByte(operators, c) >= 0:
			end()
			out = append(out, string(c))
		case c == ' ' || c == '\t' || c == '\r':
			end()
		default:
			word.WriteByte(c)
			in = true
		}
	}
	end()
	return out
}

// bare takes off quotes, and what else may stand around the words of a command.
var bare = strings.NewReplacer("\\\n", "", `"`, "", "'", "", `\`, "", "{", " ", "}", " ", "$", " ")

// contains reports whether the words of a pattern follow each other somewhere in a script. A
// star as a word is any number of words.
func contains(pattern, script []string) bool {
	p, w := 0, 0
	star, mark := -1, 0 // as if a star stood before the pattern
	for p < len(pattern) {
		switch {
		case pattern[p] == "*":
			star, mark = p, w
			p++
		case w < len(script) && hitsWord(pattern[p], script[w], true):
			p, w = p+1, w+1
		case w >= len(script):
			return false
		default:
			mark++
			p, w = star+1, mark
		}
	}
	return true
}

// mentions reports whether a script that is not understood may contain a command of the rule:
// any word may be the name of a program, also one in quotes, and a star in the pattern may be any
// text, as nobody knows which words belong to one command.
func (r *rule) mentions(script string) bool {
	if len(script) > maxCommand {
		return true
	}
	words := tokens(bare.Replace(script), false)
	if len(words) > maxWords || len(words)*len(script)*len(r.Pattern) > maxWork {
		return true
	}
	for i := range words {
		if sure, _ := r.hits(words[i:], false); sure {
			return true
		}
		line := path.Base(words[i]) + " " + strings.Join(words[i+1:], " ")
		if matchText(r.Pattern, line) || matchText(r.Pattern+" *", line) {
			return true
		}
	}
	return r.several && contains(r.tokens, words)
}

// Longer texts are covered by every deny rule and by no allow rule: nothing has such a long
// name, and matching it takes time.
const (
	maxSubject  = 4096 // bytes of a path
	maxSegments = 256
	maxCommand  = 64 << 10 // bytes of a command
	maxWords    = 256
	maxWork     = 1 << 30 // steps of the search for a pattern in a script
)

// matchPath matches a path as it is written; the workspace resolves it later. No allow pattern
// covers a path that is absolute, contains "..", or is not slash-separated; a deny pattern
// covers such a path if it fits any suffix of it, and it holds in each root. A deny rule for the content of a directory
// also covers the directory and those above it, since a tool may search them.
func matchPath(pattern, name string, allow bool) bool { return matchFile(pattern, name, allow, true) }

// matchFile is matchPath. If tree is false, a deny rule does not cover the directories above.
func matchFile(pattern, name string, allow, tree bool) bool {
	odd := strings.Contains(name, `\`) || len(name) > 1 && name[1] == ':'
	name = rootpath.Clean(strings.ReplaceAll(name, `\`, "/"))
	plain := !odd && local(name)
	if len(name) > maxSubject || strings.Count(name, "/") > maxSegments {
		return !allow
	}
	if allow {
		return plain && rootpath.Meant(pattern, name) && glob.Match(pattern, name)
	}
	if root, rest := rootpath.Cut(name); root != "" && matchFile(pattern, rest, false, tree) {
		return true // the pattern may mean each root
	}
	if strings.HasSuffix(pattern, "/") { // all that is below
		pattern += "**"
	}
	pattern = strings.TrimPrefix(pattern, "./")
	return mayMean(foldCase(pattern), foldCase(name), plain, tree) ||
		strings.ContainsFunc(pattern+name, combines) && mayMean(foldCase(formless(pattern)), foldCase(formless(name)), plain, tree)
}

// mayMean reports whether a pattern that is not one of an allow rule covers a name, or any part of one that is not plain.
func mayMean(pattern, name string, plain, tree bool) bool {
	g, err := glob.Compile(pattern)
	if err != nil || tree && above(name, pattern) {
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

// local reports whether a clean path does not lead out of the root of the workspace that it begins in.
func local(name string) bool {
	_, rest := rootpath.Cut(name)
	return !path.IsAbs(rest) && rest != ".." && !strings.HasPrefix(rest, "../") && !strings.HasPrefix(rest, "./")
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

// combines reports whether a rune is one of those that a letter with an accent, a voiced kana or a Korean syllable has in its
// decomposed form (Unicode Standard Annex 15).
func combines(r rune) bool {
	return 0x300 <= r && r <= 0x36F || r == 0x3099 || r == 0x309A || 0x1100 <= r && r <= 0x11FF
}

// formless makes names equal that differ only in the composition of their letters: the file systems of macOS treat them as
// equal. Kana and Korean syllables are composed by arithmetic. There is no table of the other letters, so it makes more names
// equal: a letter that is outside of ASCII, or has accents, becomes the same control character.
func formless(s string) string {
	const letter = 0x7f
	var out []rune
	for _, r := range s {
		before := rune(0)
		if len(out) > 0 {
			before = out[len(out)-1]
		}
		r, joins := composed(before, r)
		switch {
		case 0x300 <= r && r <= 0x36F && (before == letter || before < utf8.RuneSelf && unicode.IsLetter(before)):
			r, joins = letter, true
		case (0x80 <= r && r <= 0x52F || 0x1E00 <= r && r <= 0x1FFF || r == 0x212B) && unicode.IsLetter(r): // Latin, Greek, Cyrillic
			r = letter
		}
		if joins {
			out = out[:len(out)-1]
		}
		out = append(out, r)
	}
	return string(out)
}

// composed returns the kana or the syllable that a rune is with the one before it, or the rune itself.
func composed(before, r rune) (_ rune, joins bool) {
	const syllables, finals = 0xAC00, 28
	switch {
	case 0x1161 <= r && r <= 0x1175 && 0x1100 <= before && before <= 0x1112:
		return syllables + ((before-0x1100)*21+r-0x1161)*finals, true
	case 0x11A8 <= r && r <= 0x11C2 && syllables <= before && before <= 0xD7A3 && (before-syllables)%finals == 0:
		return before + r - 0x11A7, true
	case (r == 0x3099 || r == 0x309A) && 0x3041 <= before && before <= 0x30FD:
		return before + r - 0x3098, true
	case r == 0x3094 || r == 0x30F4: // the voiced kana that are not behind the others
		r -= 0x4D
	case 0x30F7 <= r && r <= 0x30FA:
		r -= 7
	}
	return r, false
}
