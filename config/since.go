package config

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// KeyChange is a key whose value differs between two configurations.
type KeyChange struct {
	// Key is the full name of the key. A list is one key.
	Key string
	// Before and After are the values as a user may see them: the number of entries of a list, "none" if nothing is
	// set, "set" for an entry without keys, and "…" for a text that might be secret.
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
	all := maps.Clone(before.leaves)
	maps.Copy(all, l.leaves)
	var out []KeyChange
	for key, n := range all {
		a, b := before.leaves[key], l.leaves[key]
		if list, _, element := strings.Cut(key, "["); element {
			lists[list] = lists[list] || a == nil || b == nil || a.value != b.value
		} else if f := n.field; f.now(a) != f.now(b) || f.kind == kindTable && before.sets(key) != l.sets(key) {
			out = append(out, KeyChange{key, f.shown(a), f.shown(b)})
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

// sets reports whether there is an entry of a table of names, with keys or without.
func (l *Loaded) sets(key string) bool {
	for k := range l.leaves {
		if k == key || strings.HasPrefix(k, key+".") {
			return true
		}
	}
	return false
}

// shown returns the value in force of a node, which may be missing, as a user may see it.
func (f *field) shown(n *node) string {
	switch v := f.now(n).(type) {
	case nil:
		if n != nil && n.empty() {
			return "set"
		}
		return "none"
	case string:
		if f.enum == nil && (n != nil && n.variable() || !f.plain()) {
			return hidden
		}
		return strconv.Quote(cut(v))
	default:
		return fmt.Sprint(v)
	}
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
