package source

import "bytes"

// rustWords are what the keywords of Rust declare, with the name that follows them.
var rustWords = map[string]typeWord{
	"fn": {Func, code}, "struct": {Type, fields}, "union": {Type, fields}, "enum": {Type, fields}, "trait": {Interface, members},
	"mod": {Module, members}, "type": {Type, value}, "const": {Const, value}, "static": {Var, value},
}

// declareRust reads a head: pub fn f<T>(x: T) -> u8 {, impl<T> A for B<T> {.
func declareRust(b *blocks, end byte) block {
	h := declHead{blocks: b, head: b.head, private: !b.top().public}
	if h.rustModifiers(); h.i+1 >= len(h.head) {
		if len(h.head) > 0 && h.head[len(h.head)-1].Kind == String { // extern "C" {
			return members
		}
		return code
	}
	name := h.head[h.i+1]
	word := string(h.src[h.head[h.i].Start:h.head[h.i].End])
	declares, ok := rustWords[word]
	switch {
	case word == "use":
		return value
	case word == "impl":
		h.impl()
		return members
	case !ok || declares.kind == Module && end == ';':
		return h.macro()
	case word == "static" && (b.word(name, "ref") || b.word(name, "mut")) && h.i+2 < len(h.head):
		name = h.head[h.i+2] // static ref is of the macro lazy_static
	}
	if name.Kind != Identifier || declares.block == value && end == '{' {
		return declares.block
	}
	if declares.kind == Func && (h.top().of != "" || h.member()) {
		declares.kind = Method
	}
	h.inner.public = declares.kind == Interface
	h.add(declares.kind, name)
	return declares.block
}

// rustModifiers skips attributes, visibility and the like.
func (h *declHead) rustModifiers() {
	for ; h.i < len(h.head); h.i++ {
		t, next := h.head[h.i], h.at(h.i+1)
		switch {
		case t.op == '#' || t.op == '!':
		case t.op == '[':
			h.i = h.closing(h.i)
			h.private = h.private && !bytes.Contains(h.src[t.Start:h.head[h.i].End], []byte("macro_export"))
		case h.word(t, "pub"):
			if h.private = false; next.op == '(' {
				h.i = h.closing(h.i + 1)
			}
		case h.word(t, "const"):
			if next.Kind != Keyword || h.word(next, "mut") {
				return
			}
		case h.word(t, "extern"):
			if next.Kind == String {
				h.i++
			} else if !h.word(next, "fn") {
				return
			}
		case !h.word(t, "async") && !h.word(t, "unsafe") && !h.word(t, "default") && !h.word(t, "safe"):
			return
		}
	}
}

// impl notes the type that the methods of an impl belong to. Those of a trait are as public as that.
func (h *declHead) impl() {
	var name ctoken
	for i := h.angles(h.i + 1); i < len(h.head) && !h.word(h.head[i], "where"); i++ {
		switch t := h.head[i]; {
		case t.op == '<':
			i = h.angles(i) - 1
		case t.op == '(' || t.op == '[':
			i = h.closing(i)
		case h.word(t, "for"):
			h.inner.public = true
		case t.Kind == Identifier && h.src[t.Start] != '\'':
			name = t
		}
	}
	h.inner.of = h.name(plainName(h.src[name.Start:name.End]))
}

// macro reads macro_rules! name, or the call of a macro, whose arguments may be declarations.
func (h *declHead) macro() block {
	i := h.i
	for i < len(h.head) && (h.head[i].Kind == Identifier || h.word(h.head[i], "::") || h.word(h.head[i], "crate")) {
		i++
	}
	switch {
	case i == len(h.head) || h.head[i].op != '!':
		return code
	case h.word(h.head[i-1], "macro_rules") && i+1 < len(h.head):
		name := h.head[i+1]
		h.add(Macro, name)
		return fields
	}
	h.inner.of, h.inner.public = h.top().of, h.top().public
	return members
}
