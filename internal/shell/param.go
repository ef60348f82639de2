package shell

import (
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

func plainParam(p *syntax.ParamExp) bool {
	return p.Param != nil && !p.Excl && !p.Length && p.Slice == nil && p.Repl == nil && p.Names == 0 && p.Exp == nil
}

// param expands a parameter.
func (x expander) param(p *syntax.ParamExp, quoted bool) word {
	if p.Param == nil || p.NestedParam != nil || p.Flags != nil || p.Width || p.IsSet {
		x.k.raise(NeedsApproval, "is for another shell")
		return word{kind: anything, many: true}
	}
	name := p.Param.Value
	v, set := x.value(name)
	if p.Index != nil {
		v, set = x.element(p, name), false
	}
	switch {
	case p.Excl && p.Names == 0:
		x.k.raise(NeedsApproval, "reads a variable whose name is in a variable")
		return word{kind: anything, many: true, env: true}
	case p.Names != 0:
		return word{kind: anything, many: true}
	case p.Length:
		return word{text: "1", kind: digits}
	case p.Slice != nil:
		x.arith(p.Slice.Offset)
		x.arith(p.Slice.Length)
		return partOf(v)
	case p.Repl != nil:
		x.inner(p.Repl.Orig, quoted)
		w := x.inner(p.Repl.With, quoted)
		return word{kind: anything, env: v.env || w.env, net: v.net || w.net}
	case p.Exp != nil:
		return x.expansion(p, v, set, quoted)
	}
	return v
}

// partOf is a part of a value, nobody knows which.
func partOf(v word) word {
	if v.kind == digits || v.kind == token {
		return v
	}
	return word{kind: anything, env: v.env, net: v.net}
}

// inner expands the word in an expansion. Shells and versions differ in how they read
// quotes in there.
func (x expander) inner(w *syntax.Word, quoted bool) word {
	if w == nil {
		return word{}
	}
	for _, p := range w.Parts {
		l, ok := p.(*syntax.Lit)
		if quoted && (!ok && !expands(p) || ok && strings.ContainsAny(l.Value, `'"\`)) {
			x.k.raise(NeedsApproval, "has quotes in an expansion in quotes")
		}
	}
	return x.single(w)
}

func expands(p syntax.WordPart) bool {
	switch p.(type) {
	case *syntax.ParamExp, *syntax.CmdSubst, *syntax.ArithmExp:
		return true
	}
	return false
}

func (x expander) expansion(p *syntax.ParamExp, v word, set, quoted bool) word {
	op := p.Exp.Op
	if op == syntax.OtherParamOps {
		if w := p.Exp.Word.Lit(); w == "P" {
			x.k.raise(NeedsApproval, "expands a value as a prompt, which runs commands in it")
			x.k.nested(v, x.st)
		}
		return word{kind: anything, many: true, env: true}
	}
	w := x.inner(p.Exp.Word, quoted)
	full := set && v.kind <= token && v.text != ""
	switch op {
	case syntax.AlternateUnset, syntax.AlternateUnsetOrNull:
		switch {
		case full:
			return w
		case set && v.kind == known:
			return word{}.or(w)
		}
		return word{kind: anything, env: w.env, net: w.net}
	case syntax.DefaultUnset, syntax.DefaultUnsetOrNull, syntax.AssignUnset, syntax.AssignUnsetOrNull:
		r := v.or(w)
		switch {
		case full:
			r = v
		case set && v.kind == known && (op == syntax.DefaultUnsetOrNull || op == syntax.AssignUnsetOrNull):
			r = w
		}
		if op == syntax.AssignUnset || op == syntax.AssignUnsetOrNull {
			x.assign(p.Param.Value, variable{word: r})
		}
		return r
	case syntax.ErrorUnset, syntax.ErrorUnsetOrNull:
		return v
	case syntax.RemSmallSuffix, syntax.RemLargeSuffix:
		return cutSuffix(v, w)
	case syntax.RemSmallPrefix, syntax.RemLargePrefix:
		return cutPrefix(v, w)
	}
	return word{kind: anything, env: v.env, net: v.net}
}

func cutSuffix(v, pattern word) word {
	switch {
	case v.kind == known && pattern.kind == known && !strings.ContainsAny(pattern.text, `*?[\`):
		v.text = strings.TrimSuffix(v.text, pattern.text)
		return v
	case v.kind == listing:
		return v.keep("")
	}
	return partOf(v)
}

func cutPrefix(v, pattern word) word {
	switch {
	case v.kind == known && pattern.kind == known && !strings.ContainsAny(pattern.text, `*?[\`):
		v.text = strings.TrimPrefix(v.text, pattern.text)
		return v
	case v.kind == listing && strings.HasSuffix(pattern.text, "/"):
		v = v.keep("")
		v.nodash = false
		return v
	}
	return partOf(v)
}

// keep is the word with another beginning.
func (w word) keep(text string) word {
	w.text, w.from = text, nil
	return w
}

// element expands ${array[index]}.
func (x expander) element(p *syntax.ParamExp, name string) word {
	i, ok := p.Index.(*syntax.Word)
	v := x.st.vars[name]
	if ok && (i.Lit() == "@" || i.Lit() == "*") {
		w := word{kind: anything, many: true, env: v.env || !v.array, net: v.net}
		for j, e := range v.elems {
			if j == 0 {
				w = e
			} else {
				w = w.or(e)
			}
		}
		if len(v.elems) > 1 {
			w.many = true
			w.kind = anything
		}
		return w
	}
	x.arith(p.Index)
	if n, err := strconv.Atoi(literalArith(p.Index)); err == nil && v.array && 0 <= n && n < len(v.elems) {
		return v.elems[n]
	}
	return word{kind: anything, env: v.env || !v.array, net: v.net}
}

func literalArith(e syntax.ArithmExpr) string {
	if w, ok := e.(*syntax.Word); ok {
		return w.Lit()
	}
	return ""
}

// value returns the value of a parameter, and whether it is set for sure.
func (x expander) value(name string) (word, bool) {
	if v, ok := x.st.vars[name]; ok {
		if v.array {
			return word{kind: anything, many: true, env: v.env, net: v.net}, false
		}
		return v.word, true
	}
	if n, err := strconv.Atoi(name); err == nil {
		return x.positional(n)
	}
	if numbers[name] {
		return word{text: "1", kind: digits}, false
	}
	return x.special(name)
}

// special is a parameter that the shell sets, or a variable of the environment.
func (x expander) special(name string) (word, bool) {
	switch name {
	case "@", "*":
		if x.st.lost {
			return word{kind: anything, many: true}, false
		}
		if len(x.st.args) > 1 && name == "@" {
			return word{kind: anything, many: true, env: anyEnv(x.st.args)}, true
		}
		return joined(x.st.args), true
	case "HOME":
		if h := x.home(); h != "" {
			return word{text: h}, true
		}
		return word{kind: anything}, false
	case "PWD":
		if d := x.st.dirs; len(d) == 1 && !strings.ContainsAny(d[0], "*?[") {
			return word{text: d[0]}, true
		}
		return word{kind: anything}, false
	case "IFS":
		return word{text: " \t\n"}, true
	}
	return word{kind: anything, env: !public(name)}, false
}

func (x expander) positional(n int) (word, bool) {
	switch {
	case n == 0:
		return word{text: "bash"}, true
	case x.st.lost:
		return word{kind: anything, many: true}, false
	case n > len(x.st.args):
		return word{}, true
	}
	return x.st.args[n-1], true
}

func joined(args []word) word {
	w := word{}
	for i, a := range args {
		if i > 0 {
			w = w.then(word{text: " "})
		}
		w = w.then(a)
	}
	return w
}

// assign sets a variable, and says what follows of the name.
func (x expander) assign(name string, v variable) {
	if class, why := hijack(name); class != ReadOnly {
		x.k.raise(class, why)
	}
	v.from = nil
	attrs := x.k.attrs[name]
	if counters[name] || strings.Contains(attrs, "i") {
		x.evaluated(v.word, v.array)
		for _, e := range v.elems {
			x.evaluated(e, false)
		}
	}
	if attrs != "" {
		v = variable{word: word{kind: anything, env: v.env, net: v.net}}
	}
	x.st.vars[name] = v
	switch name {
	case "CDPATH":
		x.st.dirs = nil
	case "PWD", "OLDPWD":
		x.st.vars[name] = variable{word: word{kind: anything}}
	}
}
