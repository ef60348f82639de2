package plugin

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/aycoder/aycoder/internal/late"
	"github.com/aycoder/aycoder/internal/proc"
	"github.com/aycoder/aycoder/internal/regular"
	"github.com/aycoder/aycoder/internal/runes"
)

// Source says where a plugin comes from: a directory of this machine, or a commit of a repository.
type Source struct {
	// Path is a directory.
	Path string `json:"path,omitempty"`
	// Git is an address that begins with https://, ssh:// or file://. Nobody is asked for a password.
	Git string `json:"git,omitempty"`
	// Ref is the branch or tag to take, and Commit the full name of the commit. Stage sets Commit if it is "". Default:
	// the commit that the repository has checked out.
	Ref    string `json:"ref,omitempty"`
	Commit string `json:"commit,omitempty"`
	// Subdir is the directory in it that is the plugin. Default: the top.
	Subdir string `json:"subdir,omitempty"`
	// Name is the name of a plugin that has no manifest. Default: that of the directory, with hyphens for what a name cannot
	// have.
	Name string `json:"name,omitempty"`
}

// String returns the source in one line.
func (s Source) String() string {
	text := s.Path
	if s.Git != "" {
		text = s.Git
		if s.Commit != "" {
			text += "@" + s.Commit
		}
	}
	if s.Subdir != "" {
		text += ":" + s.Subdir
	}
	return runes.Path(text)
}

var (
	commitName = late.Regexp(`^([0-9a-f]{40}|[0-9a-f]{64})$`)
	refName    = late.Regexp(`^[A-Za-z0-9][A-Za-z0-9._/+-]*$`)
	hostName   = late.Regexp(`^[A-Za-z0-9\[]`)
)

// check returns what is wrong with a source.
func (s Source) check() error {
	switch {
	case (s.Path == "") == (s.Git == ""):
		return errors.New("needs a path or an address, and not both")
	case s.Subdir != "" && sane(path.Clean(s.Subdir)) != nil && path.Clean(s.Subdir) != ".":
		return fmt.Errorf("%.200q is not a directory in it", s.Subdir)
	case s.Commit != "" && !commitName().MatchString(s.Commit):
		return fmt.Errorf("%.100q is not the full name of a commit", s.Commit)
	case s.Ref != "" && (!refName().MatchString(s.Ref) || strings.Contains(s.Ref, "..")):
		return fmt.Errorf("%.100q is no branch or tag", s.Ref)
	case s.Git != "":
		return checkAddress(s.Git)
	}
	return nil
}

func checkAddress(address string) error {
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return fmt.Errorf("the address %.200q is not understood", address)
	case u.Scheme == "file" && u.Host == "" && path.IsAbs(u.Path):
		return nil
	case u.Scheme != "https" && u.Scheme != "ssh":
		return fmt.Errorf("the address %.200q begins with none of https://, ssh:// and file:///", address)
	case !hostName().MatchString(u.Hostname()) || u.User != nil && strings.HasPrefix(u.User.Username(), "-"):
		return fmt.Errorf("the address %.200q has no host", address)
	}
	if _, secret := u.User.Password(); secret || u.Scheme == "https" && u.User != nil {
		return errors.New("the address has a password, which would be stored")
	}
	return nil
}

var errNoDirectory = errors.New("is not a directory")

// A copier writes the files of a plugin into a directory.
type copier struct {
	root  *os.Root
	count int
	bytes int64
	left  []string // links, pipes and the like, which are not copied
}

func (c *copier) put(name string, run bool, r io.Reader, size int64) error {
	if c.count++; c.count > maxFiles {
		return errMany
	}
	if err := sane(name); err != nil {
		return &fs.PathError{Op: "copy", Path: name, Err: err}
	}
	if size > maxFile {
		return &fs.PathError{Op: "copy", Path: name, Err: errLarge}
	}
	if c.bytes += size; c.bytes > maxAll {
		return errAll
	}
	local := filepath.FromSlash(name)
	if err := c.root.MkdirAll(filepath.Dir(local), 0o700); err != nil {
		return err
	}
	mode := fs.FileMode(0o600)
	if run {
		mode = 0o700
	}
	f, err := c.root.OpenFile(local, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	n, err := io.Copy(f, io.LimitReader(r, size))
	if err == nil && n != size {
		err = io.ErrUnexpectedEOF
	}
	return errors.Join(err, f.Close())
}

// fetch copies what a source has into a directory, and returns the source with its commit, and what is left out.
func fetch(ctx context.Context, s Source, to string) (_ Source, left []string, err error) {
	if err := s.check(); err != nil {
		return s, nil, err
	}
	root, err := os.OpenRoot(to)
	if err != nil {
		return s, nil, err
	}
	defer root.Close()
	c := &copier{root: root}
	if s.Git != "" {
		s, err = c.git(ctx, s)
		return s, c.left, err
	}
	if s.Path, err = filepath.Abs(s.Path); err == nil {
		err = c.directory(ctx, s.Path, filepath.FromSlash(s.Subdir))
	}
	return s, c.left, err
}

// directory copies a directory, or one below it to which no link leads out.
func (c *copier) directory(ctx context.Context, dir, below string) error {
	if info, err := os.Stat(dir); err != nil || !info.IsDir() { // a pipe would make the program wait
		return cmp.Or(err, error(&fs.PathError{Op: "open", Path: dir, Err: errNoDirectory}))
	}
	from, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer from.Close()
	if info, err := from.Stat(cmp.Or(below, ".")); err != nil || !info.IsDir() {
		return cmp.Or(err, error(&fs.PathError{Op: "open", Path: below, Err: errNoDirectory}))
	}
	if below != "" {
		if from, err = from.OpenRoot(below); err != nil {
			return err
		}
		defer from.Close()
	}
	w := walker{root: from, copies: true, left: func(name string) { c.left = append(c.left, name) }}
	w.visit = func(name string, info fs.FileInfo) error {
		data, err := regular.ReadIn(from, filepath.FromSlash(name), maxFile)
		if err != nil {
			return err
		}
		return c.put(name, info.Mode()&0o100 != 0, bytes.NewReader(data), int64(len(data)))
	}
	return w.walk(ctx, ".")
}

// longestFetch bounds what git does.
const longestFetch = 5 * time.Minute

// git copies the files of a commit. Nothing is checked out: the objects are read one by one, so that no filter, hook,
// attribute or module of the repository counts.
func (c *copier) git(ctx context.Context, s Source) (Source, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, longestFetch, fmt.Errorf("git took longer than %s", longestFetch))
	defer cancel()
	tmp, err := os.MkdirTemp("", "plugin-")
	if err != nil {
		return s, err
	}
	defer os.RemoveAll(tmp)
	g := repository{ctx, tmp}
	if _, err := g.run("init", "--quiet", "--bare", "--template=", tmp); err != nil {
		return s, err
	}
	want := cmp.Or(s.Commit, s.Ref, "HEAD")
	if _, err := g.run("fetch", "--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head",
		"--no-auto-maintenance", "--", s.Git, want+":refs/plugin"); err != nil {
		return s, err
	}
	out, err := g.run("rev-parse", "--verify", "--end-of-options", "refs/plugin^{commit}")
	if err != nil {
		return s, err
	}
	commit := strings.TrimSpace(string(out))
	if s.Commit != "" && commit != s.Commit {
		return s, fmt.Errorf("the repository has sent the commit %.80q", commit)
	}
	s.Commit = commit
	tree := commit + ":" + strings.TrimPrefix(path.Clean("/"+s.Subdir), "/")
	list, err := g.run("ls-tree", "-r", "-z", "-l", "--full-tree", "--end-of-options", tree)
	if err != nil {
		return s, err
	}
	return s, c.objects(g, list)
}

// objects copies the files of a list of ls-tree. Links and modules are left out.
func (c *copier) objects(g repository, list []byte) error {
	cat := g.command("cat-file", "--batch")
	in, err := cat.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cat.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cat.Start(); err != nil {
		return err
	}
	err = c.batch(list, in, bufio.NewReader(out))
	if err != nil {
		_ = cat.Cancel() // so that Wait does not wait for its output
	}
	if waited := errors.Join(in.Close(), cat.Wait()); err == nil {
		err = waited
	}
	if cause := context.Cause(g.ctx); cause != nil {
		return cause
	}
	return err
}

func (c *copier) batch(list []byte, in io.Writer, out *bufio.Reader) error {
	for e := range bytes.SplitSeq(bytes.TrimSuffix(list, []byte{0}), []byte{0}) {
		head, name, ok := strings.Cut(string(e), "\t") // mode SP type SP object SP+ size TAB name, see git-ls-tree(1)
		f := strings.Fields(head)
		if !ok || len(f) != 4 {
			continue
		}
		if f[0] != "100644" && f[0] != "100755" {
			c.left = append(c.left, name)
			continue
		}
		size, err := strconv.ParseInt(f[3], 10, 64)
		if err != nil {
			return err
		}
		if size > maxFile {
			return &fs.PathError{Op: "copy", Path: name, Err: errLarge}
		}
		if _, err := fmt.Fprintln(in, f[2]); err != nil {
			return err
		}
		if answer, err := out.ReadString('\n'); err != nil || answer != fmt.Sprintf("%s blob %d\n", f[2], size) {
			return fmt.Errorf("git says %.100q about %.200q", answer, name)
		}
		if err := c.put(name, f[0] == "100755", out, size); err != nil {
			return err
		}
		if _, err := out.Discard(1); err != nil {
			return err
		}
	}
	return nil
}

// A repository is a bare one for what is fetched.
type repository struct {
	ctx context.Context
	dir string
}

// command makes a command of git. The user's settings count, as they may be needed to reach the address.
func (g repository) command(args ...string) *exec.Cmd {
	safe := []string{
		"-c", "core.hooksPath=" + os.DevNull, "-c", "core.fsmonitor=false", "-c", "core.askPass=", "-c", "credential.interactive=false",
		"-c", "fetch.recurseSubmodules=false", "-c", "transfer.bundleURI=false", "-c", "core.bigFileThreshold=16m", "-C", g.dir,
	}
	argv := append([]string{"git"}, append(safe, args...)...)
	if runtime.GOOS != "windows" { // which has no limits of files
		argv = append([]string{"sh", "-c", "ulimit -f " + strconv.Itoa(maxPack>>9) + ` && exec "$@"`, "sh"}, argv...)
	}
	cmd := exec.CommandContext(g.ctx, argv[0], argv[1:]...)
	proc.Alone(cmd)
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "GIT_") || strings.HasPrefix(v, "GIT_SSL_") || strings.HasPrefix(v, "GIT_CONFIG_") ||
			strings.HasPrefix(v, "GIT_SSH") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.Env = append(cmd.Env, "GIT_ALLOW_PROTOCOL=https:ssh:file", "GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=", "SSH_ASKPASS_REQUIRE=never",
		"GIT_NO_LAZY_FETCH=1", "GIT_LFS_SKIP_SMUDGE=1", "LC_ALL=C")
	if os.Getenv("GIT_SSH_COMMAND") == "" {
		cmd.Env = append(cmd.Env, "GIT_SSH_COMMAND=ssh -o BatchMode=yes")
	}
	cmd.WaitDelay = time.Second
	return cmd
}

// maxPack bounds what a server may send.
const maxPack = 256 << 20 // bytes of a file

const maxList = 4 << 20 // bytes of the output of git

// run runs a command of git, and returns its output.
func (g repository) run(args ...string) ([]byte, error) {
	cmd := g.command(args...)
	out, said := &bounded{most: maxList, stops: true}, &bounded{most: 4 << 10}
	cmd.Stdout, cmd.Stderr = out, said
	err := cmd.Run()
	switch {
	case context.Cause(g.ctx) != nil:
		return nil, context.Cause(g.ctx)
	case out.cut:
		return nil, fmt.Errorf("git %s: %w", args[0], errMany)
	case err != nil:
		return nil, fmt.Errorf("git %s: %w: %s", args[0], err, line(said.String()))
	}
	return out.Bytes(), nil
}

// bounded keeps the beginning of what is written.
type bounded struct {
	bytes.Buffer
	most  int
	stops bool // an error ends what writes too much
	cut   bool
}

// Write implements io.Writer.
func (b *bounded) Write(p []byte) (int, error) {
	n := min(len(p), b.most-b.Len())
	b.Buffer.Write(p[:n])
	if b.cut = b.cut || n < len(p); b.cut && b.stops {
		return n, errMany
	}
	return len(p), nil
}
