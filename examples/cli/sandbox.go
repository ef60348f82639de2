package main

import (
	"context"
	"errors"
	"runtime"

	"github.com/aycoder/aycoder/tools"
	"github.com/aycoder/aycoder/workspace"
)

// sandbox returns a sandbox that confines commands to the workspace, after a trial.
func sandbox(ctx context.Context, ws *workspace.Workspace) (box *tools.LocalSandbox, err error) {
	switch runtime.GOOS {
	case "linux":
		box, err = tools.Landlock(ws)
	case "darwin":
		box, err = tools.Seatbelt(ws)
	default:
		return nil, errors.New("-sandbox: there is none on this system")
	}
	if err != nil {
		return nil, err
	}
	if _, err := tools.CheckSandbox(ctx, box, tools.SandboxCall{}); err != nil {
		_ = box.Close()
		return nil, err
	}
	return box, nil
}
