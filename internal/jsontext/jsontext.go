// Package jsontext finds JSON documents in the texts of models, which often surround them with
// words or code fences. It also has a form of JSON in which two documents can be compared, and
// one that preserves any bytes, and decodes the files of this module.
package jsontext

import (
	"encoding/json"
	"slices"
	"strings"
)

// A Candidate is a piece of a text that may be the document. Inside means that there are other
// words around it, and that it is not in a code fence.
type Candidate struct {
	Text   string
	Inside bool // between words
}

const (
	maxCandidates = 16
	// minScan and scans bound the number of bytes that the search for objects reads. Without a
	// bound, a text of many open braces would take quadratic time, because the end of each is
	// searched for.
	minScan, scans = 64 << 10, 4
)

// Find returns the pieces of a text that may be the document, the most likely first: the whole
// text, then the contents of code fences, then objects between words. Of several fences or
// objects, later ones come first, because models write drafts before the final version. Find does
// not check that a candidate is valid JSON.
//
// If the text was cut off, the whole text is the only candidate, and only if it begins an object:
// an incomplete object is invalid, but the beginning of a number or a word may look complete. If
// a text begins an object or a list that does not end, the whole text is the only candidate as
// well.
func Find(text string, cut bool) []Candidate {
	// Some models begin their answer with a byte order mark.
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

// fenced returns the contents of the code fences that look like JSON. The first line that begins
// with a fence ends the one before it, because no line of a JSON text begins with a fence.
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
	// The model may have forgotten the last fence.
	if from >= 0 {
		found = appendLast(found, strings.TrimSpace(text[from:]), looksLikeJSON)
	}
	return found
}

func isFence(line string) bool {
	line = strings.TrimLeft(line, " \t")
	return strings.HasPrefix(line, "```") || strings.HasPrefix(line, "~~~")
}

// objects returns the JSON objects and lists between the words of a text. It never returns a
// value inside another pair of brackets, even if the outer text is not valid JSON, because that
// value would only be a part of the document. Braces without a string between them are left out.
// They cannot be an object with members, and they also occur in prose.
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

// appendLast appends a piece if it qualifies as a candidate. It keeps only the last few, which
// bounds the work of the caller.
func appendLast(found []string, s string, fit func(string) bool) []string {
	if !fit(s) {
		return found
	}
	if len(found) == maxCandidates {
		found = slices.Delete(found, 0, 1)
	}
	return append(found, s)
}

// closing finds the end of the object or list with which text begins. It returns its length or,
// if it does not end, the number of bytes that were read.
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

// stringSize returns the length of the JSON string at the start of s, and whether the string
// ends. A JSON string has no line break, so a quote before one belongs to prose.
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
