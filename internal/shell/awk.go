package shell

import (
	"slices"
	"strings"
)

// awk looks for what makes a program of awk more than a filter: system, pipes, files
// to write, the environment.
func awk(c *call, argv []word) {
	p := program{use: 'p', spec: awkSpec, first: true}
	o := c.options(p, plain(argv, 1))
	if o.has("-f", "--file", "-E", "--exec") {
		o.pattern = true
	}
	code := o.all("-e", "--source")
	if !o.pattern && len(o.operands) > 0 {
		code = o.operands[:1]
	}
	if len(code) > 1 {
		c.raise(NeedsApproval, "runs a program in several parts")
	}
	for _, w := range code {
		if w.kind > digits {
			c.raise(NeedsApproval, "runs a program that is not known")
			return
		}
		a := awkProgram{c: c, text: w.text}
		a.run()
	}
	for i, w := range o.operands {
		if i == 0 && !o.pattern {
			continue
		}
		if name, _, ok := strings.Cut(w.text, "="); ok && identifier(name) && w.kind <= digits {
			continue
		}
		c.read(w)
	}
}

// awkProgram is a program of awk, and where in it we are.
type awkProgram struct {
	c       *call
	text    string
	pos     int
	depth   int    // of brackets
	printed int    // the depth of the last print in this statement, -1 for none
	last    string // the last token
	ambig   bool
}

var awkWords = []string{"system", "getline", "|", ">", "@", "ENVIRON", "ARGV", "SYMTAB", "FUNCTAB", "PROCINFO",
	"/inet", "<"}

// run looks at the program only if it has a word that could matter at all.
func (a *awkProgram) run() {
	if !slices.ContainsFunc(awkWords, func(w string) bool { return strings.Contains(a.text, w) }) {
		return
	}
	if strings.Contains(a.text, "/inet") {
		a.c.raise(Network, "opens a connection")
	}
	a.printed = -1
	for a.pos < len(a.text) {
		a.step()
	}
	if a.ambig {
		a.c.raise(NeedsApproval, "has a program that is not understood")
	}
}

func (a *awkProgram) step() {
	ch := a.text[a.pos]
	switch {
	case ch == '"':
		a.last = `"` + a.str('"')
	case ch == '#':
		for a.pos < len(a.text) && a.text[a.pos] != '\n' {
			a.pos++
		}
	case ch == '/' && a.regexpNext():
		a.str('/')
		a.last = "/"
	case letter(ch):
		a.name()
	case ch == '\\':
		a.pos += 2 // with the end of the line
	case ch == ' ' || ch == '\t':
		a.pos++
	default:
		a.operator(ch)
	}
}

// regexpNext decides whether a slash begins a pattern: not after an operand. After a
// bracket it could be either.
func (a *awkProgram) regexpNext() bool {
	if a.last == ")" || a.last == "++" || a.last == "--" {
		a.ambig = true
	}
	if a.last == "" {
		return true
	}
	end := a.last[len(a.last)-1]
	return !(letter(end) || end == ')' || end == ']' || end == '$' || a.last[0] == '"') || awkKeywords[a.last]
}

var awkKeywords = set("print", "printf", "return", "in", "case", "getline", "BEGIN", "END", "else", "do")

// str skips a string or a pattern and returns what is in it.
func (a *awkProgram) str(end byte) string {
	start := a.pos + 1
	for a.pos++; a.pos < len(a.text) && a.text[a.pos] != end; a.pos++ {
		if a.text[a.pos] == '\\' {
			a.pos++
		}
		if a.pos < len(a.text) && (a.text[a.pos] == '\n' || end == '/' && a.text[a.pos] == '[') {
			a.ambig = true
		}
	}
	stop := min(a.pos, len(a.text))
	a.pos++
	return a.text[start:max(stop, start)]
}

func (a *awkProgram) name() {
	start := a.pos
	for a.pos < len(a.text) && letter(a.text[a.pos]) {
		a.pos++
	}
	name := a.text[start:a.pos]
	switch name {
	case "print", "printf":
		a.printed = a.depth
	case "system":
		a.command(a.peekString())
	case "getline":
		a.c.k.opaque = true
		a.input()
	case "ENVIRON", "PROCINFO", "SYMTAB":
		a.c.dispute("shows the environment")
	case "ARGV", "ARGC", "FUNCTAB":
		a.c.raise(NeedsApproval, "has a program that changes what it reads")
	}
	a.last = name
}

// command notes that the program runs a command.
func (a *awkProgram) command(text string) {
	if text == "" {
		a.c.smuggled(word{kind: anything})
		return
	}
	a.c.smuggled(unescape(text))
}

// peekString returns the string that comes next, after brackets; "" if there is none.
func (a *awkProgram) peekString() string {
	rest := strings.TrimLeft(a.text[a.pos:], " \t(")
	if !strings.HasPrefix(rest, `"`) {
		return ""
	}
	b := awkProgram{text: rest}
	s := b.str('"')
	if tail := strings.TrimLeft(rest[min(b.pos, len(rest)):], " \t"); tail != "" &&
		!strings.ContainsRune(");}\n", rune(tail[0])) {
		return "" // only a part of it
	}
	return s
}

// input looks at where getline reads from.
func (a *awkProgram) input() {
	i := strings.IndexAny(a.text[a.pos:], "<;}\n")
	if i < 0 || a.text[a.pos+i] != '<' {
		return
	}
	b := awkProgram{text: a.text, pos: a.pos + i + 1}
	s := b.peekString()
	if s == "" {
		a.c.raise(NeedsApproval, "reads a path that is not known")
		return
	}
	a.c.read(unescape(s))
}

func (a *awkProgram) operator(ch byte) {
	rest := a.text[a.pos:]
	width := 1
	switch {
	case strings.HasPrefix(rest, "||") || strings.HasPrefix(rest, "&&") || strings.HasPrefix(rest, "++") ||
		strings.HasPrefix(rest, "--"):
		width = 2
	case ch == '|':
		a.pipe()
	case ch == '>' && a.printed >= 0 && a.depth <= a.printed:
		if strings.HasPrefix(rest, ">>") {
			width = 2
		}
		a.pos += width
		a.output()
		a.last = ">"
		return
	case strings.HasPrefix(rest, ">=") || strings.HasPrefix(rest, "<="):
		width = 2
	case ch == '@':
		a.c.raise(NeedsApproval, "has a program that loads or calls what is not known")
	case ch == '(' || ch == '[':
		a.depth++
	case ch == ')' || ch == ']':
		a.depth--
	case ch == '\n' && (a.last == "," || a.last == "&&" || a.last == "||"): // the statement goes on
		a.pos++
		return
	case ch == ';' || ch == '\n' || ch == '{' || ch == '}':
		a.printed, a.depth = -1, 0
	}
	a.last = rest[:width]
	a.pos += width
}

// pipe notes a command that print writes to, or that getline reads from.
func (a *awkProgram) pipe() {
	switch {
	case a.printed >= 0:
		b := awkProgram{text: a.text, pos: min(a.pos+1, len(a.text))}
		if strings.HasPrefix(a.text[b.pos:], "&") {
			b.pos++
		}
		a.command(b.peekString())
	case strings.HasPrefix(a.last, `"`):
		a.command(a.last[1:])
	default:
		a.command("")
	}
}

func (a *awkProgram) output() {
	b := awkProgram{text: a.text, pos: a.pos}
	s := b.peekString()
	if s == "" {
		a.c.raise(NeedsApproval, "writes a path that is not known")
		return
	}
	a.c.write(unescape(s))
}
