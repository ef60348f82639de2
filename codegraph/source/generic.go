package source

import "iter"

var (
	hash      = []string{"#"}
	dashes    = []string{"--"}
	scripting = []quote{double, single, {"`", "`", true, false}}
	tripled   = []quote{textBlock, {"'''", "'''", true, true}, double, single}
	verbatim  = []quote{{`"""`, `"""`, false, true}, {`$@"`, `"`, false, true}, {`@$"`, `"`, false, true}, {`@"`, `"`, false, true}, double, single}
	otherwise = grammar{keywords: genericKeywords, line: []string{"//", "#"}, block: starred, quotes: scripting}
)

// genericGrammars are the grammars of languages that have only the generic scanner. Any other language is read
// as otherwise.
var genericGrammars = map[Language]grammar{
	"kotlin":   {keywords: genericKeywords, line: slashes, block: starred, nested: true, quotes: []quote{textBlock, double, single}},
	"swift":    {keywords: genericKeywords, line: slashes, block: starred, nested: true, quotes: []quote{textBlock, double}},
	"scala":    {keywords: genericKeywords, line: slashes, block: starred, nested: true, quotes: []quote{textBlock, double}, chars: true},
	"groovy":   {keywords: genericKeywords, line: slashes, block: starred, quotes: tripled},
	"protobuf": {keywords: genericKeywords, line: slashes, block: starred, quotes: []quote{double, single}},
	"zig":      {keywords: genericKeywords, line: slashes, quotes: []quote{double}, chars: true},
	"lua":      {keywords: genericKeywords, line: dashes, block: [][2]string{{"--[[", "]]"}, {"--[=[", "]=]"}}, quotes: []quote{{"[[", "]]", false, true}, double, single}},
	"sql":      {keywords: genericKeywords, line: dashes, block: starred, quotes: []quote{double, single}},
	"haskell":  {keywords: genericKeywords, line: dashes, block: [][2]string{{"{-", "-}"}}, nested: true, quotes: []quote{double}, chars: true},
	"ocaml":    {keywords: genericKeywords, block: [][2]string{{"(*", "*)"}}, nested: true, quotes: []quote{double}, chars: true},
	"erlang":   {keywords: genericKeywords, line: []string{"%"}, quotes: []quote{double, single}},
	"julia":    {keywords: genericKeywords, line: hash, block: [][2]string{{"#=", "=#"}}, nested: true, quotes: []quote{textBlock, double}, chars: true},
	"ruby":     {keywords: genericKeywords, line: hash, block: [][2]string{{"=begin", "=end"}}, quotes: scripting},
	"perl":     {keywords: genericKeywords, line: hash, quotes: scripting},
	"shell":    {keywords: genericKeywords, line: hash, quotes: scripting},
	"r":        {keywords: genericKeywords, line: hash, quotes: tripled},
	"elixir":   {keywords: genericKeywords, line: hash, quotes: tripled},
	"csharp":   {keywords: sharpKeywords, line: []string{"//", "#"}, block: starred, quotes: verbatim},
	"dart":     {keywords: sharpKeywords, line: slashes, block: starred, nested: true, quotes: tripled},
}

// sharpKeywords are the keywords of C# and Dart that matter to how a declaration is read.
var sharpKeywords = map[string]bool{
	"abstract": true, "as": true, "await": true, "base": true, "bool": true, "break": true, "byte": true, "case": true, "catch": true,
	"char": true, "class": true, "const": true, "continue": true, "decimal": true, "default": true, "do": true, "double": true,
	"else": true, "enum": true, "export": true, "extends": true, "false": true, "finally": true, "fixed": true, "float": true,
	"for": true, "foreach": true, "if": true, "implements": true, "import": true, "in": true, "int": true, "interface": true,
	"internal": true, "is": true, "late": true, "lock": true, "long": true, "namespace": true, "new": true, "null": true, "object": true,
	"out": true, "override": true, "params": true, "part": true, "private": true, "protected": true, "public": true, "readonly": true,
	"ref": true, "rethrow": true, "return": true, "sbyte": true, "sealed": true, "short": true, "sizeof": true, "static": true,
	"string": true, "struct": true, "super": true, "switch": true, "this": true, "throw": true, "true": true, "try": true,
	"typeof": true, "uint": true, "ulong": true, "unsafe": true, "ushort": true, "using": true, "virtual": true, "void": true,
	"volatile": true, "while": true, "with": true, "yield": true,
}

// genericKeywords are words that are keywords in many languages.
var genericKeywords = map[string]bool{
	"abstract": true, "and": true, "as": true, "begin": true, "break": true, "case": true, "catch": true, "class": true, "const": true,
	"continue": true, "def": true, "defer": true, "defmodule": true, "defp": true, "do": true, "done": true, "elif": true, "else": true,
	"elsif": true, "end": true, "enum": true, "esac": true, "except": true, "export": true, "extends": true, "extension": true,
	"false": true, "fi": true, "final": true, "finally": true, "fn": true, "for": true, "foreach": true, "fun": true, "func": true,
	"function": true, "guard": true, "if": true, "implements": true, "import": true, "in": true, "include": true, "interface": true,
	"internal": true, "is": true, "let": true, "local": true, "match": true, "module": true, "namespace": true, "new": true, "nil": true,
	"not": true, "null": true, "or": true, "override": true, "package": true, "private": true, "protected": true, "protocol": true,
	"public": true, "raise": true, "repeat": true, "require": true, "return": true, "self": true, "static": true, "struct": true,
	"sub": true, "super": true, "switch": true, "then": true, "this": true, "throw": true, "trait": true, "true": true, "try": true,
	"type": true, "unless": true, "until": true, "use": true, "using": true, "val": true, "var": true, "when": true, "where": true,
	"while": true, "with": true, "yield": true,
}

func grammarOf(lang Language) *grammar {
	if g, ok := genericGrammars[lang]; ok {
		return &g
	}
	return &otherwise
}

func genericTokens(lang Language, src []byte) iter.Seq[Token] { return grammarOf(lang).all(src) }

func scanGeneric(f *Facts, src []byte, part Part) {
	g := grammarOf(f.Language)
	f.header(g, src)
	switch {
	case part != All:
	case f.Language == "csharp" || f.Language == "dart":
		scanBlocks(f, src, 0, &dialect{grammar: g, types: sharpKeywords, dotted: true, declare: declareJava})
	default:
		scanLines(f, lex(g, src))
	}
}
