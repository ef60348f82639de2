package paint

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// State is how far a call or a job is.
type State int

// The states.
const (
	Running State = iota
	Done
	Failed
	Refused
	Cancelled
)

// Tool is a call of a tool.
type Tool struct {
	Name, Subject string
	State         State
	Result        string // "exit 1", or why it was refused
	Elapsed       time.Duration
	Frame         int // of the spinner, while it runs
	Number, Total int // of the calls of a turn; not shown if Total is 0
}

// Paint returns one line. If it is too long, the subject is cut, and then the result.
func (t Tool) Paint(s Style) []string {
	result := s.line(t.Result)
	switch t.State {
	case Refused:
		result = strings.TrimSuffix("refused: "+result, ": ")
	case Cancelled:
		result = strings.TrimSuffix("interrupted"+s.dot()+result, s.dot())
	}
	var right []string
	for _, part := range []string{s.fit(result, s.width()/2), elapsed(t.Elapsed), t.count(s)} {
		if part != "" {
			right = append(right, part)
		}
	}
	mark, l := t.State.mark(s, t.Frame)
	return []string{s.subject(mark, l, s.line(t.Name), s.line(t.Subject), strings.Join(right, s.dot()))}
}

func (t Tool) count(s Style) string {
	if t.Total == 0 || s.compact() {
		return ""
	}
	return fmt.Sprintf("%d of %d", t.Number, t.Total)
}

// subject returns a line with a mark, a name in bold, a subject, and what is known at the end.
func (s Style) subject(mark string, l look, name, subject, right string) string {
	right = s.fit(right, min(s.width()*2/3, s.width()-Width(mark+s.dot())-1))
	room := s.width() - Width(mark) - 1
	if right != "" {
		right = s.dot() + right
		room -= Width(right)
	}
	name = s.fit(name, room)
	line := s.text(l, mark) + " " + s.text(bold, name)
	if room -= Width(name) + 1; subject != "" && room > 3 {
		line += " " + s.fit(subject, room)
	}
	return line + s.text(comment, right)
}

const frames = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"

func (s Style) spinner(frame int) string {
	all := []rune(frames)
	return s.glyph(string(all[max(frame, 0)%len(all)]), "*")
}

func (st State) mark(s Style, frame int) (string, look) {
	switch st {
	case Running:
		return s.spinner(frame), accent
	case Done:
		return s.glyph("●", "*"), success
	case Failed:
		return s.glyph("✗", "!"), failure
	case Refused:
		return s.glyph("✗", "!"), warning
	}
	return s.glyph("■", "!"), warning
}

// Output paints the output of a call, of which at most keep lines are shown. The hint says how to
// see the others.
func Output(text string, keep int, hint string, s Style) []string {
	all := strings.Split(strings.TrimRight(s.Clean(text), "\n"), "\n")
	first, last := folded(len(all), keep)
	bar := "  " + s.text(comment, s.glyph("│", "|")) + " "
	var lines []string
	for i, line := range all {
		switch {
		case i == first && i < last:
			more := s.more(last - first)
			if hint = s.line(hint); hint != "" {
				more += s.dot() + hint
			}
			lines = append(lines, bar+s.text(comment, s.fit(more, s.width()-4)))
		case i < first || i >= last:
			lines = append(lines, strings.TrimRight(bar+s.fit(strings.ReplaceAll(line, "\t", blanks(tab)), s.width()-4), " "))
		}
	}
	return lines
}

// Turn is what a turn has used.
type Turn struct {
	Model           string
	In, Cached, Out int64    // tokens; Cached are a part of In
	Cost            *float64 // dollars, or nil if it is not known
	Used, Window    int64    // tokens of the context; not shown if Window is 0
	Elapsed         time.Duration
}

// A part is a part of a line, and how much it matters.
type part struct {
	text   string
	weight int
}

// Paint returns one line. If it is too long, the parts that matter least are left out.
func (t Turn) Paint(s Style) []string {
	parts := []part{{s.line(t.Model), 3}, {tokens(t.In) + " in", 7}}
	if t.Cached > 0 {
		parts = append(parts, part{tokens(t.Cached) + " cached", 1})
	}
	parts = append(parts, part{tokens(t.Out) + " out", 6})
	if t.Cost != nil {
		parts = append(parts, part{dollars(*t.Cost), 5})
	}
	if t.Window > 0 {
		percent := strconv.FormatInt(t.Used*100/t.Window, 10) + "%"
		if !s.compact() {
			percent = "context " + percent
		}
		parts = append(parts, part{percent, 4})
	}
	parts = append(parts, part{elapsed(t.Elapsed), 2})
	return []string{s.text(comment, s.joined(parts, s.width()))}
}

// joined joins the parts that fit.
func (s Style) joined(parts []part, columns int) string {
	parts = slices.DeleteFunc(parts, func(p part) bool { return p.text == "" })
	for {
		var all []string
		least := 0
		for i, p := range parts {
			all = append(all, p.text)
			if p.weight < parts[least].weight {
				least = i
			}
		}
		line := strings.Join(all, s.dot())
		if Width(line) <= columns || len(parts) < 2 {
			return s.fit(line, columns)
		}
		parts = slices.Delete(parts, least, least+1)
	}
}

// Status is the line that is painted again and again while something happens.
type Status struct {
	Frame   int
	What    string // "bash", "thinking"
	Subject string
	Elapsed time.Duration
	Wait    time.Duration // until the next try, or 0
	Note    string        // the newest progress
	Hint    string        // which keys work
	Typed   string        // what the user is typing
}

// Paint returns one line. The end of what is typed always stays visible, and has up to half of it.
func (t Status) Paint(s Style) []string {
	typed := strings.ReplaceAll(s.Clean(t.Typed), "\n", s.glyph("⏎", " "))
	if typed != "" {
		label := s.dot() + "typed: "
		if s.compact() {
			label = s.dot()
		}
		typed = label + s.fitEnd(strings.ReplaceAll(typed, "\t", " "), max(s.width()/2-Width(label), 4))
	}
	what := part{strings.TrimSpace(s.line(t.What) + " " + s.line(t.Subject)), 5}
	clock := part{seconds(t.Elapsed), 4}
	if t.Wait > 0 {
		clock.text = "trying again in " + seconds(t.Wait)
	}
	room := s.width() - 2 - Width(typed)
	what.text = s.fit(what.text, max(room-Width(s.dot()+clock.text), 0))
	line := s.joined([]part{what, clock, {s.line(t.Note), 3}, {s.line(t.Hint), 2}}, room)
	return []string{s.text(accent, s.spinner(t.Frame)) + " " + line + typed}
}

// Todo is an item of a list of what is to be done. The states are Running, Done, and any other
// for what has not begun.
type Todo struct {
	Text  string
	State State
}

// Todos paints a list. A narrow terminal shows only what is not done.
func Todos(list []Todo, s Style) []string {
	done := 0
	var lines []string
	for _, t := range list {
		mark, l := s.glyph("☐ ", "[ ] "), look(0)
		switch t.State {
		case Running:
			mark, l = s.glyph("▸ ", "[>] "), bold
		case Done:
			done++
			mark, l = s.glyph("☑ ", "[x] "), comment
			if s.compact() {
				continue
			}
		}
		lines = append(lines, s.hanging(mark, s.line(t.Text), l)...)
	}
	head := fmt.Sprintf("%d of %d done", done, len(list))
	return append([]string{s.text(comment, s.fit(head, s.width()))}, lines...)
}

// hanging wraps a text after a mark.
func (s Style) hanging(mark, text string, l look) (lines []string) {
	w := &wrapper{style: s, width: max(s.width()-Width(mark), 1)}
	w.add(l, []byte(text))
	w.close()
	w.take(func(line []byte, _ int) {
		lines = append(lines, mark+string(line))
		mark = blanks(Width(mark))
	})
	return lines
}

// Job is a command in the background.
type Job struct {
	ID, Command string
	State       State
	Note        string // its last line, or how it ended
	Elapsed     time.Duration
}

// Jobs paints a list of jobs, one line each.
func Jobs(list []Job, s Style) []string {
	var lines []string
	for _, j := range list {
		mark, l := j.State.mark(s, 0)
		if j.State == Running {
			mark = s.glyph("●", "*")
		}
		note := s.line(j.Note)
		if s.compact() && j.State == Running {
			note = ""
		}
		right := s.joined([]part{{s.fit(note, s.width()/3), 1}, {elapsed(j.Elapsed), 2}}, s.width())
		lines = append(lines, s.subject(mark, l, s.line(j.ID), s.line(j.Command), right))
	}
	return lines
}

// elapsed formats a duration in few characters. No duration is "".
func elapsed(d time.Duration) string {
	switch {
	case d <= 0:
		return ""
	case d < time.Second:
		return strconv.FormatInt(max(d.Milliseconds(), 1), 10) + "ms"
	case d < 10*time.Second:
		return strings.TrimSuffix(strconv.FormatFloat(d.Truncate(100*time.Millisecond).Seconds(), 'f', 1, 64), ".0") + "s"
	}
	return seconds(d)
}

// seconds formats a duration that is shown while it passes.
func seconds(d time.Duration) string {
	n := int(max(d, 0) / time.Second)
	switch {
	case n < 60:
		return fmt.Sprintf("%ds", n)
	case n < 3600:
		return fmt.Sprintf("%dm %02ds", n/60, n%60)
	}
	return fmt.Sprintf("%dh %02dm", n/3600, n/60%60)
}

// tokens formats a number with three digits or less.
func tokens(n int64) string {
	for _, unit := range []struct {
		size int64
		name string
	}{{1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		switch {
		case n >= 100*unit.size:
			return strconv.FormatInt(n/unit.size, 10) + unit.name
		case n >= unit.size:
			tenths := n * 10 / unit.size
			return strings.TrimSuffix(fmt.Sprintf("%d.%d", tenths/10, tenths%10), ".0") + unit.name
		}
	}
	return strconv.FormatInt(n, 10)
}

func dollars(x float64) string {
	if x > 0 && x < 0.01 {
		return fmt.Sprintf("$%.4f", x)
	}
	return fmt.Sprintf("$%.2f", x)
}
