package agenttest

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/aycoder/aycoder/edit"
	"github.com/aycoder/aycoder/tools"
	"github.com/aycoder/aycoder/workspace"
)

// fsSuite is one check of a [tools.FS].
type fsSuite struct {
	tools.FS
	t     testing.TB
	found *findings
	base  string // has ws and what is outside of it
	dir   string // of the files, on this machine
}

// TestFS tests that a file system of the tools keeps the contract of [tools.FS], with a subtest for
// each of its sentences. The function newFS returns the files of dir, an existing directory of this
// machine; a file system of another machine or a container can reach it by a mount. The suite writes
// the files, and looks at them, with package os. If the file system implements [tools.RemoteFS], that
// is tested too.
func TestFS(t *testing.T, newFS func(t testing.TB, dir string) tools.FS) {
	for _, c := range fsChecks {
		t.Run(c.name, func(t *testing.T) {
			s := newFSSuite(t, newFS)
			c.check(s)
			s.found.report(t)
		})
	}
}

func newFSSuite(t testing.TB, newFS func(t testing.TB, dir string) tools.FS) *fsSuite {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	s := &fsSuite{t: t, found: &findings{}, base: base, dir: filepath.Join(base, "ws")}
	if err == nil {
		err = os.Mkdir(s.dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	s.FS = newFS(t, s.dir)
	return s
}

// fsChecks are the checks of the suite, in the order of the contract.
var fsChecks = []struct {
	name  string
	check func(*fsSuite)
}{
	{"Dir", (*fsSuite).dirIsFixed},
	{"Rel", (*fsSuite).relIsClean},
	{"RelDoesNotAccess", (*fsSuite).relDoesNotAccess},
	{"SameFile", (*fsSuite).sameFile},
	{"NamesOutside", (*fsSuite).namesOutside},
	{"LinksOutside", (*fsSuite).linksOutside},
	{"LinksInside", (*fsSuite).linksInside},
	{"InvalidNames", (*fsSuite).invalidNames},
	{"AnyBytesInNames", (*fsSuite).anyBytesInNames},
	{"Kinds", (*fsSuite).kinds},
	{"Pipes", (*fsSuite).pipes},
	{"Secrets", (*fsSuite).secrets},
	{"Content", (*fsSuite).content},
	{"Stat", (*fsSuite).stat},
	{"ReplacedWhileOpen", (*fsSuite).replacedWhileOpen},
	{"Close", (*fsSuite).closeFiles},
	{"Sorted", (*fsSuite).sorted},
	{"Types", (*fsSuite).types},
	{"EmptyDirectory", (*fsSuite).emptyDirectory},
	{"HiddenFiles", (*fsSuite).hiddenFiles},
	{"ManyEntries", (*fsSuite).manyEntries},
	{"OwnedByCaller", (*fsSuite).ownedByCaller},
	{"SeesChanges", (*fsSuite).seesChanges},
	{"Cancelled", (*fsSuite).cancelled},
	{"Concurrent", (*fsSuite).concurrent},
	{"ApplyWrites", (*fsSuite).applyWrites},
	{"ApplyResult", (*fsSuite).applyResult},
	{"ApplyWhole", (*fsSuite).applyWhole},
	{"ApplyMerges", (*fsSuite).applyMerges},
	{"ApplyConflicts", (*fsSuite).applyConflicts},
	{"ApplyBesideSaves", (*fsSuite).applyBesideSaves},
	{"ApplyMode", (*fsSuite).applyMode},
	{"ApplyApproved", (*fsSuite).applyApproved},
	{"ApplyProtected", (*fsSuite).applyProtected},
	{"ApplyUndo", (*fsSuite).applyUndo},
	{"Seen", (*fsSuite).seenIsFixed},
	{"Within", (*fsSuite).within},
	{"Ahead", (*fsSuite).ahead},
	{"OpenFiles", (*fsSuite).openFiles},
	{"Err", (*fsSuite).noError},
	{"Tools", (*fsSuite).sameAsLocal},
}

// wrong reports that the file system broke a sentence of the contract.
func (s *fsSuite) wrong(format string, args ...any) { s.found.add("files", format, args...) }

// put writes a file with package os.
func (s *fsSuite) put(name, text string) {
	s.t.Helper()
	full := filepath.Join(s.dir, filepath.FromSlash(name))
	err := os.MkdirAll(filepath.Dir(full), 0o755)
	if err == nil {
		err = os.WriteFile(full, []byte(text), 0o644)
	}
	s.must(err)
}

// must ends the test if the suite itself cannot work.
func (s *fsSuite) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// link makes a symbolic link with package os. It skips the check where there are none.
func (s *fsSuite) link(to, name string) {
	s.t.Helper()
	if err := os.Symlink(filepath.FromSlash(to), filepath.Join(s.dir, filepath.FromSlash(name))); err != nil {
		s.t.Skipf("no symbolic links here: %v", err)
	}
}

// on returns what is in a file, with package os, or "" and false.
func (s *fsSuite) on(name string) (string, bool) {
	data, err := os.ReadFile(filepath.Join(s.dir, filepath.FromSlash(name)))
	return string(data), err == nil
}

// is checks what is in a file, with package os.
func (s *fsSuite) is(name, want string) {
	if got, ok := s.on(name); !ok || got != want {
		s.wrong("%s is %s on the disk (exists: %v), want %s", name, shown(got), ok, shown(want))
	}
}

// read opens and reads a file.
func (s *fsSuite) read(name string) (string, error) {
	f, err := s.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	data, err := io.ReadAll(f)
	return string(data), err
}

// reads checks what Open reads.
func (s *fsSuite) reads(name, want string) {
	if got, err := s.read(name); err != nil || got != want {
		s.wrong("Open(%q) reads %s (%v), want %s", name, shown(got), err, shown(want))
	}
}

// names returns the names of entries.
func names(all []fs.DirEntry) []string {
	out := []string{}
	for _, e := range all {
		if e == nil {
			out = append(out, "<nil>")
			continue
		}
		out = append(out, e.Name())
	}
	return out
}

// lists checks the names that ReadDir returns.
func (s *fsSuite) lists(name string, want ...string) {
	all, err := s.ReadDir(s.t.Context(), name)
	if got := names(all); err != nil || !slices.Equal(got, want) {
		s.wrong("ReadDir(%q) = %q, %v, want %q", name, got, err, want)
	}
}

// fails checks the type and the kind of an error.
func (s *fsSuite) fails(what string, err error, want ...workspace.ErrorKind) {
	if e, ok := errors.AsType[*workspace.Error](err); !ok || !slices.Contains(want, e.Kind) || e.Err == nil {
		s.wrong("%s: the error is %v, want a *workspace.Error of kind %q", what, err, want)
	}
}

// allFail checks that no method accepts a name.
func (s *fsSuite) allFail(name string, want ...workspace.ErrorKind) {
	f, err := s.Open(name)
	if err == nil {
		f.Close()
	}
	s.fails(fmt.Sprintf("Open(%q)", shortened(name)), err, want...)
	_, err = s.ReadDir(s.t.Context(), name)
	s.fails(fmt.Sprintf("ReadDir(%q)", shortened(name)), err, want...)
}

func shortened(name string) string { return name[:min(len(name), 60)] }

func (s *fsSuite) dirIsFixed() {
	dir := s.Dir()
	if !filepath.IsAbs(dir) || filepath.Clean(dir) != dir || s.Dir() != dir {
		s.wrong("Dir() = %q and %q, want the same absolute path", dir, s.Dir())
	}
}

func (s *fsSuite) relIsClean() {
	dir := s.Dir()
	for name, want := range map[string]string{
		".": ".", "a": "a", "./a//b/": "a/b", "a/../b": "b", "..a/b...": "..a/b...", " ": " ",
		dir: ".", filepath.Join(dir, "a", "b"): "a/b", dir + string(filepath.Separator): ".",
	} {
		if got, err := s.Rel(name); err != nil || got != want {
			s.wrong("Rel(%q) = %q, %v, want %q", name, got, err, want)
		}
	}
	for _, name := range []string{"..", "../ws", "a/../../b", filepath.Dir(dir), dir + "x", filepath.Join(dir, "..", "x")} {
		got, err := s.Rel(name)
		s.fails(fmt.Sprintf("Rel(%q) = %q", name, got), err, workspace.KindOutsideWorkspace)
	}
}

func (s *fsSuite) relDoesNotAccess() {
	s.link("../outside", "out")
	for _, name := range []string{"none/such/file", "out/file"} {
		if got, err := s.Rel(name); err != nil || got != name {
			s.wrong("Rel(%q) = %q, %v, although it does not look at files", name, got, err)
		}
	}
}

func (s *fsSuite) sameFile() {
	s.put("d/f", "text")
	for _, name := range []string{"d/f", "./d//f", "d/../d/f", filepath.Join(s.Dir(), "d", "f")} {
		s.reads(name, "text")
	}
	for _, name := range []string{"d", "./d/", "d/../d", filepath.Join(s.Dir(), "d")} {
		s.lists(name, "f")
	}
	s.lists(s.Dir(), "d")
}

func (s *fsSuite) namesOutside() {
	s.must(os.WriteFile(filepath.Join(s.base, "secret"), []byte("outside"), 0o644))
	for _, name := range []string{"../secret", "..", "x/../../secret", filepath.Dir(s.Dir()), "/etc", s.Dir() + "/../secret"} {
		s.allFail(name, workspace.KindOutsideWorkspace)
		if plan, err := edit.NewPlan(edit.File{Path: name, Kind: edit.Create, Proposed: "x"}); err == nil {
			_, err = s.Apply(s.t.Context(), plan, workspace.WithApproved(plan.Digest()))
			s.fails(fmt.Sprintf("Apply creates %q", name), err, workspace.KindOutsideWorkspace)
		}
	}
	if data, _ := os.ReadFile(filepath.Join(s.base, "secret")); string(data) != "outside" {
		s.wrong("a file outside of the directory was changed")
	}
}

func (s *fsSuite) linksOutside() {
	s.must(os.MkdirAll(filepath.Join(s.base, "out", "d"), 0o755))
	secret := filepath.Join(s.base, "out", "f")
	s.must(os.WriteFile(secret, []byte("outside"), 0o644))
	s.link("../out", "rel")
	s.link(filepath.Join(s.base, "out"), "abs")
	s.link("../out/f", "file")
	s.link("../out/new", "dangling")
	s.put("in", "x")
	for _, name := range []string{"rel/f", "abs/f", "file", "rel/../../out/f"} {
		got, err := s.read(name)
		s.fails(fmt.Sprintf("Open(%q) through a link reads %s", name, shown(got)), err, workspace.KindOutsideWorkspace)
	}
	for _, name := range []string{"rel", "abs", "rel/d"} {
		_, err := s.ReadDir(s.t.Context(), name)
		s.fails(fmt.Sprintf("ReadDir(%q) through a link", name), err, workspace.KindOutsideWorkspace)
	}
	for _, e := range []edit.File{
		{Path: "file", Kind: edit.Change, Base: "outside", Proposed: "changed"},
		{Path: "rel/f", Kind: edit.Delete, Base: "outside"},
		{Path: "abs/x", Kind: edit.Create, Proposed: "x"}, {Path: "dangling", Kind: edit.Create, Proposed: "x"},
	} {
		if res, err := s.apply(e); err == nil {
			s.wrong("Apply follows the link %s out of the directory: %+v", e.Path, res)
		}
	}
	data, _ := os.ReadFile(secret)
	all, _ := os.ReadDir(filepath.Join(s.base, "out"))
	if string(data) != "outside" || len(all) != 2 {
		s.wrong("Apply has changed files outside of the directory: %q, %q", data, names(all))
	}
}

func (s *fsSuite) linksInside() {
	s.put("d/f", "text")
	s.link("d", "l")
	s.link("d/f", "file")
	s.link("../file", "d/twice")
	for _, name := range []string{"l/f", "file", "d/twice"} {
		s.reads(name, "text")
	}
	s.lists("l", "f", "twice")
	if _, err := s.apply(edit.File{Path: "file", Kind: edit.Change, Base: "text", Proposed: "new"}); err != nil {
		s.wrong("Apply through a link: %v", err)
	}
	s.is("d/f", "new")
	if info, err := os.Lstat(filepath.Join(s.dir, "file")); err != nil || info.Mode()&fs.ModeSymlink == 0 {
		s.wrong("Apply has replaced a link by a file")
	}
}

func (s *fsSuite) invalidNames() {
	for _, name := range []string{"", "a\x00b", strings.Repeat("x/", 4000)} {
		s.allFail(name, workspace.KindInvalidPath)
		got, err := s.Rel(name)
		s.fails(fmt.Sprintf("Rel(%q) = %q", shortened(name), shortened(got)), err, workspace.KindInvalidPath)
	}
	s.allFail(strings.Repeat("x", 300), workspace.KindInvalidPath, workspace.KindNotFound)
}

func (s *fsSuite) anyBytesInNames() {
	all := []string{" ", "*", "-rf", "..x", "a b", "a\tb", "a\\b", "line\nbreak", "ü", "日本", "\xff\xfe"}
	if runtime.GOOS != "linux" {
		all = []string{"-rf", "..x", "a b", "日本"}
	}
	for _, name := range all {
		s.put("d/"+name, "in "+name)
	}
	slices.Sort(all)
	s.lists("d", all...)
	for _, name := range all {
		s.reads("d/"+name, "in "+name)
	}
}

func (s *fsSuite) kinds() {
	s.put("d/f", "x")
	for _, name := range []string{"none", "none/f", "d/none"} {
		s.allFail(name, workspace.KindNotFound)
	}
	_, err := s.Open("d")
	s.fails("Open of a directory", err, workspace.KindIsDirectory)
	_, err = s.Open(".")
	s.fails("Open of the directory itself", err, workspace.KindIsDirectory)
	_, err = s.ReadDir(s.t.Context(), "d/f")
	s.fails("ReadDir of a file", err, workspace.KindNotDirectory)
	s.allFail("d/f/x", workspace.KindNotDirectory, workspace.KindNotFound)
	if e, ok := errors.AsType[*workspace.Error](err); ok && (e.Op == "" || e.Path == "" || strings.Contains(e.Error(), s.base)) {
		s.wrong("the error %v has no operation or no path, or names a directory outside", e)
	}
}

func (s *fsSuite) secrets() {
	s.put(".env", "KEY=1")
	got, err := s.read(".env")
	if err == nil && got == "KEY=1" {
		return // the host allows it
	}
	s.fails("Open of a file of secrets", err, workspace.KindSensitivePath)
}
