package local

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"net/http"
	"os"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/flock"
	"github.com/aycoder/aycoder/internal/part"
)

// A download is in two files until it is whole and its hash is right: hash.part has the size of the file, and hash.state says
// which of its chunks are there. A chunk counts when the data is on disk. So after a crash the state never says more than what
// the file has.

// maxTries is how often a request is made in vain, one after the other.
const maxTries = 6

// maxRestarts is how often a file may change while it is downloaded.
const maxRestarts = 3

// Pull implements [Library]. The name is that of [Hub.Resolve]. If the model is there, its files are not downloaded again. The
// error is a [*HubError], which may be one of its kinds.
func (h *Hub) Pull(ctx context.Context, name string) iter.Seq2[Progress, error] {
	return part.Once(func(yield func(Progress, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		reports, done := make(chan Progress, 1), make(chan error, 1)
		go func() {
			done <- h.pull(ctx, name, func(p Progress) {
				select {
				case reports <- p:
				default: // who is slow sees less, and delays nothing
				}
			})
		}()
		last := Progress{}
		for {
			select {
			case last = <-reports:
				if !yield(last, nil) {
					cancel()
					<-done
					return
				}
			case err := <-done:
				if err != nil {
					yield(Progress{}, err)
					return
				}
				select {
				case last = <-reports:
				default:
				}
				last.Status, last.Done = "done", last.Total
				yield(last, nil)
				return
			}
		}
	})
}

func (h *Hub) pull(ctx context.Context, name string, report func(Progress)) (err error) {
	about := name
	defer func() {
		if _, ok := errors.AsType[*HubError](err); err != nil && !ok {
			err = &HubError{Op: "download", Model: about, Err: err}
		}
	}()
	c, err := h.Resolve(ctx, name)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(h.dir, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(h.dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for i, f := range c.Files {
		about = c.ID + "/" + f.Path
		d := &download{h: h, root: root, repo: c.Repo, file: f, later: c.Files[i+1:], report: report}
		if err := d.run(ctx); err != nil {
			return err
		}
	}
	// Names come last: what has a name is whole, and a split model has all its files.
	for _, f := range c.Files {
		about = c.ID + "/" + f.Path
		if err := h.name(root, c.Repo, f); err != nil {
			return err
		}
	}
	about = name
	return h.writeFile(root, repoDir(c.ID)+"/refs/main", []byte(c.Revision))
}

// repoDir is the directory of a model.
func repoDir(id string) string { return "models--" + strings.ReplaceAll(id, "/", "--") }

// name gives a file that is whole its name.
func (h *Hub) name(root *os.Root, r Repo, f File) error {
	dir := repoDir(r.ID)
	name := path.Join(dir, "snapshots", r.Revision, f.Path)
	blob, err := root.Stat(dir + "/blobs/" + f.SHA256)
	if err != nil {
		return err
	}
	if info, err := root.Stat(name); err == nil && os.SameFile(info, blob) {
		return nil
	}
	if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	if err := root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) { // a link to nothing, or another file
		return err
	}
	err = h.link(root, dir+"/blobs/"+f.SHA256, name)
	if _, there := root.Stat(name); there == nil {
		return nil // another process may have been faster
	}
	return err
}

// link makes a link, as other programs for this hub do it: a symbolic one, or, where these are not allowed, another name.
func link(root *os.Root, file, name string) error {
	up := strings.Repeat("../", strings.Count(name, "/")-1)
	if root.Symlink(up+strings.TrimPrefix(file, strings.SplitAfter(file, "/")[0]), name) == nil {
		return nil
	}
	return root.Link(file, name)
}

// writeFile writes a file whole or not at all.
func (h *Hub) writeFile(root *os.Root, name string, data []byte) error {
	if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	part := name + "." + rand.Text() // another process may write it, too
	f, err := root.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, h.sync(f), f.Close()); err == nil {
		err = root.Rename(part, name)
	}
	if err != nil {
		return errors.Join(err, root.Remove(part))
	}
	return nil
}

// A download is that of one file.
type download struct {
	h      *Hub
	root   *os.Root
	repo   Repo
	file   File
	later  []File // of the same model
	report func(Progress)
	blob   string
	part   *os.File

	mu     sync.Mutex
	state  state
	ranges bool // the server answers with ranges
}

// A state is what is known about a part of a file.
type state struct {
	Size  int64   `json:"size"`
	Chunk int64   `json:"chunk"`
	Etag  string  `json:"etag"`
	Path  string  `json:"path"` // of the file, for [Hub.Delete]
	Done  []int64 `json:"done"` // bytes of each chunk, from its beginning
}

func (d *download) run(ctx context.Context) error {
	switch {
	case d.file.SHA256 == "":
		return errors.New("the hub has no SHA-256 of it")
	case d.file.Size < 1 || d.file.Size > 1<<42:
		return fmt.Errorf("the hub says that it has %d bytes", d.file.Size)
	}
	dir := repoDir(d.repo.ID) + "/blobs"
	d.blob = dir + "/" + d.file.SHA256
	if err := d.root.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if d.there() {
		return nil
	}
	unlock, err := d.lock()
	if err != nil {
		return err
	}
	defer unlock()
	if d.there() { // another process has been faster
		return nil
	}
	if d.part, err = d.root.OpenFile(d.blob+".part", os.O_RDWR|os.O_CREATE, 0o644); err != nil {
		return err
	}
	defer d.part.Close()
	d.load()
	if err := d.space(); err != nil {
		return err
	}
	if err := d.part.Truncate(d.file.Size); err != nil {
		return err
	}
	for n := 0; ; n++ {
		err := d.fetch(ctx)
		if err == nil {
			break
		}
		if !errors.Is(err, ErrChanged) || n >= maxRestarts || ctx.Err() != nil {
			return err
		}
		d.reset()
	}
	return d.finish(ctx)
}

// there says whether the file is here, whole.
func (d *download) there() bool {
	info, err := d.root.Stat(d.blob)
	if err != nil || info.Size() != d.file.Size {
		return false
	}
	d.report(Progress{Status: "downloading", File: d.file.Path, Done: d.file.Size, Total: d.file.Size})
	return true
}

// lock keeps other processes away.
func (d *download) lock() (func(), error) {
	f, err := d.root.OpenFile(d.blob+".lock", os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	ok, err := flock.Try(f)
	if !ok && err == nil {
		f.Close()
		return nil, ErrBusy
	}
	if err != nil && !errors.Is(err, errors.ErrUnsupported) {
		f.Close()
		return nil, fmt.Errorf("lock: %w", err)
	}
	return func() { f.Close() }, nil
}

// load reads the state of an earlier download, if it is about the same file.
func (d *download) load() {
	d.reset()
	f, err := d.root.Open(d.blob + ".state")
	if err != nil {
		return
	}
	defer f.Close()
	var s state
	data, err := io.ReadAll(io.LimitReader(f, 1<<20))
	if err != nil || json.Unmarshal(data, &s) != nil || s.Size != d.file.Size || s.Chunk < 1 || int64(len(s.Done)) != chunks(s) {
		return
	}
	info, err := d.part.Stat()
	if err != nil || info.Size() != s.Size {
		return
	}
	for i, n := range s.Done {
		if n < 0 || n > s.length(i) {
			return
		}
	}
	d.state = s
}

func chunks(s state) int64 { return (s.Size + s.Chunk - 1) / s.Chunk }

// length returns the size of a chunk. The last one is shorter.
func (s state) length(i int) int64 { return min(s.Chunk, s.Size-int64(i)*s.Chunk) }

// reset forgets what was downloaded.
func (d *download) reset() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ranges = true
	d.state = state{Size: d.file.Size, Chunk: max(d.h.chunk, d.file.Size/(1<<14)), Path: d.file.Path}
	d.state.Done = make([]int64, chunks(d.state))
}

func (d *download) begun() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.sum() > 0
}

func (d *download) sum() (n int64) {
	for _, done := range d.state.Done {
		n += done
	}
	return n
}

// save writes the state, after the data that it is about.
func (d *download) save() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.h.sync(d.part); err != nil {
		return err
	}
	data, err := json.Marshal(d.state)
	if err != nil {
		return err
	}
	return d.h.writeFile(d.root, d.blob+".state", data)
}

// space checks the disk, also for the files that come later.
func (d *download) space() error {
	free, err := d.h.free(d.h.dir)
	if err != nil {
		return nil // it cannot be told
	}
	need := d.file.Size - d.sum()
	for _, f := range d.later {
		if _, err := d.root.Stat(path.Join(path.Dir(d.blob), f.SHA256)); err != nil {
			need += f.Size
		}
	}
	if need > free-free/100 {
		return fmt.Errorf("%w: %s are needed, %s are free", ErrSpace, bytesText(need), bytesText(free))
	}
	return nil
}

var errNoRanges = errors.New("the server does not answer with ranges")

// fetch downloads what is missing.
func (d *download) fetch(ctx context.Context) error {
	err := d.fetchChunks(ctx)
	if errors.Is(err, errNoRanges) && !d.begun() {
		d.reset()
		d.ranges = false
		err = d.retry(ctx, 0)
	}
	return errors.Join(err, d.save())
}

// fetchChunks downloads the chunks that are missing, several at a time. If none is there, the first comes alone: its answer says
// which version the others must be of.
func (d *download) fetchChunks(ctx context.Context) error {
	var missing []int
	for i, n := range d.state.Done {
		if n < d.state.length(i) {
			missing = append(missing, i)
		}
	}
	if d.state.Etag == "" && len(missing) > 0 {
		if err := d.chunk(ctx, missing[0]); err != nil {
			return err
		}
		missing = missing[1:]
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(d.h.connections)
	for _, i := range missing {
		g.Go(func() error { return d.chunk(ctx, i) })
	}
	return g.Wait()
}

// chunk downloads what is missing of a chunk, and records it.
func (d *download) chunk(ctx context.Context, i int) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if err := d.retry(ctx, i); err != nil {
		return err
	}
	return d.save()
}

// retry requests a chunk until it is there.
func (d *download) retry(ctx context.Context, i int) error {
	for tries := 0; ; tries++ {
		before := d.doneOf(i)
		after, err := d.request(ctx, i)
		if err == nil || ctx.Err() != nil || after < 0 {
			return err
		}
		if d.doneOf(i) > before {
			tries = 0
		}
		if tries+1 >= maxTries {
			return err
		}
		if err := d.h.wait(ctx, max(after, time.Second<<tries/2)); err != nil {
			return err
		}
	}
}

func (d *download) doneOf(i int) int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.state.Done[i]
}

// request makes one request for the rest of a chunk, or for the whole file. After an error, it returns for how long the server
// asks to wait, or -1 if it is in vain to try again.
func (d *download) request(ctx context.Context, i int) (time.Duration, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	idle := time.AfterFunc(d.h.idle, func() { cancel(&aycoder.TimeoutError{Elapsed: d.h.idle}) })
	defer idle.Stop()
	from, to, etag := d.span(i)
	resp, err := d.h.request(ctx, d.h.fileURL(d.repo, d.file), from, to, etag)
	if err != nil {
		return 0, cause(ctx, err)
	}
	defer resp.Body.Close()
	if after, err := d.check(resp, from, etag); err != nil {
		return after, err
	}
	body := &progressReader{r: resp.Body, read: func(int) { idle.Reset(d.h.idle) }}
	for from < to {
		n, err := d.copy(i, from, to, body)
		if from += n; err != nil {
			if errors.Is(err, errDisk) {
				return -1, err
			}
			return 0, cause(ctx, err)
		}
	}
	return 0, nil
}

// span returns what is missing of a chunk, or all of the file.
func (d *download) span(i int) (from, to int64, etag string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.ranges {
		clear(d.state.Done)
		return 0, d.state.Size, ""
	}
	start := int64(i) * d.state.Chunk
	return start + d.state.Done[i], start + d.state.length(i), d.state.Etag
}

// cause prefers the reason for which a context ended.
func cause(ctx context.Context, err error) error {
	if c := context.Cause(ctx); c != nil {
		return c
	}
	return plain(err)
}

// request asks for a part of a file. The entity tag is that of the version that is wanted.
func (h *Hub) request(ctx context.Context, url string, from, to int64, etag string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept-Encoding", "identity")
	req.Header.Set("Range", fmt.Sprintf("bytes=%d-%d", from, to-1))
	if etag != "" && !strings.HasPrefix(etag, "W/") {
		req.Header.Set("If-Range", etag)
	}
	return h.client.Do(req)
}

// check looks at the head of an answer. It returns what download.request does.
func (d *download) check(resp *http.Response, from int64, etag string) (time.Duration, error) {
	name := d.repo.ID + "/" + d.file.Path
	switch code := resp.StatusCode; {
	case code == http.StatusTooManyRequests || code >= 500:
		after, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
		return time.Duration(min(max(after, 0), 60)) * time.Second, failure("download", name, resp)
	case code == http.StatusForbidden && resp.Request.URL.Host != d.h.endpoint.Host, code == http.StatusRequestedRangeNotSatisfiable:
		return 0, failure("download", name, resp) // a redirect has expired
	case code != http.StatusOK && code != http.StatusPartialContent:
		return -1, failure("download", name, resp)
	}
	if got := resp.Header.Get("Etag"); etag != "" && got != etag {
		return -1, ErrChanged
	} else if etag == "" {
		d.mu.Lock()
		d.state.Etag = got
		d.mu.Unlock()
	}
	if resp.StatusCode == http.StatusOK {
		switch {
		case resp.ContentLength >= 0 && resp.ContentLength != d.file.Size:
			return 0, fmt.Errorf("the answer has %d bytes, the file %d", resp.ContentLength, d.file.Size)
		case d.ranges && d.begun():
			return 0, errNoRanges // until now it did
		case d.ranges:
			return -1, errNoRanges
		}
		return 0, nil
	}
	return 0, checkRange(resp, from, d.file.Size)
}

// checkRange checks that an answer begins where it should.
func checkRange(resp *http.Response, from, size int64) error {
	said := resp.Header.Get("Content-Range")
	span, total, _ := strings.Cut(strings.TrimPrefix(said, "bytes "), "/")
	first, _, _ := strings.Cut(span, "-")
	if first != strconv.FormatInt(from, 10) || total != strconv.FormatInt(size, 10) && total != "*" {
		return fmt.Errorf("the answer is about %q, not from byte %d of %d on", said, from, size)
	}
	return nil
}

var errDisk = errors.New("write")

// copy writes the next bytes of an answer to the file.
func (d *download) copy(i int, from, to int64, r io.Reader) (int64, error) {
	buf := make([]byte, min(to-from, 256<<10))
	n, err := r.Read(buf)
	if n > 0 {
		if _, err := d.part.WriteAt(buf[:n], from); err != nil {
			return 0, fmt.Errorf("%w: %w", errDisk, err)
		}
		d.mu.Lock()
		if d.ranges {
			d.state.Done[i] += int64(n)
		} else {
			for at, rest := from, int64(n); rest > 0; { // of the whole file
				c := int(at / d.state.Chunk)
				k := min(rest, int64(c+1)*d.state.Chunk-at)
				d.state.Done[c] += k
				at, rest = at+k, rest-k
			}
		}
		p := Progress{Status: "downloading", File: d.file.Path, Done: d.sum(), Total: d.file.Size}
		d.mu.Unlock()
		d.report(p)
	}
	if err == io.EOF && from+int64(n) < to {
		err = io.ErrUnexpectedEOF
	} else if err == io.EOF {
		err = nil
	}
	return int64(n), err
}

// A progressReader tells what was read.
type progressReader struct {
	r    io.Reader
	read func(int)
}

// Read implements [io.Reader].
func (p *progressReader) Read(b []byte) (int, error) {
	n, err := p.r.Read(b)
	p.read(n)
	return n, err
}

// finish verifies the file, and keeps it.
func (d *download) finish(ctx context.Context) error {
	if _, err := d.part.Seek(0, io.SeekStart); err != nil {
		return err
	}
	sum, err := hash(ctx, d.part, func(n int64) {
		d.report(Progress{Status: "verifying", File: d.file.Path, Done: n, Total: d.file.Size})
	})
	if err != nil {
		return err
	}
	if sum != d.file.SHA256 {
		d.part.Close()
		err := fmt.Errorf("%w: it is %s instead of %s", ErrHash, sum, d.file.SHA256)
		return errors.Join(err, d.root.Remove(d.blob+".state"), d.root.Remove(d.blob+".part"))
	}
	if err := errors.Join(d.h.sync(d.part), d.part.Close()); err != nil {
		return err
	}
	if err := d.root.Rename(d.blob+".part", d.blob); err != nil {
		return err
	}
	if err := d.root.Remove(d.blob + ".state"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// hash returns the SHA-256 of what it reads.
func hash(ctx context.Context, r io.Reader, report func(int64)) (string, error) {
	h, buf, total := sha256.New(), make([]byte, 4<<20), int64(0)
	for {
		if err := context.Cause(ctx); err != nil {
			return "", err
		}
		n, err := r.Read(buf)
		h.Write(buf[:n])
		total += int64(n)
		report(total)
		if err == io.EOF {
			return hex.EncodeToString(h.Sum(nil)), nil
		}
		if err != nil {
			return "", err
		}
	}
}
