package ignore

import "strings"

// special are the characters that end the literal part of a pattern.
const special = `*?[\`

// chain is a pattern with wildcards, with git's rules, which are those of fnmatch(3)
// with FNM_PATHNAME and "**", on bytes.
type chain struct {
	states  []state
	pattern int32
	dirOnly bool
}

// wildcards returns the states of a pattern that begins with a literal, none if it matches
// nothing or has more than most. In a path, stars stop at slashes unless "**" stands alone
// between them.
func (known byteSets) wildcards(literal, s string, path bool, most int) []state {
	c := wildCompiler{known: known, in: s, path: path}
	for i := range len(literal) {
		c.takeByte(literal[i])
	}
	if !c.run(most) || len(c.out) > most {
		return nil
	}
	return c.out
}

// A star is not a state: it lets the state that comes next stay where it is.
type wildCompiler struct {
	known byteSets
	in    string
	pos   int
	path  bool
	out   []state
	stay  star // of the state that comes next
	last  bool // the state before it is one that may be skipped
}

// take adds a state that takes these bytes. Equal sets are shared, which makes it cheap to
// find the kinds of bytes.
//
//go:noinline
func (c *wildCompiler) take(set byteSet) {
	known := c.known[set]
	if known == nil {
		known = new(set)
		c.known[set] = known
	}
	c.add(known)
}

// add adds a state, with nil the end.
func (c *wildCompiler) add(set *byteSet) {
	c.out = append(c.out, state{takes: set, stay: c.stay})
	c.stay, c.last = noStar, false
}

// takeByte adds a state that takes only this byte.
//
//go:noinline
func (c *wildCompiler) takeByte(b byte) {
	var set byteSet
	set.add(b)
	c.take(set)
}

// run reports whether the pattern can match anything: one with an open bracket or
// a backslash at its end cannot.
func (c *wildCompiler) run(most int) bool {
	for c.pos < len(c.in) && len(c.out) < most {
		switch c.in[c.pos] {
		case '*':
			c.stars()
			continue
		case '?':
			c.any()
		case '[':
			if !c.class() {
				return false
			}
			continue
		case '\\':
			if c.pos++; c.pos == len(c.in) {
				return false
			}
			c.takeByte(c.in[c.pos])
		default:
			c.takeByte(c.in[c.pos])
		}
		c.pos++
	}
	c.add(nil)
	return true
}

// any takes a byte, which in a path is not a slash.
func (c *wildCompiler) any() {
	var none byteSet
	c.take(none.not(c.path))
}

// stars compiles a run of stars. From gitignore(5): "A leading "**" followed by a
// slash means match in all directories", "a trailing "/**" matches everything
// inside", "a slash followed by two consecutive asterisks then a slash matches zero
// or more directories", and "other consecutive asterisks are considered regular
// asterisks".
func (c *wildCompiler) stars() {
	start := c.pos
	for c.pos < len(c.in) && c.in[c.pos] == '*' {
		c.pos++
	}
	rest := c.in[c.pos:]
	cross := c.pos-start > 1 && (start == 0 || c.in[start-1] == '/') &&
		(rest == "" || rest[0] == '/' || strings.HasPrefix(rest, `\/`))
	c.stay = starName
	if cross || !c.path {
		c.stay = starPath
	}
	if !c.path || !cross || !strings.HasPrefix(rest, "/") {
		return
	}
	c.pos++
	if c.last { // another star changes nothing
		c.stay = noStar
		return
	}
	c.takeByte('/')
	c.out[len(c.out)-1].skip, c.last = true, true
}

// byteSet is a set of bytes, a bit each.
type byteSet [4]uint64

func (s *byteSet) has(b byte) bool { return s[b/64]>>(b%64)&1 != 0 }
func (s *byteSet) add(b byte)      { s[b/64] |= 1 << (b % 64) }

// not returns the other bytes, in a path without a slash.
func (s *byteSet) not(path bool) byteSet {
	out := byteSet{^s[0], ^s[1], ^s[2], ^s[3]}
	if path {
		out['/'/64] &^= 1 << ('/' % 64)
	}
	return out
}

// byteSets are those of an ignore file, each once.
type byteSets map[byteSet]*byteSet

// class compiles a bracket expression, and reports whether it is one.
func (c *wildCompiler) class() bool {
	c.pos++
	not := c.pos < len(c.in) && (c.in[c.pos] == '!' || c.in[c.pos] == '^')
	if not {
		c.pos++
	}
	var set byteSet
	if !c.members(&set) {
		return false
	}
	switch {
	case not:
		set = set.not(c.path)
	case c.path: // a class never takes a slash in a path
		set['/'/64] &^= 1 << ('/' % 64)
	}
	c.take(set)
	return true
}

// members reads up to the closing bracket, which as the first one is a member. A range that
// ends before it begins has no member.
func (c *wildCompiler) members(set *byteSet) bool {
	last := -1 // the byte that a range may start with
	for first := true; ; first = false {
		b, ok := c.peek(0)
		if !ok {
			return false
		}
		next, more := c.peek(1)
		switch {
		case b == ']' && !first:
			c.pos++
			return true
		case b == '-' && last >= 0 && more && next != ']':
			c.pos++
			hi, ok := c.member()
			if !ok {
				return false
			}
			for i := last; i <= int(hi); i++ {
				set.add(byte(i))
			}
			last = -1
		case b == '[' && more && next == ':':
			named, ok := c.named(set)
			if !ok {
				return false
			}
			if last = -1; !named {
				last = '['
			}
		default:
			m, ok := c.member()
			if !ok {
				return false
			}
			set.add(m)
			last = int(m)
		}
	}
}

// peek returns the byte that is n places on.
func (c *wildCompiler) peek(n int) (byte, bool) {
	if c.pos+n >= len(c.in) {
		return 0, false
	}
	return c.in[c.pos+n], true
}

// member takes one byte, which a backslash may quote.
func (c *wildCompiler) member() (byte, bool) {
	if b, ok := c.peek(0); ok && b == '\\' {
		c.pos++
	}
	b, ok := c.peek(0)
	c.pos++
	return b, ok
}

// named takes a class such as [:alpha:]. Without ":]" it is an ordinary bracket; a name
// that does not exist makes the pattern match nothing. Git's own matcher does so in the C
// locale.
func (c *wildCompiler) named(set *byteSet) (named, ok bool) {
	rest := c.in[c.pos+2:]
	end := strings.IndexByte(rest, ']')
	if end < 0 {
		return false, false
	}
	name, closed := strings.CutSuffix(rest[:end], ":")
	if !closed {
		set.add('[')
		c.pos++
		return false, true
	}
	in := class(name)
	if in == nil {
		return false, false
	}
	// No named class has bytes outside ASCII.
	for b := range 128 {
		if in(byte(b)) {
			set.add(byte(b))
		}
	}
	c.pos += 2 + end + 1
	return true, true
}

// The classes are those of the C locale, as git compares bytes.
func upper(b byte) bool { return 'A' <= b && b <= 'Z' }
func lower(b byte) bool { return 'a' <= b && b <= 'z' }
func alpha(b byte) bool { return upper(b) || lower(b) }
func digit(b byte) bool { return '0' <= b && b <= '9' }
func alnum(b byte) bool { return alpha(b) || digit(b) }
func graph(b byte) bool { return '!' <= b && b <= '~' }

// class returns the members of a named class in the C locale, or nil. It is a function and no map, which every program
// with this package would make when it starts.
func class(name string) func(byte) bool {
	switch name {
	case "alnum":
		return alnum
	case "alpha":
		return alpha
	case "blank":
		return func(b byte) bool { return b == ' ' || b == '\t' }
	case "cntrl":
		return func(b byte) bool { return b < ' ' || b == 127 }
	case "digit":
		return digit
	case "graph":
		return graph
	case "lower":
		return lower
	case "print":
		return func(b byte) bool { return graph(b) || b == ' ' }
	case "punct":
		return func(b byte) bool { return graph(b) && !alnum(b) }
	case "space":
		return func(b byte) bool { return b == ' ' || '\t' <= b && b <= '\r' }
	case "upper":
		return upper
	case "xdigit":
		return func(b byte) bool { return digit(b) || 'a' <= b|32 && b|32 <= 'f' }
	}
	return nil
}
