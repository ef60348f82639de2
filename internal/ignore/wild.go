package ignore

import (
	"strings"

	"github.com/aycoder/aycoder/internal/glob"
)

// special are the characters that end the literal part of a pattern.
const special = `*?[\`

// wild is a pattern with git's rules, which are those of fnmatch(3) with
// FNM_PATHNAME and "**", on bytes.
type wild struct {
	prog  glob.Prog
	never bool
}

func (w *wild) match(s string) bool {
	if w.never {
		return false
	}
	if len(w.prog.Insts) == 1 {
		return s == ""
	}
	return w.prog.Match(s)
}

// compileWild compiles a pattern. In a path, stars stop at slashes unless "**"
// stands alone between them.
func compileWild(s string, path bool) wild {
	c := wildCompiler{in: s, path: path}
	ok := c.run()
	return wild{prog: glob.Prog{Insts: c.out, Bytes: true}, never: !ok}
}

type wildCompiler struct {
	in   string
	pos  int
	path bool
	out  []glob.Inst
}

func (c *wildCompiler) emit(in glob.Inst) { c.out = append(c.out, in) }

// run reports whether the pattern can match anything: one with an open bracket or
// a backslash at its end cannot.
func (c *wildCompiler) run() bool {
	for c.pos < len(c.in) {
		switch c.in[c.pos] {
		case '*':
			c.stars()
			continue
		case '?':
			c.emit(glob.Inst{Op: c.any(false)})
		case '[':
			if !c.class() {
				return false
			}
			continue
		case '\\':
			if c.pos++; c.pos == len(c.in) {
				return false
			}
			c.emit(glob.Inst{Op: glob.OpByte, X: int32(c.in[c.pos])})
		default:
			c.emit(glob.Inst{Op: glob.OpByte, X: int32(c.in[c.pos])})
		}
		c.pos++
	}
	c.emit(glob.Inst{Op: glob.OpDone})
	return true
}

func (c *wildCompiler) any(slash bool) glob.Op {
	if slash || !c.path {
		return glob.OpAll
	}
	return glob.OpAny
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
	skip := c.path && cross && strings.HasPrefix(rest, "/")
	at := int32(len(c.out))
	if skip { // ( .* / )?
		c.pos++
		c.emit(glob.Inst{Op: glob.OpSplit, X: at + 1, Y: at + 5})
		at++
	}
	c.emit(glob.Inst{Op: glob.OpSplit, X: at + 1, Y: at + 3})
	c.emit(glob.Inst{Op: c.any(cross)})
	c.emit(glob.Inst{Op: glob.OpSplit, X: at, Y: at})
	if skip {
		c.emit(glob.Inst{Op: glob.OpByte, X: '/'})
	}
}

// byteSet is a set of bytes.
type byteSet [256]bool

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
	if c.path {
		set['/'] = not // not both ways: a class never takes a slash in a path
	}
	c.emit(glob.Inst{Op: glob.OpClass, Class: func(b int32) bool { return set[byte(b)] != not }})
	return true
}

// members reads up to the closing bracket, which as the first one is a member.
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
				set[i] = true
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
			set[m] = true
			last = int(m)
		}
	}
}

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

// named takes a class such as [:alpha:]. What looks like one and has no ":]" is an
// ordinary bracket; a name that does not exist makes the pattern match nothing.
func (c *wildCompiler) named(set *byteSet) (named, ok bool) {
	rest := c.in[c.pos+2:]
	end := strings.IndexByte(rest, ']')
	if end < 0 {
		return false, false
	}
	name, closed := strings.CutSuffix(rest[:end], ":")
	if !closed {
		set['['] = true
		c.pos++
		return false, true
	}
	in, known := classes[name]
	if !known {
		return false, false
	}
	for b := range 128 {
		set[b] = set[b] || in(byte(b))
	}
	c.pos += 2 + end + 1
	return true, true
}

func upper(b byte) bool { return 'A' <= b && b <= 'Z' }
func lower(b byte) bool { return 'a' <= b && b <= 'z' }
func alpha(b byte) bool { return upper(b) || lower(b) }
func digit(b byte) bool { return '0' <= b && b <= '9' }
func alnum(b byte) bool { return alpha(b) || digit(b) }
func graph(b byte) bool { return '!' <= b && b <= '~' }

// classes are the named ones, in the C locale.
var classes = map[string]func(byte) bool{
	"alnum":  alnum,
	"alpha":  alpha,
	"blank":  func(b byte) bool { return b == ' ' || b == '\t' },
	"cntrl":  func(b byte) bool { return b < ' ' || b == 127 },
	"digit":  digit,
	"graph":  graph,
	"lower":  lower,
	"print":  func(b byte) bool { return graph(b) || b == ' ' },
	"punct":  func(b byte) bool { return graph(b) && !alnum(b) },
	"space":  func(b byte) bool { return b == ' ' || '\t' <= b && b <= '\r' },
	"upper":  upper,
	"xdigit": func(b byte) bool { return digit(b) || 'a' <= b|32 && b|32 <= 'f' },
}
