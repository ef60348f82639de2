package editmatch

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/aycoder/aycoder/internal/runes"
)

// Level is a kind of difference between an old string and the text that is allowed
// for. The first five are looked for in this order, each along with TrailingSpace,
// and Indentation along with Typographic if it is not enough alone. Then the others
// are, each along with all of the first five.
type Level int

const (
	// Exact means that there is no difference.
	Exact Level = iota
	// LineEndings is \r\n for \n or \n for \r\n, or a line break at the end of the
	// text that it does not have. The text keeps its own.
	LineEndings
	// TrailingSpace is blanks at line ends. Lines that stay keep theirs.
	TrailingSpace
	// Typographic is quotes, dashes, dots and spaces for which a keyboard has others.
	// Words that stay keep theirs.
	Typographic
	// Indentation is a block that is shifted, or has tabs for spaces or spaces for
	// tabs, in the same way in all lines. The new string is indented as the text is.
	Indentation
	// BlankLines is blank lines before and after the old string.
	BlankLines
	// LineNumbers is the numbers in front of lines that tools show.
	LineNumbers
	// Escapes is \n, \t, \" and the like for the characters that they stand for.
	Escapes
	// Elided is lines left out, with a line like "..." for them. They stay.
	Elided
)

// String returns a phrase for the level.
func (l Level) String() string {
	names := [...]string{"exact", "line endings", "trailing blanks", "typographic characters",
		"indentation", "blank lines at the ends", "line numbers", "escapes", "lines left out"}
	if l < 0 || int(l) >= len(names) {
		return "level " + strconv.Itoa(int(l))
	}
	return names[l]
}

func (t tier) level() Level {
	return [...]Level{Exact, TrailingSpace, Typographic, Indentation, Indentation}[t.index]
}

// Change is a difference that was allowed for. Line is the first line of the text
// that has it, counted from 1; Detail is a phrase for a model that says what it is
// and what was done.
type Change struct {
	Level  Level
	Line   int
	Detail string
}

// changes returns what was allowed for in all places.
func (f *finding) changes() []Change {
	var found [Elided + 1]Change
	if f.level != Exact {
		found[f.level] = Change{f.level, f.hits[0].line + 1, f.level.detail()}
	}
	for _, h := range f.hits {
		if h.otherEndings() && found[LineEndings].Level == Exact {
			found[LineEndings] = Change{LineEndings, h.line + 1, LineEndings.detail()}
		}
		if h.level != Exact && found[h.level].Level == Exact {
			found[h.level] = Change{h.level, h.line + 1, h.level.detail()}
		}
		if h.tier.index > 0 {
			h.note(&found)
		}
	}
	var out []Change
	for _, c := range found {
		if c.Level != Exact {
			out = append(out, c)
		}
	}
	return out
}

// note notes how the old lines differ from those of the text.
func (h *hit) note(found *[Elided + 1]Change) {
	for i, old := range h.old {
		text := h.text(i)
		if old == text {
			continue
		}
		add := func(l Level, is bool) {
			if is && found[l].Level == Exact {
				found[l] = Change{l, h.line + i + 1, l.detail()}
			}
		}
		was, has := indentOf(old), h.tier.indentOf(text)
		shifted := h.tier.lead && !isBlank(old) && was != has
		if shifted && found[Indentation].Level == Exact {
			found[Indentation] = Change{Indentation, h.line + i + 1, fmt.Sprintf("old_string has %s where the file has %s; "+
				"new_string is written with the file's", describe(was), describe(has))}
		}
		add(TrailingSpace, tailOf(old) != tailOf(text))
		add(Typographic, h.tier.fold && strings.Trim(old, blanks) != strings.Trim(text, blanks))
	}
}

func (l Level) detail() string {
	return [...]string{
		"none",
		"the file's are kept",
		"those of the file are kept in lines that stay",
		"those of the file are kept in lines that stay",
		"the file's is used",
		"the file does not have those of old_string",
		"they are not part of the file and were taken off",
		"read as the characters they stand for",
		"they stay as they are",
	}[l]
}

// describe says in words what an indentation is.
func describe(indent string) string {
	tabs, spaces := strings.Count(indent, "\t"), strings.Count(indent, " ")
	switch {
	case tabs+spaces != len(indent):
		return strconv.Quote(indent)
	case indent == "":
		return "none"
	case tabs == 0:
		return plural(spaces, "space")
	case spaces == 0:
		return plural(tabs, "tab")
	}
	return plural(tabs, "tab") + " and " + plural(spaces, "space")
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// cut shortens a line that is shown.
func cut(s string) string { return runes.Shorten(s, nearWidth) }
