package source

import (
	"bytes"
	"iter"
)

var cKeywords = map[string]bool{
	"alignas": true, "alignof": true, "asm": true, "auto": true, "bool": true, "break": true, "case": true, "catch": true,
	"char": true, "class": true, "co_await": true, "co_return": true, "co_yield": true, "concept": true, "const": true,
	"const_cast": true, "consteval": true, "constexpr": true, "constinit": true, "continue": true, "decltype": true,
	"default": true, "delete": true, "do": true, "double": true, "dynamic_cast": true, "else": true, "enum": true,
	"explicit": true, "export": true, "extern": true, "false": true, "float": true, "for": true, "friend": true,
	"goto": true, "if": true, "inline": true, "int": true, "long": true, "mutable": true, "namespace": true, "new": true,
	"noexcept": true, "nullptr": true, "operator": true, "private": true, "protected": true, "public": true,
	"register": true, "reinterpret_cast": true, "requires": true, "restrict": true, "return": true, "short": true,
	"signed": true, "sizeof": true, "static": true, "static_assert": true, "static_cast": true, "struct": true,
	"switch": true, "template": true, "this": true, "thread_local": true, "throw": true, "true": true, "try": true,
	"typedef": true, "typeid": true, "typename": true, "typeof": true, "union": true, "unsigned": true, "using": true,
	"virtual": true, "void": true, "volatile": true, "wchar_t": true, "while": true,
	"_Alignas": true, "_Atomic": true, "_Bool": true, "_Complex": true, "_Generic": true, "_Noreturn": true,
	"_Static_assert": true, "_Thread_local": true, "__attribute__": true, "__declspec": true, "__asm__": true,
}

var cGrammar = grammar{
	keywords: cKeywords, line: slashes, block: starred, splice: true, quotes: []quote{double, single},
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
	types: map[string]bool{
		"auto": true, "bool": true, "char": true, "const": true, "double": true, "float": true, "int": true, "long": true,
		"short": true, "signed": true, "unsigned": true, "void": true, "volatile": true, "wchar_t": true, "restrict": true,
		"_Bool": true, "_Complex": true, "static": true, "register": true,
	},
}

func cTokens(src []byte) iter.Seq[Token] { return cGrammar.all(src) }

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

// includes reads the directives. It looks only at the beginnings of lines, and at what can hide one: comments
// and strings.
func (f *Facts) includes(src []byte) {
	l := lex(&cGrammar, src)
	hides := [256]bool{'\n': true, '"': true, '\'': true, '/': true}
	var cpp conditions
	for i, fresh := int(l.tok.End), true; i < len(src) && len(f.Imports) < maxFacts; {
		switch c := src[i]; {
		case fresh && (c == ' ' || c == '\t'):
			i++
		case fresh && c == '#':
			i, fresh = f.include(l, i, &cpp), false
		case c == '\n':
			fresh = !spliced(src, i)
			i++
		case hides[c]:
			_, i = l.mark(i)
			fresh = fresh && c == '/'
		default:
			i, fresh = rawEnd(l, i), false
			for i < len(src) && !hides[src[i]] && src[i] != 'R' {
				i++
			}
		}
	}
}

// rawEnd returns the end of the raw string whose R is at i, or of the byte there.
func rawEnd(l *clexer, i int) int {
	if l.src[i] != 'R' || i+1 == len(l.src) || l.src[i+1] != '"' {
		return i + 1
	}
	word := i
	for word > 0 && i-word < 3 && l.class[l.src[word-1]] >= digit {
		word--
	}
	return max(l.prefixed(word, i+1), i+1)
}

// include reads the directive at i and returns where the rest of its line begins.
func (f *Facts) include(l *clexer, i int, cpp *conditions) int {
	l.tok.End = int32(i + 1)
	end := int32(l.lineEnd(i))
	if !l.code() || l.tok.Start >= end {
		return min(i+1, int(end))
	}
	cpp.step(l, end)
	if cpp.dead > 0 || !(l.is("include") || l.is("include_next") || l.is("import")) {
		return int(min(l.tok.End, end))
	}
	l.code()
	start, rest := l.tok.Start, l.src[l.tok.Start:max(l.tok.Start, end)]
	kind, quote := Plain, byte('"')
	if hasPrefix(rest, "<") {
		kind, quote = System, '>'
	} else if !hasPrefix(rest, `"`) {
		return int(min(l.tok.Start, end)) // the name of a macro
	}
	if k := bytes.IndexByte(rest[1:], quote); k > 0 {
		f.Imports = append(f.Imports, Import{
			Path: string(rest[1 : k+1]), Kind: kind, Names: []Name{{Name: "*"}}, At: Span{start + 1, start + 1 + int32(k)},
		})
		return int(start) + k + 2
	}
	return int(start) + 1
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
