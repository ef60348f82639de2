package config

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// KeyChange is a key whose value differs between two configurations.
type KeyChange struct {
	// Key is the full name of the key. A list is one key.
	Key string
	// Before and After are the values as a user may see them: the number of entries of a list, "none" if nothing is
	// set, and "…" for a text that might be secret.
	Before, After string
}

// hidden stands for a value that is not shown.
const hidden = "…"

// String returns the change on one line: "agent.max_turns: 50 → 80".
func (c KeyChange) String() string {
	if c.Before == c.After {
		return c.Key + ": changed"
	}
	return c.Key + ": " + c.Before + " → " + c.After
}

// Since returns the keys whose values differ from those of an earlier configuration, sorted.
func (l *Loaded) Since(before *Loaded) []KeyChange {
	lists := map[string]bool{}
	var out []KeyChange
	for key := range both(before.leaves, l.leaves) {
		a, b := before.leaves[key], l.leaves[key]
		if list, _, element := strings.Cut(key, "["); element {
			lists[list] = lists[list] || a == nil || b == nil || a.value != b.value
			continue
		}
		if before, after := shown(a, b), shown(b, a); value(a, b) != value(b, a) {
			out = append(out, KeyChange{key, before, after})
		}
	}
	for list, differs := range lists {
		if differs {
			out = append(out, KeyChange{list, before.entries(list), l.entries(list)})
		}
	}
	slices.SortFunc(out, func(a, b KeyChange) int { return strings.Compare(a.Key, b.Key) })
	return out
}

// both returns the keys that one of two maps has.
func both[T any](a, b map[string]T) map[string]bool {
	all := map[string]bool{}
	for key := range maps.Keys(a) {
		all[key] = true
	}
	for key := range maps.Keys(b) {
		all[key] = true
	}
	return all
}

// value returns the value in force of a node that may be missing, in which case other is the node of the same key.
func value(n, other *node) any {
	if n == nil {
		return other.field.now(nil)
	}
	return n.field.now(n)
}

// shown returns a value as a user may see it.
func shown(n, other *node) string {
	v := value(n, other)
	f := other
	if n != nil {
		f = n
	}
	switch v := v.(type) {
	case nil:
		return "none"
	case time.Duration:
		return v.String()
	case string:
		if f.field.enum == nil && (f.variable() || !f.field.plain()) {
			return hidden
		}
		return strconv.Quote(cut(v))
	}
	return fmt.Sprint(v)
}

// plain reports whether a text names a provider or a model, and so is not a secret.
func (f *field) plain() bool {
	return slices.Contains([]string{"provider", "model", "main", "small", "summary"}, f.name)
}

// entries returns how many entries a list has.
func (l *Loaded) entries(list string) string {
	found := map[string]bool{}
	for key := range l.leaves {
		if rest, ok := strings.CutPrefix(key, list+"["); ok {
			index, _, _ := strings.Cut(rest, "]")
			found[index] = true
		}
	}
	if len(found) == 1 {
		return "1 entry"
	}
	return fmt.Sprintf("%d entries", len(found))
}

func keysOf(changes []KeyChange) (keys []string) {
	for _, c := range changes {
		keys = append(keys, c.Key)
	}
	return keys
}
