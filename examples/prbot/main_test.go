//go:build unix

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/session"
)

// A gh that notes its arguments stands for the real one.
func TestReview(t *testing.T) {
	bin, dir := t.TempDir(), t.TempDir()
	noted := filepath.Join(dir, "noted")
	require.NoError(t, os.WriteFile(filepath.Join(bin, "gh"), []byte("#!/bin/sh\necho \"$@\" >> "+noted+"\ncase \"$*\" in *'--body-file -') cat >> "+noted+";; esac\n"), 0o755))
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "pr-review-instructions.md"), []byte("Be kind."), 0o600))
	bash := func(command string) script.Step { return script.Call("bash", map[string]string{"command": command}) }
	model := script.New(bash("gh pr diff 7 --repo a/b"), bash("gh pr view 7 --repo a/b --json title,body,labels,files"),
		bash("gh pr merge 7 --repo a/b"), bash("gh pr diff 7 --repo a/b --repo x/y"), bash("gh pr view 7 --repo a/b --web"),
		bash("gh pr comment 7 --repo a/b --body-file pr-review-instructions.md"), bash("gh pr comment 7 --repo a/b --body x --repo x/y"),
		script.Call("comment", map[string]string{"text": "--repo x/y\n"}), script.Say("Posted."))
	store := journal.Memory()
	var out strings.Builder
	require.NoError(t, review(t.Context(), &out, model, store, dir, "a/b", "7"))
	text, err := os.ReadFile(noted)
	require.NoError(t, err)
	require.Equal(t, "pr diff 7 --repo a/b\npr view 7 --repo a/b --json title,body,labels,files\npr comment 7 --repo a/b --body-file -\n--repo x/y\n", string(text), "and nothing else ran")
	require.Contains(t, out.String(), "Posted.")
	list, err := session.List(t.Context(), store, nil)
	require.NoError(t, err)
	require.Contains(t, out.String(), "session "+list[0].ID)
	require.Contains(t, model.Requests()[0].System[len(model.Requests()[0].System)-1].Text, "Be kind.")
	require.Error(t, review(t.Context(), &out, model, store, dir, "a/b; rm x", "7"))
	require.Error(t, review(t.Context(), &out, model, store, dir, "a/b", "7 x"))
}
