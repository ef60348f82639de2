package session

import (
	"bufio"
	"bytes"
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
)

// gitRepo knows what the commit holds that is checked out in a workspace. It only believes what it
// can check: a file is the same as a blob if its bytes have the name of the blob.
//
// The repository may be hostile. The commands that run here read neither the index nor the work
// tree, so that no filter, hook or file monitor runs. A blob that is missing in a partial clone
// would be fetched, which can run a program of the repository's configuration: git therefore finds
// no program that it could start, not even itself.
type gitRepo struct {
	dir   string
	tree  string
	blobs map[string]string // by path
	dirs  map[string]bool   // with committed files in them
}

// run runs git. Its output ends at an error or when out returns one.
func (r *gitRepo) run(ctx context.Context, in io.Reader, out func(io.Reader) error, args ...string) error {
	program, err := exec.LookPath("git")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, gitTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, append([]string{"--no-replace-objects", "--no-optional-locks"}, args...)...)
	cmd.Dir, cmd.Stdin, cmd.WaitDelay = r.dir, in, time.Second
	none := os.DevNull + "/none"
	cmd.Env = []string{"PATH=" + none, "GIT_EXEC_PATH=" + none, "HOME=" + none, "LC_ALL=C",
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=" + os.DevNull, "GIT_NO_LAZY_FETCH=1",
		"GIT_ALLOW_PROTOCOL=none", "GIT_TERMINAL_PROMPT=0", "SYSTEMROOT=" + os.Getenv("SYSTEMROOT")}
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	err = out(pipe)
	if err != nil {
		cancel()
	}
	return errors.Join(err, cmd.Wait())
}

// load reads the list of committed files if another tree is checked out. Without a repository, or
// if git does not want to read it, there are none. The error is that of ctx.
func (r *gitRepo) load(ctx context.Context) error {
	var tree []byte
	err := r.run(ctx, nil, func(in io.Reader) (err error) {
		tree, err = io.ReadAll(io.LimitReader(in, 200))
		return err
	}, "rev-parse", "-q", "--verify", "HEAD^{tree}")
	now := strings.TrimSpace(string(tree))
	if err != nil {
		now = ""
	}
	if now == r.tree && r.blobs != nil || ctx.Err() != nil {
		return context.Cause(ctx)
	}
	r.tree, r.blobs, r.dirs = now, map[string]string{}, map[string]bool{}
	if now == "" {
		return nil
	}
	if err = r.run(ctx, nil, r.list, "ls-tree", "-r", "-z", "HEAD"); err == nil {
		err = r.check(ctx)
	}
	if err != nil {
		r.blobs, r.dirs = map[string]string{}, map[string]bool{}
	}
	if ctx.Err() != nil {
		r.blobs = nil // to be read again
	}
	return context.Cause(ctx)
}

// list reads the entries "mode type id\tpath\0".
func (r *gitRepo) list(in io.Reader) error {
	lines := bufio.NewReaderSize(io.LimitReader(in, maxTree), 64<<10)
	for {
		line, err := lines.ReadString(0)
		if err == io.EOF && line == "" {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the list of committed files: %w", err)
		}
		about, name, _ := strings.Cut(strings.TrimSuffix(line, "\x00"), "\t")
		words := strings.Fields(about)
		if len(words) != 3 || words[1] != "blob" {
			continue
		}
		r.blobs[name] = words[2]
		dirsAbove(name, func(dir string) bool {
			known := r.dirs[dir]
			r.dirs[dir] = true
			return !known
		})
	}
}

// check forgets the blobs that the repository does not have, as in a partial clone.
func (r *gitRepo) check(ctx context.Context) error {
	var ids strings.Builder
	for _, id := range r.blobs {
		ids.WriteString(id + "\n")
	}
	missing := map[string]bool{}
	err := r.run(ctx, strings.NewReader(ids.String()), func(in io.Reader) error {
		lines := bufio.NewScanner(in)
		for lines.Scan() {
			if id, ok := strings.CutSuffix(lines.Text(), " missing"); ok {
				missing[id] = true
			}
		}
		return lines.Err()
	}, "cat-file", "--batch-check", "--buffer")
	if err != nil { // a partial clone: git stops at the first blob that it would have to fetch
		clear(r.blobs)
	}
	for name, id := range r.blobs {
		if missing[id] {
			delete(r.blobs, name)
		}
	}
	return context.Cause(ctx)
}

// holds reports whether a name, or a file in the directory of this name, is committed.
func (r *gitRepo) holds(name string, isDir bool) bool {
	return isDir && r.dirs[name] || !isDir && r.blobs[name] != ""
}

// blobOf returns the blob that is committed under this name, if it has exactly these bytes.
func (r *gitRepo) blobOf(name string, kind FileKind, data []byte) string {
	if id := r.blobs[name]; id != "" && kind == KindFile && blobID(data, len(id)) == id {
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

// contents returns the contents of blobs, of which the sizes are known. It leaves out those that
// the repository does not have, or that have other bytes than their names say.
func (r *gitRepo) contents(ctx context.Context, sizes map[string]int64) map[string][]byte {
	out := map[string][]byte{}
	var ids []string
	for id := range sizes {
		if strings.Trim(id, "0123456789abcdef") == "" {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return out
	}
	read := func(in io.Reader) error {
		lines := bufio.NewReader(in)
		for {
			head, err := lines.ReadString('\n')
			if err != nil {
				return nil // what is missing is missing
			}
			words := strings.Fields(head)
			if len(words) != 3 {
				continue
			}
			size, err := strconv.ParseInt(words[2], 10, 64)
			if want, ok := sizes[words[0]]; err != nil || !ok || size != want {
				return errors.New("not the blob that was asked for")
			}
			var data bytes.Buffer
			if _, err := io.CopyN(&data, lines, size); err != nil {
				return nil
			}
			if blobID(data.Bytes(), len(words[0])) == words[0] {
				out[words[0]] = data.Bytes()
			}
			if _, err := lines.ReadByte(); err != nil {
				return nil
			}
		}
	}
	// A blob that would have to be fetched ends the process, so those left are asked for anew.
	for len(ids) > 0 && ctx.Err() == nil {
		before := len(out)
		_ = r.run(ctx, strings.NewReader(strings.Join(ids, "\n")+"\n"), read, "cat-file", "--batch")
		var left []string
		for _, id := range ids {
			if out[id] == nil {
				left = append(left, id)
			}
		}
		if len(out) == before {
			left = left[min(1, len(left)):]
			if len(left) > 100 {
				break
			}
		}
		ids = left
	}
	return out
}
