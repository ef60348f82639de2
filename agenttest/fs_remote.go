package agenttest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/tools"
	"github.com/aycoder/aycoder/workspace"
)

// The checks of the methods for another machine, and of what the tools say.

// remote returns the file system if it is one of another machine.
func (s *fsSuite) remote() tools.RemoteFS {
	r, ok := s.FS.(tools.RemoteFS)
	if !ok {
		s.t.Skip("not a tools.RemoteFS")
	}
	return r
}

func (s *fsSuite) within() {
	r := s.remote()
	s.put("f", "text")
	s.put("large", noise(4<<20))
	why := errors.New("why it was cancelled")
	ctx, cancel := context.WithCancelCause(s.t.Context())
	defer cancel(nil)
	s.FS = r.Within(ctx)
	s.reads("f", "text")
	s.lists(".", "f", "large")
	f, err := s.Open("large")
	if err != nil {
		s.wrong("Open: %v", err)
		return
	}
	defer f.Close()
	cancel(why)
	if _, err := s.Open("f"); !errors.Is(err, why) {
		s.wrong("Open after the end of the call returns %v", err)
	}
	if _, err := io.ReadAll(f); !errors.Is(err, why) {
		s.wrong("Read after the end of the call returns %v", err)
	}
}

func (s *fsSuite) noError() {
	r := s.remote()
	_, _ = s.Open("none")
	_, _ = s.Open("../none")
	_, _ = s.ReadDir(s.t.Context(), "none")
	if err := r.Err(); err != nil {
		s.wrong("Err returns %v, although the files can be reached", err)
	}
}

// grow makes a tree of files.
func (s *fsSuite) grow() {
	s.put(".git/info/exclude", "excluded\n")
	s.put(".gitignore", "*.o\n!keep.o\n/build/\n")
	s.put("sub/.gitignore", "!x.o\nlocal\n")
	for _, dir := range []string{"", "sub/", "sub/deep/", "a/", "a/b/c/d/", "build/", "node_modules/m/"} {
		for _, name := range []string{"x.go", "x.o", "keep.o", "local", "excluded"} {
			s.put(dir+name, "package x // needle in "+dir+name+"\n")
		}
	}
	s.put("binary", "needle\x00\x01")
	s.must(os.Mkdir(filepath.Join(s.dir, "empty"), 0o755))
}

func (s *fsSuite) ahead() {
	r := s.remote()
	s.grow()
	for _, name := range []string{".", "sub", "a/b", "none", "x.go"} {
		view := r.Ahead(s.t.Context(), name, []byte("local\n"))
		for _, dir := range []string{".", "sub", "sub/deep", "a", "a/b", "a/b/c", "build", "empty", "none", "x.go"} {
			want, wantErr := s.ReadDir(s.t.Context(), dir)
			got, err := view.ReadDir(s.t.Context(), dir)
			if !slices.Equal(names(got), names(want)) || (err == nil) != (wantErr == nil) {
				s.wrong("after Ahead(%q), ReadDir(%q) = %q, %v, want %q, %v", name, dir, names(got), err, names(want), wantErr)
			}
		}
		for _, file := range []string{".gitignore", "sub/.gitignore", "a/.gitignore", ".git/info/exclude", "a/x.go", "none"} {
			want, wantErr := s.read(file)
			got, err := (&fsSuite{FS: view}).read(file)
			if got != want || (err == nil) != (wantErr == nil) {
				s.wrong("after Ahead(%q), Open(%q) reads %s, %v, want %s, %v", name, file, shown(got), err, shown(want), wantErr)
			}
		}
	}
}

func (s *fsSuite) openFiles() {
	r := s.remote()
	var all []string
	for i := range 300 {
		name := fmt.Sprintf("f%03d", i)
		all = append(all, name)
		switch {
		case i%50 == 7: // is not there
		case i%50 == 8:
			s.put(name+"/x", "")
		case i%90 == 5:
			s.put(name, noise(2<<20))
		default:
			s.put(name, noise(i*200))
		}
	}
	all = append(all, "f000", "../x")
	i := 0
	for f, err := range r.OpenFiles(s.t.Context(), all) {
		want, wantErr := s.read(all[i])
		got := ""
		if err == nil {
			data, errRead := io.ReadAll(f)
			got, err = string(data), errRead
			if info, errStat := f.Stat(); errStat != nil || info.Name() != path.Base(all[i]) || info.Size() != int64(len(want)) {
				s.wrong("the file number %d of OpenFiles is not %s", i, all[i])
			}
			f.Close()
		}
		if got != want || fmt.Sprint(err) != fmt.Sprint(wantErr) {
			s.wrong("OpenFiles reads of %s %s, %v, want %s, %v", all[i], shown(got), err, shown(want), wantErr)
		}
		i++
	}
	if i != len(all) {
		s.wrong("OpenFiles yields %d of %d files", i, len(all))
	}
	for f, err := range r.OpenFiles(s.t.Context(), []string{"f005", "f001", "f002"}) { // f005 is large
		if err != nil {
			s.wrong("OpenFiles: %v", err)
			break
		}
		defer f.Close()
		defer func() {
			if got, err := io.ReadAll(f); err != nil || string(got) != noise(2<<20) {
				s.wrong("after the loop, a file of OpenFiles reads %s, %v", shown(string(got)), err)
			}
		}()
		break
	}
}

// sameAsLocal compares the answers of tools with those for a workspace of this machine.
func (s *fsSuite) sameAsLocal() {
	s.grow()
	local, err := workspace.Open(s.dir)
	s.must(err)
	defer local.Close()
	for _, tt := range []struct {
		make func(tools.FS, ...tools.Option) (aycoder.Tool, error)
		args string
	}{
		{tools.CodeSearch, `{"pattern":"needle"}`}, {tools.CodeSearch, `{"pattern":"needle","path":"sub","context":1}`},
		{tools.CodeSearch, `{"pattern":"needle","path":"a/x.go"}`}, {tools.CodeSearch, `{"pattern":"needle","path":"none"}`},
		{tools.ListFiles, `{"recursive":true}`}, {tools.ListFiles, `{"path":"sub"}`}, {tools.ListFiles, `{"path":"x.go"}`},
		{tools.ListFiles, `{"path":"build","recursive":true}`}, {tools.Glob, `{"pattern":"**/*.o"}`}, {tools.Glob, `{"pattern":"a/**/d/*"}`},
		{tools.ReadFile, `{"path":"sub/x.go"}`}, {tools.ReadFile, `{"path":"sub"}`}, {tools.ReadFile, `{"path":"sub/y.go"}`},
		{tools.ReadFile, `{"path":"binary"}`}, {tools.EditFile, `{"path":"a/x.go","old_string":"none","new_string":"x"}`},
	} {
		want, got := s.answer(local, tt.make, tt.args), s.answer(s.FS, tt.make, tt.args)
		if got != want {
			s.wrong("%s answers %s, and for a local workspace %s", tt.args, shown(got), shown(want))
		}
	}
}

// answer returns what a tool answers.
func (s *fsSuite) answer(files tools.FS, build func(tools.FS, ...tools.Option) (aycoder.Tool, error), args string) string {
	t, err := build(files)
	s.must(err)
	r, err := t.Call(s.t.Context(), aycoder.NewInvocation("c1", t.Spec().Name, []byte(args), nil))
	if err != nil {
		return "error: " + err.Error()
	}
	return r.Text()
}
