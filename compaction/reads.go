package compaction

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/aycoder/aycoder"
)

// readTool is the name of the tool that reads files, whose outputs replace earlier ones.
const readTool = "read_file"

// repeatedReads returns the calls before note.At whose outputs a later read of the same file replaces:
// one that returned the same text, or all lines of the file. A later read of other lines replaces
// nothing, since lines move. Other tools never show all of a file.
func (v *conversation) repeatedReads() map[string]bool {
	if v.note.Short == 0 {
		return nil
	}
	repeated, paths := map[string]bool{}, map[string]string{}
	texts, lines := map[[2]string]bool{}, map[string]int{} // of later reads, by path
	messages := v.messages[max(v.head, v.note.From):v.note.At]
	for _, m := range messages {
		for _, use := range m.Calls() {
			var args struct{ Path string }
			if use.Name == readTool && json.Unmarshal(use.Args, &args) == nil && args.Path != "" {
				paths[use.ID] = path.Clean(args.Path)
			}
		}
	}
	for _, m := range slices.Backward(messages) {
		for _, p := range slices.Backward(m.Parts) {
			o, ok := p.(*aycoder.ToolOutput)
			if !ok || o.IsError || paths[o.ID] == "" {
				continue
			}
			name, text := paths[o.ID], o.Text()
			r, ok := linesRead(text)
			if texts[[2]string{name, text}] || ok && r.last <= lines[name] {
				repeated[o.ID] = true
				continue
			}
			texts[[2]string{name, text}] = true
			if ok && r.whole(text) {
				lines[name] = max(lines[name], r.total)
			}
		}
	}
	return repeated
}

// A lineRange is what the last lines of an output of read_file say of it.
type lineRange struct{ first, last, total int }

func linesRead(text string) (r lineRange, ok bool) {
	i := strings.LastIndex(text, "\n[lines ")
	if i < 0 {
		return r, false
	}
	n, _ := fmt.Sscanf(text[i+1:], "[lines %d-%d of %d", &r.first, &r.last, &r.total)
	return r, n == 3
}

// whole reports whether a text has all lines of a file, each with its number: some may be cut out of it.
func (r lineRange) whole(text string) bool {
	if r.first != 1 || r.last != r.total {
		return false
	}
	for n := 1; n <= r.total; n++ {
		line, rest, _ := strings.Cut(text, "\n")
		number, _, ok := strings.Cut(line, "\t")
		if !ok || strings.TrimLeft(number, " ") != fmt.Sprint(n) {
			return false
		}
		text = rest
	}
	return true
}
