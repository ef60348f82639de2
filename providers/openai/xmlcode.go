package openai

// An xmlCode follows a text through the code of its Markdown: between backticks, and
// between fences of them or of tildes. The zero value is the beginning of a text.
type xmlCode struct {
	fence byte // of the fence that is open, or 0
	size  int  // how long it is
	mark  byte // the line begins with so many of these
	marks int
	rest  bool // the line holds more than those and space
	begun bool // more than space came in the line
	run   int  // backticks that came last
	ticks int  // how many backticks opened code within the line
}

// feed takes text.
func (c *xmlCode) feed(s string) {
	for i := range len(s) {
		c.next(s[i])
	}
}

func (c *xmlCode) next(b byte) {
	if b == '\n' {
		c.line()
		return
	}
	switch {
	case !c.begun && (b == '`' || b == '~'):
		c.mark, c.marks, c.begun = b, 1, true
	case c.marks > 0 && !c.rest && b == c.mark:
		c.marks++
	case b != ' ' && b != '\t' && b != '\r':
		c.begun, c.rest = true, true
	}
	if b == '`' {
		c.run++
		return
	}
	c.tick()
}

// tick ends a run of backticks: as many as opened code close it.
func (c *xmlCode) tick() {
	switch {
	case c.run == 0:
	case c.ticks == 0:
		c.ticks = c.run
	case c.ticks == c.run:
		c.ticks = 0
	}
	c.run = 0
}

// line ends a line, which may be one that opens or closes a fence.
func (c *xmlCode) line() {
	c.tick()
	fence, size := c.fence, c.size
	switch {
	case c.marks < 3:
	case fence == 0 && (c.mark == '~' || c.ticks > 0): // ```x``` is code within a line
		fence, size = c.mark, c.marks
	case fence == c.mark && c.marks >= size && !c.rest:
		fence = 0
	}
	*c = xmlCode{fence: fence, size: size}
}

// inside reports whether what comes next is code, if it is no backtick.
func (c xmlCode) inside() bool {
	c.tick()
	return c.fence != 0 || c.ticks > 0
}
