package catalog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"time"
	"unicode"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/jsontext"
)

const (
	maxFile     = 8 << 20 // maximum size of a file in bytes
	maxProblems = 20      // maximum number of problems that an error describes
	maxPrice    = 1e6     // largest valid price, in dollars per million tokens
)

// Parse reads a catalog from a file of at most 8 MiB. The package comment shows the format. The
// result has only the models in the file.
//
// If the file is invalid, the error joins the first 20 problems. Each is an
// [*aycoder.ConfigError] whose Option field is the place in the file. If the file is too large,
// the error is an [*aycoder.LimitError].
func Parse(r io.Reader) (*Catalog, error) {
	x, err := parse(r)
	if err != nil {
		return nil, err
	}
	return &Catalog{load: func(string) *index { return x }}, nil
}

// A file is decoded in steps, so that each problem can be reported with its place.
type file struct {
	Providers []json.RawMessage `json:"providers"`
}

type group struct {
	Provider string            `json:"provider"`
	Date     string            `json:"date"`    // when the figures were read
	Sources  []string          `json:"sources"` // the pages that have the figures
	Notes    []string          `json:"notes"`   // what the figures leave out
	Models   []json.RawMessage `json:"models"`
}

type entry struct {
	aycoder.ModelInfo
	Names []string `json:"names"`
}

// A reader fills an index and collects what is wrong with a file.
type reader struct {
	index
	groups   map[string]bool
	problems []error
	more     int // the number of problems that are not described
}

func parse(r io.Reader) (*index, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("read model catalog: %w", err)
	}
	if len(data) > maxFile {
		return nil, &aycoder.LimitError{Limit: "model catalog bytes", Max: maxFile}
	}
	x := reader{
		groups: map[string]bool{},
		index:  index{models: map[key]aycoder.ModelInfo{}, names: map[key]string{}},
	}
	var f file
	if err := jsontext.Decode(data, &f); err != nil {
		x.problemf(position(data, err), "%.300s", err)
	}
	for i, raw := range f.Providers {
		x.group(fmt.Sprintf("providers[%d]", i), raw)
	}
	if len(x.problems) > 0 {
		return nil, fmt.Errorf("parse model catalog: %w", x.err())
	}
	return &x.index, nil
}

// position returns the line of a syntax error, or "file" for any other error.
func position(data []byte, err error) string {
	e, ok := errors.AsType[*json.SyntaxError](err)
	if !ok {
		return "file"
	}
	before := data[:min(int(e.Offset), len(data))]
	return fmt.Sprintf("line %d", 1+bytes.Count(before, []byte("\n")))
}

func (x *reader) problemf(place, format string, args ...any) {
	if len(x.problems) == maxProblems {
		x.more++
		return
	}
	x.problems = append(x.problems, &aycoder.ConfigError{Option: place,
		Err: fmt.Errorf(format, args...)})
}

func (x *reader) err() error {
	if x.more > 0 {
		x.problems = append(x.problems, fmt.Errorf("and %d more problems", x.more))
	}
	return errors.Join(x.problems...)
}

func (x *reader) group(place string, raw json.RawMessage) {
	var g group
	if err := jsontext.Decode(raw, &g); err != nil {
		x.problemf(place, "%.300s", err)
		return
	}
	x.name(place+".provider", g.Provider)
	place += fmt.Sprintf(" (%.40s)", g.Provider)
	if p := strings.ToLower(g.Provider); x.groups[p] {
		x.problemf(place, "provider is there twice")
	} else {
		x.groups[p] = true
	}
	if g.Date != "" {
		if _, err := time.Parse(time.DateOnly, g.Date); err != nil {
			x.problemf(place+".date", "%.40q is not a date such as 2026-11-21", g.Date)
		}
	}
	for i, raw := range g.Models {
		x.entry(fmt.Sprintf("%s.models[%d]", place, i), g.Provider, raw)
	}
}

func (x *reader) entry(place, provider string, raw json.RawMessage) {
	var e entry
	if err := jsontext.Decode(raw, &e); err != nil {
		x.problemf(place, "%.300s", err)
		return
	}
	x.name(place+".model", e.Model)
	place += fmt.Sprintf(" (%.80s)", e.Model)
	if e.Provider != "" && e.Provider != provider {
		x.problemf(place+".provider", "%.40q is not the provider it is listed under", e.Provider)
	}
	e.Provider = provider
	x.limits(place, &e.ModelInfo)
	x.price(place+".price", e.Price)
	k := newKey(provider, e.Model)
	x.fresh(place, k)
	x.models[k] = complete(e.ModelInfo)
	for i, name := range e.Names {
		at := fmt.Sprintf("%s.names[%d]", place, i)
		x.name(at, name)
		x.fresh(at, newKey(provider, name))
		x.names[newKey(provider, name)] = k.model
	}
}

// fresh reports a problem if a model already has the name.
func (x *reader) fresh(place string, k key) {
	_, model := x.models[k]
	if other, ok := x.names[k]; ok {
		x.problemf(place, "%.80q is a name of %.80s as well", k.model, other)
	} else if model {
		x.problemf(place, "%.80q is there twice", k.model)
	}
}

func (x *reader) name(place, s string) {
	switch {
	case s == "":
		x.problemf(place, "missing")
	case len(s) > maxName:
		x.problemf(place, "longer than %d bytes", maxName)
	case strings.ContainsFunc(s,
		func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }):
		x.problemf(place, "%.80q has white space or control characters", s)
	}
}

func (x *reader) limits(place string, m *aycoder.ModelInfo) {
	if m.Context < 0 {
		x.problemf(place+".context", "%d is less than 0", m.Context)
	}
	if m.MaxOutput < 0 {
		x.problemf(place+".max_output", "%d is less than 0", m.MaxOutput)
	}
	if m.Context > 0 && m.MaxOutput > m.Context {
		x.problemf(place+".max_output", "%d is more than the context of %d", m.MaxOutput, m.Context)
	}
}

// price checks a price and its price for long requests. A third level is refused: the format has
// no meaning for it.
func (x *reader) price(place string, p *aycoder.Price) {
	if p == nil {
		return
	}
	x.rates(place, *p)
	switch {
	case p.Long == nil && p.LongFrom != 0:
		x.problemf(place+".long_from", "%d without long", p.LongFrom)
	case p.Long != nil && p.LongFrom <= 0:
		x.problemf(place+".long_from", "%d is less than 1", p.LongFrom)
	case p.Long != nil && (p.Long.Long != nil || p.Long.LongFrom != 0):
		x.problemf(place+".long", "has a long of its own")
	}
	if p.Long != nil {
		x.rates(place+".long", *p.Long)
	}
}

func (x *reader) rates(place string, p aycoder.Price) {
	for _, rate := range []struct {
		name    string
		dollars float64
	}{
		{"input", p.Input}, {"output", p.Output},
		{"cache_read", p.CacheRead}, {"cache_write", p.CacheWrite},
	} {
		if !(0 <= rate.dollars && rate.dollars <= maxPrice) || math.Signbit(rate.dollars) {
			x.problemf(place+"."+rate.name, "%g is not from 0 to %g", rate.dollars, maxPrice)
		}
	}
}
