package aycoder_test

import (
	"go/ast"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each exported name of the root is a decision: it is written down in a list. A new system is
// a package, not names in the root.
func TestExportedNames(t *testing.T) {
	var names []string
	for _, s := range sources(t) {
		if s.dir == "." && !s.test() {
			names = append(names, exported(s.file)...)
		}
	}
	slices.Sort(names)
	const file = "testdata/exported.txt"
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(strings.Join(names, "\n")+"\n"), 0o644))
	}
	known, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, strings.Fields(string(known)), names,
		"if the root needs another name, run: go test -run TestExportedNames -update .")
	require.LessOrEqual(t, len(names), 250)
}

// exported returns the exported names that a file declares, without methods and fields.
func exported(file *ast.File) (names []string) {
	add := func(id *ast.Ident) {
		if id.IsExported() {
			names = append(names, id.Name)
		}
	}
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil {
				add(d.Name)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					add(spec.Name)
				case *ast.ValueSpec:
					for _, id := range spec.Names {
						add(id)
					}
				}
			}
		}
	}
	return names
}
