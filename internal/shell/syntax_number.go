package shell

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/aycoder/aycoder/internal/late"
)

// number admits arithmetic that cannot fail. After an error bash leaves out the rest of the line
// and goes on in the next one, although exit or an assignment may be in what it left out.
func (g *form) number(e syntax.ArithmExpr) {
	if e == nil {
		return
	}
	if e.End().Offset()-e.Pos().Offset() > maxNumber {
		g.refuse("has arithmetic that is too long") // bash evaluates no deeper than 1024 levels
	}
	g.sum(e)
}

// maxNumber is how long an expression of arithmetic may be, in bytes.
const maxNumber = 500

// sum admits arithmetic on literals and on counters. Bash evaluates the value of every
// other variable again, with the commands in its subscripts. So x='a[$(id)]'; echo $((x))
// runs id, in bash and in ksh: the value is data to a reader and code to the shell. A
// counter cannot have such a value.
func (g *form) sum(e syntax.ArithmExpr) {
	switch e := e.(type) {
	case *syntax.BinaryArithm:
		if assigns(e.Op) && !identifier(literalArith(e.X)) || g.lines() && divides(e) {
			g.refuse("has arithmetic that may fail")
		}
		g.sum(e.X)
		g.sum(e.Y)
	case *syntax.UnaryArithm:
		if (e.Op == syntax.Inc || e.Op == syntax.Dec) && !identifier(literalArith(e.X)) {
			g.refuse("has arithmetic that may fail")
		}
		g.sum(e.X)
	case *syntax.ParenArithm:
		g.sum(e.X)
	case *syntax.Word:
		if !g.isNumber(e) {
			g.refuse("evaluates more than numbers and counters")
		}
	default:
		g.refuse("has arithmetic that is not understood")
	}
}

// lines reports whether there is a next line that bash could go on in.
func (g *form) lines() bool { return strings.Contains(strings.TrimSpace(g.text), "\n") }

// divides reports whether an operator fails for some numbers on its right: zero for a division,
// and negative ones for a power.
func divides(e *syntax.BinaryArithm) bool {
	switch e.Op {
	case syntax.Quo, syntax.Rem, syntax.QuoAssgn, syntax.RemAssgn, syntax.Pow:
		n := literalArith(e.Y)
		return !digitsOnly(n) || n == "0"
	}
	return false
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
// the 64 bits of the shell's numbers, and shells differ in what they make of them. With a zero in
// front it is octal, in which 08 is an error.
func digitsOnly(s string) bool {
	return s == "0" || s != "" && len(s) < 19 && s[0] != '0' && strings.Trim(s, "0123456789") == ""
}

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
					is = is && (makesNumber(w) || numberRange().MatchString(w.Lit()))
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
		if !identifier(name) || special[name] || name == "_" {
			delete(number, name)
		}
	}
	return number
}

// makesNumber reports whether a variable that is set to the word is a number then.
func makesNumber(w *syntax.Word) bool {
	if len(w.Parts) != 1 {
		return false
	}
	_, sum := w.Parts[0].(*syntax.ArithmExp)
	return sum || digitsOnly(w.Lit())
}

// numberRange is a list of numbers in a loop. With a zero in front all are octal.
var numberRange = late.Regexp(`^\{(0|[1-9][0-9]{0,3})\.\.(0|[1-9][0-9]{0,3})\}$`)

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
