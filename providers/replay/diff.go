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
	// maxChanges is how many changes are shown, maxValue how many bytes of a value,
	// about, and maxPath of a path.
	maxChanges = 20
	maxValue   = 80
	maxPath    = 100

	// maxDiffDepth is how deep requests are compared. What is deeper is one value.
	maxDiffDepth = 64
	// before is how many bytes are shown before the first difference.
	before = 24
)

// A Change is what is different in a request at one place.
type Change struct {
	// Path is where: `messages[0].content`, or `@header.Accept` for what is not the body.
	Path string
	// Recorded and Request are the values as JSON, shortened around the first
	// difference. One of them is empty where there is no value.
	Recorded, Request string
}

// String returns a line: "+ path: new", "- path: old" or "~ path: old → new".
func (c Change) String() string {
	switch {
	case c.Recorded == "":
		return "+ " + c.Path + ": " + c.Request
	case c.Request == "":
		return "- " + c.Path + ": " + c.Recorded
	}
	return "~ " + c.Path + ": " + c.Recorded + " → " + c.Request
}

// A differ collects what is different in two trees.
type differ struct {
	changes []Change
	total   int
}

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

// lists compares what is between the elements that are the same at both ends. The
// places of what was removed are those in the recorded list.
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

// text returns a value as JSON.
func text(v any) *string {
	if s, ok := v.(string); ok {
		return new(string(rawjson.AppendString(nil, s)))
	}
	data, err := json.Marshal(v)
	if err != nil { // no value of a tree is one
		return new(err.Error())
	}
	return new(string(data))
}

// around shortens two texts around their first difference.
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
