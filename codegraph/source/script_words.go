package source

// The classes of bytes. Those up to byteUnicode can be in a name.
const (
	byteDigit   = 'a'
	byteName    = 'b' // also the # of a private name
	byteUnicode = 'c' // the backslash of an escape, and what is outside of ASCII
	byteQuote   = 'q'
	byteSingle  = 's' // an operator of one byte
	byteOther   = 'x'
)

// scriptBytes has the class of each byte.
const scriptBytes = "" +
	"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx" +
	"xxqbbxxqxxxxsxxxaaaaaaaaaassxxxx" +
	"sbbbbbbbbbbbbbbbbbbbbbbbbbbxcxxb" +
	"xbbbbbbbbbbbbbbbbbbbbbbbbbbxxxsx" +
	"cccccccccccccccccccccccccccccccc" +
	"cccccccccccccccccccccccccccccccc" +
	"cccccccccccccccccccccccccccccccc" +
	"cccccccccccccccccccccccccccccccc"

// A scriptWordClass says what a word means to the lexer and to the search for imports.
type scriptWordClass uint8

const (
	wordNone    scriptWordClass = iota
	wordRequire                 // require, an ordinary name
	wordMocker                  // jest and vi, ordinary names
	wordValue                   // a keyword that is an operand; keywords begin here
	wordImport
	wordExport
	wordBind    // begins a declaration of variables
	wordControl // has a parenthesis, after which a statement follows
	wordBlock   // has a block
	wordAwait
	wordVoid // the end of a type, or an operator
	wordOther
)

// classOf returns the class of a word.
func classOf(word []byte) scriptWordClass {
	switch string(word) {
	case "require":
		return wordRequire
	case "jest", "vi":
		return wordMocker
	case "this", "super", "null", "true", "false":
		return wordValue
	case "import":
		return wordImport
	case "export":
		return wordExport
	case "const", "let", "var":
		return wordBind
	case "if", "while", "for", "with":
		return wordControl
	case "else", "do", "try", "finally", "class":
		return wordBlock
	case "void":
		return wordVoid
	case "await":
		return wordAwait
	case "return", "typeof", "instanceof", "in", "new", "delete", "throw", "case", "yield", "extends", "default",
		"function", "switch", "catch", "break", "continue", "debugger", "enum":
		return wordOther
	}
	return wordNone
}
