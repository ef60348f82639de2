// Package lint reads what the checkers of a project print, such as go vet, ESLint or Clippy, and makes one form of it:
// the place, the rule, the message, and how to mend it. It starts no program.
package lint

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/aycoder/aycoder/internal/late"
)

// Finding is what a checker has to say about a place.
type Finding struct {
	// Path is the file as the checker names it, with slashes: absolute, or relative to where it ran.
	Path string `json:"path"`
	// Line and Column begin with 1, or are 0 if the checker does not say. Some checkers count bytes in a column, and some characters.
	Line   int `json:"line"`
	Column int `json:"column,omitempty"`
	// Rule is the checker's name for what is wrong, such as "SA5009", or "".
	Rule    string `json:"rule,omitempty"`
	Message string `json:"message"`
	// Fix says how to mend it, or has the text to write, if the checker knows. It may have several lines.
	Fix string `json:"fix,omitempty"`
	// Stops says that the checker could not look further because of this, as with a syntax error. Others may be hidden.
	Stops bool `json:"stops,omitempty"`
}

// Format is the form of what a checker prints.
type Format string

// The formats, with the flags that lead to them.
const (
	GoVet        Format = "go vet"        // -json, with both outputs
	GoFix        Format = "go fix"        // -diff
	Staticcheck  Format = "staticcheck"   // -f json
	GolangciLint Format = "golangci-lint" // --output.json.path stdout
	ESLint       Format = "eslint"        // --format json
	Ruff         Format = "ruff"          // --output-format json
	Clippy       Format = "clippy"        // --message-format json
	TSC          Format = "tsc"           // --pretty false
	SARIF        Format = "sarif"         // version 2.1.0, of any program
)

// Formats returns all formats.
func Formats() (all []Format) {
	for _, p := range parsers() {
		all = append(all, p.format)
	}
	return all
}

// A parser adds the findings of an output in a format.
type parser struct {
	format Format
	parse  func(l *list, out []byte) error
}

func parsers() []parser {
	return []parser{{GoVet, (*list).goVet}, {GoFix, (*list).goFix}, {Staticcheck, (*list).staticcheck}, {GolangciLint, (*list).golangci},
		{ESLint, (*list).eslint}, {Ruff, (*list).ruff}, {Clippy, (*list).clippy}, {TSC, (*list).tsc}, {SARIF, (*list).sarif}}
}

const (
	maxFindings = 10_000
	maxText     = 2000 // bytes of a text
)

// ErrFormat means that an output is not of its format, or that there is no such format.
var ErrFormat = errors.New("the output is not of this format")

// Parse reads an output. It keeps the first 10,000 findings and 2,000 bytes of each text. Messages about no place in a file
// are left out. The error wraps [ErrFormat].
func Parse(format Format, out []byte) ([]Finding, error) {
	l, all := list{}, parsers()
	err := errors.New("there is no such format")
	if i := slices.IndexFunc(all, func(p parser) bool { return p.format == format }); i >= 0 {
		err = all[i].parse(&l, bytes.TrimPrefix(out, []byte("\uFEFF"))) // which programs for Windows write before JSON
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrFormat, format, err)
	}
	return l, nil
}

// list are the findings of an output.
type list []Finding

func (l *list) add(f Finding) {
	if f.Path == "" || f.Line < 0 || len(*l) == maxFindings {
		return
	}
	f.Path = strings.ReplaceAll(f.Path, `\`, "/")
	for _, s := range []*string{&f.Path, &f.Rule, &f.Message, &f.Fix} {
		*s = strings.ToValidUTF8((*s)[:min(len(*s), maxText)], "\uFFFD")
	}
	*l = append(*l, f)
}

// place splits path:line:column.
func place(s string) (name string, line, column int) {
	rest, last, ok := cutLast(s)
	if !ok {
		return s, 0, 0
	}
	if name, line, ok := cutLast(rest); ok {
		return name, line, last
	}
	return rest, last, 0
}

func cutLast(s string) (string, int, bool) {
	i := strings.LastIndexByte(s, ':')
	if i <= 0 {
		return s, 0, false
	}
	n, err := strconv.Atoi(s[i+1:])
	return s[:i], n, err == nil && n >= 0
}

// ofGo matches an error of the Go compiler. The message may go on in lines that begin with a tab.
var ofGo = late.Regexp(`(?m)^(?:vet: )?((?:[A-Za-z]:)?[^\s:#][^:\n]*:\d+(?::\d+)?): (.*(?:\n\t.*)*)`)

// compiler adds the errors of the Go compiler.
func (l *list) compiler(text string) {
	for _, m := range ofGo().FindAllStringSubmatch(text, maxFindings) {
		f := Finding{Rule: "compile", Message: m[2], Stops: true}
		f.Path, f.Line, f.Column = place(m[1])
		l.add(f)
	}
}

// goVet reads one JSON object a package, between comments and errors of the compiler.
func (l *list) goVet(out []byte) error {
	var rest bytes.Buffer
	for len(out) > 0 {
		if out[0] != '{' {
			line, after, _ := bytes.Cut(out, []byte("\n"))
			rest.Write(append(line, '\n'))
			out = after
			continue
		}
		d := json.NewDecoder(bytes.NewReader(out))
		var packages map[string]map[string]json.RawMessage
		if err := d.Decode(&packages); err != nil {
			return err
		}
		out = bytes.TrimLeft(out[d.InputOffset():], " \t\r\n")
		for _, name := range slices.Sorted(maps.Keys(packages)) {
			for _, rule := range slices.Sorted(maps.Keys(packages[name])) {
				var found []struct {
					Posn, Message  string
					SuggestedFixes []struct {
						Message string
						Edits   []struct{ New string }
					} `json:"suggested_fixes"`
				}
				if json.Unmarshal(packages[name][rule], &found) != nil {
					continue // an error of the analyzer
				}
				for _, v := range found {
					f := Finding{Rule: rule, Message: v.Message}
					f.Path, f.Line, f.Column = place(v.Posn)
					for _, fix := range v.SuggestedFixes[:min(1, len(v.SuggestedFixes))] {
						if f.Fix = fix.Message; f.Fix == "" && len(fix.Edits) > 0 {
							f.Fix = fix.Edits[0].New
						}
					}
					l.add(f)
				}
			}
		}
	}
	l.compiler(rest.String())
	return nil
}

// goFix reads a unified diff: each run of changed lines is a finding.
func (l *list) goFix(out []byte) error {
	text := string(out)
	var f *Finding
	name, line := "", 0
	end := func() {
		if f != nil {
			l.add(*f)
		}
		f = nil
	}
	inHunk := 0 // old lines that are left
	for s := range strings.SplitSeq(text, "\n") {
		switch {
		case inHunk <= 0 && strings.HasPrefix(s, "--- "):
			end()
			name = strings.TrimSuffix(s[4:], " (old)")
		case strings.HasPrefix(s, "@@ -"):
			end()
			old, _, _ := strings.Cut(s[4:], " ")
			first, count, ok := strings.Cut(old, ",")
			inHunk = 1
			var err error
			if line, err = strconv.Atoi(first); err != nil {
				return err
			}
			if ok {
				if inHunk, err = strconv.Atoi(count); err != nil {
					return err
				}
			}
		case strings.HasPrefix(s, "-") && inHunk > 0:
			if f != nil && f.Fix != "" {
				end()
			}
			if f == nil {
				f = &Finding{Path: name, Line: line, Rule: "go fix"}
			}
			f.Message = joined(f.Message, s[1:])
			line, inHunk = line+1, inHunk-1
		case strings.HasPrefix(s, "+") && name != "" && !strings.HasPrefix(s, "+++ "):
			if f == nil {
				f = &Finding{Path: name, Line: max(1, line), Rule: "go fix"}
			}
			f.Fix = joined(f.Fix, s[1:])
		default:
			end()
			if strings.HasPrefix(s, " ") {
				line, inHunk = line+1, inHunk-1
			}
		}
	}
	end()
	for i := range *l {
		v := &(*l)[i]
		v.Message = "outdated: " + strings.TrimSpace(v.Message)
	}
	if name == "" {
		l.compiler(text)
	}
	return nil
}

// joined adds a line to a text, unless there is enough already.
func joined(text, line string) string {
	if len(text) >= maxText {
		return text
	}
	return strings.TrimPrefix(text+"\n"+line, "\n")
}

// lines calls a function for each line that is a JSON object.
func lines[T any](out []byte, each func(T)) error {
	for line := range bytes.Lines(out) {
		if line = bytes.TrimSpace(line); len(line) == 0 || line[0] != '{' {
			continue
		}
		var v T
		if err := json.Unmarshal(line, &v); err != nil {
			return err
		}
		each(v)
	}
	return nil
}

func (l *list) staticcheck(out []byte) error {
	type problem struct {
		Code, Message string
		Location      struct {
			File         string
			Line, Column int
		}
	}
	return lines(out, func(p problem) {
		if p.Code == "compile" && p.Location.File == "" {
			l.compiler(p.Message)
			return
		}
		l.add(Finding{p.Location.File, p.Location.Line, p.Location.Column, p.Code, p.Message, "", p.Code == "compile"})
	})
}

func (l *list) golangci(out []byte) error {
	var all struct {
		Issues []struct {
			FromLinter, Text string
			Pos              struct {
				Filename     string
				Line, Column int
			}
			Replacement    *struct{ NewLines []string }
			SuggestedFixes []struct {
				Message   string
				TextEdits []struct{ NewText []byte }
			}
		}
	}
	if err := first(out, '{', &all); err != nil {
		return err
	}
	for _, v := range all.Issues {
		f := Finding{v.Pos.Filename, v.Pos.Line, v.Pos.Column, v.FromLinter, v.Text, "", v.FromLinter == "typecheck"}
		if v.Replacement != nil {
			f.Fix = strings.Join(v.Replacement.NewLines, "\n")
		}
		for _, fix := range v.SuggestedFixes[:min(1, len(v.SuggestedFixes))] {
			if f.Fix = fix.Message; f.Fix == "" && len(fix.TextEdits) > 0 {
				f.Fix = string(fix.TextEdits[0].NewText)
			}
		}
		l.add(f)
	}
	return nil
}

// first decodes the JSON value that begins with a byte, after what else a program has printed.
func first(out []byte, begin byte, v any) error {
	for at := 0; at < len(out); {
		line, _, _ := bytes.Cut(out[at:], []byte("\n"))
		if s := bytes.TrimLeft(line, " \t"); len(s) > 0 && s[0] == begin {
			return json.NewDecoder(bytes.NewReader(out[at:])).Decode(v)
		}
		at += len(line) + 1
	}
	return errors.New("there is no JSON in it")
}

func (l *list) eslint(out []byte) error {
	type fix struct{ Text string }
	var all []struct {
		FilePath string
		Messages []struct {
			RuleID       *string
			Fatal        bool
			Message      string
			Line, Column int
			Fix          *fix
			Suggestions  []struct{ Desc string }
		}
	}
	if err := first(out, '[', &all); err != nil {
		return err
	}
	for _, v := range all {
		for _, m := range v.Messages {
			f := Finding{v.FilePath, m.Line, m.Column, "", m.Message, "", m.Fatal}
			if m.RuleID != nil {
				f.Rule = *m.RuleID
			}
			if m.Fix != nil {
				f.Fix = m.Fix.Text
			} else if len(m.Suggestions) > 0 {
				f.Fix = m.Suggestions[0].Desc
			}
			l.add(f)
		}
	}
	return nil
}

func (l *list) ruff(out []byte) error {
	var all []struct {
		Code, Message, Filename string
		Location                struct{ Row, Column int }
		Fix                     *struct{ Message string }
	}
	if err := first(out, '[', &all); err != nil {
		return err
	}
	for _, v := range all {
		f := Finding{v.Filename, v.Location.Row, v.Location.Column, v.Code, v.Message, "", v.Code == "" || v.Code == "invalid-syntax"}
		if v.Fix != nil {
			f.Fix = v.Fix.Message
		}
		l.add(f)
	}
	return nil
}

// clippy reads the messages of cargo. It names files relative to the directory of the workspace, of which only that of
// the package is known.
func (l *list) clippy(out []byte) error {
	type span struct {
		FileName    string `json:"file_name"`
		LineStart   int    `json:"line_start"`
		ColumnStart int    `json:"column_start"`
		IsPrimary   bool   `json:"is_primary"`
		Replacement string `json:"suggested_replacement"`
	}
	type message struct {
		Reason       string
		ManifestPath string `json:"manifest_path"`
		Message      struct {
			Message, Level string
			Code           *struct{ Code string }
			Spans          []span
			Children       []struct {
				Message string
				Spans   []span
			}
		}
	}
	return lines(out, func(c message) {
		m := &c.Message
		i := slices.IndexFunc(m.Spans, func(s span) bool { return s.IsPrimary })
		if c.Reason != "compiler-message" || i < 0 {
			return
		}
		s := m.Spans[i]
		f := Finding{Path: inPackage(c.ManifestPath, s.FileName), Line: s.LineStart, Column: s.ColumnStart, Message: m.Message}
		if m.Code != nil {
			f.Rule = m.Code.Code
		}
		f.Stops = m.Level == "error" && !strings.HasPrefix(f.Rule, "clippy::")
		for _, child := range m.Children {
			if len(child.Spans) > 0 && f.Fix == "" {
				f.Fix = strings.TrimSuffix(child.Message+": "+child.Spans[0].Replacement, ": ")
			}
		}
		l.add(f)
	})
}

// inPackage returns the path of a file of a package of cargo.
func inPackage(manifest, name string) string {
	manifest, name = strings.ReplaceAll(manifest, `\`, "/"), strings.ReplaceAll(name, `\`, "/")
	own := path.Dir(manifest)
	if manifest == "" || path.IsAbs(name) || len(name) > 1 && name[1] == ':' {
		return name
	}
	for root := path.Dir(own); root != path.Dir(root); root = path.Dir(root) {
		if strings.HasPrefix(name, strings.TrimPrefix(own, root+"/")+"/") {
			return path.Join(root, name)
		}
	}
	return path.Join(own, name)
}

// ofTSC matches an error of the TypeScript compiler.
var ofTSC = late.Regexp(`^(.+)\((\d+),(\d+)\): \w+ (TS\d+): (.*)$`)

func (l *list) tsc(out []byte) error {
	for s := range strings.SplitSeq(string(out), "\n") {
		s = strings.TrimRight(s, "\r")
		if m := ofTSC().FindStringSubmatch(s); m != nil {
			line, _ := strconv.Atoi(m[2])
			column, _ := strconv.Atoi(m[3])
			l.add(Finding{Path: m[1], Line: line, Column: column, Rule: m[4], Message: m[5], Stops: strings.HasPrefix(m[4], "TS1") && len(m[4]) == 6})
		}
	}
	return nil
}

func (l *list) sarif(out []byte) error {
	type text struct {
		Text, ID  string
		Arguments []string
	}
	type location struct {
		URI       string
		URIBaseID string
	}
	type rule struct {
		ID       string
		Messages map[string]text `json:"messageStrings"`
	}
	var all struct {
		Version string
		Runs    []struct {
			Bases map[string]location `json:"originalUriBaseIds"`
			Tool  struct {
				Driver struct {
					Rules []rule
				}
			}
			Results []struct {
				RuleID    string
				RuleIndex *int
				Rule      *struct {
					ID    string
					Index *int
				}
				Kind      string
				Baseline  string `json:"baselineState"`
				Message   text
				Locations []struct {
					PhysicalLocation struct {
						ArtifactLocation location
						Region           struct{ StartLine, StartColumn int }
					}
				}
				Suppressions []struct{ Status string }
				Fixes        []struct {
					Description     text
					ArtifactChanges []struct {
						Replacements []struct{ InsertedContent text }
					}
				}
			}
		}
	}
	if err := first(out, '{', &all); err != nil {
		return err
	}
	if !strings.HasPrefix(all.Version, "2.") {
		return fmt.Errorf("it is version %.20q and not 2.1.0", all.Version)
	}
	for _, run := range all.Runs {
		for _, r := range run.Results {
			suppressed := slices.ContainsFunc(r.Suppressions, func(s struct{ Status string }) bool {
				return s.Status == "" || s.Status == "accepted"
			})
			fails := r.Kind == "" || r.Kind == "fail" || r.Kind == "review" || r.Kind == "open"
			if len(r.Locations) == 0 || suppressed || !fails || r.Baseline == "absent" || len(*l) == maxFindings {
				continue
			}
			p := &r.Locations[0].PhysicalLocation
			f := Finding{Line: p.Region.StartLine, Column: p.Region.StartColumn, Rule: r.RuleID, Message: r.Message.Text}
			at := r.RuleIndex
			if r.Rule != nil {
				f.Rule, at = cmp.Or(f.Rule, r.Rule.ID), cmp.Or(at, r.Rule.Index)
			}
			rules := run.Tool.Driver.Rules
			i := slices.IndexFunc(rules[:min(len(rules), maxFindings)], func(x rule) bool { return x.ID == f.Rule })
			if at != nil {
				i = *at
			}
			if i >= 0 && i < len(rules) {
				f.Rule, f.Message = cmp.Or(f.Rule, rules[i].ID), cmp.Or(f.Message, rules[i].Messages[r.Message.ID].Text)
			}
			for i, s := range r.Message.Arguments[:min(len(r.Message.Arguments), 10)] {
				f.Message = strings.ReplaceAll(f.Message[:min(len(f.Message), maxText)], fmt.Sprintf("{%d}", i), s[:min(len(s), maxText)])
			}
			f.Path = ofURI(run.Bases[p.ArtifactLocation.URIBaseID].URI, p.ArtifactLocation.URI)
			for _, fix := range r.Fixes[:min(1, len(r.Fixes))] {
				f.Fix = fix.Description.Text
				for _, c := range fix.ArtifactChanges {
					if f.Fix == "" && len(c.Replacements) > 0 {
						f.Fix = c.Replacements[0].InsertedContent.Text
					}
				}
			}
			l.add(f)
		}
	}
	return nil
}

// ofURI returns the path of a file at an address that may be relative to a base, or "" if it is none on this machine.
func ofURI(base, uri string) string {
	u, err := url.Parse(uri)
	if err != nil {
		return ""
	}
	if b, err := url.Parse(base); err == nil && base != "" {
		u = b.ResolveReference(u)
	}
	if u.Scheme != "" && u.Scheme != "file" || u.Host != "" && u.Host != "localhost" {
		return ""
	}
	if p := u.Path; len(p) > 2 && p[0] == '/' && p[2] == ':' { // of Windows
		return p[1:]
	}
	return u.Path
}
