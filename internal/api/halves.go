package api

import (
	"strings"

	"github.com/aycoder/aycoder/internal/sse"
)

// Services that escape what is not ASCII cut texts between the two halves of a character
// too: one piece ends with "\ud83d", the next begins with "\ude00". Decoded by themselves,
// both are U+FFFD. An event with a string that ends so is held until the next comes, and
// the half goes over to it if it begins with the other one. That happens to the JSON text,
// before a decoder sees it, and so for all dialects alike.

// escapeSize is the length of "\uXXXX".
const escapeSize = 6

// joined gives an event to deliver, and the one before if it was held.
func (k *Call) joined(ev sse.Event, deliver func(sse.Event) (bool, error)) (done bool, err error) {
	if before := k.half; before != nil {
		k.half = nil
		if to := openingHalf(ev.Data); to >= 0 {
			from := closingHalf(before.Data)
			half := before.Data[from : from+escapeSize]
			before.Data = before.Data[:from] + before.Data[from+escapeSize:]
			ev.Data = ev.Data[:to] + half + ev.Data[to:]
		}
		if done, err := deliver(*before); done || err != nil {
			return done, err
		}
	}
	// What ends a response has all of it again, and nothing comes after it.
	if closingHalf(ev.Data) < 0 || strings.Contains(ev.Data, `"output":`) {
		return deliver(ev)
	}
	k.half = &sse.Event{Type: ev.Type, Data: strings.Clone(ev.Data)}
	return false, nil
}

// hasEscape reports whether there may be half a character in a JSON text.
func hasEscape(data string) bool {
	return strings.Contains(data, `\ud`) || strings.Contains(data, `\uD`)
}

// closingHalf returns where the last first half of a character is that ends a string, or -1.
func closingHalf(data string) int {
	for end := len(data); end > 0; {
		end = strings.LastIndexByte(data[:end], '"')
		if at := end - escapeSize; at > 0 && isHalf(data[at:], "89abAB") && !escaped(data, at) {
			return at
		}
	}
	return -1
}

// openingHalf returns where the first second half of a character is that begins a string,
// or -1.
func openingHalf(data string) int {
	for at := 1; at < len(data)-escapeSize; at++ {
		quote := strings.IndexByte(data[at:], '"')
		if quote < 0 {
			return -1
		}
		at += quote
		if strings.IndexByte(":[, ", data[at-1]) >= 0 && isHalf(data[at+1:], "cdefCDEF") {
			return at + 1
		}
	}
	return -1
}

// isHalf reports whether s begins with the escape of half a character, whose third digit
// but one tells which half.
func isHalf(s, digits string) bool {
	return len(s) >= escapeSize && s[0] == '\\' && s[1] == 'u' && s[2]|0x20 == 'd' && strings.IndexByte(digits, s[3]) >= 0
}

// escaped reports whether the backslash at i belongs to one before it.
func escaped(data string, i int) bool {
	n := 0
	for i-n > 0 && data[i-n-1] == '\\' {
		n++
	}
	return n%2 == 1
}
