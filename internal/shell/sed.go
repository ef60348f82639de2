package shell

import (
	"strings"
	"unicode/utf8"
)

// Programs of sed run unasked if they are in a small grammar: commands that print, delete
// or change the pattern space, s and y with plain delimiters, braces and labels. The
// invariant is that every sed finds the end of each part where this grammar does: so a
// delimiter in brackets, a label with more than letters and digits, a text to insert and
// whatever else the manuals of GNU, BSD and POSIX read differently is outside. Outside are
// also e, w and r, which run, write and read.

const sedSpec = "-nsErzu -e=p --expression=p --quiet --silent --regexp-extended --null-data --separate --unbuffered --posix " +
	"-i?i --in-place?i -f=e --file=e"

// sed judges each script by the grammar. Options behind operands are files for BSD, and
// change files for GNU. A file in which lines begin with dashes is not harmless behind it:
// its output is text and no list of names any more.
func sed(c *call, argv []word) {
	p := program{use: 'p', spec: sedSpec}
	o := c.options(p, plain(argv, 1))
	scripts := o.all("-e", "--expression")
	if !o.pattern && len(o.operands) > 0 {
		scripts = o.operands[:1]
	}
	if o.late || o.has("-f", "--file") && !o.pattern {
		c.raise(NeedsApproval, "has options behind its operands, which some take for files")
	}
	for _, w := range scripts {
		s := sedScript{text: w.text}
		if w.kind > digits || !s.understood() {
			c.raise(Escalates, "has a program that may run or write something")
		}
	}
	for _, suffix := range o.all("-i", "--in-place") {
		if strings.Contains(suffix.text, "/") { // a path, in which a star stands for the name (sed(1))
			c.write(suffix.keep(strings.ReplaceAll(suffix.text, "*", "x")))
		}
	}
	c.operands(p, o)
	c.out = word{kind: anything, many: true, env: c.st.stdin.env, net: c.st.stdin.net}
}

// sedScript goes through a script of sed.
type sedScript struct {
	text  string
	pos   int
	depth int // of braces
}

// peek is the next character, 0 at the end.
func (s *sedScript) peek() byte {
	if s.pos < len(s.text) {
		return s.text[s.pos]
	}
	return 0
}

// skip goes past characters of a set, and returns them.
func (s *sedScript) skip(set string) string {
	from := s.pos
	for s.pos < len(s.text) && strings.IndexByte(set, s.text[s.pos]) >= 0 {
		s.pos++
	}
	return s.text[from:s.pos]
}

// understood reports whether the whole script is in the grammar, with its braces closed.
func (s *sedScript) understood() bool {
	for {
		s.skip(" \t\n;")
		if s.pos == len(s.text) {
			return s.depth == 0
		}
		if !s.address() || !s.command() {
			return false
		}
	}
}

// address skips the addresses of a command: numbers, $, /re/ with I, two with a comma.
func (s *sedScript) address() bool {
	for {
		s.skip("0123456789$~+")
		if s.peek() == '/' {
			if !s.part('/', true) {
				return false
			}
			s.skip("I")
		}
		s.skip(" ")
		if s.peek() != ',' {
			break
		}
		s.pos++
		s.skip(" ")
	}
	s.skip("! ")
	return true
}

// part skips a delimiter and what follows up to the next one. In an expression brackets
// may protect a delimiter, or not.
func (s *sedScript) part(delim byte, expression bool) bool {
	bracket := false
	for s.pos++; s.pos < len(s.text); s.pos++ {
		switch ch := s.text[s.pos]; {
		case ch == '\n', s.text[s.pos-1] >= utf8.RuneSelf && strings.IndexByte(`\|[]`, ch) >= 0: // see swallowed
			return false
		case ch == '\\' && bracket:
			return false
		case ch == '\\':
			if s.pos++; s.peek() == '\n' || s.peek() == 'c' {
				return false
			}
		case ch == delim:
			if !bracket {
				s.pos++
			}
			return !bracket
		case expression && ch == '[' && !bracket:
			bracket = true
			if n := len(s.skipAhead("^")); s.pos+n+1 < len(s.text) && s.text[s.pos+n+1] == ']' {
				return false
			}
		case expression && ch == '[' && strings.ContainsAny(s.skipAhead(".="), ".="):
			return false // a name in brackets, in which a bracket need not close
		case expression && ch == '[' && strings.HasPrefix(s.text[s.pos:], "[:"):
			n := strings.Index(s.text[s.pos:], ":]")
			if n < 0 {
				return false
			}
			s.pos += n + 1
		case expression && ch == ']':
			bracket = false
		}
	}
	return false
}

// skipAhead returns which of the characters follow the next one.
func (s *sedScript) skipAhead(set string) string {
	rest := s.text[min(s.pos+1, len(s.text)):]
	return rest[:len(rest)-len(strings.TrimLeft(rest, set))]
}

// command goes past one command. Behind it only what ends a command may stand: GNU reads on
// where others stop. w, r, e, i, a and c are among those that are not here: the rest of
// their line is a file name, a command or a text.
func (s *sedScript) command() bool {
	ch := s.peek()
	s.pos++
	switch ch {
	case '{':
		s.depth++
		return true
	case '}':
		s.depth--
	case '=', 'd', 'D', 'g', 'G', 'h', 'H', 'n', 'N', 'p', 'P', 'x':
	case 'q', 'Q':
		s.skip("0123456789")
	case ':':
		s.skip(" ")
		return s.skip(labelChars) != "" && (s.peek() == ';' || s.peek() == '\n' || s.peek() == 0)
	case 'b', 't', 'T':
		s.skip(" ")
		s.skip(labelChars)
	case 's', 'y':
		delim := s.peek()
		if strings.IndexByte("/|,#:!@%_+~", delim) < 0 || delim == 0 || !s.part(delim, ch == 's') {
			return false
		}
		if s.pos--; !s.part(delim, false) {
			return false
		}
		if ch == 's' {
			s.skip("gpiI0123456789")
		}
	default:
		return false
	}
	s.skip(" \t")
	next := s.peek()
	return s.depth >= 0 && (next == 0 || next == ';' || next == '\n' || next == '}')
}

const labelChars = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"
