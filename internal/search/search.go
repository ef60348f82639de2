package search

import (
	"cmp"
	"context"
	"io"
	"io/fs"
	"iter"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/aycoder/aycoder/internal/glob"
	"github.com/aycoder/aycoder/internal/runes"
)

const (
	// maxFile bounds the memory of a search, since each goroutine has a buffer for a whole file.
	maxFile  = 16 << 20 // bytes of a file that is searched
	maxText  = 300      // bytes of a line that are shown
	perJob   = 64       // files that are searched by one goroutine in a row
	maxTasks = 8        // goroutines
)

// Query says what to search for and in which files.
type Query struct {
	Matcher *Matcher
	// Include and Exclude are patterns that select files, in the form of [glob.Extend]. If Include is
	// empty, all files are searched.
	Include, Exclude []string
	// Context is the number of lines to show before and after a match. Max is the largest number
	// of matches in the result.
	Context, Max int
	// Ignored holds the user's global ignore patterns, in the format of .gitignore (see [Start]).
	Ignored []byte
	// Keep is the largest total size, in bytes, of the texts in the result (see [File]). A file
	// whose text does not fit any more is left without its text.
	Keep int
	// Searched counts the files that were searched so far, for a progress report. It may be nil.
	Searched *atomic.Int64
}

// Line is a line of a file that matches, or that is shown as the context of a match.
type Line struct {
	Number int
	Text   string
	Match  bool
}

// File is a file with matches.
type File struct {
	Path  string
	Lines []Line
	// Matches is the number of lines that match.
	Matches int
	// Text is the content of the file. It is empty if the file did not fit into the limit of
	// [Query.Keep], or has changed since it was searched.
	Text string
}

// Result holds the files with matches, sorted by path.
type Result struct {
	Files   []File
	Matches int
	// More reports that there are more matches than [Query.Max]. The ones that are left out come
	// after those in the result.
	More bool
	// Searched is the number of files that were searched. Binary, Large and Refused are the
	// numbers of files that were skipped because they are binary, too large, or cannot be read.
	// Ignored is the number of files and directories that were skipped by ignore patterns.
	// Partial is the number of directories that were not listed completely.
	Searched, Binary, Large, Refused, Ignored, Partial int64
}

// Search searches a file, or all files in a directory and its subdirectories. It skips files that
// git ignores, directories of version control and dependencies, files whose name suggests
// secrets, binary files, files over 16 MiB, and symbolic links. The result does not depend on the
// order in which the goroutines run. If ctx ends, Search returns its cause.
func Search(ctx context.Context, src Source, name string, q *Query) (*Result, error) {
	s := &searcher{src: src, q: q, searched: q.Searched}
	if s.searched == nil {
		s.searched = new(atomic.Int64)
	}
	s.more.L = &s.mu
	var err error
	if s.include, err = compile(q.Include); err != nil {
		return nil, err
	}
	if s.exclude, err = compile(q.Exclude); err != nil {
		return nil, err
	}
	f, err := src.Open(name)
	if err == nil {
		f.Close()
		s.files(ctx, s.worker(), []string{name})
	} else if _, notDir := src.ReadDir(ctx, name); notDir != nil {
		return nil, cmp.Or(context.Cause(ctx), err)
	} else {
		s.run(ctx, Start(src, name, q.Ignored))
	}
	s.trim()
	s.keep(ctx)
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	return s.result(), nil
}

// opener returns a function that opens the next of the files, in the order of their names. If a call
// of the source takes long, the source may open several files at once; together is then true.
func (s *searcher) opener(ctx context.Context, names []string) (next func(name string) (fs.File, error), stop func(), together bool) {
	src, ok := s.src.(interface {
		OpenFiles(ctx context.Context, names []string) iter.Seq2[fs.File, error]
	})
	if !ok || len(names) == 1 {
		return s.src.Open, func() {}, false
	}
	pull, stop := iter.Pull2(src.OpenFiles(ctx, names))
	return func(string) (fs.File, error) {
		f, err, ok := pull()
		if !ok {
			err = fs.ErrClosed
		}
		return f, err
	}, stop, true
}

// keep reads the files in the result again to keep their texts. During the search it was not
// known which files would be in the result. If a file has changed in between, other lines match,
// and its text is not kept, since the text would not belong to the lines that are shown.
func (s *searcher) keep(ctx context.Context) {
	w, room := s.worker(), s.q.Keep
	names := make([]string, len(s.found))
	for i, f := range s.found {
		names[i] = f.Path
	}
	open, stop, _ := s.opener(ctx, names)
	defer stop()
	for i := range s.found {
		if room <= 0 || ctx.Err() != nil {
			return
		}
		f := &s.found[i]
		text, skipped := s.text(w, open, f.Path)
		if skipped == nil && len(text) <= room &&
			slices.Equal(s.lines(ctx, w.d, f.Path, text).Lines, f.Lines) {
			f.Text = string(text)
			room -= len(text)
		}
	}
}

// compile compiles the patterns of a query.
func compile(patterns []string) ([]*glob.Pattern, error) {
	var all []*glob.Pattern
	for _, p := range patterns {
		c, err := glob.Compile(strings.TrimPrefix(glob.Extend(p), "/"))
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	return all, nil
}

// job is either a directory to list or a chunk of files to search.
type job struct {
	directory Directory
	files     []string
}

// searcher is the state of one search. Its jobs are a stack that all goroutines share. Each
// directory that is found becomes a job, so wide and deep trees keep all goroutines busy.
type searcher struct {
	src              Source
	q                *Query
	include, exclude []*glob.Pattern

	searched                                 *atomic.Int64
	binary, large, refused, ignored, partial atomic.Int64

	mu   sync.Mutex
	more sync.Cond
	jobs []job
	busy int // goroutines that may add jobs
	done bool
	// found is trimmed from time to time, so that it holds little more than the result. If full
	// is set, files after the path last cannot be in the result, and are not searched.
	found   []File
	matches int
	last    string
	full    bool
}

// worker holds the memory that a goroutine reuses from file to file.
type worker struct {
	buf []byte
	d   *machine
}

func (s *searcher) worker() *worker { return &worker{d: newMachine(s.q.Matcher)} }

// run works until there are no more jobs, or until the context ends. A goroutine that waits for a
// job does not see the end of the context, so the end wakes all of them.
func (s *searcher) run(ctx context.Context, start Directory) {
	stop := context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.done = true
		s.more.Broadcast()
	})
	defer stop()
	s.jobs = []job{{directory: start}}
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), maxTasks) {
		wg.Go(func() {
			w := s.worker()
			for j, ok := s.take(); ok; j, ok = s.take() {
				if j.files != nil {
					s.files(ctx, w, j.files)
				} else {
					s.directory(ctx, j.directory)
				}
				s.finish()
			}
		})
	}
	wg.Wait()
}

// take returns the next job. If there is none, it waits as long as another goroutine is working,
// because that goroutine may add jobs.
func (s *searcher) take() (job, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.jobs) == 0 && s.busy > 0 && !s.done {
		s.more.Wait()
	}
	if s.done || len(s.jobs) == 0 {
		return job{}, false
	}
	j := s.jobs[len(s.jobs)-1]
	s.jobs = s.jobs[:len(s.jobs)-1]
	s.busy++
	return j, true
}

// finish records that a job is done. After the last one no job can be added, so all waiting
// goroutines are woken to end.
func (s *searcher) finish() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy--; s.busy == 0 {
		s.more.Broadcast()
	}
}

// directory turns the entries of a directory into jobs. The last job on the stack is done first,
// so directories are added in the reverse order of their names. Paths early in the order are then
// searched first, and late can skip more of the others.
func (s *searcher) directory(ctx context.Context, dir Directory) {
	found, err := Children(ctx, s.src, dir, true)
	if err != nil {
		s.refused.Add(1)
		return
	}
	s.ignored.Add(int64(found.Ignored))
	if found.Partial {
		s.partial.Add(1)
	}
	var jobs []job
	for _, d := range slices.Backward(found.Down) {
		jobs = append(jobs, job{directory: d})
	}
	var files []string
	for _, e := range found.Entries {
		if e.Entry.Type().IsRegular() && s.wanted(e.Path) {
			files = append(files, e.Path)
		}
	}
	for chunk := range slices.Chunk(files, perJob) {
		jobs = append(jobs, job{files: chunk})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.jobs = append(s.jobs, jobs...)
	s.more.Broadcast()
}

// wanted reports whether a file is to be searched. A file named .git is left out: in a linked
// work tree it only holds the path of the repository.
func (s *searcher) wanted(p string) bool {
	match := func(g *glob.Pattern) bool { return g.Match(p) }
	return (len(s.include) == 0 || slices.ContainsFunc(s.include, match)) &&
		!slices.ContainsFunc(s.exclude, match) && path.Base(p) != ".git"
}

// files searches a chunk of files, one after the other, in the same buffer.
func (s *searcher) files(ctx context.Context, w *worker, names []string) {
	if s.late(names[0]) { // they are sorted
		return
	}
	open, stop, together := s.opener(ctx, names)
	defer stop()
	for _, name := range names {
		if ctx.Err() != nil {
			return
		}
		if !together && s.late(name) {
			continue
		}
		f, skipped := s.search(ctx, w, open, name)
		switch {
		case skipped != nil:
			skipped.Add(1)
		default:
			s.add(f)
		}
	}
}

// late reports whether a file comes after all matches that can be in the result.
func (s *searcher) late(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.full && name > s.last
}

// add adds a file to the result, if it has matches.
func (s *searcher) add(f File) {
	s.searched.Add(1)
	if f.Matches == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.found = append(s.found, f)
	if s.matches += f.Matches; s.matches > 2*s.q.Max {
		s.trim()
	}
}

// trim drops the files that cannot be in the result. It keeps one match more than Max, which
// shows that there are more. Files are found in any order, so they are sorted before the list is
// cut. The result is therefore the same however the goroutines ran.
func (s *searcher) trim() {
	slices.SortFunc(s.found, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	s.matches = 0
	for i, f := range s.found {
		if s.matches += f.Matches; s.matches > s.q.Max {
			s.found = s.found[:i+1]
			s.last, s.full = f.Path, true
			return
		}
	}
}

// result makes the result, and removes the matches beyond Max from the last file.
func (s *searcher) result() *Result {
	r := &Result{Files: s.found, Matches: s.matches,
		Searched: s.searched.Load(), Binary: s.binary.Load(),
		Large: s.large.Load(), Refused: s.refused.Load(), Ignored: s.ignored.Load(),
		Partial: s.partial.Load()}
	if over := r.Matches - s.q.Max; over > 0 {
		last := &r.Files[len(r.Files)-1]
		last.cut(last.Matches-over, s.q.Context)
		r.Matches, r.More = s.q.Max, true
		if last.Matches == 0 {
			r.Files = r.Files[:len(r.Files)-1]
		}
	}
	return r
}

// cut removes all but the first n matches, and the context of the others.
func (f *File) cut(n, context int) {
	f.Matches = n
	end := 0
	for i, l := range f.Lines {
		if l.Match {
			if n--; n < 0 {
				f.Lines = f.Lines[:i]
				break
			}
			end = l.Number + context
		}
	}
	f.Lines = slices.DeleteFunc(f.Lines, func(l Line) bool { return l.Number > end })
}

// search searches a file. If the file is skipped, it returns the counter for the reason.
func (s *searcher) search(
	ctx context.Context, w *worker, open func(string) (fs.File, error), name string,
) (File, *atomic.Int64) {
	text, skipped := s.text(w, open, name)
	if skipped != nil {
		return File{}, skipped
	}
	return s.lines(ctx, w.d, name, text), nil
}

// text reads a file into the buffer of the worker. If the file is skipped, it returns the counter
// for the reason.
func (s *searcher) text(w *worker, open func(string) (fs.File, error), name string) ([]byte, *atomic.Int64) {
	f, err := open(name)
	if err != nil {
		return nil, &s.refused
	}
	defer f.Close()
	text, large, err := w.read(f)
	switch {
	case err != nil:
		return nil, &s.refused
	case large:
		return nil, &s.large
	case runes.Binary(text):
		return nil, &s.binary
	}
	return text, nil
}

// read reads a file up to the size that it had when it was opened. Bytes that are appended
// meanwhile are left out, so that a growing log file cannot exceed the bound.
func (w *worker) read(f fs.File) (text []byte, large bool, err error) {
	info, err := f.Stat()
	if err != nil {
		return nil, false, err
	}
	if info.Size() > maxFile {
		return nil, true, nil
	}
	size := int(info.Size())
	if cap(w.buf) < size {
		w.buf = make([]byte, size+size/4)
	}
	n, err := io.ReadFull(f, w.buf[:size])
	if err == io.ErrUnexpectedEOF || err == io.EOF { // it got shorter
		err = nil
	}
	return w.buf[:n], false, err
}
