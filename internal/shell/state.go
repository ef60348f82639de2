package shell

import (
	"maps"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// The known values of words and variables serve two purposes: to see that the operands of a
// command that only reads are paths inside, and to see how bad another one is. Where a value is
// not plain to see, it is not known, and the command asks.

// A kind says how much of a word is known.
type kind uint8

const (
	known    kind = iota
	digits        // text is a sample, in which unknown parts are made of digits
	glob          // names of files that match the pattern in text, or the pattern
	listing       // a path below the working directory without ".."; text is how it begins
	anything      // text is how it begins
)

// A word is an argument after expansion, or the value of a variable, or what a command
// prints.
type word struct {
	text   string
	kind   kind
	many   bool   // it may be several words, or none
	bare   bool   // a part of it is not quoted and may be a pattern
	nodash bool   // it does not begin with a dash, although its text does not tell
	env    bool   // it may show a variable of the environment
	net    bool   // it may hold what came from the network
	shared bool   // several commands read it
	gone   bool   // it may be nothing instead, as what a command that fails prints
	stem   bool   // it is a listing that ends within a name: .. may be left of ..a
	unset  string // what an unknown word is if its variables are not set; "" if that is not plain
	from   *word  // what the file of a process substitution holds
}

// dash reports whether the word may begin with a dash. A stranger's file name, or the value
// of a variable, that begins with a dash is an option to the program that gets it; unless
// the text shows otherwise, it may.
func (w word) dash() bool {
	switch {
	case w.many && w.kind >= listing: // another word may follow a space
		return !w.nodash
	case w.text == "":
		return w.kind > known && !w.nodash
	case w.kind == glob && strings.ContainsRune("*?[", rune(w.text[0])):
		return true
	case w.kind == digits && '0' <= w.text[0] && w.text[0] <= '9': // it may be less than zero
		return !w.nodash
	}
	return w.text[0] == '-'
}

// begins reports whether the word may begin with one of the characters.
func (w word) begins(chars string) bool {
	if w.kind == glob {
		chars += "*?["
	}
	return w.text == "" && w.kind > digits || w.text != "" && strings.IndexByte(chars, w.text[0]) >= 0
}

// literal reports whether the text is the word, or stands for it in every respect.
func (w word) literal() bool { return w.kind <= digits }

// then is the word followed by another without space.
func (w word) then(b word) word {
	switch {
	case w == (word{}):
		return b
	case b == (word{}):
		return w
	case len(w.text)+len(b.text) > maxScript: // x=$x$x doubles what it has
		return word{kind: anything, many: true, env: w.env || b.env, net: w.net || b.net}
	case w.gone: // of $x/etc the end may be left
		return word{kind: anything, many: w.many || b.many, env: w.env || b.env, net: w.net || b.net}
	case b.gone:
		return word{text: w.text, kind: anything, many: w.many || b.many, env: w.env || b.env, net: w.net || b.net}
	}
	r := word{
		text: w.text, kind: max(w.kind, b.kind), many: w.many || b.many, bare: w.bare || b.bare,
		nodash: w.nodash, env: w.env || b.env, net: w.net || b.net,
	}
	switch {
	case w.kind <= glob && b.kind <= glob:
		r.text += b.text
	case w.kind <= digits && b.kind >= listing:
		r.text += b.text
		r.nodash = !r.many && (w.text != "" && w.text[0] != '-' || w.text == "" && b.nodash)
		// Behind a dot, ./a begins with two. Behind a space it is a separate word for split.
		if strings.HasSuffix(w.text, ".") || strings.ContainsAny(w.text, blanks) {
			r.kind = anything
		}
	case w.stem && b.kind <= digits && b.text != "" && b.text[0] != '/' && stays(b.text):
		r.kind = listing
	case w.kind == listing && b.kind <= digits && stays(b.text):
	default:
		r.kind = anything
	}
	return r
}

// blanks are where unquoted values are split.
const blanks = " \t\n"

// stays reports whether a listed path is still one with the text behind it: one below the
// directory it was found in, that was not chosen to be a secret. find lists a dot for the
// directory itself, which becomes two by another dot.
func stays(text string) bool {
	return text == "\n" || !strings.Contains(text, "..") && !strings.HasSuffix(text, ".") &&
		!strings.HasPrefix(text, "./") && !strings.ContainsAny(text, blanks) && !secretGlob("*"+text) && !secretGlob(text)
}

// or is a word that is one of two. Both may be known, and the one is still not: what is
// said of it has to hold for each.
func (w word) or(b word) word {
	if w.text == b.text && w.kind == b.kind {
		w.env, w.net, w.many, w.bare = w.env || b.env, w.net || b.net, w.many || b.many, w.bare || b.bare
		w.nodash, w.stem, w.gone = w.nodash && b.nodash, w.stem && b.stem, w.gone || b.gone
		w.from = nil
		return w
	}
	r := word{kind: anything, many: w.many || b.many, gone: w.gone || b.gone, env: w.env || b.env, net: w.net || b.net}
	if numeric(w) && numeric(b) {
		r.kind, r.text, r.nodash = digits, "1", !w.dash() && !b.dash()
	}
	return r
}

// numeric reports whether a word is a number whatever else it may be, so that arithmetic
// on it runs nothing.
func numeric(w word) bool {
	return w.kind <= digits && w.text != "" && strings.Trim(w.text, "0123456789") == ""
}

// state is what is known at a point of the script.
type state struct {
	vars  map[string]word
	funcs map[string]*syntax.Stmt // those that are defined for sure
	dirs  []string                // where it may be; the first if all commands succeeded; none if not known
	args  []word                  // the positional parameters
	name  word                    // $0, which is any word behind the script of sh -c
	lost  bool                    // the positional parameters are not known
	stdin word
	went  []string // where it is if the last statement succeeded; none if that says nothing
	ends  bool     // what follows does not run
}

// start is the state at the beginning. A script that does not start in the workspace is
// never allowed. Only the variables that the script itself sets are known: those of the
// environment are not.
func (k *walker) start() *state {
	st := &state{vars: map[string]word{}, funcs: map[string]*syntax.Stmt{}, stdin: word{kind: anything}, name: word{text: "bash"}}
	if k.world.Dir != "" {
		st.dirs = []string{k.world.Dir}
	}
	if !k.inside(k.world.Dir) {
		k.dispute("starts outside of the workspace")
	}
	return st
}

// clone is for branches and subshells: what they change stays there.
func (s *state) clone() *state {
	c := *s
	c.vars, c.funcs = maps.Clone(s.vars), maps.Clone(s.funcs)
	c.dirs = slices.Clip(s.dirs)
	return &c
}

// succeeded is the state behind a statement that succeeded. cd a; cd b && ls runs ls in a/b or
// in b, and not where the script began.
func (s *state) succeeded() {
	if len(s.went) > 0 {
		s.dirs = s.went
	}
}

// join makes s what is known if the script came here by s or by b. A branch that ended the
// script does not come here. A variable that only one of them set may not be set at all, so
// not even its kind is kept unless it is a number.
func (s *state) join(b *state) {
	switch {
	case b.ends:
		return
	case s.ends:
		*s = *b
		return
	}
	for name, v := range s.vars {
		if w, ok := b.vars[name]; !ok || v != w {
			s.vars[name] = unsure(v).or(unsure(w))
		}
	}
	for name, w := range b.vars {
		if _, ok := s.vars[name]; !ok {
			s.vars[name] = unsure(w)
		}
	}
	for name, body := range s.funcs {
		if b.funcs[name] != body {
			delete(s.funcs, name)
		}
	}
	s.joinDirs(b)
	s.lost = s.lost || b.lost || !slices.Equal(s.args, b.args)
}

// unsure is a variable that may have another value.
func unsure(w word) word {
	if numeric(w) {
		return word{text: "1", kind: digits, gone: w.gone}
	}
	return word{kind: anything, many: true, env: w.env, net: w.net}
}

// joinDirs keeps the directory of b in front: joins are made with the branch that
// went well as b.
func (s *state) joinDirs(b *state) {
	if len(s.dirs) == 0 || len(b.dirs) == 0 {
		s.dirs = nil
		return
	}
	dirs := slices.Clone(b.dirs)
	for _, d := range s.dirs {
		if !slices.Contains(dirs, d) {
			dirs = append(dirs, d)
		}
	}
	// Each path is tried in every directory; a script that may be in more than four is
	// lost.
	if s.dirs = dirs; len(dirs) > 4 {
		s.dirs = nil
	}
}
