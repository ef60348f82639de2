package tools

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"strings"
	"sync/atomic"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/runes"
	"github.com/aycoder/aycoder/internal/search"
	"github.com/aycoder/aycoder/workspace"
)

// Listings are sorted, and cut at bounds that are the same for all directories: a model
// that knows how much is missing can ask for a directory below.

const (
	maxEntries = 1000      // listed
	maxCounted = 100_000   // counted
	maxListing = 60 * 1024 // bytes
)

const listDescription = `List the files and directories in a directory of the workspace. Directories
end in "/". Files that .gitignore names are left out. With recursive=true everything below is
listed, except the contents of version control and dependency directories (.git, node_modules,
vendor, .venv, target, dist and the like); name such a directory as the path to see into it. At most
1,000 entries are listed.`

type listArgs struct {
	Path      string `json:"path,omitempty" jsonschema_description:"Directory, relative to the workspace. Default: the workspace itself."`
	Recursive bool   `json:"recursive,omitempty" jsonschema_description:"Also list what is below the directories. Default: false."`
}

// ListFiles returns the tool list_files, which lists a directory, or recursively everything below
// it. It leaves out files that git ignores. A result lists at most 1,000 entries and tells how
// many more there are.
func ListFiles(ws FS, opts ...Option) (aycoder.Tool, error) {
	c, err := configure(ws, opts)
	if err != nil {
		return nil, err
	}
	list := func(ctx context.Context, inv *invocation, in listArgs) (*result, error) {
		return listDirectory(ctx, within(ctx, ws), inv, c, in)
	}
	return aycoder.NewTool("list_files", listDescription, guard(list),
		aycoder.WithEffect(aycoder.EffectReadOnly), aycoder.WithSubject(aycoder.SubjectPath, "path"))
}

// listing is a list under construction.
type listing struct {
	match func(search.Entry) bool // nil matches all entries
	whole int                     // bytes that the text may have, of which the model gets those before end
	end   int

	text           strings.Builder
	shown, leftOut int
	ignored        int
	stopped        bool
	unreadable     []string
	partial        []string
	seen           atomic.Int64
}

// listDirectory lists a directory, or everything below it.
func listDirectory(
	ctx context.Context, ws FS, inv *invocation, c *config, in listArgs,
) (*result, error) {
	name := cmp.Or(in.Path, ".")
	rel, err := ws.Rel(name)
	if err != nil {
		return nil, err
	}
	l := &listing{whole: inv.Whole}
	var src search.Source = ws
	if in.Recursive {
		src = walking(ctx, ws, rel, c.ignored)
	}
	err = l.list(ctx, src, inv, search.Start(src, rel, c.ignored), in.Recursive)
	if err != nil {
		return nil, noDirectory(ctx, ws, name, err)
	}
	if err := reached(ws, "list", name); err != nil {
		return nil, err
	}
	if l.shown == 0 {
		l.text.WriteString("[empty directory]\n")
	}
	return l.result("list a directory below, or use glob", "entry"), nil
}

// list walks the directories and reports its progress.
func (l *listing) list(
	ctx context.Context, src search.Source, inv *invocation, start search.Directory, deep bool,
) error {
	defer watch(inv, func() aycoder.Progress {
		return aycoder.Progress{Current: l.seen.Load(), Message: "entries"}
	})()
	return l.walk(ctx, src, start, deep)
}

// noDirectory explains why a directory cannot be listed.
func noDirectory(ctx context.Context, ws FS, name string, err error) error {
	if kindOf(err) == workspace.KindNotDirectory {
		if err := asFile(ws, name); err != nil {
			return err
		}
	}
	return missing(ctx, ws, name, err)
}

// asFile returns an error if there is a file where a directory was asked for. It opens the
// name, because an element of the path may be a file as well, which is another error.
func asFile(ws FS, name string) error {
	f, err := ws.Open(name)
	if kindOf(err) == workspace.KindNotDirectory || kindOf(err) == workspace.KindNotFound {
		return nil
	}
	if err == nil {
		f.Close()
	}
	return problemf("not_directory", "%s is a file; read it with read_file",
		showPath(runes.Cut(name, 200)))
}

// walk lists directories, each before its contents.
func (l *listing) walk(
	ctx context.Context, src search.Source, dir search.Directory, deep bool,
) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	found, err := search.Children(ctx, src, dir, deep)
	if err != nil {
		if l.seen.Add(1) == 1 || ctx.Err() != nil {
			return err
		}
		l.unreadable = append(l.unreadable, dir.Path)
		return nil
	}
	l.seen.Add(int64(len(found.Entries)) + 1)
	l.ignored += found.Ignored
	if found.Partial {
		l.partial = append(l.partial, dir.Path)
	}
	down := found.Down
	for _, e := range found.Entries {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		l.add(e)
		if !e.Entry.IsDir() {
			continue
		}
		if deep && !l.stopped {
			if err := l.walk(ctx, src, down[0], deep); err != nil {
				return err
			}
		}
		down = down[1:]
	}
	return nil
}

// add adds an entry. Those beyond the bounds are counted, so that the model knows how much
// it does not see.
func (l *listing) add(e search.Entry) {
	if l.match != nil && !l.match(e) {
		return
	}
	line := showPath(e.Path) + mark(e.Entry.Type()) + "\n"
	if l.shown >= maxEntries || l.end >= maxListing {
		l.leftOut++
		l.stopped = l.leftOut >= maxCounted
		if l.text.Len()+len(line) <= l.whole {
			l.text.WriteString(line)
		}
		return
	}
	l.shown++
	l.text.WriteString(line)
	l.end = l.text.Len()
}

// result returns the listing with its notes.
func (l *listing) result(more, what string) *result {
	end := l.text.Len()
	l.notes(more)
	r := textResult(l.text.String(), plural(l.shown+l.leftOut, what))
	if l.end > 0 && l.end < end {
		r.Head, r.Tail = l.end, l.text.Len()-end
	}
	return r
}

// mark describes an entry that is not a regular file.
func mark(t fs.FileMode) string {
	switch {
	case t.IsDir():
		return "/"
	case t&fs.ModeSymlink != 0:
		return " (link)"
	case t&fs.ModeNamedPipe != 0:
		return " (pipe)"
	case !t.IsRegular():
		return " (special file)"
	default:
		return ""
	}
}

// notes lists what was left out, and how to get it.
func (l *listing) notes(more string) {
	if l.leftOut > 0 {
		atLeast := ""
		if l.stopped {
			atLeast = "at least "
		}
		listed := "listed"
		if l.whole > 0 {
			listed = "shown"
		}
		fmt.Fprintf(&l.text, "[%s%d more, not %s; %s]\n", atLeast, l.leftOut, listed, more)
	}
	if l.ignored > 0 {
		fmt.Fprintf(&l.text, "[%s left out: ignored by git, version control or dependencies; "+
			"name such a directory as the path to see into it]\n", plural(l.ignored, "entry"))
	}
	each(&l.text, l.partial,
		"has too many entries: not all of them were looked at; use bash with ls and grep")
	each(&l.text, l.unreadable, "could not be read")
}

// each writes the same remark about each of several directories.
func each(b *strings.Builder, directories []string, what string) {
	for i, p := range directories {
		if i == 5 {
			fmt.Fprintf(b, "[the same holds for %d more directories]\n", len(directories)-i)
			return
		}
		fmt.Fprintf(b, "[%s %s]\n", showPath(p)+"/", what)
	}
}
