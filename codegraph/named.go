package codegraph

import (
	"encoding/json"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/codegraph/source"
	"github.com/aycoder/aycoder/internal/runes"
)

const (
	maxNamed  = 64       // files that one message names
	maxPrompt = 64 << 10 // bytes of a text that are searched for names
	maxName   = 1024     // bytes
)

// A namer collects the names of source files in a message.
type namer struct {
	g     *Graph
	names []string
}

// named returns the names of source files in a message, whether or not there are such files: the arguments of
// calls that are one, the files of a patch, and the words of the user.
func (g *Graph) named(m *aycoder.Message) []string {
	n := namer{g: g}
	for _, p := range m.Parts {
		switch p := p.(type) {
		case *aycoder.ToolUse:
			var args map[string]any
			if json.Unmarshal(p.Args, &args) == nil {
				n.values(args)
			}
		case *aycoder.Text:
			if m.Role == aycoder.RoleUser {
				n.words(runes.Cut(p.Text, maxPrompt))
			}
		}
	}
	return n.names
}

// values adds the arguments that are names of files.
func (n *namer) values(args map[string]any) {
	patch, _ := args["patch"].(string)
	for line := range strings.Lines(patch) {
		if _, name, ok := strings.Cut(line, ": "); ok && strings.HasPrefix(line, "*** ") {
			n.add(strings.TrimSpace(name))
		}
	}
	for _, key := range []string{"path", "file_path", "file", "from", "to"} {
		if name, ok := args[key].(string); ok {
			n.add(name)
		}
	}
}

// words adds the words of a prompt that are names of files, also with a line behind them: "a/b.go:12".
func (n *namer) words(text string) {
	between := func(r rune) bool { return strings.ContainsRune(" \t\r\n\"'`()[]{}<>,;|=#", r) }
	for word := range strings.FieldsFuncSeq(text, between) {
		word, _, _ = strings.Cut(strings.TrimPrefix(word, "@"), ":")
		n.add(strings.TrimRight(word, ".!?*_"))
	}
}

// mentions returns the identifiers in the words of a message of the user, or nil if it has no words: what stands in
// backticks, and what is written as only code is: newClient, new_client, Client.Stream.
func mentions(m *aycoder.Message) (names []string) {
	between := func(r rune) bool {
		return !strings.ContainsRune("_.`", r) && !unicode.IsLetter(r) && !unicode.IsDigit(r)
	}
	for _, p := range m.Parts {
		text, ok := p.(*aycoder.Text)
		if m.Role != aycoder.RoleUser || !ok {
			continue
		}
		names = slices.Grow(names, 1)
		for word := range strings.FieldsFuncSeq(runes.Cut(text.Text, maxPrompt), between) {
			name := strings.Trim(word, "`.")
			mixed := strings.LastIndexFunc(name, unicode.IsUpper) > 0 && strings.ContainsFunc(name, unicode.IsLower)
			if !mixed && !strings.Contains(word, "`") && !strings.ContainsAny(name, "_.") {
				continue
			}
			for part := range strings.SplitSeq(name, ".") {
				if len(part) > 2 && len(names) < maxNamed && !slices.Contains(names, part) {
					names = append(names, part)
				}
			}
		}
	}
	return names
}

// add adds a name, relative to the workspace, if it is that of a source file.
func (n *namer) add(name string) {
	if name == "" || len(name) > maxName || len(n.names) >= maxNamed {
		return
	}
	if _, analyzed := n.g.analyzers[path.Ext(name)]; !analyzed && source.LanguageOf(name, nil) == "" {
		return
	}
	if name, ok := n.g.rel(name); ok && !slices.Contains(n.names, name) {
		n.names = append(n.names, name)
	}
}

// rel returns the path of a name relative to the workspace, or false if it is elsewhere.
func (g *Graph) rel(name string) (string, bool) {
	if ws, is := g.files.(interface{ Rel(string) (string, error) }); is {
		rel, err := ws.Rel(name)
		return rel, err == nil
	}
	name = path.Clean(filepath.ToSlash(name))
	return name, filepath.IsLocal(name)
}
