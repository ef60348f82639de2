package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// prefix begins the names of variables that set keys.
const prefix = "AYCODER_"

// Variable returns the name of the variable that sets a key: AYCODER_AGENT_MAX_TURNS for
// "agent.max_turns".
func Variable(key string) string {
	return prefix + strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z':
			return r - 'a' + 'A'
		case r >= 'A' && r <= 'Z' || r >= '0' && r <= '9':
			return r
		}
		return '_'
	}, key)
}

// texts calls f with the path of each key that a text can set. The names of models and the like are those
// that the tree has.
func (f *field) texts(tree *node, path []string, each func(path []string)) {
	switch {
	case f.kind == kindTable:
		for _, g := range f.fields {
			if len(path) > 0 || g.name != "profile" {
				g.texts(tree.find(g.name), append(slices.Clip(path), g.name), each)
			}
		}
	case f.kind == kindDict && tree != nil:
		for _, name := range slices.Sorted(maps.Keys(tree.kids)) {
			f.elem.texts(tree.kids[name], append(slices.Clip(path), name), each)
		}
	case f.kind == kindDict || f.free || f.kind == kindList && f.elem.holds():
	default:
		each(path)
	}
}

// put sets the key of a path to a text.
func (r *report) put(root *node, path []string, text string, at Origin) {
	n := root
	for _, name := range path {
		kid := n.kids[name]
		if kid == nil {
			f := n.field.kid(name)
			kid = &node{field: f, key: join(n.key, name), from: at, at: at, made: headed}
			n.add(name, kid)
		}
		n = kid
	}
	n.from, n.at = at, at
	if n.field.kind != kindList {
		n.text = text
		r.settle(n, text)
		return
	}
	n.items = nil
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part != "" {
			item := n.append(at, kindText)
			item.text = part
			r.settle(item, part)
		}
	}
}

// environment returns the keys that variables set.
func (l *loader) environment(tree *node) *node {
	over, known := &node{field: l.doc}, []string{prefix + "PROFILE"}
	of := map[string]string{}
	l.doc.texts(tree, nil, func(path []string) {
		key := strings.Join(path, ".")
		name := Variable(key)
		known = append(known, name)
		text, ok := l.lookup(name)
		if at := (Origin{Source: Environment, Name: name}); !ok {
		} else if other := of[name]; other != "" {
			l.add(Error, key, at, "has the same variable as "+cut(other), "give one of them another name")
		} else {
			of[name] = key
			l.put(over, path, text, at)
		}
	})
	l.mistyped(known)
	return over
}

// mistyped warns about variables whose names are nearly those of keys. Other names may be those of other programs.
func (l *loader) mistyped(known []string) {
	for _, v := range l.environ {
		name, _, _ := strings.Cut(v, "=")
		rest, ours := strings.CutPrefix(strings.ToUpper(name), prefix)
		if !ours || slices.Contains(known, name) || len(rest) > maxName {
			continue
		}
		i := slices.IndexFunc(known, func(k string) bool { return meant(rest, strings.TrimPrefix(k, prefix)) })
		if i < 0 {
			continue
		}
		if _, used := l.lookup(known[i]); used && strings.EqualFold(name, known[i]) {
			continue // a system where case does not count
		}
		l.add(Warning, "", Origin{}, "the variable "+cut(name)+" sets no key", "did you mean "+known[i]+"?")
	}
}

// meant reports whether a name is that of a key with one or two typing mistakes, or without its table.
func meant(name, key string) bool {
	n := edits([]rune(name), []rune(key))
	return n <= 2 && 4*n <= len(key) || strings.Contains(name, "_") && strings.HasSuffix(key, "_"+name)
}

// flagged returns the keys that flags set.
func (l *loader) flagged() *node {
	over := &node{field: l.doc}
	for _, f := range l.flags {
		at := Origin{Source: Flag, Name: f.name}
		path := strings.Split(f.key, ".")
		if !l.settable(path) {
			l.add(Error, f.key, at, "is not a key that a flag can set", l.meant(f.key))
			continue
		}
		l.put(over, path, f.value, at)
	}
	return over
}

// settable reports whether a text can be the value of a key.
func (l *loader) settable(path []string) bool {
	f := l.doc
	for _, name := range path {
		if !f.holds() {
			return false
		}
		if f = f.kid(name); f == nil {
			return false
		}
	}
	return !f.holds() && !f.free && (f.kind != kindList || !f.elem.holds())
}

func (l *loader) meant(key string) string {
	var all []string
	l.doc.texts(nil, nil, func(path []string) { all = append(all, strings.Join(path, ".")) })
	if best := nearest(key, all); best != "" {
		return fmt.Sprintf("did you mean %s?", best)
	}
	return ""
}
