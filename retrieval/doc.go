// Package retrieval finds the pieces of code and text that belong to a question.
//
// A [Retriever] cuts files into chunks along their declarations ([Chunks]) and searches them in two ways: by
// words, in a [Lexical] index, and by meaning, in an [Index] of vectors that an [Embedder] makes. It fuses
// both lists. Without an embedder, it searches by words alone, and its results say so.
//
//	r, err := retrieval.New(ctx, retrieval.WithEmbedder(embedder))
//	err = r.Put(ctx, retrieval.File{Path: "main.go", Source: src, Facts: source.Scan(source.Go, src, source.All)})
//	result, err := r.Search(ctx, "where are requests logged?", 10, retrieval.Filter{})
//
// # Where code goes
//
// The text of a workspace leaves the machine only if the host passes an embedder to [WithRemoteEmbedder].
// [WithEmbedder] accepts only embedders that say that they run on this machine, and nothing here looks for an
// embedder by itself.
//
// # Vectors
//
// An [Index] holds up to a million vectors. It compares short sketches of them with that of the query, and
// only those vectors that may be near, which finds all of the nearest but very few. To make the vectors takes an
// embedder far longer, so hosts do it in the background: searches work meanwhile. [Index.Save] writes an index to a
// file, and [Load] reads it; a vector is not computed again as long as the text of its chunk stays the same.
//
// # Words
//
// A [Lexical] index ranks with BM25, and by whether the words of a query stand beside each other. It splits
// names as programmers write them: HTTPServer has the words http, server and httpserver. A word of the query
// that does not occur finds those that differ by a typing error. The index keeps no texts, and is not saved,
// since it is made faster than a file of it could be checked.
package retrieval

import (
	"strings"

	"github.com/aycoder/aycoder/codegraph/source"
	"github.com/aycoder/aycoder/internal/glob"
)

// Item is what an index knows of a text besides its words or its vector.
type Item struct {
	// ID identifies the item in an index.
	ID string
	// Path is the file of the text, with slashes.
	Path string
	// Language is the language of the file, or "".
	Language source.Language
	// Kind is the kind of the declaration in the text, such as "func" or "class", or "".
	Kind string
}

// Match is an item that a search found. Scores of different searches cannot be compared.
type Match struct {
	Item  *Item // must not be changed
	Score float64
}

// Filter limits a search. The zero Filter accepts all items.
type Filter struct {
	// Path is a directory, a file, or a pattern such as "src/**/*.go". Empty or "." means everything.
	Path string
	// Language and Kind are as in [Item]. Empty means all.
	Language source.Language
	Kind     string
}

// Keep returns a function that reports whether the filter accepts an item, for [Index.Search] and
// [Lexical.Search]. It is nil if the filter accepts all. A bad pattern accepts none.
func (f Filter) Keep() func(*Item) bool {
	if f == (Filter{}) {
		return nil
	}
	name := strings.TrimPrefix(f.Path, "./")
	if name == "." {
		name = ""
	}
	dir := strings.TrimSuffix(name, "/")
	pattern, err := glob.Compile(name)
	return func(i *Item) bool {
		return (f.Language == "" || f.Language == i.Language) && (f.Kind == "" || f.Kind == i.Kind) &&
			(dir == "" || i.Path == dir || strings.HasPrefix(i.Path, dir) && i.Path[len(dir)] == '/' ||
				err == nil && pattern.Match(i.Path))
	}
}
