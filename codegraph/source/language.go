package source

import (
	"path"
	"strings"
)

// LanguageOf returns the language of a file by its name, or by its first line if the name does not
// say it: head is the beginning of the file, and may be nil. If it is not known, LanguageOf returns "".
func LanguageOf(name string, head []byte) Language {
	if lang, ok := extensions[strings.ToLower(path.Ext(name))]; ok {
		return lang
	}
	line, _, _ := strings.Cut(string(head[:min(len(head), 200)]), "\n")
	if command, ok := strings.CutPrefix(line, "#!"); ok {
		for _, word := range strings.FieldsFunc(command, func(r rune) bool { return r == '/' || r == ' ' }) {
			for _, i := range interpreters {
				if strings.TrimRight(word, "0123456789.") == i.name {
					return i.lang
				}
			}
		}
	}
	return ""
}

var interpreters = []struct {
	name string
	lang Language
}{
	{"python", Python}, {"node", TypeScript}, {"deno", TypeScript}, {"bun", TypeScript}, {"ts-node", TypeScript}, {"tsx", TypeScript},
	{"sh", "shell"}, {"bash", "shell"}, {"zsh", "shell"}, {"ruby", "ruby"}, {"perl", "perl"}, {"php", "php"}, {"lua", "lua"},
}

var extensions = map[string]Language{
	".go": Go, ".py": Python, ".pyi": Python, ".pyw": Python,
	".ts": TypeScript, ".tsx": TypeScript, ".mts": TypeScript, ".cts": TypeScript,
	".js": TypeScript, ".jsx": TypeScript, ".mjs": TypeScript, ".cjs": TypeScript,
	".rs": Rust, ".java": Java,
	".c": C, ".h": C, ".cc": C, ".cpp": C, ".cxx": C, ".c++": C, ".hh": C, ".hpp": C, ".hxx": C, ".h++": C,
	".ipp": C, ".tpp": C, ".inl": C, ".inc": C, ".m": C, ".mm": C,
	".cs": "csharp", ".kt": "kotlin", ".kts": "kotlin", ".swift": "swift", ".scala": "scala", ".rb": "ruby", ".php": "php",
	".lua": "lua", ".sh": "shell", ".bash": "shell", ".zsh": "shell", ".pl": "perl", ".pm": "perl", ".dart": "dart",
	".ex": "elixir", ".exs": "elixir", ".erl": "erlang", ".hs": "haskell", ".ml": "ocaml", ".zig": "zig", ".jl": "julia",
	".r": "r", ".groovy": "groovy", ".gradle": "groovy", ".proto": "protobuf", ".sql": "sql",
}

// words returns the set of the words of a text.
func words(text string) map[string]bool {
	set := map[string]bool{}
	for word := range strings.FieldsSeq(text) {
		set[word] = true
	}
	return set
}
