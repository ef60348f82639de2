package source

import (
	"bytes"
)

var cKeywords = words(`
	alignas alignof asm auto bool break case catch char class co_await co_return co_yield concept const
	const_cast consteval constexpr constinit continue decltype default delete do double dynamic_cast else
	enum explicit export extern false float for friend goto if inline int long mutable namespace new
	noexcept nullptr operator private protected public register reinterpret_cast requires restrict return
	short signed sizeof static static_assert static_cast struct switch template this thread_local throw true
	try typedef typeid typename typeof union unsigned using virtual void volatile wchar_t while _Alignas
	_Atomic _Bool _Complex _Generic _Noreturn _Static_assert _Thread_local __attribute__ __declspec __asm__`)

var cGrammar = grammar{
	keywords: cKeywords, line: slashes, block: starred, splice: true, quotes: []*quote{&double, &single},
	prefixes: map[string]bool{"L": false, "u": false, "U": false, "u8": false, "R": true, "LR": true, "uR": true, "UR": true, "u8R": true},
	raw:      cRaw,
}

// cRaw reads the beginning of a raw string, "delimiter(.
func cRaw(src []byte, from int) (text int, end string) {
	if src[from] != '"' {
		return 0, ""
	}
	k := bytes.IndexAny(src[from+1:min(from+18, len(src))], "() \\\"\n") // a delimiter has at most 16 bytes
	if k < 0 || src[from+1+k] != '(' {
		return 0, ""
	}
	return from + k + 2, ")" + string(src[from+1:from+1+k]) + `"`
}

var cDialect = dialect{
	grammar: &cGrammar, directives: true, declare: declareC,
	types: words(`
	auto bool char const double float int long short signed unsigned void volatile wchar_t restrict _Bool
	_Complex static register`),
}

func scanC(f *Facts, src []byte, part Part) {
	f.header(&cGrammar, src)
	f.includes(src)
	if part == All {
		scanBlocks(f, src, 0, &cDialect)
	}
}

// headerWithin is how far into a file a comment may say that the file is generated.
const headerWithin = 4000

// header reads the comments at the beginning of a file.
func (f *Facts) header(g *grammar, src []byte) {
	f.Script = hasPrefix(src, "#!") && !hasPrefix(src, "#![")
	src = src[:min(len(src), headerWithin)]
	for l := lex(g, src); !f.Generated && l.next() && l.tok.Kind == Comment; {
		f.Generated = generated(src[l.tok.Start:l.tok.End])
	}
}

// includes finds the files that directives include.
func (f *Facts) includes(src []byte) {
	var cpp conditions
	for l := lex(&cGrammar, src); len(f.Imports) < maxFacts && l.next(); {
		if l.tok.op != '#' || !startsLine(src, int(l.tok.Start)) {
			continue
		}
		at, end := l.tok.End, int32(l.lineEnd(int(l.tok.Start)))
		if !l.code() || l.tok.Start >= end { // nothing is in its line
			l.tok.End = at
		} else if cpp.step(l, end); cpp.dead == 0 && (l.is("include") || l.is("include_next") || l.is("import")) {
			f.include(l, end)
		}
		for l.tok.End < end {
			if l.next(); l.tok.Start >= end {
				l.tok.End = end
			}
		}
	}
}

// include reads the name of a file, behind the word that is the current token.
func (f *Facts) include(l *clexer, end int32) {
	l.code()
	start, rest := l.tok.Start, l.src[l.tok.Start:max(l.tok.Start, end)]
	kind, quote := Plain, byte('"')
	if hasPrefix(rest, "<") {
		kind, quote = System, '>'
	} else if !hasPrefix(rest, `"`) { // the name of a macro, or nothing
		l.tok.End = min(start, end)
		return
	}
	if k := bytes.IndexByte(rest[1:], quote); k > 0 {
		f.Imports = append(f.Imports, Import{
			Path: string(rest[1 : k+1]), Kind: kind, Names: []Name{{Name: "*"}}, At: Span{start + 1, start + 1 + int32(k)},
		})
		l.tok.End = start + int32(k) + 2
	}
}

// conditions follows #if and #endif. Of the branches, it knows only that that of #if 0 is dead.
type conditions struct {
	level, dead int   // dead is the level of the innermost #if 0 in force, or 0
	depths      []int // the depth of the braces at each #if
}

// step reads the directive whose name is the current token, in a line that ends at end.
func (c *conditions) step(l *clexer, end int32) {
	switch string(l.src[l.tok.Start:l.tok.End]) {
	case "if":
		c.level++
		rest := bytes.TrimLeft(l.src[l.tok.End:end], " \t")
		if c.dead == 0 && hasPrefix(rest, "0") {
			rest = bytes.TrimLeft(rest[1:], " \t\r")
			if len(rest) == 0 || rest[0] == '/' || rest[0] == '&' {
				c.dead = c.level
			}
		}
	case "ifdef", "ifndef":
		c.level++
	case "elif", "else", "elifdef", "elifndef":
		if c.dead == c.level {
			c.dead = 0
		}
	case "endif":
		if c.dead == c.level {
			c.dead = 0
		}
		c.level = max(c.level-1, 0)
	}
}

// directive reads a directive in the scan of everything: what it declares and uses.
func (b *blocks) directive() {
	start, end := b.tok.Start, int32(b.lineEnd(int(b.tok.Start)))
	if !b.next() || b.tok.Start >= end {
		b.tok.End = end
		return
	}
	b.cpp.step(b.clexer, end)
	b.balance()
	fn := b.fn
	b.nextFunction()
	b.at = -1
	switch {
	case b.cpp.dead > 0 || b.is("include"):
		end = b.names(end, false)
	case b.is("define"):
		end = b.define(start, end)
	default:
		end = b.names(end, hasPrefix(b.src[b.tok.Start:], "if") || b.is("elif"))
	}
	b.fn, b.tok.End = fn, end
	if len(b.head) == 0 {
		b.start, b.last = -1, end
	}
}

// balance makes each branch of an #if begin with the same number of open braces.
func (b *blocks) balance() {
	c := &b.cpp
	for len(c.depths) < c.level {
		c.depths = append(c.depths, b.depth)
	}
	c.depths = c.depths[:c.level]
	if hasPrefix(b.src[b.tok.Start:], "el") && c.level > 0 {
		b.depth = c.depths[c.level-1]
	}
}

// define reads the definition of a macro, and returns where it ends.
func (b *blocks) define(start, end int32) int32 {
	if !b.next() || b.tok.Start >= end {
		return end
	}
	if len(b.head) == 0 && b.start >= 0 && b.newlines(b.comments, start) <= 1 {
		start = b.start
	}
	n := len(b.f.Decls)
	b.f.Decls = append(b.f.Decls, Decl{
		Name: b.name(b.src[b.tok.Start:b.tok.End]), Kind: Macro, Exported: true, Parent: -1, At: Span{start, end}, NameAt: b.tok.Start,
	})
	if b.tok.End < end && b.src[b.tok.End] == '(' { // directly behind the name: the parameters
		for b.next() && b.tok.Start < end && b.tok.op != ')' {
			if b.tok.Kind == Identifier {
				b.setLocal(b.src[b.tok.Start:b.tok.End])
			}
		}
	}
	end = b.names(end, true)
	b.f.Decls[n].At.End = end
	return end
}

// names reads to the end of a directive, which a comment may move, and counts the names if they are used.
func (b *blocks) names(end int32, used bool) int32 {
	for {
		if b.tok.Start < end && b.tok.End > end {
			end = int32(b.lineEnd(int(b.tok.End)))
		}
		if b.tok.End >= end || !b.next() || b.tok.Start >= end {
			return end
		}
		if used && b.tok.Kind == Identifier && !b.is("defined") {
			b.use(nil, b.src[b.tok.Start:b.tok.End])
		}
	}
}
