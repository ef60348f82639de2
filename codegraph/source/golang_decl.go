package source

func (g *goReader) function() {
	start := g.docStart(g.p)
	d := Decl{Kind: Func, Parent: -1}
	g.p++
	mark := len(g.undo)
	receiver := -1
	if g.kind() == '(' {
		receiver = g.p
		g.p = int(g.toks[g.p].to) + 1
		d.Kind = Method
		of, _ := g.typeAt(g.firstType(receiver))
		d.Of = g.names[of]
	}
	name := g.toks[g.p]
	if name.kind != goIdent {
		return
	}
	g.p++
	signature := g.p
	if g.kind() == '[' {
		g.p = int(g.toks[g.p].to) + 1
	}
	d.Type = g.names[g.resultAt(g.p)]
	decl := g.declareAt(name, start, d)
	if receiver >= 0 {
		g.p = receiver
		g.receiver()
	}
	g.p = signature
	g.signature()
	g.extend(decl)
	if g.kind() == '{' {
		body := g.toks[g.p].at
		g.block()
		g.extend(decl)
		if decl >= 0 {
			g.f.Decls[decl].Body = Span{body, g.end()}
		}
	}
	g.restore(mark)
}

// receiver declares a receiver and the type parameters that it names.
func (g *goReader) receiver() {
	i := g.firstType(g.p)
	for g.toks[i].kind == '*' || g.toks[i].kind == '(' {
		i++
	}
	if i++; g.toks[i].kind == '[' {
		for end := int(g.toks[i].to); i < end; i++ {
			if next := g.toks[i+1]; next.kind == goIdent && (g.toks[i+2].kind == ',' || g.toks[i+2].kind == ']') {
				g.declare(next.to, 0)
			}
		}
	}
	g.fields()
}

// nameList reads the names that a specification, statement or field begins with. It returns their tokens, with
// the commas between them.
//
//go:noinline
func (g *goReader) nameList() []goToken {
	from := g.p
	for g.kind() == goIdent {
		if g.p++; g.kind() != ',' || g.toks[g.p+1].kind != goIdent {
			break
		}
		g.p++
	}
	return g.toks[from:g.p]
}

func (g *goReader) valueSpec(word byte, start int32) {
	kind := Var
	if word == goConst {
		kind = Const
	}
	names := g.nameList()
	of, types := g.values()
	for i := 0; i < len(names); i += 2 {
		d := Decl{Kind: kind, Parent: -1, Type: g.names[of]}
		if of == 0 && i/2 < len(types) {
			d.Type = g.names[types[i/2]]
		}
		g.declareAt(names[i], start, d)
	}
	g.drop(types)
}

// values reads the type and the values of a specification, and returns the types. The second are on top of
// g.types.
func (g *goReader) values() (of int32, types []int32) {
	if from := g.p; g.kind() != goAssign {
		g.typ()
		of = g.typeOf(from)
	}
	if g.kind() == goAssign {
		g.p++
		types = g.exprs()
	}
	return of, types
}

func (g *goReader) typeSpec(start int32) {
	name := g.toks[g.p]
	if name.kind != goIdent {
		return
	}
	g.p++
	params := g.typeParameters()
	kind := Type
	if g.kind() == goInterface {
		kind = Interface
	}
	of, _ := g.typeAt(g.p)
	parent := g.declareAt(name, start, Decl{Kind: kind, Parent: -1, Type: g.names[of]})
	mark := len(g.undo)
	g.declareParameters(params)
	if k := g.kind(); (k == goInterface || k == goStruct) && g.toks[g.p+1].kind == '{' {
		g.p++
		g.members(k == goInterface, parent)
	} else {
		g.typ()
	}
	g.extend(parent)
	g.restore(mark)
}

// typeParameters skips the type parameters of a type and the = of an alias, and returns where the parameters
// begin, or 0.
func (g *goReader) typeParameters() int {
	params := 0
	if g.kind() == '[' && g.isParameters(g.p) {
		params = g.p
		g.p = int(g.toks[g.p].to) + 1
	}
	if g.kind() == goAssign {
		g.p++
	}
	return params
}

func (g *goReader) declareParameters(params int) {
	if at := g.p; params > 0 {
		g.p = params
		g.fields()
		g.p = at
	}
}

// isParameters reports whether the brackets behind the name of a type have parameters in them, and not the length
// of an array: [P *T] is such a length, [P *T,] and [P *[]T] are not.
func (g *goReader) isParameters(at int) bool {
	if g.toks[at+1].kind != goIdent {
		return false
	}
	switch k := g.toks[at+2].kind; k {
	case '*', '(':
		for i := at + 3; i < int(g.toks[at].to); i++ {
			switch g.toks[i].kind {
			case ',', '~', goInterface, goStruct, goFunc, goMap, goChan, goArrow:
				return true
			case '[':
				return g.toks[i-1].kind != goIdent
			}
		}
		return false
	case '[', ',', '~', goIdent, goInterface, goStruct, goFunc, goMap, goChan, goArrow:
		return true
	}
	return false
}

// members reads the fields of a struct or the methods of an interface, and adds them unless parent is -1.
func (g *goReader) members(methods bool, parent int32) {
	g.list(func() {
		start := int32(0)
		if parent >= 0 {
			start = g.docStart(g.p)
		}
		var names []goToken
		method := methods && g.kind() == goIdent && g.toks[g.p+1].kind == '('
		if method || !methods && !g.isEmbedded() {
			names = g.nameList()
		}
		d := Decl{Kind: Field, Parent: parent}
		from := g.p
		if method {
			d.Kind, d.Type = Method, g.names[g.resultAt(g.p)]
			mark := len(g.undo)
			g.signature()
			g.restore(mark)
		} else {
			g.typ()
			d.Type = g.names[g.typeOf(from)]
		}
		if names == nil {
			names = g.embedded(from)
		}
		if g.kind() == goString && !methods { // the tag
			g.p++
		}
		for i := 0; i < len(names) && parent >= 0; i += 2 {
			g.declareAt(names[i], start, d)
		}
	})
}

// isEmbedded reports whether a field of a struct has no name.
func (g *goReader) isEmbedded() bool {
	if g.kind() != goIdent {
		return true
	}
	next := g.toks[g.p+1]
	if next.kind == '[' && int(next.to) > g.p+2 {
		next = g.toks[next.to+1]
	}
	return next.kind == '.' || next.kind == goString || next.kind == ';' || next.kind == '}'
}

// embedded returns the name of an embedded type, from there to the current token, if it is a single type.
func (g *goReader) embedded(from int) []goToken {
	i := from
	for g.toks[i].kind == '*' || g.toks[i].kind == '(' {
		i++
	}
	if g.toks[i].kind != goIdent {
		return nil
	}
	for g.toks[i+1].kind == '.' && g.toks[i+2].kind == goIdent {
		i += 2
	}
	name := i
	if i++; g.toks[i].kind == '[' {
		i = int(g.toks[i].to) + 1
	}
	for i < g.p && g.toks[i].kind == ')' {
		i++
	}
	if i != g.p {
		return nil
	}
	return g.toks[name : name+1]
}
