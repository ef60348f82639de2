package tools

import (
	"context"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/aycoder/aycoder/internal/runes"
	classes "github.com/aycoder/aycoder/internal/shell"
	"github.com/aycoder/aycoder/internal/view"
)

const (
	maxLooked      = 32      // files that are remembered of one command
	maxLookedBytes = 4 << 20 // of all these files; more would displace files that were read
	maxTails       = 16      // suffixes of an output line that are compared with lines of a file
)

// looking runs a command and records what it has shown the model of the files that its
// read-only parts name. The content of that moment counts as seen if lines of it are in
// the output. If a file changed while the command ran, lines that only one version has
// tell which of them was printed. If there are none, the older version counts, because an
// edit of it is merged.
func (b *basher) looking(ctx context.Context, dir, script string, run func() (*result, error)) (*result, error) {
	before := b.look(ctx, dir, script)
	r, err := run()
	if len(before) == 0 || r == nil {
		return r, err
	}
	out := linesOf(shownText(r))
	seen, room := b.ws.Seen().For(ctx), maxLookedBytes
	for _, was := range before {
		now, ok := b.content(ctx, was.path, room)
		room -= len(now)
		switch {
		case !ok || was.text == now:
			now = was.text
		case !out.has(now, was.text):
			now = was.text
		case out.has(was.text, now):
			seen.AddPart(was.path, was.text)
		}
		if out.has(now, "") {
			seen.AddPart(was.path, now)
		}
	}
	return r, err
}

// looked is a file that a command names, and its content.
type looked struct{ path, text string }

// look reads the files that the read-only commands of a script name. Files outside of the
// workspace, secrets and binary files are left out.
func (b *basher) look(ctx context.Context, dir, script string) []looked {
	roots := rootsOf(b.ws)
	for name, root := range roots {
		roots[name] = filepath.ToSlash(root)
	}
	_, full := locate(b.ws, dir)
	root := roots[""]
	delete(roots, "")
	a := classes.Analyze(script, classes.World{Dir: filepath.ToSlash(full), Root: root, More: roots})
	var all []looked
	room := maxLookedBytes
	for _, c := range a.Commands {
		if c.Class != classes.ReadOnly {
			continue
		}
		for _, name := range c.Reads {
			if len(all) == maxLooked || path.IsAbs(name) {
				continue
			}
			rel, err := b.ws.Rel(name)
			if err != nil || slices.ContainsFunc(all, func(l looked) bool { return l.path == rel }) {
				continue
			}
			if text, ok := b.content(ctx, rel, room); ok {
				all = append(all, looked{rel, text})
				room -= len(text)
			}
		}
	}
	return all
}

// content returns the content of a text file of at most that many bytes.
func (b *basher) content(ctx context.Context, name string, most int) (string, bool) {
	f, err := within(ctx, b.ws).Open(name)
	if err != nil {
		return "", false
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || info.Size() > int64(most) {
		return "", false
	}
	data, err := readAll(f, most)
	if err != nil || len(data) > most || runes.Binary(data) {
		return "", false
	}
	return view.String(data), true
}

// outputLines is the set of lines of an output, and of their suffixes behind a prefix
// that programs add: a line number, a file name, a mark.
type outputLines map[string]bool

// linesOf returns the lines of an output, and what stands behind a number or a name in
// each, as tools such as grep print them.
func linesOf(output string) outputLines {
	out := outputLines{}
	for line := range strings.Lines(output) {
		for range maxTails {
			line = strings.TrimSpace(line)
			out[line] = true
			i := strings.IndexAny(line, " \t:+-|)>")
			if i < 0 {
				break
			}
			line = line[i+1:]
		}
	}
	return out
}

// has reports whether the output has a line of text that other lacks.
func (o outputLines) has(text, other string) bool {
	known := map[string]bool{"": true}
	for line := range strings.Lines(other) {
		known[strings.TrimSpace(line)] = true
	}
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); o[line] && !known[line] {
			return true
		}
	}
	return false
}
