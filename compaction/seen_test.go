package compaction_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/compaction"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/session"
	"github.com/aycoder/aycoder/snapshot"
	"github.com/aycoder/aycoder/tools"
	"github.com/aycoder/aycoder/workspace"
)

// seenFile has trailing blanks, so that an edit without them is inexact.
func seenFile() string {
	return "func a() {\n\treturn 1  \n}\n\nfunc b() {\n\treturn 2  \n}\n\nfunc c() {\n\treturn 3\n}\n" +
		strings.Repeat("// a comment that makes the file longer\n", 60)
}

// a seer is a model whose window is small, with the tools of a workspace.
type seer struct {
	t     *testing.T
	dir   string
	ws    *workspace.Workspace
	agent *aycoder.Loop
	keep  *compaction.Compactor
	steps []script.Step
	seen  int // compactions
}

func newSeer(t *testing.T, dir string, files func(*workspace.Workspace) tools.FS) *seer {
	s := &seer{t: t, dir: dir}
	ws, err := workspace.Open(dir)
	require.NoError(t, err)
	t.Cleanup(func() { ws.Close() })
	s.ws = ws
	var on tools.FS = ws
	if files != nil {
		on = files(ws)
	}
	list, err := tools.Coding(on)
	require.NoError(t, err)
	m := &strict{window: 40_000, cost: map[*aycoder.Message]int64{}}
	m.step = func(*aycoder.Request) script.Step {
		if len(s.steps) == 0 {
			return script.Say("ok")
		}
		step := s.steps[0]
		s.steps = s.steps[1:]
		return step
	}
	c, err := compaction.New(m, compaction.WithWindow(40_000))
	require.NoError(t, err)
	s.keep = c
	s.agent, err = aycoder.New(m, aycoder.WithTools(append(list, c.Recall())...), aycoder.WithContextMiddleware(c.Middleware),
		aycoder.WithApprover(allow), aycoder.WithStrictPrefix(true))
	require.NoError(t, err)
	return s
}

// ask runs steps, and returns the output of the last call.
func (s *seer) ask(a aycoder.Agent, in aycoder.Input, steps ...script.Step) (string, aycoder.Result) {
	s.t.Helper()
	s.steps = steps
	last := ""
	var res aycoder.Result
	in.Prompt = "go on"
	for ev, err := range a.Run(s.t.Context(), in, aycoder.Into(&res)) {
		require.NoError(s.t, err)
		switch ev := ev.(type) {
		case *aycoder.ToolFinished:
			last = ev.Output.Text()
		case *aycoder.Compacted:
			s.seen++
		}
	}
	require.Empty(s.t, s.steps)
	return last, res
}

func (s *seer) save(text string) {
	require.NoError(s.t, os.WriteFile(filepath.Join(s.dir, "f.go"), []byte(text), 0o600))
}

func (s *seer) text() string {
	data, err := os.ReadFile(filepath.Join(s.dir, "f.go"))
	require.NoError(s.t, err)
	return string(data)
}

type arg = map[string]any

func readStep() script.Step { return script.Call("read_file", arg{"path": "f.go"}) }

func editStep(old, new string) script.Step {
	return script.Call("edit_file", arg{"path": "f.go", "old_string": old, "new_string": new})
}

// guessStep is an edit that matches only inexactly.
func guessStep(n string) script.Step {
	return editStep("() {\n\treturn "+n+"\n}", "() {\n\treturn "+n+"0\n}")
}

func writeStep(text string) script.Step {
	return script.Call("write_file", arg{"path": "f.go", "content": text})
}

// work is what fills the window.
func work() (steps []script.Step) {
	for i := range 10 {
		steps = append(steps, script.Call("bash", arg{"command": fmt.Sprint("seq 1000 3500; echo ", i)}))
	}
	return steps
}

const leftOut = "left out of this conversation now"

// A text that a compaction took away does not count as seen any more: an inexact edit and a new text of the whole
// file are refused until the file was read again. For exact edits it is still the base of merges.
func TestSeenFilesAfterCompaction(t *testing.T) {
	timed.Serial(t)
	long := seenFile()
	for name, tt := range map[string]struct {
		compacts bool
		before   []script.Step
		save     string
		last     script.Step
		refused  string
		want     string // "" for no change
	}{
		"nothing is left out":         {false, []script.Step{readStep()}, "", guessStep("1"), "", strings.Replace(long, "return 1  ", "return 10  ", 1)},
		"inexact":                     {true, []script.Step{readStep()}, "", guessStep("1"), leftOut, ""},
		"inexact, searched":           {true, []script.Step{script.Call("code_search", arg{"pattern": "return|comment", "context": 1, "max_results": 1000})}, "", guessStep("1"), leftOut, ""},
		"inexact, printed":            {true, []script.Step{script.Call("bash", arg{"command": "cat f.go"})}, "", guessStep("1"), leftOut, ""},
		"inexact, edited":             {true, []script.Step{readStep(), editStep("return 3", "return 33")}, "", guessStep("1"), leftOut, ""},
		"inexact, it was written":     {true, []script.Step{readStep(), writeStep(long + "// more\n")}, "", guessStep("1"), leftOut, ""},
		"inexact, and it has changed": {true, []script.Step{readStep()}, "// user\n" + long, guessStep("1"), "no_match", ""},
		"exact":                       {true, []script.Step{readStep()}, "", editStep("return 3", "return 30"), "", strings.Replace(long, "return 3", "return 30", 1)},
		"exact, in what it was":       {true, []script.Step{readStep()}, strings.Replace(long, "func c() {", "func cc() {", 1), editStep("func a() {\n\treturn 1  \n}", "func a() {\n\treturn 7\n}"), "", strings.NewReplacer("func c() {", "func cc() {", "return 1  ", "return 7").Replace(long)},
		"written":                     {true, []script.Step{readStep()}, "", writeStep("all new\n"), leftOut, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSeer(t, t.TempDir(), nil)
			s.save(long)
			_, res := s.ask(s.agent, aycoder.Input{}, tt.before...)
			if tt.compacts {
				_, res = s.ask(s.agent, aycoder.Input{Messages: res.Messages}, work()...)
				require.Positive(t, s.seen)
			}
			if tt.save != "" {
				s.save(tt.save)
			}
			was := s.text()
			out, res := s.ask(s.agent, aycoder.Input{Messages: res.Messages}, tt.last)
			require.Contains(t, out, tt.refused)
			if tt.want != "" {
				require.Equal(t, tt.want, s.text(), out)
				return
			}
			require.Equal(t, was, s.text())
			if tt.refused == leftOut {
				require.Contains(t, out, "read")
				out, _ = s.ask(s.agent, aycoder.Input{Messages: res.Messages}, readStep(), tt.last)
				require.NotEqual(t, was, s.text(), out)
			}
		})
	}
}

// It holds in another process as well, and an Undo to before the compaction gives the sight back.
func TestSeenFilesOfSessions(t *testing.T) {
	timed.Serial(t)
	for i := range 4 {
		later, outlines := i%2 == 1, i > 1
		dir := t.TempDir()
		store, err := journal.Dir(t.TempDir())
		require.NoError(t, err)
		open := func(id string) (*seer, *session.Session) {
			var files *snapshot.Files
			s := newSeer(t, dir, func(ws *workspace.Workspace) tools.FS {
				files = snapshot.New(ws)
				return files
			})
			var kept *session.Session
			var err error
			opts := []session.Option{session.WithFiles(files)}
			if outlines {
				opts = append(opts, session.WithCompactor(s.keep))
			}
			if id == "" {
				kept, err = session.New(t.Context(), store, s.agent, opts...)
			} else {
				kept, err = session.Open(t.Context(), store, id, s.agent, opts...)
			}
			require.NoError(t, err)
			return s, kept
		}
		s, kept := open("")
		s.save(seenFile())
		s.ask(kept, aycoder.Input{}, readStep())
		head := kept.Head()
		s.ask(kept, aycoder.Input{}, work()...)
		require.Positive(t, s.seen)
		if later {
			require.NoError(t, kept.Close())
			s, kept = open(kept.ID())
		}
		out, _ := s.ask(kept, aycoder.Input{}, guessStep("1"))
		if !strings.Contains(out, leftOut) {
			t.Errorf("later %v, outlines %v: %s", later, outlines, out)
		}
		require.Equal(t, seenFile(), s.text())
		_, err = kept.Checkout(t.Context(), head)
		require.NoError(t, err)
		out, _ = s.ask(kept, aycoder.Input{}, guessStep("1"))
		require.Equal(t, strings.Replace(seenFile(), "return 1  ", "return 10  ", 1), s.text(), out)
		require.NoError(t, kept.Close())
	}
}

// A file does not count as seen, either, if a function of the host took it out of the conversation: not in
// the same process, in which a later call may get the id of the one that showed it, and not in another one.
func TestSeenFilesAfterSessionCompact(t *testing.T) {
	for name, later := range map[string]bool{"same process": false, "other process": true} {
		for call, step := range map[string]script.Step{"edit": guessStep("1"), "write": writeStep("all new\n")} {
			t.Run(name+", "+call, func(t *testing.T) {
				dir := t.TempDir()
				store, err := journal.Dir(t.TempDir())
				require.NoError(t, err)
				var kept *session.Session
				open := func() *seer {
					var files *snapshot.Files
					s := newSeer(t, dir, func(ws *workspace.Workspace) tools.FS {
						files = snapshot.New(ws)
						return files
					})
					var err error
					if kept == nil {
						kept, err = session.New(t.Context(), store, s.agent, session.WithFiles(files))
					} else {
						require.NoError(t, kept.Close())
						kept, err = session.Open(t.Context(), store, kept.ID(), s.agent, session.WithFiles(files))
					}
					require.NoError(t, err)
					return s
				}
				s := open()
				s.save(seenFile())
				read := readStep().WithID("same")
				s.ask(kept, aycoder.Input{}, read)
				require.NoError(t, kept.Compact(t.Context(), func(context.Context, []*aycoder.Message) ([]*aycoder.Message, *aycoder.Compacted, error) {
					return []*aycoder.Message{aycoder.User("There was a file."), aycoder.Assistant("ok")}, nil, nil
				}))
				if later {
					s = open()
				}
				glob := script.Call("glob", arg{"pattern": "*.go"}).WithID("same")
				out, _ := s.ask(kept, aycoder.Input{}, glob, step)
				require.Equal(t, seenFile(), s.text(), out)
				require.Contains(t, out, leftOut)
				out, _ = s.ask(kept, aycoder.Input{}, readStep(), step)
				require.NotEqual(t, seenFile(), s.text(), out)
				require.NoError(t, kept.Close())
			})
		}
	}
}
