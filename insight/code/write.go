package code

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/aycoder/aycoder/internal/runes"
)

// shown is how many rows a report has of each kind.
const shown = 15

type fields History // without its methods

// summary is what reports show of a history.
type summary struct {
	*fields
	Hotspots []*File   `json:"hotspots"`
	Churn    []*File   `json:"churn"`
	Pairs    []Pair    `json:"pairs"`
	Bus      []*Author `json:"bus_factor"`
	Growth   float64   `json:"lines_a_week"` // in the last 26 weeks
}

func (h *History) summary() *summary {
	s := &summary{(*fields)(h), h.Hotspots(shown), h.Churn(shown), h.Pairs(shown), h.BusFactor(), 0}
	if n := min(27, len(h.Weeks)); n > 1 {
		for _, w := range h.Weeks[len(h.Weeks)-n+1:] {
			s.Growth += float64(w.Added-w.Deleted) / float64(n-1)
		}
	}
	return s
}

// MarshalJSON writes all fields, and beside them the hotspots, the churn, the pairs, the bus factor and the growth that
// reports show.
func (h *History) MarshalJSON() ([]byte, error) {
	return json.Marshal(h.summary())
}

// Name is the path for people: on one line, without control characters.
func (f *File) Name() string { return runes.Line(f.Path) }

// mark says what is special about a file.
func (f *File) mark() string {
	switch {
	case f.Vendored:
		return " (vendored)"
	case f.Generated:
		return " (generated)"
	}
	return ""
}

// WriteText writes a summary for a terminal.
func (h *History) WriteText(w io.Writer) error {
	s := h.summary()
	b := &strings.Builder{}
	fmt.Fprintf(b, "from %s to %s: commits %d, merges %d, people %d\n", h.First.Format(time.DateOnly), h.Last.Format(time.DateOnly), h.Commits, h.Merges,
		len(h.Authors))
	fmt.Fprintf(b, "lines added %d, deleted %d; files %d, gone %d; lines a week in the last half year %.0f\n", h.Added, h.Deleted,
		len(h.Files), h.Gone, s.Growth)
	section := func(title string) { fmt.Fprintf(b, "\n%s\n", title) }
	section("languages: files, code, comments, blank")
	for _, l := range h.Languages {
		fmt.Fprintf(b, "  %-20s %6d %8d %8d %8d\n", l.Name, l.Files, l.Code, l.Comment, l.Blank)
	}
	section(fmt.Sprintf("hotspots: commits in the %d days before the last one, complexity, lines of code", int(h.recent.Hours()/24)))
	for _, f := range s.Hotspots {
		fmt.Fprintf(b, "  %4d %6d %7d  %s%s\n", f.Recent, f.Complexity, f.Code, f.Name(), f.mark())
	}
	section("most changed: commits, lines added, lines deleted")
	for _, f := range s.Churn {
		fmt.Fprintf(b, "  %5d %7d %7d  %s\n", f.Commits, f.Added, f.Deleted, f.Name())
	}
	if len(s.Pairs) > 0 {
		section("changed together: commits, share")
	}
	for _, p := range s.Pairs {
		fmt.Fprintf(b, "  %4d %3.0f %%  %s  %s\n", p.Together, 100*p.Share, runes.Line(p.A), runes.Line(p.B))
	}
	section("people: commits, lines added, lines deleted")
	for _, a := range h.Authors[:min(shown, len(h.Authors))] {
		fmt.Fprintf(b, "  %5d %8d %8d  %s <%s>\n", a.Commits, a.Added, a.Deleted, runes.Line(a.Name), runes.Line(a.Email))
	}
	var names []string
	for _, a := range s.Bus {
		names = append(names, runes.Line(a.Name))
	}
	fmt.Fprintf(b, "\nHalf of the changed lines are of %d: %s.\n", len(s.Bus), strings.Join(names[:min(5, len(names))], ", "))
	for _, u := range h.Unread {
		fmt.Fprintf(b, "! not counted: %s\n", runes.Line(u))
	}
	return written(w, b.String())
}

func written(w io.Writer, text string) error {
	if _, err := io.WriteString(w, text); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

//go:embed page.html
var page string

// WriteHTML writes the summary as one page with a map of the files and the growth, which needs nothing else and runs no
// script.
func (h *History) WriteHTML(w io.Writer) error {
	t, err := template.New("page").Funcs(template.FuncMap{"line": runes.Line}).Parse(page)
	if err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	var b strings.Builder
	s := h.summary()
	err = t.Execute(&b, struct {
		*summary
		Map    []box
		Growth []point
		People []*Author
		Days   int
		Lines  int
	}{s, h.boxes(), h.growth(), h.Authors[:min(shown, len(h.Authors))], int(h.recent.Hours() / 24), h.Weeks[len(h.Weeks)-1].Lines})
	if err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return written(w, b.String())
}

// A box is a file in the map: its area is its code, its colour how hot it is, from 0 to 4.
type box struct {
	X, Y, W, H float64
	Heat       int
	Title      string
	Label      string
}

const (
	mapWidth, mapHeight = 1000.0, 520.0
	maxBoxes            = 400
)

// boxes draws a squarified treemap (Bruls, Huizing, van Wijk 2000) of the largest files.
func (h *History) boxes() []box {
	var files []*File
	for _, f := range h.Files {
		if f.Code > 0 && !f.Generated && !f.Vendored {
			files = append(files, f)
		}
	}
	slices.SortStableFunc(files, func(a, b *File) int { return b.Code - a.Code })
	files = files[:min(len(files), maxBoxes)]
	sum, most := 0.0, 1
	for _, f := range files {
		sum += float64(f.Code)
		most = max(most, f.Recent)
	}
	areas := make([]float64, len(files))
	for i, f := range files {
		areas[i] = float64(f.Code) / sum * mapWidth * mapHeight
	}
	out := make([]box, 0, len(files))
	x, y, w, hh := 0.0, 0.0, mapWidth, mapHeight
	for i := 0; i < len(files); {
		side, row, best := min(w, hh), 1, 0.0
		total := areas[i]
		best = worst(areas[i:i+1], total, side)
		for i+row < len(files) {
			with := total + areas[i+row]
			if v := worst(areas[i:i+row+1], with, side); v > best {
				break
			} else {
				best, total = v, with
			}
			row++
		}
		thick, at := total/side, 0.0
		for _, f := range files[i : i+row] {
			long := float64(f.Code) / sum * mapWidth * mapHeight / thick
			b := box{X: x + at, Y: y, W: long, H: thick}
			if w >= hh {
				b = box{X: x, Y: y + at, W: thick, H: long}
			}
			at += long
			b.Heat = (4*f.Recent + most - 1) / most
			b.Title = fmt.Sprintf("%s: %d lines of code, %d recent commits, complexity %d", f.Name(), f.Code, f.Recent, f.Complexity)
			if name := f.Name()[strings.LastIndexByte(f.Name(), '/')+1:]; b.W > 7*float64(len(name)) && b.H > 16 {
				b.Label = name
			}
			out = append(out, b)
		}
		if w >= hh {
			x, w = x+thick, w-thick
		} else {
			y, hh = y+thick, hh-thick
		}
		i += row
	}
	return out
}

// worst returns the worst ratio of the sides of boxes in a row along a side.
func worst(areas []float64, sum, side float64) float64 {
	big, small := areas[0], areas[len(areas)-1]
	return max(side*side*big/(sum*sum), sum*sum/(side*side*small))
}

// A point is a week in the picture of the growth.
type point struct {
	X, Y float64
	Week Week
}

func (h *History) growth() []point {
	if h.since {
		return nil
	}
	most := 1
	for _, w := range h.Weeks {
		most = max(most, w.Lines)
	}
	weeks := h.Weeks
	if len(weeks) == 1 {
		weeks = append(weeks, weeks[0]) // a line has two ends
	}
	var out []point
	for i, w := range weeks {
		out = append(out, point{mapWidth * float64(i) / float64(len(weeks)-1), 198 - 196*float64(w.Lines)/float64(most), w})
	}
	return out
}
