// Package source says what a file of source code imports, declares, exports and uses, without a
// compiler and without other files.
//
// [Scan] is a pure function of the bytes of one file, so that its result can be kept by their hash. It
// does not check the syntax: a file that does not compile, or is being edited, gives what can be read of it.
// Each language of the constants below has a scanner, which reads a file once, from the beginning to the end:
// what it needs of a language is where its comments, strings and blocks end, what its imports look like and
// how its declarations begin. Other languages get a generic one, which finds declarations by their first words and claims no imports.
//
// [Tokens] is the first step of the same scanners. A host can colour code with it.
package source

import (
	"iter"
	"slices"
	"strings"
)

// Language is the name of a programming language, in lower case. Other values than the constants of this
// package are names for the generic scanner, such as "ruby", or of a host's own scanner.
type Language string

// The languages that have a separate scanner.
const (
	Go         Language = "go"
	Python     Language = "python"
	TypeScript Language = "typescript" // also JavaScript, with and without JSX
	Rust       Language = "rust"
	Java       Language = "java"
	C          Language = "c" // also C++
)

// Facts are what one file says of itself. Names are as in the source. Facts do not change. Those
// of a very large file may be incomplete: after 65,536 declarations or imports, 131,072 different names or, in
// TypeScript, a million tokens, the rest may be passed over; at most 32,768 different uses are counted.
type Facts struct {
	// Language is the language that the file was read as.
	Language Language
	// Package is what the file says that it belongs to: the package clause in Go and Java, or "".
	Package string
	// Imports are in the order of the source, also those inside of functions.
	Imports []Import
	// Decls are the declarations at the top of the file, and those that are directly in a type, class,
	// module or namespace of them, in the order of the source.
	Decls []Decl
	// Exports are the names that the file gives to others besides declarations that are Exported:
	// re-exports and exports under another name.
	Exports []Export
	// Uses are the names that the file uses and does not declare in a function: those of imports and of
	// declarations of this or another file. Each pair of Of and Name is there once, sorted.
	Uses []Use
	// Generated reports that a comment says that the file was generated.
	Generated bool
	// Script reports that the file is meant to be run by its name: a Python file with a __main__ guard,
	// or any file that begins with #!.
	Script bool
}

// Span is a range of bytes of a file: from Start up to, but not including, End.
type Span struct{ Start, End int32 }

// ImportKind says what an import does.
type ImportKind uint8

// The kinds of imports.
const (
	Plain     ImportKind = iota // import, use, a quoted #include, require with a literal
	TypeOnly                    // import type: nothing is left of it when the program runs
	Reexport                    // export … from, pub use: what is imported is exported too
	Dynamic                     // import() with a literal
	Mock                        // jest.mock and the like, which name a module without using it
	System                      // #include with angle brackets
	Submodule                   // mod x; in Rust: names a file that is a part of this module
)

// Import is one import of a file. An import of several paths, such as a use with braces in Rust, is one
// Import for each path.
type Import struct {
	// Path is the path as written, without quotes. Relative imports of Python have their dots: "..pkg". In
	// Rust it is the whole path with its last name, "crate::a::B", or what a #[path] says for a Submodule.
	Path string
	Kind ImportKind
	// Within is the inline module of Rust that the import is in, "a::b", or "".
	Within string
	// Names are what it takes from there. An import for its effects alone has none.
	Names []Name
	// At is where the path stands.
	At Span
}

// Name is a name that an import takes.
type Name struct {
	// Name is that of the exporter: "default" for the default export of JavaScript, "*" for everything.
	Name string
	// As is the name by which this file knows it. Everything without As is in scope as if it were
	// declared here; everything with As is a namespace.
	As string
}

// DeclKind says what is declared.
type DeclKind uint8

// The kinds of declarations.
const (
	Func DeclKind = iota
	Method
	Type // also aliases, structs, enums and unions
	Class
	Interface // also traits and protocols
	Const
	Var
	Field // also members of enums
	Module
	Macro
)

// Decl is one declaration.
type Decl struct {
	Name string
	Kind DeclKind
	// Exported reports that files elsewhere can use the name: by its capital letter in Go, a keyword in
	// TypeScript and Rust, the lack of private in Java and of static in C; everything in Python.
	Exported bool
	// Parent is the index in Decls of the declaration that this is directly in, or -1. For a method of Go,
	// whose type may be in another file, it is -1, and Of names the type.
	Parent int32
	// Of is the type that a method or an impl of Rust belongs to, if it is declared outside of it.
	Of string
	// Type is, in Go, the type of a variable or field, of the first result of a function, or that a type is
	// made from, as far as the source says it. See [Use].
	Type string
	// At is the whole declaration, with its documentation and attributes.
	At Span
	// Body is the part of At that a skeleton leaves out: the block of a function, with its braces or, in
	// Python, from after the colon. Functions without a block and other declarations have an empty one.
	Body Span
	// NameAt is where the name begins.
	NameAt int32
}

// Export is a name that a file gives to others.
type Export struct {
	// Name is the name for others: "default" for the default export of JavaScript, and "*" for
	// everything that the import exports, except its default.
	Name string
	// Local is what the name is called here, or in the file of the import.
	Local string
	// Import is the index in Imports of where Local comes from, or -1 if it is a name of this file.
	Import int32
}

// Use says how often a name is used.
type Use struct {
	// Of is the name before the dot, or the ::, in Of.Name, if that is a single name that the file did not
	// declare in a function. Otherwise it is "". In Rust it is the whole path before the last ::. In Go it
	// is what is known of the type of what is before the dot: a name, or pkg.Name, for a value of this type,
	// or an expression of names that has the value. In such an expression () is a call, and [] after it an
	// element. Before it, [] makes a slice, array, map or channel of it, and () a function that returns it.
	// Pointers are left out.
	Of string
	// Name is the name that is used.
	Name string
	// Count is how often.
	Count int32
}

// Part says what [Scan] looks for.
type Part uint8

// The parts of facts. Where imports can be found without reading all, as in Go, ImportsOnly is much faster.
const (
	All         Part = iota
	ImportsOnly      // Imports, Package, Exports that have an import, Generated and Script
)

// Scan reads the source of a file in a language. It never fails, and takes time in proportion to the length
// of the source.
func Scan(lang Language, src []byte, part Part) *Facts {
	f := &Facts{Language: lang}
	buffer := goBuffers.Get().(*goReader)
	switch lang {
	case Go:
		buffer.scan(f, src, part)
	case Python:
		scanPython(f, src)
	case TypeScript:
		scanTypeScript(f, src, part)
	case Rust:
		scanRust(f, src, part)
	case Java:
		scanJava(f, src, part)
	case C:
		scanC(f, src, part)
	default:
		scanGeneric(f, src, part)
	}
	if part == ImportsOnly {
		f.Decls, f.Uses = nil, nil
		f.Exports = slices.DeleteFunc(f.Exports, func(e Export) bool { return e.Import < 0 })
	}
	f.Imports, f.Decls, f.Exports, f.Uses = fit(f.Imports), fit(f.Decls), fit(f.Exports), fit(f.Uses)
	f.pack(&buffer.packer)
	if max(cap(buffer.toks), cap(buffer.packer.ids)) <= maxBuffer {
		goBuffers.Put(buffer)
	}
	return f
}

// A packer has the names of a file, and their numbers in the order of eachName.
type packer struct {
	nameTable
	ids []int32
}

// pack puts the names of a file into one string, each once, so that they take no more memory than they need.
func (f *Facts) pack(p *packer) {
	p.reset(len(f.Decls) + len(f.Uses))
	p.ids = p.ids[:0]
	last, id := "", int32(0)
	f.eachName(func(s *string) {
		if *s != last { // they are often the same where they are sorted
			last, id = *s, p.number([]byte(*s), *s)
		}
		p.ids = append(p.ids, id)
	})
	text, at := strings.Join(p.names, ""), 0
	for i, name := range p.names {
		p.names[i] = text[at:][:len(name)]
		at += len(name)
	}
	i := 0
	f.eachName(func(s *string) {
		*s = p.names[p.ids[i]]
		i++
	})
}

// eachName calls do with the strings of the facts that have a name in them.
func (f *Facts) eachName(do func(s *string)) {
	for i := range f.Imports {
		do(&f.Imports[i].Path)
		for k := range f.Imports[i].Names {
			do(&f.Imports[i].Names[k].Name)
			do(&f.Imports[i].Names[k].As)
		}
	}
	for i := range f.Decls {
		do(&f.Decls[i].Name)
	}
	for i := range f.Decls {
		do(&f.Decls[i].Of)
	}
	for i := range f.Decls {
		do(&f.Decls[i].Type)
	}
	for i := range f.Exports {
		do(&f.Exports[i].Name)
		do(&f.Exports[i].Local)
	}
	for i := range f.Uses {
		do(&f.Uses[i].Of)
	}
	for i := range f.Uses {
		do(&f.Uses[i].Name)
	}
}

// fit returns a slice that takes no more memory than it needs.
func fit[T any](s []T) []T {
	if len(s) == 0 {
		return nil
	}
	if cap(s) > len(s) {
		return append(make([]T, 0, len(s)), s...)
	}
	return s
}

// TokenKind says what a token is.
type TokenKind uint8

// The kinds of tokens. Between two tokens there is only white space.
const (
	Comment TokenKind = iota
	String            // with its quotes; of a template or f-string, the parts that are text
	Number
	Keyword
	Identifier
	Operator // one or more characters that are none of the others
)

// Token is a token and where it stands.
type Token struct {
	Kind TokenKind
	Span
}

// Tokens returns the tokens of a source in their order. They do not overlap. Text that is not
// valid in the language gives tokens too: a string that does not end, for example, ends at the end of its line.
func Tokens(lang Language, src []byte) iter.Seq[Token] {
	switch lang {
	case Go:
		return tokensOfGo(src)
	case Python:
		return pythonTokens(src)
	case TypeScript:
		return scriptTokens(src)
	}
	return grammarOf(lang).all(src)
}
