package retrieval

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/aycoder/aycoder/codegraph/source"
	"github.com/aycoder/aycoder/internal/order"
)

// The sizes of chunks in bytes. Embedding models read 256 tokens and more, and code has about three bytes for
// each.
const (
	maxChunk = 2000
	minChunk = 400 // smaller pieces are joined with the next
	overlap  = 200 // of the parts of what is larger than maxChunk
)

// Chunk is a piece of a file.
type Chunk struct {
	Item
	// Name is the name of the declaration in the chunk, with that of its type: "Server.Close". If there are
	// several, it is that of the longest, and "" if there is none.
	Name string
	// Start and End are the range of bytes, and Line and EndLine the lines that it has a part of, from 1.
	Start, End    int
	Line, EndLine int
}

// kinds are the kinds of [Item] for those of declarations.
var kinds = [...]string{
	source.Func: "func", source.Method: "method", source.Type: "type", source.Class: "class", source.Interface: "interface",
	source.Const: "const", source.Var: "var", source.Field: "field", source.Module: "module", source.Macro: "macro",
}

// Chunks cuts a file into pieces of at most about 2,000 bytes. facts are those of its source, or nil for a
// file that is not code.
//
// Together the chunks cover the file, but for white space. They begin and end with declarations: a
// declaration is not divided if it is small enough, one that is too large is divided into the declarations
// in it or else at lines, so that each part repeats the end of the one before, and small neighbours share a
// chunk. The ID of a chunk depends on the path and its text alone, so it stays the same while other parts of
// the file change.
func Chunks(path string, src []byte, facts *source.Facts) (chunks []Chunk) {
	if facts == nil {
		facts = &source.Facts{}
	}
	c := chunker{path: path, src: src, facts: facts, seen: map[string]int{}, line: 1}
	for _, p := range joined(c.pieces()) {
		c.cut(p)
	}
	return c.chunks
}

// piece is a range of bytes, with the declaration that it is, or -1.
type piece struct {
	start, end int
	decl       int
	declLen    int // of the longest declaration of those that were joined
}

type chunker struct {
	path   string
	src    []byte
	facts  *source.Facts
	seen   map[string]int
	chunks []Chunk

	at, line int // how far lines are counted
}

// pieces divides the file into declarations and what is between them.
func (c *chunker) pieces() (out []piece) {
	at := 0
	add := func(end, decl int) {
		if len(bytes.TrimSpace(c.src[at:end])) > 0 {
			p := piece{start: at, end: end, decl: decl}
			if decl >= 0 {
				p.declLen = end - at
			}
			out = append(out, p)
		}
		at = end
	}
	var within []int // the declarations that are divided, from the outside
	for _, i := range c.order() {
		d := c.facts.Decls[i]
		start, end := int(d.At.Start), int(d.At.End)
		if start < at || end > len(c.src) || start >= end {
			continue // in one that is not divided, or on the same line
		}
		for len(within) > 0 && start >= int(c.facts.Decls[within[len(within)-1]].At.End) {
			last := within[len(within)-1]
			within = within[:len(within)-1]
			add(max(at, int(c.facts.Decls[last].At.End)), last)
		}
		outer := -1
		if len(within) > 0 {
			outer = within[len(within)-1]
		}
		add(start, outer)
		if end-start > maxChunk && c.divisible(i) {
			within = append(within, i)
			continue
		}
		add(end, i)
	}
	for ; len(within) > 0; within = within[:len(within)-1] {
		last := within[len(within)-1]
		add(max(at, int(c.facts.Decls[last].At.End)), last)
	}
	add(len(c.src), -1)
	return out
}

// order returns the declarations by where they begin, the outer before the inner.
func (c *chunker) order() []int {
	numbers := make([]int, len(c.facts.Decls))
	for i := range numbers {
		numbers[i] = i
	}
	order.By(numbers, func(i, j *int) int {
		a, b := c.facts.Decls[*i].At, c.facts.Decls[*j].At
		if a.Start != b.Start {
			return int(a.Start) - int(b.Start)
		}
		return int(b.End) - int(a.End)
	})
	return numbers
}

// divisible reports whether there are declarations in a declaration.
func (c *chunker) divisible(i int) bool {
	at := c.facts.Decls[i].At
	return slices.ContainsFunc(c.facts.Decls, func(d source.Decl) bool {
		return d.Parent == int32(i) && d.At.Start >= at.Start && d.At.End <= at.End
	})
}

// joined joins small pieces with their neighbours.
func joined(pieces []piece) (out []piece) {
	for _, p := range pieces {
		last := len(out) - 1
		if last >= 0 && p.end-out[last].start <= maxChunk && min(p.end-p.start, out[last].end-out[last].start) < minChunk {
			out[last].end = p.end
			if p.declLen > out[last].declLen {
				out[last].decl, out[last].declLen = p.decl, p.declLen
			}
			continue
		}
		out = append(out, p)
	}
	return out
}

// cut makes chunks of a piece, more than one if it is too large.
func (c *chunker) cut(p piece) {
	for start := p.start; ; {
		end := p.end
		if end-start > maxChunk+overlap {
			end = start + maxChunk
			if i := bytes.LastIndexByte(c.src[start+maxChunk/2:end], '\n'); i >= 0 {
				end = start + maxChunk/2 + i + 1
			}
		}
		c.add(p, start, end)
		if end == p.end {
			return
		}
		if start = end - overlap; bytes.IndexByte(c.src[start:end], '\n') >= 0 {
			start += bytes.IndexByte(c.src[start:end], '\n') + 1
		}
	}
}

func (c *chunker) add(p piece, start, end int) {
	text := c.src[start:end]
	id := chunkID(c.path, text)
	if c.seen[id]++; c.seen[id] > 1 {
		id += strings.Repeat("+", c.seen[id]-1)
	}
	chunk := Chunk{Item: Item{ID: id, Path: c.path, Language: c.facts.Language}, Start: start, End: end, Line: c.lineAt(start)}
	chunk.EndLine = chunk.Line + bytes.Count(bytes.TrimSuffix(text, []byte("\n")), []byte("\n"))
	if p.decl >= 0 {
		d := c.facts.Decls[p.decl]
		chunk.Kind, chunk.Name = kinds[d.Kind], d.Name
		if d.Of != "" {
			chunk.Name = d.Of + "." + d.Name
		} else if d.Parent >= 0 {
			chunk.Name = c.facts.Decls[d.Parent].Name + "." + d.Name
		}
	}
	c.chunks = append(c.chunks, chunk)
}

// chunkID returns how the ID of a chunk begins: the path, and a hash of the text.
func chunkID(path string, text []byte) string {
	sum := sha256.Sum256(text)
	return path + "#" + hex.EncodeToString(sum[:8])
}

// lineAt returns the line of a place, which is not before the one of the last call but for an overlap.
func (c *chunker) lineAt(place int) int {
	if place >= c.at {
		c.line += bytes.Count(c.src[c.at:place], []byte("\n"))
	} else {
		c.line -= bytes.Count(c.src[place:c.at], []byte("\n"))
	}
	c.at = place
	return c.line
}
