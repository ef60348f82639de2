package openai

// An xmlCode tracks whether a text is inside of Markdown code: between backticks, or
// between fences of backticks or tildes. The zero value is the beginning of a text.
type xmlCode struct {
	fence byte // of the open fence, or 0
	size  int  // length of that fence
	mark  byte // number of these at the start of the line
	marks int
	rest  bool // the line has other characters than those and white space
	begun bool // the line has other characters than white space
	run   int  // length of the current run of backticks
	ticks int  // number of backticks that opened inline code
}

// feed takes text.
func (c *xmlCode) feed(s string) {
	for i := range len(s) {
		c.next(s[i])
	}
}

// next takes a byte. Bytes do, since all signs of code are ASCII.
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

// tick ends a run of backticks: inline code ends with as many as it began with.
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

// line ends a line, which may open or close a fence.
func (c *xmlCode) line() {
	c.tick()
	fence, size := c.fence, c.size
	switch {
	case c.marks < 3:
	case fence == 0 && (c.mark == '~' || c.ticks > 0): // ```x``` is inline code
		fence, size = c.mark, c.marks
	case fence == c.mark && c.marks >= size && !c.rest:
		fence = 0
	}
	*c = xmlCode{fence: fence, size: size}
}

// inside reports whether the next character is code, unless it is a backtick.
func (c *xmlCode) inside() bool {
	here := *c
	here.tick() // as if the run of backticks ended here
	return here.fence != 0 || here.ticks > 0
}
