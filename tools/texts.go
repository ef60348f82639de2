package tools

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/aycoder/aycoder/diff"
	"github.com/aycoder/aycoder/edit"
	"github.com/aycoder/aycoder/internal/diff3"
	"github.com/aycoder/aycoder/internal/editmatch"
	"github.com/aycoder/aycoder/internal/runes"
	"github.com/aycoder/aycoder/internal/view"
	"github.com/aycoder/aycoder/merge"
	"github.com/aycoder/aycoder/workspace"
)

// The texts that edits start from. They are read when a plan is made, together with the versions
// that the model was last shown of each file. A plan that was approved contains its texts and is
// not computed again.

const maxEdited = 8 << 20 // bytes of an edited file, before and after

// texts is the source of the files that are to be changed.
type texts struct {
	ws       FS
	resolves bool // somebody resolves conflicts when the plan is carried out
}

// textFile is a file that is to be changed.
type textFile struct {
	path   string // in the workspace
	exists bool
	text   string
	mode   fs.FileMode
	binary bool
	// Somebody resolves conflicts when the plan is carried out.
	resolves bool
	shown    []string // the versions that the model was shown, the newest first
	last     string   // the hash of the version that was last shown in whole, or ""
	seen     workspace.SeenBy
}

// open returns a file, even if none of that name exists.
func (d texts) open(ctx context.Context, name string) (*textFile, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	rel, err := d.ws.Rel(name)
	if err != nil {
		return nil, err
	}
	if w, ok := d.ws.(interface{ Writable(name string) error }); ok {
		if err := w.Writable(rel); err != nil {
			return nil, err
		}
	}
	seen := d.ws.Seen().For(ctx)
	f := &textFile{path: rel, shown: seen.Contents(rel), last: seen.Hash(rel), seen: seen, resolves: d.resolves}
	data, mode, err := read(d.ws, name)
	switch {
	case kindOf(err) == workspace.KindNotFound:
		return f, nil
	case err != nil:
		return nil, err
	}
	f.exists, f.text, f.mode = true, view.String(data), mode
	f.binary = runes.Binary(data)
	return f, nil
}

// read returns the content of a file, and its permissions.
func read(ws FS, name string) ([]byte, fs.FileMode, error) {
	f, err := ws.Open(name)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	data, err := readAll(f, maxEdited)
	switch {
	case err != nil:
		return nil, 0, fmt.Errorf("read %s: %w", showPath(name), err)
	case len(data) > maxEdited:
		return nil, 0, problemf("too_large",
			"%s is larger than %d MB; change it with bash", showPath(name), maxEdited>>20)
	}
	info, err := f.Stat()
	if err != nil {
		return nil, 0, fmt.Errorf("read %s: %w", showPath(name), err)
	}
	return data, info.Mode().Perm(), nil
}

// readAll returns the content of a file, or at least most+1 bytes of a larger one.
func readAll(f fs.File, most int) ([]byte, error) {
	size := 0
	if info, err := f.Stat(); err == nil {
		size = int(min(info.Size(), int64(most)))
	}
	// with room to detect the end of the file without growing
	b := bytes.NewBuffer(make([]byte, 0, size+bytes.MinRead))
	_, err := b.ReadFrom(io.LimitReader(f, int64(most)+1))
	return b.Bytes(), err
}

var errNoFile = errors.New("there is no such file")

// editable refuses a binary file: the model was not shown its bytes, so an edit could only damage
// it.
func (f *textFile) editable() error {
	if f.binary {
		return problemf("binary_file", "%s is a binary file; change it with bash", showPath(f.path))
	}
	return nil
}

// attempt applies the edits of a call to a text.
type attempt func(text string) (*edited, error)

// edited is the text after the edits.
type edited struct {
	text  string
	notes []note
	found [sha256.Size]byte // hash of the lines in which the edits matched
}

// propose applies edits to a file. It matches the edits in the current text and, if the model was
// shown a different version, in that version as well. If the edits do not match the current text
// any more, or match other lines or another place there, the result is the edited version that was shown, which is
// then merged into the file. If the edits do not match the version that was shown, they must
// match the current text exactly. An inexact match counts only in what the model still has before it:
// if requests leave out what it was shown, it guesses.
func (f *textFile) propose(try attempt) (*proposal, error) {
	now, err := try(f.text)
	for _, shown := range f.shown {
		then, shownErr := now, err
		if shown != f.text {
			then, shownErr = try(shown)
		}
		if (then.guess() != nil || now.guess() != nil) && !f.seen.InView(f.path, shown) {
			continue
		}
		switch {
		case shownErr == nil && (err != nil || now.found != then.found || !f.isThere(shown, then, now)):
			return f.stale(shown, then)
		case err == nil && kindOfProblem(shownErr) == "ambiguous_match":
			// One remaining match is not necessarily the one that was meant.
			return nil, problemf("ambiguous_match",
				"in the file as you read it, %s", shownErr.(*problem).text)
		case err == nil:
			return f.change(f.text, now)
		case kindOfProblem(shownErr) != "no_match":
			return nil, shownErr
		}
	}
	if err != nil {
		return nil, f.since(err)
	}
	if n := now.guess(); n != nil && (f.last != hashOf(f.text) || !f.seen.HashInView(f.path)) {
		return nil, f.unseen(n)
	}
	return f.change(f.text, now)
}

// isThere reports whether an edit of the current text is where the edit of the text that the model was shown belongs. Lines
// like those that the user has changed since can be in another place by now.
func (f *textFile) isThere(shown string, then, now *edited) bool {
	if shown == f.text {
		return true
	}
	m := merge.Merge([]byte(shown), []byte(f.text), []byte(then.text))
	for _, h := range diff3.Diff(view.Bytes(f.text), view.Bytes(now.text)).Hunks {
		if !slices.ContainsFunc(m.Regions, func(r merge.Region) bool {
			return r.Kind != merge.Unchanged && r.Kind != merge.Ours && r.Ours.FirstLine <= h.A0 && h.A1 <= r.Ours.EndLine
		}) {
			return false
		}
	}
	return true
}

// guess returns the note of an inexact match, or nil.
func (e *edited) guess() *note {
	if e != nil {
		for i := range e.notes {
			if e.notes[i].guessed {
				return &e.notes[i]
			}
		}
	}
	return nil
}

// unseen refuses an inexact edit of a file that the model was not shown: the place would
// be a guess.
func (f *textFile) unseen(n *note) error {
	why := "you have not been shown this file"
	switch {
	case f.last == hashOf(f.text) || slices.Contains(f.shown, f.text):
		why = "what you were shown of it is left out of this conversation now"
	case f.last != "" || len(f.shown) > 0:
		why = "it is in nothing that you were shown of this file"
	}
	lines := n.lines
	if lines != "" {
		lines = "The lines that come closest:\n" + lines
	}
	return problemf("no_match", "%sold_string does not occur in %s as it is, and %s. It is like lines %d-%d but for %s. "+
		"Nothing was changed. %sCopy the text from there without the line numbers, or read the file",
		n.Name, showPath(f.path), why, n.First, n.Last, n.Allowed, lines)
}

// kindOfProblem returns the kind of a problem, or "" for another error, which ends the call.
func kindOfProblem(err error) string {
	if p, ok := errors.AsType[*problem](err); ok {
		return p.kind
	}
	return ""
}

// create proposes a new file. The plan says that the file must not exist, so a file that the user
// creates meanwhile is not overwritten.
func (f *textFile) create(text string) (*proposal, error) {
	if len(text) > maxEdited {
		return nil, f.tooLong()
	}
	planned := edit.File{Path: f.path, Kind: edit.Create, Proposed: text}
	return &proposal{edits: []edit.File{planned}}, nil
}

// loses reports whether a text has more replacement characters than the base: such
// characters stand for bytes that cannot be shown.
func loses(base, text string) bool {
	const lost = "\uFFFD"
	return strings.Contains(text, lost) && strings.Count(text, lost) > strings.Count(base, lost) &&
		(strings.ContainsRune(base, 0) || EscapeInvisible(base) != base)
}

// tooLong returns the error for a text that is too large to be merged within bounds of time and
// memory.
func (f *textFile) tooLong() error {
	return problemf("too_large",
		"%s would get longer than %d MB; change it with bash", showPath(f.path), maxEdited>>20)
}

// change proposes an edited text.
func (f *textFile) change(base string, e *edited) (*proposal, error) {
	switch {
	case len(e.text) > maxEdited:
		return nil, f.tooLong()
	case e.text == base:
		return nil, problemf("no_change",
			"%s is so already, so there is nothing to do", showPath(f.path))
	case loses(base, e.text):
		return nil, problemf("binary_file", "%s has bytes or characters that you were shown as \uFFFD, and this would put "+
			"\uFFFD in their place; change only what is beside them with edit_file, or use bash", showPath(f.path))
	}
	planned := edit.File{Path: f.path, Kind: edit.Change, Base: base, Proposed: e.text}
	for i := range e.notes {
		e.notes[i].path = f.path
	}
	return &proposal{[]edit.File{planned}, e.notes}, nil
}

// stale proposes an edited version of the text that the model was shown. If it does not
// merge, the call fails before the user is asked.
func (f *textFile) stale(shown string, e *edited) (*proposal, error) {
	m := merge.Merge([]byte(shown), []byte(f.text), []byte(e.text))
	switch {
	case m.Clean() && string(m.Bytes()) == f.text:
		return nil, problemf("no_change", "%s has this change already: the user made it since you read the file",
			showPath(f.path))
	case m.Clean() || f.resolves && !m.Binary:
		return f.change(shown, e)
	}
	r := edit.FileResult{
		Path: f.path, Kind: edit.Change, Outcome: edit.OutcomeConflicted, Reason: conflictReason(m),
		Content: f.text, Exists: true, Base: shown, Ours: f.text, Theirs: e.text, Merge: &m,
	}
	return nil, &edit.ConflictError{Files: []edit.FileResult{r}}
}

// conflictReason says where the first conflict is, so that the model can read just these lines.
func conflictReason(m merge.Result) string {
	for _, g := range m.Regions {
		if g.Kind == merge.Conflict {
			return fmt.Sprintf("the user changed the same lines (conflicts: %d, the first in line %d)",
				m.Conflicts(), g.Ours.FirstLine+1)
		}
	}
	return "does not merge"
}

const maxSince = 1500 // bytes

// since adds to an error how the file has changed since the model was shown it. The model can
// then correct the edit without reading the whole file again.
func (f *textFile) since(err error) error {
	p, ok := errors.AsType[*problem](err)
	switch {
	case !ok || p.kind != "no_match" || slices.Contains(f.shown, f.text):
		return err
	case len(f.shown) == 0 && (f.last == "" || f.last == hashOf(f.text)):
		return err
	case len(f.shown) == 0:
		return problemf("stale",
			"%s has changed since you read it; read it again\n%s", showPath(f.path), p.text)
	}
	d := diff.Compare([]byte(f.shown[0]), []byte(f.text), diff.WithNames(f.path, f.path),
		diff.WithContext(1))
	return problemf("no_match",
		"%s\n%s has changed since you read it:\n%s", p.text, showPath(f.path), d.Brief(maxSince))
}

// hashOf returns a hash in the form of [workspace.SeenFiles.Hash].
func hashOf(text string) string {
	sum := sha256.Sum256(view.Bytes(text))
	return hex.EncodeToString(sum[:])
}

// refusal converts an error of the matching to a problem.
func refusal(err error, name string) error {
	e, ok := errors.AsType[*editmatch.Error](err)
	if !ok {
		return err
	}
	return problemf(kindOfRefusal(e.Kind), "%s%s", name, e.Error())
}

// kindOfRefusal returns the word with which the error for the model begins.
func kindOfRefusal(k editmatch.Kind) string {
	switch k {
	case editmatch.Ambiguous:
		return "ambiguous_match"
	case editmatch.NoChange:
		return "no_change"
	case editmatch.EmptyOld:
		return "invalid_arguments"
	case editmatch.TooLarge:
		return "too_large"
	}
	return "no_match"
}

// lineHash collects the lines in which edits matched.
type lineHash struct{ all []byte }

// add adds the lines of places in a text, whose line numbers are 1-based.
func (h *lineHash) add(text string, places []editmatch.Place) {
	sum := sha256.New()
	line, last := 1, editmatch.Place{}
	for _, p := range places {
		if p == last {
			continue // several places in one line
		}
		for last = p; line < p.FirstLine; line++ {
			text = afterLine(text)
		}
		rest := text
		for n := p.FirstLine; n <= p.LastLine; n++ {
			rest = afterLine(rest)
		}
		io.WriteString(sum, text[:len(text)-len(rest)])
	}
	h.all = sum.Sum(h.all)
}

func (h *lineHash) sum() [sha256.Size]byte { return sha256.Sum256(h.all) }

func afterLine(text string) string {
	_, rest, _ := strings.Cut(text, "\n")
	return rest
}
