package shell

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// arith walks an arithmetic expression. Bash evaluates the values of its variables
// again, and runs the commands in the subscripts that it finds there.
func (x expander) arith(e syntax.ArithmExpr) {
	if e == nil || !x.k.tick() {
		return
	}
	switch e := e.(type) {
	case *syntax.BinaryArithm:
		if assigns(e.Op) {
			x.arithAssign(e.X)
		} else {
			x.arith(e.X)
		}
		x.arith(e.Y)
	case *syntax.UnaryArithm:
		if e.Op == syntax.Inc || e.Op == syntax.Dec {
			x.arithAssign(e.X)
		} else {
			x.arith(e.X)
		}
	case *syntax.ParenArithm:
		x.arith(e.X)
	case *syntax.Word:
		x.arithWord(e)
	default:
		x.k.raise(NeedsApproval, "has arithmetic that is not understood")
	}
}

func assigns(op syntax.BinAritOperator) bool {
	switch op {
	case syntax.Assgn, syntax.AddAssgn, syntax.SubAssgn, syntax.MulAssgn, syntax.QuoAssgn, syntax.RemAssgn,
		syntax.AndAssgn, syntax.OrAssgn, syntax.XorAssgn, syntax.ShlAssgn, syntax.ShrAssgn:
		return true
	}
	return false
}

// arithAssign sets a variable to a number.
func (x expander) arithAssign(e syntax.ArithmExpr) {
	x.arith(e)
	if name := literalArith(e); identifier(name) {
		x.assign(name, variable{word: word{text: "1", kind: digits}})
		return
	}
	x.k.raise(NeedsApproval, "assigns to what is not a plain variable")
}

func (x expander) arithWord(w *syntax.Word) {
	if name := w.Lit(); identifier(name) {
		if v, ok := x.st.vars[name]; ok {
			x.evaluated(v.word, v.array)
		}
		return
	}
	if len(w.Parts) == 1 {
		if p, ok := w.Parts[0].(*syntax.ParamExp); ok && !p.Dollar.IsValid() {
			x.arithParam(p)
			return
		}
	}
	v := x.single(w)
	if len(w.Parts) == 1 {
		if p, ok := w.Parts[0].(*syntax.ParamExp); ok && unsetParam(x.st, p) {
			return
		}
	}
	x.evaluated(v, false)
}

// unsetParam is for a plain variable that the script never set: what the host put
// into the environment is no expression.
func unsetParam(st *state, p *syntax.ParamExp) bool {
	_, ok := st.vars[p.Param.Value]
	return !ok && plainParam(p) && p.Index == nil && identifier(p.Param.Value)
}

// arithParam is for array[index] in arithmetic.
func (x expander) arithParam(p *syntax.ParamExp) {
	if p.Index != nil && plainParam(p) {
		if l := literalArith(p.Index); l != "@" && l != "*" {
			x.arith(p.Index)
		}
		v := x.st.vars[p.Param.Value]
		x.evaluated(v.word, v.array)
		for _, e := range v.elems {
			x.evaluated(e, false)
		}
		return
	}
	x.evaluated(x.param(p, false), false)
}

// evaluated says what follows if a value is evaluated as arithmetic.
func (x expander) evaluated(v word, array bool) {
	switch {
	case v.kind == digits || array && v.text == "" && v.kind == known:
		return
	case v.kind != known:
		x.k.raise(NeedsApproval, "evaluates a value that is not known as arithmetic")
		return
	case !strings.ContainsAny(v.text, "$`[\\'\""):
		for name := range strings.FieldsFuncSeq(v.text, func(r rune) bool { return r >= 0x80 || !letter(byte(r)) }) {
			if w, ok := x.st.vars[name]; ok && w.text != v.text && (w.kind != known ||
				strings.ContainsAny(w.text, "$`[")) && w.kind != digits {
				x.k.raise(NeedsApproval, "evaluates a value that is not known as arithmetic")
			}
		}
		return
	}
	x.k.raise(NeedsApproval, "evaluates a value as arithmetic")
	x.k.nested(word{text: "((" + v.text + "))"}, x.st)
}

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
func (x expander) target(w word, v variable) {
	switch {
	case w.kind == known && identifier(w.text):
		x.assign(w.text, v)
	case w.kind == known && strings.Contains(w.text, "["):
		x.k.raise(NeedsApproval, "evaluates a subscript")
		x.k.nested(word{text: "((" + w.text + "))"}, x.st)
	default:
		x.k.raise(NeedsApproval, "sets a variable whose name is not known")
	}
}

// test walks the expression of [[ … ]].
func (x expander) test(e syntax.TestExpr) {
	if e == nil || !x.k.tick() {
		return
	}
	switch e := e.(type) {
	case *syntax.BinaryTest:
		x.binaryTest(e)
	case *syntax.UnaryTest:
		if w, ok := e.X.(*syntax.Word); ok && (e.Op == syntax.TsVarSet || e.Op == syntax.TsRefVar) {
			x.checkName(x.single(w))
			return
		}
		x.test(e.X)
	case *syntax.ParenTest:
		x.test(e.X)
	case *syntax.Word:
		x.single(e)
	default:
		x.k.raise(NeedsApproval, "has a test that is not understood")
	}
}

func (x expander) binaryTest(e *syntax.BinaryTest) {
	switch e.Op {
	case syntax.TsEql, syntax.TsNeq, syntax.TsLeq, syntax.TsGeq, syntax.TsLss, syntax.TsGtr:
		for _, side := range []syntax.TestExpr{e.X, e.Y} {
			if w, ok := side.(*syntax.Word); ok {
				x.arithWord(w)
			} else {
				x.k.raise(NeedsApproval, "has a test that is not understood")
			}
		}
		return
	case syntax.TsReMatch:
		x.st.vars["BASH_REMATCH"] = variable{word: word{kind: anything}, array: true}
	}
	x.test(e.X)
	x.test(e.Y)
}

// checkName is for tests of the name of a variable.
func (x expander) checkName(w word) {
	if w.kind == known && identifier(w.text) {
		return
	}
	x.k.raise(NeedsApproval, "tests a variable whose name is not plain")
	if w.kind == known {
		x.k.nested(word{text: "((" + w.text + "))"}, x.st)
	}
}
