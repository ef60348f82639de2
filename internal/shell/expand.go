package shell

import (
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Words are expanded in the order of bash: braces, tilde, parameters and substitutions,
// splitting, patterns. The invariant is on the side of caution: a word is only known if bash
// cannot make another one of it, and whatever is not known says so by its kind, however
// likely a value is. The form of the script has already refused what cannot be expanded
// without running or setting something.

// An expander makes words of the syntax tree, and walks what runs on the way.
type expander struct {
	k  *walker
	st *state
}

// maxBraces bounds the words that a brace expansion makes. People write lists of a few
// names and ranges such as {1..20}. Expansions multiply: four of ten in one word would be
// ten thousand words to judge.
const maxBraces = 64

// list expands words as bash does for arguments: braces, variables, splitting. A word of
// the tree is several words of the command after {a,b}, and each of those may be several
// again after it is split, or none: an empty variable that is not quoted leaves no word at
// all.
func (x expander) list(ws []*syntax.Word) []word {
	var out []word
	for _, w := range ws {
		for _, b := range x.braces(w) {
			if l, ok := b.Parts[0].(*syntax.Lit); ok && l.Value == "" {
				continue // {,a} is one word
			}
			// A function that calls another with "$@" "$@" doubles its words, so each counts.
			f := x.fields(b)
			if x.k.steps += max(0, len(f)-1); x.k.steps > maxSteps {
				x.k.raise(NeedsApproval, "has too many steps")
				return []word{{kind: anything, many: true}}
			}
			out = append(out, f...)
		}
	}
	return out
}

// braces returns the words that brace expansion makes of one, if it is one that all
// shells read alike. The form of the script sees to it that there is no other.
func (x expander) braces(w *syntax.Word) []*syntax.Word {
	m := bracesAlike().FindStringSubmatch(w.Lit())
	if m == nil {
		return []*syntax.Word{w}
	}
	if x.k.lang == syntax.LangPOSIX {
		x.k.raise(NeedsApproval, "has braces that sh does not expand everywhere")
	}
	alternatives := strings.Split(m[2], ",")
	if from, to, ok := strings.Cut(m[2], ".."); ok && len(alternatives) == 1 {
		alternatives = nil
		a, _ := strconv.Atoi(from)
		b, _ := strconv.Atoi(to)
		// The order of the numbers does not matter here: each of them is judged.
		for n := min(a, b); n <= max(a, b); n++ {
			alternatives = append(alternatives, strconv.Itoa(n))
		}
	}
	if len(alternatives) > maxBraces {
		x.k.raise(NeedsApproval, "has a brace expansion that is too large")
		return []*syntax.Word{w}
	}
	var out []*syntax.Word
	for _, a := range alternatives {
		out = append(out, &syntax.Word{Parts: []syntax.WordPart{&syntax.Lit{Value: m[1] + a + m[4]}}})
	}
	return out
}

// single expands a word that is not split: a value, the target of a redirect, a pattern.
// Bash neither splits such a value nor looks for file names in it, so a star in it stays a
// star.
func (x expander) single(w *syntax.Word) word {
	if w == nil {
		return word{}
	}
	out := word{}
	if x.long(w.Parts) {
		return word{kind: anything}
	}
	for i, p := range w.Parts {
		out = x.add(out, p, i == 0)
	}
	out.bare, out.many = false, false
	return out
}

// long refuses a word of too many parts, which would take time that grows with the square.
func (x expander) long(parts []syntax.WordPart) bool {
	if len(parts) <= maxParts {
		return false
	}
	x.k.raise(NeedsApproval, "has a word of too many parts")
	return true
}

// add appends a part of a word as if it were quoted, or is a literal. In double quotes a
// space does not end the word and a star is a star, so what quoted returns is taken as it
// is.
func (x expander) add(w word, p syntax.WordPart, first bool) word {
	if q, ok := p.(*syntax.DblQuoted); ok {
		v := x.quoted(q)
		return w.then(v)
	}
	return w.then(x.part(p, first, false))
}

// fields expands a word that may become several.
func (x expander) fields(w *syntax.Word) []word {
	if !x.k.tick() || x.long(w.Parts) {
		return []word{{kind: anything, many: true}}
	}
	// "$@" is the one expansion that makes several words although it is quoted.
	if len(w.Parts) == 1 {
		if elems, ok := x.all(w.Parts[0]); ok {
			return x.spread(elems)
		}
	}
	var l words
	for i, p := range w.Parts {
		v := x.add(word{}, p, i == 0)
		// Only the result of an expansion is split, never the text around it: in a$x the
		// value may begin a new word, and the a before it never does.
		if expands(p) {
			parts, open := x.split(v)
			l.addAll(parts, open)
		} else {
			l.add(v)
		}
	}
	l.end()
	if len(l.done) == 1 && l.done[0].kind == anything {
		l.done[0].unset = x.unset(w.Parts)
	}
	return l.done
}

// unset is a word without its variables that are not known; "" if it has more than such
// variables and text. It is what rm -rf "$dir/" becomes if dir was never set: that is the
// case that deletes disks.
func (x expander) unset(parts []syntax.WordPart) string {
	var text strings.Builder
	for _, p := range parts {
		switch p := p.(type) {
		case *syntax.Lit:
			text.WriteString(p.Value)
		case *syntax.SglQuoted:
			text.WriteString(p.Value)
		case *syntax.DblQuoted:
			inner := x.unset(p.Parts)
			if inner == "" && !slices.ContainsFunc(p.Parts, func(p syntax.WordPart) bool { return x.unknownVar(p) }) {
				return ""
			}
			text.WriteString(inner)
		default:
			if !x.unknownVar(p) {
				return ""
			}
		}
	}
	return text.String()
}

// unknownVar reports whether a part is a variable whose value is not known, or what an operator
// makes of it, so that it may be empty: ${dir%/} is, and ${dir:-/tmp} and ${dir:?} are not.
func (x expander) unknownVar(p syntax.WordPart) bool {
	e, ok := p.(*syntax.ParamExp)
	if !ok || e.Param == nil || e.Excl || e.Length || e.Names != 0 {
		return false
	}
	if e.Exp != nil {
		switch e.Exp.Op {
		case syntax.ErrorUnset, syntax.ErrorUnsetOrNull:
			return false
		case syntax.DefaultUnset, syntax.DefaultUnsetOrNull, syntax.AssignUnset, syntax.AssignUnsetOrNull:
			if x.single(e.Exp.Word) != (word{}) {
				return false
			}
		}
	}
	v, _ := x.value(e.Param.Value)
	return v.kind == anything
}

// words collects the words that one becomes.
type words struct {
	done []word
	cur  word
	some bool // there is a current word, although it may be empty
}

// add appends to the current word.
func (l *words) add(v word) { l.cur, l.some = l.cur.then(v), true }

// addAll adds what an expansion was split into. The first joins the current word, and the
// last stays open for what follows. In x$v with the value "a b" the words are xa and b, and
// text behind $v would join b.
func (l *words) addAll(parts []word, open bool) {
	for i, v := range parts {
		if i > 0 {
			l.end()
		}
		if v.text != "" || v.kind > digits { // white space alone makes no word
			l.add(v)
		}
	}
	if open {
		l.end()
	}
}

// end finishes the current word, if there is one.
func (l *words) end() {
	if l.some {
		l.done = append(l.done, finish(l.cur))
	}
	l.cur, l.some = word{}, false
}

// spread is what "$@" makes of the elements. An element keeps its spaces and its stars:
// bash does not read it again.
func (x expander) spread(elems []word) []word {
	out := make([]word, len(elems))
	for i, e := range elems {
		e.bare = false
		out[i] = e
	}
	return out
}

// all returns the words of "$@".
func (x expander) all(part syntax.WordPart) ([]word, bool) {
	q, ok := part.(*syntax.DblQuoted)
	if !ok || len(q.Parts) != 1 {
		return nil, false
	}
	p, ok := q.Parts[0].(*syntax.ParamExp)
	if !ok || !plainParam(p) {
		return nil, false
	}
	if p.Param.Value == "@" && p.Index == nil {
		if x.st.lost {
			return []word{{kind: anything, many: true}}, true
		}
		return x.st.args, true
	}
	return nil, false
}

// split cuts an unquoted value at white space. The second result says that the last word
// ends there. Bash cuts at the characters of IFS, which are space, tab and newline unless
// the script sets it (bash(1), Word Splitting). White space around a value ends the words
// beside it.
func (x expander) split(v word) ([]word, bool) {
	if _, changed := x.st.vars["IFS"]; changed {
		return []word{{kind: anything, many: true, env: v.env, net: v.net}}, false
	}
	// Where the value ends is not known, and so neither is whether a dash begins one of its
	// words.
	if !v.literal() {
		v.many, v.bare, v.nodash = true, true, false // a name may have a space in it
		return []word{v}, false
	}
	var out []word
	if strings.HasPrefix(v.text, " ") || strings.HasPrefix(v.text, "\n") || strings.HasPrefix(v.text, "\t") {
		out = append(out, word{env: v.env})
	}
	for f := range strings.FieldsSeq(v.text) {
		w := v
		w.text, w.bare = f, strings.ContainsAny(f, `*?[\`)
		out = append(out, w)
	}
	return out, v.text != "" && strings.TrimRight(v.text, " \t\n") != v.text
}

// finish makes a pattern of a word that is one. A single bracket is the test command, not
// the beginning of a set.
func finish(w word) word {
	if w.bare && w.kind <= digits && w.text != "[" {
		w.kind = glob
	}
	return w
}

// part expands a part of a word that is not in double quotes.
func (x expander) part(p syntax.WordPart, first, quoted bool) word {
	switch p := p.(type) {
	case *syntax.Lit:
		return x.literal(p.Value, first)
	case *syntax.SglQuoted:
		if p.Dollar {
			return ansi(p.Value)
		}
		return word{text: p.Value}
	case *syntax.DblQuoted:
		return x.quoted(p)
	case *syntax.ParamExp:
		return x.param(p)
	case *syntax.CmdSubst:
		return x.substitute(p)
	case *syntax.ArithmExp:
		x.arith(p.X)
		// Which number it is does not matter but for its sign: no digit can be a path that leads
		// outside, or code.
		return word{text: "1", kind: digits}
	case *syntax.ProcSubst:
		content := x.k.stmts(p.Stmts, x.st.clone())
		return word{kind: listing, nodash: true, net: content.net, from: &content}
	}
	x.k.raise(NeedsApproval, "has a pattern that bash reads differently by its settings")
	return word{kind: anything, many: true}
}

// literal expands an unquoted text: backslashes, a leading tilde, patterns.
func (x expander) literal(s string, first bool) word {
	var b strings.Builder
	w := word{}
	// The manual has it for assignments only, but bash also expands of=~/x before dd sees it.
	if name, value, ok := strings.Cut(s, "="); first && ok && identifier(name) && strings.Contains(value, "~") {
		if strings.Contains(value, ":~") {
			return word{text: name + "=", kind: anything}
		}
		return word{text: name + "="}.then(x.literal(value, true))
	}
	if first && strings.HasPrefix(s, "~") {
		user, _, _ := strings.Cut(s, "/")
		// ~name is the home directory of another user, which only the system's list of
		// users can tell.
		if user != "~" || x.home() == "" {
			return word{text: "/" + s, kind: anything}
		}
		b.WriteString(x.home())
		s = s[1:]
	}
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\' && i+1 < len(s):
			i++
			if s[i] != '\n' {
				b.WriteByte(s[i])
			}
			continue
		case strings.IndexByte("*?[", c) >= 0:
			w.bare = true
		}
		b.WriteByte(s[i])
	}
	w.text = b.String()
	// Only an interactive shell expands it, but people paste scripts into one.
	if strings.Contains(s, "!!") {
		x.k.raise(NeedsApproval, "has a history expansion")
	}
	return w
}

// home is what a tilde and HOME stand for; "" if the script set that to something that is
// not known.
func (x expander) home() string {
	if v, ok := x.st.vars["HOME"]; ok {
		if v.kind == known {
			return v.text
		}
		return ""
	}
	return x.k.world.Home
}

// quoted expands a string in double quotes.
func (x expander) quoted(q *syntax.DblQuoted) word {
	w := word{}
	if q.Dollar {
		x.k.raise(NeedsApproval, "has a string that is translated")
	}
	if x.long(q.Parts) {
		return word{kind: anything}
	}
	for _, p := range q.Parts {
		w = w.then(x.inQuotes(p, `$"\`+"`"))
	}
	w.many, w.bare = slices.ContainsFunc(q.Parts, elements), false
	return w
}

// elements reports whether a part stays several words in quotes. It is "$@", "${x[@]}" or
// "${!x@}": in quotes, these are as many words as there are elements.
func elements(p syntax.WordPart) bool {
	e, ok := p.(*syntax.ParamExp)
	if !ok || e.Param == nil {
		return false
	}
	i, _ := e.Index.(*syntax.Word)
	return e.Param.Value == "@" || i != nil && i.Lit() == "@" || e.Names != 0
}

// inQuotes expands a part in which a backslash only escapes the given characters. In double
// quotes it escapes $, ", \ and a backquote, in a here-document the same without the quote.
// Before any other character it stays (bash(1), QUOTING).
func (x expander) inQuotes(p syntax.WordPart, escapes string) word {
	l, ok := p.(*syntax.Lit)
	if !ok {
		return x.part(p, false, true)
	}
	var b strings.Builder
	for i := 0; i < len(l.Value); i++ {
		if l.Value[i] == '\\' && i+1 < len(l.Value) {
			if l.Value[i+1] == '\n' {
				i++
				continue
			}
			if strings.IndexByte(escapes, l.Value[i+1]) >= 0 {
				i++
			}
		}
		b.WriteByte(l.Value[i])
	}
	return word{text: b.String()}
}

// heredoc expands the body of a here-document.
func (x expander) heredoc(r *syntax.Redirect) word {
	w := word{}
	if r.Hdoc == nil {
		return w
	}
	if strings.ContainsAny(source(r.Word), `"'\`) { // a quoted end: the body is literal
		return word{text: r.Hdoc.Lit()}
	}
	if x.long(r.Hdoc.Parts) {
		return word{kind: anything}
	}
	for _, p := range r.Hdoc.Parts {
		w = w.then(x.inQuotes(p, "$\\`"))
	}
	w.many = false
	return w
}

// source is a word as it was written, as far as its quotes count.
func source(w *syntax.Word) string {
	var s strings.Builder
	for _, p := range w.Parts {
		switch p := p.(type) {
		case *syntax.Lit:
			s.WriteString(p.Value)
		case *syntax.SglQuoted:
			s.WriteString("'" + p.Value + "'")
		case *syntax.DblQuoted:
			s.WriteString(`"`)
		}
	}
	return s.String()
}

// substitute walks a command substitution and returns what it prints.
func (x expander) substitute(c *syntax.CmdSubst) word {
	if c.TempFile || c.ReplyVar {
		x.k.raise(NeedsApproval, "is for another shell")
	}
	if !x.k.enter() {
		return word{kind: anything}
	}
	defer func() { x.k.depth-- }()
	inner := x.st.clone()
	var out word
	if s := c.Stmts; len(s) == 1 && s[0].Cmd == nil && len(s[0].Redirs) == 1 { // $(<file)
		cl := &call{k: x.k, st: inner}
		cl.redirects(s[0].Redirs)
		cl.done()
		out = word{kind: anything}
	} else {
		out = x.k.stmts(c.Stmts, inner)
	}
	out.from, out.gone = nil, out.gone || !x.prints(c.Stmts)
	if out.kind == known {
		out.text = strings.TrimRight(out.text, "\n")
	}
	return out
}

// prints reports whether a substitution is a builtin that does not fail.
func (x expander) prints(list []*syntax.Stmt) bool {
	if len(list) != 1 || len(list[0].Redirs) > 0 {
		return false
	}
	c, ok := list[0].Cmd.(*syntax.CallExpr)
	if !ok || len(c.Assigns) > 0 {
		return false
	}
	name := plainText(c.Args[0])
	return x.k.declared[name] == 0 && (name == "echo" || name == "printf" || name == "pwd" && len(c.Args) == 1)
}

// ansi decodes the escapes of $'…', echo -e and printf, as far as Go has them too.
func ansi(s string) word {
	var b strings.Builder
	for len(s) > 0 {
		if s[0] != '\\' {
			b.WriteByte(s[0])
			s = s[1:]
			continue
		}
		if len(s) > 1 && strings.IndexByte(`'"`, s[1]) >= 0 {
			b.WriteByte(s[1])
			s = s[2:]
			continue
		}
		r, multibyte, rest, err := strconv.UnquoteChar(s, 0)
		if err != nil || r == 0 {
			return word{text: b.String(), kind: anything}
		}
		if s = rest; multibyte {
			b.WriteRune(r)
		} else {
			b.WriteByte(byte(r))
		}
	}
	return word{text: b.String()}
}
