package paint

import (
	"bytes"
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
	opener []byte
	src    []byte // the source of a scan, kept to use its memory again
}

// probe is what the scanner reads after a line, to show whether the last token goes on.
const probe = "\nx\n"

// paint adds a line to a wrapper. Unless end is true, it is the beginning of a long one.
func (h *highlighter) paint(line []byte, end bool, out *wrapper) {
	switch {
	case h.diff:
		out.add(diffLook(line), line)
		return
	case h.lang == "":
		out.add(h.base, line)
		return
	}
	h.src = append(append(append(h.src[:0], h.opener...), line...), probe...)
	src := h.src
	from, to := len(h.opener), len(h.opener)+len(line)
	at := from
	var rest []byte
	for t := range source.Tokens(h.lang, src) {
		lo, hi := max(int(t.Start), from), min(int(t.End), to)
		if int(t.End) > to+1 && int(t.Start) < to {
			rest = src[t.Start:to]
		}
		if lo >= hi {
			continue
		}
		if lo > at {
			out.add(0, src[at:lo])
		}
		out.add(tokenLooks[t.Kind], src[lo:hi])
		at = hi
	}
	if at < to {
		out.add(0, src[at:to])
	}
	h.remember(rest, end)
}

// remember keeps the beginning of a token that goes on, and its end, which may say that it does.
func (h *highlighter) remember(rest []byte, end bool) {
	if len(rest) > maxOpener {
		rest = append(bytes.ToValidUTF8(rest[:maxOpener/2], nil), bytes.ToValidUTF8(rest[len(rest)-maxOpener/4:], nil)...)
	}
	h.opener = append(h.opener[:0:0], rest...)
	if end && len(rest) > 0 {
		h.opener = append(h.opener, '\n')
	}
}

var tokenLooks = map[source.TokenKind]look{source.Comment: comment, source.String: quoted, source.Number: number, source.Keyword: keyword}

// signLooks are those of the lines of a diff, by their sign.
var signLooks = map[byte]look{'-': removed, '+': added}

func diffLook(line []byte) look {
	switch {
	case bytes.HasPrefix(line, []byte("@@")):
		return accent
	case len(line) > 0:
		return signLooks[line[0]]
	}
	return 0
}

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
