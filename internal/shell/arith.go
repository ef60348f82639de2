package shell

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Which arithmetic and which tests may run unasked is for the form of the script. This file
// only classifies the others: it walks the commands in them, and in the values that bash would
// evaluate.

// arith walks an arithmetic expression.
func (x expander) arith(e syntax.ArithmExpr) {
	if e == nil {
		return
	}
	syntax.Walk(e, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.CmdSubst:
			x.substitute(n)
			return false
		case *syntax.BinaryArithm:
			if assigns(n.Op) {
				x.setNumber(n.X)
			}
		case *syntax.UnaryArithm:
			if n.Op == syntax.Inc || n.Op == syntax.Dec {
				x.setNumber(n.X)
			}
		case *syntax.Lit:
			x.evaluated(x.st.vars[n.Value])
		}
		return x.k.tick()
	})
}

// setNumber sets the variable on the left of an assignment in arithmetic. The assigned value is
// a number, whatever the right side is.
func (x expander) setNumber(e syntax.ArithmExpr) {
	if name := literalArith(e); identifier(name) {
		x.assign(name, word{text: "1", kind: digits})
	}
}

// evaluated walks the commands in a value that is evaluated as arithmetic.
func (x expander) evaluated(v word) {
	if v.kind == known && strings.ContainsAny(v.text, "$`") {
		x.k.raise(NeedsApproval, "evaluates a value as arithmetic")
		x.k.nested(word{text: "((" + v.text + "))"}, x.st)
	}
}

// identifier reports whether a text is a name as the manual of bash has it: only such a
// name has no subscript that would be evaluated.
func identifier(s string) bool {
	if s == "" || '0' <= s[0] && s[0] <= '9' {
		return false
	}
	for i := range len(s) {
		if !letter(s[i]) {
			return false
		}
	}
	return true
}

// target checks the name of a variable that a builtin sets. Bash evaluates a
// subscript in it.
func (x expander) target(w, v word) {
	if w.kind == known && identifier(w.text) {
		x.assign(w.text, v)
		return
	}
	x.k.raise(NeedsApproval, "sets a variable whose name is not known")
	x.evaluated(w)
}

// test walks the words of [[ … ]].
func (x expander) test(e syntax.TestExpr) {
	syntax.Walk(e, func(n syntax.Node) bool {
		if w, ok := n.(*syntax.Word); ok {
			x.evaluated(x.single(w))
			x.evaluated(x.st.vars[w.Lit()])
			return false
		}
		return x.k.tick()
	})
}
