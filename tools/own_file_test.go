package tools_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/edit"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/tools"
	"github.com/aycoder/aycoder/workspace"
)

// A tool whose subject names its file writes that one by itself if the approver says so, and no other that is protected,
// whatever it proposes.
func TestOwnFile(t *testing.T) {
	type args struct {
		Note string `json:"note"`
		Path string `json:"path"`
	}
	subject := aycoder.Subject{Arg: "note", File: ".aycoder/*.md"}
	for _, c := range []struct {
		name  string
		note  string
		path  string
		named bool
		asked int
		wrote bool
	}{
		{"its own", "a", ".aycoder/a.md", true, 0, true},
		{"its own, but only the mode allows it", "a", ".aycoder/a.md", false, 1, false},
		{"that of another argument", "a", ".aycoder/b.md", true, 0, false},
		{"that of another tool", "a", "AGENTS.md", true, 0, false},
		{"one above", "../AGENTS", ".aycoder/../AGENTS.md", true, 0, false},
		{"one that is not protected", "a", "b.txt", true, 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			ws, err := workspace.Open(t.TempDir())
			require.NoError(t, err)
			defer ws.Close()
			tool, err := tools.NewPlanner(ws, "keep", "Keep a note.", subject, func(_ context.Context, in args) ([]edit.File, error) {
				return []edit.File{{Path: in.Path, Kind: edit.Create, Proposed: "kept\n"}}, nil
			})
			require.NoError(t, err)
			approver := aycoder.ApproverFunc(func(context.Context, *aycoder.ToolUse, *aycoder.ToolSpec) aycoder.Verdict {
				return aycoder.Allow().WithRationale(aycoder.Grounds{Named: c.named})
			})
			loop, err := aycoder.New(script.New(script.Call("keep", args{c.note, c.path}), script.Say("ok")),
				aycoder.WithTools(tool), aycoder.WithApprover(approver))
			require.NoError(t, err)
			asked := 0
			for ev, err := range loop.Run(t.Context(), aycoder.Input{Prompt: "go"}) {
				require.NoError(t, err)
				if q, ok := ev.(*aycoder.ApprovalRequested); ok {
					asked++
					q.Deny("no")
				}
			}
			require.Equal(t, c.asked, asked)
			_, err = os.Stat(filepath.Join(ws.Dir(), filepath.FromSlash(c.path)))
			require.Equal(t, c.wrote, err == nil, "%v", err)
		})
	}
}
