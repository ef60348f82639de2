// Package docs checks the pictures of the documents against the code, and draws them.
package docs

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "draw the pictures and write the generated pages anew")

// matches compares a picture with the file that holds it, or writes the file.
func matches(t *testing.T, name, want string) {
	t.Helper()
	if *update {
		require.NoError(t, os.WriteFile(name, []byte(want), 0o644))
		return
	}
	got, err := os.ReadFile(name)
	require.NoError(t, err)
	require.True(t, want == string(got), "docs/%s is not what the code says: run go test ./docs -update, and look at it", name)
}

const module = "github.com/aycoder/aycoder"

// A graph says which packages a package imports.
type graph map[string][]string

// packages returns the packages of this module and what their code, without the tests,
// imports of it. The root is called aycoder, the others by their directory, and all examples
// are one box.
func packages(t *testing.T) graph {
	t.Helper()
	cmd := exec.Command("go", "list", "-f", `{{if .GoFiles}}{{.ImportPath}}{{range .Imports}} {{.}}{{end}}{{end}}`, "./...")
	cmd.Dir = ".."
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64", "GOFLAGS=-mod=readonly", "GOWORK=off")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	require.NoError(t, err)
	g := graph{}
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue // only tests
		}
		var own []string
		for _, p := range fields[1:] {
			if name, ok := named(p); ok {
				own = append(own, name)
			}
		}
		name, _ := named(fields[0])
		own = append(own, g[name]...)
		slices.Sort(own)
		g[name] = slices.Compact(own)
	}
	return g
}

func named(path string) (string, bool) {
	if path == module {
		return "aycoder", true
	}
	name, ok := strings.CutPrefix(path, module+"/")
	if strings.HasPrefix(name, "examples/") {
		name = "examples" // programs, which nothing imports
	}
	return name, ok
}

// only returns the part of the graph whose names keep is true for.
func (g graph) only(keep func(string) bool) graph {
	out := graph{}
	for name, imports := range g {
		if keep(name) {
			out[name] = slices.DeleteFunc(slices.Clone(imports), func(s string) bool { return !keep(s) })
		}
	}
	return out
}

// reaches reports whether a imports b, perhaps by way of others.
func (g graph) reaches(a, b string) bool {
	return slices.ContainsFunc(g[a], func(c string) bool { return c == b || g.reaches(c, b) })
}

// direct leaves out the imports that others bring along, so that the picture has few lines.
func (g graph) direct() graph {
	out := graph{}
	for name, imports := range g {
		out[name] = nil
		for _, to := range imports {
			if !slices.ContainsFunc(imports, func(via string) bool { return via != to && g.reaches(via, to) }) {
				out[name] = append(out[name], to)
			}
		}
		slices.Sort(out[name])
	}
	return out
}

// joined makes one box of packages that have the same neighbours.
func (g graph) joined() graph {
	importers := map[string][]string{}
	for name, imports := range g {
		for _, to := range imports {
			importers[to] = append(importers[to], name)
		}
	}
	box, members := map[string]string{}, map[string][]string{}
	for name, imports := range g {
		slices.Sort(importers[name])
		fill, _ := colours(name)
		key := strings.Join(imports, " ") + " < " + strings.Join(importers[name], " ") + fill
		members[key] = append(members[key], name)
	}
	for _, names := range members {
		slices.Sort(names)
		for _, name := range names {
			box[name] = strings.Join(names, "\n")
		}
	}
	out := graph{}
	for name, imports := range g {
		var to []string
		for _, s := range imports {
			to = append(to, box[s])
		}
		slices.Sort(to)
		out[box[name]] = slices.Compact(to)
	}
	return out
}

// level is 0 for what imports nothing, else one more than the highest of what it imports.
func (g graph) level(name string) int {
	level := 0
	for _, to := range g[name] {
		level = max(level, g.level(to)+1)
	}
	return level
}

// The picture of the packages shows the imports that there are.
func TestPackagePicture(t *testing.T) {
	all := packages(t)
	require.Contains(t, all, "aycoder")
	public := all.only(func(s string) bool { return !strings.HasPrefix(s, "internal/") })
	var below, above []string // of the root
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if rest, ok := strings.CutPrefix(name, "internal/"); ok && all.reaches(name, "aycoder") {
			above = append(above, rest)
		} else if ok {
			below = append(below, rest)
		}
	}
	matches(t, "packages.svg", drawPackages(public.direct().joined(), below, above))
}

func TestGraph(t *testing.T) {
	g := graph{"a": {"b", "c", "d"}, "b": {"d"}, "c": {"d"}, "d": nil, "e": {"d"}}
	require.Equal(t, graph{"a": {"b", "c"}, "b": {"d"}, "c": {"d"}, "e": {"d"}, "d": nil}, g.direct())
	require.Equal(t, graph{"a": {"b\nc"}, "b\nc": {"d"}, "e": {"d"}, "d": nil}, g.direct().joined())
	require.Equal(t, 2, g.level("a"))
	require.Equal(t, graph{"a": {"d"}, "d": nil}, graph{"a": {"b", "d"}, "d": nil}.only(func(s string) bool { return s != "b" }))
}

// A picture is an SVG in the making, on white, so that it can be read on any page.
type picture struct {
	b             strings.Builder
	width, height float64
}

func (p *picture) put(format string, args ...any) { fmt.Fprintf(&p.b, format+"\n", args...) }

// text writes at a point. The style is what else the element has.
func (p *picture) text(x, y float64, style, s string) {
	var escaped bytes.Buffer
	_ = xml.EscapeText(&escaped, []byte(s)) // a Buffer never fails
	p.put(`<text x="%.0f" y="%.0f" %s>%s</text>`, x, y, style, escaped.String())
}

func (p *picture) box(x, y, w, h float64, fill, stroke string) {
	p.put(`<rect x="%.0f" y="%.0f" width="%.0f" height="%.0f" rx="6" fill="%s" stroke="%s"/>`, x, y, w, h, fill, stroke)
}

// arrow draws a curve that ends in an arrow head, from the lower edge of a box to the upper
// one of another.
func (p *picture) arrow(x1, y1, x2, y2 float64) {
	bend := (y2 - y1) / 2
	p.put(`<path d="M%.0f %.0f C%.0f %.0f %.0f %.0f %.0f %.0f" fill="none" stroke="#6e7781" marker-end="url(#head)"/>`,
		x1, y1, x1, y1+bend, x2, y2-bend, x2, y2)
}

func (p *picture) String() string {
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" font-family="sans-serif" font-size="13" fill="#24292f">
<defs><marker id="head" viewBox="0 0 8 8" refX="7.5" refY="4" markerWidth="8" markerHeight="8" orient="auto"><path d="M0 0 L8 4 L0 8 z" fill="#6e7781"/></marker></defs>
<rect width="%.0f" height="%.0f" fill="#ffffff"/>
%s</svg>
`, p.width, p.height, p.width, p.height, p.b.String())
}

// colours are those of a box by what the packages in it are.
func colours(name string) (fill, stroke string) {
	switch first, _, _ := strings.Cut(name, "/"); {
	case name == "aycoder":
		return "#ddf4ff", "#0969da"
	case first == "examples":
		return "#f6f8fa", "#8c959f"
	case strings.HasPrefix(first, "providers"):
		return "#dafbe1", "#1a7f37"
	}
	return "#fff8c5", "#9a6700"
}

// drawPackages draws each level of the graph in a row: what imports is above what it imports.
func drawPackages(g graph, below, above []string) string {
	const line, gap, between, margin = 17.0, 26.0, 62.0, 24.0
	levels := map[int][]string{}
	top := 0
	for name := range g {
		top = max(top, g.level(name))
	}
	for _, name := range slices.Sorted(maps.Keys(g)) {
		levels[g.level(name)] = append(levels[g.level(name)], name)
	}
	wide := func(name string) float64 {
		most := 0
		for s := range strings.SplitSeq(name, "\n") {
			most = max(most, len(s))
		}
		return float64(most)*7.4 + 20
	}
	p := &picture{width: 980}
	type place struct{ x, y, w, h float64 }
	at := map[string]place{}
	// The rows are laid out from the bottom: a box stands over the middle of what it imports.
	for l := 0; l <= top; l++ {
		row := levels[l]
		middle := map[string]float64{}
		for _, name := range row {
			for _, to := range g[name] {
				middle[name] += (at[to].x + at[to].w/2) / float64(len(g[name]))
			}
		}
		slices.SortStableFunc(row, func(a, b string) int { return cmp.Compare(middle[a], middle[b]) })
		total := -gap
		for _, name := range row {
			total += wide(name) + gap
		}
		p.width = max(p.width, total+2*margin)
		x := -total / 2
		for _, name := range row {
			at[name] = place{x: x, w: wide(name), h: line*float64(strings.Count(name, "\n")+1) + 12}
			x += wide(name) + gap
		}
	}
	y := margin
	for l := top; l >= 0; l-- {
		high := 0.0
		for _, name := range levels[l] {
			high = max(high, at[name].h)
		}
		for _, name := range levels[l] {
			b := at[name]
			b.x += p.width / 2
			b.y = y + (high-b.h)/2
			at[name] = b
		}
		y += high + between
	}
	y -= between
	for _, name := range slices.Sorted(maps.Keys(g)) {
		from := at[name]
		for _, to := range g[name] {
			p.arrow(from.x+from.w/2, from.y+from.h, at[to].x+at[to].w/2, at[to].y)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(g)) {
		b := at[name]
		fill, stroke := colours(name)
		p.box(b.x, b.y, b.w, b.h, fill, stroke)
		for i, s := range strings.Split(name, "\n") {
			p.text(b.x+b.w/2, b.y+20+float64(i)*line, `text-anchor="middle"`, s)
		}
	}
	y = p.list("internal, without the root:", below, y+36, margin)
	y = p.list("internal, on the root:", above, y+12, margin)
	p.height = y + margin
	return p.String()
}

// list writes names in a box, and returns where it ends.
func (p *picture) list(title string, names []string, y, margin float64) float64 {
	rows, row := []string{}, ""
	for _, name := range names {
		if len(row)+len(name) > int(p.width-2*margin)/8 {
			rows, row = append(rows, row), ""
		}
		row += name + "   "
	}
	rows = append(rows, row)
	h := float64(len(rows))*18 + 36
	p.box(margin, y, p.width-2*margin, h, "#f6f8fa", "#d0d7de")
	p.text(margin+14, y+22, `font-weight="bold" fill="#57606a"`, title)
	for i, row := range rows {
		p.text(margin+14, y+44+float64(i)*18, `fill="#57606a" xml:space="preserve"`, row)
	}
	return y + h
}
