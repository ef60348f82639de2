package source

import "bytes"

// A chain is a name and those that follow it behind dots or ::, as far as they were read. The token behind a
// chain says whether its name is used there, declared, or called.
type chain struct {
	n                   int // how many names; 0 before the first, and behind a dot that follows no name
	first, second, last ctoken
	link                byte      // the separator directly before, ':', '.' or '-', or 0
	closed              bool      // what follows is a member of a value
	importing           bool      // in a use of Rust
	recent              [4]ctoken // the last tokens, in a ring
	at                  uint8     // where the last one is in it
	before              [3]ctoken // those before the first name, the nearest first
}

// add notes a token.
func (c *chain) add(b *blocks, t ctoken) {
	text := b.src[t.Start:t.End]
	op := t.op
	switch {
	case op == ':' && len(text) == 2, op == '.', op == '-' && len(text) == 2 && b.directives:
		c.link = op
		c.shift(t)
		return
	case t.Kind != Identifier && (!b.paths || t.Kind != Keyword || !pathWords[string(text)]):
		c.flush(b, t)
	case c.link != 0:
		c.follow(b, t)
	default:
		c.flush(b, t)
		c.n, c.first, c.last, c.closed = 1, t, t, false
		c.before = [3]ctoken{c.recent[c.at], c.recent[(c.at+3)%4], c.recent[(c.at+2)%4]}
	}
	if b.paths && (t.Kind == Keyword || op == ';' || op == '<') { // use<'a> is a bound
		c.importing = t.Kind == Keyword && (string(text) == "use" || c.importing)
	}
	c.link = 0
	c.shift(t)
}

// shift notes the last token.
func (c *chain) shift(t ctoken) {
	c.at = (c.at + 1) % 4
	c.recent[c.at] = t
}

// pathWords are the keywords of Rust that paths begin with.
var pathWords = words(`self super crate`)

// follow adds a name behind a separator.
func (c *chain) follow(b *blocks, t ctoken) {
	switch {
	case c.n == 0 || c.closed:
	case c.link != ':' && !b.dotted, b.paths && t.Start != c.last.End+2:
		c.closed = true
	default:
		if c.n++; c.n == 2 {
			c.second = t
		}
		c.last = t
	}
}

// flush ends the chain at a token, which is not part of it.
func (c *chain) flush(b *blocks, next ctoken) {
	n := c.n
	c.n = 0
	if c.closed {
		next = ctoken{} // it is behind a member
	}
	if b.at = c.last.Start; b.depth > 0 || len(b.head) > 300 { // no head with a name behind that is of use
		b.at = -1
	}
	first := b.src[c.first.Start:c.first.End]
	switch {
	case n == 0 || c.importing || first[0] == '\'':
	case n > 1 && b.paths:
		if !(b.inline() && (string(first) == "super" || string(first) == "self")) {
			b.call(b.src[c.first.Start:c.last.Start-2], plainName(b.src[c.last.Start:c.last.End]))
		}
	case n > 1:
		b.use(first, b.src[c.second.Start:c.second.End])
	case c.first.Kind == Keyword:
	case b.paths:
		c.rust(b, plainName(first), next)
	case next.op == '(':
		b.call(nil, first)
	case c.declares(b, next):
		b.setLocal(first)
	default:
		b.use(nil, first)
	}
}

// plainName returns a name of Rust without the r# of a raw one.
func plainName(name []byte) []byte { return bytes.TrimPrefix(name, []byte("r#")) }

// inline reports whether the current declaration is in an inline module. There, super is in the same file.
func (b *blocks) inline() bool {
	return b.top().parent >= 0 && b.f.Decls[b.top().parent].Kind == Module
}

// rust notes a single name.
func (c *chain) rust(b *blocks, name []byte, next ctoken) {
	before := string(b.src[c.before[0].Start:c.before[0].End])
	far := c.before[1].op
	op := next.op
	item := false
	if c.before[0].Kind != Operator {
		_, item = rustWords[before]
	}
	field := op == ':' && next.End == next.Start+1
	switch {
	case op == '(' && before != "fn", op == '!' && !hasPrefix(b.src[next.Start:], "!="):
		b.call(nil, name)
	case before == "let", before == "ref", item && far != '*',
		before == "for" && b.word(next, "in"),
		before == "mut" && far != '&' && c.before[1].Kind != Identifier,
		before == "|" && (op == '|' || op == ',' || field),
		field && b.depth == 0: // a parameter
		b.setLocal(name)
	case field: // of a struct
	default:
		b.use(nil, name)
	}
}

// declares reports whether a name of C or Java is declared: it comes after a type.
func (c *chain) declares(b *blocks, next ctoken) bool {
	near, far := c.before[0], c.before[1]
	switch next.op {
	case '=', ';', ',', ')', '[', ':', '-':
	default:
		return false
	}
	switch op := near.op; {
	case near.Start == near.End:
		return false
	case next.op == '-':
		return b.dotted && next.End == next.Start+2 // a lambda of Java
	case op == 0:
		return b.isType(near)
	case op == '*' || op == '&':
		return far.op == '*' || b.isType(far) && (b.isType(c.before[2]) || bytes.ContainsRune([]byte("{};(,"), rune(c.before[2].op)))
	case op == '>':
		return far.op == '>' || far.op == '?' || far.op == ']' || far.Kind == Keyword || b.dotted && b.src[far.Start]&^' ' == b.src[far.Start] && far.Kind == Identifier
	}
	return near.op == ']' && far.op == '['
}

func (b *blocks) isType(t ctoken) bool {
	return t.Kind == Identifier || t.Kind == Keyword && b.types[string(b.src[t.Start:t.End])]
}
