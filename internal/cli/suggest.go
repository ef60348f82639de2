package cli

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/aycoder/aycoder/codegraph/lint"
	"github.com/aycoder/aycoder/edit"
	"github.com/aycoder/aycoder/insight/suggest"
	"github.com/aycoder/aycoder/workspace"
)

var suggestFlags = []Flag{
	{"osv", "a directory, or a zip archive of osv.dev, with advisories in the OSV format", "path"},
	{"sarif", "a file in the SARIF format with what a checker has found here; give the flag again for another file", "file"},
	{"all", "also those that are dismissed", ""},
}

// dismissals returns the file with the suggestions for a directory that the user has dismissed, or "" if there is no place for it.
func (a *app) dismissals(dir string) string {
	return a.state("dismissed", nameOf(dir)+".json")
}

// graphs returns the directory for the code graph of a directory, or "" if there is no place for it. Of those of other
// directories, the newest stay.
func (a *app) graphs(dir string) string {
	all, own := a.state("graphs"), nameOf(dir)
	if all == "" {
		return ""
	}
	entries, _ := os.ReadDir(all)
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return e.Name() == own })
	if len(entries) >= maxGraphs {
		age := func(e fs.DirEntry) (at time.Time) {
			if info, err := e.Info(); err == nil {
				at = info.ModTime()
			}
			return at
		}
		slices.SortFunc(entries, func(x, y fs.DirEntry) int { return age(x).Compare(age(y)) })
		for _, e := range entries[:len(entries)-maxGraphs+1] {
			_ = os.RemoveAll(filepath.Join(all, e.Name()))
		}
	}
	return filepath.Join(all, own)
}

// maxGraphs is how many code graphs are kept.
const maxGraphs = 20

// suggestCommand does what the arguments of "aycoder suggest" say.
func suggestCommand(ctx context.Context, k *call) error {
	ws, err := workspace.Open(".")
	if err != nil {
		return err
	}
	defer ws.Close()
	file := k.dismissals(ws.Dir())
	if file == "" {
		return errors.New("there is no place for dismissals: HOME is not set")
	}
	kind, id := suggest.Kind(k.arg(0)), ""
	if k.action != "list" {
		kind, id = "", k.arg(0)
	}
	if kind != "" && !slices.Contains(suggest.Kinds(), kind) {
		return fmt.Errorf("%w: there are no suggestions of the kind %q", ErrUsage, kind)
	}
	o := suggest.Options{Files: ws, Dir: ws.Dir()}
	if o.Dismissed, err = suggest.Load(file); err != nil {
		return err
	}
	if k.action == "restore" {
		if o.Dismissed[id] == "" {
			return fmt.Errorf("%w: the suggestion %s is not dismissed", ErrUsage, id)
		}
		return suggest.Dismiss(file, id, "")
	}
	for _, name := range k.lists["sarif"] {
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		found, err := lint.Parse(lint.SARIF, data)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		o.Findings = append(o.Findings, found...)
	}
	if name := k.values["osv"]; name != "" {
		info, err := os.Stat(name)
		if err != nil {
			return err
		}
		if o.Advisories = os.DirFS(name); !info.IsDir() {
			z, err := zip.OpenReader(name)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			defer z.Close()
			o.Advisories = z
		}
	}
	r, err := suggest.Find(ctx, o)
	if err != nil {
		return err
	}
	if k.action != "list" {
		s, ok := first(r.All, func(s suggest.Suggestion) bool { return s.ID == id })
		switch {
		case !ok:
			return fmt.Errorf("%w: there is no suggestion %s; those of -osv and -sarif need the same flag here", ErrUsage, id)
		case k.action == "dismiss" && strings.TrimSpace(strings.Join(k.args[1:], "")) == "":
			return fmt.Errorf("%w: say why %s is dismissed", ErrUsage, id)
		case k.action == "dismiss":
			return suggest.Dismiss(file, id, strings.Join(k.args[1:], " "))
		}
		return showSuggestion(k, &s)
	}
	r.All = slices.DeleteFunc(r.All, func(s suggest.Suggestion) bool {
		return kind != "" && s.Kind != kind || s.Dismissed != "" && !k.on["all"]
	})
	return k.print(r, func(w io.Writer) {
		for i := range r.All {
			s := &r.All[i]
			fmt.Fprint(w, cleanLine(s.Line()))
			if s.Dismissed != "" {
				fmt.Fprint(w, "  (dismissed: "+cleanLine(s.Dismissed)+")")
			}
			fmt.Fprintln(w)
		}
		if len(r.All) == 0 {
			fmt.Fprintln(w, "Nothing was found.")
		}
		if o.Advisories == nil && (kind == "" || kind == suggest.Advisory) {
			fmt.Fprintln(w, "Vulnerabilities were not looked for: -osv names no advisories.")
		}
		for _, s := range r.Skipped {
			fmt.Fprintln(w, "! not looked at: "+cleanLine(s))
		}
	})
}

const suggestTime = 10 * time.Second // for what nobody has asked for

// suggest shows at the prompt of a new conversation what is open in its directory. It looks for that in the background, until
// endSuggest is called.
func (c *chat) suggest(ctx context.Context) {
	s, file := c.session, c.app.dismissals(c.session.Files.Dir())
	if !c.terminal.Suggestions || c.options.prompt != "" || file == "" || s.Workspace == nil || s.Session.View().Len() > 1 {
		return
	}
	g, err := s.code()
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, suggestTime)
	found, done := make(chan func(*chat), 1), make(chan struct{})
	c.unasked, c.seeking = found, func() { cancel(); <-done }
	go func() {
		defer close(done)
		defer cancel()
		dismissed, err := suggest.Load(file)
		if err != nil {
			return
		}
		r, err := suggest.Find(ctx, suggest.Options{Files: s.Files, Dir: s.Files.Dir(), Graph: g, Uncommitted: true, Dismissed: dismissed})
		if err == nil {
			found <- func(c *chat) { c.suggestions(r) }
		}
	}()
}

// endSuggest ends what suggest has begun, before the session is closed that it looks into.
func (c *chat) endSuggest() {
	if c.seeking != nil {
		c.seeking()
		c.seeking, c.unasked = nil, nil
	}
}

// suggestions shows what nobody has asked for, unless the user has begun already.
func (c *chat) suggestions(r *suggest.Report) {
	list := r.Unasked()
	if len(list)+len(r.Skipped) == 0 || c.talk().View().Len() > 1 {
		return
	}
	c.prose(faint, `Open here ("aycoder suggest dismiss id reason" hides one):`)
	for i := range list {
		style := faint
		if list[i].Kind == suggest.Secret {
			style = notice
		}
		c.prose(style, cleanLine(list[i].Line()))
	}
	for i, what := range r.Skipped {
		if i == maxSkipped {
			c.prose(faint, fmt.Sprintf("! %d more were not looked at", len(r.Skipped)-i))
			break
		}
		c.prose(faint, "! not looked at: "+cleanLine(what))
	}
}

const maxSkipped = 5 // that nobody has asked for

// showSuggestion prints a suggestion with its change, in a form that "git apply" takes.
func showSuggestion(k *call, s *suggest.Suggestion) error {
	out := struct {
		*suggest.Suggestion
		Diff string `json:"diff,omitempty"`
	}{Suggestion: s}
	if s.Edit != nil {
		plan, err := edit.NewPlan(*s.Edit)
		if err != nil {
			return err
		}
		out.Diff = plan.Preview()
	}
	return k.print(out, func(w io.Writer) {
		fmt.Fprintln(w, cleanLine(s.Line()))
		if s.Confidence > 0 {
			fmt.Fprintf(w, "%.0f of 100 such suggestions were right.\n", 100*s.Confidence)
		}
		fmt.Fprint(w, clean(out.Diff))
	})
}
