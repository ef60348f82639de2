package source

import "bytes"

// A cHead is a head of C.
type cHead struct {
	declHead
	end     byte
	linkage bool // extern "C"
}

// declareC reads a head: int *f(int x) {, or typedef struct s { … } t, u;.
func declareC(b *blocks, end byte) block {
	h := cHead{declHead: declHead{blocks: b, head: b.head}, end: end}
	if h.typedefBefore() {
		if end == ';' {
			h.declarators()
		}
		return value
	}
	h.specifiers()
	switch {
	case h.i == len(h.head):
		if h.linkage {
			return members
		}
		return code
	case b.top().block == enumerators:
		h.enumerator()
		return value
	case b.word(h.head[h.i], "namespace"):
		return h.namespace()
	case b.word(h.head[h.i], "using"):
		if name := h.i + 1; end == ';' && h.at(name+1).op == '=' {
			h.add(Type, h.head[name])
		}
		return value
	}
	if end == '{' {
		if what, ok := h.tagged(); ok {
			return what
		}
	}
	return h.function()
}

// typedefBefore skips what was before the block that this head follows.
func (h *cHead) typedefBefore() bool {
	if h.tail < 0 {
		return false
	}
	for i, t := range h.head {
		h.typedef = h.typedef || h.word(t, "typedef")
		h.private = h.private || h.word(t, "static") && !h.member()
		if t.op == '{' {
			h.i = i + 1
			return true
		}
	}
	return false
}

// specifiers skips what can be before the type, and the specifiers among it.
func (h *cHead) specifiers() {
	for ; h.i < len(h.head); h.i++ {
		switch t := h.head[h.i]; {
		case h.word(t, "typedef"):
			h.typedef = true
		case h.word(t, "static"):
			h.private = !h.member()
		case h.word(t, "extern"):
			if h.at(h.i+1).Kind == String {
				h.i++
				h.linkage = true
			}
		case h.word(t, "template"):
			h.i = h.angles(h.i+1) - 1
		case t.op == '[':
			h.i = h.closing(h.i)
		case h.attribute(t):
			if h.at(h.i+1).op == '(' {
				h.i = h.closing(h.i + 1)
			}
		case cSpecifiers[string(h.src[t.Start:t.End])]:
		case t.op == ':' && h.i > 0: // public:
		case t.Kind == Identifier && h.beforeKeyword():
		case t.op == '}' || t.op == ')' || t.op == ']': // of something that is not balanced
		default:
			return
		}
	}
}

// beforeKeyword reports whether the name at i, with parentheses or without, is a macro that stands alone: a
// keyword with which a declaration begins follows. If so, it goes to its end.
func (h *cHead) beforeKeyword() bool {
	end := h.i
	if h.at(end+1).op == '(' {
		end = h.closing(end + 1)
	}
	if end+1 == len(h.head) || !cBeginnings[string(h.src[h.head[end+1].Start:h.head[end+1].End])] {
		return false
	}
	h.i = end
	return true
}

var cBeginnings = words(`class enum extern inline namespace static struct template typedef union using`)

var cSpecifiers = words(`
	inline const constexpr consteval constinit virtual explicit friend mutable register volatile
	thread_local _Thread_local _Noreturn export public protected private __extension__ __inline __inline__
	typename`)

func (h *cHead) attribute(t ctoken) bool {
	switch string(h.src[t.Start:t.End]) {
	case "__attribute__", "__attribute", "__declspec", "alignas", "_Alignas", "noexcept", "throw", "decltype", "__asm__", "asm", "__asm",
		"requires", "typeof", "__typeof__", "explicit":
		return true
	}
	return false
}

func (h *cHead) enumerator() {
	if t := h.head[h.i]; t.Kind == Identifier && h.end != '{' {
		h.add(Field, t)
	}
}

func (h *cHead) namespace() block {
	last := h.head[len(h.head)-1]
	if h.end != '{' {
		return value
	}
	if last.Kind == Identifier {
		h.add(Module, last)
	}
	return members
}

// cTags are the keywords with which a type begins.
var cTags = map[string]typeWord{"struct": {Type, members}, "union": {Type, members}, "class": {Class, members}, "enum": {Type, enumerators}}

// tagged reads a struct, union, enum or class before its block. It reports false if the block belongs to
// something else, as in struct s *f(void) {.
func (h *cHead) tagged() (block, bool) {
	t, ok := cTags[string(h.src[h.head[h.i].Start:h.head[h.i].End])]
	if !ok {
		return code, false
	}
	name, ok := h.tag(h.i + 1)
	if !ok {
		return code, false
	}
	if name.Kind != Identifier {
		name = emptyAt(h.tok.Start) // it may follow
	}
	h.add(t.kind, name)
	return t.block, true
}

// tag returns the name behind a struct and the like at i, and reports whether it is followed by nothing
// but base classes.
func (h *cHead) tag(i int) (name ctoken, ok bool) {
	for ; i < len(h.head); i++ {
		t := h.head[i]
		switch c := t.op; {
		case t.Kind == Identifier && !h.word(t, "final"):
			name = t
		case c == '<':
			i = h.angles(i) - 1
		case c == '[':
			i = h.closing(i)
		case c == '(':
			if i = h.closing(i); i+1 < len(h.head) && h.head[i+1].Kind != Identifier && h.head[i+1].op != '[' || i+1 == len(h.head) && !h.attribute(h.head[max(0, i-4)]) && name.Kind == Identifier {
				return name, false
			}
		case c == '*' || c == '&' || c == '=':
			return name, false
		case c == ':' && t.End == t.Start+1:
			return name, true
		}
	}
	return name, true
}

// A candidate is a name before parentheses, which may be that of a function.
type candidate struct {
	name, open, close int
}

// function reads a head with the name of a function, or of variables.
func (h *cHead) function() block {
	c, ok := h.candidate()
	if !ok {
		if h.end == ';' {
			h.declarators()
		}
		if len(h.head) > h.i+1 && h.end == '{' {
			return value
		}
		return code
	}
	if h.typedef {
		h.add(Type, h.head[c.name])
		return value
	}
	inside := h.head[min(c.open+1, len(h.head)-1)].op != 0 || h.head[c.open+1].Kind != String && h.head[c.open+1].Kind != Number
	bare := c.name == h.i && !h.member()
	if h.end == ';' && (bare || !inside) {
		return value // a macro, or a variable with its constructor
	}
	if h.at(c.close+1).op == ':' && h.initializes() {
		h.inits = true
		return value
	}
	h.named(c)
	return code
}

// initializes reports whether a block behind the head of a constructor is the value of a member.
func (b *blocks) initializes() bool {
	last := b.head[len(b.head)-1]
	return last.Kind == Identifier || last.op == '>'
}

// named adds the function of a candidate.
func (h *cHead) named(c candidate) {
	kind, name := Func, h.head[c.name]
	if h.member() {
		kind = Method
	}
	if c.name > 0 && h.word(h.head[c.name-1], "~") {
		h.undo(name.Start)
		name.Start = h.head[c.name-1].Start
	}
	if h.word(h.head[c.name], "operator") {
		name.End = h.head[c.open].Start
		name.End = name.Start + int32(len(bytes.TrimRight(h.src[name.Start:name.End], " \t\r\n")))
	}
	of := ""
	if k := c.name - 1; k > 0 && h.word(h.head[k], "::") {
		if k--; h.head[k].op == '>' {
			k = h.opening(k)
		}
		if k >= 0 && h.head[k].Kind == Identifier {
			kind, of = Method, h.name(h.src[h.head[k].Start:h.head[k].End])
		}
	}
	h.add(kind, name).Of = of
}

// opening returns the index before the angle brackets that end at k.
func (h *cHead) opening(k int) int {
	for depth := 0; k >= 0; k-- {
		switch h.head[k].op {
		case '>':
			depth++
		case '<':
			if depth--; depth == 0 {
				return k - 1
			}
		}
	}
	return -1
}

// candidate finds the name of a function.
func (h *cHead) candidate() (c candidate, ok bool) {
	for i := h.i; i < len(h.head); i++ {
		t := h.head[i]
		switch op := t.op; {
		case h.word(t, "operator"):
			open := i + 1
			if open+1 < len(h.head) && h.head[open].op == '(' {
				open += 2 // operator()
			}
			for ; open < len(h.head) && h.head[open].op != '('; open++ {
			}
			if open < len(h.head) {
				return candidate{i, open, h.closing(open)}, true
			}
		case op == '<':
			i = h.angles(i) - 1
		case op == '[':
			i = h.closing(i)
		case op == '=' || op == '{' || op == ':' && t.End == t.Start+1:
			return c, ok
		case op == '(':
			next, found, stop := h.parenthesis(i)
			if stop {
				return next, found
			}
			if found && (!ok || h.replaces(c, next)) {
				c, ok = next, true
			}
			i = h.closing(i)
		}
	}
	return c, ok
}

// parenthesis says what the parenthesis at i makes of the name before it, or of the one in it, as in
// int (*f)(int). Stop says that nothing behind it matters.
func (h *cHead) parenthesis(i int) (c candidate, ok, stop bool) {
	end := h.closing(i)
	name, next := h.pointer(i)
	if again := h.at(end+1).op == '('; again && name > 0 {
		switch {
		case next < end && h.head[next].op == '(' && name > i+1: // it returns a pointer to a function
			return candidate{name, next, h.closing(next)}, true, true
		case next == end && name == i+1 && i > h.i: // (name)(…), which is not a macro
			return candidate{name, end + 1, h.closing(end + 1)}, true, true
		case next == end && name > i+1 || next < end && h.head[next].op == '[':
			return c, false, true
		}
	}
	if i == h.i || h.head[i-1].Kind != Identifier || h.attribute(h.head[i-1]) {
		return c, false, false
	}
	return candidate{i - 1, i, end}, true, false
}

// pointer returns the index of the name in the parenthesis at i, as in (*name) or (CALL *name[2]), and what
// follows it there; or 0 if there is something else.
func (h *declHead) pointer(i int) (name, next int) {
	for k := i + 1; k < len(h.head); k++ {
		switch op := h.head[k].op; {
		case h.head[k].Kind == Identifier:
			name = k
		case op == '*' || op == '&' || op == '^' || h.word(h.head[k], "::") || h.word(h.head[k], "const"):
		default:
			return name, k
		}
	}
	return name, len(h.head)
}

// replaces reports whether a later candidate is the name, and the first a macro without a semicolon.
func (h *cHead) replaces(c, next candidate) bool {
	return c.name == h.i && h.head[c.close+1].op == 0
}

// oldStyle reports whether the semicolon ends the declaration of a parameter before the block of a
// function, as in int f(a) int a; {.
func (b *blocks) oldStyle() bool {
	if !b.directives || b.top().block == enumerators || b.tail >= 0 || len(b.head) < 6 {
		return false
	}
	if b.params.close == 0 && !b.oldParams() {
		return false
	}
	for i := max(b.looked, b.params.close+1); i < len(b.head); i++ {
		if b.head[i].op == '(' && b.head[i-1].Kind == Identifier { // that was a macro
			return false
		}
	}
	b.looked = len(b.head)
	last := b.head[len(b.head)-1]
	found := last.op == ']' || last.op == ')'
	for k := b.params.open + 1; k < b.params.close && !found; k += 2 {
		found = bytes.Equal(b.src[b.head[k].Start:b.head[k].End], b.src[last.Start:last.End])
	}
	return found
}

// maxParams bounds the parameters of a function in the old style.
const maxParams = 16

// oldParams finds a function whose parameters are names, and behind which a declaration begins.
func (b *blocks) oldParams() bool {
	h := cHead{declHead: declHead{blocks: b, head: b.head}}
	h.specifiers()
	c, ok := h.candidate()
	if !ok || h.typedef || c.close == c.open+1 || c.close > c.open+2*maxParams || c.close+2 >= len(h.head) || !b.isType(h.head[c.close+1]) && !b.word(h.head[c.close+1], "struct") {
		return false
	}
	for k := c.open + 1; k < c.close; k++ {
		t := h.head[k]
		if (k-c.open)%2 == 1 && t.Kind != Identifier || (k-c.open)%2 == 0 && t.op != ',' {
			return false
		}
	}
	b.params = c
	return true
}
