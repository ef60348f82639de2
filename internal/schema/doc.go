package schema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// The bounds of a document keep the memory in proportion to the text that the model sent.
const (
	maxDocument = 256 << 20 // bytes
	maxCells    = 1 << 21   // values and keys
	maxNesting  = 256
	fewKeys     = 16 // up to this number comparing is faster than hashing
)

type kind uint8

const (
	kindNull kind = iota
	kindBool
	kindNumber
	kindString
	kindArray
	kindObject
)

// A doc is a JSON text with the positions of its values. It is parsed once, without a copy,
// because for most values only the type matters. The maps and float64 values of
// encoding/json would lose duplicate keys, the order and digits.
type doc struct {
	data  []byte
	cells []cell
	pos   int
}

// A cell is one value or key. The cells of its elements or members follow it; in an object
// keys and values alternate.
type cell struct {
	start, end int32 // the text in data, with the quotes of a string
	next       int32 // the cell after this value and its contents
	kind       kind
	escaped    bool // a string with a backslash in it
	integer    bool // a number that the schema requires to be a 64-bit integer
}

// Its offset is counted from the beginning of the arguments, as encoding/json counts.
type syntaxError struct {
	at   int
	what string
}

func (e *syntaxError) Error() string { return fmt.Sprintf("%s at byte %d", e.what, e.at) }

func (d *doc) fail(at int, format string, args ...any) error {
	return &syntaxError{at, fmt.Sprintf(format, args...)}
}

// parse finds the cells of the one value in data. It follows RFC 8259 strictly, because
// encoding/json decodes the same text afterwards: a text that the two read differently
// would be approved with one meaning and run with another. It does not build maps or slices
// of any, which take ten times the memory of the text.
func (d *doc) parse() error {
	if len(d.data) > maxDocument {
		return fmt.Errorf("JSON text is %d bytes, more than %d", len(d.data), maxDocument)
	}
	// encoding/json would replace the bytes, so the tool would get another text than the
	// one that was approved.
	if !utf8.Valid(d.data) {
		return d.fail(invalidAt(d.data), "text is not UTF-8")
	}
	if d.skipSpace(); d.pos == len(d.data) {
		return d.fail(d.pos, "not valid JSON: empty text")
	}
	if err := d.value(0); err != nil {
		return err
	}
	if d.skipSpace(); d.pos < len(d.data) {
		return d.fail(d.pos, "not valid JSON: more text after the value")
	}
	return nil
}

// invalidAt returns the offset of the first byte that is not UTF-8, for the message.
func invalidAt(data []byte) int {
	at := 0
	for at < len(data) {
		r, n := utf8.DecodeRune(data[at:])
		if r == utf8.RuneError && n == 1 {
			break
		}
		at += n
	}
	return at
}

// skipSpace skips the four characters that are white space in JSON (RFC 8259, section 2). A
// no-break space is an error.
func (d *doc) skipSpace() {
	for d.pos < len(d.data) {
		switch d.data[d.pos] {
		case ' ', '\t', '\n', '\r':
			d.pos++
		default:
			return
		}
	}
}

// peek returns the next byte, or 0 at the end. A NUL byte is invalid everywhere in JSON, so
// the two cannot be confused.
func (d *doc) peek() byte {
	if d.pos < len(d.data) {
		return d.data[d.pos]
	}
	return 0
}

// unexpected is worded for a model that has to find its mistake in a long text: it says
// what stands there, and what should.
func (d *doc) unexpected(want string) error {
	if d.pos >= len(d.data) {
		return d.fail(d.pos, "not valid JSON: text ends, want %s", want)
	}
	r, _ := utf8.DecodeRune(d.data[d.pos:])
	return d.fail(d.pos, "not valid JSON: %q, want %s", r, want)
}

// open appends the cell of a value that begins here. Its end and next are set by close,
// when the cells of its contents have been appended.
func (d *doc) open(k kind) int {
	d.cells = append(d.cells, cell{start: int32(d.pos), kind: k})
	return len(d.cells) - 1
}

// close ends a value. The cells of its contents are all between at and next, so it can be
// skipped in one step.
func (d *doc) close(at int) {
	d.cells[at].end = int32(d.pos)
	d.cells[at].next = int32(len(d.cells))
}

// value reads a value, whose kind the first byte tells (RFC 8259, section 3).
func (d *doc) value(depth int) error {
	if len(d.cells) >= maxCells {
		return d.fail(d.pos, "more than %d values", maxCells)
	}
	switch c := d.peek(); {
	case c == '{':
		return d.object(depth)
	case c == '[':
		return d.array(depth)
	case c == '"':
		return d.text("a string")
	case c == '-' || '0' <= c && c <= '9':
		return d.number()
	case c == 't':
		return d.word("true", kindBool)
	case c == 'f':
		return d.word("false", kindBool)
	case c == 'n':
		return d.word("null", kindNull)
	}
	return d.unexpected("a value")
}

// word reads true, false or null. The error has the whole word, since models write True and
// None.
func (d *doc) word(w string, k kind) error {
	at := d.open(k)
	for i := range len(w) {
		if d.peek() != w[i] {
			return d.unexpected(w)
		}
		d.pos++
	}
	d.close(at)
	return nil
}

// number reads a number without taking its value, which few schemas need. A zero in front
// of other digits ends it: after that a comma is missing.
func (d *doc) number() error {
	at := d.open(kindNumber)
	if d.peek() == '-' {
		d.pos++
	}
	if d.peek() == '0' {
		d.pos++
	} else if !d.digits() {
		return d.unexpected("a digit")
	}
	if d.peek() == '.' {
		if d.pos++; !d.digits() {
			return d.unexpected("a digit")
		}
	}
	if c := d.peek(); c == 'e' || c == 'E' {
		d.pos++
		if c := d.peek(); c == '+' || c == '-' {
			d.pos++
		}
		if !d.digits() {
			return d.unexpected("a digit")
		}
	}
	d.close(at)
	return nil
}

func (d *doc) digits() bool {
	from := d.pos
	for c := d.peek(); '0' <= c && c <= '9'; c = d.peek() {
		d.pos++
	}
	return d.pos > from
}

// text reads a string. Control characters in it must be escaped (RFC 8259, section 7).
func (d *doc) text(want string) error {
	if d.peek() != '"' {
		return d.unexpected(want)
	}
	at := d.open(kindString)
	for d.pos++; d.pos < len(d.data); d.pos++ {
		switch c := d.data[d.pos]; {
		case c == '"':
			d.pos++
			d.close(at)
			return nil
		case c == '\\':
			d.cells[at].escaped = true
			if err := d.escape(); err != nil {
				return err
			}
		case c < ' ':
			return d.fail(d.pos, "not valid JSON: %q in a string, want it escaped", c)
		}
	}
	return d.unexpected("the end of a string")
}

// escape reads one escape and stops on its last byte. A surrogate without its partner is
// not refused, because encoding/json reads it as U+FFFD.
func (d *doc) escape() error {
	d.pos++
	switch d.peek() {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return nil
	case 'u':
	default:
		return d.unexpected("an escape")
	}
	for range 4 {
		d.pos++
		if !isHex(d.peek()) {
			return d.unexpected("a hexadecimal digit")
		}
	}
	return nil
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

func (d *doc) array(depth int) error {
	at, err := d.enter(kindArray, depth)
	if err != nil {
		return err
	}
	for first := true; ; first = false {
		if done, err := d.separator(']', first, "a comma or ]"); done || err != nil {
			d.close(at)
			return err
		}
		if err := d.value(depth + 1); err != nil {
			return err
		}
	}
}

func (d *doc) object(depth int) error {
	at, err := d.enter(kindObject, depth)
	if err != nil {
		return err
	}
	var seen map[string]struct{}
	for n := 0; ; n++ {
		if done, err := d.separator('}', n == 0, "a comma or }"); done || err != nil {
			d.close(at)
			return err
		}
		key := len(d.cells)
		if err := d.key(); err != nil {
			return err
		}
		if seen, err = d.unique(at, key, n, seen); err != nil {
			return err
		}
		if err := d.value(depth + 1); err != nil {
			return err
		}
	}
}

// key reads a key and the colon after it.
func (d *doc) key() error {
	if err := d.text("a key"); err != nil {
		return err
	}
	if d.skipSpace(); d.peek() != ':' {
		return d.unexpected("a colon")
	}
	d.pos++
	d.skipSpace()
	return nil
}

// enter begins an object or an array. The depth is bounded because the parser, the
// validation and encoding/json all recurse.
func (d *doc) enter(k kind, depth int) (int, error) {
	if depth >= maxNesting {
		return 0, d.fail(d.pos, "nested deeper than %d", maxNesting)
	}
	at := d.open(k)
	d.pos++
	return at, nil
}

// separator reads up to the next member of an object or array: nothing before the first, a
// comma before the others, or the closing bracket.
func (d *doc) separator(end byte, first bool, want string) (done bool, err error) {
	d.skipSpace()
	switch c := d.peek(); {
	case c == end:
		d.pos++
		return true, nil
	case first:
		return false, nil
	case c != ',':
		return false, d.unexpected(want)
	}
	d.pos++
	d.skipSpace()
	return false, nil
}

// unique refuses a key that the object already has. RFC 8259 (section 4) leaves open which
// of the two counts, so the tool might run with another value than the one that was
// approved.
func (d *doc) unique(object, key, n int, seen map[string]struct{}) (map[string]struct{}, error) {
	name := d.str(key)
	if n < fewKeys {
		for i := object + 1; i < key; i = int(d.cells[i+1].next) {
			if bytes.Equal(d.str(i), name) {
				return nil, d.duplicate(key)
			}
		}
		return nil, nil
	}
	if seen == nil {
		seen = make(map[string]struct{}, 2*fewKeys)
		for i := object + 1; i < key; i = int(d.cells[i+1].next) {
			seen[string(d.str(i))] = struct{}{}
		}
	}
	if _, dup := seen[string(name)]; dup {
		return nil, d.duplicate(key)
	}
	seen[string(name)] = struct{}{}
	return seen, nil
}

func (d *doc) duplicate(key int) error {
	return d.fail(int(d.cells[key].start), "duplicate key %s", short(string(d.raw(key))))
}

// raw returns the JSON text of a cell. The bytes are a part of data and must not be
// changed.
func (d *doc) raw(at int) []byte { return d.data[d.cells[at].start:d.cells[at].end] }

// str returns the string in a cell without its escapes. They are a copy only if there are
// escapes.
func (d *doc) str(at int) []byte {
	raw := d.raw(at)
	if !d.cells[at].escaped {
		return raw[1 : len(raw)-1]
	}
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return raw // unreachable: parse has checked it
	}
	return []byte(s)
}

// members calls f for each member of an object until f returns false.
func (d *doc) members(object int, f func(key, value int) bool) {
	for i := object + 1; i < int(d.cells[object].next); i = int(d.cells[i+1].next) {
		if !f(i, i+1) {
			return
		}
	}
}

// elements calls f for each element of an array until f returns false.
func (d *doc) elements(array int, f func(n, value int) bool) {
	n := 0
	for i := array + 1; i < int(d.cells[array].next); i = int(d.cells[i].next) {
		if !f(n, i) {
			return
		}
		n++
	}
}

// size returns the number of members or elements of a value.
func (d *doc) size(at int) int {
	n := 0
	count := func(int, int) bool { n++; return true }
	if d.cells[at].kind == kindObject {
		d.members(at, count)
	} else {
		d.elements(at, count)
	}
	return n
}
