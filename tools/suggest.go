package tools

import (
	"context"
	"path"
	"slices"
	"strings"

	"github.com/aycoder/aycoder/internal/runes"
	"github.com/aycoder/aycoder/workspace"
)

// Models misremember names. A list of the names that come near costs a few words, and saves
// the listing of a directory.

const (
	maxSuggestions = 3
	maxCompared    = 5000 // names that are compared
)

// missing adds likely alternatives to the error that a file does not exist.
func missing(ctx context.Context, ws FS, name string, err error) error {
	rel, relErr := ws.Rel(name)
	if relErr != nil || kindOf(err) != workspace.KindNotFound && kindOf(err) != workspace.KindNotDirectory {
		return err
	}
	// Go up to the first directory that exists; the mistake is in the next element.
	for rel != "." {
		dir, base := path.Dir(rel), path.Base(rel)
		if entries, err := ws.ReadDir(ctx, dir); err == nil || len(entries) > 0 {
			var names []string
			for _, e := range entries {
				names = append(names, path.Join(dir, e.Name()))
			}
			return suggestion(name, dir, similar(path.Join(dir, base), names))
		}
		rel = dir
	}
	return err
}

// suggestion is the problem of a name that does not exist, with the names that come near.
func suggestion(name, dir string, names []string) error {
	name = runes.Cut(name, 200)
	if len(names) == 0 {
		return problemf("not_found", "there is no %s; see what there is with list_files, path %q",
			showPath(name), dir)
	}
	for i, n := range names {
		names[i] = showPath(n)
	}
	return problemf("not_found", "there is no %s; did you mean %s?",
		showPath(name), strings.Join(names, " or "))
}

// similar returns the names that resemble a name, the most similar first. Models mistake the
// case, a few letters, an extension, or the end of a name; letters count in proportion to
// the length, so that short names do not resemble everything.
func similar(name string, names []string) []string {
	type scored struct {
		name  string
		score int
	}
	var found []scored
	want := strings.ToLower(path.Base(name))
	for _, n := range names[:min(len(names), maxCompared)] {
		have := strings.ToLower(path.Base(n))
		d := distance(want, have)
		switch {
		case d <= max(len(want)/3, min(2, len(want)-1)): // two adjacent letters were exchanged
		case min(len(want), len(have)) > 2 &&
			(strings.HasPrefix(have, want) || strings.HasPrefix(want, have)):
		case stem(want) == stem(have):
		default:
			continue
		}
		found = append(found, scored{n, d})
	}
	slices.SortStableFunc(found, func(a, b scored) int { return a.score - b.score })
	var out []string
	for _, f := range found[:min(len(found), maxSuggestions)] {
		out = append(out, f.name)
	}
	return out
}

// stem returns a name without its extension, because models often mistake .js for .ts.
func stem(name string) string { return strings.TrimSuffix(name, path.Ext(name)) }

// distance returns the edit distance of two names in bytes. It considers only the
// beginning of long names.
func distance(a, b string) int {
	a, b = a[:min(len(a), 64)], b[:min(len(b), 64)]
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		last := i
		row[0] = i + 1
		for j := range len(b) {
			cost := last
			if a[i] != b[j] {
				cost = 1 + min(last, row[j], row[j+1])
			}
			last, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}
