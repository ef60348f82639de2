package google

import (
	"strings"

	"github.com/aycoder/aycoder/internal/rawjson"
)

// maxShape is the largest event for which learning its shape pays off.
const maxShape = 16 << 10

// A shape is an event without its text and its token counts. Most events of a stream have
// the same shape. If an event has the shape of a valid event before it, it is valid, too,
// and need not be parsed.
type shape struct {
	head    string // to the opening quote of the text
	middle  string // from its closing quote to the usage
	usage   string
	after   string
	thought bool

	misses int // shapes in a row that were learnt and not seen again
	skip   int // events to skip before the next is learnt
}

// maxMisses is the number of useless shapes in a row after which only one event in
// [relearn] is learnt.
const (
	maxMisses = 4
	relearn   = 32
)

// learn records the shape of a parsed event that has nothing but the text of p and its
// usage. It keeps the data.
func (s *shape) learn(data string, p *part) {
	if s.skip > 0 {
		s.skip--
		return
	}
	if s.misses++; s.misses > maxMisses {
		s.skip = relearn
	}
	*s = shape{misses: s.misses, skip: s.skip}
	value, ok := after(data, `"text"`)
	if !ok || value == "" || value[0] != '"' {
		return
	}
	text, tail, ok := rawjson.ScanString(value[1:])
	if !ok || text != p.text {
		return
	}
	s.head, s.middle, s.thought = data[:len(data)-len(value)+1], tail, p.thought
	if value, ok = after(s.middle, `"usageMetadata"`); ok {
		r := rawjson.NewReader(value)
		s.usage = object(r)
		s.middle, s.after = s.middle[:len(s.middle)-len(value)], value[len(s.usage):]
	}
}

// after returns the text behind a key that occurs exactly once.
func after(data, key string) (string, bool) {
	i := strings.Index(data, key)
	if i < 0 || strings.Contains(data[i+len(key):], key) {
		return "", false
	}
	return strings.TrimLeft(data[i+len(key):], ": "), true
}

// match reads an event of this shape.
func (s *shape) match(data string) (p part, usage string, ok bool) {
	if s.head == "" || !strings.HasPrefix(data, s.head) {
		return p, "", false
	}
	text, tail, ok := rawjson.ScanString(data[len(s.head):])
	if !ok || len(tail) < len(s.middle)+len(s.after) ||
		!strings.HasPrefix(tail, s.middle) || !strings.HasSuffix(tail, s.after) {
		return p, "", false
	}
	usage = tail[len(s.middle) : len(tail)-len(s.after)]
	if !sameButNumbers(usage, s.usage) {
		return p, "", false
	}
	s.misses, s.skip = 0, 0
	return part{text: text, thought: s.thought, plain: true}, usage, true
}

// sameButNumbers reports whether two JSON texts differ only in whole numbers after a colon.
func sameButNumbers(a, b string) bool {
	for a != b {
		n := strings.IndexByte(a, ':') + 1
		if n < len(a) && a[n] == ' ' {
			n++
		}
		if n == 0 || len(b) < n || a[:n] != b[:n] {
			return false
		}
		a, b = a[n:], b[n:]
		if m, n := digits(a), digits(b); n > 0 && (m == 1 || m > 1 && a[0] != '0') {
			a, b = a[m:], b[n:]
		}
	}
	return true
}

// digits returns the number of leading digits of s.
func digits(s string) int {
	n := 0
	for n < len(s) && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	return n
}
