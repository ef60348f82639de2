package paint

import "bytes"

// destination reads what follows the text of a link: (address), (<address>) or (address "title").
// It returns what to show of it, and its length, which is 0 if it is something else. If that
// depends on more text, known is false.
func destination(b []byte, last bool) (shown []byte, n int, known bool) {
	if len(b) > 2*maxHold {
		b, last = b[:2*maxHold], true
	}
	p := target{b: b}
	if !p.parse() {
		return nil, 0, last || !p.short
	}
	return bytes.TrimSpace(p.out), p.i, true
}

// A target is the state of reading a destination. It is short if the text ended too early.
type target struct {
	b     []byte
	i     int
	out   []byte
	short bool
}

func (p *target) parse() bool {
	if !p.is('(') {
		return false
	}
	p.i++
	p.blanks()
	if p.is('<') {
		p.i++
		if !p.until("<\n", '>') {
			return false
		}
	} else if !p.short && !p.bare() {
		return false
	}
	gap := p.blanks()
	if p.is(')') {
		p.i++
		return true
	}
	if p.short || !gap || !p.title() {
		return false
	}
	p.blanks()
	if !p.is(')') {
		return false
	}
	p.i++
	return true
}

func (p *target) is(c byte) bool {
	if p.i >= len(p.b) {
		p.short = true
		return false
	}
	return p.b[p.i] == c
}

func (p *target) blanks() bool {
	start := p.i
	for p.i < len(p.b) && (p.b[p.i] == ' ' || p.b[p.i] == '\n' || p.b[p.i] == '\t') {
		p.i++
	}
	return p.i > start
}

// until reads up to a character. The text must not have any of the others.
func (p *target) until(not string, end byte) bool {
	for ; p.i < len(p.b); p.i++ {
		c := p.b[p.i]
		switch {
		case c == end:
			p.i++
			return true
		case bytes.IndexByte([]byte(not), c) >= 0:
			return false
		}
		p.char()
	}
	p.short = true
	return false
}

// char adds a character, which may be escaped.
func (p *target) char() {
	if p.b[p.i] == '\\' && p.i+1 < len(p.b) && asciiPunct(p.b[p.i+1]) {
		p.i++
	}
	if p.b[p.i] == '\n' {
		p.out = append(p.out, ' ')
		return
	}
	p.out = append(p.out, p.b[p.i])
}

// bare reads an address without brackets, in which parentheses are balanced.
func (p *target) bare() bool {
	depth := 0
	for ; p.i < len(p.b); p.i++ {
		switch c := p.b[p.i]; {
		case c == ' ' || c == '\n' || c == '\t':
			return depth == 0
		case c == '(':
			if depth++; depth > 32 {
				return false
			}
		case c == ')':
			if depth--; depth < 0 {
				return true
			}
		}
		p.char()
	}
	p.short = true
	return false
}

// title reads a title, which is shown in quotes.
func (p *target) title() bool {
	end := byte(')')
	switch {
	case p.is('"') || p.is('\''):
		end = p.b[p.i]
	case !p.is('('):
		return false
	}
	p.i++
	p.out = append(p.out, " \""...)
	if !p.until("", end) {
		return false
	}
	p.out = append(p.out, '"')
	return true
}
