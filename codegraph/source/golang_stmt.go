package source

// block reads the statements in the braces that begin here.
func (g *goReader) block() {
	closing, mark, header := int(g.toks[g.p].to), len(g.undo), g.header
	g.header = false
	g.p++
	g.stmts(closing)
	g.restore(mark)
	g.p, g.header = closing+1, header
}

// stmts reads statements up to a token, or up to the next clause.
func (g *goReader) stmts(end int) {
	for g.p < end && g.kind() != goCase && g.kind() != goDefault {
		from := g.p
		if g.depth++; g.depth < goDepth {
			g.stmt()
		} else {
			g.deep, g.p = true, end
		}
		g.depth--
		if g.p == from {
			g.p++
		}
	}
}

func (g *goReader) stmt() {
	switch word := g.kind(); word {
	case '{':
		g.block()
	case goIf:
		g.ifStmt()
	case goFor:
		mark := len(g.undo)
		g.p++
		g.heading()
		if g.kind() == '{' {
			g.block()
		}
		g.restore(mark)
	case goSwitch, goSelect:
		g.switchStmt()
	case goReturn:
		g.p++
		g.drop(g.exprs())
	case goDefer:
		g.p++
		g.expr()
	case goBreak:
		if g.p++; g.kind() == goIdent {
			g.p++
		}
	case goConst, goVar:
		g.specs(func(int32) { g.localValues() })
	case goType:
		g.specs(func(int32) { g.localType() })
	default:
		if word == goIdent && g.toks[g.p+1].kind == ':' {
			g.p += 2 // a label
		} else {
			g.simple()
		}
	}
}

// drop takes types away that are on top of g.types.
func (g *goReader) drop(types []int32) { g.types = g.types[:len(g.types)-len(types)] }

func (g *goReader) ifStmt() {
	mark := len(g.undo)
	for g.kind() == goIf {
		g.p++
		g.heading()
		if g.kind() == '{' {
			g.block()
		}
		if g.kind() == goElse {
			g.p++
		}
	}
	if g.kind() == '{' && g.toks[g.p-1].kind == goElse {
		g.block()
	}
	g.restore(mark)
}

// heading reads what is between the word that a statement begins with and its block.
func (g *goReader) heading() {
	header := g.header
	g.header = true
	for {
		switch g.kind() {
		case '{', ')', ']', '}', goEnd:
			g.header = header
			return
		case ';':
			g.p++
			continue
		}
		from := g.p
		g.simple()
		if g.p == from {
			g.p++
		}
	}
}

// simple reads a statement of expressions and an operator. It returns how many expressions are
// before the operator, if it declares nothing.
func (g *goReader) simple() int {
	if from := g.p; g.kind() == goIdent {
		names := g.nameList()
		if g.kind() == goDefine {
			g.define(names)
			return 0
		}
		g.p = from
	}
	left := g.exprs()
	n := len(left)
	g.drop(left)
	switch g.kind() {
	case goAssign, goDefine, goArrow, goRange:
		g.p++
		if g.kind() == goRange {
			g.p++
		}
		g.drop(g.exprs())
	case goStep:
		g.p++
	}
	return n
}

// define reads the values of names and declares them. That of a type switch is declared in its clauses.
func (g *goReader) define(names []goToken) {
	base := len(g.types)
	if g.p++; g.kind() == goRange {
		g.p++
		g.types = append(g.types, 0, g.element(g.expr()))
	} else {
		g.exprs()
	}
	if g.toks[g.p-1].kind == ')' && g.toks[g.p-2].kind == goType { // x.(type)
		g.guard = names[0].to
	} else {
		g.declareAll(names, g.types[base:])
	}
	g.types = g.types[:base]
}

// declareAll declares names, of which each second token is one, with the types that are known.
func (g *goReader) declareAll(names []goToken, types []int32) {
	for i := 0; i < len(names); i += 2 {
		of := int32(0)
		if i/2 < len(types) {
			of = types[i/2]
		}
		g.declare(names[i].to, of)
	}
}

// switchStmt reads a switch or select. In the clauses of a type switch that have one type, its name has that type.
func (g *goReader) switchStmt() {
	mark, outer := len(g.undo), g.guard
	g.p++
	g.guard = 0
	g.heading()
	guard := g.guard
	g.guard = outer
	if g.kind() == '{' {
		closing := int(g.toks[g.p].to)
		g.list(func() { g.clause(guard, closing) })
	}
	g.restore(mark)
}

func (g *goReader) clause(guard int32, end int) {
	word := g.kind()
	if word != goCase && word != goDefault {
		return
	}
	g.p++
	mark, from, n := len(g.undo), g.p, 0
	if word == goCase {
		n = g.simple()
	}
	if guard > 0 && n == 1 {
		g.declare(guard, g.typeOf(from))
	} else if guard > 0 {
		g.declare(guard, 0)
	}
	if g.kind() == ':' {
		g.p++
	}
	g.stmts(end)
	g.restore(mark)
}

func (g *goReader) localValues() {
	names := g.nameList()
	typed := g.kind() != goAssign
	of, types := g.values()
	if !typed {
		g.declareAll(names, types)
	}
	for i := 0; i < len(names) && typed; i += 2 {
		g.declare(names[i].to, of)
	}
	g.drop(types)
}

func (g *goReader) localType() {
	name := g.toks[g.p]
	if name.kind != goIdent {
		return
	}
	g.p++
	g.declare(name.to, 0)
	params, mark := g.typeParameters(), len(g.undo)
	g.declareParameters(params)
	g.typ()
	g.restore(mark)
}
