// Package suggest says what somebody could do next in a workspace: work that is not committed or pushed, dependencies with
// known vulnerabilities, code without tests or comments or that can be simpler, secrets, risky patterns, old TODOs. Each suggestion has a
// place and an id, by which a user can dismiss it with a reason.
//
//	r, err := suggest.Find(ctx, suggest.Options{Files: ws, Dir: ws.Dir(), Advisories: os.DirFS("osv")})
//	for _, s := range r.Unasked() {
//		fmt.Println(s.Line())
//	}
//
// Nothing here uses the network, runs code of the workspace, or changes a file of it. A secret is named by its kind and place,
// and never shown. Suggestions come from patterns and names, so one may be wrong, and much is missed.
package suggest

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/codegraph"
	"github.com/aycoder/aycoder/codegraph/lint"
	"github.com/aycoder/aycoder/edit"
	"github.com/aycoder/aycoder/internal/ignore"
	"github.com/aycoder/aycoder/internal/runes"
	"github.com/aycoder/aycoder/tools"
)

// Kind is what a suggestion is about.
type Kind string

// The kinds, the most urgent first.
const (
	Secret   Kind = "secret"   // in a file that is committed, or could be
	Advisory Kind = "advisory" // a dependency with a known vulnerability
	Work     Kind = "work"     // changes that are not committed or not pushed
	Risk     Kind = "risk"     // a pattern that is often a hole
	Check    Kind = "check"    // what a checker has found: see Options.Findings
	Outdated Kind = "outdated" // a dependency of which there is a newer version
	Tests    Kind = "tests"    // code that no test uses
	Docs     Kind = "docs"     // exported names without a comment, where most have one
	Todo     Kind = "todo"     // a TODO that nobody has touched for long
	Simpler  Kind = "simpler"  // Go code that can be made simpler: see package refactor
)

// Kinds returns all kinds, the most urgent first.
func Kinds() []Kind {
	return []Kind{Secret, Advisory, Work, Risk, Check, Outdated, Tests, Docs, Todo, Simpler}
}

// Suggestion is something to do.
type Suggestion struct {
	// ID stays the same as long as the suggestion is about the same, wherever its line has gone.
	ID   string `json:"id"`
	Kind Kind   `json:"kind"`
	// Path and At, a line counted from 1, are the place, as far as it has one.
	Path string `json:"path,omitempty"`
	At   int    `json:"line,omitempty"`
	// Text says what is so, and what to do, in one line.
	Text string `json:"text"`
	// Dismissed is the reason for which a user has dismissed it, or "".
	Dismissed string `json:"dismissed,omitempty"`
	// Confidence is what part of such suggestions was right, as far as that was measured, or 0.
	Confidence float64 `json:"confidence,omitempty"`
	// Edit does what is suggested, where that is safe, or is nil. It is for this suggestion alone: find again after it.
	Edit *edit.File `json:"-"`
}

// Line is the suggestion for people, in one line.
func (s *Suggestion) Line() string {
	place := runes.Path(s.Path)
	if s.Path == "" {
		place = "."
	}
	if s.At > 0 {
		place = fmt.Sprintf("%s:%d", place, s.At)
	}
	return fmt.Sprintf("%s  %-8s  %s: %s", s.ID, s.Kind, place, s.Text)
}

// Options configure [Find].
type Options struct {
	// Files is the workspace. It is required.
	Files codegraph.FS
	// Dir is its directory, for git. Without it, nothing is said about commits and the age of lines.
	Dir string
	// Graph is the code graph of the files, if there is one already. Default: a new one.
	Graph *codegraph.Graph
	// Uncommitted has it look only at the state of git, and for secrets and risky patterns in files that are not committed, at
	// most 100 of them. With a graph that was read already, this takes little time.
	Uncommitted bool
	// Advisories has files *.json in the OSV format, such as an archive of osv.dev, or is nil: then nothing is said about
	// vulnerabilities.
	Advisories fs.FS
	// Latest returns the newest version of a package, or "" if it is not known. It is nil by default: then nothing is said
	// about versions.
	Latest func(context.Context, Package) (string, error)
	// Findings are those of checkers, read by package lint. Relative paths are relative to the workspace.
	Findings []lint.Finding
	// Masker knows what is secret. Default: one that knows the forms of keys, and the secrets in the environment.
	Masker *tools.Masker
	// Stale is the age from which a TODO is old. Default: 180 days. Now is the time. Default: [time.Now].
	Stale time.Duration
	Now   time.Time
	// Dismissed are reasons by the ids of suggestions: see [Load].
	Dismissed map[string]string
}

const (
	defaultStale = 180 * 24 * time.Hour
	unasked      = 5
	maxFile      = 1 << 20   // bytes of a file that is searched
	maxLock      = 64 << 20  // bytes of a lock file
	maxOfKind    = 1000      // suggestions
	maxOpen      = 100       // files that are not committed
	maxText      = 300       // bytes
	maxSearched  = 512 << 20 // bytes of all files
)

// Report is what [Find] has found.
type Report struct {
	// All has the most urgent kinds first, also those that are dismissed.
	All []Suggestion `json:"suggestions"`
	// Skipped says what was not looked at, and why.
	Skipped []string `json:"skipped,omitempty"`
}

// Unasked returns what to show to a user who has not asked: all secrets and advisories, and as many others as make five in
// all. Those that are dismissed are left out.
func (r *Report) Unasked() []Suggestion {
	var out []Suggestion
	for _, s := range r.Open() {
		if s.Kind == Secret || s.Kind == Advisory || len(out) < unasked {
			out = append(out, s)
		}
	}
	return out
}

// Open returns the suggestions that nobody has dismissed.
func (r *Report) Open() []Suggestion {
	return slices.DeleteFunc(slices.Clone(r.All), func(s Suggestion) bool { return s.Dismissed != "" })
}

// finder collects suggestions.
type finder struct {
	*Options
	*Report
	s     *codegraph.Snapshot
	count map[Kind]int
	ids   map[string]int
	read  int64
	open  []string // files that are not committed, sorted
}

// Find looks for something to do. The error is that of ctx or of reading the workspace, its directory or the advisories.
func Find(ctx context.Context, o Options) (*Report, error) {
	if o.Files == nil {
		return nil, &aycoder.ConfigError{Option: "suggest.Options.Files", Err: errors.New("is nil")}
	}
	if o.Dir != "" {
		if _, err := os.ReadDir(o.Dir); err != nil {
			return nil, fmt.Errorf("find suggestions: %w", err)
		}
	}
	o.Stale = cmp.Or(o.Stale, defaultStale)
	if o.Now.IsZero() {
		o.Now = time.Now()
	}
	if o.Masker == nil {
		o.Masker = tools.NewMasker(nil)
	}
	g := o.Graph
	if g == nil {
		var err error
		if g, err = codegraph.New(o.Files, codegraph.WithDir(o.Dir)); err != nil {
			return nil, fmt.Errorf("find suggestions: %w", err)
		}
	}
	s, err := g.Refresh(ctx)
	if err != nil {
		return nil, fmt.Errorf("find suggestions: %w", err)
	}
	f := &finder{Options: &o, Report: &Report{}, s: s, count: map[Kind]int{}, ids: map[string]int{}}
	if s.Partial() {
		f.skip("all files: there are too many")
	}
	steps := []func(context.Context) error{
		func(ctx context.Context) error { return f.work(ctx, g) }, f.checks, f.dependencies, f.texts, f.tests, f.docs, f.simpler,
	}
	if o.Uncommitted {
		steps = []func(context.Context) error{steps[0], f.texts}
	}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return nil, fmt.Errorf("find suggestions: %w", err)
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("find suggestions: %w", context.Cause(ctx))
		}
	}
	for k, n := range f.count {
		if n > maxOfKind {
			f.skip("%d more suggestions of the kind %s", n-maxOfKind, k)
		}
	}
	slices.Sort(f.Skipped)
	f.Skipped = slices.Compact(f.Skipped) // a file may be looked at for several reasons
	kinds := Kinds()
	slices.SortStableFunc(f.All, func(a, b Suggestion) int {
		return slices.Index(kinds, a.Kind) - slices.Index(kinds, b.Kind)
	})
	return f.Report, nil
}

// add adds a suggestion. about is what it is about besides its kind and path, for the id.
func (f *finder) add(k Kind, name string, line int, about, format string, args ...any) *Suggestion {
	if f.count[k]++; f.count[k] > maxOfKind {
		return &Suggestion{}
	}
	key := string(k) + "\x00" + name + "\x00" + about
	n := f.ids[key]
	f.ids[key]++
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%d", key, n))
	s := Suggestion{ID: hex.EncodeToString(sum[:5]), Kind: k, Path: name, At: line}
	s.Text = runes.Shorten(runes.Line(f.Masker.Mask(fmt.Sprintf(format, args...))), maxText)
	s.Dismissed = f.Dismissed[s.ID]
	f.All = append(f.All, s)
	return &f.All[len(f.All)-1]
}

func (f *finder) skip(format string, args ...any) {
	if len(f.Skipped) < maxOfKind {
		f.Skipped = append(f.Skipped, runes.Line(fmt.Sprintf(format, args...)))
	}
}

// text returns the text of a file, or false.
func (f *finder) text(name string, most int64) (string, bool) {
	file, err := f.Files.Open(name)
	if err != nil {
		return "", false
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil || info.Size() > most || f.read > maxSearched {
		f.skip("%s: it is too long", name)
		return "", false
	}
	data, err := io.ReadAll(io.LimitReader(file, most+1))
	if f.read += int64(len(data)); err != nil || int64(len(data)) > most {
		return "", false
	}
	return string(data), !runes.Binary(data)
}

// checks tells what checkers have found in files of the workspace.
func (f *finder) checks(context.Context) error {
	files := slices.Collect(f.s.Files()) // sorted
	told, elsewhere := map[lint.Finding]bool{}, 0
	for _, v := range f.Findings {
		name := filepath.FromSlash(v.Path)
		if rel, err := filepath.Rel(f.Dir, name); f.Dir != "" && filepath.IsAbs(name) && err == nil {
			name = rel
		}
		v.Path = path.Clean(filepath.ToSlash(name))
		if _, ok := slices.BinarySearch(files, v.Path); !ok {
			elsewhere++
			continue
		}
		if told[v] {
			continue
		}
		told[v] = true
		text := v.Message
		if v.Rule != "" {
			text = v.Rule + ": " + text
		}
		if v.Fix != "" {
			text += "; fix: " + v.Fix
		}
		f.add(Check, v.Path, v.Line, v.Rule+"\x00"+v.Message, "%s", text)
	}
	if elsewhere > 0 {
		f.skip("%s about files that are not of this workspace", count(elsewhere, "finding"))
	}
	return nil
}

// dependencies compares lock files with the sources that the host has given.
func (f *finder) dependencies(ctx context.Context) error {
	if f.Advisories == nil && f.Latest == nil {
		return nil
	}
	var all []Package
	for name := range f.s.Files() {
		if ignore.Vendored(name) {
			continue
		}
		if !isLock(name) {
			continue
		}
		text, ok := f.text(name, maxLock)
		gomod := ""
		if path.Base(name) == "go.sum" {
			gomod, _ = f.text(path.Join(path.Dir(name), "go.mod"), maxFile)
		}
		found, err := Locked(name, text, gomod)
		if err != nil || !ok {
			f.skip("%s: cannot be read", name)
		}
		all = append(all, found...)
	}
	if f.Advisories != nil {
		at := map[string][]int{}
		for i, p := range all {
			key := p.Ecosystem + "\x00" + canonical(p.Ecosystem, p.Name)
			at[key] = append(at[key], i)
		}
		type hit struct {
			of    int
			id    string
			fixed string
			text  string
		}
		var hits []hit
		told := map[string]bool{}
		err := advisories(ctx, f.Advisories, func(a *advisory) {
			for _, x := range a.Affected {
				ecosystem, _, _ := strings.Cut(x.Package.Ecosystem, ":")
				for _, i := range at[ecosystem+"\x00"+canonical(ecosystem, x.Package.Name)] {
					names := append([]string{a.ID}, a.Aliases...)
					key := func(id string) string { return fmt.Sprint(i, " ", id) }
					if slices.ContainsFunc(names, func(id string) bool { return told[key(id)] }) {
						continue
					}
					if fixed, ok := a.affects(&all[i]); ok {
						for _, id := range names {
							told[key(id)] = true
						}
						first, _, _ := strings.Cut(cmp.Or(a.Summary, a.Details), "\n")
						hits = append(hits, hit{i, a.ID, fixed, first})
					}
				}
			}
		})
		if err != nil {
			return fmt.Errorf("read advisories: %w", err)
		}
		for _, h := range hits {
			p, what := all[h.of], "no version without it is named"
			if h.fixed != "" {
				what = "fixed in " + h.fixed
			}
			f.add(Advisory, p.File, 0, p.Name+"\x00"+p.Version+"\x00"+h.id, "%s %s has %s, %s: %s", p.Name, p.Version, h.id, what, h.text)
		}
	}
	if f.Latest == nil {
		return nil
	}
	for _, p := range all {
		latest, err := f.Latest(ctx, p)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			f.skip("the newest version of %s: %v", p.Name, err)
		} else if order, ok := compare(latest, p.Version); ok && order > 0 {
			f.add(Outdated, p.File, 0, p.Name, "%s %s is not the newest version, which is %s", p.Name, p.Version, latest)
		}
	}
	return nil
}

func isLock(name string) bool {
	return slices.Contains([]string{"go.sum", "package-lock.json", "npm-shrinkwrap.json", "yarn.lock", "pnpm-lock.yaml", "Cargo.lock", "poetry.lock", "uv.lock"}, path.Base(name))
}
