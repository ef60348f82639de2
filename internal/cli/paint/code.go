package paint

import (
	"strings"

	"github.com/aycoder/aycoder/codegraph/source"
)

// maxOpener is how much of a string or comment is kept to know the next line as a part of it.
const maxOpener = 64

// A highlighter colours code a line at a time. The tokens come from a scanner that reads a whole
// source, so a string or comment that does not end in its line is put before the next one, as far
// as it says what ends it.
type highlighter struct {
	lang   source.Language
	diff   bool
	base   look // without a language
	opener string
	src    []byte // the source of a scan, kept to use its memory again
}

// probe is what the scanner reads after a line, to show whether the last token goes on.
const probe = "\nx\n"

// paint adds a line to a row. Unless end is true, it is the beginning of a long one.
func (h *highlighter) paint(line string, end bool, out *row) {
	switch {
	case h.diff && line != "":
		out.add(signLooks[line[0]], line)
		return
	case h.lang == "":
		out.add(h.base, line)
		return
	}
	from, at := len(h.opener), 0
	h.src = append(append(append(h.src[:0], h.opener...), line...), probe...)
	rest := ""
	for t := range source.Tokens(h.lang, h.src) {
		lo, hi := max(int(t.Start)-from, at), min(int(t.End)-from, len(line))
		if int(t.End)-from > len(line)+1 && int(t.Start)-from < len(line) {
			rest = string(h.src[t.Start : from+len(line)])
		}
		if lo < hi {
			out.add(0, line[at:lo])
			out.add(tokenLooks[t.Kind], line[lo:hi])
			at = hi
		}
	}
	out.add(0, line[at:])
	// The beginning of a token that goes on says what it is, and its end may say that it does.
	if len(rest) > maxOpener {
		rest = strings.ToValidUTF8(rest[:maxOpener/2], "") + strings.ToValidUTF8(rest[len(rest)-maxOpener/4:], "")
	}
	if h.opener = rest; end && rest != "" {
		h.opener += "\n"
	}
}

var tokenLooks = map[source.TokenKind]look{source.Comment: comment, source.String: quoted, source.Number: number, source.Keyword: keyword}

// signLooks are those of the lines of a diff, by their sign.
var signLooks = map[byte]look{'-': removed, '+': added, '@': accent}

// languages are names of languages that are not endings of files.
var languages = map[string]string{
	"python": "py", "golang": "go", "javascript": "js", "typescript": "ts", "rust": "rs", "c++": "cpp", "c#": "cs",
	"csharp": "cs", "kotlin": "kt", "ruby": "rb", "perl": "pl", "elixir": "ex", "haskell": "hs", "ocaml": "ml",
	"shell": "sh", "console": "sh", "protobuf": "proto", "erlang": "erl", "julia": "jl", "json": "js", "jsonc": "js",
	"yaml": "r", "yml": "r", "toml": "r", "dockerfile": "sh", "makefile": "sh", "objective-c": "m",
}

// highlight returns a highlighter for the name of a language after a fence.
func highlight(info string) highlighter {
	word, _, _ := strings.Cut(strings.Trim(strings.TrimSpace(info), "{}."), " ")
	word = strings.ToLower(word)
	if word == "diff" || word == "patch" {
		return highlighter{diff: true}
	}
	if ending, ok := languages[word]; ok {
		word = ending
	}
	return highlighter{base: code, lang: source.LanguageOf("x."+word, nil)}
}
