// Package jsontext finds JSON documents in the texts of models, which often wrap them in words
// or code fences, and has forms of JSON in which two documents compare and any bytes survive.
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
	// minScan and scans bound the bytes that the search for objects reads. Without a bound,
	// a text of many open braces would take quadratic time, because each is followed to the
	// end.
	minScan, scans = 64 << 10, 4
)

// Find returns the candidates for the document, the likeliest first: the whole text, the
// contents of code fences, and objects between words. Later ones come first, because drafts
// precede the final version. If the text was truncated, or begins as JSON and does not end,
// only the whole text is a candidate, and only if it is a complete, closed object.
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

// fenced returns the contents of code fences that look like JSON. No line of a JSON text
// begins with a fence, so the next fence is the end.
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

// objects returns the JSON objects and lists between the words of a text. Values inside
// another pair of brackets are never returned, even if the outer text is not valid JSON,
// because they are only a part of it. Braces without a string between them cannot be an
// object with members and are left out, since they occur in prose, too.
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

// appendLast appends a piece if it qualifies as a candidate, and keeps only the last few.
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

// stringSize returns the length of the JSON string at the start of s, and whether it ends.
// A quote before a line break is not the start of a string.
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
