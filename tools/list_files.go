package tools

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"strings"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/runes"
	"github.com/aycoder/aycoder/internal/search"
)

const (
	maxEntries = 1000      // that are listed
	maxCounted = 100_000   // that are counted
	maxListing = 60 * 1024 // bytes
)

const listDescription = `List the files and folders in a folder of the workspace. Folders end in
"/". What .gitignore names is left out. With recursive=true everything below is listed, except
what is in version control and dependency folders (.git, node_modules, vendor, .venv, target,
dist and the like); name such a folder as the path to see into it. At most 1,000 entries are
listed.`

type listArgs struct {
	Path      string `json:"path,omitempty" jsonschema_description:"Folder, relative to the workspace. Default: the workspace itself."`
	Recursive bool   `json:"recursive,omitempty" jsonschema_description:"Also list what is below the folders. Default: false."`
}

// ListFiles returns list_files, which lists a folder, or with recursive everything
// below it, without what git ignores. It lists at most 1,000 entries and says how
// many it left out.
func ListFiles(ws FS, opts ...Option) (aycoder.Tool, error) {
	if _, err := configure(ws, opts); err != nil {
		return nil, err
	}
	list := func(ctx context.Context, inv *invocation, in listArgs) (*result, error) {
		return listFolder(ctx, ws, inv, in)
	}
	return aycoder.NewTool("list_files", listDescription, guard(list),
		aycoder.WithEffect(aycoder.EffectReadOnly), aycoder.WithSubject(aycoder.SubjectPath, "path"))
}

// listing is a list in the making.
type listing struct {
	text           strings.Builder
	shown, leftOut int
	ignored        int
	stopped        bool
	unreadable     []string
	inv            *invocation
	folders        int64
}

func listFolder(
	ctx context.Context, ws FS, inv *invocation, in listArgs,
) (*result, error) {
	name := in.Path
	if name == "" {
		name = "."
	}
	rel, err := ws.Rel(name)
	if err != nil {
		return nil, err
	}
	l := &listing{inv: inv}
	err = l.walk(ctx, ws, search.Start(ws, rel), in.Recursive)
	switch {
	case kindOf(err) == "not_directory" && rel != ".":
		return nil, cmp.Or(asFile(ws, name), missing(ctx, ws, name, err))
	case err != nil:
		return nil, missing(ctx, ws, name, err)
	}
	return l.result(), nil
}

// asFile returns an error if there is a file where a folder was asked for.
func asFile(ws FS, name string) error {
	f, err := ws.Open(name)
	if kindOf(err) == "not_directory" || kindOf(err) == "not_found" {
		return nil
	}
	if err == nil {
		f.Close()
	}
	return problemf("not_directory", "%s is a file; read it with read_file",
		showPath(runes.Cut(name, 200)))
}

// walk lists folders, each before what is in it.
func (l *listing) walk(
	ctx context.Context, ws FS, dir search.Folder, deep bool,
) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	all, down, ignored, err := search.Children(ctx, ws, dir, deep)
	l.ignored += ignored
	if err != nil {
		if l.folders == 0 || ctx.Err() != nil {
			return err
		}
		l.unreadable = append(l.unreadable, dir.Path)
		return nil
	}
	if l.folders++; l.folders%200 == 0 {
		l.inv.Progress(aycoder.Progress{Current: int64(l.shown + l.leftOut), Message: dir.Path})
	}
	for _, e := range all {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		l.add(e)
		if deep && e.Entry.IsDir() && !l.stopped {
			if err := l.walk(ctx, ws, down[0], deep); err != nil {
				return err
			}
		}
		if e.Entry.IsDir() {
			down = down[1:]
		}
	}
	return nil
}

func (l *listing) add(e search.Entry) {
	if l.shown >= maxEntries || l.text.Len() >= maxListing {
		l.leftOut++
		l.stopped = l.leftOut >= maxCounted
		return
	}
	l.shown++
	l.text.WriteString(showPath(e.Path) + mark(e.Entry.Type()) + "\n")
}

// mark says what an entry is that is not a regular file.
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

func (l *listing) result() *result {
	if l.shown == 0 {
		l.text.WriteString("[empty folder]\n")
	}
	if l.leftOut > 0 {
		atLeast := ""
		if l.stopped {
			atLeast = "at least "
		}
		fmt.Fprintf(&l.text, "[%s%d more, not listed; list a folder below, or use code_search]\n",
			atLeast, l.leftOut)
	}
	if l.ignored > 0 {
		fmt.Fprintf(&l.text, "[%s left out: ignored by git, version control or dependencies]\n",
			plural(l.ignored, "entry"))
	}
	for i, p := range l.unreadable {
		if i == 5 {
			fmt.Fprintf(&l.text, "[and %d more that could not be read]\n", len(l.unreadable)-i)
			break
		}
		fmt.Fprintf(&l.text, "[%s could not be read]\n", showPath(p)+"/")
	}
	return textResult(l.text.String(), plural(l.shown+l.leftOut, "entry"))
}
