package search

import (
	"cmp"
	"context"
	"io"
	"io/fs"
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
	maxFile  = 16 << 20 // bytes of a file that is searched
	maxText  = 300      // bytes of a line that are shown
	perJob   = 64       // files that are searched by one goroutine in a row
	maxTasks = 8        // goroutines
)

// Query is what to search for and where.
type Query struct {
	Matcher *Matcher
	// Include and Exclude choose files by their path; a pattern without a slash by
	// their name. Without Include all are searched.
	Include, Exclude []string
	// Context is the number of lines shown around a match, Max that of the matches.
	Context, Max int
	// Ignored are the user's own patterns of what to leave out: see [Start].
	Ignored []byte
	// Keep is how many bytes of files with matches are kept, of the first that fit in.
	Keep int
	// Searched, if set, counts the files that were searched so far.
	Searched *atomic.Int64
}

// Line is a line of a file that matches, or is near one.
type Line struct {
	Number int
	Text   string
	Match  bool
}

// File is what was found in a file.
type File struct {
	Path  string
	Lines []Line
	// Matches is how many of the lines match.
	Matches int
	// Text is what was in the file, if it was kept: see [Query].
	Text string
}

// Result is what was found, in the order of the paths.
type Result struct {
	Files   []File
	Matches int
	// More says that there are more matches than were asked for; those that are
	// left out come after the others.
	More bool
	// Searched, Binary, Large and Refused count files, Ignored files and directories, and
	// Partial directories of which not all entries were looked at.
	Searched, Binary, Large, Refused, Ignored, Partial int64
}

// Search looks through a file, or through a directory and what is below it. It leaves
// out what git ignores, directories of version control and dependencies, files that hold
// secrets by their name, binary files, those over 16 MiB, and symbolic links. The
// result does not depend on timing. If ctx ends it returns the cause.
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

// keep reads the files again that are in the result, which were not known while they were
// searched. Of one in which other lines are found now it keeps nothing. A file may have
// changed in between; its text would then not belong to the lines that are shown.
func (s *searcher) keep(ctx context.Context) {
	w, room := s.worker(), s.q.Keep
	for i := range s.found {
		if room <= 0 || ctx.Err() != nil {
			return
		}
		f := &s.found[i]
		text, skipped := s.text(w, f.Path)
		if skipped == nil && len(text) <= room &&
			slices.Equal(s.lines(ctx, w.d, f.Path, text).Lines, f.Lines) {
			f.Text = string(text)
			room -= len(text)
		}
	}
}

// compile makes the patterns of a query. One without a slash is for names in any directory,
// as in .gitignore.
func compile(patterns []string) ([]*glob.Pattern, error) {
	var all []*glob.Pattern
	for _, p := range patterns {
		if !strings.Contains(p, "/") {
			p = "**/" + p
		}
		c, err := glob.Compile(strings.TrimPrefix(p, "/"))
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	return all, nil
}

// job is a directory to read, or some files to search.
type job struct {
	directory Directory
	files     []string
}

// Its jobs are a stack shared by all goroutines: a directory that is found becomes a job,
// so wide and deep trees keep all of them busy.
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
	// found is trimmed so that it holds little more than what was asked for. Files
	// after the one named by last cannot be in the result, and are not searched.
	found   []File
	matches int
	last    string
	full    bool
}

// worker is what a goroutine keeps from file to file.
type worker struct {
	buf []byte
	d   *machine
}

func (s *searcher) worker() *worker { return &worker{d: newMachine(s.q.Matcher)} }

// run works until there are no jobs, or the context ends. A goroutine that waits for a job
// does not see the end of the context by itself, so that wakes all.
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

// take returns the next job, and waits if there is none yet. There may be more as long as
// one is at work.
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

// finish tells the others that a job is done; after the last one nothing can be added.
func (s *searcher) finish() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy--; s.busy == 0 {
		s.more.Broadcast()
	}
}

// directory makes jobs of what is in a directory. The last one added is done first. So
// directories come in the order of their names, which lets late leave out more.
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

// wanted reports whether a file is to be searched. A file named .git is where a work tree
// has its repository.
func (s *searcher) wanted(p string) bool {
	match := func(g *glob.Pattern) bool { return g.Match(p) }
	return (len(s.include) == 0 || slices.ContainsFunc(s.include, match)) &&
		!slices.ContainsFunc(s.exclude, match) && path.Base(p) != ".git"
}

// files searches some files, one after the other in one buffer.
func (s *searcher) files(ctx context.Context, w *worker, names []string) {
	for _, name := range names {
		if ctx.Err() != nil {
			return
		}
		if s.late(name) {
			continue
		}
		f, skipped := s.search(ctx, w, name)
		switch {
		case skipped != nil:
			skipped.Add(1)
		default:
			s.add(f)
		}
	}
}

// late reports whether matches in a file would come after all that are asked for.
func (s *searcher) late(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.full && name > s.last
}

// add takes what was found in a file.
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

// trim drops the files that cannot be in the result. One match more than what was asked for
// is kept, which tells that there is more. Files come in any order, so the list is sorted
// before it is cut: the result is the same whatever the goroutines did.
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

// result counts what was kept, and cuts the last file to the number that was asked for.
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

// cut leaves the first n matches, and their context.
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

// search looks through one file; one that is not searched has a counter.
func (s *searcher) search(ctx context.Context, w *worker, name string) (File, *atomic.Int64) {
	text, skipped := s.text(w, name)
	if skipped != nil {
		return File{}, skipped
	}
	return s.lines(ctx, w.d, name, text), nil
}

// text reads a file into the worker's buffer.
func (s *searcher) text(w *worker, name string) ([]byte, *atomic.Int64) {
	f, err := s.src.Open(name)
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

// read reads a file into the worker's buffer. The size is that at the opening: bytes that
// are appended meanwhile are left out.
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
