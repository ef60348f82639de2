package compaction

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/aycoder/aycoder/internal/part"
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
		for _, o := range slices.Backward(part.Outputs(m)) {
			name, text := paths[o.ID], o.Text()
			if o.IsError || name == "" {
				continue
			}
			last, total, all := linesRead(text)
			if texts[[2]string{name, text}] || last > 0 && last <= lines[name] {
				repeated[o.ID] = true
				continue
			}
			texts[[2]string{name, text}] = true
			if all {
				lines[name] = max(lines[name], total)
			}
		}
	}
	return repeated
}

// linesRead returns the last line that an output of read_file has, and the number of lines in the file, as its
// own last line says. all reports whether the output has all of them: some may be cut out of it.
func linesRead(text string) (last, total int, all bool) {
	i := strings.LastIndex(text, "\n[lines ")
	if i < 0 {
		return 0, 0, false
	}
	first := 0
	if n, _ := fmt.Sscanf(text[i+1:], "[lines %d-%d of %d", &first, &last, &total); n < 3 {
		return 0, 0, false
	}
	return last, total, len(lineNumbers().FindAllStringIndex(text[:i+1], -1)) == total
}
