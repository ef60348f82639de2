package eval

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"time"
)

// Table is the result of [Run]. It encodes to JSON.
type Table struct {
	// Rows are the cases in their order, and Tries all tries in that of their cases.
	Rows  []Row  `json:"rows"`
	Tries []*Try `json:"tries"`
}

// Row is the result of a case.
type Row struct {
	Case string `json:"case"`
	// Tries is how many tries ran, and Passed how many of them passed. NotRun is how many were not run.
	Tries  int `json:"tries"`
	Passed int `json:"passed"`
	NotRun int `json:"not_run,omitempty"`
	// PassAll is pass^k, with the number of tries that ran as k: the estimate of the probability that all of so many
	// tries pass. See [Row.Pass] for a smaller k.
	PassAll float64 `json:"pass_all"`
	// Cost, Unpriced and Turns are the sums of the tries. Time is that of all tries, in nanoseconds in JSON.
	Cost     float64       `json:"cost"`
	Unpriced int           `json:"unpriced,omitempty"`
	Turns    int           `json:"turns"`
	Time     time.Duration `json:"time"`
	// Failures are those of the first try that failed.
	Failures []string `json:"failures,omitempty"`
}

// Pass returns pass^k: the estimate of the probability that k tries all pass. It is 0 if fewer tries ran.
func (r *Row) Pass(k int) float64 {
	if k < 1 || r.Tries < k {
		return 0
	}
	p := 1.0
	for i := range k { // the binomial coefficients of Passed and Tries over k, divided
		p *= float64(max(0, r.Passed-i)) / float64(r.Tries-i)
	}
	return p
}

func newTable(tries []*Try) *Table {
	t := &Table{Rows: []Row{}, Tries: tries}
	for _, x := range tries {
		if n := len(t.Rows); n == 0 || t.Rows[n-1].Case != x.Case {
			t.Rows = append(t.Rows, Row{Case: x.Case})
		}
		r := &t.Rows[len(t.Rows)-1]
		if x.NotRun != "" {
			r.NotRun++
			continue
		}
		r.Tries++
		r.Cost, r.Unpriced, r.Turns, r.Time = r.Cost+x.Cost, r.Unpriced+x.Unpriced, r.Turns+x.Turns, r.Time+x.Time
		if x.Passed() {
			r.Passed++
		} else if r.Failures == nil {
			r.Failures = x.Failures
		}
	}
	for i := range t.Rows {
		t.Rows[i].PassAll = t.Rows[i].Pass(t.Rows[i].Tries)
	}
	return t
}

// Passed reports whether all tries of all cases ran and passed.
func (t *Table) Passed() bool {
	for i := range t.Rows {
		if r := &t.Rows[i]; r.NotRun > 0 || r.Passed < r.Tries {
			return false
		}
	}
	return true
}

// WriteText writes the table without times, so that the same results give the same bytes.
func (t *Table) WriteText(w io.Writer) error {
	wide := len("case")
	for i := range t.Rows {
		wide = max(wide, len([]rune(t.Rows[i].Case)))
	}
	var b strings.Builder
	line := func(name string, cells ...any) {
		fmt.Fprintf(&b, "%s%s  %7v %7v %7v %9v\n", append([]any{name, strings.Repeat(" ", wide-len([]rune(name)))}, cells...)...)
	}
	line("case", "passed", "pass^k", "turns", "cost")
	passed, tries, turns, cost, unpriced := 0, 0, 0, 0.0, 0
	for i := range t.Rows {
		r := &t.Rows[i]
		line(r.Case, fmt.Sprintf("%d/%d", r.Passed, r.Tries), fmt.Sprintf("%.2f", r.PassAll), r.Turns, price(r.Cost, r.Unpriced))
		for _, f := range r.Failures {
			fmt.Fprintf(&b, "    %s\n", strings.ReplaceAll(f, "\n", "\n    "))
		}
		if r.NotRun > 0 {
			fmt.Fprintf(&b, "    %d tries were not run\n", r.NotRun)
		}
		passed, tries, turns, cost, unpriced = passed+r.Passed, tries+r.Tries, turns+r.Turns, cost+r.Cost, unpriced+r.Unpriced
	}
	line("all", fmt.Sprintf("%d/%d", passed, tries), "", turns, price(cost, unpriced))
	return written(w, b.String())
}

// price writes a cost. With a "+", some answers have no known price.
func price(cost float64, unpriced int) string {
	text := fmt.Sprintf("$%.4f", cost)
	if unpriced > 0 {
		text += "+"
	}
	return text
}

// WriteJSON writes the table as JSON.
func (t *Table) WriteJSON(w io.Writer) error {
	data, err := json.MarshalIndent(t, "", "  ")
	if err != nil {
		return fmt.Errorf("write table: %w", err)
	}
	return written(w, string(data)+"\n")
}

type junitSuite struct {
	XMLName  xml.Name    `xml:"testsuite"`
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Skipped  int         `xml:"skipped,attr"`
	Time     string      `xml:"time,attr"`
	Cases    []junitCase `xml:"testcase"`
}

type junitCase struct {
	Name    string     `xml:"name,attr"`
	Class   string     `xml:"classname,attr"`
	Time    string     `xml:"time,attr"`
	Failure *junitText `xml:"failure"`
	Skipped *junitText `xml:"skipped"`
}

type junitText struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

// WriteJUnit writes the tries in the XML form of JUnit, which most CI services show.
func (t *Table) WriteJUnit(w io.Writer, suite string) error {
	s := junitSuite{Name: suite, Tests: len(t.Tries)}
	all := time.Duration(0)
	for _, x := range t.Tries {
		c := junitCase{Name: fmt.Sprintf("%s, try %d", x.Case, x.Number), Class: suite, Time: seconds(x.Time)}
		all += x.Time
		switch {
		case x.NotRun != "":
			s.Skipped++
			c.Skipped = &junitText{Message: x.NotRun}
		case !x.Passed():
			s.Failures++
			c.Failure = &junitText{x.Failures[0], strings.Join(x.Failures, "\n")}
		}
		s.Cases = append(s.Cases, c)
	}
	s.Time = seconds(all)
	data, err := xml.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("write table: %w", err)
	}
	return written(w, xml.Header+string(data)+"\n")
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.3f", d.Seconds()) }

func written(w io.Writer, text string) error {
	if _, err := io.WriteString(w, text); err != nil {
		return fmt.Errorf("write table: %w", err)
	}
	return nil
}
