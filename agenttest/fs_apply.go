package agenttest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/aycoder/aycoder/edit"
	"github.com/aycoder/aycoder/workspace"
)

// The checks of plans.

// apply carries out edits, approved.
func (s *fsSuite) apply(edits ...edit.File) (*edit.Result, error) {
	plan, err := edit.NewPlan(edits...)
	s.must(err)
	return s.Apply(s.t.Context(), plan, workspace.WithApproved(plan.Digest()))
}

func (s *fsSuite) cancelled() {
	s.put("f", "old")
	why := errors.New("why it was cancelled")
	ctx, cancel := context.WithCancelCause(s.t.Context())
	cancel(why)
	if _, err := s.ReadDir(ctx, "."); !errors.Is(err, why) {
		s.wrong("ReadDir after a cancel returns %v, want the cause", err)
	}
	plan, err := edit.NewPlan(edit.File{Path: "f", Kind: edit.Change, Base: "old", Proposed: "new"})
	s.must(err)
	if _, err := s.Apply(ctx, plan); !errors.Is(err, why) {
		s.wrong("Apply after a cancel returns %v, want the cause", err)
	}
	s.is("f", "old")
}

func (s *fsSuite) seenIsFixed() {
	s.Seen().Add("f", "text")
	if got := s.Seen().Contents("f"); len(got) != 1 || got[0] != "text" {
		s.wrong("Seen returns another record each time")
	}
}

func (s *fsSuite) applyWrites() {
	for _, text := range []string{"", "x", "a\r\nb\r\n", "no end", "\xff\xfe\x00\x01", noise(1 << 20)} {
		s.put("f", "old\n")
		if _, err := s.apply(edit.File{Path: "f", Kind: edit.Change, Base: "old\n", Proposed: text}); err != nil {
			s.wrong("Apply of %s: %v", shown(text), err)
		}
		s.is("f", text)
		s.must(os.RemoveAll(filepath.Join(s.dir, "new")))
		if _, err := s.apply(edit.File{Path: "new/dir/f", Kind: edit.Create, Proposed: text}); err != nil {
			s.wrong("Apply creates %s: %v", shown(text), err)
		}
		s.is("new/dir/f", text)
	}
	if _, err := s.apply(edit.File{Path: "new/dir/f", Kind: edit.Delete, Base: noise(1 << 20)}); err != nil {
		s.wrong("Apply deletes: %v", err)
	}
	if _, there := s.on("new/dir/f"); there {
		s.wrong("Apply has not deleted a file")
	}
	all, err := os.ReadDir(s.dir)
	s.must(err)
	if got := names(all); !slices.Equal(got, []string{"f", "new"}) {
		s.wrong("Apply leaves %q", got)
	}
}

func (s *fsSuite) applyResult() {
	s.put("b", "old\n")
	s.put("c", "gone\n")
	s.put("d", "done\n")
	edits := []edit.File{
		{Path: "c", Kind: edit.Delete, Base: "gone\n"}, {Path: "a", Kind: edit.Create, Proposed: "made\n"},
		{Path: "b", Kind: edit.Change, Base: "old\n", Proposed: "new\n"},
		{Path: "d", Kind: edit.Change, Base: "was\n", Proposed: "done\n"},
	}
	res, err := s.apply(edits...)
	if err != nil || res == nil || len(res.Files) != len(edits) {
		s.wrong("Apply = %+v, %v, want %d files", res, err, len(edits))
		return
	}
	for i, want := range []edit.FileResult{
		{Outcome: edit.OutcomeApplied, Written: true},
		{Outcome: edit.OutcomeApplied, Written: true, Exists: true, Content: "made\n"},
		{Outcome: edit.OutcomeApplied, Written: true, Exists: true, Content: "new\n"},
		{Outcome: edit.OutcomeUnchanged, Exists: true, Content: "done\n"},
	} {
		got := res.Files[i]
		if got.Path != edits[i].Path || got.Kind != edits[i].Kind || got.Outcome != want.Outcome ||
			got.Written != want.Written || got.Exists != want.Exists || got.Content != want.Content {
			s.wrong("the result of %s %s is %+v, want %+v", edits[i].Kind, edits[i].Path, got, want)
		}
	}
}

func (s *fsSuite) applyWhole() {
	s.put("a", "a\n")
	s.put("b", "user\n")
	s.put("c", "c\n")
	_, err := s.apply(edit.File{Path: "a", Kind: edit.Change, Base: "a\n", Proposed: "A\n"},
		edit.File{Path: "b", Kind: edit.Change, Base: "b\n", Proposed: "B\n"},
		edit.File{Path: "n/n", Kind: edit.Create, Proposed: "N\n"},
		edit.File{Path: "c", Kind: edit.Delete, Base: "c\n"})
	s.conflict(err, "b", edit.OutcomeConflicted)
	s.is("a", "a\n")
	s.is("b", "user\n")
	s.is("c", "c\n")
	if _, there := s.on("n/n"); there {
		s.wrong("Apply has carried out a part of a plan")
	}
}

// conflict checks the error of a plan that does not merge.
func (s *fsSuite) conflict(err error, name string, outcome edit.Outcome) {
	e, ok := errors.AsType[*edit.ConflictError](err)
	if !ok || len(e.Files) != 1 || e.Files[0].Path != name || e.Files[0].Outcome != outcome {
		s.wrong("Apply returns %v, want an *edit.ConflictError about %s: %s", err, name, outcome)
	}
}

func (s *fsSuite) applyMerges() {
	base := "1\n2\n3\n4\n5\n6\n7\n"
	s.put("f", "1\nuser\n3\n4\n5\n6\n7\n")
	res, err := s.apply(edit.File{Path: "f", Kind: edit.Change, Base: base, Proposed: "1\n2\n3\n4\n5\nmodel\n7\n"})
	want := "1\nuser\n3\n4\n5\nmodel\n7\n"
	s.is("f", want)
	if err != nil || res == nil || len(res.Files) != 1 {
		s.wrong("Apply beside a change of the user: %+v, %v", res, err)
		return
	}
	f := res.Files[0]
	if f.Outcome != edit.OutcomeMerged || f.Content != want || len(f.UserChanges) != 1 || f.UserChanges[0].New != "user\n" ||
		f.Merge == nil || string(f.Merge.Bytes()) != want {
		s.wrong("the result does not say that the user's line was merged: %+v", f)
	}
}

func (s *fsSuite) applyConflicts() {
	s.put("f", "user\n")
	s.put("n", "theirs\n")
	for _, tt := range []struct {
		edit    edit.File
		outcome edit.Outcome
	}{
		{edit.File{Path: "f", Kind: edit.Change, Base: "old\n", Proposed: "new\n"}, edit.OutcomeConflicted},
		{edit.File{Path: "f", Kind: edit.Delete, Base: "old\n"}, edit.OutcomeConflicted},
		{edit.File{Path: "n", Kind: edit.Create, Proposed: "mine\n"}, edit.OutcomeConflicted},
		{edit.File{Path: "none", Kind: edit.Change, Base: "old\n", Proposed: "new\n"}, edit.OutcomeGone},
	} {
		_, err := s.apply(tt.edit)
		s.conflict(err, tt.edit.Path, tt.outcome)
	}
	s.is("f", "user\n")
	s.is("n", "theirs\n")
	if _, there := s.on("none"); there {
		s.wrong("Apply has created a file that the user deleted")
	}
	if e, ok := errors.AsType[*edit.ConflictError](second(s.apply(edit.File{Path: "f", Kind: edit.Change, Base: "old\n", Proposed: "new\n"}))); ok {
		if m := e.Files[0].Merge; m == nil || !strings.Contains(string(m.Bytes()), "<<<<<<<") || e.Files[0].Ours != "user\n" {
			s.wrong("the conflict does not say what conflicts: %+v", e.Files[0])
		}
	}
}

func second[T any](_ T, err error) error { return err }

// applyBesideSaves makes plans while another program saves the file, by a rename, as editors do. The
// program saves for as long as plans are made, so that some saves fall between any two steps of Apply.
// It adds a line to what it has read, so only Apply can lose a line that was saved. A workspace can keep
// all of them on Linux alone, see [workspace.Workspace.Apply].
func (s *fsSuite) applyBesideSaves() {
	if runtime.GOOS == "windows" {
		s.t.Skip("open files cannot be replaced here")
	}
	const rounds, maxSaves = 30, 500
	start := "user\n1\n2\n3\n4\nmodel\n"
	s.put("f", start)
	var wg sync.WaitGroup
	var over atomic.Bool
	saves := 0
	wg.Go(func() {
		for ; saves < rounds || saves < maxSaves && !over.Load(); saves++ {
			now, _ := s.on("f")
			s.put("g", strings.Replace(now, "user\n", fmt.Sprintf("user\nu%d\n", saves), 1))
			if err := os.Rename(filepath.Join(s.dir, "g"), filepath.Join(s.dir, "f")); err != nil {
				s.wrong("rename: %v", err)
			}
		}
	})
	done := 0
	for i := range rounds {
		now, err := s.read("f")
		if err != nil {
			s.wrong("Open beside saves: %v", err)
			continue
		}
		_, err = s.apply(edit.File{Path: "f", Kind: edit.Change, Base: now, Proposed: now + fmt.Sprintf("m%d\n", i)})
		if err == nil {
			done++
		} else if _, ok := errors.AsType[*edit.ConflictError](err); !ok {
			s.wrong("Apply beside saves: %v", err)
		}
	}
	over.Store(true)
	wg.Wait()
	now, _ := s.on("f")
	for i := range saves {
		if runtime.GOOS == "linux" && !strings.Contains(now, fmt.Sprintf("\nu%d\n", i)) {
			s.wrong("the line u%d of %d that were saved is lost", i, saves)
		}
	}
	if !strings.HasPrefix(now, "user\n") || !strings.Contains(now, "\n1\n2\n3\n4\nmodel\n") {
		s.wrong("lines are lost beside saves: %s", shown(now))
	}
	if done == 0 {
		s.wrong("no plan was carried out beside saves")
	}
}

func (s *fsSuite) applyMode() {
	if runtime.GOOS == "windows" {
		s.t.Skip("there are no permissions here")
	}
	for _, mode := range []fs.FileMode{0o755, 0o600} {
		s.put("f", "old")
		s.must(os.Chmod(filepath.Join(s.dir, "f"), mode))
		if _, err := s.apply(edit.File{Path: "f", Kind: edit.Change, Base: "old", Proposed: "new"}); err != nil {
			s.wrong("Apply: %v", err)
		}
		if info, err := os.Stat(filepath.Join(s.dir, "f")); err != nil || info.Mode() != mode {
			s.wrong("after Apply the file has the mode %v, %v, want %v", info.Mode(), err, mode)
		}
		name := fmt.Sprintf("new%o", mode)
		if _, err := s.apply(edit.File{Path: name, Kind: edit.Create, Proposed: "x", Mode: mode}); err != nil {
			s.wrong("Apply: %v", err)
		}
		if info, err := os.Stat(filepath.Join(s.dir, name)); err != nil || info.Mode() != mode {
			s.wrong("a file that is created does not get its mode %v", mode)
		}
	}
}

func (s *fsSuite) applyApproved() {
	s.put("f", "old")
	plan, err := edit.NewPlan(edit.File{Path: "f", Kind: edit.Change, Base: "old", Proposed: "new"})
	s.must(err)
	other, err := edit.NewPlan(edit.File{Path: "f", Kind: edit.Change, Base: "old", Proposed: "other"})
	s.must(err)
	if _, err := s.Apply(s.t.Context(), plan, workspace.WithApproved(other.Digest())); err == nil {
		s.wrong("Apply carries out a plan that is not the one that was approved")
	}
	s.is("f", "old")
	if _, err := s.Apply(s.t.Context(), plan, workspace.WithApproved(plan.Digest())); err != nil {
		s.wrong("Apply refuses the plan that was approved: %v", err)
	}
	s.is("f", "new")
	if _, err := s.Apply(s.t.Context(), plan, workspace.WithApproved("")); err != nil {
		s.wrong("Apply of a plan that is done already: %v", err)
	}
}

func (s *fsSuite) applyProtected() {
	s.put("AGENTS.md", "old")
	s.put(".git/config", "old")
	for _, name := range []string{"AGENTS.md", ".git/config"} {
		plan, err := edit.NewPlan(edit.File{Path: name, Kind: edit.Change, Base: "old", Proposed: "new"})
		s.must(err)
		_, err = s.Apply(s.t.Context(), plan)
		s.fails("Apply without approval of "+name, err, workspace.KindProtectedPath)
		s.is(name, "old")
	}
	if _, err := s.apply(edit.File{Path: "AGENTS.md", Kind: edit.Change, Base: "old", Proposed: "new"}); err != nil {
		s.wrong("Apply with approval: %v", err)
	}
	s.is("AGENTS.md", "new")
	_, err := s.apply(edit.File{Path: ".git/config", Kind: edit.Change, Base: "old", Proposed: "new"})
	s.fails("Apply in a repository", err, workspace.KindProtectedPath)
	s.is(".git/config", "old")
}

func (s *fsSuite) applyUndo() {
	long := noise(5000)
	s.put("f", long)
	s.put("g", "bye")
	res, err := s.apply(edit.File{Path: "f", Kind: edit.Change, Base: long, Proposed: "new"},
		edit.File{Path: "g", Kind: edit.Delete, Base: "bye"}, edit.File{Path: "h", Kind: edit.Create, Proposed: "made"})
	if err != nil {
		s.wrong("Apply: %v", err)
		return
	}
	undo := res.Undo()
	if _, err := s.Apply(s.t.Context(), undo, workspace.WithApproved(undo.Digest())); err != nil {
		s.wrong("Apply of the Undo of the result: %v", err)
	}
	s.is("f", long)
	s.is("g", "bye")
	if _, there := s.on("h"); there {
		s.wrong("the Undo of the result does not undo a creation")
	}
}
