package remote

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/aycoder/aycoder/edit"
	"github.com/aycoder/aycoder/internal/diff3"
	"github.com/aycoder/aycoder/internal/proc"
	"github.com/aycoder/aycoder/merge"
	"github.com/aycoder/aycoder/tools"
	"github.com/aycoder/aycoder/workspace"
	"golang.org/x/sync/semaphore"
)

// op is what a request asks for. It is the first byte of the request; the first thing in an answer
// is a failure.
type op byte

const (
	opOpen op = iota + 1
	opRead
	opReadDir
	opTree
	opWritable
	opApply
	opRun
	opAbout
	opEnd
)

// effect reports whether a request may change something.
func (o op) effect() bool { return o == opApply || o == opRun }

// maxAnswer has the ops of which the answer may be longer than maxSmall.
var maxAnswer = [opEnd]int{opOpen: maxSmall + maxBatch, opReadDir: maxListing, opTree: maxListing, opApply: maxResult}

// slots are how many calls of each kind a side carries out, or waits for, at a time.
type slots [opEnd]*semaphore.Weighted

func newSlots() (s slots) {
	files := semaphore.NewWeighted(maxCalls)
	for i := range s {
		s[i] = files
	}
	s[opApply], s[opRun] = semaphore.NewWeighted(1), semaphore.NewWeighted(maxCommands)
	return s
}

const (
	maxPath    = 16 << 10 // bytes of a path in an error: more than any system has
	maxText    = 8 << 10  // bytes of an error
	maxEntries = 200_000  // of a directory
	maxVars    = 10_000   // of the environment
	maxNotes   = 16
)

// hello is the first message of the server.
type hello struct {
	Dir, Real string
	Environ   []string
}

func (h *hello) valid() bool {
	return len(h.Environ) <= maxVars && !slices.ContainsFunc(h.Environ, func(v string) bool {
		return strings.ContainsRune(v, 0) || !strings.Contains(v, "=")
	})
}

// opened is a file that was opened, or why it was not. If it has neither, it is to be opened alone.
type opened struct {
	Failure *failure
	File    *content
}

func (o *opened) valid() bool { return o.Failure == nil || o.Failure.Conflict == nil }

// content is a file with its beginning.
type content struct {
	Size, Modified int64
	Mode           fs.FileMode
	Data           []byte
	More           bool // there may be more, and the file stays open under the number of the call
}

func (f *content) valid() bool { return f.Size >= 0 && f.Mode.IsRegular() }

// entry is an entry of a directory. It implements [fs.DirEntry].
type entry struct {
	Base string
	Mode fs.FileMode
}

func (e entry) Name() string      { return e.Base }
func (e entry) IsDir() bool       { return e.Mode.IsDir() }
func (e entry) Type() fs.FileMode { return e.Mode }
func (e entry) String() string    { return fs.FormatDirEntry(e) }

// Info implements [fs.DirEntry]. It is not supported: see [tools.FS].
func (e entry) Info() (fs.FileInfo, error) {
	return nil, &fs.PathError{Op: "stat", Path: e.Base, Err: errors.ErrUnsupported}
}

// listing has the entries of a directory in order.
type listing []entry

func (l *listing) valid() bool {
	before := ""
	for _, e := range *l {
		if e.Base <= before || e.Base == "." || e.Base == ".." || strings.ContainsAny(e.Base, "/\x00") || e.Mode&^fs.ModeType != 0 {
			return false
		}
		before = e.Base
	}
	return true
}

// tree is what a walk needs: the listings of directories, and the ignore files. An ignore file that
// does not exist is absent.
type tree struct {
	Dirs    []treeDir
	Ignores []treeFile
}

type treeDir struct {
	Path    string
	Entries listing
}

type treeFile struct {
	Path   string
	Absent bool
	Data   []byte
}

// request is what a call asks for. The fields that are not of its op are empty.
type request struct {
	op      op
	Name    string
	Ignored []byte   // opTree: patterns
	Names   []string // opOpen
	File    uint32   // opRead: the call that has opened it
	Size    int64    // opRead: how much of it
	Files   []edit.File
	Command tools.ExecCommand // its root is the directory of the workspace, which the server knows

	Approved         string // opApply: the settings
	WrittenConflicts bool
	WriterWait       time.Duration
	merge            []merge.Option // is not sent
}

func (r *request) valid() bool { return r.Size >= 0 && r.Size <= maxChunk }

// texts returns the texts of a plan, which an answer may repeat.
func (r *request) texts() (all []string) {
	for _, f := range r.Files {
		all = append(all, f.Base, f.Proposed)
	}
	return all
}

// ended is the result of a command.
type ended struct{ tools.ExecResult }

func (r *ended) valid() bool {
	return (r.Dir == "" || filepath.IsAbs(r.Dir)) && len(r.Dir) <= maxPath && len(r.Signal) <= maxText && r.Survivors >= 0 &&
		len(r.Notes) <= maxNotes &&
		!slices.ContainsFunc(r.Notes, func(n string) bool { return len(n) > maxText })
}

// changed says what became of a file. The result of a merge follows from its three texts, and the changes of the
// user from the plan and the content, so neither is sent.
type changed struct {
	edit.FileResult
	Merged, User bool
}

// applied is the result of a plan.
type applied struct{ Files []changed }

func (c *changed) valid() bool {
	return len(c.Reason) <= maxText && !slices.ContainsFunc(c.Sidecars, func(s string) bool { return len(s) > maxPath })
}

func changedOf(all []edit.FileResult) []changed {
	out := make([]changed, len(all))
	for i, r := range all {
		out[i] = changed{r, r.Merge != nil, len(r.UserChanges) > 0}
		out[i].Merge, out[i].UserChanges = nil, nil
	}
	return out
}

// results returns what became of the files of the plan, or of some of them.
func (r *request) results(all []changed) (out []edit.FileResult) {
	for _, c := range all {
		c.Merge, c.UserChanges = nil, nil
		if i := slices.IndexFunc(r.Files, func(f edit.File) bool { return f.Path == c.Path }); c.User && i >= 0 {
			for _, l := range diff3.Diff([]byte(r.Files[i].Proposed), []byte(c.Content)).Changes() {
				c.UserChanges = append(c.UserChanges, edit.LineChange(l))
			}
		}
		if c.Merged {
			m := merge.Merge([]byte(c.Base), []byte(c.Ours), []byte(c.Theirs), r.merge...)
			c.Merge = &m
		}
		out = append(out, c.FileResult)
	}
	return out
}

// failure is an error on the way. It has one of the first three, or is an error of which only the text is known.
type failure struct {
	File     *workspace.Error // but for its cause, which is the text
	Conflict *applied
	Memory   *proc.MemoryError
	Text     string
	Is       int // the index in sentinels, or -1
}

// sentinels are the errors that remain what they are.
var sentinels = []error{errCancelled, fs.ErrNotExist, fs.ErrPermission, tools.ErrExecDir, tools.ErrNotApproved}

var errCancelled = errors.New("the call was cancelled")

// failureOf describes an error. All of them reach the model in some form, so the text is bounded.
func failureOf(err error) *failure {
	if err == nil {
		return nil
	}
	f := &failure{Is: slices.IndexFunc(sentinels, func(s error) bool { return errors.Is(err, s) })}
	if e, ok := errors.AsType[*workspace.Error](err); ok {
		f.File, err = &workspace.Error{Op: cut(e.Op, maxText), Path: cut(e.Path, maxPath), Kind: e.Kind}, e.Err
	} else if e, ok := errors.AsType[*edit.ConflictError](err); ok {
		f.Conflict = &applied{changedOf(e.Files)}
	} else if f.Memory, ok = errors.AsType[*proc.MemoryError](err); !ok && errors.Is(err, context.Canceled) {
		f.Is = 0
	}
	f.Text = cut(err.Error(), maxText)
	return f
}

func cut(s string, most int) string { return s[:min(len(s), most)] }

func (f *failure) valid() bool {
	e := f.File
	return (e == nil || len(e.Op) <= maxText && len(e.Path) <= maxPath && len(e.Kind) <= maxText) && len(f.Text) <= maxText && f.Is >= -1 && f.Is < len(sentinels)
}

func (f *failure) cancelled() bool { return f.File == nil && f.Is == 0 }

// error returns the error of a request, or nil.
func (f *failure) error(r *request) error {
	if f == nil {
		return nil
	}
	cause := &foreign{text: f.Text}
	if f.Is >= 0 {
		cause.is = sentinels[f.Is]
	}
	switch {
	case f.File != nil:
		if f.File.Err = cause; !word(f.File.Kind) {
			f.File.Kind = workspace.KindIO
		}
		return f.File
	case f.Conflict != nil:
		return &edit.ConflictError{Files: r.results(f.Conflict.Files)}
	case f.Memory != nil:
		return f.Memory
	}
	return cause
}

// checkChanges returns an error unless the results can be those of the edits: of all, or of some if
// the plan was refused.
func checkChanges(plan []edit.File, results []changed, all bool, rel func(string) (string, error)) error {
	if all && len(results) != len(plan) || len(results) > len(plan) {
		return protocolError("results of %d files for a plan of %d", len(results), len(plan))
	}
	for i, next := 0, 0; i < len(results); i++ {
		r := &results[i]
		for next < len(plan) && plan[next].Path != r.Path {
			next++
		}
		if next == len(plan) || all && next != i || plan[next].Kind != r.Kind || !validOutcome(r.Outcome) {
			return protocolError("a result that is of no file of the plan")
		}
		names := r.Sidecars
		if r.Undo != nil && r.Undo.Path != r.Path {
			if r.Kind != edit.Create || r.Undo.Kind != edit.Delete {
				return protocolError("a file to undo another")
			}
			names = append(names[:len(names):len(names)], r.Undo.Path) // what a link led to
		}
		for _, name := range names {
			if clean, err := rel(name); err != nil || clean != name || path.IsAbs(name) {
				return protocolError("a file outside of the workspace")
			}
		}
	}
	return nil
}

func validOutcome(o edit.Outcome) bool {
	return slices.Contains([]edit.Outcome{edit.OutcomeApplied, edit.OutcomeMerged, edit.OutcomeUnchanged, edit.OutcomeConflicted,
		edit.OutcomeGone, edit.OutcomeKindChanged, edit.OutcomeBusy, edit.OutcomeSkipped}, o)
}
