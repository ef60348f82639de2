// Package rawjson reads and writes JSON in its wire form: a [Reader] walks over a
// document without building it, an [Object] keeps unknown fields byte for byte, and the
// Append functions write without reflection. Streams of language models consist of
// thousands of small documents, for which encoding/json takes several times as long.
package rawjson

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

const (
	// maxNesting is the maximum depth that [Reader.Object] and [Reader.Array] enter.
	// Skipped values may be deeper.
	maxNesting = 64
	// maxDepth is the maximum depth of a document. RFC 8259, section 9, allows such a
	// limit ("An implementation may set limits on the maximum depth of nesting"), and
	// encoding/json has the same.
	maxDepth = 10_000
)

var (
	errEnd     = errors.New("unexpected end")
	errDepth   = errors.New("nested too deep")
	errTrailer = errors.New("something stands after the value")
)

// A Reader walks over one JSON document. Passed values are validated as encoding/json
// does it. After the first error it stops reading and returns zero values, so that only
// [Reader.End] needs to be checked:
//
//	r := rawjson.NewReader(data)
//	for r.Object(); r.Next(); {
//		switch r.Key() {
//		case "id":
//			id, _ = r.Str()
//		case "list":
//			for r.Array(); r.Next(); {
//				…
//			}
//		}
//	}
//	if err := r.End(); err != nil { … }
//
// A value that is not read is skipped. A loop over Next must run to its end, unless the
// document is abandoned. Strings without escapes share the memory of the document.
type Reader struct {
	_      [0]func() // not comparable, which would be code in each program
	s      string
	i      int
	own    bool // returned values are copies
	err    error
	key    string
	arrays uint64 // one bit for each open container: 1 is an array
	depth  int
	first  bool // no element of the innermost container was passed yet
	value  bool // an unread value is at i
	missed bool // the value to enter was not such a container
}

// NewReader returns a Reader over s, which should be valid UTF-8.
func NewReader(s string) *Reader { return &Reader{s: s, value: true} }

// Reset makes r read s from its beginning.
func (r *Reader) Reset(s string) { *r = Reader{s: s, value: true} }

// ResetOver is [Reader.Reset] for memory that will be reused: strings and raw values are
// copies, but keys are not.
func (r *Reader) ResetOver(s string) { *r = Reader{s: s, value: true, own: true} }

// Detach makes r keep a copy of the part that it has passed, for [Reader.Resume]. The
// document's memory may be used for the next one of the stream.
func (r *Reader) Detach() { r.s, r.key = strings.Clone(r.s[:r.i]), strings.Clone(r.key) }

// Resume continues in s at the position of at, if s begins with everything that at has
// passed, since the documents of a stream often begin alike. Otherwise it returns false
// and leaves r unchanged.
func (r *Reader) Resume(at *Reader, s string) bool {
	if at.i == 0 || at.err != nil || !strings.HasPrefix(s, at.s[:at.i]) {
		return false
	}
	*r = *at
	r.s = s
	return true
}

// Kind returns the first byte of the next value: '{', '[', '"', 't', 'f', 'n', or '0' for
// a number. It is 0 if there is none.
func (r *Reader) Kind() byte {
	if r.err != nil || !r.value {
		return 0
	}
	r.space()
	if r.i >= len(r.s) {
		return 0
	}
	switch c := r.s[r.i]; c {
	case '{', '[', '"', 't', 'f', 'n':
		return c
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return '0'
	}
	return 0
}

// Object enters the value if it is an object. Otherwise it skips it and returns
// false, and so does the [Reader.Next] that must follow.
func (r *Reader) Object() bool { return r.enter('{', 0) }

// Array is [Reader.Object] for arrays.
func (r *Reader) Array() bool { return r.enter('[', 1) }

// enter begins an object or an array. If the value is not one, the loop over Next still has
// to be run, and ends at once: so callers need no test for the form of an answer.
func (r *Reader) enter(c byte, bit uint64) bool {
	switch {
	case r.depth >= maxNesting:
		r.fail(errDepth)
		return false
	case r.Kind() != c:
		r.Skip()
		r.missed = true
		return false
	}
	r.i++
	r.depth++
	r.arrays = r.arrays<<1 | bit
	r.first, r.value = true, false
	return true
}

// Next advances to the next element of the innermost container. At its end it leaves the
// container and returns false.
func (r *Reader) Next() bool {
	if r.missed {
		r.missed = false
		return false
	}
	if r.err != nil || r.depth == 0 {
		return false
	}
	if r.value {
		r.Skip()
	}
	array := r.arrays&1 == 1
	c := r.peek()
	if c == '}' && !array || c == ']' && array {
		r.i++
		r.leave()
		return false
	}
	if !r.first {
		if c != ',' {
			r.unexpected("a comma or the end")
			return false
		}
		r.i++
		c = r.peek()
	}
	r.first, r.value = false, true
	return r.err == nil && (array || r.field(c))
}

// leave goes back to the container outside. It was begun before, so it has an element.
func (r *Reader) leave() {
	r.depth--
	r.arrays >>= 1
	r.first, r.value = false, false
}

// field reads a key and its colon.
func (r *Reader) field(c byte) bool {
	if c != '"' {
		r.unexpected("a key")
		return false
	}
	r.i++
	r.key = r.str()
	if r.peek() != ':' {
		r.unexpected("a colon")
		return false
	}
	r.i++
	return r.err == nil
}

// Offset returns where the next value begins, or where the last one ended.
func (r *Reader) Offset() int {
	r.Kind() // to skip white space
	return r.i
}

// Key returns the key of the current element of an object.
func (r *Reader) Key() string { return r.key }

// Str reads a string. Any other value is skipped, and ok is false.
func (r *Reader) Str() (s string, ok bool) {
	s, ok = r.View()
	return r.owned(s), ok
}

// View is [Reader.Str] without the copy that [Reader.ResetOver] asks for.
func (r *Reader) View() (s string, ok bool) {
	if r.Kind() != '"' {
		r.Skip()
		return "", false
	}
	r.i++
	r.value = false
	return r.str(), r.err == nil
}

// Int reads a whole number; a fraction is cut off. Any other value is skipped, and ok is
// false. Some services write whole numbers with a point or an exponent.
func (r *Reader) Int() (n int64, ok bool) {
	f, ok := r.number()
	if !ok {
		return 0, false
	}
	if n, err := strconv.ParseInt(f, 10, 64); err == nil {
		return n, true
	}
	x, err := strconv.ParseFloat(f, 64)
	if err != nil || math.Abs(x) >= 1<<62 {
		return 0, false
	}
	return int64(x), true
}

// Float reads a number. Any other value is skipped, and ok is false.
func (r *Reader) Float() (x float64, ok bool) {
	f, ok := r.number()
	if !ok {
		return 0, false
	}
	x, err := strconv.ParseFloat(f, 64)
	return x, err == nil
}

// number returns the text of a number, and skips any other value.
func (r *Reader) number() (string, bool) {
	if r.Kind() != '0' {
		r.Skip()
		return "", false
	}
	s := r.raw()
	return s, s != ""
}

// Bool reads true or false. Any other value is skipped, and ok is false.
func (r *Reader) Bool() (b, ok bool) {
	k := r.Kind()
	r.Skip()
	return k == 't', (k == 't' || k == 'f') && r.err == nil
}

// Raw reads any value as JSON text.
func (r *Reader) Raw() string { return r.owned(r.raw()) }

// owned returns a string that outlives the document, if that is asked for.
func (r *Reader) owned(s string) string {
	if r.own {
		return strings.Clone(s)
	}
	return s
}

// RawView is [Reader.Raw] without the copy that [Reader.ResetOver] asks for.
func (r *Reader) RawView() string { return r.raw() }

func (r *Reader) raw() string {
	r.Kind() // to skip white space
	start := r.i
	r.Skip()
	if r.err != nil {
		return ""
	}
	return r.s[start:r.i]
}

// Skip skips a value.
func (r *Reader) Skip() {
	if r.err != nil || !r.value {
		return
	}
	r.value = false
	r.skip(0)
}

// Err returns the first error so far.
func (r *Reader) Err() error { return r.err }

// End returns the first error in the document. It also validates the unread rest.
func (r *Reader) End() error {
	if r.depth == 0 {
		r.Skip()
	}
	if r.err != nil {
		return r.err
	}
	if r.depth > 0 {
		return r.at(errEnd)
	}
	if r.space(); r.i < len(r.s) {
		return r.at(errTrailer)
	}
	return nil
}

func (r *Reader) at(err error) error { return fmt.Errorf("JSON at byte %d: %w", r.i, err) }

// fail keeps the first error. The reader does nothing after it.
func (r *Reader) fail(err error) {
	if r.err == nil {
		r.err = r.at(err)
	}
}

// unexpected fails with the byte that stands in the place of what was wanted.
func (r *Reader) unexpected(want string) {
	if r.i >= len(r.s) {
		r.fail(errEnd)
		return
	}
	r.fail(fmt.Errorf("%q instead of %s", r.s[r.i], want))
}

//go:noinline // few documents have spaces
func (r *Reader) space() {
	for r.i < len(r.s) && isSpace(r.s[r.i]) {
		r.i++
	}
}

// peek returns the next byte that is not white space, or 0 at the end.
func (r *Reader) peek() byte {
	if r.i < len(r.s) && r.s[r.i] > ' ' {
		return r.s[r.i]
	}
	r.space()
	if r.i < len(r.s) {
		return r.s[r.i]
	}
	return 0
}

// str reads a string whose opening quote was passed.
func (r *Reader) str() string {
	text, rest, ok := ScanString(r.s[r.i:])
	if !ok {
		r.fail(errors.New("string is not valid or has no end"))
		return ""
	}
	r.i = len(r.s) - len(rest)
	return text
}

// skip skips the value at i, at the given depth. It recurses, so the depth is bounded.
func (r *Reader) skip(depth int) {
	switch c := r.peek(); c {
	case '{', '[':
		if depth >= maxDepth {
			r.fail(errDepth)
			return
		}
		r.i++
		r.skipAll(c+2, depth+1) // '}' and ']' are two after their openings
	case '"':
		r.i++
		r.skipString()
	case 't':
		r.word("true")
	case 'f':
		r.word("false")
	case 'n':
		r.word("null")
	default:
		r.skipNumber()
	}
}

// skipAll skips the rest of a container that ends with end.
func (r *Reader) skipAll(end byte, depth int) {
	if r.peek() == end {
		r.i++
		return
	}
	for r.err == nil {
		if end == '}' && !r.field(r.peek()) {
			return
		}
		r.skip(depth)
		switch c := r.peek(); {
		case r.err != nil:
			return
		case c == end:
			r.i++
			return
		case c != ',':
			r.unexpected("a comma or the end")
			return
		}
		r.i++
		r.space()
	}
}

// skipString validates a string without taking its escapes out.
func (r *Reader) skipString() {
	n, ok := stringEnd(r.s[r.i:])
	if !ok {
		r.fail(errors.New("string is not valid or has no end"))
		return
	}
	r.i += n + 1
}

// word passes one of the three words of JSON.
func (r *Reader) word(w string) {
	if !strings.HasPrefix(r.s[r.i:], w) {
		r.unexpected(w)
		return
	}
	r.i += len(w)
}

// skipNumber skips a number: "-"? ("0" | [1-9][0-9]*) ("." [0-9]+)? ([eE] [+-]? [0-9]+)?
// (RFC 8259, section 6).
func (r *Reader) skipNumber() {
	if r.i < len(r.s) && r.s[r.i] == '-' {
		r.i++
	}
	start := r.i
	r.digits()
	if r.err == nil && r.s[start] == '0' && r.i > start+1 {
		r.i = start + 1
		r.unexpected("the end of a number")
		return
	}
	if r.i < len(r.s) && r.s[r.i] == '.' {
		r.i++
		r.digits()
	}
	if r.i < len(r.s) && (r.s[r.i] == 'e' || r.s[r.i] == 'E') {
		if r.i++; r.i < len(r.s) && (r.s[r.i] == '+' || r.s[r.i] == '-') {
			r.i++
		}
		r.digits()
	}
}

// digits passes one digit or more (RFC 8259, section 6).
func (r *Reader) digits() {
	start := r.i
	for r.i < len(r.s) && r.s[r.i] >= '0' && r.s[r.i] <= '9' {
		r.i++
	}
	if r.i == start {
		r.unexpected("a value")
	}
}
