package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Severity says whether a configuration with a fault can be used.
type Severity string

const (
	// Error stops: the configuration is not used.
	Error Severity = "error"
	// Warning does not stop.
	Warning Severity = "warning"
)

// Diagnostic is a fault of a configuration. It never has the value of a variable or of a header.
type Diagnostic struct {
	Severity Severity `json:"severity"`
	// File is the file as the host named it, or "" for a variable, a flag and the whole configuration.
	File string `json:"file,omitempty"`
	// Line and Column say where the key is, or the value if that is at fault. Both are 1-based, and
	// columns are characters. They are 0 without a place in a file.
	Line   int `json:"line,omitempty"`
	Column int `json:"column,omitempty"`
	// Key is the full name of the key, such as "agent.max_turns", or "".
	Key string `json:"key,omitempty"`
	// Message says what is wrong, and Help what to do, which may be "".
	Message string `json:"message"`
	Help    string `json:"help,omitempty"`
}

// String returns the diagnostic on one line, as compilers write them.
func (d Diagnostic) String() string {
	var b strings.Builder
	if d.File != "" {
		b.WriteString(d.File)
		if d.Line > 0 {
			fmt.Fprintf(&b, ":%d:%d", d.Line, d.Column)
		}
		b.WriteString(": ")
	}
	fmt.Fprintf(&b, "%s: ", d.Severity)
	if d.Key != "" {
		b.WriteString(d.Key + " ")
	}
	b.WriteString(d.Message)
	if d.Help != "" {
		b.WriteString("; " + d.Help)
	}
	return b.String()
}

// InvalidError reports that a configuration cannot be used. Get it with
// errors.AsType[*config.InvalidError](err).
type InvalidError struct {
	// Diagnostics are all faults, also those that are only warnings, sorted by place.
	Diagnostics []Diagnostic
}

// Error returns all errors, one a line.
func (e *InvalidError) Error() string {
	lines := []string{"invalid configuration"}
	for _, d := range e.Diagnostics {
		if d.Severity == Error {
			lines = append(lines, d.String())
		}
	}
	return strings.Join(lines, "\n")
}

// maxFaults bounds the faults that are reported of a source. A file with more is of another kind.
const maxFaults = 100

// A report collects the faults of a source.
type report struct {
	faults  []Diagnostic
	more    int
	failed  bool // one of the faults is an error
	broken  bool // the syntax is wrong
	lenient bool // every fault is a warning
}

func (r *report) full() bool { return len(r.faults) >= maxFaults }

func (r *report) add(s Severity, key string, at Origin, message, help string) {
	if r.lenient {
		s = Warning
	}
	if r.full() && (s == Warning || r.failed) { // an error must stop, however many warnings come before it
		r.more++
		return
	}
	r.failed = r.failed || s == Error
	if at.File == "" && at.Name != "" {
		message += " (" + at.String() + ")"
	}
	r.faults = append(r.faults, Diagnostic{s, at.File, at.Line, at.Column, key, message, help})
}

// demote makes warnings of all errors.
func (r *report) demote() {
	for i := range r.faults {
		r.faults[i].Severity = Warning
	}
}

// take adds the faults of another report.
func (r *report) take(o *report, file string) {
	r.faults = append(r.faults, o.faults...)
	if o.more > 0 {
		r.faults = append(r.faults, Diagnostic{
			Severity: Warning, File: file, Message: fmt.Sprintf("has %d more faults", o.more),
		})
	}
}

// sorted returns the faults by place.
func (r *report) sorted() []Diagnostic {
	slices.SortStableFunc(r.faults, func(a, b Diagnostic) int {
		return cmp.Or(strings.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line),
			cmp.Compare(a.Column, b.Column), strings.Compare(a.Message, b.Message))
	})
	return r.faults
}

// err returns an error if there is more than warnings.
func (r *report) err() error {
	if slices.ContainsFunc(r.faults, func(d Diagnostic) bool { return d.Severity == Error }) {
		return &InvalidError{r.faults}
	}
	return nil
}
