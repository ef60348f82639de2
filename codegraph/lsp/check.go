package lsp

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/edit"
	"github.com/aycoder/aycoder/internal/diff3"
	"github.com/aycoder/aycoder/internal/late"
	"github.com/aycoder/aycoder/internal/runes"
	"github.com/aycoder/aycoder/internal/view"
)

const (
	maxShown  = 20 // lines that follow the result of an edit
	maxMisses = 3  // after so many edits without an answer, the wait is at its shortest
)

// A change is what an edit has done to a file.
type change struct {
	path          string
	before, after string
	was, is       bool // whether the file existed before and exists now
}

// Middleware is an [aycoder.ToolMiddleware]. After a call that has changed files, it waits for what the language
// servers say about them, at most as long as [WithWait] allows, and adds to the result the errors that were not
// there before: in these files, and in others as far as the server tells. The commands of [WithCommand] come
// first; those with Findings also run before the call. It never says that an edit has failed, and changes nothing else about the result.
//
// The errors are new compared with the text right before the edit, so those that the user has made meanwhile are
// not among them.
func (c *Client) Middleware(next aycoder.ToolFunc) aycoder.ToolFunc {
	return func(ctx context.Context, inv *aycoder.Invocation) (*aycoder.ToolResult, error) {
		begun := time.Now()
		before := c.before(ctx, inv)
		waited := time.Since(begun)
		r, err := next(ctx, inv)
		if err != nil || r == nil || r.IsError || r.Changes == nil {
			return r, err
		}
		if len(changesOf(r.Changes)) == 0 {
			return r, nil
		}
		limited, cancel := context.WithTimeout(ctx, c.wait-waited)
		defer cancel()
		done := *r
		notes := c.format(limited, inv, &done)
		changes := changesOf(done.Changes)
		var wg sync.WaitGroup
		var errors, findings []string
		wg.Go(func() { errors = c.newErrors(limited, changes) })
		wg.Go(func() { findings = c.newFindings(limited, changes, before) })
		notes = append(notes, c.check(limited, changes)...)
		wg.Wait()
		notes = append(notes, listed(errors, findings)...)
		if len(notes) > 0 {
			done.Parts = append(slices.Clip(r.Parts), &aycoder.Text{Text: "\n" + strings.Join(notes, "\n") + "\n"})
		}
		return &done, nil
	}
}

// changesOf returns the files that were written.
func changesOf(res *edit.Result) []change {
	var out []change
	for i := range res.Files {
		f := &res.Files[i]
		if !f.Written || f.Undo == nil {
			continue
		}
		// The undo has the content before and after, in the opposite direction.
		out = append(out, change{path: f.Path, before: f.Undo.Proposed, after: f.Undo.Base,
			was: f.Kind != edit.Create, is: f.Kind != edit.Delete})
	}
	return out
}

// newErrors returns the lines about errors that all servers report.
func (c *Client) newErrors(ctx context.Context, changes []change) []string {
	found := make([][]string, len(c.servers))
	var wg sync.WaitGroup
	for i, s := range c.servers {
		if slices.ContainsFunc(changes, func(ch change) bool { return s.watches(ch.path) }) {
			wg.Go(func() { found[i] = s.newErrors(ctx, changes) })
		}
	}
	wg.Wait()
	return slices.Concat(found...)
}

// listed returns one list of the lines about errors and findings, without those that several programs report.
func listed(errors, findings []string) []string {
	lines, what := errors, "errors"
	for _, line := range findings {
		if !slices.Contains(lines, line) {
			lines, what = append(lines, line), "findings"
		}
	}
	if len(lines) == 0 {
		return nil
	}
	if more := len(lines) - maxShown; more > 0 {
		lines = append(lines[:maxShown], fmt.Sprintf("(%d more %s are not shown)", more, what))
	}
	return append([]string{"written; new " + what + ":"}, lines...)
}

// newErrors returns lines about the errors that a server reports and that were not there before.
func (s *server) newErrors(ctx context.Context, changes []change) (lines []string) {
	misses := min(s.missed.Load(), maxMisses)
	ctx, cancel := context.WithTimeout(ctx, s.client.wait/time.Duration(1+misses))
	defer cancel()
	answered := false
	_ = s.withTurn(ctx, func() error {
		x, err := s.session(ctx)
		if err != nil {
			return err // the edit is done all the same
		}
		lines, answered = x.compare(ctx, changes)
		return nil
	})
	if answered {
		s.missed.Store(0)
	} else {
		s.missed.Add(1)
	}
	return lines
}

// A state is what a server has said about the files at some moment.
type state struct {
	errors map[string][]problem
	texts  map[string]string // of the files that an edit changed; their errors have lines of these texts
	wide   bool              // the errors of other files are known, too
}

// compare tells the server of the changes, and returns lines about the errors that these have made. It returns false
// if the server has not answered in time. It is told all the same.
//
// The edit is done when it begins, but the server has not been told: a file that is not open yet is opened with the
// text that it had before. So the errors before need no time before the edit, and nobody else's change comes between.
func (x *session) compare(ctx context.Context, changes []change) (lines []string, ok bool) {
	own, before, after := map[string]bool{}, []string{}, []string{}
	for _, ch := range changes {
		own[ch.path] = true
	}
	foreign := x.refresh(ctx, own)
	for _, ch := range changes {
		if !x.checks(ch) || !ch.was {
			continue
		}
		before = append(before, ch.path)
		if d := x.docs.open[ch.path]; d != nil && d.text != ch.before {
			foreign = true
		}
		x.sync(ch.path, ch.before)
	}
	if foreign {
		x.owed, x.wide = nil, false
		for _, name := range before { // so that the server speaks again
			x.resend(name, x.docs.open[name].text)
		}
	}
	if !x.wide {
		before = x.probe(before)
	}
	settled := x.owes(before) || x.settle(ctx, before)
	x.wide = x.wide || settled && x.owed == nil && len(before) > 0
	base := x.base(settled, changes)
	for _, ch := range changes {
		if x.take(ch) {
			after = append(after, ch.path)
		}
	}
	if base == nil || !x.settle(ctx, x.probe(after)) || !x.settleNew(ctx, changes, own) {
		x.owed = cmp.Or(base, x.owed)
		return nil, false
	}
	x.owed = nil
	return x.fresh(base, changes), true
}

// settleNew waits for what the server says of files of Go that were created in directories without others. gopls speaks of
// such a file before it knows the package, and then says nothing more until something changes.
func (x *session) settleNew(ctx context.Context, changes []change, own map[string]bool) bool {
	known, names := map[string]bool{}, []string{} // known are directories
	isGo := func(name string) bool { return x.Languages[path.Ext(name)] == "go" }
	for name := range x.docs.known {
		if !own[name] && isGo(name) {
			known[path.Dir(name)] = true
		}
	}
	for _, ch := range changes {
		if d := x.docs.open[ch.path]; d != nil && !ch.was && isGo(ch.path) && !known[path.Dir(ch.path)] {
			names = append(names, ch.path)
			x.resend(ch.path, d.text)
		}
	}
	return len(names) == 0 || x.settle(ctx, names)
}

// owes reports whether the errors before are those before the last edit, whose errors have not come in time.
// The server then need not speak of the texts between.
func (x *session) owes(names []string) bool {
	return x.owed != nil && !slices.ContainsFunc(names, func(name string) bool {
		_, known := x.owed.texts[name]
		return !known
	})
}

// probe returns the files that the server is waited for. If there is none, as after a deletion, it is a file
// that is open, whose text is sent again so that the server speaks.
func (x *session) probe(names []string) []string {
	if len(names) > 0 || len(x.docs.open) == 0 {
		return names
	}
	last := x.recent()[0]
	x.resend(last, x.docs.open[last].text)
	return []string{last}
}

// checks reports whether the server can have the texts of a change.
func (x *session) checks(ch change) bool {
	return x.Languages[path.Ext(ch.path)] != "" && fit(ch.before) && fit(ch.after)
}

// base returns the state to compare with. Settled says that what the server has said is about the texts
// before the changes. If errors of the last edit were not reported in time, the state is that before it.
func (x *session) base(settled bool, changes []change) *state {
	b := x.owed
	if b == nil {
		b = &state{map[string][]problem{}, map[string]string{}, false} // enough for new files
		if settled {
			b.errors, b.wide = x.store.errors(), x.wide
		}
	}
	for _, ch := range changes {
		_, known := b.texts[ch.path]
		switch {
		case !x.checks(ch):
		case !ch.was: // the server may have found the new file on the disk
			b.texts[ch.path], b.errors[ch.path] = "", nil
		case !known && !settled:
			return nil
		case !known:
			b.texts[ch.path], b.errors[ch.path] = ch.before, x.store.errors()[ch.path]
		}
	}
	if !settled && len(b.texts) == 0 {
		return nil
	}
	return b
}

// take tells the server of a change, and reports whether the file is open now.
func (x *session) take(ch change) bool {
	if !x.watches(ch.path) {
		return false
	}
	switch {
	case !ch.is:
		x.drop(ch.path)
		x.tell(ch.path, fileDeleted)
	case !ch.was:
		x.tell(ch.path, fileCreated)
	case !x.checks(ch):
		x.drop(ch.path)
		x.tell(ch.path, fileChanged)
	}
	if !ch.is || !x.checks(ch) {
		return false
	}
	x.sync(ch.path, ch.after)
	if x.saves {
		_ = x.conn.notify("textDocument/didSave", map[string]any{"textDocument": map[string]any{"uri": x.uri(ch.path)}})
	}
	return true
}

// fresh returns lines about the errors that are not in a state. The files that were changed come first.
func (x *session) fresh(base *state, changes []change) (lines []string) {
	now := x.store.errors()
	names := make([]string, 0, len(now))
	for _, ch := range changes {
		names = append(names, ch.path)
	}
	for _, name := range slices.Sorted(maps.Keys(now)) {
		_, edited := base.texts[name]
		if (base.wide || edited) && !slices.Contains(names[:len(changes)], name) {
			names = append(names, name)
		}
	}
	for _, name := range names {
		before, after := "", "" // the lines of a file that was not changed stay where they are
		if text, known := base.texts[name]; known && x.docs.open[name] != nil {
			before, after = text, x.docs.open[name].text
		}
		for _, p := range added(base.errors[name], now[name], before, after) {
			lines = append(lines, fmt.Sprintf("%s:%d: %s", runes.Path(name), p.line, p.text))
		}
	}
	return lines
}

// added returns the problems of a text that are not those of an older text. A problem with the same words is the
// same if its line is where the line of the old one has gone. If that line is in a part that was replaced, it may
// be anywhere in the new part. And what is left may have been moved with code, between parts that were replaced.
func added(old, now []problem, before, after string) (out []problem) {
	hunks := hunksOf(before, after)
	origins := make([]origin, len(old))
	for i, o := range old {
		origins[i] = originOf(hunks, o)
	}
	take := func(same func(origin) bool) bool {
		i := slices.IndexFunc(origins, same)
		if i >= 0 {
			origins = slices.Delete(origins, i, i+1)
		}
		return i >= 0
	}
	out = slices.DeleteFunc(slices.Clone(now), func(p problem) bool {
		key := p.key()
		return take(func(o origin) bool { return o.key == key && o.first <= p.line && p.line < o.end })
	})
	return slices.DeleteFunc(out, func(p problem) bool {
		key := p.key()
		return slices.ContainsFunc(hunks, func(h hunk) bool { return h.now <= p.line && p.line < h.nowEnd }) &&
			take(func(o origin) bool { return o.key == key && o.replaced })
	})
}

// A hunk is a part that differs between two texts: its lines in both, and the first behind it.
type hunk struct{ old, oldEnd, now, nowEnd int }

// An origin is an older problem with the lines that its line has become, from first to before end.
type origin struct {
	key        string // of the problem
	first, end int
	replaced   bool
}

// hunksOf returns what differs between two texts.
func hunksOf(before, after string) (hunks []hunk) {
	for _, h := range diff3.Diff(view.Bytes(before), view.Bytes(after)).Changes() {
		hunks = append(hunks, hunk{h.OldLine, h.OldLine + runes.Lines(h.Old), h.NewLine, h.NewLine + runes.Lines(h.New)})
	}
	return hunks
}

// position matches places in a message, which move with the text.
var position = late.Regexp(`(?:line |:)[0-9]+(?::[0-9]+)?`)

// key is what two mentions of the same problem have in common.
func (p problem) key() string { return position().ReplaceAllString(p.text, ":0") }

func originOf(hunks []hunk, o problem) origin {
	shift := 0
	for _, h := range hunks {
		if o.line < h.old {
			break
		}
		if o.line < h.oldEnd {
			return origin{o.key(), h.now, h.nowEnd, true}
		}
		shift = h.nowEnd - h.oldEnd
	}
	return origin{o.key(), o.line + shift, o.line + shift + 1, false}
}

// absolute returns the path of a file for a server.
func (c *Client) absolute(name string) string {
	root, rest := c.rootOf(name)
	return filepath.Join(root, filepath.FromSlash(rest))
}
