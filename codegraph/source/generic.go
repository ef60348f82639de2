package source

var (
	hash      = []string{"#"}
	dashes    = []string{"--"}
	scripting = []*quote{&double, &single, &back}
	threefold = []*quote{&textBlock, &tripled, &double, &single}
	verbatim  = []*quote{{`"""`, `"""`, false, true}, {`$@"`, `"`, false, true}, {`@$"`, `"`, false, true}, {`@"`, `"`, false, true}, &double, &single}
	otherwise = grammar{line: []string{"//", "#"}, block: starred, quotes: scripting}
)

// genericGrammars are the grammars of languages that have only the generic scanner. Any other language is read
// as otherwise.
var genericGrammars = []struct {
	of Language
	grammar
}{
	{"kotlin", grammar{line: slashes, block: starred, nested: true, quotes: []*quote{&textBlock, &double, &single}}},
	{"swift", grammar{line: slashes, block: starred, nested: true, quotes: []*quote{&textBlock, &double}}},
	{"scala", grammar{line: slashes, block: starred, nested: true, quotes: []*quote{&textBlock, &double}, chars: true}},
	{"groovy", grammar{line: slashes, block: starred, quotes: threefold}},
	{"protobuf", grammar{line: slashes, block: starred, quotes: []*quote{&double, &single}}},
	{"zig", grammar{line: slashes, quotes: []*quote{&double}, chars: true}},
	{"lua", grammar{line: dashes, block: [][2]string{{"--[[", "]]"}, {"--[=[", "]=]"}}, quotes: []*quote{{"[[", "]]", false, true}, &double, &single}}},
	{"sql", grammar{line: dashes, block: starred, quotes: []*quote{&double, &single}}},
	{"haskell", grammar{line: dashes, block: [][2]string{{"{-", "-}"}}, nested: true, quotes: []*quote{&double}, chars: true}},
	{"ocaml", grammar{block: [][2]string{{"(*", "*)"}}, nested: true, quotes: []*quote{&double}, chars: true}},
	{"erlang", grammar{line: []string{"%"}, quotes: []*quote{&double, &single}}},
	{"julia", grammar{line: hash, block: [][2]string{{"#=", "=#"}}, nested: true, quotes: []*quote{&textBlock, &double}, chars: true}},
	{"ruby", grammar{line: hash, block: [][2]string{{"=begin", "=end"}}, quotes: scripting}},
	{"perl", grammar{line: hash, quotes: scripting}},
	{"shell", grammar{line: hash, quotes: scripting}},
	{"r", grammar{line: hash, quotes: threefold}},
	{"elixir", grammar{line: hash, quotes: threefold}},
	{"csharp", grammar{line: []string{"//", "#"}, block: starred, quotes: verbatim}},
	{"dart", grammar{line: slashes, block: starred, nested: true, quotes: threefold}},
}

// sharpKeywords are the keywords of C# and Dart that matter to how a declaration is read.
var sharpKeywords = words(`
	abstract as await base bool break byte case catch char class const continue decimal default do double
	else enum export extends false finally fixed float for foreach if implements import in int interface
	internal is late lock long namespace new null object out override params part private protected public
	readonly ref rethrow return sbyte sealed short sizeof static string struct super switch this throw true
	try typeof uint ulong unsafe ushort using virtual void volatile while with yield`)

// genericKeywords are words that are keywords in many languages.
var genericKeywords = words(`
	abstract and as begin break case catch class const continue def defer defmodule defp do done elif else
	elsif end enum esac except export extends extension false fi final finally fn for foreach fun func
	function guard if implements import in include interface internal is let local match module namespace
	new nil not null or override package private protected protocol public raise repeat require return self
	static struct sub super switch then this throw trait true try type unless until use using val var when
	where while with yield`)

// grammarOf returns the grammar of any language but Go, Python and TypeScript.
func grammarOf(lang Language) *grammar {
	switch lang {
	case Rust:
		return &rustGrammar
	case Java:
		return &javaGrammar
	case C:
		return &cGrammar
	}
	g := otherwise
	for i := range genericGrammars {
		if genericGrammars[i].of == lang {
			g = genericGrammars[i].grammar
		}
	}
	if g.keywords = genericKeywords; isSharp(lang) {
		g.keywords = sharpKeywords
	}
	return &g
}

// isSharp reports whether the declarations of a language are similar enough to those of Java.
func isSharp(lang Language) bool { return lang == "csharp" || lang == "dart" }

func scanGeneric(f *Facts, src []byte, part Part) {
	g := grammarOf(f.Language)
	f.header(g, src)
	switch {
	case part != All:
	case isSharp(f.Language):
		scanBlocks(f, src, 0, &dialect{grammar: g, types: sharpKeywords, dotted: true, declare: declareJava})
	default:
		scanLines(f, lex(g, src))
	}
}
