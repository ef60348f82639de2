package source

//go:noinline
func (g *goReader) declare(id, of int32) {
	if id == g.blank {
		return
	}
	w := &g.words[id]
	g.undo = append(g.undo, goScoped{id, w.local, w.of})
	w.local, w.of = true, of
}

// restore forgets the names that were declared since g.undo had a length.
//
//go:noinline
func (g *goReader) restore(mark int) {
	for i := len(g.undo) - 1; i >= mark; i-- {
		u := g.undo[i]
		g.words[u.id].local, g.words[u.id].of = u.local, u.of
	}
	g.undo = g.undo[:mark]
}

func (g *goReader) mention(of, name int32) {
	if name != g.blank {
		g.add(key(of, name), 1)
	}
}

// exprs reads expressions up to one that no comma follows, and returns their types, which are on top of g.types.
func (g *goReader) exprs() []int32 {
	n := len(g.types)
	for {
		from := g.p
		of := g.expr()
		if g.p == from {
			break
		}
		g.types = append(g.types, of)
		if g.kind() != ',' {
			break
		}
		g.p++
	}
	return g.types[n:]
}

// expr counts the names in an expression, and returns the type of its value.
func (g *goReader) expr() int32 {
	of := g.unary()
	for {
		switch g.kind() {
		case goBinary, '+', '-', '*', '&', '|', '^':
			g.p++
			g.unary()
			of = 0
		default:
			return of
		}
	}
}

func (g *goReader) unary() (of int32) {
	if g.depth++; g.depth >= goDepth {
		g.deep = true
		g.depth--
		return 0
	}
	defer func() { g.depth-- }()
	switch g.kind() {
	case '+', '-', '*', '&', '^', '!', '~':
		g.p++
		return g.unary()
	case goArrow:
		if g.toks[g.p+1].kind != goChan {
			g.p++
			return g.element(g.unary())
		}
	}
	return g.primary()
}

// The types of which there are composite literals.
const (
	noLiteral byte = iota
	namedLiteral
	arrayLiteral // also of a map
	structLiteral
)

func (g *goReader) primary() int32 {
	from := g.p
	of, literal := g.operand()
	for {
		switch g.kind() {
		case '.':
			if g.p++; g.kind() == goIdent {
				of = g.selected(of)
			} else {
				of, literal = g.asserted(), noLiteral
			}
		case '[':
			if !g.indices() {
				of = g.element(of)
			}
		case '(':
			of, literal = g.call(from, of), noLiteral
		case '{':
			if literal == noLiteral || literal == namedLiteral && g.header {
				return of
			}
			of = g.typeOf(from)
			g.literal(literal, of)
			literal = noLiteral
		default:
			return of
		}
	}
}

// operand reads what an expression begins with, and says what literals of it there are if it is a type.
func (g *goReader) operand() (of int32, literal byte) {
	switch g.kind() {
	case goIdent:
		return g.name(), namedLiteral
	case goNumber, goString:
		g.p++
	case '(':
		g.list(func() { of = g.expr() })
	case goFunc:
		return g.funcLiteral(), noLiteral
	case '[', goMap:
		g.oneType()
		return 0, arrayLiteral
	case goStruct:
		g.oneType()
		return 0, structLiteral
	case goChan, goInterface, goArrow:
		g.oneType()
	}
	return of, noLiteral
}

func (g *goReader) funcLiteral() int32 {
	from, mark := g.p, len(g.undo)
	g.p++
	g.signature()
	end := g.p
	if g.kind() != '{' {
		g.restore(mark)
		return 0
	}
	g.block()
	g.restore(mark)
	if of, to := g.typeAt(from); to == end {
		return of
	}
	return 0
}

// name counts a name, with a member behind a dot, and returns the type of its value.
func (g *goReader) name() int32 {
	id := g.toks[g.p].to
	w := &g.words[id]
	g.p++
	member := g.kind() == '.' && g.toks[g.p+1].kind == goIdent
	switch {
	case w.local && !member:
		return w.of
	case w.local:
		g.p++
		return g.selected(w.of)
	case member:
		if !w.imported {
			g.mention(0, id)
		}
		g.p++
		return g.selected(id)
	case w.isType || w.isValue:
		return 0
	}
	g.mention(0, id)
	return id
}

// selected counts the name of a member, which is the current token, and returns the type of its value.
func (g *goReader) selected(of int32) int32 {
	name := g.toks[g.p].to
	g.p++
	if of == 0 || g.isMade(of) {
		return 0
	}
	g.mention(of, name)
	return g.member(of, name)
}

// asserted reads a type in parentheses.
func (g *goReader) asserted() (of int32) {
	if g.kind() != '(' {
		return 0
	}
	g.list(func() {
		if g.kind() == goType {
			g.p++ // of a type switch
			return
		}
		from := g.p
		g.typ()
		of = g.typeOf(from)
	})
	return of
}

// indices reads what is in brackets, and reports whether they make a slice.
func (g *goReader) indices() (slice bool) {
	g.list(func() {
		if g.kind() == ':' {
			slice = true
			g.p++
			return
		}
		g.expr()
	})
	return slice
}

// call reads the arguments of a function that begins at a token.
func (g *goReader) call(from int, of int32) int32 {
	builtin := ""
	if t := g.toks[from]; t.kind == goIdent && g.p == from+1 && !g.words[t.to].local && g.words[t.to].isValue {
		builtin = g.names[t.to]
	}
	of = g.called(of)
	first := true
	g.list(func() {
		from := g.p
		t := g.expr()
		switch {
		case !first:
		case builtin == "append":
			of = t
		case builtin == "new" || builtin == "make":
			of = g.typeOf(from)
		}
		first = false
	})
	return of
}

// literal reads the elements of a composite literal of a type.
func (g *goReader) literal(kind byte, of int32) {
	if g.depth++; g.depth >= goDepth {
		g.deep = true
		g.p = int(g.toks[g.p].to) + 1
	} else {
		g.list(func() { g.keyed(kind, of) })
	}
	g.depth--
}

// keyed reads an element with its key. A name as the key is that of a field, unless the type has other keys.
func (g *goReader) keyed(kind byte, of int32) {
	switch t := g.toks[g.p]; {
	case t.kind == goIdent && g.toks[g.p+1].kind == ':' && kind != arrayLiteral && (of == 0 || g.names[of][0] != '['):
		g.p++
		if of != 0 {
			g.mention(of, t.to)
		}
	case t.kind == '{' && g.toks[t.to+1].kind == ':':
		g.literal(noLiteral, 0)
	default:
		g.value(of)
	}
	if g.kind() == ':' {
		g.p++
		g.value(of)
	}
}

// value reads a value in a composite literal, which may leave out its type.
func (g *goReader) value(of int32) {
	if g.kind() == '{' {
		g.literal(noLiteral, g.element(of))
	} else {
		g.expr()
	}
}

// goTypes and goValues are the predeclared names of Go, without those that were added when packages already
// declared them: max, min, clear and any.
var goTypes = words(`
	bool byte comparable complex64 complex128 error float32 float64 int int8 int16 int32 int64 rune string
	uint uint8 uint16 uint32 uint64 uintptr`)

var goValues = words(`
	append cap close complex copy delete false imag iota len make new nil panic print println real recover
	true`)
