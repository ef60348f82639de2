package lsp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/aycoder/aycoder/edit"
)

// Position is a place in a text. Line and Column are 1-based; Column counts bytes.
type Position struct{ Line, Column int }

// Location is a place that a server has named.
type Location struct {
	// Path is relative to the workspace and slash-separated. If Outside is true, the file is elsewhere, as
	// the standard library of the language is, and Path is absolute. Such a file is never read.
	Path    string
	Outside bool
	// Position is where the name begins. Column is 0 if Outside is true or the file cannot be read, since
	// servers count in units that only the text tells.
	Position
}

const (
	askFor       = 30 * time.Second // how long a question to a server may take
	maxLocations = 10_000           // of an answer
	maxRounds    = 3                // of a rename
	maxUses      = 64               // files that are opened before it
	maxRenamed   = 256              // files of a rename, as of any plan
)

var (
	errAnswer    = errors.New("the answer does not fit the text")
	errOutside   = errors.New("it would change files outside the workspace")
	errOperation = errors.New("it would create, rename or delete files, which is not supported")
	errUnstable  = errors.New("files keep changing; try again")
)

// Definition returns where the name at a position is defined. The file is in the workspace. The result is empty if
// the server knows of no definition. The error is an [*Error], or that of reading the file.
func (c *Client) Definition(ctx context.Context, name string, at Position) ([]Location, error) {
	return c.locations(ctx, "definition", name, at)
}

// References returns all places where the name at a position is used, with its declaration. They are sorted by
// path and position. The errors are those of [Client.Definition].
func (c *Client) References(ctx context.Context, name string, at Position) ([]Location, error) {
	return c.locations(ctx, "references", name, at)
}

func (c *Client) locations(ctx context.Context, op, name string, at Position) (found []Location, err error) {
	err = c.ask(ctx, op, name, func(ctx context.Context, x *session) error {
		var answer locations
		params := x.params(name, at)
		if op == "references" {
			params["context"] = map[string]any{"includeDeclaration": true}
		}
		if err := x.conn.call(ctx, "textDocument/"+op, params, &answer); err != nil {
			return err
		}
		found = x.resolve(answer)
		return nil
	})
	return found, err
}

// ask calls f with the server of a file, which is open there in its current text.
func (c *Client) ask(ctx context.Context, op, name string, f func(context.Context, *session) error) error {
	s, err := c.serverOf(name)
	if err != nil {
		return err
	}
	return s.ask(ctx, op, func(ctx context.Context, x *session) error {
		text, err := c.read(name)
		if err != nil {
			return err
		}
		x.sync(name, text)
		return f(ctx, x)
	})
}

func (s *server) ask(ctx context.Context, op string, f func(context.Context, *session) error) error {
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	return s.withTurn(ctx, func() error {
		x, err := s.session(ctx)
		if err != nil {
			return err
		}
		if x.refresh(ctx, nil) {
			x.owed = nil
		}
		return x.wrap(op, f(ctx, x))
	})
}

// params are the parameters of a question about a position in an open file.
func (x *session) params(name string, at Position) map[string]any {
	line, _, _ := linesOf(x.docs.open[name].text).line(at.Line - 1)
	return map[string]any{
		"textDocument": map[string]any{"uri": x.uri(name)},
		"position":     wirePosition{at.Line - 1, characterOf(line, max(at.Column-1, 0), x.utf8)},
	}
}

// resolve turns the locations of a server into those of the workspace.
func (x *session) resolve(all []wireLocation) (found []Location) {
	all = all[:min(len(all), maxLocations)]
	slices.SortStableFunc(all, func(a, b wireLocation) int { return strings.Compare(a.URI, b.URI) })
	last, lines := "", textLines{} // only one text is kept
	for _, w := range all {
		abs := pathOf(w.URI, windows())
		if abs == "" || w.Range.Start.Line < 0 {
			continue // of another kind, such as the text of an archive
		}
		at := Location{Path: abs, Outside: true, Position: Position{Line: w.Range.Start.Line + 1}}
		if name, ok := x.client.relative(abs); ok {
			at.Path, at.Outside = name, false
			if name != last {
				text, _ := x.client.read(name) // without it, there is no column
				last, lines = name, linesOf(text)
			}
			if line, _, ok := lines.line(w.Range.Start.Line); ok {
				at.Column = byteOf(line, w.Range.Start.Character, x.utf8) + 1
			}
		}
		found = append(found, at)
	}
	slices.SortFunc(found, func(a, b Location) int {
		if a.Outside != b.Outside && a.Outside {
			return 1
		}
		if a.Outside != b.Outside {
			return -1
		}
		return cmp.Or(strings.Compare(a.Path, b.Path), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return slices.Compact(found)
}

// symbols returns the declarations of a name in the workspace, which may be qualified: Client.Close.
func (c *Client) symbols(ctx context.Context, name string) (found []Location, err error) {
	last := name[strings.LastIndexByte(name, '.')+1:]
	for _, s := range c.servers {
		failure := s.ask(ctx, "symbols", func(ctx context.Context, x *session) error {
			var answer []wireSymbol
			if err := x.conn.call(ctx, "workspace/symbol", map[string]any{"query": last}, &answer); err != nil {
				return err
			}
			var named []wireLocation
			for _, a := range answer {
				if a.Name == last || a.Name == name || strings.HasSuffix(a.Name, "."+name) {
					named = append(named, a.Location)
				}
			}
			found = append(found, x.resolve(named)...)
			return nil
		})
		err = errors.Join(err, failure)
	}
	if len(found) > 0 {
		return found, nil
	}
	return nil, err
}

// Rename returns the changes that give the name at a position a new one wherever it is used. Nothing is written:
// make a plan of them with [edit.NewPlan]. A rename that would change a file outside the workspace, or create,
// rename or delete one, is refused as a whole. The server's answer counts only if it is about the texts that are
// the Base of the changes.
func (c *Client) Rename(ctx context.Context, name string, at Position, newName string) (files []edit.File, err error) {
	err = c.ask(ctx, "rename", name, func(ctx context.Context, x *session) error {
		old := wordAt(x.docs.open[name].text, at)
		params := x.params(name, at)
		params["newName"] = newName
		x.openUses(ctx, old)
		for range maxRounds {
			var answer workspaceEdit
			if err := x.conn.call(ctx, "textDocument/rename", params, &answer); err != nil {
				return err
			}
			edits, err := x.edited(&answer)
			if err != nil {
				return err
			}
			again, err := x.openAll(edits)
			if err != nil {
				return err
			}
			if again { // these positions were in what the server had read by itself
				continue
			}
			files, err = x.apply(edits, old, newName)
			return err
		}
		return errUnstable
	})
	return files, err
}

// openUses opens files that may use a name. Some servers look for files while they answer already, and
// would leave those out that they have not found yet.
func (x *session) openUses(ctx context.Context, word string) {
	files, room := 0, maxText
	for _, name := range slices.Sorted(maps.Keys(x.docs.known)) {
		if ctx.Err() != nil || files == maxUses {
			return
		}
		if x.Languages[path.Ext(name)] == "" {
			continue
		}
		text, err := x.client.read(name)
		if err != nil || len(text) > room || len(occurrences(text, word)) == 0 {
			continue
		}
		files, room = files+1, room-len(text)
		x.sync(name, text)
	}
}

// edited returns the edits of a server by file.
func (x *session) edited(all *workspaceEdit) (map[string][]wireEdit, error) {
	byURI := map[string][]wireEdit{}
	maps.Copy(byURI, all.Changes)
	for _, ch := range all.DocumentChanges {
		if ch.Kind != "" {
			return nil, errOperation
		}
		byURI[ch.TextDocument.URI] = append(byURI[ch.TextDocument.URI], ch.Edits...)
	}
	edits := map[string][]wireEdit{}
	for uri, list := range byURI {
		name, ok := x.client.relative(pathOf(uri, windows()))
		if !ok {
			return nil, fmt.Errorf("%w: %s", errOutside, lineOf(uri, maxLine))
		}
		edits[name] = append(edits[name], list...)
	}
	if len(edits) > maxRenamed {
		return nil, &edit.LimitError{Limit: "files in a rename", Max: maxRenamed}
	}
	return edits, nil
}

// openAll opens files in their current texts, and reports whether one of them is new to the server.
func (x *session) openAll(edits map[string][]wireEdit) (anything bool, err error) {
	for name := range edits {
		text, err := x.client.read(name)
		if err != nil {
			return false, err
		}
		anything = x.sync(name, text) || anything
	}
	return anything, nil
}

// apply applies edits to the texts of open files. Each must replace the old name: anything else would be a
// change that nobody asked for, or in the wrong place.
func (x *session) apply(edits map[string][]wireEdit, old, newName string) (files []edit.File, err error) {
	for _, name := range slices.Sorted(maps.Keys(edits)) {
		text := x.docs.open[name].text
		proposed, err := x.replace(text, edits[name], old, newName)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		files = append(files, edit.File{Path: name, Kind: edit.Change, Base: text, Proposed: proposed})
	}
	return files, nil
}

// replace applies edits to a text. They must not overlap.
func (x *session) replace(text string, edits []wireEdit, old, newName string) (string, error) {
	type span struct {
		start, end int
		text       string
	}
	spans, lines := make([]span, len(edits)), linesOf(text)
	for i, e := range edits {
		start, ok := x.offset(lines, e.Range.Start)
		end, fine := x.offset(lines, e.Range.End)
		if !ok || !fine || end < start || old == "" || text[start:end] != old || !renames(e.NewText, old, newName) {
			return "", errAnswer
		}
		spans[i] = span{start, end, e.NewText}
	}
	slices.SortStableFunc(spans, func(a, b span) int { return a.start - b.start })
	spans = slices.Compact(spans)
	var b strings.Builder
	at := 0
	for _, s := range spans {
		if s.start < at {
			return "", errAnswer
		}
		b.WriteString(text[at:s.start] + s.text)
		at = s.end
	}
	return b.String() + text[at:], nil
}

// renames reports whether a text is the new name, or both with what a server of JavaScript puts between them, where
// one name was short for two: in objects, imports and exports.
func renames(text, old, newName string) bool {
	switch text {
	case newName, old + ": " + newName, newName + ": " + old, old + " as " + newName, newName + " as " + old:
		return true
	}
	return false
}

func (x *session) offset(lines textLines, at wirePosition) (int, bool) {
	line, start, ok := lines.line(at.Line)
	return start + byteOf(line, at.Character, x.utf8), ok
}

// wordAt returns the name at a position.
func wordAt(text string, at Position) string {
	line, _, _ := linesOf(text).line(at.Line - 1)
	start := min(max(at.Column-1, 0), len(line))
	end := start
	for end < len(line) && isWord(line[end]) {
		end++
	}
	for start > 0 && isWord(line[start-1]) {
		start--
	}
	return line[start:end]
}

// isWord reports whether a byte can be part of a name. Those of letters outside ASCII can.
func isWord(b byte) bool {
	return b == '_' || b == '$' || b >= 0x80 || '0' <= b && b <= '9' || 'a' <= b|0x20 && b|0x20 <= 'z'
}

// occurrences returns the columns at which a name stands in a line, as a whole word.
func occurrences(line, name string) (columns []int) {
	for at := 0; name != ""; {
		i := strings.Index(line[at:], name)
		if i < 0 {
			break
		}
		start, end := at+i, at+i+len(name)
		if (start == 0 || !isWord(line[start-1])) && (end == len(line) || !isWord(line[end])) {
			columns = append(columns, start+1)
		}
		at = end
	}
	return columns
}
