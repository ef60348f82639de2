package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/providers/script"
)

func write(dir string) error {
	return os.WriteFile(filepath.Join(dir, "version.txt"), []byte("1.1\n"), 0o644)
}

func Example() {
	dir, err := os.MkdirTemp("", "bot-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := write(dir); err != nil {
		log.Fatal(err)
	}
	model := script.New(
		script.Call("edit_file", `{"path":"version.txt","old_string":"1.1","new_string":"1.2"}`),
		script.Call("bash", `{"command":"git push"}`),
		script.Say("The version is 1.2. I could not push it.\n"),
	)
	fmt.Println("exit status", run(context.Background(), os.Stdout, model, job{dir: dir, task: "Release version 1.2."}))
	// Output:
	// [edit_file version.txt: +1 −1]
	// [bash git push: denied]
	// approval_required: nobody can be asked here (sends to a remote); the host can allow it with the rule bash:git push
	// The version is 1.2. I could not push it.
	// bot: 1 calls were denied
	// exit status 4
}

func TestStatus(t *testing.T) {
	edit := script.Call("edit_file", `{"path":"version.txt","old_string":"1.1","new_string":"1.2"}`)
	for _, tt := range []struct {
		name  string
		model aycoder.ModelClient
		check string
		want  int
		log   string
	}{
		{"done", script.New(edit, script.Say("Done.")), "grep 1.2 version.txt", exitDone, "[edit_file version.txt: +1 −1]"},
		{"denied", script.New(script.Call("fetch", `{"url":"https://example.com"}`), script.Say("No.")), "", exitDenied, "this job works offline"},
		{"turns", script.New(script.Call("todo", `{"todos":[]}`)).With(script.WithLoop(true)), "", exitLimit, "limit of 30 turns"},
		{"error", script.New(script.Fail(errors.New("no credit"))), "", exitError, "no credit"},
		{"check", script.New(script.Say("All tests pass.")), "grep 1.2 version.txt", exitCheck, "the check failed: exit status 1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			require.NoError(t, write(dir))
			var log strings.Builder
			require.Equal(t, tt.want, run(t.Context(), &log, tt.model, job{dir: dir, task: "Release version 1.2.", check: tt.check}), &log)
			require.Contains(t, log.String(), tt.log)
		})
	}
}

// The check may run code that the model has written, so it is confined as well.
func TestCheckIsConfined(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "outside.txt")
	t.Setenv("HOME", filepath.Dir(outside))
	j := job{dir: t.TempDir(), task: "x", confined: true, check: "true"}
	var log strings.Builder
	if run(t.Context(), &log, script.New(script.Say("Done.")), j) != exitDone {
		t.Skip("no complete sandbox on this machine:", &log)
	}
	j.check = "echo x > " + outside
	require.Equal(t, exitCheck, run(t.Context(), &log, script.New(script.Say("Done.")), j), &log)
	require.NoFileExists(t, outside)
}

// The check gets no key, and its output cannot command the log.
func TestCheckGetsNoKey(t *testing.T) {
	t.Setenv("ANTHROPIC_API_KEY", "sk-ant-x")
	var log strings.Builder
	j := job{dir: t.TempDir(), task: "x", check: `printf '<%s>\033[2K' "$ANTHROPIC_API_KEY"`}
	require.Equal(t, exitDone, run(t.Context(), &log, script.New(script.Say("Done.")), j), &log)
	require.Contains(t, log.String(), "<><U+001B>[2K")
}

func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		slow := script.New(script.Say("Let me think about that.")).With(script.WithPace(time.Hour))
		var log strings.Builder
		require.Equal(t, exitLimit, run(ctx, &log, slow, job{dir: t.TempDir(), task: "Release version 1.2."}))
		require.Contains(t, log.String(), "deadline exceeded")
	})
}

func TestNoDirectory(t *testing.T) {
	require.Equal(t, exitError, run(t.Context(), io.Discard, script.New(), job{dir: filepath.Join(t.TempDir(), "gone"), task: "x"}))
}
