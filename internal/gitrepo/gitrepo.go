// Package gitrepo reads what the commit holds that is checked out in a directory.
package gitrepo

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

const (
	maxTree = 64 << 20         // bytes of the list of committed files that are read
	gitTime = 30 * time.Second // for one command
	stall   = 5 * time.Minute  // of git log with a commit of many renamed files
)

// Repo knows what the commit holds that is checked out in a workspace. It only believes what it
// can check: a file is the same as a blob if its bytes have the name of the blob.
//
// The repository may be hostile. The commands that run here read neither the index nor the work
// tree, so that no filter, hook or file monitor runs. A blob that is missing in a partial clone
// would be fetched, which can run a program of the repository's configuration: git therefore finds
// no program that it could start, not even itself. So it reads repositories of other users, too: git
// would not, unless the configuration of the user allows it, which is not read.
type Repo struct {
	Dir string // of the work tree
	Own bool   // repositories of other users, who can take away what they hold, are not read
	// Stall is how long git may read or compute without writing anything, before it is ended. A file of the
	// repository can be a pipe that nobody writes to. Default: 5 minutes.
	Stall time.Duration

	tree  string
	names map[string]string // the blob of a committed file, or "tree"
}

// run is Run for a command that takes no longer than gitTime.
func (r *Repo) run(ctx context.Context, in io.Reader, out func(io.Reader) error, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, gitTime)
	defer cancel()
	return r.Run(ctx, in, out, args...)
}

// Run runs git. Its output ends at an error or when out returns one. args must be of a command that reads neither the
// index nor the work tree, and have the flags that keep it from starting programs.
func (r *Repo) Run(ctx context.Context, in io.Reader, out func(io.Reader) error, args ...string) error {
	program, err := exec.LookPath("git")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	flags := []string{"--no-replace-objects", "--no-optional-locks"}
	if !r.Own {
		flags = append(flags, "-c", "safe.directory=*")
	}
	cmd := exec.CommandContext(ctx, program, append(flags, args...)...)
	cmd.Dir, cmd.Stdin, cmd.WaitDelay = r.Dir, in, time.Second
	none := os.DevNull + "/none"
	cmd.Env = []string{"PATH=" + none, "GIT_EXEC_PATH=" + none, "HOME=" + none, "LC_ALL=C",
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=" + os.DevNull, "GIT_NO_LAZY_FETCH=1",
		"GIT_ALLOW_PROTOCOL=none", "GIT_TERMINAL_PROMPT=0", "SYSTEMROOT=" + os.Getenv("SYSTEMROOT")}
	said := &head{}
	cmd.Stderr = said
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	w := &watched{Reader: pipe, limit: cmp.Or(r.Stall, stall)}
	w.timer = time.AfterFunc(w.limit, func() { cancel(fmt.Errorf("git has written nothing for %v", w.limit)) })
	defer w.timer.Stop()
	err = out(w)
	if err != nil {
		cancel(nil)
	}
	w.timer.Reset(w.limit) // for its end
	end := cmd.Wait()
	if cause := context.Cause(ctx); err == nil && end != nil && cause != nil {
		err = cause
	}
	if end != nil && len(said.text) > 0 {
		return errors.Join(err, fmt.Errorf("%w: %s", end, bytes.TrimSpace(said.text)))
	} else if end != nil {
		return errors.Join(err, end)
	}
	return err
}

// Text is Run for a command that prints little. It returns what it has printed, at most 64 KiB.
func (r *Repo) Text(ctx context.Context, args ...string) (text string, err error) {
	err = r.Run(ctx, nil, func(in io.Reader) error {
		data, err := io.ReadAll(io.LimitReader(in, 64<<10))
		text = string(data)
		return err
	}, args...)
	return text, err
}

// watched is the output of a program, whose reader has a timer that runs while it waits.
type watched struct {
	io.Reader
	timer *time.Timer
	limit time.Duration
}

// Read implements [io.Reader].
func (w *watched) Read(p []byte) (int, error) {
	w.timer.Reset(w.limit)
	defer w.timer.Stop()
	return w.Reader.Read(p)
}

// head keeps the beginning of what is written.
type head struct{ text []byte }

// Write implements [io.Writer].
func (h *head) Write(p []byte) (int, error) {
	h.text = append(h.text, p[:min(len(p), maxSaid-len(h.text))]...)
	return len(p), nil
}

const maxSaid = 1000 // bytes

// Load reads the list of committed files if another tree is checked out. Without a repository, or
// if git does not want to read it, there are none. The error is that of ctx.
func (r *Repo) Load(ctx context.Context) error {
	var tree []byte
	err := r.run(ctx, nil, func(in io.Reader) (err error) {
		tree, err = io.ReadAll(io.LimitReader(in, 200))
		return err
	}, "rev-parse", "-q", "--verify", "HEAD^{tree}")
	now := strings.TrimSpace(string(tree))
	if err != nil {
		now = ""
	}
	if now == r.tree || ctx.Err() != nil {
		return context.Cause(ctx)
	}
	r.tree, r.names = now, map[string]string{}
	if now == "" {
		return nil
	}
	if err := r.run(ctx, nil, r.list, "ls-tree", "-r", "-t", "-l", "-z", now); err != nil {
		clear(r.names)
	}
	if ctx.Err() != nil {
		r.tree, r.names = "", nil // to be read again
	}
	return context.Cause(ctx)
}

// list takes the names of what is committed. A blob without a size is missing, as in a partial clone; older versions of git
// fail at such a blob.
func (r *Repo) list(in io.Reader) error {
	return entries(io.LimitReader(in, maxTree), func(about []string, name string) {
		if len(about) != 4 {
			return
		}
		_, err := strconv.ParseInt(about[3], 10, 64)
		switch {
		case about[1] == "tree":
			r.names[name] = "tree"
		case about[1] == "blob" && err == nil:
			r.names[name] = about[2]
		}
	})
}

// Tree calls a function with the mode, the type and the id of each file of the commit that is checked out, and its path. With
// the flag "-l", there is the size besides, or a hyphen.
func (r *Repo) Tree(ctx context.Context, each func(about []string, name string), flags ...string) error {
	return r.Run(ctx, nil, func(in io.Reader) error { return entries(in, each) },
		append(append([]string{"ls-tree", "-r", "-z", "--full-tree"}, flags...), "HEAD")...)
}

// entries reads the output of git ls-tree: "mode type id size\tpath\0".
func entries(in io.Reader, each func(about []string, name string)) error {
	lines := bufio.NewReaderSize(in, 64<<10)
	for {
		line, err := lines.ReadString(0)
		if err == io.EOF && line == "" {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the list of committed files: %w", err)
		}
		about, name, _ := strings.Cut(strings.TrimSuffix(line, "\x00"), "\t")
		each(strings.Fields(about), name)
	}
}

// Holds reports whether a file of this name, or a directory with files in it, is committed.
func (r *Repo) Holds(name string, isDir bool) bool {
	id := r.names[name]
	return id != "" && (id == "tree") == isDir
}

// BlobOf returns the blob that is committed under this name, if it has exactly these bytes.
func (r *Repo) BlobOf(name string, data []byte) string {
	if id := r.names[name]; id != "" && blobID(data, len(id)) == id {
		return id
	}
	return ""
}

// blobID returns the name that git gives to a blob, which has 40 or 64 digits.
func blobID(data []byte, digits int) string {
	var h hash.Hash
	switch digits {
	case 2 * sha1.Size:
		h = sha1.New()
	case 2 * sha256.Size:
		h = sha256.New()
	default:
		return ""
	}
	h.Write([]byte("blob " + strconv.Itoa(len(data)) + "\x00"))
	h.Write(data)
	return hex.EncodeToString(h.Sum(nil))
}

// Contents returns the contents of blobs, of which the sizes are known. It leaves out those that
// the repository does not have, or that have other bytes than their names say.
func (r *Repo) Contents(ctx context.Context, sizes map[string]int64) map[string][]byte {
	out := map[string][]byte{}
	var ids strings.Builder
	for id := range sizes {
		if strings.Trim(id, "0123456789abcdef") == "" {
			ids.WriteString(id + "\n")
		}
	}
	if ids.Len() == 0 {
		return out
	}
	_ = r.run(ctx, strings.NewReader(ids.String()), func(in io.Reader) error {
		lines := bufio.NewReader(in)
		for {
			head, err := lines.ReadString('\n')
			if err != nil {
				return nil // what is missing is missing
			}
			words := strings.Fields(head) // id, type and size, or the id and why there is none
			if len(words) != 3 {
				continue
			}
			id := words[0]
			size, ok := sizes[id]
			if !ok || words[2] != strconv.FormatInt(size, 10) {
				return errors.New("not the blob that was asked for")
			}
			var data bytes.Buffer
			if _, err := io.CopyN(&data, lines, size); err != nil {
				return nil
			}
			if blobID(data.Bytes(), len(id)) == id {
				out[id] = data.Bytes()
			}
			_, _ = lines.ReadByte() // a line feed
		}
	}, "cat-file", "--batch")
	return out
}
