package api

import (
	"strings"

	"github.com/aycoder/aycoder/internal/sse"
)

// Services that escape non-ASCII characters may split a text within a surrogate pair: one
// piece ends with "\ud83d", and the next begins with "\ude00". Decoded separately, both
// become U+FFFD. So an event with a string that ends this way is held until the next
// event; if that begins with the other half, the first half is moved to it. This is done
// on the JSON text, before a decoder sees it, and therefore works for all dialects.

// escapeSize is the length of "\uXXXX".
const escapeSize = 6

// joined passes the event that was held before to the decoder, and then ev, unless ev has to be held
// itself.
func (k *Call) joined(ev sse.Event) (done bool, err error) {
	if before := k.half; before != nil {
		k.half = nil
		if to := openingHalf(ev.Data); to >= 0 {
			from := closingHalf(before.Data)
			half := before.Data[from : from+escapeSize]
			before.Data = before.Data[:from] + before.Data[from+escapeSize:]
			ev.Data = ev.Data[:to] + half + ev.Data[to:]
		}
		if done, err := k.take(*before); done || err != nil {
			return done, err
		}
	}
	// An event that ends a response repeats all of it, and no other follows.
	if closingHalf(ev.Data) < 0 || strings.Contains(ev.Data, `"output":`) {
		return k.take(ev)
	}
	k.half = &sse.Event{Type: ev.Type, Data: strings.Clone(ev.Data)}
	return false, nil
}

// hasEscape reports whether a JSON text may contain half of a surrogate pair.
func hasEscape(data string) bool {
	for {
		i := strings.IndexByte(data, '\\')
		if i < 0 || len(data)-i < escapeSize {
			return false
		}
		if data = data[i+1:]; data[0] == 'u' && data[1]|0x20 == 'd' {
			return true
		}
	}
}

// closingHalf returns the offset of the last high surrogate that ends a string, or -1.
func closingHalf(data string) int {
	for end := len(data); end > 0; {
		end = strings.LastIndexByte(data[:end], '"')
		if at := end - escapeSize; at > 0 && isHalf(data[at:], "89abAB") && !escaped(data, at) {
			return at
		}
	}
	return -1
}

// openingHalf returns the offset of the first low surrogate that begins a string, or -1.
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

// isHalf reports whether s begins with the escape of a surrogate whose second hexadecimal
// digit is one of digits. That digit distinguishes high and low surrogates.
func isHalf(s, digits string) bool {
	return len(s) >= escapeSize && s[0] == '\\' && s[1] == 'u' && s[2]|0x20 == 'd' &&
		strings.IndexByte(digits, s[3]) >= 0
}

// escaped reports whether the backslash at i is itself escaped.
func escaped(data string, i int) bool {
	n := 0
	for i-n > 0 && data[i-n-1] == '\\' {
		n++
	}
	return n%2 == 1
}
