package workspace

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/aycoder/aycoder/edit"
)

// Apply carries out an approved plan, either completely or not at all.
//
// Apply reads each file again and merges it with [merge.Merge]. The base of the merge is the text
// that the model was shown, ours is the text now in the file, and theirs is the proposed text. If
// all files merge, Apply writes the new files next to the old ones, flushes them to disk, and
// exchanges them with the old ones. If another program saves a file during this work, Apply reads
// and merges that file again. If the program saves the file at the very moment of the exchange,
// Apply reverses the exchange before it reads the file.
//
// If a file does not merge, or is now a directory or a symbolic link, Apply leaves that file
// alone and takes back the rest of the plan. The error is then an [*edit.ConflictError], and
// the result gives the reason. After a disk error, or if ctx ends, Apply takes back the whole
// plan. The result is nil only if Apply returned before it began the plan.
//
// Apply guarantees the following, whatever other programs do at the same time:
//
//   - A text that another program saved before Apply returns is in the file afterwards, unless a
//     program has overwritten that text. If two programs save the same file at the moment of the
//     exchange, and their texts do not merge, one of the two texts is in a separate file next to
//     it. The result names the separate file.
//   - The result describes the files as Apply left them: see [edit.FileResult]. Its field
//     Content is the text that Apply read last. If Written is false, Content does not contain the
//     change of the plan. If Written is true, Apply made the change. Content still differs from
//     the proposed text if other programs have saved the file before or after, and UserChanges
//     lists the differences.
//   - On Linux, leases (fcntl(2)) on the old and the new file keep writers out. From before the
//     exchange until Apply returns, a program that opens one of these files for writing has to
//     wait. If a program keeps a file open for writing for longer than [WithWriterWait] allows,
//     the outcome is [edit.OutcomeBusy]. During the exchange itself, a program that opens the
//     new file for reading has to wait too, or gets EAGAIN if it uses O_NONBLOCK. The reason is
//     that Apply may reverse the exchange if the old file was just saved, and no program should
//     read a new file that lacks the saved text. Leases do not cover one case: a program looks up
//     the name before the exchange, is suspended by the kernel, and opens the old file only after
//     Apply has returned.
//   - A crash at any moment, including kill -9 and loss of power, leaves each file either old or
//     new, never a mix of both. If a crash leaves a plan of several files half done, the next
//     [Open] finds that plan: see [Workspace.Interrupted] and [WithPlanRecords]. Open removes the
//     temporary files of plans that were completed or never begun.
//   - No file outside the workspace is touched, even if other programs rename files or
//     directories meanwhile.
//
// The guarantees are weaker in these cases:
//
//   - Leases are missing on systems other than Linux, on network file systems, and for files of
//     other owners if the process lacks CAP_LEASE. Instead, Apply reads the old file until two
//     reads in a row agree, and once more at the end. If a program opened the old file before the
//     exchange and writes to it after that last read, the written text is lost.
//   - Leases do not hold back a program that renames a new file over the name. The new file
//     replaces the file that Apply wrote, as if the program had saved after Apply.
//   - Systems other than Linux, and some file systems, cannot exchange two files atomically.
//     There, the old file gets a second name and is then replaced. A file that another program
//     renames to the name between these two steps is lost. Without hard links, the old file is
//     renamed first, so a crash can leave it under a temporary name.
//   - On Windows, a file that is open in another program cannot be replaced, and Apply returns an
//     error.
//
// A changed file keeps its mode. If the process has the rights, the file also keeps its owner
// and, on Linux, its extended attributes and access control lists. On other systems these
// attributes and lists are lost. If the owner changes, the file loses its setuid and setgid bits.
// File capabilities are always dropped with the old content. A symbolic link stays a link, and
// Apply changes the file that it leads to; but if the plan deletes a link, only the link is
// removed. Other hard links of a file keep the old content, since they may be outside the
// workspace; the result reports that such links exist. Apply locks the directories of the files,
// so that other Workspaces, including those of other processes, wait.
func (w *Workspace) Apply(ctx context.Context, plan edit.Plan, opts ...ApplyOption) (*edit.Result, error) {
	// One plan is carried out at a time. Two plans at once could exchange the same file, and each
	// would then mistake the other's text for one that the user saved.
	c, err := newApplyConfig(opts)
	if err != nil {
		return nil, fmt.Errorf("apply plan: %w", err)
	}
	if w.turn.Acquire(ctx, 1) != nil {
		return nil, context.Cause(ctx)
	}
	defer w.turn.Release(1)
	if c.approved != "" { // computing a digest takes as long as all the rest
		if d := plan.Digest(); c.approved != d {
			return nil, fmt.Errorf("apply plan: it is not the one that was approved: %s, not %s",
				d, c.approved)
		}
	}
	res, _, err := w.apply(ctx, changesOf(plan), c)
	return res, err
}

// apply carries out changes while the caller holds the turn. It also returns the changes that
// take back what was done.
func (w *Workspace) apply(
	ctx context.Context, changes []fileChange, c *applyConfig,
) (*edit.Result, []fileChange, error) {
	a := &applier{w: w, applyConfig: c, id: rand.Text()}
	for i, e := range changes {
		key := e.key
		if key.id == "" {
			key = recordKey{a.id, i}
		}
		f := &fileApply{applyConfig: c, edit: e.File, restore: e.restore, modes: e.modes,
			prefix: tempPrefix + key.id + "-" + strconv.Itoa(key.index) + "-"}
		f.note = func() error { return a.record.note(key.id, key.index, f) }
		f.res = edit.FileResult{Path: e.Path, Kind: e.Kind}
		a.files = append(a.files, f)
	}
	defer a.close()
	err := a.open(ctx)
	if err == nil {
		err = a.run(ctx)
	}
	err = a.finish(ctx, err)
	if cause := context.Cause(ctx); cause != nil && errors.Is(err, cause) {
		err = cause
	}
	var undo []fileChange
	for _, f := range a.files {
		if f.restore && f.res.Written {
			undo = append(undo, reverse(f.change()))
		}
	}
	return a.result(), undo, err
}

// applier carries out one plan.
type applier struct {
	*applyConfig
	w           *Workspace
	id          string    // part of the names of temporary files
	directories []*target // locked
	created     []string  // from the top
	files       []*fileApply
	within      time.Time // how long to wait for other writers
}

// open finds the directories and locks them in the order of their names. The common order keeps
// two processes from waiting for each other.
func (a *applier) open(ctx context.Context) error {
	for _, f := range a.files {
		if err := a.find(f); err != nil && !f.stopped(err) {
			return err
		}
	}
	sorted := slices.Clone(a.files)
	slices.SortStableFunc(sorted, func(x, y *fileApply) int {
		return cmp.Or(strings.Compare(path.Dir(a.w.abs(x.final)), path.Dir(a.w.abs(y.final))),
			strings.Compare(x.final, y.final))
	})
	for i, f := range sorted {
		if i > 0 && f.final != "" && f.final == sorted[i-1].final {
			return f.sameAs(sorted[i-1])
		}
		if f.res.Outcome != "" {
			continue
		}
		if err := a.place(ctx, f); err != nil && !f.stopped(err) {
			return err
		}
	}
	return noAliases(sorted)
}

// find resolves the name of a file. If a link is to be deleted, its name is that of the link
// itself: the file that it leads to stays.
func (a *applier) find(f *fileApply) (err error) {
	// A caller who asks for a recovery approves it, unless a command could have written the
	// record.
	approved := a.approved != "" || a.recovers && !a.record.beside
	if f.restore {
		if !a.restores { // Restore has asked for all files
			err = a.w.mayRestore(f.edit.Path, approved)
		}
		if err == nil {
			f.final, err = a.w.exactPath(f.edit)
		}
		return err
	}
	f.final, err = a.w.finalOf(f.edit, approved)
	if f.edit.Kind == edit.Delete {
		f.leadsTo = func() ([]byte, error) { return a.w.readLarge(f.final) }
	}
	return err
}

// finalOf returns the path of an edit with all symbolic links resolved.
func (w *Workspace) finalOf(e edit.File, approved bool) (string, error) {
	final, err := w.findWritable(e.Path, approved)
	if err != nil || e.Kind != edit.Delete {
		return final, err
	}
	rel, err := w.rel("write", e.Path)
	if err != nil {
		return "", err
	}
	parent, err := w.resolve("write", e.Path, path.Dir(rel))
	if err != nil {
		return "", err
	}
	final = path.Join(parent, path.Base(rel))
	return final, w.mayWriteResolved(e.Path, rel, final, approved)
}

// readLarge reads a file up to the size limit of a plan.
func (w *Workspace) readLarge(name string) ([]byte, error) {
	file, err := w.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = errLarge
	}
	return data, err
}

// Writable returns an error if no plan can write to a file of this name, even with an approval.
// Writable does not open the file: an error that depends on the file itself, such as missing
// permissions, is found only when the file is written.
func (w *Workspace) Writable(name string) error {
	_, err := w.findWritable(name, true)
	return err
}

// findWritable resolves the name of a file that may be written.
func (w *Workspace) findWritable(name string, approved bool) (final string, err error) {
	rel, err := w.rel("write", name)
	if err == nil {
		err = w.mayWrite(name, rel, approved)
	}
	if err != nil {
		return "", err
	}
	if final, err = w.resolve("write", name, rel); err != nil {
		return "", err
	}
	return final, w.mayWriteResolved(name, rel, final, approved)
}

// place opens the directory of a file. Files in the same directory share one target, since a
// second lock on it would wait for the first.
func (a *applier) place(ctx context.Context, f *fileApply) error {
	parent := path.Dir(f.final)
	for _, t := range a.directories {
		if t.name == parent {
			f.at = a.placeIn(t, f)
			return nil
		}
	}
	if f.edit.Kind == edit.Create {
		if err := a.makeDirectories(f.edit.Path, parent); err != nil {
			return err
		}
	}
	t, err := a.w.openParent(f.edit.Path, f.final)
	if err != nil {
		return err
	}
	if t.info, err = t.lock.Stat(); err != nil {
		t.close()
		return wrapError("write", f.edit.Path, err)
	}
	// On some file systems two names (such as "a" and "A") are the same directory.
	for _, other := range a.directories {
		if os.SameFile(t.info, other.info) {
			t.close()
			f.at = a.placeIn(other, f)
			return nil
		}
	}
	if err := a.w.lockTarget(ctx, t, f.final); err != nil {
		t.close()
		return err
	}
	f.at = a.placeIn(t, f)
	t.name = parent
	a.directories = append(a.directories, t)
	return nil
}

// placeIn returns the place of a file in a directory that is open, so that a directory
// which is moved meanwhile is still the one that was checked.
func (a *applier) placeIn(t *target, f *fileApply) place {
	return place{&target{dir: t.dir, lock: t.lock, name: path.Base(f.final), asked: f.edit.Path}, a.plain}
}

// makeDirectories creates the missing directories and records them, so that a plan that fails
// can remove them again.
func (a *applier) makeDirectories(name, parent string) error {
	var missing []string
	for p := parent; p != "."; p = path.Dir(p) {
		root, dir := a.w.file(p)
		if _, err := root.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		missing = append(missing, p)
	}
	slices.Reverse(missing)
	a.created = append(a.created, missing...)
	return a.w.makeDirectories(name, parent)
}

// removeDirectories removes the directories that the plan created, unless files are in them.
func (w *Workspace) removeDirectories(created []string) {
	for _, name := range slices.Backward(created) {
		root, dir := w.file(name)
		if info, err := root.Lstat(dir); err == nil && info.IsDir() {
			_ = root.Remove(dir)
		}
	}
}

// close lets go of what the plan held, after success and failure alike.
func (a *applier) close() {
	_ = several(a.files, together, func(f *fileApply) error { // the system removes files that are closed last
		f.close()
		return nil
	})
	for _, t := range a.directories {
		t.close()
	}
}

// run reads, merges and stages all files. Nothing is exchanged before every file has merged.
func (a *applier) run(ctx context.Context) error {
	a.within = time.Now().Add(a.wait)
	err := a.all(func(f *fileApply) error { return f.prepare(ctx) })
	if err = cmp.Or(err, a.conflict()); err != nil {
		return err
	}
	if !a.recovers {
		if err = a.writeRecord(); err != nil {
			return err
		}
	}
	if err = a.stage(ctx); err != nil {
		return err
	}
	a.within = time.Now().Add(a.wait)
	err = a.each(func(f *fileApply) error {
		if a.conflict() != nil {
			return nil
		}
		return f.reach(ctx)
	})
	quiet := false
	for try := 0; err == nil && a.conflict() == nil && !quiet && try < maxTries; try++ {
		quiet, err = a.look(ctx)
	}
	if err == nil {
		err = a.each(func(f *fileApply) error { return f.step("commit") })
	}
	return cmp.Or(err, context.Cause(ctx), a.conflict())
}

// look flushes the exchanged files, and reports whether nobody wrote to the files that were
// taken out.
func (a *applier) look(ctx context.Context) (quiet bool, err error) {
	if err := a.sync(); err != nil {
		return false, err
	}
	quiet = true
	err = a.each(func(f *fileApply) error {
		if err := f.step("look"); err != nil {
			return err
		}
		ok, err := f.look(ctx)
		quiet = quiet && ok
		return err
	})
	return quiet, err
}

// each calls do for each pending file, and stops at the first error that concerns the whole
// plan. An error that concerns one file only marks that file.
func (a *applier) each(do func(*fileApply) error) error {
	for _, f := range a.files {
		if err := a.one(f, do); err != nil {
			return err
		}
	}
	return nil
}

func (a *applier) one(f *fileApply, do func(*fileApply) error) error {
	if f.res.Outcome != "" {
		return nil
	}
	f.until = a.within
	if err := do(f); err != nil && !f.stopped(err) {
		return wrapError("write", f.edit.Path, err)
	}
	return nil
}

// stage writes and flushes the new files.
func (a *applier) stage(ctx context.Context) error {
	return a.all(func(f *fileApply) error {
		err := cmp.Or(context.Cause(ctx), f.stage(f.want, true))
		if err == nil && f.staged != nil && f.staged.file != nil {
			err = f.flush(f.staged)
		}
		return err
	})
}

// all is like each, for several files at once.
func (a *applier) all(do func(*fileApply) error) error {
	most := together
	if a.step != nil {
		most = 1 // a test acts between the steps
	}
	return several(a.files, most, func(f *fileApply) error { return a.one(f, do) })
}

// flush flushes a file.
func (f *fileApply) flush(h *held) error {
	if err := h.file.Sync(); err != nil {
		return wrapError("write", f.edit.Path, err)
	}
	return nil
}

// sync flushes the exchanged files and the directories with their names.
func (a *applier) sync() error {
	for _, f := range a.files {
		if f.unsynced && f.cur != nil && f.cur.file != nil {
			if err := f.flush(f.cur); err != nil {
				return err
			}
			f.unsynced = false
		}
	}
	return several(a.directories, together, (*target).sync)
}

// together is how many files are flushed at once: a file system then writes its journal fewer times.
const together = 8

// several calls do for most of a list at once, until one fails.
func several[T any](list []T, most int, do func(T) error) error {
	group, ctx := errgroup.WithContext(context.Background())
	group.SetLimit(most)
	for _, x := range list {
		group.Go(func() error {
			if ctx.Err() != nil {
				return nil // the error is there
			}
			return do(x)
		})
	}
	return group.Wait()
}

// finish takes everything back if the plan failed, and completes the result. It does so even
// after the end of ctx, since the files would otherwise stay half changed.
func (a *applier) finish(ctx context.Context, err error) error {
	ctx = context.WithoutCancel(ctx)
	until := time.Now().Add(a.wait)
	for _, f := range slices.Backward(a.files) {
		if f.until = until; err != nil && f.at.target != nil {
			f.undo(ctx)
		}
	}
	if err != nil {
		_ = a.sync()
	}
	if !a.recovers {
		a.record.done()
	}
	a.letGo(ctx, until)
	if err != nil {
		a.w.removeDirectories(a.created)
	}
	if !a.recovers {
		a.record.remove()
		a.record = nil
	}
	a.readLast(ctx, until)
	// A program that found an old file by its name before the exchange may open it only now.
	for try := 0; try < maxTries && slices.ContainsFunc(a.files, func(f *fileApply) bool { return len(f.loud()) > 0 }); try++ {
		until = time.Now().Add(a.wait)
		a.letGo(ctx, until)
		a.readLast(ctx, until)
	}
	for _, f := range a.files {
		f.finish(err != nil)
	}
	if _, ok := errors.AsType[*edit.ConflictError](err); ok {
		return a.conflict()
	}
	return err
}

// letGo removes the files that were taken out.
func (a *applier) letGo(ctx context.Context, until time.Time) {
	for _, f := range a.files {
		if f.until = until; f.at.target != nil {
			f.letGo(ctx)
		}
	}
}

// readLast reads the files for the result. One that another program is saving is waited for.
func (a *applier) readLast(ctx context.Context, until time.Time) {
	if a.step != nil {
		_ = a.step("last", "")
	}
	_ = several(a.files, together, func(f *fileApply) error {
		if f.until = until; f.at.target != nil {
			f.readLast(ctx)
		}
		return nil
	})
}

// conflict returns an error if any file stands in the way.
func (a *applier) conflict() error {
	var e edit.ConflictError
	for _, f := range a.files {
		if f.res.Stops() {
			e.Files = append(e.Files, f.res)
		}
	}
	if e.Files == nil {
		return nil
	}
	return &e
}

// result returns what became of each file, in the order of the plan.
func (a *applier) result() *edit.Result {
	r := &edit.Result{Files: make([]edit.FileResult, len(a.files))}
	for i, f := range a.files {
		r.Files[i] = f.res
	}
	return r
}
