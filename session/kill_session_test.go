package session_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/ondisk"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/session"
	"github.com/aycoder/aycoder/snapshot"
	"github.com/aycoder/aycoder/tools"
	"github.com/aycoder/aycoder/workspace"
)

const killedEnv = "AYCODER_SESSION_KILLED"

// openKilled opens the session of a directory, with an agent that writes files and runs commands.
func openKilled(t *testing.T, dir string, r *rand.Rand) *session.Session {
	ws, err := workspace.Open(filepath.Join(dir, "work"))
	require.NoError(t, err)
	files := snapshot.New(ws)
	list, err := tools.Coding(files, tools.WithExecMiddleware(files.Exec))
	require.NoError(t, err)
	step := script.Func(func(req *aycoder.Request) script.Step {
		last := req.Messages[len(req.Messages)-1]
		if len(last.Parts) > 0 {
			if _, ok := last.Parts[0].(*aycoder.ToolOutput); ok && r.IntN(2) == 0 {
				return script.Say("done")
			}
		}
		var steps []script.Step
		for range 3 {
			token := fmt.Sprintf("t%d", r.Uint64())
			steps = append(steps, script.Block(&aycoder.ToolUse{ID: token, Name: "write_file", Args: fmt.Appendf(nil,
				`{"path":"f%d","content":%q}`, r.IntN(5), strings.Repeat(token+"\n", 100))}))
		}
		token := fmt.Sprintf("t%d", r.Uint64())
		return script.Reply(append(steps, script.Block(&aycoder.ToolUse{ID: token, Name: "bash", Args: fmt.Appendf(nil,
			`{"command":"echo %s >> log"}`, token)}))...)
	})
	l, err := aycoder.New(script.New(step).With(script.WithLoop(true)), aycoder.WithTools(list...), aycoder.WithApprover(verdict(aycoder.Allow())))
	require.NoError(t, err)
	store, err := journal.Dir(filepath.Join(dir, "sessions"))
	require.NoError(t, err)
	s, err := session.Continue(t.Context(), store, dir, l, session.WithFiles(files), session.WithDir(dir))
	require.NoError(t, err)
	return s
}

// TestKilledProcess is the process that TestSessionKilled kills.
func TestKilledProcess(t *testing.T) {
	dir := os.Getenv(killedEnv)
	if dir == "" {
		return
	}
	r := rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	s := openKilled(t, dir, r)
	fmt.Println("open")
	for {
		var err error
		switch r.IntN(4) {
		case 0:
			_, err = s.Undo(t.Context())
		case 1:
			_, err = s.Checkout(t.Context(), session.ID(r.IntN(s.View().Len())))
		default:
			in := aycoder.Input{Prompt: "go on"}
			if s.Pending() != nil {
				in = aycoder.Input{}
			}
			for _, err = range s.Run(t.Context(), in) {
			}
		}
		if _, refused := errors.AsType[*session.CommandError](err); err != nil && !refused {
			fmt.Println("FAILED:", err)
			os.Exit(3)
		}
	}
}

// beginnings returns how often each call began, as a journal on disk says.
func beginnings(t *testing.T, journal string) map[string]int {
	data, err := os.ReadFile(journal)
	require.NoError(t, err)
	times := map[string]int{}
	for line := range bytes.Lines(data) {
		var f struct{ Fact, ID string }
		if json.Unmarshal(line, &[]any{new(string), &f}) == nil && f.Fact == "tool_began" {
			times[f.ID]++
		}
	}
	return times
}

// A process that is killed at any moment, also inside a tool or a checkout, leaves a session that
// opens without damage, in which no write has begun twice, and files that are whole.
func TestSessionKilled(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there is no bash")
	}
	timed.Serial(t)
	ondisk.Use(t)
	kills := 20
	if n, err := strconv.Atoi(os.Getenv("AYCODER_KILLS")); err == nil {
		kills = n
	} else if testing.Short() {
		kills = 4
	}
	var dir string
	pending, nodes, began := 0, 0, 0
	for i := 0; i < kills || began == 0 && i < 10*kills; i++ { // on a busy machine a process may not come to a call
		if i%50 == 0 { // with another session: a long one takes long to run
			dir = t.TempDir()
			require.NoError(t, os.Mkdir(filepath.Join(dir, "work"), 0o755))
		}
		cmd := exec.Command(os.Args[0], "-test.run=^TestKilledProcess$")
		cmd.Env = append(os.Environ(), killedEnv+"="+dir)
		var out bytes.Buffer
		pipe, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		first := make([]byte, 5) // "open\n"
		_, err = pipe.Read(first)
		require.NoError(t, err)
		time.Sleep(time.Duration(rand.IntN(80*(1+i/kills))) * time.Millisecond)
		_ = cmd.Process.Kill()
		_, _ = out.ReadFrom(pipe)
		_ = cmd.Wait()
		require.NotContains(t, out.String(), "FAILED")

		s := openKilled(t, dir, rand.New(rand.NewPCG(1, 2)))
		for _, d := range s.Damage() {
			damage, ok := errors.AsType[*journal.DamageError](d)
			require.True(t, ok && damage.Torn, "%v", d)
		}
		require.NoError(t, aycoder.CheckHistory(s.View().Messages(s.Head())))
		require.Empty(t, s.Interrupted())
		if s.Pending() != nil {
			pending++
		}
		nodes = s.View().Len()
		require.NoError(t, s.Close())
		for id, times := range beginnings(t, filepath.Join(dir, "sessions", s.ID(), "journal.jsonl")) {
			require.Equal(t, 1, times, "%s began twice", id)
			began++
		}
		names, err := filepath.Glob(filepath.Join(dir, "work", "*"))
		require.NoError(t, err)
		for _, name := range names {
			data, err := os.ReadFile(name)
			require.NoError(t, err)
			lines := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
			seen := map[string]bool{}
			for _, line := range lines {
				if filepath.Base(name) == "log" {
					require.False(t, seen[line], "%s ran twice", line)
					seen[line] = true
				} else {
					require.Equal(t, lines[0], line, name)
				}
			}
			if filepath.Base(name) != "log" {
				require.Len(t, lines, 100, name)
			}
		}
	}
	require.Positive(t, began)
	t.Logf("%d kills, %d left a run to continue, %d nodes at the end", kills, pending, nodes)
}
