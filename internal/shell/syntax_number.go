package shell

import (
	"regexp"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// number admits arithmetic on literals and on counters. Bash evaluates the value of every
// other variable again, with the commands in its subscripts. So x='a[$(id)]'; echo $((x))
// runs id, in bash and in ksh: the value is data to a reader and code to the shell. A
// counter cannot have such a value.
func (g *form) number(e syntax.ArithmExpr) {
	switch e := e.(type) {
	case *syntax.BinaryArithm:
		g.number(e.X)
		g.number(e.Y)
	case *syntax.UnaryArithm:
		g.number(e.X)
	case *syntax.ParenArithm:
		g.number(e.X)
	case *syntax.Word:
		if !g.isNumber(e) {
			g.refuse("evaluates more than numbers and counters")
		}
	default:
		g.refuse("has arithmetic that is not understood")
	}
}

// isNumber reports whether a word in arithmetic is a number for sure: digits, a counter,
// the length of something.
func (g *form) isNumber(w *syntax.Word) bool {
	// A name without a dollar is a variable in arithmetic.
	if l := w.Lit(); l != "" {
		return digitsOnly(l) || g.counters[l]
	}
	if len(w.Parts) != 1 {
		return false
	}
	p, ok := w.Parts[0].(*syntax.ParamExp)
	if q, quoted := w.Parts[0].(*syntax.DblQuoted); quoted && len(q.Parts) == 1 {
		p, ok = q.Parts[0].(*syntax.ParamExp)
	}
	if !ok || p.Param == nil {
		return false
	}
	g.param(p, false)
	return p.Length || plainParam(p) && (g.counters[p.Param.Value] || p.Param.Value == "#" || p.Param.Value == "?")
}

// digitsOnly reports whether a text is a number that fits. Nineteen digits may not fit in
// the 64 bits of the shell's numbers, and shells differ in what they make of them.
func digitsOnly(s string) bool { return s != "" && len(s) < 19 && strings.Trim(s, "0123456789") == "" }

// counters are the variables that the script itself sets, and everywhere to a number: by a
// literal, by arithmetic or by a loop over numbers. It is enough that one place sets a
// variable to something else, in whatever branch or function: the order in which they run
// is not looked at. Variables of the environment do not count, since the script does not
// set them.
func counters(f *syntax.File) map[string]bool {
	number, other := map[string]bool{}, map[string]bool{}
	note := func(name string, is bool) {
		number[name] = true
		if !is {
			other[name] = true
		}
	}
	syntax.Walk(f, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Assign:
			if n.Name != nil {
				note(n.Name.Value, n.Index == nil && n.Array == nil && n.Value != nil && makesNumber(n.Value))
			}
		case *syntax.ForClause:
			if l, ok := n.Loop.(*syntax.WordIter); ok {
				is := l.InPos.IsValid()
				for _, w := range l.Items {
					is = is && makesNumber(w)
				}
				note(l.Name.Value, is)
			}
		case *syntax.BinaryArithm:
			if assigns(n.Op) {
				note(literalArith(n.X), true)
			}
		case *syntax.UnaryArithm:
			if n.Op == syntax.Inc || n.Op == syntax.Dec {
				note(literalArith(n.X), true)
			}
		case *syntax.CallExpr: // read, printf -v and the like name variables by words
			for _, w := range n.Args {
				other[w.Lit()] = true
			}
		}
		return true
	})
	for name := range other {
		delete(number, name)
	}
	// A name that the shell gives a meaning does not hold what is assigned to it.
	for name := range number {
		if !identifier(name) || special[name] {
			delete(number, name)
		}
	}
	return number
}

// makesNumber reports whether a variable that is set to the word is a number then. The
// range {1..9} is a list of numbers in a loop.
func makesNumber(w *syntax.Word) bool {
	if len(w.Parts) != 1 {
		return false
	}
	_, sum := w.Parts[0].(*syntax.ArithmExp)
	return sum || digitsOnly(w.Lit()) || numberRange.MatchString(w.Lit())
}

var numberRange = regexp.MustCompile(`^\{[0-9]{1,4}\.\.[0-9]{1,4}\}$`)

// assigns reports whether an operator of arithmetic sets its left side. Each of them
// evaluates its right side first, so the variable is a number afterwards.
func assigns(op syntax.BinAritOperator) bool {
	switch op {
	case syntax.Assgn, syntax.AddAssgn, syntax.SubAssgn, syntax.MulAssgn, syntax.QuoAssgn, syntax.RemAssgn,
		syntax.AndAssgn, syntax.OrAssgn, syntax.XorAssgn, syntax.ShlAssgn, syntax.ShrAssgn:
		return true
	}
	return false
}

// literalArith is the text of an operand that is a plain word; "" of others.
func literalArith(e syntax.ArithmExpr) string {
	if w, ok := e.(*syntax.Word); ok {
		return w.Lit()
	}
	return ""
}
