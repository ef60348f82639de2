package shell

import "strings"

// sed reads its script: the commands w and r have files, e runs a command.
func sed(c *call, argv []word) {
	p := program{use: 'p', spec: sedSpec}
	o := c.options(p, plain(argv, 1))
	scripts := o.all("-e", "--expression")
	if o.has("-f", "--file") {
		o.pattern = true
	}
	if !o.pattern && len(o.operands) > 0 {
		scripts = append(scripts, o.operands[0])
	}
	if o.late && o.pattern {
		c.raise(NeedsApproval, "has a script that is not understood")
	}
	for _, w := range scripts {
		if w.kind > digits {
			c.raise(NeedsApproval, "runs a program that is not known")
			continue
		}
		s := sedScript{c: c, text: w.text}
		s.run()
	}
	c.operands(p, o)
	c.through(o, 1)
	if c.out.kind == listing {
		c.out = word{kind: anything, many: true}
	}
}

// sedScript goes through a script of sed.
type sedScript struct {
	c    *call
	text string
	pos  int
}

func (s *sedScript) peek() byte {
	if s.pos < len(s.text) {
		return s.text[s.pos]
	}
	return 0
}

func (s *sedScript) skip(set string) {
	for s.pos < len(s.text) && strings.IndexByte(set, s.text[s.pos]) >= 0 {
		s.pos++
	}
}

func (s *sedScript) run() {
	for s.pos < len(s.text) {
		s.skip(" \t\n;{}")
		if s.pos == len(s.text) {
			return
		}
		if !s.address() || !s.command() {
			s.c.raise(NeedsApproval, "has a script that is not understood")
			return
		}
	}
}

// address skips the addresses of a command.
func (s *sedScript) address() bool {
	for {
		s.skip(" \t,!+~0123456789$")
		switch s.peek() {
		case '/':
			s.pos++
			if !s.until('/') {
				return false
			}
			s.skip("IM")
		case '\\':
			s.pos += 2
			if s.pos > len(s.text) || !s.until(s.text[s.pos-1]) {
				return false
			}
			s.skip("IM")
		default:
			return true
		}
	}
}

// until skips to behind the next delimiter that is not escaped. Brackets do not
// protect one for sure, so a script that puts one in them is not understood.
func (s *sedScript) until(delim byte) bool {
	if delim == '\\' || delim == '\n' {
		return false
	}
	bracket := false
	for s.pos < len(s.text) {
		switch ch := s.text[s.pos]; {
		case ch == '\\':
			s.pos++
		case ch == delim && bracket:
			return false
		case ch == delim:
			s.pos++
			return true
		case ch == '[':
			bracket = true
		case ch == ']':
			bracket = false
		}
		s.pos++
	}
	return false
}

func (s *sedScript) command() bool {
	ch := s.peek()
	s.pos++
	switch ch {
	case '=', 'd', 'D', 'g', 'G', 'h', 'H', 'n', 'N', 'p', 'P', 'x', 'F', 'z':
		return true
	case '{', '}', ';', '\n':
		return true
	case 'l', 'L', 'q', 'Q':
		s.skip(" 0123456789")
		return true
	case ':', 'b', 't', 'T':
		s.line(";\n}")
		return true
	case '#':
		s.line("\n")
		return true
	case 'a', 'i', 'c':
		s.paragraph()
		return true
	case 'r', 'R':
		s.c.read(word{text: s.file()})
		return true
	case 'w', 'W':
		s.c.write(word{text: s.file()})
		return true
	case 'e':
		s.c.smuggled(word{text: s.file()})
		return true
	case 's':
		return s.substitute()
	case 'y':
		return s.twice()
	}
	return false
}

func (s *sedScript) line(end string) string {
	start := s.pos
	for s.pos < len(s.text) && strings.IndexByte(end, s.text[s.pos]) < 0 {
		s.pos++
	}
	return s.text[start:s.pos]
}

// paragraph skips a text, which goes on after a backslash at the end of a line.
func (s *sedScript) paragraph() {
	for {
		l := s.line("\n")
		if !strings.HasSuffix(l, `\`) || s.pos == len(s.text) {
			return
		}
		s.pos++
	}
}

func (s *sedScript) file() string { return strings.TrimSpace(s.line("\n")) }

func (s *sedScript) twice() bool {
	delim := s.peek()
	s.pos++
	return delim != 0 && s.until(delim) && s.second(delim)
}

// second skips a replacement, in which brackets mean nothing.
func (s *sedScript) second(delim byte) bool {
	for s.pos < len(s.text) {
		ch := s.text[s.pos]
		s.pos++
		switch ch {
		case '\\':
			s.pos++
		case delim:
			return true
		}
	}
	return false
}

func (s *sedScript) substitute() bool {
	if !s.twice() {
		return false
	}
	for {
		switch ch := s.peek(); {
		case strings.IndexByte("gpiImM0123456789", ch) >= 0 && ch != 0:
			s.pos++
		case ch == 'e':
			s.pos++
			s.c.smuggled(word{text: s.replacement()})
		case ch == 'w':
			s.pos++
			s.c.write(word{text: s.file()})
			return true
		default:
			return ch == 0 || strings.IndexByte(" \t;\n}#", ch) >= 0
		}
	}
}

// replacement is the last part of s/…/…/ before here.
func (s *sedScript) replacement() string {
	parts := strings.Split(s.text[:s.pos], s.text[1:2])
	if len(parts) >= 3 && s.text[0] == 's' {
		return parts[2]
	}
	return "?"
}
