package usage

import (
	"cmp"
	_ "embed"
	"encoding/csv"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aycoder/aycoder/internal/runes"
)

// WriteCSV writes rows with a header. Times are in seconds, costs in US dollars. A name that a spreadsheet would take
// for a formula begins with an apostrophe.
func WriteCSV(w io.Writer, by By, rows []Row) error {
	out := csv.NewWriter(w)
	_ = out.Write([]string{string(by), "title", "sessions", "prompts", "answers", "unpriced", "cost", "input", "output", "reasoning",
		"cache_read", "cache_write", "calls", "failed", "approved", "denied", "seconds"})
	for i := range rows {
		r := &rows[i]
		n := func(n int) string { return strconv.Itoa(n) }
		n64 := func(n int64) string { return strconv.FormatInt(n, 10) }
		_ = out.Write([]string{cell(r.Name), cell(r.Title), n(r.Sessions), n(r.Prompts), n(r.Answers), n(r.Unpriced),
			strconv.FormatFloat(r.Cost, 'f', -1, 64), n64(r.Usage.Input), n64(r.Usage.Output), n64(r.Usage.Reasoning),
			n64(r.Usage.CacheRead), n64(r.Usage.CacheWrite), n(r.Calls), n(r.Failed), n(r.Approved), n(r.Denied),
			strconv.FormatFloat(r.Time.Seconds(), 'f', 1, 64)})
	}
	out.Flush()
	if err := out.Error(); err != nil {
		return fmt.Errorf("write usage: %w", err)
	}
	return nil
}

// cell keeps a spreadsheet from running a text: see OWASP, "CSV Injection".
func cell(s string) string {
	if s = runes.Line(s); s != "" && strings.ContainsAny(s[:1], "=+-@") {
		return "'" + s
	}
	return s
}

// WriteText writes the report for a terminal, in lines of up to about 100 columns.
func (r *Report) WriteText(w io.Writer) error {
	b := &strings.Builder{}
	from := "All work"
	if !r.From.IsZero() {
		from = "Since " + r.From.Format(time.DateOnly)
	}
	fmt.Fprintf(b, "%s, until %s: %s\n", from, r.Until.Format("2006-01-02 15:04"), r.Total.Line())
	r.Month.write(b)
	for _, t := range r.tables() {
		if len(t.Rows) == 0 {
			continue
		}
		fmt.Fprintf(b, "\n%s\n", t.Title)
		wide := 0
		for i := range t.Rows {
			wide = max(wide, len([]rune(t.Rows[i].Label())))
		}
		for i := range t.Rows {
			name := t.Rows[i].Label()
			fmt.Fprintf(b, "  %s%s  %s\n", name, strings.Repeat(" ", wide-len([]rune(name))), t.Rows[i].Line())
		}
	}
	r.Return.write(b)
	b.WriteString("\n")
	for _, n := range r.Notes {
		fmt.Fprintf(b, "* %s\n", n)
	}
	for _, s := range r.Skipped {
		fmt.Fprintf(b, "! not counted: %s\n", runes.Line(s))
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write usage: %w", err)
	}
	return nil
}

func (p *Projection) write(b *strings.Builder) {
	if p == nil {
		return
	}
	fmt.Fprintf(b, "This month, %s: %s", p.Name, usd(p.Cost))
	if p.Projected != nil {
		fmt.Fprintf(b, ", about %s if it goes on like that", usd(*p.Projected))
	}
	b.WriteString("\n")
	if p.Alert != "" {
		fmt.Fprintf(b, "! %s\n", p.Alert)
	}
}

func (r *Return) write(b *strings.Builder) {
	if r == nil {
		return
	}
	if r.All.Sessions == 0 {
		b.WriteString("\nNo time by hand is given for one of these sessions, so nothing can be compared.\n")
		return
	}
	b.WriteString("\nWhat it was worth\n")
	for _, t := range append(slices.Clip(r.Tasks), r.All) {
		fmt.Fprintf(b, "  %-9s %d sessions, %s by hand, %s spent: %s saved", t.Name, t.Sessions, short(t.Manual), short(t.Spent), short(t.Saved))
		if t.Multiplier > 0 {
			fmt.Fprintf(b, ", %.1f times as fast", t.Multiplier)
		}
		fmt.Fprintf(b, ", for %s%s\n", usd(t.Cost), unpriced(t.Unpriced))
	}
	if r.Net != nil {
		fmt.Fprintf(b, "  net value at $%.2f an hour: $%.2f\n", r.Rate, *r.Net)
	}
	if r.Without > 0 {
		fmt.Fprintf(b, "  %d sessions are left out: no time by hand is given for them\n", r.Without)
	}
}

// A table is one of the lists of a report.
type table struct {
	Title string
	Rows  []Row
}

func (r *Report) tables() []table {
	outliers := "more than twice the median of " + usd(r.Median)
	return []table{{"by day", r.Days}, {"by model", r.Models}, {"by project", r.Projects}, {"by kind of task", r.Tasks},
		{"by tool", r.Tools}, {"by agent inside", r.Agents}, {"the dearest sessions", r.Dearest}, {outliers, r.Outliers}}
}

const maxLabel = 60 // runes

// Label is how a row is shown.
func (r Row) Label() string {
	name := runes.Line(r.Name)
	if r.Title != "" {
		name = name[:min(len(name), 8)] + " " + runes.Line(r.Title)
	}
	if runes := []rune(name); len(runes) > maxLabel {
		name = string(runes[:maxLabel-1]) + "…"
	}
	return name
}

// Price writes the cost, or "unknown" if no answer has a price.
func (f Figures) Price() string {
	if f.Answers > 0 && f.Unpriced == f.Answers {
		return "price unknown"
	}
	return usd(f.Cost)
}

func usd(x float64) string {
	if x > 0 && x < 0.005 { // which is not free
		return "<$0.01"
	}
	return fmt.Sprintf("$%.2f", x)
}

// Line says what was used in words, without what is zero.
func (f Figures) Line() string {
	var parts []string
	add := func(n int, one, many string) {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, map[bool]string{true: one, false: many}[n == 1]))
		}
	}
	if f.Answers > 0 {
		parts = append(parts, f.Price())
		if f.Unpriced > 0 && f.Unpriced < f.Answers {
			parts[0] += unpriced(f.Unpriced)
		}
	}
	if f.Sessions > 1 {
		add(f.Sessions, "", "sessions")
	}
	add(f.Prompts, "prompt", "prompts")
	add(f.Answers, "answer", "answers")
	if f.Tokens() > 0 {
		parts = append(parts, fmt.Sprintf("%s tokens in, %s out, %s cached", count(in(f)), count(f.Usage.Output), count(f.Usage.CacheRead)))
	}
	add(f.Calls, "call", "calls")
	add(f.Failed, "failed", "failed")
	add(f.Approved, "approved", "approved")
	add(f.Denied, "denied", "denied")
	if f.Time > 0 {
		parts = append(parts, short(f.Time))
	}
	return cmp.Or(strings.Join(parts, ", "), "nothing")
}

// in is the tokens that went in and were not in a cache.
func in(f Figures) int64 { return f.Usage.Input + f.Usage.CacheWrite }

func unpriced(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(" and %d without a price", n)
}

// count writes a number of tokens shortly.
func count(n int64) string {
	switch {
	case n >= 10_000_000:
		return fmt.Sprintf("%.0fM", float64(n)/1e6)
	case n >= 1_000_000:
		return fmt.Sprintf("%.1fM", float64(n)/1e6)
	case n >= 10_000:
		return fmt.Sprintf("%.0fk", float64(n)/1e3)
	}
	return strconv.FormatInt(n, 10)
}

//go:embed page.html
var page string

// WriteHTML writes the report as one page, which needs nothing else and runs no script.
func (r *Report) WriteHTML(w io.Writer) error {
	b := &strings.Builder{}
	t, err := template.New("page").Funcs(template.FuncMap{"bars": bars, "in": in, "short": short, "usd": usd}).Parse(page)
	if err == nil {
		err = t.Execute(b, struct {
			*Report
			Tables []table
		}{r, r.tables()})
	}
	if err == nil {
		_, err = io.WriteString(w, b.String())
	}
	if err != nil {
		return fmt.Errorf("write usage: %w", err)
	}
	return nil
}

// A bar is a bar of a plot, in units of the picture.
type bar struct {
	X, Y, Width, Height float64
	Title               string
}

// A plot is a picture of bars.
type plot struct {
	Width, Height float64
	Bars          []bar
	First, Last   string
	Most          string
}

// bars draws the costs of days, or their tokens if nothing has a price. Days without work have a place, too.
func bars(rows []Row) *plot {
	if n := len(rows); n > 0 {
		if last, err := time.Parse(time.DateOnly, rows[n-1].Name); err == nil {
			first := last.AddDate(0, 0, 1-mostDays).Format(time.DateOnly)
			rows = rows[slices.IndexFunc(rows, func(r Row) bool { return r.Name >= first }):]
		}
	}
	var days []Row
	for i := range rows {
		for len(days) > 0 && len(days) < mostDays { // the days between
			at, err := time.Parse(time.DateOnly, days[len(days)-1].Name)
			if next := at.AddDate(0, 0, 1).Format(time.DateOnly); err == nil && next < rows[i].Name {
				days = append(days, Row{Name: next})
				continue
			}
			break
		}
		days = append(days, rows[i])
	}
	if len(days) == 0 {
		return nil
	}
	cost := slices.ContainsFunc(days, func(r Row) bool { return r.Cost > 0 })
	value := func(r *Row) float64 {
		if cost {
			return r.Cost
		}
		return float64(r.Tokens())
	}
	most := 0.0
	for i := range days {
		most = max(most, value(&days[i]))
	}
	p := &plot{Width: 800, Height: 160, First: days[0].Name, Last: days[len(days)-1].Name, Most: usd(most)}
	if !cost {
		p.Most = count(int64(most)) + " tokens"
	}
	step := p.Width / float64(len(days))
	for i := range days {
		if v := value(&days[i]); v > 0 {
			h := max(1, (p.Height-2)*v/most)
			p.Bars = append(p.Bars, bar{float64(i) * step, p.Height - h, max(0.5, step*0.8), h, days[i].Name + ": " + days[i].Line()})
		}
	}
	return p
}

const mostDays = 400 // in a plot
