package agenttest

import (
	"context"
	"os"
	"testing"

	"github.com/aycoder/aycoder/edit"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/tools"
	"github.com/aycoder/aycoder/workspace"
)

// A file system that compares a file, is slow, and then replaces the file loses what was saved meanwhile.
func TestSuiteFindsLostSaves(t *testing.T) {
	timed.Serial(t)
	finds(t, "ApplyBesideSaves", func(t testing.TB, dir string) tools.FS {
		b := &brokenFS{FS: localFS(t, dir)}
		b.apply = func(_ context.Context, plan edit.Plan, _ ...workspace.ApplyOption) (*edit.Result, error) {
			e := plan.Files()[0]
			data, err := os.ReadFile(b.full(e.Path))
			if err != nil || string(data) != e.Base {
				return nil, &edit.ConflictError{Files: []edit.FileResult{{Path: e.Path, Kind: e.Kind, Outcome: edit.OutcomeConflicted}}}
			}
			for i := 0; i < 1000 && string(data) == e.Base; i++ { // until a save
				data, _ = os.ReadFile(b.full(e.Path))
			}
			_ = os.WriteFile(b.full("h"), []byte(e.Proposed), 0o644)
			return &edit.Result{}, os.Rename(b.full("h"), b.full(e.Path))
		}
		return b
	})
}
