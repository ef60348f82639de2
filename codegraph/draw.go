package codegraph

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/aycoder/aycoder/internal/order"
)

// Drawing is the dependencies between the parts of a directory: its files, and the directories in it, each with
// all that is below.
type Drawing struct {
	// Nodes are the names of the parts, sorted, directories with a slash at the end.
	Nodes []string
	// Edges are sorted by From and To.
	Edges []DrawingEdge
}

// DrawingEdge says that files of one part depend on files of another.
type DrawingEdge struct {
	// From and To are indexes of Nodes.
	From, To int
	// Count is the number of pairs of files.
	Count int
	// Cycle reports that To also depends on From, directly or through other parts.
	Cycle bool
}

// Draw returns the dependencies between the parts of a directory. Parts without source code are left out. The
// root of the workspace is ".".
func (s *Snapshot) Draw(dir string) *Drawing {
	l := s.links()
	part := make([]string, len(s.files)) // of a file, or ""
	names := map[string]bool{}
	for i, f := range s.files {
		if rest, ok := below(dir, f.path); ok && f.facts != nil {
			name, _, deeper := strings.Cut(rest, "/")
			if deeper {
				name += "/"
			}
			part[i], names[name] = name, true
		}
	}
	d := &Drawing{Nodes: slices.Sorted(maps.Keys(names))}
	counts := map[[2]int]int{}
	for i, deps := range l.deps {
		for _, dep := range deps {
			if from, to := part[i], part[dep]; from != "" && to != "" && from != to {
				a, _ := slices.BinarySearch(d.Nodes, from)
				b, _ := slices.BinarySearch(d.Nodes, to)
				counts[[2]int{a, b}]++
			}
		}
	}
	for e, n := range counts {
		d.Edges = append(d.Edges, DrawingEdge{From: e[0], To: e[1], Count: n})
	}
	order.By(d.Edges, func(a, b *DrawingEdge) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To))
	})
	parts := d.components().part
	for i, e := range d.Edges {
		d.Edges[i].Cycle = parts[e.From] == parts[e.To]
	}
	return d
}

func below(dir, p string) (rest string, ok bool) {
	if dir = path.Clean(dir); dir == "." {
		return p, true
	}
	return strings.CutPrefix(p, dir+"/")
}

// components returns the nodes that depend on each other, in the order of dependencies.
func (d *Drawing) components() *links {
	l := &links{deps: make([][]int32, len(d.Nodes))}
	for _, e := range d.Edges {
		l.deps[e.From] = append(l.deps[e.From], int32(e.To))
	}
	l.part, l.parts = order.Components(l.deps)
	l.sort()
	return l
}

// DOT returns the drawing in the language of Graphviz. Edges of cycles are red.
func (d *Drawing) DOT() string {
	var out strings.Builder
	out.WriteString("digraph {\n  rankdir=LR;\n  node [shape=box, fontname=\"sans-serif\"];\n")
	for i, name := range d.Nodes {
		fmt.Fprintf(&out, "  n%d [label=%s];\n", i, dotString(name))
	}
	for _, e := range d.Edges {
		color := ""
		if e.Cycle {
			color = ", color=red"
		}
		fmt.Fprintf(&out, "  n%d -> n%d [label=%d%s];\n", e.From, e.To, e.Count, color)
	}
	out.WriteString("}\n")
	return out.String()
}

// dotString quotes a text for Graphviz, in whose strings only the quote and the backslash are special.
func dotString(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(s) + `"`
}

// Mermaid returns the drawing as a flowchart of Mermaid. Edges of cycles are red.
func (d *Drawing) Mermaid() string {
	var out strings.Builder
	out.WriteString("flowchart LR\n")
	for i, name := range d.Nodes {
		fmt.Fprintf(&out, "  n%d[\"%s\"]\n", i, mermaidText(name))
	}
	var red []string
	for i, e := range d.Edges {
		fmt.Fprintf(&out, "  n%d -->|%d| n%d\n", e.From, e.Count, e.To)
		if e.Cycle {
			red = append(red, strconv.Itoa(i))
		}
	}
	if len(red) > 0 {
		fmt.Fprintf(&out, "  linkStyle %s stroke:red\n", strings.Join(red, ","))
	}
	return out.String()
}

// mermaidText writes characters that are special in Mermaid, or in HTML, as entities of Mermaid.
func mermaidText(s string) string {
	var out strings.Builder
	for _, r := range s {
		if strings.ContainsRune("\"#;&<>\r\n\\`", r) {
			fmt.Fprintf(&out, "#%d;", r)
		} else {
			out.WriteRune(r)
		}
	}
	return out.String()
}

// The measures of an SVG, in pixels.
const (
	boxHeight = 28
	rowHeight = 46
	columnGap = 110
	letter    = 7.3 // the width of a letter at 12 px
	margin    = 20
)

// A box is where a node is drawn.
type box struct{ x, y, width float64 }

// SVG returns the drawing as a picture that needs nothing else: it has no scripts and no references. Each
// part stands to the right of those that depend on it. Edges of cycles are red.
func (d *Drawing) SVG() string {
	boxes, width, height := d.layout()
	var out strings.Builder
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%.0f" viewBox="0 0 %.0f %.0f" font-family="sans-serif" font-size="12">`+"\n", width, height, width, height)
	out.WriteString(`<style>rect{fill:#fff;stroke:#456}text{fill:#123}path{fill:none;stroke:#89a;stroke-opacity:.6}.c{stroke:#c33;stroke-opacity:1}` +
		`@media(prefers-color-scheme:dark){rect{fill:#1d242c;stroke:#9ab}text{fill:#dde}path{stroke:#678}.c{stroke:#f66}}</style>` + "\n" +
		`<defs><marker id="a" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8"/></marker></defs>` + "\n")
	for _, e := range d.Edges {
		class := ""
		if e.Cycle {
			class = ` class="c"`
		}
		fmt.Fprintf(&out, `<path%s d="%s" marker-end="url(#a)" stroke-width="%.1f"><title>%s → %s: %d</title></path>`+"\n", class,
			curve(boxes[e.From], boxes[e.To]), min(1+float64(e.Count)/20, 4), svgText(d.Nodes[e.From]), svgText(d.Nodes[e.To]), e.Count)
	}
	for i, b := range boxes {
		fmt.Fprintf(&out, `<rect x="%.0f" y="%.0f" width="%.0f" height="%d" rx="5"/><text x="%.0f" y="%.0f">%s</text>`+"\n",
			b.x, b.y, b.width, boxHeight, b.x+10, b.y+18, svgText(d.Nodes[i]))
	}
	out.WriteString("</svg>\n")
	return out.String()
}

// svgText escapes a text, and replaces what no XML document may have. Package html would link its table of all entities.
func svgText(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&#34;", "'", "&#39;").Replace(strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == 0xfffe || r == 0xffff {
			return '\ufffd'
		}
		return r
	}, s))
}

// curve returns a line from the right side of a box to the left side of another, or around if that one is
// not to the right.
func curve(from, to box) string {
	x1, y1, x2, y2 := from.x+from.width, from.y+boxHeight/2, to.x, to.y+boxHeight/2
	bend := max((x2-x1)/2, 30)
	if x2 < x1 {
		bend = 60
	}
	return fmt.Sprintf("M%.0f %.0fC%.0f %.0f %.0f %.0f %.0f %.0f", x1, y1, x1+bend, y1, x2-bend, y2, x2, y2)
}

// layout places each node in a column to the right of all that depend on it, and in the column at the mean
// height of those.
func (d *Drawing) layout() (boxes []box, width, height float64) {
	l := d.components()
	column := make([]int, len(d.Nodes))
	for _, p := range slices.Backward(l.order) { // those on which nothing depends first
		first := 0
		for _, n := range l.parts[p] {
			first = max(first, column[n])
		}
		for _, n := range l.parts[p] {
			column[n] = first
			for _, dep := range l.deps[n] {
				if l.part[dep] != p {
					column[dep] = max(column[dep], first+1)
				}
			}
		}
	}
	boxes = make([]box, len(d.Nodes))
	x := float64(margin)
	for c := range slices.Max(append(column, 0)) + 1 {
		x = d.place(c, x, column, boxes) + columnGap
	}
	for _, b := range boxes {
		width, height = max(width, b.x+b.width+margin), max(height, b.y+boxHeight+margin)
	}
	return boxes, max(width, 2*margin), max(height, 2*margin)
}

// place places the nodes of a column from x on, and returns where it ends.
func (d *Drawing) place(c int, x float64, column []int, boxes []box) (end float64) {
	var nodes []int
	mean := map[int]float64{}
	for n := range d.Nodes {
		if column[n] != c {
			continue
		}
		nodes = append(nodes, n)
		sum, count := 0.0, 0
		for _, e := range d.Edges {
			if e.To == n && column[e.From] < c {
				sum, count = sum+boxes[e.From].y, count+1
			}
		}
		mean[n] = sum / float64(max(count, 1))
	}
	slices.SortStableFunc(nodes, func(a, b int) int { return cmp.Compare(mean[a], mean[b]) })
	end = x
	for row, n := range nodes {
		y := margin + float64(row)*rowHeight + float64(c%2)*rowHeight/2 // so that lines pass between boxes
		boxes[n] = box{x, y, float64(len([]rune(d.Nodes[n])))*letter + 20}
		end = max(end, x+boxes[n].width)
	}
	return end
}
