package line

import (
	"cmp"
	"slices"
	"strings"
	"unicode"

	"github.com/aycoder/aycoder/internal/cli/tty"
)

// A Candidate is what a completion can put in.
type Candidate struct {
	Text string
	Note string // a description, or nothing
}

// A menu is a list of candidates, one of which is in the text.
type menu struct {
	on     bool
	list   []Candidate
	index  int
	from   int
	before buffer
}

// complete asks for candidates and puts in the best one.
func (e *Editor) complete() {
	if e.o.Complete == nil {
		e.event.Kind = Unbound
		return
	}
	from, list := e.o.Complete(e.text, e.at)
	if from < 0 || from > e.at {
		return
	}
	list = Rank(e.text[from:e.at], list)
	if len(list) == 0 {
		return
	}
	e.save("")
	e.menu = menu{on: len(list) > 1, list: list, from: from, before: e.buffer}
	e.choose(0)
}

// choose puts in a candidate instead of the one before.
func (e *Editor) choose(index int) {
	m := &e.menu
	m.index = index
	text := sanitize(m.list[index].Text)
	e.text = m.before.text[:m.from] + text + m.before.text[m.before.at:]
	e.at = m.from + len(text)
}

// menuKey reports whether a key was for the menu. Other keys end it, and keep what it has
// put in.
func (e *Editor) menuKey(k tty.Key) bool {
	m := &e.menu
	switch k.String() {
	case "tab", "down", "ctrl+n":
		e.choose((m.index + 1) % len(m.list))
	case "shift+tab", "up", "ctrl+p":
		e.choose((m.index + len(m.list) - 1) % len(m.list))
	case "enter":
		m.on = false
	case "esc", "ctrl+g":
		m.on = false
		e.buffer = m.before
	default:
		m.on = false
		return false
	}
	return true
}

const menuRows = 8

// lines shows the candidates around the chosen one.
func (m *menu) lines(width int) []string {
	if !m.on {
		return nil
	}
	n := min(len(m.list), menuRows)
	from := min(max(m.index-n/2, 0), len(m.list)-n)
	column := 0
	for _, c := range m.list[from : from+n] {
		column = max(column, tty.Width(tty.CleanLine(c.Text)))
	}
	var out []string
	for i, c := range m.list[from : from+n] {
		text := tty.CleanLine(c.Text)
		line := "  " + text
		if from+i == m.index {
			line = "> " + text
		}
		if c.Note != "" {
			line += strings.Repeat(" ", column-tty.Width(text)+2) + tty.CleanLine(c.Note)
		}
		out = append(out, tty.Fit(line, width))
	}
	return out
}

// Rank returns the candidates that contain the characters of query in order, the best ones
// first. Equally good ones keep their order.
func Rank(query string, list []Candidate) []Candidate {
	type scored struct {
		Candidate
		score int
	}
	var found []scored
	for _, c := range list {
		if score, ok := Match(query, c.Text); ok {
			found = append(found, scored{c, score})
		}
	}
	slices.SortStableFunc(found, func(a, b scored) int { return cmp.Compare(b.score, a.score) })
	out := make([]Candidate, len(found))
	for i, f := range found {
		out[i] = f.Candidate
	}
	return out
}

// Match reports whether text contains the characters of query in order, in any case. The
// score is higher for characters that follow each other or begin a word, for a match at
// the begin and for a short text.
func Match(query, text string) (score int, ok bool) {
	want := []rune(strings.ToLower(query))
	if len(want) == 0 {
		return 0, true
	}
	before, follows, found := ' ', false, 0
	for i, r := range []rune(text) {
		if found == len(want) {
			break
		}
		hit := unicode.ToLower(r) == want[found]
		if hit {
			found++
			score += hitScore(i, before, follows, r)
		}
		before, follows = r, hit
	}
	return score - len(text)/8, found == len(want)
}

func hitScore(i int, before rune, follows bool, r rune) int {
	score := 1
	if follows {
		score += 8
	}
	if starts := !unicode.IsLetter(before) && !unicode.IsDigit(before) || unicode.IsLower(before) && unicode.IsUpper(r); starts {
		score += 6
	}
	if i == 0 {
		score += 4
	}
	return score
}
