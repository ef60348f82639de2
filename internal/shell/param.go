package shell

import (
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// plainParam reports whether an expansion is $name or ${name}, without operators. Only of
// such an expansion is the value the variable's own; all others make something of it.
func plainParam(p *syntax.ParamExp) bool {
	return p.Param != nil && !p.Excl && !p.Length && p.Slice == nil && p.Repl == nil && p.Names == 0 && p.Exp == nil
}

// param expands a parameter. Which expansions are admitted is for the form of the script;
// here they have a value as far as it is plain to see.
func (x expander) param(p *syntax.ParamExp) word {
	if p.Param == nil {
		return word{kind: anything, many: true}
	}
	v, set := x.value(p.Param.Value)
	switch {
	case p.Index != nil || p.Excl || p.Names != 0:
		// A subscript is evaluated as arithmetic, which runs the commands in it.
		x.arith(p.Index)
		return word{kind: anything, many: true, env: true}
	case p.Length:
		return word{text: "1", kind: digits}
	case p.Slice != nil:
		x.arith(p.Slice.Offset)
		x.arith(p.Slice.Length)
		return partOf(v)
	case p.Repl != nil:
		x.single(p.Repl.Orig)
		w := x.single(p.Repl.With)
		return word{kind: anything, env: v.env || w.env, net: v.net || w.net}
	case p.Exp != nil:
		return x.expansion(p, v, set)
	}
	return v
}

// partOf is a part of a value, nobody knows which. A part of a number is a number or nothing.
// Part of a text may begin with a dash, or lead out of a directory that the whole stays in.
func partOf(v word) word {
	if v.kind == digits {
		v.gone = true
		return v
	}
	return word{kind: anything, env: v.env, net: v.net}
}

// expands reports whether a part of a word is split after it is expanded. Quoted ones are
// not split, and a process substitution is one path.
func expands(p syntax.WordPart) bool {
	switch p.(type) {
	case *syntax.ParamExp, *syntax.CmdSubst, *syntax.ArithmExp:
		return true
	}
	return false
}

// expansion is the value of ${name-word} and its kin. Everything else is part of an unknown
// value.
func (x expander) expansion(p *syntax.ParamExp, v word, set bool) word {
	w := x.single(p.Exp.Word)
	switch op := p.Exp.Op; op {
	case syntax.OtherParamOps: // ${x@P} runs what is in the value
		x.evaluated(v)
	case syntax.DefaultUnset, syntax.DefaultUnsetOrNull, syntax.AssignUnset, syntax.AssignUnsetOrNull:
		// If it is not known whether the variable is set, the result is one of two values.
		r := v.or(w)
		if set && v.kind <= digits && v.text != "" {
			r = v
		}
		if op == syntax.AssignUnset || op == syntax.AssignUnsetOrNull {
			x.assign(p.Param.Value, r)
		}
		return r
	case syntax.AlternateUnset, syntax.AlternateUnsetOrNull:
		// It is the other word, or nothing, depending on a variable of the environment
		// perhaps.
		return word{kind: anything, env: w.env, net: w.net}
	case syntax.ErrorUnset, syntax.ErrorUnsetOrNull:
		if w.env { // it is in the message
			x.k.dispute("shows a variable of the environment")
		}
		return v
	case syntax.RemSmallSuffix, syntax.RemLargeSuffix:
		// The beginning stays. Cut at a slash, it is a path; cut elsewhere, it becomes one by
		// what is put behind it.
		if v.kind == listing && !strings.HasPrefix(v.text, "/") && !strings.Contains(v.text, "..") {
			r := word{kind: anything, env: v.env, net: v.net, nodash: v.nodash, gone: v.gone, stem: true}
			if strings.HasPrefix(w.text, "/") && w.literal() {
				r.kind, r.stem = listing, false
			}
			return r
		}
	}
	return partOf(v)
}

// value returns the value of a parameter, and whether it is set for sure. A variable that
// is not set by the script may come from the environment, in which a host can have
// anything.
func (x expander) value(name string) (word, bool) {
	if name == "_" { // the shell sets it to the last word of each command, whatever the script says
		return word{kind: anything, env: true}, false
	}
	if v, ok := x.st.vars[name]; ok {
		return v, true
	}
	if n, err := strconv.Atoi(name); err == nil {
		return x.positional(n)
	}
	if numbers[name] {
		always := name == "#" || name == "?" || name == "$" // sh does not set the others, and $! is not set at first
		return word{text: "1", kind: digits, gone: !always && (name == "!" || x.k.lang == syntax.LangPOSIX)}, false
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
			// Unquoted, "$@" is split again.
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
			// PWD is known only as long as each cd that may have failed leads to the same
			// place.
			return word{text: d[0]}, true
		}
		return word{kind: anything}, false
	}
	return word{kind: anything, env: !public(name)}, false
}

// positional is a parameter of the function or script that runs; those of the whole
// script are empty.
func (x expander) positional(n int) (word, bool) {
	switch {
	case n == 0:
		return x.st.name, true
	case x.st.lost:
		return word{kind: anything, many: true}, false
	case n > len(x.st.args):
		return word{}, true
	}
	return x.st.args[n-1], true
}

// joined is words with a space between them, as "$*" and echo make it.
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
func (x expander) assign(name string, v word) {
	if class, why := hijack(name); class != ReadOnly {
		x.k.raise(class, why)
	}
	if x.k.counters[name] && !numeric(v) {
		x.k.raise(NeedsApproval, "sets what is used as a number to something else")
	}
	if strings.ToLower(name) != name && name != "IFS" && !hands(name, v) {
		x.k.handed = "sets a variable that programs may get: " + name
	}
	// The value has no output behind it any more: a variable is a copy of the text.
	v.from = nil
	x.st.vars[name] = v
	switch name {
	case "CDPATH":
		// With CDPATH, cd looks for a relative directory in other places first.
		x.st.dirs = nil
	case "PWD", "OLDPWD":
		// The shell sets these itself at the next cd, whatever the script said.
		x.st.vars[name] = word{kind: anything}
	}
}
