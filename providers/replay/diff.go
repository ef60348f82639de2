package replay

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/aycoder/aycoder/internal/rawjson"
	"github.com/aycoder/aycoder/internal/runes"
)

const (
	// maxChanges is the number of changes that are shown; maxValue and maxPath are the
	// approximate lengths in bytes of a value and of a path.
	maxChanges = 20
	maxValue   = 80
	maxPath    = 100

	// maxDiffDepth is the depth to which requests are compared. A deeper value is
	// compared as a whole.
	maxDiffDepth = 64
	// before is the number of bytes that are shown before the first difference.
	before = 24
)

// A Change is one difference between a request and a recorded request.
type Change struct {
	// Path is the place of the difference, such as `messages[0].content` for a place in
	// the body. Paths of other properties of a request begin with an @, such as
	// `@header.Accept`.
	Path string
	// Recorded is the value in the recorded request, and Request is the value in the new
	// request, both as JSON. A long value is shortened to the text around the first
	// difference. If one of the requests has no value at this place, its field is empty.
	Recorded, Request string
}

// String returns "+ path: new" for an added value, "- path: old" for a missing value, and
// "~ path: old → new" for a different value.
func (c Change) String() string {
	switch {
	case c.Recorded == "":
		return "+ " + c.Path + ": " + c.Request
	case c.Request == "":
		return "- " + c.Path + ": " + c.Recorded
	}
	return "~ " + c.Path + ": " + c.Recorded + " → " + c.Request
}

// A differ collects the differences between two trees.
type differ struct {
	changes []Change
	total   int
}

// add records a difference. Differences beyond the number that is shown are only counted.
func (d *differ) add(path string, recorded, request *string) {
	if d.total++; d.total > maxChanges {
		return
	}
	c := Change{Path: runes.Shorten(path, maxPath)}
	switch {
	case recorded == nil:
		c.Request = runes.Shorten(*request, maxValue)
	case request == nil:
		c.Recorded = runes.Shorten(*recorded, maxValue)
	default:
		c.Recorded, c.Request = around(*recorded, *request)
	}
	d.changes = append(d.changes, c)
}

// compare compares two values and descends into objects and lists. Only the differences
// are shown, because requests have many kilobytes in common.
func (d *differ) compare(path string, recorded, request any, depth int) {
	if depth < maxDiffDepth {
		switch a := recorded.(type) {
		case map[string]any:
			if b, ok := request.(map[string]any); ok {
				d.objects(path, a, b, depth)
				return
			}
		case []any:
			if b, ok := request.([]any); ok {
				d.lists(path, a, b, depth)
				return
			}
		}
	}
	if !fits(recorded, request) {
		d.add(path, text(recorded), text(request))
	}
}

// objects compares the members of two objects. The keys are sorted, so that the same
// requests always give the same error.
func (d *differ) objects(path string, a, b map[string]any, depth int) {
	keys := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.Sort(keys)
	for _, k := range slices.Compact(keys) {
		x, inA := a[k]
		y, inB := b[k]
		switch at := join(path, k); {
		case !inA:
			d.add(at, nil, text(y))
		case !inB:
			d.add(at, text(x), nil)
		default:
			d.compare(at, x, y, depth+1)
		}
	}
}

// lists compares the elements between the common beginning and end of two lists. The
// indexes of removed elements are those in the recorded list.
func (d *differ) lists(path string, a, b []any, depth int) {
	head := 0
	for head < min(len(a), len(b)) && fits(a[head], b[head]) {
		head++
	}
	tail := 0
	for tail < min(len(a), len(b))-head && fits(a[len(a)-1-tail], b[len(b)-1-tail]) {
		tail++
	}
	for i := head; i < max(len(a), len(b))-tail; i++ {
		switch at := fmt.Sprintf("%s[%d]", path, i); {
		case i >= len(a)-tail:
			d.add(at, nil, text(b[i]))
		case i >= len(b)-tail:
			d.add(at, text(a[i]), nil)
		default:
			d.compare(at, a[i], b[i], depth+1)
		}
	}
}

// join appends a key to a path.
func join(path, key string) string {
	if key == "" || strings.ContainsAny(key, ".[]\"* \n") {
		return path + "[" + strconv.Quote(runes.Shorten(key, maxPath)) + "]"
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

// text formats a value as JSON.
func text(v any) *string {
	if s, ok := v.(string); ok {
		return new(string(rawjson.AppendString(nil, s)))
	}
	data, err := json.Marshal(v)
	if err != nil { // the trees contain only JSON values
		return new(err.Error())
	}
	return new(string(data))
}

// around shortens two texts to the surroundings of their first difference.
func around(a, b string) (string, string) {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	if max(len(a), len(b)) <= maxValue {
		return a, b
	}
	from := max(0, n-before)
	for from > 0 && !utf8.RuneStart(a[from]) {
		from--
	}
	lead := ""
	if from > 0 {
		lead = "…"
	}
	return lead + runes.Shorten(a[from:], maxValue), lead + runes.Shorten(b[from:], maxValue)
}
