package line

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/aycoder/aycoder/internal/cli/tty"
)

// A vi is the state of the vi keys. In insert mode, most keys are those of Emacs. In normal
// mode, characters make a command: an optional count, an operator, another count, and a
// motion or an object.
type vi struct {
	insert   bool
	command  []tty.Key // typed so far
	register string
	lines    bool // the register has whole lines

	find   rune // of the last f, t, F or T, for ; and ,
	findBy rune

	change  []tty.Key // the last change, for .
	record  []tty.Key // the keys of a change that is being made
	playing bool
}

// reset begins a mode, and drops the keys recorded for the dot.
func (v *vi) reset(insert bool) { v.insert, v.command, v.record = insert, nil, nil }

// viKey reports whether a key was for vi.
func (e *Editor) viKey(k tty.Key) bool {
	if e.vi.insert {
		return e.viInsertKey(k)
	}
	switch {
	case k.Name == tty.Esc:
		if len(e.vi.command) == 0 {
			return false
		}
		e.vi.command = nil
		return true
	case k.Name == tty.Backspace:
		k = tty.Key{Rune: 'h'}
	case k.Ctrl && k.Rune == 'r', !k.Printable():
		return false
	}
	e.vi.command = append(e.vi.command, k)
	if e.viCommand(parse(e.vi.command)) {
		e.vi.command = nil
	}
	return true
}

// viInsertKey records what is typed for the dot, and ends insert mode with Esc.
func (e *Editor) viInsertKey(k tty.Key) bool {
	v := &e.vi
	if v.record != nil && !v.playing && len(v.record) < 1000 {
		v.record = append(v.record, k)
	}
	if k.Name != tty.Esc {
		return false
	}
	v.insert = false
	if v.record != nil && !v.playing {
		v.change, v.record = v.record, nil
	}
	if e.at > e.lineStart(e.at) {
		e.at = e.prev(e.at)
	}
	return true
}

// A command is a parsed command of normal mode.
type command struct {
	keys  []tty.Key
	count int  // 0 if there is none
	op    rune // d, c, y or 0
	verb  rune // a motion, a command, or 'i' and 'a' for an object
	arg   rune // of f, t, r and of an object
	whole bool // nothing is missing
}

func (c command) times() int { return max(c.count, 1) }

// maxCount bounds the work of a command.
const maxCount = 10_000

func parse(keys []tty.Key) command {
	c := command{keys: keys}
	outer := 0
	for _, k := range keys {
		r := k.Rune
		switch {
		case c.verb != 0:
			c.arg = r
		case r >= '1' && r <= '9' || r == '0' && c.count > 0:
			c.count = min(c.count*10+int(r-'0'), maxCount)
		case c.op == 0 && strings.ContainsRune("dcy", r):
			c.op, outer, c.count = r, c.count, 0
		default:
			c.verb = r
		}
	}
	if outer > 0 {
		c.count = min(outer*max(c.count, 1), maxCount)
	}
	needsArg := strings.ContainsRune("fFtTr", c.verb) || c.op != 0 && strings.ContainsRune("ia", c.verb)
	c.whole = c.verb != 0 && (!needsArg || c.arg != 0)
	return c
}

// shorthands are the operators and motions that some commands stand for.
var shorthands = map[rune]string{'x': "dl", 'X': "dh", 's': "cl", 'S': "cc", 'D': "d$", 'C': "c$", 'Y': "yy"}

// viCommand runs a command, and reports whether it was complete.
func (e *Editor) viCommand(c command) bool {
	if !c.whole {
		return false
	}
	e.doing = ""
	before := e.text
	keys := append([]tty.Key(nil), c.keys...)
	if long := shorthands[c.verb]; long != "" && c.op == 0 {
		c.op, c.verb = rune(long[0]), rune(long[1])
	}
	switch v := &e.vi; {
	case strings.ContainsRune("fFtT", c.verb):
		v.find, v.findBy = c.arg, c.verb
	case c.verb == ';' && v.find != 0:
		c.arg, c.verb = v.find, v.findBy
	case c.verb == ',' && v.find != 0:
		c.arg, c.verb = v.find, v.findBy^('a'^'A')
	}
	switch {
	case c.op != 0:
		e.viOperate(c)
	case c.verb == '.':
		e.viRepeat(c)
		return true
	case e.viEdit(c):
	default:
		if to, ok := e.viMotion(c); ok {
			e.at = to
		}
	}
	e.viNote(keys, before, c)
	if !e.vi.insert && e.at == e.lineEnd(e.at) && e.at > e.lineStart(e.at) {
		e.at = e.prev(e.at)
	}
	return true
}

// viNote keeps a change for the dot.
func (e *Editor) viNote(keys []tty.Key, before string, c command) {
	v := &e.vi
	switch {
	case v.playing || c.verb == 'u':
	case v.insert:
		v.record = keys
	case e.text != before:
		v.change = keys
	}
}

// viRepeat does the last change again.
func (e *Editor) viRepeat(c command) {
	v := &e.vi
	v.command, v.playing = nil, true
	defer func() { v.playing = false }()
	for range min(c.times(), 100) {
		for _, k := range v.change {
			if !e.viKey(k) && v.insert {
				e.plainKey(k)
			}
		}
	}
	v.reset(false)
	e.event = Event{}
}

// viOperate runs an operator.
func (e *Editor) viOperate(c command) {
	from, to, lines, ok := e.viRange(c)
	if !ok {
		return
	}
	e.vi.register, e.vi.lines = e.text[from:to], lines
	if lines {
		e.vi.register = strings.Trim(e.vi.register, "\n")
	}
	switch c.op {
	case 'y':
		if !lines {
			e.at = from
		}
	case 'd':
		e.save("")
		e.remove(from, to)
		if lines {
			e.at = e.lineStart(e.at)
		}
	case 'c':
		e.save("")
		e.remove(from, to)
		e.vi.reset(true)
		e.doing = typing // which is undone together
	}
}

// viEdit runs a command without an operator that is not a motion.
func (e *Editor) viEdit(c command) bool {
	switch c.verb {
	case 'p', 'P':
		e.viPut(c)
	case 'u':
		for range c.times() {
			e.undo()
		}
	case 'r', '~':
		e.viReplace(c)
	case 'J':
		e.viJoin()
	default:
		return e.viStartInsert(c.verb)
	}
	return true
}

// viStartInsert runs the commands that begin insert mode.
func (e *Editor) viStartInsert(verb rune) bool {
	start, end := e.lineStart(e.at), e.lineEnd(e.at)
	switch verb {
	case 'i':
	case 'a':
		e.at = min(e.nextOrEnd(e.at), end)
	case 'I':
		e.at = end - len(strings.TrimLeft(e.text[start:end], " \t"))
	case 'A':
		e.at = end
	case 'o', 'O':
		e.save("")
		e.at = end
		if verb == 'O' {
			e.at = start
		}
		e.insert("\n")
		if verb == 'O' {
			e.at = start
		}
		e.doing = typing
	default:
		return false
	}
	e.vi.reset(true)
	return true
}

// viPut inserts the register behind the cursor, or in front of it.
func (e *Editor) viPut(c command) {
	v := &e.vi
	if v.register == "" {
		return
	}
	e.save("")
	text := strings.Repeat(v.register, min(c.times(), 1+maxFile/len(v.register)))
	switch {
	case v.lines && c.verb == 'p':
		at := e.lineEnd(e.at)
		e.at = at
		e.insert("\n" + v.register)
		e.at = at + 1
	case v.lines:
		at := e.lineStart(e.at)
		e.at = at
		e.insert(v.register + "\n")
		e.at = at
	default:
		if c.verb == 'p' {
			e.at = min(e.nextOrEnd(e.at), e.lineEnd(e.at))
		}
		e.insert(text)
		e.at = e.prev(e.at)
	}
}

// viReplace replaces characters by another one, or changes their case.
func (e *Editor) viReplace(c command) {
	end := e.at
	for range c.times() {
		end = min(e.nextOrEnd(end), e.lineEnd(e.at))
	}
	if end == e.at {
		return
	}
	e.save("")
	at, new := e.at, ""
	for rest := e.remove(e.at, end); rest != ""; {
		n, _ := tty.Next(rest)
		new += replaced(rest[:n], c)
		rest = rest[n:]
	}
	e.insert(new)
	if c.verb == 'r' {
		e.at = max(at, e.prev(e.at))
	}
}

func replaced(part string, c command) string {
	if c.verb == 'r' {
		return sanitize(string(c.arg))
	}
	r, n := utf8.DecodeRuneInString(part)
	if unicode.IsUpper(r) {
		return string(unicode.ToLower(r)) + part[n:]
	}
	return string(unicode.ToUpper(r)) + part[n:]
}

func (e *Editor) viJoin() {
	end := e.lineEnd(e.at)
	if end == len(e.text) {
		return
	}
	e.save("")
	rest := strings.TrimLeft(e.text[end+1:], " \t")
	e.text = e.text[:end] + " " + rest
	e.at = end
}
