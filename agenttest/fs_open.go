package agenttest

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/aycoder/aycoder/edit"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/workspace"
)

// The checks of files and directories.

// noise returns bytes of every value, in an order that shows a lost or doubled piece.
func noise(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i ^ i>>8 ^ i>>16)
	}
	return string(b)
}

func (s *fsSuite) content() {
	for _, n := range []int{0, 1, 511, 4096, 65535, 65536, 65537, 1 << 20, 1<<20 + 1, 3<<20 + 7} {
		want := noise(n)
		s.put("f", want)
		f, err := s.Open("f")
		if err != nil {
			s.wrong("Open of a file of %d bytes: %v", n, err)
			continue
		}
		if n > 1<<17 { // a larger one takes long, byte by byte
			got, err := io.ReadAll(struct{ io.Reader }{f})
			if err != nil || string(got) != want {
				s.wrong("Read of a file of %d bytes: %d bytes, %v", n, len(got), err)
			}
		} else if err := iotest.TestReader(struct{ io.Reader }{f}, []byte(want)); err != nil {
			s.wrong("Read of a file of %d bytes: %s", n, shortened(err.Error()))
		}
		f.Close()
		s.reads("f", want)
	}
}

func (s *fsSuite) stat() {
	for _, n := range []int{0, 100, 3 << 20} {
		s.put("d/name.txt", noise(n))
		mode := fs.FileMode(0o640)
		s.must(os.Chmod(filepath.Join(s.dir, "d", "name.txt"), mode))
		f, err := s.Open("d/name.txt")
		if err != nil {
			s.wrong("Open of a file of %d bytes: %v", n, err)
			continue
		}
		want, _ := os.Stat(filepath.Join(s.dir, "d", "name.txt"))
		info, err := f.Stat()
		switch {
		case err != nil:
			s.wrong("Stat: %v", err)
		case info.Size() != int64(n) || info.Mode() != want.Mode() || info.Name() != "name.txt" || info.IsDir():
			s.wrong("Stat = %d bytes, %s, %q, want %d, %s", info.Size(), info.Mode(), info.Name(), n, want.Mode())
		case !info.ModTime().Equal(want.ModTime()):
			s.wrong("Stat = %s, want the time %s", info.ModTime(), want.ModTime())
		}
		f.Close()
	}
}

func (s *fsSuite) replacedWhileOpen() {
	want := noise(3 << 20)
	s.put("f", want)
	f, err := s.Open("f")
	if err != nil {
		s.wrong("Open: %v", err)
		return
	}
	defer f.Close()
	first := make([]byte, 10)
	if _, err := io.ReadFull(f, first); err != nil {
		s.wrong("Read: %v", err)
	}
	s.put("g", "other")
	if err := os.Rename(filepath.Join(s.dir, "g"), filepath.Join(s.dir, "f")); err != nil {
		s.t.Skipf("an open file cannot be replaced here: %v", err)
	}
	rest, err := io.ReadAll(f)
	if got := string(first) + string(rest); err != nil || got != want {
		s.wrong("a file that was replaced while it was open reads %s (%v)", shown(got), err)
	}
	s.reads("f", "other")
}

func (s *fsSuite) closeFiles() {
	for _, n := range []int{10, 3 << 20} {
		s.put("f", noise(n))
		for range 400 { // more than may be open at a time
			f, err := s.Open("f")
			if err != nil {
				s.wrong("Open, after the others were closed: %v", err)
				return
			}
			if _, err := io.ReadFull(f, make([]byte, 5)); err != nil {
				s.wrong("Read: %v", err)
			}
			if err := f.Close(); err != nil {
				s.wrong("Close: %v", err)
			}
			if got, err := f.Read(make([]byte, 5)); got > 0 || err == nil {
				s.wrong("Read after Close returns %d bytes", got)
			}
			_ = f.Close()
			if n > 10 && (testing.Short() || timed.Reduced(s.t)) {
				break
			}
		}
	}
}

func (s *fsSuite) ownedByCaller() {
	s.put("a", "x")
	s.put("b", "x")
	all, err := s.ReadDir(s.t.Context(), ".")
	if err == nil {
		slices.Reverse(all)
		clear(all)
	}
	s.lists(".", "a", "b")
	f, err := s.Open("a")
	if err != nil {
		return
	}
	defer f.Close()
	got, _ := io.ReadAll(f)
	copy(got, bytes.Repeat([]byte("?"), len(got)))
	s.reads("a", "x")
}

func (s *fsSuite) sorted() {
	all := []string{"10", "9", "B", "Z", "_", "a", "a-b", "a.b", "aB", "a_b", "b", "ä"}
	slices.Sort(all)
	for _, name := range all {
		if strings.ToLower(name) != name && runtime.GOOS != "linux" {
			s.t.Skip("the names may be those of one file here")
		}
		s.put("d/"+name, "")
	}
	s.lists("d", all...)
}

func (s *fsSuite) types() {
	s.put("d/dir/x", "")
	s.put("d/file", "")
	want := map[string]fs.FileMode{"dir": fs.ModeDir, "file": 0}
	for name, to := range map[string]string{"to-dir": "dir", "to-file": "file", "to-nothing": "none", "to-outside": "../.."} {
		s.link(to, "d/"+name)
		want[name] = fs.ModeSymlink
	}
	all, err := s.ReadDir(s.t.Context(), "d")
	if err != nil || len(all) != len(want) {
		s.wrong("ReadDir = %q, %v, want %d entries", names(all), err, len(want))
	}
	for _, e := range all {
		if e.Type() != want[e.Name()] || e.IsDir() != want[e.Name()].IsDir() {
			s.wrong("the entry %q has the type %s, want %s", e.Name(), e.Type(), want[e.Name()])
		}
	}
}

func (s *fsSuite) emptyDirectory() {
	s.lists(".")
	s.must(os.Mkdir(filepath.Join(s.dir, "d"), 0o755))
	s.lists("d")
}

func (s *fsSuite) hiddenFiles() {
	for _, name := range []string{".a", ".git/HEAD", ".gitignore", "node_modules/x", "x.o", "~"} {
		s.put(name, "*.o\n")
	}
	s.put(".aycoder-ABCDEFGHIJKLMNOPQRSTUVWXYZ-0-new.tmp", "of a plan")
	s.lists(".", ".a", ".git", ".gitignore", "node_modules", "x.o", "~")
}

func (s *fsSuite) manyEntries() {
	var want []string
	for i := range 1200 {
		name := fmt.Sprintf("a-long-name-that-fills-some-space-%05d", i)
		want = append(want, name)
		s.put("d/"+name, "")
	}
	all, err := s.ReadDir(s.t.Context(), "d")
	if got := names(all); err != nil || !slices.Equal(got, want) {
		s.wrong("ReadDir of %d files returns %d of them, %v", len(want), len(got), err)
	}
}

func (s *fsSuite) pipes() {
	s.must(os.MkdirAll(filepath.Join(s.dir, "d"), 0o755))
	if runtime.GOOS == "windows" {
		s.t.Skip("there are no sockets in directories here")
	}
	// A socket in the place of a pipe, since package os cannot make one. A short name, as the system
	// bounds it.
	l, err := net.Listen("unix", filepath.Join(s.dir, "s"))
	if err != nil {
		s.t.Skipf("no sockets here: %v", err)
	}
	defer l.Close()
	_, err = s.Open("s")
	s.fails("Open of a socket", err, workspace.KindNotRegular)
	if makeFIFO(filepath.Join(s.dir, "p")) {
		_, err = s.Open("p")
		s.fails("Open of a pipe", err, workspace.KindNotRegular)
	}
}

func (s *fsSuite) seesChanges() {
	s.put("f", "one")
	s.reads("f", "one")
	s.lists(".", "f")
	s.put("f", "two")
	s.put("g", "new")
	s.reads("f", "two")
	s.lists(".", "f", "g")
	if _, err := s.apply(edit.File{Path: "f", Kind: edit.Change, Base: "two", Proposed: "three"}); err != nil {
		s.wrong("Apply: %v", err)
	}
	s.reads("f", "three")
	s.must(os.Remove(filepath.Join(s.dir, "g")))
	_, err := s.Open("g")
	s.fails("Open of a file that was deleted", err, workspace.KindNotFound)
	s.lists(".", "f")
}

func (s *fsSuite) concurrent() {
	const n = 8
	for i := range n {
		s.put(fmt.Sprintf("d%d/f", i), noise(1000*i))
		s.put(fmt.Sprintf("e%d", i), "old\n")
	}
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			for range 20 {
				s.reads(fmt.Sprintf("d%d/f", i), noise(1000*i))
				s.lists(fmt.Sprintf("d%d", i), "f")
			}
		})
		wg.Go(func() {
			name := fmt.Sprintf("e%d", i)
			if _, err := s.apply(edit.File{Path: name, Kind: edit.Change, Base: "old\n", Proposed: "new\n"}); err != nil {
				s.wrong("Apply beside others: %v", err)
			}
			s.is(name, "new\n")
		})
	}
	wg.Wait()
}
