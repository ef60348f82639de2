//go:build unix

package main

import (
	"encoding/xml"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/aycoder/aycoder/bench/internal/contest"
	"github.com/aycoder/aycoder/bench/internal/provider"
)

// columns are the columns of the tables.
var columns = []struct {
	key, title, unit string
	scale            float64
	digits           int
}{
	{"decode_cpu_ns", "CPU a delta", "ns", 1, 0},
	{"decode_allocs", "allocations a delta", "", 1, 1},
	{"loop_first_us", "CPU a step, first 20", "µs", 1, 0},
	{"loop_last_us", "CPU a step, last 20", "µs", 1, 0},
	{"loop_allocs", "allocations a step", "", 1, 0},
	{"idle_heap_bytes", "heap a conversation", "kB", 1e-3, 1},
	{"size", "program", "MB", 1e-6, 1},
}

var wires = []struct{ name, title string }{
	{provider.Anthropic, "Anthropic Messages"},
	{provider.OpenAI, "Chat Completions"},
}

func median(xs []float64) float64 {
	if len(xs) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(xs))
	if n := len(s); n%2 == 0 {
		return (s[n/2-1] + s[n/2]) / 2
	}
	return s[len(s)/2]
}

// value returns the median of a measure, and the median of its ratios to the floor of the
// same round.
func (r *Results) value(e *Entry, key string) (v, ratio float64) {
	floor := r.floor(e.Wire)
	if key == "size" {
		return float64(e.Size), float64(e.Size) / float64(floor.Size)
	}
	var ratios []float64
	for i, x := range e.Values[key] {
		ratios = append(ratios, x/floor.Values[key][i])
	}
	return median(e.Values[key]), median(ratios)
}

func (r *Results) floor(wire string) *Entry {
	for _, e := range r.Entries {
		if e.Wire == wire && e.Name == contestants[0] {
			return e
		}
	}
	return &Entry{Size: 1, Values: map[string][]float64{}}
}

// on returns the entries of a wire, the floor first.
func (r *Results) on(wire string) []*Entry {
	var out []*Entry
	for _, e := range r.Entries {
		if e.Wire == wire {
			out = append(out, e)
		}
	}
	return out
}

// tables returns the part of the document that this program writes.
func tables(r *Results) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Measured with %s on %s, %d cores", r.Go, r.System, r.Cores)
	if r.CPU != "" {
		fmt.Fprintf(&b, " (%s)", r.CPU)
	}
	fmt.Fprintf(&b, ", in %d interleaved rounds; the load average was %s. ", r.Rounds, strings.Join(r.Load, " before and ")+" after")
	b.WriteString("A figure is the median of the rounds, and in brackets the median of the ratios to the floor of the same round.\n")
	for _, w := range wires {
		entries := r.on(w.name)
		if len(entries) == 0 {
			continue
		}
		fmt.Fprintf(&b, "\n### %s\n\n| contestant |", w.title)
		for _, c := range columns {
			b.WriteString(" " + c.title)
			if c.unit != "" {
				b.WriteString(", " + c.unit)
			}
			b.WriteString(" |")
		}
		b.WriteString("\n|" + strings.Repeat(" --- |", len(columns)+1) + "\n")
		for _, e := range entries {
			fmt.Fprintf(&b, "| %s |", strings.TrimSpace(e.Name+" "+r.Versions[e.Name]))
			for _, c := range columns {
				v, ratio := r.value(e, c.key)
				fmt.Fprintf(&b, " %.*f (%s) |", c.digits, v*c.scale, short(ratio))
			}
			b.WriteString("\n")
		}
	}
	var missing []string
	for name, why := range r.Missing {
		missing = append(missing, name+" "+why)
	}
	if slices.Sort(missing); missing != nil {
		fmt.Fprintf(&b, "\nLeft out: %s.\n", strings.Join(missing, "; "))
	}
	return b.String()
}

// short writes a ratio with three digits.
func short(x float64) string {
	switch {
	case x < 10:
		return fmt.Sprintf("%.2f", x)
	case x < 100:
		return fmt.Sprintf("%.1f", x)
	}
	return fmt.Sprintf("%.0f", x)
}

// The document holds the tables between two marks.
const begin, end = "<!-- bench: go run -C bench . -->\n", "<!-- end of bench -->\n"

// files returns the files that this program writes into the directory of the document.
func files(dir string, r *Results) (map[string]string, error) {
	name := "benchmarks.md"
	data, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return nil, err
	}
	section := regexp.MustCompile(`(?s)` + regexp.QuoteMeta(begin) + `.*?` + regexp.QuoteMeta(end))
	if !section.Match(data) {
		return nil, fmt.Errorf("%s has no section for the tables", name)
	}
	text := begin + "\n" + tables(r) + "\n" +
		"![Processor time, allocations, memory and size by those of the floor](bench-ratios.svg)\n\n" +
		"![Processor time of a step as the history grows](bench-steps.svg)\n\n" + end
	return map[string]string{
		name:               section.ReplaceAllLiteralString(string(data), text),
		"bench-ratios.svg": ratios(r),
		"bench-steps.svg":  steps(r),
	}, nil
}

func write(dir string, r *Results) error {
	out, err := files(dir, r)
	if err != nil {
		return err
	}
	for name, text := range out {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// A drawing is an SVG in the making, on white, so that it can be read on any page.
type drawing struct {
	b             strings.Builder
	width, height int
}

func (d *drawing) text(x, y float64, anchor, fill, s string) {
	var escaped strings.Builder
	_ = xml.EscapeText(&escaped, []byte(s)) // a Builder never fails
	fmt.Fprintf(&d.b, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" fill=\"%s\">%s</text>\n", x, y, anchor, fill, escaped.String())
}

func (d *drawing) rect(x, y, w, h float64, fill string) {
	fmt.Fprintf(&d.b, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\"/>\n", x, y, w, h, fill)
}

func (d *drawing) line(points []string, stroke string, width float64) {
	fmt.Fprintf(&d.b, "<polyline points=\"%s\" fill=\"none\" stroke=\"%s\" stroke-width=\"%.1f\"/>\n", strings.Join(points, " "), stroke, width)
}

func (d *drawing) String() string {
	return fmt.Sprintf("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" font-size=\"12\">\n", d.width, d.height) +
		fmt.Sprintf("<rect width=\"%d\" height=\"%d\" fill=\"#ffffff\"/>\n", d.width, d.height) + d.b.String() + "</svg>\n"
}

const ink, pale = "#24292f", "#6e7781"

// colour is that of a contestant in both plots.
func colour(name string) string {
	palette := []string{"#8c959f", "#0969da", "#cf7a30", "#1a7f64", "#8250df", "#bf3989"}
	return palette[slices.Index(contestants, name)%len(palette)]
}

// ratios draws a bar for each figure, as its ratio to the floor.
func ratios(r *Results) string {
	const label, bars, row = 150.0, 180.0, 17.0
	d := &drawing{width: 1080}
	y := 0.0
	shown := []int{0, 3, 5, 6} // one column of each kind
	for _, w := range wires {
		entries := r.on(w.name)
		if len(entries) == 0 {
			continue
		}
		y += 26
		d.text(12, y, "start", ink, w.title)
		for i, c := range shown {
			d.text(label+float64(i)*(bars+52), y, "start", ink, columns[c].title)
		}
		y += 8
		most := make([]float64, len(shown))
		for i, c := range shown {
			for _, e := range entries {
				_, x := r.value(e, columns[c].key)
				most[i] = max(most[i], x)
			}
		}
		for _, e := range entries {
			d.text(label-10, y+12, "end", ink, e.Name)
			for i, c := range shown {
				_, x := r.value(e, columns[c].key)
				left, long := label+float64(i)*(bars+52), max(1.5, x/most[i]*bars)
				d.rect(left, y+2, long, row-5, colour(e.Name))
				d.text(left+long+4, y+12, "start", pale, short(x)+"×")
			}
			y += row
		}
		y += 10
	}
	d.height = int(y) + 22
	d.text(12, y+10, "start", pale, "Ratios to the floor, which is net/http and encoding/json alone. Shorter is better.")
	return d.String()
}

// steps draws the time of a step over the turns before it.
func steps(r *Results) string {
	const left, top, wide, high, between = 58.0, 34.0, 420.0, 230.0, 110.0
	d := &drawing{width: 1080, height: 350}
	for i, w := range wires {
		entries, x0 := r.on(w.name), left+float64(i)*(wide+between)
		most := 1.0
		for _, e := range entries {
			most = max(most, slices.Max(append(e.Steps, 1)))
		}
		most = math.Ceil(most/2e3) * 2e3 // so that each of four ticks is a multiple of 0.5 ms
		d.text(x0, top-12, "start", ink, w.title+": CPU a step, ms")
		for tick := range 5 {
			v := most * float64(tick) / 4
			y := top + high - high*float64(tick)/4
			d.line([]string{fmt.Sprintf("%.1f,%.1f", x0, y), fmt.Sprintf("%.1f,%.1f", x0+wide, y)}, "#d0d7de", 0.7)
			d.text(x0-6, y+4, "end", pale, fmt.Sprintf("%.1f", v/1e3))
		}
		for tick := 0; tick <= contest.Turns; tick += contest.Turns / 4 {
			d.text(x0+wide*float64(tick)/contest.Turns, top+high+18, "middle", pale, fmt.Sprint(tick))
		}
		d.text(x0+wide/2, top+high+36, "middle", pale, "turns before")
		for _, e := range entries {
			var points []string
			for j, s := range e.Steps {
				x := x0 + wide*(float64(j)+0.5)*contest.Group/contest.Turns
				points = append(points, fmt.Sprintf("%.1f,%.1f", x, top+high-high*s/most))
			}
			d.line(points, colour(e.Name), 2)
		}
	}
	x := left
	for _, name := range contestants {
		if slices.ContainsFunc(r.Entries, func(e *Entry) bool { return e.Name == name }) {
			d.rect(x, 320, 12, 12, colour(name))
			d.text(x+18, 330, "start", ink, name)
			x += 150
		}
	}
	return d.String()
}
