package workspace

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/edit"
)

// Before a plan is carried out, it is written to a record, a file of entries. The first entry
// holds the whole plan. Each later one replaces a part of it, after another program saved a
// file and the merge changed. An entry is a line of JSON followed by the raw texts of the files
// that it names, since escaping them would cost more than everything else. An entry without its
// end marker was never completed, so nothing was done for it. The writing process keeps a
// record locked: an unlocked record belongs to a process that has ended.
//
// A record in the workspace itself could have come with a repository or an archive. It is
// believed only if it has a mode that git never gives to a file, belongs to the user, and
// contains its own inode number.

const (
	recordVersion = 1
	maxRecord     = 8 * maxFile
	maxRecords    = 256 // at most this many are read
)

// recordStore is the directory of the records.
type recordStore struct {
	root   *os.Root
	prefix string // of their names, with the suffix
	end    string
	beside bool // the directory is the workspace itself
}

// WithPlanRecords sets the directory in which [Workspace.Apply] records a plan before carrying
// out the plan. If a crash interrupts Apply, the next [Open] with the same directory finds the
// plan: see [Workspace.Interrupted]. The directory is created if it is missing, and several
// workspaces may share it. Records hold the texts of the files, and only the user can read the
// records.
//
// Every record in this directory is trusted. Tools and commands of the workspace should therefore
// not be able to write to the directory.
//
// Default: the workspace itself. On Unix, a record there is trusted only if the user of this
// process created it there. Other systems cannot check that, so a record there is never trusted,
// and interrupted plans can be recovered only with this option.
func WithPlanRecords(dir string) Option {
	return func(w *Workspace) error {
		err := os.MkdirAll(dir, 0o700)
		if err == nil {
			w.records.root, err = os.OpenRoot(dir)
		}
		if err != nil {
			return &aycoder.ConfigError{Option: "WithPlanRecords", Err: err}
		}
		return nil
	}
}

// nameRecords chooses the names of records. In a shared directory they depend on the path of
// the workspace.
func (w *Workspace) nameRecords() {
	w.records.prefix, w.records.end = tempPrefix, tempEnd
	if w.records.root == nil {
		w.records.root, w.records.beside = w.first.root, true
		return
	}
	sum := sha256.Sum256([]byte(w.first.real))
	w.records.prefix += hex.EncodeToString(sum[:8]) + "-"
}

// sync flushes the directory, so that the names survive a loss of power.
func (s *recordStore) sync() error {
	dir, err := s.root.Open(".")
	if err != nil {
		return err
	}
	defer dir.Close()
	return (&target{lock: dir}).sync()
}

// ids returns the ids of the plans that have records.
func (s *recordStore) ids() []string {
	dir, err := s.root.Open(".")
	if err != nil {
		return nil
	}
	defer dir.Close()
	var all []string
	for len(all) < maxRecords {
		names, err := dir.Readdirnames(4096)
		for _, name := range names {
			id, ok := strings.CutPrefix(name, s.prefix)
			if id, end := strings.CutSuffix(id, s.end); ok && end && !strings.Contains(id, "-") {
				all = append(all, id)
			}
		}
		if err != nil {
			break
		}
	}
	return all
}

// planRecord is an open and locked record. A nil record ignores all calls.
type planRecord struct {
	recordStore
	id, name string
	file     *os.File
	durable  bool // each entry is flushed
	begun    recordBegin
	noting   sync.Mutex                 // as files are staged at the same time
	noted    map[recordKey][]recordFile // the recorded states of each file, newest last
	ended    bool
}

type recordKey struct {
	id    string
	index int
}

// Each line is one value, so that a record which was cut off by a crash is valid up to its
// last whole line.
type recordLine struct {
	Begin *recordBegin `json:"begin,omitempty"`
	Files []recordFile `json:"files,omitempty"`
	Done  bool         `json:"done,omitempty"`
}

// The inode tells a record that is still in its place from a copy of it.
type recordBegin struct {
	Version   int      `json:"version"`
	Workspace string   `json:"workspace"`
	Inode     uint64   `json:"inode,omitempty"` // of the record
	Created   []string `json:"created,omitempty"`
	// Roots are the directories of the further roots of its files, by name.
	Roots map[string]string `json:"roots,omitempty"`
	Files []recordFile      `json:"-"`
}

// recordFile holds the old and the new state of a file.
type recordFile struct {
	ID    string      `json:"id"`
	Index int         `json:"index"`
	Edit  edit.File   `json:"edit"`           // without its texts; its path has no symbolic links
	Sizes [2]int      `json:"sizes"`          // of the texts before and after, in bytes
	Was   fs.FileMode `json:"was,omitempty"`  // mode
	Link  string      `json:"link,omitempty"` // the target of a link that is deleted
	// Restore and Modes are those of the change. The other modes above are 0 then.
	Restore bool           `json:"restore,omitempty"`
	Modes   [2]fs.FileMode `json:"modes,omitzero"`
}

// recorded is what has to be known of a file to finish its change, or to take it back.
func (f *fileApply) recorded(id string, index int) recordFile {
	c := f.change()
	c.Path = f.final
	r := recordFile{ID: id, Index: index, Edit: c.File,
		Sizes: [2]int{len(c.Base), len(c.Proposed)}, Restore: c.restore}
	if c.restore {
		r.Modes = c.modes
	} else {
		r.Was, r.Link = f.found.mode.Perm(), f.found.link
	}
	return r
}

// change returns the change that turns the file as it was found into the one that is wanted.
func (f *fileApply) change() fileChange {
	c := fileChange{File: between(f.edit.Path, f.edit.Mode, f.found, f.want), restore: f.restore,
		modes: [2]fs.FileMode{f.found.mode, f.want.mode}}
	if f.restore {
		c.Mode = 0
	} else if c.Kind == edit.Create {
		c.Path = f.final // what undoes it must not delete a link that led there
	}
	return c
}

// change returns what was recorded as a change.
func (r recordFile) change() fileChange {
	c := fileChange{File: r.Edit, restore: r.Restore, modes: r.Modes}
	if !r.Restore {
		c.modes[0] = r.Was
	}
	return c
}

// A fileChange is an edit of a plan or, with restore set, a part of a [Restoration].
type fileChange struct {
	edit.File
	restore bool
	modes   [2]fs.FileMode // before and after, with types; for restore only
	key     recordKey      // in the record that has the change already, if any
	// permissions says that only the permissions of a directory are left to be set.
	permissions bool
}

func changesOf(plan edit.Plan) []fileChange {
	var all []fileChange
	for _, e := range plan.Files() {
		all = append(all, fileChange{File: e})
	}
	return all
}

// between returns the edit that turns found into want. Mode is that of a newly created file.
func between(name string, mode fs.FileMode, found, want fileState) edit.File {
	b := edit.File{Path: name, Kind: edit.Change, Base: found.text,
		Proposed: want.text}
	switch {
	case found.absent:
		b.Kind, b.Mode = edit.Create, mode
	case want.absent:
		b.Kind = edit.Delete
	}
	return b
}

// reverse returns the change that takes c back.
func reverse(c fileChange) fileChange {
	back := fileChange{restore: c.restore, modes: [2]fs.FileMode{c.modes[1], c.modes[0]},
		File: edit.File{Path: c.Path, Kind: c.Kind, Base: c.Proposed, Proposed: c.Base}}
	switch c.Kind {
	case edit.Create:
		back.Kind = edit.Delete
	case edit.Delete:
		back.Kind = edit.Create
		if !c.restore {
			back.Mode = c.modes[0].Perm()
		}
	}
	return back
}

// writeRecord records what a plan is about to do. For several files, the record must be on the
// disk before anything is exchanged. For one file, it only names the temporary files, so Apply
// continues if it cannot be written.
func (a *applier) writeRecord() error {
	begin := recordBegin{Created: a.created}
	for i, f := range a.files {
		if f.res.Outcome == "" {
			begin.Files = append(begin.Files, f.recorded(a.id, i))
		}
	}
	if len(begin.Files) == 0 {
		return nil
	}
	r, err := a.w.newRecord(a.id, begin)
	switch {
	case err == nil:
		a.record = r
	case r.durable || !errors.Is(err, fs.ErrPermission) && !errors.Is(err, errReadOnly):
		return r.failed(err)
	}
	return nil
}

// newRecord begins a record. Its names must be on the disk if there are several files.
func (w *Workspace) newRecord(id string, begin recordBegin) (*planRecord, error) {
	begin.Version, begin.Workspace, begin.Roots = recordVersion, w.first.real, w.rootsOf(begin.Files)
	r := &planRecord{recordStore: w.records, id: id, durable: len(begin.Files) > 1}
	err := errTaken
	for try := 0; try < maxTries && errors.Is(err, errTaken); try++ {
		err = r.begin(begin)
	}
	return r, err
}

// errTaken says that another process, looking for records, mistook an empty record for one
// whose process has ended.
var errTaken = errors.New("another process took it away")

func (r *planRecord) failed(err error) error {
	return wrapError("write down the plan in", r.root.Name(), err)
}

// begin writes the record before anything else is: a crash after it can be undone, one
// before it has done nothing.
func (r *planRecord) begin(begin recordBegin) (err error) {
	r.name = r.prefix + r.id + r.end
	// The sticky bit is one that git does not give to files.
	r.file, err = r.root.OpenFile(r.name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	info, err := r.file.Stat()
	if err == nil {
		begin.Inode = inode(info)
		if r.beside {
			err = r.file.Chmod(besideMode)
		}
	}
	if err == nil && !tryLock(r.file) {
		err = errTaken
	}
	if err == nil {
		err = r.write(recordLine{Begin: &begin}, begin.Files...)
	}
	if err == nil && r.durable {
		err = r.recordStore.sync()
	}
	if err == nil && !(&target{dir: r.root}).is(r.name, r.file) {
		err = errTaken
	}
	if err != nil {
		r.remove()
		return err
	}
	r.add(begin.Files...)
	return nil
}

// add keeps what was recorded of a file, which may be several versions.
func (r *planRecord) add(files ...recordFile) {
	if r.noted == nil {
		r.noted = map[recordKey][]recordFile{}
	}
	for _, f := range files {
		k := recordKey{f.ID, f.Index}
		r.noted[k] = append(r.noted[k], f)
	}
}

// write appends an entry.
func (r *planRecord) write(line recordLine, files ...recordFile) error {
	line.Files = slices.Clone(files)
	for i := range line.Files {
		line.Files[i].Edit.Base, line.Files[i].Edit.Proposed = "", ""
	}
	data, err := json.Marshal(line)
	texts := []string{string(data), "\n"}
	for i := range files {
		texts = append(texts, files[i].Edit.Base, files[i].Edit.Proposed)
	}
	for _, text := range append(texts, "\n") {
		if err == nil && text != "" {
			_, err = r.file.WriteString(text)
		}
	}
	if err == nil && r.durable {
		err = r.file.Sync()
	}
	return err
}

// note records the new text of a file, if it changed.
func (r *planRecord) note(id string, index int, f *fileApply) error {
	if r == nil {
		return nil
	}
	r.noting.Lock()
	defer r.noting.Unlock()
	now := f.recorded(id, index)
	if was := r.noted[recordKey{id, index}]; len(was) > 0 && was[len(was)-1] == now {
		return nil
	}
	r.add(now)
	if err := r.write(recordLine{}, now); err != nil {
		return r.failed(err)
	}
	return nil
}

// done records that only temporary files are left to be removed.
func (r *planRecord) done() {
	if r != nil {
		_ = r.write(recordLine{Done: true})
	}
}

// remove closes and removes the record.
func (r *planRecord) remove() {
	if r == nil {
		return
	}
	if !renamesOpen {
		r.file.Close()
	}
	_ = r.root.Remove(r.name)
	r.file.Close() // which also releases the lock
	if r.durable {
		_ = r.recordStore.sync()
	}
}

// openRecord opens and locks the record of a process that has ended. It returns nil if there is
// none, or if it is not trusted.
func (w *Workspace) openRecord(id string) *planRecord {
	r := &planRecord{recordStore: w.records, id: id, name: w.records.prefix + id + w.records.end,
		durable: true}
	info, err := r.root.Lstat(r.name)
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxRecord {
		return nil
	}
	if r.file, err = r.root.OpenFile(r.name, os.O_RDWR|os.O_APPEND|openFlags, 0); err != nil {
		return nil
	}
	if tryLock(r.file) && (&target{dir: r.root}).is(r.name, r.file) && r.believed(w) {
		return r
	}
	r.file.Close()
	return nil
}

// believed reads a record and reports whether this user wrote it in this place.
func (r *planRecord) believed(w *Workspace) bool {
	info, err := r.file.Stat()
	if err != nil || r.beside && info.Size() > 0 && !writtenHere(info) || !r.read() {
		return false
	}
	b := &r.begun
	return b.Version == 0 || // the process ended before it began
		b.Version == recordVersion && b.Workspace == w.first.real && (!r.beside || b.Inode == inode(info))
}

// read reads the complete entries, and truncates an incomplete one.
func (r *planRecord) read() bool {
	in := bufio.NewReader(io.LimitReader(r.file, maxRecord))
	size := int64(0)
	for {
		line, n, err := readEntry(in)
		if err != nil { // the rest is an incomplete entry
			return errors.Is(err, io.EOF) && r.file.Truncate(size) == nil
		}
		size += n
		if line.Begin != nil && r.begun.Version == 0 {
			r.begun = *line.Begin
			r.begun.Files = line.Files
		}
		r.add(line.Files...)
		r.ended = r.ended || line.Done
	}
}

// readEntry returns the next entry and its size in bytes. The error is [io.EOF] if its end is
// missing.
func readEntry(in *bufio.Reader) (line recordLine, size int64, err error) {
	data, err := in.ReadBytes('\n')
	if err == nil {
		size, err = int64(len(data)), json.Unmarshal(data, &line)
	}
	for i := range line.Files {
		f := &line.Files[i]
		for k, text := range []*string{&f.Edit.Base, &f.Edit.Proposed} {
			if n := f.Sizes[k]; err == nil && (n < 0 || n > maxFile) {
				err = errLarge
			} else if err == nil {
				var b strings.Builder
				_, err = io.CopyN(&b, in, int64(n))
				*text = b.String()
				size += int64(n)
			}
		}
	}
	if err == nil {
		_, err = in.ReadByte()
	}
	return line, size + 1, err
}
