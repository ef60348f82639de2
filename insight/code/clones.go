package code

import (
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"reflect"
	"slices"
)

// Place is a part of a file, in lines from 1.
type Place struct {
	Path string `json:"path"`
	Line int    `json:"line"`
	End  int    `json:"end"`
}

// Clone is code that stands in several places: declarations, statements or expressions of the same form, whatever their names and
// values are.
type Clone struct {
	// Size is the number of nodes of the syntax tree.
	Size   int     `json:"size"`
	Places []Place `json:"places"`
}

// Clones returns the code that is repeated in Go files, by their names, the largest first. A part of something that is repeated as a
// whole, equally often, is not listed. Parts smaller than size do not count; 100 is what dupl (github.com/mibk/dupl) calls a
// threshold. Files that cannot be parsed or that are generated have none.
func Clones(files map[string][]byte, size int) []Clone {
	set, kinds := token.NewFileSet(), map[reflect.Type]uint64{}
	var all []part
	for _, name := range slices.Sorted(maps.Keys(files)) {
		tree, err := parser.ParseFile(set, name, files[name], parser.ParseComments|parser.SkipObjectResolution)
		if err == nil && !ast.IsGenerated(tree) {
			all = appendParts(all, tree, kinds)
		}
	}
	alike := map[uint64][]int{} // by form, the indexes of parts
	for i, p := range all {
		if p.size >= size {
			alike[p.form] = append(alike[p.form], i)
		}
	}
	var out []Clone
	for _, list := range slices.SortedFunc(maps.Values(alike), slices.Compare[[]int]) {
		first := all[list[0]]
		if len(list) < 2 || first.up >= 0 && len(alike[all[first.up].form]) == len(list) {
			continue
		}
		c := Clone{Size: first.size}
		for _, i := range list {
			from, to := set.PositionFor(all[i].node.Pos(), false), set.PositionFor(all[i].node.End(), false)
			c.Places = append(c.Places, Place{from.Filename, from.Line, to.Line})
		}
		out = append(out, c)
	}
	slices.SortStableFunc(out, func(a, b Clone) int {
		p, q := a.Places[0], b.Places[0]
		return cmp.Or(b.Size-a.Size, cmp.Compare(p.Path, q.Path), p.Line-q.Line, p.End-q.End)
	})
	return out
}

// part is a node of a syntax tree with what is below it.
type part struct {
	node ast.Node
	up   int    // the index of the part around it, or -1
	form uint64 // a hash of its structure
	size int
}

// appendParts appends the parts of a file in the order in which they begin.
func appendParts(all []part, tree *ast.File, kinds map[reflect.Type]uint64) []part {
	at := -1
	ast.Inspect(tree, func(n ast.Node) bool {
		if n == nil { // the end of a part
			p := all[at]
			if at = p.up; at >= 0 {
				all[at].form = mix(all[at].form, p.form)
				all[at].size += p.size
			}
			return true
		}
		if _, comment := n.(*ast.CommentGroup); comment {
			return false
		}
		t := reflect.TypeOf(n)
		if kinds[t] == 0 {
			kinds[t] = mix(uint64(len(kinds)), 1)
		}
		all = append(all, part{n, at, kinds[t], 1})
		at = len(all) - 1
		return true
	})
	return all
}

// mix combines hashes, as the finalizer of SplitMix64 (Steele, Lea and Flood 2014) does.
func mix(a, b uint64) uint64 {
	x := a*0x9e3779b97f4a7c15 + b
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
