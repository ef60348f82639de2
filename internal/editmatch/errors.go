package editmatch

import (
	"fmt"
	"strings"
)

// Kind tells why an edit was refused.
type Kind int

const (
	// NotFound is an old string that is not in the text. Near says what is like it.
	NotFound Kind = iota
	// Ambiguous is an old string that is there Count times, in Lines.
	Ambiguous
	// NoChange is an edit that changes nothing.
	NoChange
	// EmptyOld is an empty old string for a text that is not empty.
	EmptyOld
	// Unclear is an old string that was found, but that does not tell how to indent
	// the line Text of the new one.
	Unclear
	// TooLarge is a text of more than 64 MB, before or after the edit, or an edit of
	// more than 100,000 places.
	TooLarge
)

// Error is the refusal of an edit. Find it with
//
//	e, ok := errors.AsType[*editmatch.Error](err)
type Error struct {
	Kind  Kind
	Level Level  // Ambiguous: what had been allowed for; NoChange: which message it is
	Count int    // Ambiguous: how many places; 101 for more than 100
	Lines []int  // where the places of any kind begin, counted from 1; of many, the first ten
	Near  []Near // NotFound, Unclear: what the text has; at most three places
	Text  string // Unclear: the new line in question
	Hint  string // NotFound: what the mistake may be; a sentence after a space
}

// Near is a place that is like an old string. Lines are shortened, and not all of
// them if there are many. Differs is the number of the first line that is not as the
// old string has it, which is Wants; it is 0 if there is none.
type Near struct {
	FirstLine int
	Lines     []string
	Differs   int
	Wants     string
}

// Error returns a text for a model, of a bounded length: what is wrong, where, and what to
// do. It names fields as the tool does, old_string and new_string, because that is what the
// model has to change.
func (e *Error) Error() string {
	return e.reason() + e.places()
}

// reason says what is wrong, and in the same sentence what to do next: a model that only
// reads what is wrong repeats the edit with small changes.
func (e *Error) reason() string {
	switch e.Kind {
	case Ambiguous:
		return e.ambiguous()
	case NoChange:
		return e.noChange()
	case EmptyOld:
		return "old_string is empty, but the file is not; give the text to replace"
	case Unclear:
		return e.unclear()
	case TooLarge:
		return "the text is or would get longer than 64 MB, or there are more than 100000 places; " +
			"use smaller edits"
	}
	return "old_string does not occur in the file." + e.Hint
}

// ambiguous lists the lines, so that the model can tell which place it meant. To replace
// all of them is proposed only where they are equal but for blanks and the like.
func (e *Error) ambiguous() string {
	count := fmt.Sprint(e.Count)
	if e.Count > maxCount {
		count = fmt.Sprintf("more than %d", maxCount)
	}
	lines := make([]string, len(e.Lines))
	for i, n := range e.Lines {
		lines[i] = fmt.Sprint(n)
	}
	list := strings.Join(lines, ", ")
	if e.Count > len(e.Lines) {
		list += " and others"
	}
	but := ""
	switch {
	case e.Level == Elided:
		but = " (a piece of it)"
	case e.Level != Exact:
		but = fmt.Sprintf(" but for %s", e.Level)
	}
	do := "take in more of the lines around it"
	if e.Level <= Indentation {
		do += ", or set replace_all"
	}
	return fmt.Sprintf("old_string occurs %s times%s, in lines %s; %s", count, but, list, do)
}

func (e *Error) noChange() string {
	switch e.Level {
	case LineEndings:
		return "old_string and new_string differ in line endings only, which are kept as they are"
	case TrailingSpace:
		return fmt.Sprintf("line %d is as new_string has it already", e.Lines[0])
	}
	return "old_string and new_string are the same, so there is nothing to do"
}

// unclear asks for a copy of the indentation, since everything else about the place is
// known.
func (e *Error) unclear() string {
	if e.Text == "" {
		return fmt.Sprintf("old_string is in line %d but for indentation, and not all of its lines are "+
			"indented alike; copy the indentation from the file", e.Lines[0])
	}
	return fmt.Sprintf("old_string is in line %d but for indentation, and that does not tell how far to "+
		"indent this line of new_string: %q; copy the indentation from the file", e.Lines[0], cut(e.Text))
}

// places shows what the text has.
func (e *Error) places() string {
	if len(e.Near) == 0 {
		if e.Kind == NotFound {
			return " Nothing in it is like old_string. Read the file again and copy the text from there."
		}
		return ""
	}
	var b strings.Builder
	if e.Kind == NotFound {
		b.WriteString(" The most similar text is")
	} else {
		b.WriteString(". The file has")
	}
	for i, n := range e.Near {
		if i > 0 {
			b.WriteString("or")
		}
		b.WriteString(":\n")
		n.write(&b)
	}
	if e.Kind == NotFound {
		b.WriteString("Copy it from here without the line numbers, or read the file again.")
	}
	return b.String()
}

// write shows lines as the tool that reads files does, with numbers and a tab.
func (n *Near) write(b *strings.Builder) {
	for i, l := range n.Lines {
		fmt.Fprintf(b, "%6d\t%s\n", n.FirstLine+i, l)
	}
	if n.Differs > 0 {
		fmt.Fprintf(b, "(line %d is not as in old_string, which has %q)\n", n.Differs, n.Wants)
	}
}
