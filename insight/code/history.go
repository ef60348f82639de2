// Package code tells what a repository looks like: how it grew and changes, in which languages, who knows which files, and where
// the next mistake is likely. It reads the history once with git, and the files that are checked out.
//
//	h, err := code.Read(ctx, dir, code.Options{})
//	for _, f := range h.Hotspots(10) {
//		fmt.Println(f.Path, f.Commits, f.Complexity)
//	}
//	err = h.WriteHTML(os.Stdout)
//
// The repository may be hostile: git starts no program of its configuration, and links are not followed.
package code

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aycoder/aycoder/internal/gitrepo"
)

// Options configure [Read]. The zero Options are valid.
type Options struct {
	// Since leaves out older commits, so that the history has no sums of the lines and files that there were. Default: all commits.
	Since time.Time
	// Recent is the time, up to the newest commit, whose changes make a file hot: see [File]. Default: 90 days.
	Recent time.Duration
	// MaxFiles bounds the files that are read for lines and complexity, and MaxSize their size in bytes. Default: 100,000 files
	// of 2 MiB.
	MaxFiles int
	MaxSize  int64
}

const (
	defaultRecent   = 90 * 24 * time.Hour
	defaultMaxFiles = 100_000
	defaultMaxSize  = 2 << 20
	maxTogether     = 30      // files of a commit, for pairs
	maxPairs        = 500_000 // that are counted
	week            = 7 * 24 * time.Hour
	lastSecond      = 253402300799 // of the year 9999, the last one that has a form in RFC 3339
)

// History is what a repository looks like at the commit that is checked out. It does not change.
type History struct {
	// Commits is the number of commits, with Merges, whose changes git log does not list. Added and Deleted are the lines of
	// all others, and Binary is how many changes of files have no lines.
	Commits int `json:"commits"`
	Merges  int `json:"merges"`
	Added   int `json:"added"`
	Deleted int `json:"deleted"`
	Binary  int `json:"binary"`
	// First and Last are the times of the oldest and the newest commit.
	First time.Time `json:"first"`
	Last  time.Time `json:"last"`
	// Files are those that are checked out, in the order of their paths, without symbolic links and other repositories. Gone is
	// how many files the history has that are not there any more.
	Files []*File `json:"files"`
	Gone  int     `json:"gone"`
	// Authors have the most changed lines first.
	Authors []*Author `json:"authors"`
	// Weeks are all weeks from the first commit to the last one, also those without commits.
	Weeks []Week `json:"weeks"`
	// Languages are the languages of Files, that with the most code first.
	Languages []Language `json:"languages"`
	// Unread says which files and commits were not read, and why.
	Unread []string `json:"unread,omitempty"`

	pairs  map[[2]int32]int
	files  []*File // also those that are gone
	recent time.Duration
	since  bool // older commits are left out
}

// File is a file with its history, also under the names that it had before.
type File struct {
	Path string `json:"path"`
	// Commits, Added and Deleted count its changes, and Recent those commits that are not older than Options.Recent.
	Commits int       `json:"commits"`
	Added   int       `json:"added"`
	Deleted int       `json:"deleted"`
	Recent  int       `json:"recent"`
	First   time.Time `json:"first"`
	Last    time.Time `json:"last"`
	// Language, Code, Comment and Blank are those of [CountLines].
	Language string `json:"language,omitempty"`
	Code     int    `json:"code"`
	Comment  int    `json:"comment"`
	Blank    int    `json:"blank"`
	// Complexity is the sum of the cyclomatic complexity of its functions: see [Complexity].
	Complexity int `json:"complexity,omitempty"`
	// Generated and Vendored say that nobody here writes the file, by its name or its first lines.
	Generated bool `json:"generated,omitempty"`
	Vendored  bool `json:"vendored,omitempty"`
	// Lines are the lines that each author has added and deleted, by the index in History.Authors.
	Lines map[int]int `json:"lines,omitempty"`

	index int32
	here  bool
	times []int64 // of its commits
}

// Author is somebody who has made commits. A .mailmap joins the names and addresses of a person.
type Author struct {
	Name    string    `json:"name"`
	Email   string    `json:"email"`
	Commits int       `json:"commits"`
	Added   int       `json:"added"`
	Deleted int       `json:"deleted"`
	First   time.Time `json:"first"`
	Last    time.Time `json:"last"`

	index int
}

// Week is seven days of history. Start is a Monday in UTC.
type Week struct {
	Start   time.Time `json:"start"`
	Commits int       `json:"commits"`
	Added   int       `json:"added"`
	Deleted int       `json:"deleted"`
	// Lines is about how many lines the repository had at the end, and Languages in which languages: the changes of all
	// commits up to then, on all branches that were merged. They and Files are not known with Options.Since.
	Lines     int            `json:"lines,omitempty"`
	Languages map[string]int `json:"languages,omitempty"`
	// Files is how many files there were in each language: from the first change of a file to the one that removed it.
	Files map[string]int `json:"files,omitempty"`
}

// Read reads the repository that has a directory. The error is that of git or of ctx.
func Read(ctx context.Context, dir string, o Options) (*History, error) {
	o.Recent = cmp.Or(o.Recent, defaultRecent)
	o.MaxFiles, o.MaxSize = cmp.Or(o.MaxFiles, defaultMaxFiles), cmp.Or(o.MaxSize, int64(defaultMaxSize))
	repo := &gitrepo.Repo{Dir: dir}
	if err := waits(ctx, repo); err != nil {
		return nil, fmt.Errorf("read history of %s: %w", dir, err)
	}
	r := &reader{History: &History{pairs: map[[2]int32]int{}, recent: o.Recent, since: !o.Since.IsZero()}, names: map[string]*File{}, heads: map[string]*File{}, authors: map[[2]string]*Author{},
		weeks: map[int64]*Week{}, languages: newLanguages()}
	args := []string{"HEAD", "--"}
	if r.since {
		args = append([]string{"--since=" + o.Since.Format(time.RFC3339)}, args...)
	}
	if err := repo.Log(ctx, []string{"%at", "%P", "%aN", "%aE"}, r.commit, r.change, args...); err != nil {
		return nil, fmt.Errorf("read history of %s: %w", dir, cmp.Or(context.Cause(ctx), why(ctx, repo, err)))
	}
	r.end()
	if r.Commits == 0 {
		return nil, fmt.Errorf("read history of %s: %w since then", dir, errNoCommits)
	}
	if err := r.tree(ctx, repo, dir, &o); err != nil {
		return nil, fmt.Errorf("read files of %s: %w", dir, cmp.Or(context.Cause(ctx), err))
	}
	if shallow, _ := repo.Text(ctx, "rev-parse", "--is-shallow-repository"); strings.TrimSpace(shallow) == "true" {
		r.Unread = append(r.Unread, "older commits: the clone is shallow, and its oldest ones have all lines that were there")
	}
	if replaced, _ := repo.Text(ctx, "for-each-ref", "--count=1", "refs/replace"); replaced != "" {
		r.Unread = append(r.Unread, "replacements: commits that git replace has replaced count as they were made")
	}
	r.finish()
	return r.History, nil
}

// why says in the words of a user why git did not read a history.
func why(ctx context.Context, repo *gitrepo.Repo, err error) error {
	if strings.Contains(err.Error(), "from promisor remote") {
		return fmt.Errorf("the clone is partial, and git fetch --refetch --no-filter gets what it lacks: %w", err)
	}
	dir, _ := repo.Text(ctx, "rev-parse", "--git-dir")
	if _, none := repo.Text(ctx, "rev-parse", "-q", "--verify", "HEAD"); none != nil && dir != "" {
		return errNoCommits
	}
	return err
}

var errNoCommits = errors.New("there are no commits")

// waits returns an error if git would wait for a pipe in the place of a .mailmap, of a .gitattributes beside it, or of a list of commits
// that blame passes over.
func waits(ctx context.Context, repo *gitrepo.Repo) error {
	top, err := filepath.Abs(repo.Dir)
	if err != nil {
		return err
	}
	for dir := top; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
			top = dir
			break
		}
	}
	names := []string{".mailmap", ".gitattributes"}
	text, _ := repo.Text(ctx, "config", "--null", "--get-all", "blame.ignoreRevsFile") // an error if there is none
	names = append(names, strings.FieldsFunc(text, func(r rune) bool { return r == 0 })...)
	for _, name := range names {
		if name = filepath.FromSlash(name); !filepath.IsAbs(name) {
			name = filepath.Join(top, name)
		}
		if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() {
			return &fs.PathError{Op: "read", Path: name, Err: errors.New("is not a regular file")}
		}
	}
	return nil
}

// reader reads commits, from the newest to the oldest.
type reader struct {
	*History
	names     map[string]*File // by the name that a file has at the commit that is read
	heads     map[string]*File // by the last name that a file has had
	authors   map[[2]string]*Author
	weeks     map[int64]*Week // by their number
	languages *languages

	author *Author
	at     time.Time
	week   *Week
	touch  []int32 // files of the commit
}

// commit takes the time, the parents, and the name and address of the author of a commit.
func (r *reader) commit(fields []string) {
	r.end()
	seconds, err := strconv.ParseInt(fields[0], 10, 64)
	if err != nil || seconds < 0 || seconds > lastSecond { // the commit has no time: that before it in the list counts
		seconds = max(0, r.at.Unix())
	}
	r.at = time.Unix(seconds, 0).UTC()
	r.Commits++
	if strings.Contains(fields[1], " ") {
		r.Merges++
	}
	key := [2]string{fields[2], strings.ToLower(fields[3])}
	if r.author = r.authors[key]; r.author == nil {
		r.author = &Author{Name: fields[2], Email: fields[3], First: r.at, Last: r.at, index: len(r.Authors)}
		r.authors[key], r.Authors = r.author, append(r.Authors, r.author)
	}
	r.author.Commits++
	widen(&r.author.First, &r.author.Last, r.at)
	widen(&r.First, &r.Last, r.at)
	monday := weekOf(r.at)
	if r.week = r.weeks[monday]; r.week == nil {
		r.week = &Week{Start: time.Unix((monday*7-3)*86400, 0).UTC(), Languages: map[string]int{}}
		r.weeks[monday] = r.week
	}
	r.week.Commits++
}

func widen(first, last *time.Time, at time.Time) {
	if first.IsZero() || at.Before(*first) {
		*first = at
	}
	if at.After(*last) {
		*last = at
	}
}

// change takes what the commit has changed in a file.
func (r *reader) change(n gitrepo.Figure) {
	if n.Binary {
		r.Binary++
	}
	plus, minus := n.Added, n.Deleted
	f := r.file(n.Name)
	if n.Was != "" {
		delete(r.names, n.Name)
		r.names[n.Was] = f // in older commits
	}
	f.Commits++
	f.Added, f.Deleted = f.Added+plus, f.Deleted+minus
	widen(&f.First, &f.Last, r.at)
	if f.Lines == nil {
		f.Lines = map[int]int{}
	}
	f.Lines[r.author.index] += plus + minus
	f.times = append(f.times, r.at.Unix())
	r.Added, r.Deleted = r.Added+plus, r.Deleted+minus
	r.author.Added, r.author.Deleted = r.author.Added+plus, r.author.Deleted+minus
	r.week.Added, r.week.Deleted = r.week.Added+plus, r.week.Deleted+minus
	if f.Language != "" {
		r.week.Languages[f.Language] += plus - minus
	}
	r.touch = append(r.touch, f.index)
}

// weekOf returns the number of a week, which begins on a Monday.
func weekOf(t time.Time) int64 { return (t.Unix()/86400 + 3) / 7 } // 1970-01-01 was a Thursday

// file returns the file that has a name at this commit.
func (r *reader) file(name string) *File {
	f := r.names[name]
	if f == nil {
		f = &File{Path: name, Language: r.languages.languageOf(name), index: int32(len(r.files))}
		r.names[name], r.files = f, append(r.files, f)
		if r.heads[name] == nil {
			r.heads[name] = f
		}
	}
	return f
}

// head returns the file that has a name at the commit that is checked out.
func (r *reader) head(name string) *File {
	f := r.heads[name]
	if f == nil { // only merges have changed it
		delete(r.names, name)
		f = r.file(name)
	}
	return f
}

// end counts which files the commit has changed together.
func (r *reader) end() {
	if len(r.touch) <= maxTogether {
		slices.Sort(r.touch)
		for i, a := range r.touch {
			for _, b := range r.touch[i+1:] {
				k := [2]int32{a, b}
				if _, ok := r.pairs[k]; a != b && (ok || len(r.pairs) < maxPairs) {
					r.pairs[k]++
				}
			}
		}
	}
	r.touch = r.touch[:0]
}

// finish puts everything in its order.
func (r *reader) finish() {
	h := r.History
	order := slices.Clone(h.Authors)
	slices.SortStableFunc(order, func(a, b *Author) int {
		return cmp.Or(b.Added+b.Deleted-a.Added-a.Deleted, b.Commits-a.Commits, cmp.Compare(a.Name, b.Name))
	})
	to := make([]int, len(order))
	for i, a := range order {
		to[a.index] = i
	}
	for _, f := range h.files {
		lines := make(map[int]int, len(f.Lines))
		for i, n := range f.Lines {
			lines[to[i]] = n
		}
		f.Lines = lines
		for _, at := range f.times { // only now is it known which commit is the newest
			if h.Last.Sub(time.Unix(at, 0)) <= h.recent {
				f.Recent++
			}
		}
		f.times = nil
	}
	h.Authors = order
	numbers := slices.Sorted(maps.Keys(r.weeks))
	lines, sums, files := 0, map[string]int{}, map[string]int{}
	came := map[int64]map[string]int{} // and went, by week and language
	for _, f := range h.files {
		for _, n := range []struct {
			at time.Time
			by int
			is bool
		}{{f.First, 1, true}, {f.Last, -1, !f.here}} {
			if week := weekOf(n.at); n.is && f.Language != "" {
				if came[week] == nil {
					came[week] = map[string]int{}
				}
				came[week][f.Language] += n.by
			}
		}
	}
	const mostWeeks = 5200 // a clock that was wrong makes no more of them
	for i, n := range numbers {
		if i > 0 && n-numbers[i-1] < mostWeeks {
			for k := numbers[i-1] + 1; k < n; k++ {
				last := h.Weeks[len(h.Weeks)-1]
				h.Weeks = append(h.Weeks, Week{Start: last.Start.Add(week), Lines: last.Lines, Languages: last.Languages, Files: last.Files})
			}
		}
		w := *r.weeks[n]
		lines += w.Added - w.Deleted
		for name, d := range w.Languages {
			sums[name] += d
		}
		for name, d := range came[n] {
			files[name] += d
		}
		w.Lines, w.Languages, w.Files = max(0, lines), maps.Clone(sums), maps.Clone(files)
		for _, m := range []map[string]int{w.Languages, w.Files} {
			maps.DeleteFunc(m, func(_ string, n int) bool { return n <= 0 })
		}
		h.Weeks = append(h.Weeks, w)
	}
	for i := range h.Weeks {
		if w := &h.Weeks[i]; h.since {
			w.Lines, w.Languages, w.Files = 0, nil, nil
		}
	}
}

// Hotspots returns the files that change often and are complex, which is where most mistakes are made (Tornhill, "Your Code as a
// Crime Scene"): by the product of recent commits and complexity, and without generated and vendored ones.
func (h *History) Hotspots(n int) []*File {
	return h.top(n, func(f *File) int { return f.Recent * max(1, f.Complexity) * min(1, f.Code) })
}

// Churn returns the files with the most changed lines.
func (h *History) Churn(n int) []*File {
	return h.top(n, func(f *File) int { return f.Added + f.Deleted })
}

func (h *History) top(n int, score func(*File) int) []*File {
	var out []*File
	for _, f := range h.Files {
		if score(f) > 0 && !f.Generated && !f.Vendored {
			out = append(out, f)
		}
	}
	slices.SortStableFunc(out, func(a, b *File) int { return score(b) - score(a) })
	return out[:min(max(n, 0), len(out))]
}

// Pair is two files that change together.
type Pair struct {
	A string `json:"a"`
	B string `json:"b"`
	// Together is how many commits changed both, and Share what part that is of the commits of the one with fewer.
	Together int     `json:"together"`
	Share    float64 `json:"share"`
}

// Pairs returns the files that change together most, in at least five commits and half of those of one of them. Commits of more
// than 30 files do not count.
func (h *History) Pairs(n int) []Pair {
	var out []Pair
	for k, together := range h.pairs {
		a, b := h.files[k[0]], h.files[k[1]]
		share := float64(together) / float64(min(a.Commits, b.Commits))
		if a.here && b.here && together >= 5 && share >= 0.5 {
			out = append(out, Pair{min(a.Path, b.Path), max(a.Path, b.Path), together, min(1, share)})
		}
	}
	slices.SortFunc(out, func(a, b Pair) int {
		return cmp.Or(b.Together-a.Together, cmp.Compare(b.Share, a.Share), cmp.Compare(a.A, b.A), cmp.Compare(a.B, b.B))
	})
	return out[:min(max(n, 0), len(out))]
}

// BusFactor returns how many people have changed more than half of the lines of some files, those with the most first, and who they
// are. Paths choose the files and those below directories; none chooses all.
func (h *History) BusFactor(paths ...string) []*Author {
	lines, sum := map[int]int{}, 0
	for _, f := range h.Files {
		if !below(f.Path, paths) || f.Generated || f.Vendored {
			continue
		}
		for a, n := range f.Lines {
			lines[a] += n
			sum += n
		}
	}
	order := slices.SortedFunc(maps.Keys(lines), func(a, b int) int { return cmp.Or(lines[b]-lines[a], a-b) })
	var out []*Author
	for have := 0; len(out) < len(order) && 2*have <= sum; {
		a := order[len(out)]
		have += lines[a]
		out = append(out, h.Authors[a])
	}
	return out
}

func below(name string, paths []string) bool {
	return len(paths) == 0 || slices.ContainsFunc(paths, func(p string) bool {
		p = path.Clean(p)
		return p == "." || name == p || strings.HasPrefix(name, p+"/")
	})
}
