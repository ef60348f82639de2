package tools

import (
	"cmp"
	"context"
	"path"
	"path/filepath"
	"strings"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/glob"
	"github.com/aycoder/aycoder/internal/rootpath"
	"github.com/aycoder/aycoder/internal/search"
)

const globDescription = `Find files of the workspace by their path: * and ? stay within a directory,
** crosses directories, [a-z] and {a,b} are alternatives. A pattern without a slash matches the
name, in any directory. Directories themselves are not found. Files that .gitignore names, and
version control and dependency directories, are left out, unless the pattern or the path begins with
one. At most 1,000 paths are listed, relative to the workspace and sorted.`

type globArgs struct {
	Pattern string `json:"pattern" jsonschema_description:"Such as *.go, src/**/*.{ts,tsx} or **/*_test.py; relative to path."`
	Path    string `json:"path,omitempty" jsonschema_description:"Directory to look in, relative to the workspace. Default: the workspace itself."`
}

// Glob returns the tool glob, which finds files whose paths match a pattern. It leaves out files
// that git ignores. A result lists at most 1,000 files, sorted by path, and tells how many more
// there are.
func Glob(ws FS, opts ...Option) (aycoder.Tool, error) {
	c, err := configure(ws, opts)
	if err != nil {
		return nil, err
	}
	find := func(ctx context.Context, inv *invocation, in globArgs) (*result, error) {
		return findFiles(ctx, within(ctx, ws), inv, c, in)
	}
	return aycoder.NewTool("glob", globDescription, guard(find),
		aycoder.WithEffect(aycoder.EffectReadOnly), aycoder.WithSubject(aycoder.SubjectPath, "path"))
}

// findFiles accepts absolute patterns below the workspace, too: models often copy them from
// the output of a command.
func findFiles(
	ctx context.Context, ws FS, inv *invocation, c *config, in globArgs,
) (*result, error) {
	if in.Pattern == "" {
		return nil, problemf("invalid_arguments",
			"pattern is empty; write it like *.go or src/**/*.{ts,tsx}")
	}
	base, err := ws.Rel(cmp.Or(in.Path, "."))
	if err != nil {
		return nil, err
	}
	pattern := filepath.ToSlash(in.Pattern)
	for name, root := range rootsOf(ws) {
		if rest, absolute := strings.CutPrefix(pattern, filepath.ToSlash(root)+"/"); absolute {
			base, pattern = rootpath.Join(name, "."), rest
			break
		}
	}
	if err := checkGlob(pattern); err != nil {
		return nil, err
	}
	start, p, err := startOf(base, pattern)
	if err != nil {
		return nil, err
	}
	l := &listing{whole: inv.Whole, match: func(e search.Entry) bool {
		return !e.Entry.IsDir() && p.Match(below(base, e.Path))
	}}
	src := walking(ctx, ws, start, c.ignored)
	if err := l.list(ctx, src, inv, search.Start(src, start, c.ignored), true); err != nil {
		return nil, noDirectory(ctx, ws, start, err)
	}
	if err := reached(ws, "list", start); err != nil {
		return nil, err
	}
	if l.shown == 0 {
		l.text.WriteString("No files match.\n")
	}
	return l.result("narrow the pattern or the path", "file"), nil
}

// startOf returns the deepest directory that is known to contain all matches, and the
// compiled pattern, which is for paths relative to base. Starting there saves a walk over
// the rest of the workspace. It also looks into ignored directories that a pattern names,
// since what is ignored is decided below the start.
func startOf(base, pattern string) (string, *glob.Pattern, error) {
	pattern = glob.Extend(pattern)
	p, err := glob.Compile(pattern)
	if err != nil {
		return "", nil, problemf("invalid_arguments", "%v", err)
	}
	literal := pattern
	if i := strings.IndexAny(pattern, `*?[{\`); i >= 0 {
		literal = pattern[:i]
	}
	return path.Join(base, literal[:strings.LastIndexByte(literal, '/')+1]), p, nil
}

// below returns the path of a file relative to an ancestor directory.
func below(base, p string) string {
	if base == "." {
		return p
	}
	return strings.TrimPrefix(p, base+"/")
}
