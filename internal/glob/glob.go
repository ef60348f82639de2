// Package glob matches slash-separated paths against patterns, in time bounded by
// the length of the pattern times that of the path.
//
//	?        one character but a slash
//	*        any characters but a slash
//	**       any characters; "**/" also nothing, so that **/x matches x
//	[a-z]    one of these; [!a-z] and [^a-z] one of the others, never a slash
//	{a,b}    a or b, which are patterns
//	\x       x itself
//
// A pattern matches the whole path. Case counts.
package glob

import (
	"errors"
	"fmt"
	"path"
	"strings"
	"unicode/utf8"
)

const (
	maxPattern = 2048 // bytes
	maxDepth   = 16   // braces in braces
)

// ErrPattern is the base of what [Compile] returns.
var ErrPattern = errors.New("bad pattern")

// Pattern is a compiled pattern. It is safe for concurrent use.
type Pattern struct{ prog prog }

// Match reports whether pattern matches path. A bad pattern matches nothing.
func Match(pattern, path string) bool {
	p, err := Compile(pattern)
	return err == nil && p.Match(path)
}

// Match reports whether the pattern matches path.
func (p *Pattern) Match(path string) bool { return p.prog.match(path) }

// Compile parses a pattern. It refuses one that is longer than 2,048 bytes, nests
// braces more than 16 deep, or leaves a bracket or a brace open; the error wraps
// [ErrPattern].
func Compile(pattern string) (*Pattern, error) {
	if len(pattern) > maxPattern {
		return nil, fmt.Errorf("%w: longer than %d bytes", ErrPattern, maxPattern)
	}
	c := compiler{in: pattern}
	if err := c.sequence(0); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrPattern, err)
	}
	c.emit(inst{op: opDone})
	return &Pattern{newProg(c.out)}, nil
}

// Extend returns the pattern of whole paths that people mean by a shorter one: without a slash it is for the name in any
// directory, and with a slash at its end for all that is below. As in a path, "./" and "//" mean nothing.
func Extend(pattern string) string {
	below := strings.HasSuffix(pattern, "/")
	pattern = path.Clean(pattern)
	switch {
	case pattern == ".":
		return "**"
	case below:
		return pattern + "/**"
	case !strings.Contains(pattern, "/"):
		return "**/" + pattern
	}
	return pattern
}

// It makes the program while it reads, without a tree.
type compiler struct {
	in  string
	pos int
	out []inst
}

func (c *compiler) emit(in inst) { c.out = append(c.out, in) }

func (c *compiler) here() int32 { return int32(len(c.out)) }

// sequence compiles up to the end, or in braces up to the comma or the brace that
// ends it.
func (c *compiler) sequence(depth int) error {
	for c.pos < len(c.in) {
		switch ch := c.in[c.pos]; {
		case depth > 0 && (ch == ',' || ch == '}'):
			return nil
		case ch == '*':
			c.stars()
		case ch == '?':
			c.pos++
			c.emit(inst{op: opAny})
		case ch == '[':
			if err := c.class(); err != nil {
				return err
			}
		case ch == '{':
			if err := c.braces(depth + 1); err != nil {
				return err
			}
		default:
			c.emit(inst{op: opSymbol, x: c.literal()})
		}
	}
	return nil
}

// literal takes one symbol, which a backslash may quote. A backslash at the end of the
// pattern stands for itself.
func (c *compiler) literal() int32 {
	if c.in[c.pos] == '\\' && c.pos+1 < len(c.in) {
		c.pos++
	}
	s, n := symbol(c.in[c.pos:])
	c.pos += n
	return s
}

// stars compiles a run of stars. Two or more cross slashes, and with the slash that
// follows, at the start of a directory, they also match nothing. Further stars in a run
// change nothing.
func (c *compiler) stars() {
	start := c.pos
	for c.pos < len(c.in) && c.in[c.pos] == '*' {
		c.pos++
	}
	op, skip := opAny, false
	if c.pos-start > 1 {
		op = opAll
		first := start == 0 || strings.ContainsRune("/{,", rune(c.in[start-1]))
		// Elsewhere, as in a**/b, the slash has to be there.
		skip = first && strings.HasPrefix(c.in[c.pos:], "/")
	}
	at := c.here()
	if skip { // ( .* / )?
		c.pos++
		c.emit(inst{op: opSplit, x: at + 1, y: at + 5})
		at++
	}
	c.emit(inst{op: opSplit, x: at + 1, y: at + 3})
	c.emit(inst{op: op})
	c.emit(inst{op: opSplit, x: at, y: at})
	if skip {
		c.emit(inst{op: opSymbol, x: '/'})
	}
}

// braces compiles {a,b} as split a, jump to the end, b. The jumps are filled in when it is
// known where they lead.
func (c *compiler) braces(depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("braces nested more than %d deep", maxDepth)
	}
	var ends []int32
	for {
		c.pos++
		split := c.here()
		c.emit(inst{op: opSplit, x: split + 1})
		if err := c.sequence(depth); err != nil {
			return err
		}
		if c.pos == len(c.in) {
			return errors.New("brace is not closed")
		}
		// The last alternative has none behind it to go to.
		if c.in[c.pos] == '}' {
			c.out[split].y = split + 1
			break
		}
		ends = append(ends, c.here())
		c.emit(inst{op: opSplit})
		c.out[split].y = c.here()
	}
	c.pos++
	for _, e := range ends {
		c.out[e].x, c.out[e].y = c.here(), c.here()
	}
	return nil
}

// A span has both of its ends in it.
type span struct{ lo, hi int32 }

// class compiles a bracket expression. The first character in it may be a bracket.
func (c *compiler) class() error {
	c.pos++
	not := c.pos < len(c.in) && (c.in[c.pos] == '!' || c.in[c.pos] == '^')
	if not {
		c.pos++
	}
	var spans []span
	for first := true; ; first = false {
		if c.pos >= len(c.in) {
			return errors.New("bracket is not closed")
		}
		if c.in[c.pos] == ']' && !first {
			break
		}
		s := span{lo: c.literal()}
		s.hi = s.lo
		if rest := c.in[c.pos:]; len(rest) > 1 && rest[0] == '-' && rest[1] != ']' {
			c.pos++
			s.hi = c.literal()
		}
		spans = append(spans, s)
	}
	c.pos++
	c.emit(inst{op: opClass, class: func(r int32) bool {
		if r == '/' || r > utf8.MaxRune {
			return false
		}
		for _, s := range spans {
			if s.lo <= r && r <= s.hi {
				return !not
			}
		}
		return not
	}})
	return nil
}
