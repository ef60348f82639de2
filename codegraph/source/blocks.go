package source

import (
	"slices"
)

// A dialect says how a language of braces and semicolons declares things.
type dialect struct {
	*grammar
	// types are the keywords that can stand directly before a name that they declare: int, const.
	types map[string]bool
	// dotted says that a name after a dot is looked up in what is before it, as in Java. Elsewhere it is
	// a member of a value, of which nothing is known without types, and only :: is followed.
	dotted bool
	// paths says that a use is of the whole path, as in Rust.
	paths bool
	// directives says that there is a preprocessor.
	directives bool
	// declare adds what the head of b declares to the facts, and says what the block is that begins
	// there, if end is {. If that is a value, it adds nothing yet.
	declare func(b *blocks, end byte) block
}

// A block says what is between braces.
type block uint8

const (
	code        block = iota // statements, which are the body of what was declared
	fields                   // something without declarations of interest, which ends the declaration
	value                    // a part of a value: the declaration goes on behind it
	members                  // declarations
	enumerators              // names with commas between them
)

// A frame is a block with declarations that is being read.
type frame struct {
	block  block
	decl   int32    // what it belongs to, or -1
	parent int32    // the Parent of the declarations in it
	impl            // of what they are an implementation
	start  int32    // where the declaration of the block begins
	head   []ctoken // in C, what was before the block; names may follow behind it
}

// An impl says what the declarations in an impl of Rust, or in a trait, have in common.
type impl struct {
	of     string // the type
	public bool   // all are exported
}

// blocks reads declarations and uses, of a language in which a declaration ends with a semicolon or a block
// in braces.
//
// The tokens up to there, outside of parentheses, are its head. From the head alone, the language says
// what is declared and what is in the braces: if it is code, all up to the matching brace is skipped but for
// the names in it; if it is declarations, they are read in the same way.
type blocks struct {
	*clexer
	*dialect
	*tally
	f *Facts

	head  []ctoken
	start int32 // where the current declaration begins, or -1 before its first token or comment
	open  []frame
	tail  int32 // the declaration of the block before the names in head, or -1
	depth int   // of the braces in code
	inner impl  // of the block that begins

	valued bool      // the head has the block of a value, and so the next one is that of a value too
	inits  bool      // unless it is that of a constructor of C++, behind the values of members
	params candidate // the function of C in the old style whose parameters are being declared
	looked int       // how much of the head was looked at for that

	chain    chain
	comments int32 // the end of the last comment before a declaration
	last     int32 // the end of the last declaration, and of the comments in its line
	cpp      conditions
}

// maxHead bounds the tokens of a head that are kept. Of a longer one, the first say what is declared, and the last one
// where it ends.
const maxHead = 1 << 14

// maxNesting bounds how many blocks of declarations can be in each other. Deeper ones are read as code.
const maxNesting = 100

func scanBlocks(f *Facts, src []byte, from int32, d *dialect) {
	b := &blocks{clexer: lex(d.grammar, src), dialect: d, tally: newTally(0), f: f, start: -1, tail: -1}
	b.tok.End = max(b.tok.End, from)
	b.open = []frame{{block: members, decl: -1, parent: -1}}
	b.run()
	for _, fr := range slices.Backward(b.open) {
		b.closeDecl(b.tail, b.tok.End)
		b.tail = fr.decl
	}
	b.chain.flush(b, ctoken{})
	f.Decls, f.Uses = named(f.Decls), b.uses()
}

// named leaves out the declarations without a name: structs that no variable follows. Their members belong to the
// declaration around them.
func named(decls []Decl) []Decl {
	at, kept := make([]int32, len(decls)), decls[:0]
	for i, d := range decls {
		if d.Parent >= 0 {
			d.Parent = at[d.Parent]
		}
		at[i] = d.Parent
		if d.Name != "" {
			at[i] = int32(len(kept))
			kept = append(kept, d)
		}
	}
	return kept
}

func (b *blocks) run() {
	for b.read() {
		switch c := b.tok.op; {
		case c == '(' || c == '[':
			b.group()
		case c == '{':
			b.brace()
		case c == '}':
			b.pop()
		case c == ';' && b.oldStyle():
			b.push()
		case c == ';' || c == ',' && b.top().block == enumerators:
			b.finish(b.tok.End)
		default:
			b.push()
		}
	}
}

func (b *blocks) top() *frame { return &b.open[len(b.open)-1] }

// word reports whether a token is this text.
//
//go:noinline
func (b *blocks) word(t ctoken, text string) bool { return string(b.src[t.Start:t.End]) == text }

// read reads the next token that is neither a comment nor a directive, and notes what it uses.
func (b *blocks) read() bool {
	for !b.full(b.f) && b.next() {
		switch {
		case b.tok.Kind == Comment:
			b.comment()
		case b.directives && b.src[b.tok.Start] == '#' && startsLine(b.src, int(b.tok.Start)):
			b.directive()
		case b.cpp.dead == 0:
			b.chain.add(b, b.tok)
			return true
		}
	}
	return false
}

// startsLine reports whether there is only white space before a position in its line.
func startsLine(src []byte, i int) bool {
	for i > 0 && (src[i-1] == ' ' || src[i-1] == '\t') {
		i--
	}
	return i == 0 || src[i-1] == '\n' || src[i-1] == '\r'
}

// comment takes a comment as documentation of the next declaration if it is directly before it: not at
// the end of a line with something else, and not followed by an empty line.
func (b *blocks) comment() {
	if len(b.head) > 0 || b.paths && hasPrefix(b.src[b.tok.Start:], "//!") {
		return
	}
	if b.start < 0 && b.last > 0 && b.newlines(b.last, b.tok.Start) == 0 {
		if b.newlines(b.tok.Start, b.tok.End) == 0 {
			b.last = b.tok.End
		}
		return
	}
	if b.start < 0 || b.newlines(b.comments, b.tok.Start) > 1 {
		b.start = b.tok.Start
	}
	b.comments = b.tok.End
}

func (b *blocks) push() {
	if len(b.head) == 0 && (b.start < 0 || b.newlines(b.comments, b.tok.Start) > 1) {
		b.start = b.tok.Start
	}
	if len(b.head) == maxHead {
		b.head[maxHead-1] = b.tok
		return
	}
	b.head = append(b.head, b.tok)
}

// group reads what is in parentheses or brackets into the head. It ends early where they cannot be
// balanced.
func (b *blocks) group() {
	b.push()
	depth, braces := 1, 0
	for depth > 0 {
		at := b.tok.End
		if !b.read() {
			return
		}
		switch b.tok.op {
		case '(', '[':
			depth++
		case ')', ']':
			depth--
		case '{':
			braces++
		case '}':
			braces--
		case ';':
			if braces == 0 && !b.paths {
				braces = -1
			}
		}
		if braces < 0 {
			b.tok.End = at
			return
		}
		b.push()
	}
}

// brace reads a block, or begins to if it has declarations.
func (b *blocks) brace() {
	n, begin := len(b.f.Decls), b.tok.Start
	what := value
	if !b.valued || b.inits && !b.initializes() {
		what = b.declare(b, '{')
	}
	made := b.f.Decls[n:]
	if what >= members && len(b.open) < maxNesting {
		b.begin(what, n)
		return
	}
	if b.start < 0 {
		b.start = begin
	}
	end := b.skip(what == code && (b.start == 0 || b.src[b.start-1] == '\n'))
	if what == value {
		b.valued = true
		b.tok.Start, b.tok.op = begin, '{'
		b.push()
		return
	}
	for i := range made {
		made := &b.f.Decls[n+i] // macros may have moved it
		made.At.End = end
		if what == code {
			made.Body = Span{begin, end}
		}
	}
	b.reset()
}

// begin enters a block of declarations, which belongs to the declaration n if there is one.
func (b *blocks) begin(what block, n int) {
	fr := frame{block: what, decl: -1, parent: b.top().parent, impl: b.inner, start: b.start}
	if n < len(b.f.Decls) {
		fr.decl, fr.parent = int32(n), int32(n)
	}
	if b.directives && fr.decl >= 0 && b.f.Decls[n].Kind != Module {
		fr.head = append([]ctoken(nil), b.head...)
		fr.head = append(fr.head, b.tok)
	}
	b.open = append(b.open, fr)
	b.reset()
}

// pop leaves a block of declarations.
func (b *blocks) pop() {
	at := b.tok
	if n := len(b.head); n > 0 {
		b.finish(b.head[n-1].End)
	}
	if len(b.open) == 1 {
		return
	}
	fr := *b.top()
	b.open = b.open[:len(b.open)-1]
	b.reset()
	b.last = at.End
	if fr.head == nil {
		b.closeDecl(fr.decl, at.End)
	} else {
		b.head, b.start, b.tail = append(b.head, fr.head...), fr.start, fr.decl
	}
}

// closeDecl ends the declaration of a block.
func (b *blocks) closeDecl(decl, end int32) {
	if decl >= 0 {
		b.f.Decls[decl].At.End = end
	}
}

// finish ends a declaration without a block, or what follows a block.
func (b *blocks) finish(end int32) {
	semicolon := b.tok.op == ';'
	if len(b.head) > 0 {
		n := len(b.f.Decls)
		b.declare(b, ';')
		for i := n; i < len(b.f.Decls); i++ {
			b.f.Decls[i].At.End = end
		}
		b.closeDecl(b.tail, end)
	}
	if fr := b.top(); semicolon && fr.block == enumerators {
		fr.block = members // in Java
	}
	b.reset()
}

func (b *blocks) reset() {
	b.head, b.start, b.tail, b.last, b.inner = b.head[:0], -1, -1, b.tok.End, impl{}
	b.valued, b.inits, b.params, b.looked = false, false, candidate{}, 0
	b.nextFunction()
	b.counted = b.counted[:0]
}

// skip reads up to the brace that matches the current one, and returns where that ends. If resync is set, a
// brace in the first column ends it too: then there were too many opening ones, as in the branches of #if.
func (b *blocks) skip(resync bool) int32 {
	resync = resync && b.directives
	for b.depth = 1; b.read(); {
		switch b.tok.op {
		case '{':
			b.depth++
		case '}':
			b.depth--
			if b.depth <= 0 || resync && b.src[b.tok.Start-1] == '\n' {
				return b.tok.End
			}
		}
	}
	return b.tok.End
}

// add adds a declaration, whose end is not known yet.
func (b *blocks) add(kind DeclKind, name ctoken, exported bool) *Decl {
	fr := b.top()
	text := plainName(b.src[name.Start:name.End])
	b.undo(name.Start)
	b.f.Decls = append(b.f.Decls, Decl{
		Name: b.name(text), Kind: kind, Exported: exported, Parent: fr.parent, Of: fr.of,
		At: Span{b.start, name.End}, NameAt: name.Start,
	})
	return &b.f.Decls[len(b.f.Decls)-1]
}
