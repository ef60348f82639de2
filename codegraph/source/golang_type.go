package source

import "bytes"

// A type is read twice: once for the names that it uses, and once for the notation of [Use] for it, where this is
// wanted. The second only looks at some of the tokens.

// typ counts the names in a type.
func (g *goReader) typ() {
	if g.depth++; g.depth < goDepth {
		g.oneType()
		for g.kind() == '|' {
			g.p++
			g.oneType()
		}
	} else {
		g.deep = true
	}
	g.depth--
}

func (g *goReader) oneType() {
	for {
		switch g.kind() {
		case '*', '~', goDots, goArrow:
			g.p++
		case goChan:
			if g.p++; g.kind() == goArrow {
				g.p++
			}
		case '[':
			g.arrayLength()
		case goMap:
			if g.p++; g.kind() == '[' {
				g.list(g.typ)
			}
		default:
			g.namedType()
			return
		}
	}
}

func (g *goReader) namedType() {
	switch g.kind() {
	case goIdent:
		g.name()
		if g.kind() == '[' {
			g.list(g.skipExpr)
		}
	case '(':
		g.list(g.typ)
	case goFunc:
		g.p++
		mark := len(g.undo)
		g.signature()
		g.restore(mark)
	case goStruct, goInterface:
		methods := g.kind() == goInterface
		if g.p++; g.kind() == '{' {
			g.members(methods, -1)
		}
	}
}

func (g *goReader) skipExpr() { g.expr() }

// arrayLength reads the brackets before the type of an element.
func (g *goReader) arrayLength() {
	if g.toks[g.p+1].kind == goDots {
		g.p = int(g.toks[g.p].to) + 1
		return
	}
	g.list(g.skipExpr)
}

// signature declares the parameters and results of a function.
func (g *goReader) signature() {
	if g.kind() == '[' {
		g.fields()
	}
	if g.kind() == '(' {
		g.fields()
	}
	if g.kind() == '(' {
		g.fields()
	} else if g.startsType() {
		g.typ()
	}
}

func (g *goReader) startsType() bool {
	switch g.kind() {
	case goIdent, '*', '[', goMap, goChan, goArrow, goFunc, goStruct, goInterface:
		return true
	}
	return false
}

// fields declares the parameters in the brackets that begin here.
func (g *goReader) fields() {
	if !g.isNamed(g.p) {
		g.list(g.typ)
		return
	}
	g.list(func() {
		names := g.nameList()
		from := g.p
		g.typ()
		of := g.typeOf(from)
		for i := 0; i < len(names); i += 2 {
			g.declare(names[i].to, of)
		}
	})
}

// isNamed reports whether the parameters in brackets have names.
func (g *goReader) isNamed(open int) bool {
	end := int(g.toks[open].to)
	for i := open + 1; i < end && g.toks[i].kind == goIdent; i += 2 {
		next := g.toks[i+1]
		if next.kind == '[' && int(next.to) > i+2 { // an array, or an instance of a type?
			next = g.toks[next.to+1]
			return next.kind != ',' && next.kind != g.toks[end].kind
		}
		if next.kind != ',' {
			return i+1 < end && next.kind != '.'
		}
	}
	return false
}

// firstType returns where the type of the first parameter in brackets begins.
func (g *goReader) firstType(open int) int {
	i := open + 1
	if g.isNamed(open) {
		for g.toks[i+1].kind == ',' {
			i += 2
		}
		i++
	}
	return i
}

// resultAt returns the type of the first result of the function whose parameters are at i.
func (g *goReader) resultAt(i int) int32 {
	if g.toks[i].kind != '(' {
		return 0
	}
	if i = int(g.toks[i].to) + 1; g.toks[i].kind == '(' {
		i = g.firstType(i)
	}
	of, _ := g.typeAt(i)
	return of
}

// typeOf returns the notation of the type between a token and the current one, or 0 if that is not all of it.
func (g *goReader) typeOf(from int) int32 {
	of, end := g.typeAt(from)
	if end != g.p {
		return 0
	}
	return of
}

// goLongest is the length of the longest notation that is worth knowing.
const goLongest = 80

// typeAt returns the notation of the type at i, or 0, and where the type ends. It does not say the end of a
// type without a notation.
func (g *goReader) typeAt(i int) (of int32, end int) {
	var prefix [goLongest]byte
	n, parens, after := 0, 0, 0
	for n < goLongest {
		op := ""
		switch t := g.toks[i]; t.kind {
		case goIdent:
			of, end = g.namedAt(i)
			for ; parens > 0 && end > 0 && g.toks[end].kind == ')'; parens-- {
				end++
			}
			if after > 0 {
				end = after
			}
			return g.prefixed(prefix[:n], of), end
		case '*':
			i++
		case goDots:
			i, op = i+1, "[]"
		case '(':
			i, parens = i+1, parens+1
		case '[':
			i, op = int(t.to)+1, "[]"
		case goMap:
			if g.toks[i+1].kind != '[' {
				return 0, -1
			}
			i, op = int(g.toks[i+1].to)+1, "[]"
		case goChan:
			if i, op = i+1, "[]"; g.toks[i].kind == goArrow {
				i++
			}
		case goArrow:
			if i++; g.toks[i].kind != goChan {
				return 0, -1
			}
		case goFunc:
			if i, op = i+1, "()"; g.toks[i].kind != '(' {
				return 0, -1
			}
			if i = int(g.toks[i].to) + 1; g.toks[i].kind == '(' {
				if after == 0 {
					after = int(g.toks[i].to) + 1
				}
				i = g.firstType(i)
			}
		default:
			return 0, -1
		}
		n += copy(prefix[n:], op)
	}
	return 0, -1
}

// namedAt returns the notation of the type whose name is at i.
func (g *goReader) namedAt(i int) (of int32, end int) {
	of, end = g.toks[i].to, i+1
	if g.toks[end].kind == '.' && g.toks[end+1].kind == goIdent {
		of, end = g.member(of, g.toks[end+1].to), end+2
	} else if w := &g.words[of]; w.local || w.isType {
		of = 0
	}
	if g.toks[end].kind == '.' {
		return 0, -1
	}
	for g.toks[end].kind == '[' {
		end = int(g.toks[end].to) + 1
	}
	return of, end
}

// prefixed returns a notation behind others.
func (g *goReader) prefixed(prefix []byte, of int32) int32 {
	switch {
	case of == 0 || len(prefix)+len(g.names[of]) > goLongest:
		return 0
	case len(prefix) == 0:
		return of
	}
	return g.id(append(prefix, g.names[of]...))
}

// member returns the notation of a member of what has another one, or 0 if there is none.
func (g *goReader) member(of, name int32) int32 {
	return g.memo(key(of, name), func(text []byte) []byte {
		return append(append(append(text, g.names[of]...), '.'), g.names[name]...)
	})
}

// element and called return the notations of an element of a value, and of the result of calling it.
func (g *goReader) element(of int32) int32 { return g.apply(of, "[]", -1) }
func (g *goReader) called(of int32) int32  { return g.apply(of, "()", -2) }

func (g *goReader) apply(of int32, op string, number int32) int32 {
	return g.memo(key(of, number), func(text []byte) []byte {
		text = append(text, g.names[of]...)
		if rest, ok := bytes.CutPrefix(text, []byte(op)); ok || of == 0 {
			return rest
		}
		if g.isMade(of) {
			return nil
		}
		return append(text, op...)
	})
}

// isMade reports whether a notation is that of a slice, function or the like, which has no members.
func (g *goReader) isMade(of int32) bool {
	name := g.names[of]
	return name != "" && (name[0] == '[' || name[0] == '(')
}

// memo returns the number of a notation, which is made once for each key.
func (g *goReader) memo(key uint64, text func(buffer []byte) []byte) int32 {
	p := g.pair(key)
	if p.note == 0 {
		p.note = 1
		if name := text(g.notation[:0]); len(name) <= goLongest {
			p.note += g.id(name)
		}
	}
	return p.note - 1
}
