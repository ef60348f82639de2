package source

// A declHead is the head of a declaration as it is read.
type declHead struct {
	*blocks
	head    []ctoken
	i       int // the first token that is not a specifier
	typedef bool
	private bool // the declaration is not exported
}

func (h *declHead) add(kind DeclKind, name ctoken) *Decl {
	if kind == Var && h.member() {
		kind = Field
	}
	return h.blocks.add(kind, name, !h.private)
}

// member reports whether the head is directly in a class.
//
//go:noinline
func (h *declHead) member() bool {
	p := h.top().parent
	return p >= 0 && h.f.Decls[p].Kind != Module
}

// at returns a token of the head, or one without a kind behind the last.
func (h *declHead) at(i int) ctoken {
	if i < len(h.head) {
		return h.head[i]
	}
	return ctoken{}
}

// closing returns the index of the parenthesis or bracket that matches the one at i.
//
//go:noinline
func (h *declHead) closing(i int) int {
	for depth := 0; i < len(h.head); i++ {
		switch h.head[i].op {
		case '(', '[':
			depth++
		case ')', ']':
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return len(h.head) - 1
}

// angles returns the index behind the angle brackets that begin at i, or i.
func (h *declHead) angles(i int) int {
	if i >= len(h.head) || h.head[i].op != '<' {
		return i
	}
	for depth := 0; i < len(h.head); i++ {
		switch h.head[i].op {
		case '(', '[':
			i = h.closing(i)
		case '<':
			depth++
		case '>':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return len(h.head)
}

// declarators adds the names of variables, or of types if it is a typedef. The first has a type before it.
func (h *declHead) declarators() {
	kind := Var
	if h.typedef {
		kind = Type
	}
	words := 0
	if h.tail >= 0 {
		words = 1
	}
	var name ctoken
	for i := h.i; i <= len(h.head); i++ {
		t := h.at(i)
		op := t.op
		if i == len(h.head) {
			op = ','
		}
		switch {
		case op == '<':
			i = max(i, h.angles(i)-1)
		case op == '(' && name.Start == name.End || op == '(' && h.at(i+1).op == '*':
			if k, _ := h.pointer(i); k > 0 {
				name, words = h.head[k], words+2
			}
			i = h.closing(i)
		case op == '(' || op == '[':
			i = h.closing(i)
		case t.Kind == Identifier && op == 0:
			name, words = t, words+1
		case t.Kind == Keyword && op == 0:
			if words++; cTags[string(h.src[t.Start:t.End])].kind > 0 && h.at(i+1).Kind == Identifier {
				i++
			}
		case op == ',' || op == '=' || op == ':' && t.End == t.Start+1:
			if name.Kind == Identifier && words > 1 {
				h.variable(kind, name)
			}
			for op != ',' && i < len(h.head) {
				if i++; i < len(h.head) {
					switch op = h.head[i].op; op {
					case '(', '[':
						i = h.closing(i)
					case '<':
						op = 0
					}
				}
			}
			name, words = ctoken{}, 1
		}
	}
}

// variable adds a name, or gives it to the type before it if that has none.
func (h *declHead) variable(kind DeclKind, name ctoken) {
	if h.tail >= 0 && h.f.Decls[h.tail].Name == "" {
		d := &h.f.Decls[h.tail]
		h.undo(name.Start)
		d.Name, d.NameAt = h.name(h.src[name.Start:name.End]), name.Start
		if kind != Type {
			d.Kind = Var
		}
		return
	}
	h.add(kind, name)
}
