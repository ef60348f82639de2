package remote

import (
	"context"
	"errors"
	"io/fs"
	"math"
	"path"
	"slices"
	"strings"

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
	opOpenFiles
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
var maxAnswer = [opEnd]int{opOpenFiles: maxSmall + maxBatch, opReadDir: maxListing, opTree: maxListing, opApply: maxResult}

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
	maxName     = 16 << 10 // bytes of a path: more than any system has
	maxText     = 8 << 10  // bytes of an error
	maxEntries  = 200_000  // of a directory
	maxEnviron  = 256 << 10
	maxVars     = 10_000
	maxNotes    = 16
	maxSidecars = 256 // of a file: more than there are tries to write it
)

// hello is the first message of the server.
type hello struct {
	dir, real string
	environ   []string
}

func (h *hello) code(c *coder) {
	str(c, &h.dir, maxName)
	str(c, &h.real, maxName)
	list(c, &h.environ, maxVars, func(s *string) { str(c, s, maxEnviron) })
}

// fileMeta describes an open file.
type fileMeta struct {
	size, modified int64
	mode           fs.FileMode
}

func (m *fileMeta) code(c *coder) {
	integer(c, &m.size, math.MaxInt64)
	integer(c, &m.modified, math.MaxInt64)
	if integer(c, &m.mode, math.MaxUint32); !m.mode.IsRegular() {
		c.fail()
	}
}

// entry implements [fs.DirEntry].
type entry struct {
	name string
	mode fs.FileMode
}

func (e entry) Name() string      { return e.name }
func (e entry) IsDir() bool       { return e.mode.IsDir() }
func (e entry) Type() fs.FileMode { return e.mode }
func (e entry) String() string    { return fs.FormatDirEntry(e) }

// Info implements [fs.DirEntry]. It is not supported: see [tools.FS].
func (e entry) Info() (fs.FileInfo, error) {
	return nil, &fs.PathError{Op: "stat", Path: e.name, Err: errors.ErrUnsupported}
}

func (e *entry) code(c *coder) {
	str(c, &e.name, maxName)
	if integer(c, &e.mode, math.MaxUint32); c.decoding && (e.mode&^fs.ModeType != 0 || !validName(e.name)) {
		c.fail()
	}
}

// validName reports whether a name can be that of an entry of a directory.
func validName(name string) bool {
	return name != "" && name != "." && name != ".." && !strings.ContainsAny(name, "/\x00")
}

// entries codes a listing of at most that many entries, which must be in order.
func entries(c *coder, all *[]entry, most int) {
	list(c, all, max(most, 0), func(e *entry) { e.code(c) })
	for i := 1; c.decoding && i < len(*all); i++ {
		if (*all)[i-1].name >= (*all)[i].name {
			c.fail()
			*all = nil
		}
	}
}

// tree is what a walk needs: the listings of directories, and the ignore files. An ignore file that
// does not exist is absent.
type tree struct {
	dirs    []treeDir
	ignores []treeFile
}

type treeDir struct {
	path    string
	entries []entry
}

type treeFile struct {
	path    string
	absent  bool
	content []byte
}

func (t *tree) code(c *coder) {
	left := maxTreeEntries
	list(c, &t.dirs, maxTreeEntries, func(d *treeDir) {
		str(c, &d.path, maxName)
		entries(c, &d.entries, left)
		left -= len(d.entries) + 1
	})
	list(c, &t.ignores, maxEntries, func(f *treeFile) {
		str(c, &f.path, maxName)
		c.flag(&f.absent)
		c.bytes(&f.content)
	})
}

// request is what a call asks for. Of the fields, it has those of its op.
type request struct {
	op       op
	name     string
	ignored  []byte   // opTree: patterns
	names    []string // opOpenFiles
	file     uint32   // opRead: the call that has opened it
	size     uint64   // opRead: how much of it
	files    []edit.File
	settings workspace.ApplySettings
	command  tools.ExecCommand // without the directory of the workspace, which the server knows
}

func (r *request) code(c *coder) {
	switch r.op {
	case opRead:
		integer(c, &r.file, math.MaxUint32)
		c.num(&r.size, maxChunk)
	case opOpenFiles:
		list(c, &r.names, maxSmall, func(s *string) { name(c, s) })
	case opApply:
		str(c, &r.settings.Approved, maxText)
		c.flag(&r.settings.WrittenConflicts)
		integer(c, &r.settings.WriterWait, math.MaxInt64)
		list(c, &r.files, math.MaxUint16, func(f *edit.File) { planned(c, f) })
	case opRun:
		str(c, &r.command.Script, maxSmall)
		str(c, &r.command.Dir, maxSmall)
		c.flag(&r.command.Network)
		c.flag(&r.command.ReadOnly)
		str(c, &r.command.Approved, maxText)
		list(c, &r.command.Env, maxSmall, func(s *string) { str(c, s, maxSmall) })
	case opAbout:
	default:
		if name(c, &r.name); r.op == opTree {
			c.bytes(&r.ignored)
		}
	}
}

// name codes a name that is asked for. One that is too long for any system is cut: it stays too long.
func name(c *coder, v *string) {
	if c.decoding {
		str(c, v, maxName)
		return
	}
	short := cut(*v, maxName)
	str(c, &short, maxName)
}

// texts returns the texts of a plan, which an answer may repeat.
func (r *request) texts() (all []string) {
	for _, f := range r.files {
		all = append(all, f.Base, f.Proposed)
	}
	return all
}

// ending codes the result of a command.
func ending(c *coder, r *tools.ExecResult) {
	code := uint64(r.Code + 1) // -1 is that of a signal
	c.num(&code, math.MaxUint32)
	r.Code = int(code) - 1
	str(c, &r.Signal, maxText)
	str(c, &r.Dir, maxName)
	integer(c, &r.Survivors, math.MaxInt32)
	c.flag(&r.Held)
	c.flag(&r.ReadOnly)
	list(c, &r.Notes, maxNotes, func(s *string) { str(c, s, maxText) })
}

func planned(c *coder, f *edit.File) {
	str(c, &f.Path, maxName)
	str(c, &f.Kind, maxName)
	c.text(&f.Base)
	c.text(&f.Proposed)
	integer(c, &f.Mode, math.MaxUint32)
	c.text(&f.Memo)
}

// changed codes what became of a file. The result of a merge follows from its three texts, and the changes
// of the user from the plan and the content.
func changed(c *coder, r *edit.FileResult) {
	str(c, &r.Path, maxName)
	str(c, &r.Kind, maxName)
	str(c, &r.Outcome, maxName)
	str(c, &r.Reason, maxText)
	c.flag(&r.Written)
	c.flag(&r.Exists)
	c.text(&r.Content)
	c.text(&r.Base)
	c.text(&r.Ours)
	c.text(&r.Theirs)
	list(c, &r.Sidecars, maxSidecars, func(s *string) { str(c, s, maxName) })
	c.flag(&r.OtherNames)
	merged, undo, user := r.Merge != nil, r.Undo != nil, len(r.UserChanges) > 0
	c.flag(&merged)
	c.flag(&undo)
	c.flag(&user)
	if i := slices.IndexFunc(c.plan, func(f edit.File) bool { return f.Path == r.Path }); c.decoding && user && i >= 0 {
		for _, l := range diff3.Diff([]byte(c.plan[i].Proposed), []byte(r.Content)).Changes() {
			r.UserChanges = append(r.UserChanges, edit.LineChange(l))
		}
	}
	if c.decoding && merged && !c.failed {
		m := merge.Merge([]byte(r.Base), []byte(r.Ours), []byte(r.Theirs), c.merge...)
		r.Merge = &m
	}
	if c.decoding && undo {
		r.Undo = new(edit.File)
	}
	if undo {
		planned(c, r.Undo)
	}
}

// changes codes what became of the files of a plan, or of some of them.
func changes(c *coder, all *[]edit.FileResult) {
	list(c, all, len(c.plan), func(r *edit.FileResult) { changed(c, r) })
}

// failure is an error on the way. Class says of which type it is.
type failure struct {
	class       byte
	op, path    string
	kind        workspace.ErrorKind
	text        string
	files       []edit.FileResult
	used, limit int64
}

const (
	noFailure = iota
	failedFile
	failedConflict
	failedDir
	failedCancelled
	failedMemory
	failedApproval
	failedOther
	failedEnd
)

// failureOf describes an error. All of them reach the model in some form, so the text is bounded.
func failureOf(err error) failure {
	if err == nil {
		return failure{}
	}
	f := failure{class: failedOther, text: err.Error()}
	if e, ok := errors.AsType[*workspace.Error](err); ok {
		f.class, f.op, f.path, f.kind, f.text = failedFile, e.Op, e.Path, e.Kind, e.Err.Error()
	} else if e, ok := errors.AsType[*edit.ConflictError](err); ok {
		f.class, f.files = failedConflict, e.Files
	} else if e, ok := errors.AsType[*proc.MemoryError](err); ok {
		f.class, f.used, f.limit = failedMemory, e.Used, e.Limit
	} else if errors.Is(err, tools.ErrExecDir) {
		f.class = failedDir
	} else if errors.Is(err, tools.ErrNotApproved) {
		f.class = failedApproval
	} else if errors.Is(err, errCancelled) || errors.Is(err, context.Canceled) {
		f.class = failedCancelled
	}
	f.op, f.path, f.text = cut(f.op, maxText), cut(f.path, maxName), cut(f.text, maxText)
	return f
}

func cut(s string, most int) string { return s[:min(len(s), most)] }

func (f *failure) code(c *coder) {
	class := uint64(f.class)
	c.num(&class, failedEnd-1)
	f.class = byte(class)
	switch f.class {
	case noFailure:
		return
	case failedFile:
		str(c, &f.op, maxText)
		str(c, &f.path, maxName)
		if str(c, &f.kind, maxText); c.decoding && !word(f.kind) {
			f.kind = workspace.KindIO
		}
	case failedConflict:
		changes(c, &f.files)
	case failedMemory:
		integer(c, &f.used, math.MaxInt64)
		integer(c, &f.limit, math.MaxInt64)
	}
	str(c, &f.text, maxText)
}

var errCancelled = errors.New("the call was cancelled")

// error returns the error, or nil.
func (f *failure) error() error {
	switch f.class {
	case noFailure:
		return nil
	case failedFile:
		return &workspace.Error{Op: f.op, Path: f.path, Kind: f.kind, Err: &foreign{f.text, sentinel(f.kind)}}
	case failedConflict:
		return &edit.ConflictError{Files: f.files}
	case failedMemory:
		return &proc.MemoryError{Used: f.used, Limit: f.limit}
	case failedDir:
		return &foreign{f.text, tools.ErrExecDir}
	case failedApproval:
		return &foreign{f.text, tools.ErrNotApproved}
	case failedCancelled:
		return &foreign{f.text, errCancelled}
	}
	return &foreign{f.text, nil}
}

// checkChanges returns an error unless the results can be those of the edits: of all, or of some if
// the plan was refused.
func checkChanges(plan []edit.File, results []edit.FileResult, all bool, rel func(string) (string, error)) error {
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
	switch o {
	case edit.OutcomeApplied, edit.OutcomeMerged, edit.OutcomeUnchanged, edit.OutcomeConflicted,
		edit.OutcomeGone, edit.OutcomeKindChanged, edit.OutcomeBusy, edit.OutcomeSkipped:
		return true
	}
	return false
}
