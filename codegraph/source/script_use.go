package source

import (
	"cmp"
	"math"
)

// The names that a file uses are counted in two steps, since a function may use a name before it declares it:
// the tokens become a list of uses and of the begins and ends of scopes, and then the uses count for which
// no scope around them declares the name. Scopes are functions and blocks, not the file itself.

// A scriptUse is a use of a name, or the begin or the end of a scope, whose number is then the name.
type scriptUse struct{ of, name int32 }

const (
	scopeBegins = -1
	scopeEnds   = -2
)

// A scriptScope is a scope that is open.
type scriptScope struct {
	number int32
	end    int // the token after it, if known
	from   int // else the first token that may end it
	depth  int // the brackets around it, if it ends with an expression or a statement
}

type scriptUses struct {
	*scriptScan
	nameTable
	uses       []scriptUse
	scopes     []scriptScope
	local      [][]int32 // by the number of a scope, what it declares
	depth      int       // the brackets that are open
	binding    int       // the brackets around the declaration of variables that was begun last
	typedArrow int       // the last arrow that stands behind a parenthesis, perhaps with a type between
	room       int       // how many tokens typed may still look at, so that the time stays linear
}

// use finds the uses of the file.
func (s *scriptScan) use() {
	u := &scriptUses{scriptScan: s, nameTable: newNameTable(0), binding: -1, room: 1000 + 8*len(s.tokens)}
	for i := 0; i < len(s.tokens); i++ {
		u.leave(i)
		i = u.look(i)
		if s.tokens[i].opens() {
			u.depth++
		}
	}
	s.f.Uses = u.count()
}

// id returns the number of a name.
func (u *scriptUses) id(i int) int32 {
	t := u.tok(i)
	return u.nameTable.id(u.src[t.start:t.end])
}

// enter begins a scope. It ends with the token before end or, if that is 0, with the expression or statement.
//
//go:noinline
func (u *scriptUses) enter(end int) {
	if end == 0 {
		end = math.MaxInt
	}
	n := int32(len(u.local))
	u.local = append(u.local, nil)
	u.scopes = append(u.scopes, scriptScope{n, end, 0, u.depth})
	u.uses = append(u.uses, scriptUse{scopeBegins, n})
}

// leave ends the scopes that end before a token.
func (u *scriptUses) leave(i int) {
	t := &u.tokens[i]
	closes := t.closes()
	for n := len(u.scopes) - 1; n >= 0; n-- {
		top := u.scopes[n]
		open := top.end == math.MaxInt && i >= top.from
		if i < top.end && !(open && (closes && top.depth >= u.depth || top.depth >= u.depth && (t.op == ',' || t.op == ';' || u.breaks(i)))) {
			break
		}
		u.scopes = u.scopes[:n]
		u.uses = append(u.uses, scriptUse{scopeEnds, top.number})
	}
	if closes && u.depth > 0 {
		u.depth--
	}
}

// declareName says that the innermost scope declares the name that a token is, and that the token is not a use.
func (u *scriptUses) declareName(i int) {
	if u.tok(i).kind != scriptName {
		return
	}
	u.tokens[i].kind = scriptLabel
	if n := len(u.scopes); n > 0 {
		in := u.scopes[n-1].number
		u.local[in] = append(u.local[in], u.id(i))
	}
}

// look looks at a token, and returns the last one that it is done with.
func (u *scriptUses) look(i int) int {
	t := &u.tokens[i]
	switch {
	case t.kind == scriptWord:
		return u.keyword(i)
	case t.kind == scriptName:
		return u.nameAt(i)
	case t.op == '(':
		u.parenthesis(i)
	case t.op == '{':
		u.enter(u.after(i))
	case t.op == ',' && u.depth == u.binding && u.beginsDeclarator(i+1):
		u.bindings(i + 1)
	case t.op == ';' && u.depth == u.binding:
		u.binding = -1
	case t.op == '<' && u.tok(u.typeParameters(i)).op == '(' && (!u.tok(i-1).ends() || u.tok(i-1).kind == scriptLabel):
		u.enter(0) // of a method or an arrow function
		u.scopes[len(u.scopes)-1].from = u.typeParameters(i)
		u.typeNames(i)
	case t.op == '[' && u.isWord(i+2, "in"): // a mapped type
		u.declareName(i + 1)
	}
	return i
}

// keyword looks at what a keyword begins.
func (u *scriptUses) keyword(i int) int {
	next := u.tok(i + 1)
	switch u.tokens[i].word {
	case wordImport:
		if next.op != '(' && next.op != '.' {
			return max(u.statementEnd(i)-1, i)
		}
	case wordExport:
		if next.op == '*' || next.op == '{' {
			return max(u.statementEnd(i)-1, i)
		}
	case wordBind:
		u.binding = u.depth
		u.bindings(i + 1)
	case wordBlock:
		if u.isWord(i, "class") {
			return u.classHead(i)
		}
	case wordOther:
		switch {
		case u.isWord(i, "function"):
			return u.functionHead(i)
		case u.isWord(i, "enum"):
			u.declareName(i + 1)
		}
	}
	return i
}

// bindings declares what a declaration of variables declares.
func (u *scriptUses) bindings(i int) {
	for i < len(u.tokens) {
		switch t := u.tok(i); {
		case t.op == '{' || t.op == '[':
			u.patternNames(i, u.declareName)
			i = u.after(i)
		default:
			u.declareName(i)
			i++
		}
		if u.tok(i).op != ',' || !u.beginsDeclarator(i+1) { // one after a value is found when it is reached
			return
		}
		i++
	}
}

// functionHead begins the scope of a function at its keyword.
func (u *scriptUses) functionHead(i int) int {
	name, params := u.functionName(i)
	u.declareName(name)
	open := u.typeParameters(params)
	if u.tok(open).op != '(' {
		return params - 1
	}
	end, _ := u.signature(open)
	u.enter(max(end, open+1))
	u.typeNames(params)
	u.parameters(open)
	return params - 1
}

// classHead begins the scope of a class, an interface or a type at its first word.
func (u *scriptUses) classHead(i int) int {
	if u.tok(i+1).kind != scriptName {
		return i
	}
	u.declareName(i + 1)
	if u.tok(i+2).op == '<' {
		end := 0
		if !u.isWord(i, "type") {
			end = u.after(u.heritage(u.typeParameters(i + 2)))
		}
		u.enter(end)
		u.typeNames(i + 2)
	}
	return i + 1
}

// heritage returns the brace of a class or interface, from the token after its name and type parameters, or the token
// that shows that there is none. It does not look far.
func (u *scriptUses) heritage(i int) int {
	for far := i + 200; i < far && i < len(u.tokens)-1; i = u.after(i) {
		t, before := &u.tokens[i], u.tok(i-1)
		switch {
		case t.op == ';' || t.op == '}' || t.op == '{' && before.ends():
			return i
		case t.word == wordBlock || t.kind == scriptName && before.ends() && !u.isWord(i, "implements"):
			return i
		}
	}
	return min(i, len(u.tokens)-1)
}

// typeNames declares type parameters.
func (u *scriptUses) typeNames(i int) {
	end := u.typeParameters(i)
	for j := i + 1; j < end; j = max(u.typeParameters(j), u.after(j)) {
		if op := u.tok(j - 1).op; j == i+1 || op == ',' || u.isWord(j-1, "const") || u.isWord(j-1, "in") || u.isWord(j-1, "out") {
			u.declareName(j)
		}
	}
}

// parenthesis begins a scope if the parenthesis is that of parameters or of a statement that declares names.
func (u *scriptUses) parenthesis(i int) {
	before, end := u.tok(i-1), u.after(i)
	next := u.tok(end)
	switch {
	case before.word == wordControl:
		if next.op == '{' {
			end = u.after(end)
		} else {
			end = 0
		}
		u.enter(end)
	case u.isWord(i-1, "catch") && next.op == '{':
		u.enter(u.after(end))
		u.parameters(i)
	case next.op == opArrow:
		u.arrowScope(end, i)
	case next.op == '{' && (before.kind == scriptName || before.kind == scriptLabel || before.kind == scriptString || before.op == ']' || before.op == '>' || before.kind == scriptWord && u.keyPosition(i-1)):
		u.enter(u.after(end))
		u.parameters(i)
	case next.op == ':' && u.tok(i-1).op != '?':
		u.typed(i, end)
	}
}

// typed begins a scope at parameters after which a type follows: those of an arrow function or of a method.
func (u *scriptUses) typed(i, colon int) {
	name := u.tok(i - 1)
	if name.op == '>' && name.match > 0 {
		name = u.tok(int(name.match) - 1)
	}
	if u.room > 0 && (name.kind == scriptLabel || name.kind == scriptWord && u.keyPosition(i-1)) {
		end := u.typeEnd(colon + 1)
		u.room -= end - colon
		if u.tok(end).op == '{' {
			end = u.after(end)
		}
		u.enter(end)
		u.parameters(i)
	} else if arrow := u.arrow(colon + 1); u.tok(arrow).op == opArrow {
		u.arrowScope(arrow, i)
	}
}

// arrowScope begins the scope of an arrow function, whose parameters are in a parenthesis.
func (u *scriptUses) arrowScope(arrow, open int) {
	u.enter(u.arrowEnd(arrow))
	u.parameters(open)
	u.typedArrow = arrow
}

// parameters declares the parameters in a parenthesis.
func (u *scriptUses) parameters(open int) {
	end := min(int(u.tokens[open].match), len(u.tokens))
	for i := open + 1; i < end; i++ {
		i = u.decorators(i)
		for u.memberModifier(i) || u.tok(i).op == opSpread {
			i++
		}
		if op := u.tok(i).op; op == '{' || op == '[' {
			u.patternNames(i, u.declareName)
		} else {
			u.declareName(i)
		}
		for i < end && u.tokens[i].op != ',' {
			i = max(u.typeParameters(i), u.after(i))
		}
	}
}

// keyPosition reports whether a token stands where the name of a property or a member can begin, perhaps
// after a few modifiers.
func (u *scriptUses) keyPosition(i int) bool {
	for range 4 {
		switch u.tok(i - 1).op {
		case '{', ',', ';', '}', '[':
			return true
		case ')':
			return u.tok(i).newline
		}
		if u.breaks(i) {
			return true
		}
		if u.tok(i-1).op != '*' && !u.memberModifier(i-1) {
			return false
		}
		i--
	}
	return false
}

// nameAt looks at a name, and returns the last token that belongs to it.
func (u *scriptUses) nameAt(i int) int {
	next := u.tok(i + 1)
	switch {
	case u.tok(i-1).op == '.' || u.tok(i-1).op == opChain:
		return i
	case next.op == opArrow && i+1 != u.typedArrow:
		u.enter(u.arrowEnd(i + 1))
		u.declareName(i)
		return i
	case u.isKey(i):
		u.tokens[i].kind = scriptLabel
		return i
	case next.kind == scriptName || next.kind == scriptWord || next.kind == scriptString || next.op == '{' || next.op == '[':
		if j, ok := u.contextualWord(i); ok {
			return j
		}
	}
	u.usedAt(i)
	return i
}

func (u *scriptUses) arrowEnd(arrow int) int {
	if u.tok(arrow+1).op == '{' {
		return u.after(arrow + 1)
	}
	return 0
}

// isKey reports whether a name is that of a property or member, or a label.
func (u *scriptUses) isKey(i int) bool {
	next := u.tok(i + 1)
	if next.op == '?' && u.tok(i+2).op == ':' || next.op == '?' && u.tok(i+2).op == '(' {
		next = u.tok(i + 2)
	}
	switch {
	case next.op == ':':
		return u.keyPosition(i)
	case next.op == '(' || next.op == '<':
		open := u.typeParameters(i + 1)
		if u.tok(open).op != '(' || !u.keyPosition(i) {
			return false
		}
		after := u.tok(u.after(open)).op
		return after == '{' || after == ':'
	}
	return false
}

// contextualWord looks at a name that may be a keyword where it stands.
func (u *scriptUses) contextualWord(i int) (int, bool) {
	switch u.textOf(i) {
	case "interface", "type":
		if u.tok(i+1).kind == scriptName && !u.tok(i+1).newline {
			return u.classHead(i), true
		}
	case "namespace", "module":
		u.declareName(i + 1)
		return i, true
	case "infer":
		u.declareName(i + 1)
		return i, true
	case "as", "satisfies", "keyof", "readonly", "of", "is", "asserts", "async", "from", "static", "get", "set", "declare", "abstract",
		"global", "public", "private", "protected", "override", "implements", "unique", "accessor", "yield":
		return i, true
	}
	return i, false
}

// usedAt counts a name, with the one after its dot.
func (u *scriptUses) usedAt(i int) {
	dot := i + 1
	if u.tok(dot).op == '!' {
		dot++
	}
	if op := u.tok(dot).op; op == '.' || op == opChain {
		if k := u.tok(dot + 1).kind; k == scriptName || k == scriptWord {
			u.uses = append(u.uses, scriptUse{u.id(i), u.id(dot + 1)})
			return
		}
	}
	switch u.textOf(i) {
	case "string", "number", "boolean", "any", "unknown", "never", "undefined", "bigint", "object", "symbol":
		if u.tok(i+1).op != '(' {
			return
		}
	}
	u.uses = append(u.uses, scriptUse{0, u.id(i)})
}

// count counts the uses of names that no scope around them declares.
func (u *scriptUses) count() []Use {
	active := make([]int32, len(u.names))
	counts := newUseCount(len(u.names))
	for _, use := range u.uses {
		switch use.of {
		case scopeBegins:
			for _, id := range u.local[use.name] {
				active[id]++
			}
		case scopeEnds:
			for _, id := range u.local[use.name] {
				active[id]--
			}
		default:
			if active[cmp.Or(use.of, use.name)] == 0 {
				counts.add(key(use.of, use.name), 1)
			}
		}
	}
	return counts.uses(u.names)
}
