package shell

import (
	"slices"
	"strings"
)

// Programs of awk run unasked if they are in a small grammar of tokens: strings, plain
// patterns, numbers, fields, variables, the functions that only calculate, and operators.
// The invariant is that no token of it writes, runs or reads a file that is not an
// operand, in whatever awk: > is a comparison only where no print stands before it in the
// statement; a slash begins a pattern only where no awk could divide. Outside are getline,
// system, pipes, user functions, @, ENVIRON and the like. The rows come from POSIX awk, and
// from the manuals of gawk 5, mawk 1.3.4 and the one true awk.

// awk takes options only in front of the program: some awks take them behind it too, and
// would read another program from there. An operand with an equals sign sets a variable.
func awk(c *call, argv []word) {
	p := program{use: 'p', spec: "-F= -v= --field-separator= --assign= -f=a --file=a", first: true}
	o := c.options(p, plain(argv, 1))
	if len(o.operands) == 0 || o.has("-f", "--file") {
		c.raise(NeedsApproval, "runs a program that is not known")
		return
	}
	code, files := o.operands[0], o.operands[1:]
	a := awkProgram{text: code.text, last: "\n"}
	switch {
	case strings.Contains(code.text, "ENVIRON"):
		c.dispute("shows the environment")
		a.text = strings.ReplaceAll(code.text, "ENVIRON", "x")
		if code.kind > digits || !a.understood() {
			c.raise(Escalates, "has a program that may run or write something")
		}
	case code.kind > digits || !a.understood():
		c.raise(Escalates, "has a program that may run or write something")
	}
	for _, w := range o.all("-v", "--assign") {
		if name := before(w.text, "="); w.kind == anything && w.text == "" || !awkVariable(name) {
			c.raise(NeedsApproval, "sets a variable of awk that is not plain")
		}
	}
	if !slices.ContainsFunc(files, func(w word) bool { return !strings.Contains(w.text, "=") }) {
		c.consumes()
	}
	for _, w := range files {
		name, _, set := strings.Cut(w.text, "=")
		switch {
		case w.dash() && w.text != "-":
			c.raise(NeedsApproval, "has options behind its program, which some awks take")
		case set && !strings.Contains(name, "/") && !(w.kind <= digits && awkVariable(name)):
			c.raise(NeedsApproval, "sets a variable of awk that is not plain")
		case !set || strings.Contains(name, "/"): // awk takes ./x=1 for a file
			c.read(w)
		}
	}
}

var (
	awkKeywords = set("BEGIN", "END", "if", "else", "while", "for", "do", "break", "continue", "next", "exit",
		"delete", "in", "print", "printf")
	awkFunctions = set("length", "substr", "index", "split", "sub", "gsub", "match", "sprintf", "tolower", "toupper",
		"int", "sqrt", "exp", "log", "sin", "cos", "atan2", "rand", "srand", "strftime", "systime", "mktime", "gensub",
		"strtonum", "asort", "asorti", "and", "or", "xor", "lshift", "rshift", "compl")
	awkNames = set("NR", "NF", "FS", "OFS", "RS", "ORS", "FNR", "FILENAME", "SUBSEP", "RSTART", "RLENGTH", "CONVFMT",
		"OFMT", "IGNORECASE", "RT")
	// awkReserved are words that would be variables otherwise.
	awkReserved = set("getline", "system", "close", "fflush", "func", "function", "return", "extension", "nextfile",
		"switch", "case", "default")
	awkOperators = []string{"&&", "||", "++", "--", "+=", "-=", "*=", "/=", "%=", "^=", "==", "!=", "<=", ">=", "!~",
		"+", "-", "*", "/", "%", "^", "=", "<", ">", "!", "~", "?", ":", ",", ";", "{", "}", "(", ")", "[", "]", "$", "\n"}
	// awkOpens are the tokens after which a slash can only begin a pattern.
	awkOpens = set("\n", "{", "}", "(", ",", ";", "!", "~", "!~", "&&", "||")
)

// awkVariable reports whether a name is a plain variable of a program. Names in capital
// letters that are not in the table may be variables that some awk gives a meaning, as
// PROCINFO of gawk; single letters never are.
func awkVariable(name string) bool {
	return identifier(name) && (awkNames[name] || !awkReserved[name] && !awkKeywords[name] && !awkFunctions[name] &&
		strings.ToUpper(name) != name) || len(name) == 1 && identifier(name)
}

// awkProgram is a program of awk, and where in it we are.
type awkProgram struct {
	text  string
	pos   int
	last  string // the last token: an operator, a keyword, or "a" for an operand
	print bool   // a print stands in this statement
}

// understood reports whether the whole program is made of tokens of the grammar. Whether
// they make sense together is for awk to say.
func (a *awkProgram) understood() bool {
	for a.pos < len(a.text) {
		if !a.token() {
			return false
		}
	}
	return true
}

// token goes past the next token, and reports whether there was one that every awk ends
// in the same place.
func (a *awkProgram) token() bool {
	rest := a.text[a.pos:]
	switch ch := rest[0]; {
	case ch == ' ' || ch == '\t':
		a.pos++
		return true
	case ch == '#':
		n := strings.IndexByte(rest+"\n", '\n')
		a.pos += n
		// Some awks join a comment to the next line by a backslash.
		return !strings.Contains(rest[:n], `\`)
	case ch == '"':
		a.last = "a"
		return a.quoted()
	case ch == '/' && awkOpens[a.last]:
		a.last = "a"
		return a.pattern()
	case ch == '/' && a.last != "a" && a.last != "]":
		return false // a pattern for some, a division for others
	case '0' <= ch && ch <= '9' || ch == '.':
		return a.number()
	case letter(ch):
		return a.name()
	}
	return a.operator(rest)
}

// number skips digits. Letters right after them begin a new word in awk. So 1e5 is one
// number for some awks and two words for others, and is not admitted.
func (a *awkProgram) number() bool {
	for a.pos < len(a.text) && strings.IndexByte("0123456789.", a.text[a.pos]) >= 0 {
		a.pos++
	}
	a.last = "a"
	return a.pos == len(a.text) || !letter(a.text[a.pos])
}

// quoted goes past a string. One that goes on in the next line ends there for some awks.
func (a *awkProgram) quoted() bool {
	for a.pos++; a.pos < len(a.text); a.pos++ {
		switch a.text[a.pos] {
		case '"':
			a.pos++
			return true
		case '\n':
			return false
		case '\\':
			if a.pos++; a.pos < len(a.text) && a.text[a.pos] == '\n' {
				return false
			}
		}
	}
	return false
}

// pattern is what stands between slashes, as in sed. In a bracket a slash does not end it
// for some awks, so such a pattern is not admitted.
func (a *awkProgram) pattern() bool {
	s := sedScript{text: a.text, pos: a.pos}
	ok := s.part('/', true)
	a.pos = s.pos
	return ok
}

// name goes past a word: a keyword, a function that only calculates, or a variable. A
// variable before a bracket would be a function of the program or of a library.
func (a *awkProgram) name() bool {
	start := a.pos
	for a.pos < len(a.text) && letter(a.text[a.pos]) {
		a.pos++
	}
	name := a.text[start:a.pos]
	calls := strings.HasPrefix(a.text[a.pos:], "(")
	a.last = "a"
	switch {
	case awkKeywords[name]:
		a.last = name
		a.print = a.print || name == "print" || name == "printf"
		return true
	case awkFunctions[name]:
		a.last = name // no awk agrees with all others what a slash is behind length
		return calls || name == "length"
	}
	return !calls && awkVariable(name)
}

// operator goes past an operator, and reports whether it may stand there: after a print,
// > writes to a file, also where spaces or line ends are between.
func (a *awkProgram) operator(rest string) bool {
	i := slices.IndexFunc(awkOperators, func(op string) bool { return strings.HasPrefix(rest, op) })
	if i < 0 {
		return false // |, &, @, a backslash and what no awk knows
	}
	op := awkOperators[i]
	a.pos += len(op)
	a.last = op
	switch op {
	case ";", "{", "}":
		a.print = false
	case ">":
		return !a.print && !strings.HasPrefix(rest, ">>")
	case ">=":
		return !a.print
	case "++", "--":
		a.last = "++"
	case ")":
		a.last = ")"
	}
	return true
}
