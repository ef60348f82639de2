package resolve_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/aycoder/aycoder/internal/resolve"
	"github.com/stretchr/testify/require"
)

// layout returns the files of a text in which each begins with a line "-- name --".
func layout(text string) *tree {
	f := newTree()
	for part := range strings.SplitSeq("\n"+strings.TrimSpace(text)+"\n", "\n-- ") {
		if name, content, ok := strings.Cut(part, " --"); ok {
			f.put(name, []byte(strings.TrimPrefix(content, "\n")))
		}
	}
	return f
}

// remove removes a file, and the directories that are empty without it.
func (f *tree) remove(p string) {
	delete(f.content, p)
	delete(f.facts, p)
	for name := path.Base(p); ; name = path.Base(p) + "/" {
		p = path.Dir(p)
		if i, ok := slices.BinarySearch(f.dirs[p], name); ok {
			f.dirs[p] = slices.Delete(f.dirs[p], i, i+1)
		}
		if len(f.dirs[p]) > 0 || p == "." {
			return
		}
		delete(f.dirs, p)
	}
}

// requireImports checks what files import, without what is optional: by file, the targets in the order of the imports.
func requireImports(t *testing.T, files *tree, want map[string]string) {
	t.Helper()
	x := resolve.New(files)
	got := map[string]string{}
	for file := range want {
		require.True(t, files.IsFile(file), file)
		var to []string
		for _, e := range x.Imports(file) {
			if !e.Optional {
				to = append(to, e.To)
			}
		}
		got[file] = strings.Join(to, " ")
	}
	require.Equal(t, want, got)
}

// requireRefs checks what files refer to, as "file name count".
func requireRefs(t *testing.T, files *tree, want map[string][]string) {
	t.Helper()
	x := resolve.New(files)
	got := map[string][]string{}
	for file := range want {
		for r := range x.Refs(file).All() {
			got[file] = append(got[file], fmt.Sprint(r.To, " ", r.Name, " ", r.Count))
		}
	}
	require.Equal(t, want, got)
}

// requireSameAfterEdits writes and removes files at random, and checks after each time that an index that is told
// of it answers as a new one. Some files are written with the content of others.
func requireSameAfterEdits(t *testing.T, text string, rounds int) {
	all := layout(text)
	paths := slices.Sorted(maps.Keys(all.content))
	for seed := range rounds {
		random := rand.New(rand.NewPCG(uint64(seed), 15))
		files := newTree()
		x := resolve.New(files)
		for range 40 {
			p := paths[random.IntN(len(paths))]
			from := p
			if random.IntN(3) == 0 {
				from = paths[random.IntN(len(paths))]
			}
			if files.IsFile(p) && from == p {
				files.remove(p)
			} else {
				files.put(p, all.content[from])
			}
			x.Changed(p, true)
			fresh := resolve.New(files)
			for _, p := range paths {
				require.Equal(t, fresh.Imports(p), x.Imports(p), "seed %d: imports of %s", seed, p)
				require.Equal(t, fresh.Refs(p), x.Refs(p), "seed %d: references of %s", seed, p)
			}
		}
	}
}
