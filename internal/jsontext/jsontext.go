// Package jsontext finds JSON documents in texts that models write around them.
package jsontext

import (
	"encoding/json"
	"slices"
	"strings"
)

// A Candidate is a piece of text that may be the document.
type Candidate struct {
	Text   string
	Inside bool // between words
}

const (
	maxCandidates = 16
	// minScan and scans bound how many bytes of a text are looked at for objects: an
	// open brace that is never closed is followed to the end.
	minScan, scans = 64 << 10, 4
)

// Find returns what may be the document, the likeliest first: the whole text,
// what is in code fences, objects between words; the last of them first, as drafts come
// before the final version. Of a text that was cut only the whole counts: it must be an
// object, whose end is there. So does of one that begins as JSON and does not end.
func Find(text string, cut bool) []Candidate {
	text = strings.TrimSpace(strings.TrimPrefix(text, "\uFEFF"))
	var found []Candidate
	if looksLikeJSON(text) {
		found = append(found, Candidate{Text: text})
	}
	if cut {
		return slices.DeleteFunc(found, func(c Candidate) bool { return c.Text[0] != '{' })
	}
	if _, closed := closing(text); opens(text) && !closed {
		return found
	}
	for _, s := range slices.Backward(fenced(text)) {
		found = append(found, Candidate{Text: s})
	}
	for _, s := range slices.Backward(objects(text)) {
		found = append(found, Candidate{Text: s, Inside: true})
	}
	return found
}

func looksLikeJSON(s string) bool { return opens(s) || json.Valid([]byte(s)) }

func opens(s string) bool { return strings.HasPrefix(s, "{") || strings.HasPrefix(s, "[") }

// fenced returns what looks like JSON in code fences. No line of a JSON text begins
// with a fence, so that the first one after it ends it.
func fenced(text string) []string {
	var found []string
	from, at := -1, 0
	for line := range strings.Lines(text) {
		if at += len(line); !isFence(line) {
			continue
		}
		if from < 0 {
			from = at
			continue
		}
		found = appendLast(found, strings.TrimSpace(text[from:at-len(line)]), looksLikeJSON)
		from = -1
	}
	if from >= 0 {
		found = appendLast(found, strings.TrimSpace(text[from:]), looksLikeJSON)
	}
	return found
}

func isFence(line string) bool {
	line = strings.TrimLeft(line, " \t")
	return strings.HasPrefix(line, "```") || strings.HasPrefix(line, "~~~")
}

// objects returns the JSON objects and lists between the words of a text. Nothing is
// taken out of another, even if that is no JSON: it is a part. What has no string in it
// is no object with members and left out: words have such braces, too.
func objects(text string) []string {
	var found []string
	budget := minScan + scans*len(text)
	for budget > 0 {
		open := strings.IndexAny(text, "{[")
		if open < 0 {
			break
		}
		text = text[open:]
		n, closed := closing(text[:min(len(text), budget)])
		if budget -= n; !closed {
			text = text[1:]
			continue
		}
		found = appendLast(found, text[:n], isFilled)
		text = text[n:]
	}
	return found
}

func isFilled(s string) bool { return strings.Contains(s, `"`) && json.Valid([]byte(s)) }

// appendLast appends what is fit to be one, and keeps the last few.
func appendLast(found []string, s string, fit func(string) bool) []string {
	if !fit(s) {
		return found
	}
	if len(found) == maxCandidates {
		found = slices.Delete(found, 0, 1)
	}
	return append(found, s)
}

// closing finds the end of the object or list that text begins with, and returns how
// far it has looked.
func closing(text string) (n int, closed bool) {
	depth := 0
	for n < len(text) {
		switch text[n] {
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return n + 1, true
			}
		case '"':
			size, ended := stringSize(text[n:])
			if n += size - 1; !ended {
				return n, false
			}
		}
		n++
	}
	return n, false
}

// stringSize returns how long the JSON string is that s begins with, and whether it
// ends. A line break in it says that it is none.
func stringSize(s string) (n int, ended bool) {
	for n = 1; n < len(s); n++ {
		switch s[n] {
		case '"':
			return n + 1, true
		case '\\':
			n++
		case '\n':
			return n, false
		}
	}
	return len(s), false
}
