package session_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/edit"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/session"
	"github.com/aycoder/aycoder/snapshot"
	"github.com/aycoder/aycoder/tools"
	"github.com/aycoder/aycoder/workspace"
)

// watched is a run without a session in a workspace with some files.
type watched struct {
	*testing.T
	dir   string
	files *snapshot.Files
	end   func(aycoder.Event) // is called for each event
}

func newWatched(t *testing.T, files map[string]string) *watched {
	t.Helper()
	w := &watched{T: t, dir: t.TempDir()}
	for name, text := range files {
		w.write(name, text)
	}
	ws, err := workspace.Open(w.dir)
	require.NoError(t, err)
	t.Cleanup(func() { ws.Close() })
	w.files = snapshot.New(ws)
	return w
}

func (w *watched) write(name, text string) {
	w.Helper()
	path := filepath.Join(w.dir, name)
	require.NoError(w, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(w, os.WriteFile(path, []byte(text), 0o644))
}

// run runs an agent, and returns what it has changed: a line for each file.
func (w *watched) run(steps ...script.Step) (*edit.Changes, []string) {
	w.Helper()
	list, err := tools.Coding(w.files, tools.WithExecMiddleware(w.files.Exec))
	require.NoError(w, err)
	l, err := aycoder.New(script.New(append(steps, script.Say("done"))...), aycoder.WithTools(list...),
		aycoder.WithApprover(verdict(aycoder.Allow())))
	require.NoError(w, err)
	var res aycoder.Result
	for ev, err := range l.Run(w.Context(), aycoder.Input{Prompt: "go"}, aycoder.WithChanges(w.files.Watch), aycoder.Into(&res)) {
		require.NoError(w, err)
		if w.end != nil {
			w.end(ev)
		}
	}
	return res.Changes, lines(res.Changes)
}

// lines describes changes.
func lines(c *edit.Changes) (out []string) {
	for _, f := range c.Files() {
		line := string(f.Kind) + " " + f.Path
		if f.From != "" {
			line += " from " + f.From
		}
		if f.Mixed {
			line += ", mixed"
		}
		if f.Secret {
			line += ", secret"
		}
		if f.NoDiff != "" {
			line += ": " + f.NoDiff
		}
		out = append(out, line)
	}
	return out
}

func sh1(format string, args ...any) script.Step {
	return script.Call("bash", map[string]any{"command": fmt.Sprintf(format, args...)})
}

func TestChangesOfCommands(t *testing.T) {
	timed.Serial(t)
	big := strings.Repeat("0123456789abcdef\n", 100_000)
	tests := []struct {
		name, command string
		want          []string
	}{
		{"nothing", "true", nil},
		{"put back", "cp a b; echo x >> a; mv b a", nil},
		{"touched", "touch a", nil},
		{"moved on", "mv a b; mv b c", []string{"moved c from a"}},
		{"moved and executable", "mv a b; chmod +x b", []string{"moved b from a"}},
		{"moved in a circle", "mv a t; mv d/e a; mv t d/e", []string{"modified a", "modified d/e"}},
		{"deleted and created", "rm a; echo new > a", []string{"modified a"}},
		{"created and deleted", "echo x > n; rm n", nil},
		{"case only", "mv a A", []string{"moved A from a"}},
		{"mode", "chmod +x a", []string{"mode a"}},
		{"permissions", "chmod 600 a", []string{"mode a: git knows only the executable bit of its permissions, which were 644 and are 600"}},
		{"unreadable", "chmod 000 a; echo x >> d/e", []string{"mode a: git knows only the executable bit of its permissions, which were 644 and are 0", "modified d/e"}},
		{"directory for file", "rm a; mkdir a; echo x > a/b", []string{"deleted a", "created a/b"}},
		{"file for directory", "rm -r d; echo x > d", []string{"created d", "deleted d/e"}},
		{"link for file", "ln -sf /etc/passwd a", []string{"modified a"}},
		{"link that leads out", "ln -s ../../.. up; ln -s up/etc e", []string{"created e", "created up"}},
		{"pipe", "rm a; mkfifo a", []string{"modified a: its content is not held: it is not a regular file"}},
		{"empty directory", "mkdir -p x/y", nil},
		{"secret name", "echo KEY=1 > .env", []string{"created .env: its content is not held: files of this name hold secrets"}},
		{"secret", "echo 'token = \"ghp_16C7e42F292c6912E7710c838347Ae178B4a\"' > s", []string{"created s, secret"}},
		{"not UTF-8", `echo x > $(printf 'n\377')`, []string{"created \"n\\xff\": its name is not valid UTF-8"}},
		{"large", "head -c 9000000 /dev/zero > z", []string{"created z: it is larger than 8388608 bytes"}},
		{"large difference", "sed -i s/9/8/ big; echo x >> a", []string{"modified a",
			"modified big: the differences of the run are larger than 1048576 bytes"}},
		{"small difference", "sed -i 5s/9/8/ big", []string{"modified big"}},
		{"version control", "git init -q; git add -A; git -c user.name=a -c user.email=a@b commit -qm c; echo x >> a; git stash -q", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWatched(t, map[string]string{"a": "a\nb\n", "d/e": "e\n", "big": big})
			got, list := w.run(sh1("%s", tt.command))
			require.Equal(t, tt.want, list)
			require.Empty(t, got.Missing())
			for _, f := range got.Files() {
				require.Len(t, f.By, 1)
				require.True(t, f.By[0].Command && !f.By[0].Tool)
				require.Equal(t, tt.name == "pipe" || f.NoDiff != "" && f.Path != "a", f.NoDiff != "" && f.Kind != edit.ChangeMode)
			}
			data, err := json.Marshal(got)
			require.NoError(t, err)
			require.NotContains(t, string(data), "ghp_")
		})
	}
}

// The changes of the user, before, between and after those of the agent, are not among the changes.
func TestChangesWithoutThoseOfTheUser(t *testing.T) {
	text := "1\n2\n3\n4\n5\n6\n7\n8\n9\n"
	w := newWatched(t, map[string]string{"a": text, "b": text, "c": text, "d": text, "e": text, "f": text})
	n := 0
	w.end = func(ev aycoder.Event) {
		if _, ok := ev.(*aycoder.ToolFinished); !ok {
			return
		}
		n++
		if n == 5 { // the model has read the files
			w.write("a", "user\n"+text)
			w.write("user", "text")
			w.write("f", text+"user\n")
		}
		if n == 6 { // the agent has changed them
			w.write("b", "user\n"+strings.Replace(text, "5", "five", 1))
			w.write("c", strings.Replace(text, "5", "FIVE", 1))
			require.NoError(t, os.Remove(filepath.Join(w.dir, "d")))
			w.write("e", text)
		}
	}
	var patch strings.Builder
	patch.WriteString("*** Begin Patch\n")
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		patch.WriteString("*** Update File: " + name + "\n@@\n 4\n-5\n+five\n 6\n")
	}
	var reads []script.Step
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		reads = append(reads, readFile(name))
	}
	got, list := w.run(script.Reply(reads[0]), script.Reply(reads[1:]...).WithStop(aycoder.StopToolUse),
		script.Call("apply_patch", map[string]any{"patch": patch.String() + "*** End Patch\n"}), sh1("true"), sh1("true"))

	require.Equal(t, []string{"modified a", "modified b", "modified c, mixed"}, list)
	for _, f := range got.Files()[:2] {
		require.NotContains(t, f.Diff, "-user")
		require.NotContains(t, f.Diff, "+user")
		require.Contains(t, f.Diff, "-5\n+five\n")
		require.True(t, f.By[0].Tool && !f.By[0].Command)
	}
}

// Each agent has its part of a file.
func TestChangesOfAgents(t *testing.T) {
	w := newWatched(t, map[string]string{"a": tenLines})
	list, err := tools.Coding(w.files, tools.WithExecMiddleware(w.files.Exec))
	require.NoError(t, err)
	helper, err := tools.Subagent(tools.SubagentConfig{Model: script.New(readFile("a"), editFile("a", "9", "nine"), script.Say("done")),
		Tools: list, Options: []aycoder.Option{aycoder.WithName("helper")}})
	require.NoError(t, err)
	l, err := aycoder.New(script.New(readFile("a"), editFile("a", "2", "two"), script.Call("subagent", map[string]any{"task": "t"}), script.Say("done")),
		aycoder.WithTools(append(list, helper)...), aycoder.WithName("main"), aycoder.WithApprover(verdict(aycoder.Allow())))
	require.NoError(t, err)
	var res aycoder.Result
	for _, err := range l.Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.WithChanges(w.files.Watch), aycoder.Into(&res)) {
		require.NoError(t, err)
	}
	by := res.Changes.Files()[0].By
	require.Len(t, by, 2)
	require.Equal(t, "main", by[0].Agent)
	require.Equal(t, "helper", by[1].Agent)
	require.Contains(t, by[0].Diff, "-2\n+two\n")
	require.NotContains(t, by[0].Diff, "-9")
	require.Contains(t, by[1].Diff, "-9\n+nine\n")
	require.NotContains(t, by[1].Diff, "-2")
	require.Equal(t, by[1].Diff, res.Changes.Diff(by[1].Run))
}

func TestChangesAreBounded(t *testing.T) {
	w := newWatched(t, nil)
	got, list := w.run(sh1("mkdir ign; echo 'ign/' > .gitignore; echo x > ign/x; for i in $(seq 2100); do echo $i > f$i; done"))
	require.Len(t, list, 2000)
	require.Equal(t, []string{"Commands are not watched in what git ignores: ign.", "101 more files have changed."}, got.Missing())
	require.Less(t, len(asJSON(t, got)), 2<<20)
}

// A run that is cancelled while a command works tells what the command had changed.
func TestChangesOfCancelledRun(t *testing.T) {
	w := newWatched(t, map[string]string{"a": "a\n"})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	pipe := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	go func() {
		_, _ = os.ReadFile(pipe) // the command is there
		cancel()
	}()
	list, err := tools.Coding(w.files, tools.WithExecMiddleware(w.files.Exec))
	require.NoError(t, err)
	l, err := aycoder.New(script.New(sh1("echo b >> a; echo x > %s; sleep 100", pipe)), aycoder.WithTools(list...),
		aycoder.WithApprover(verdict(aycoder.Allow())), aycoder.WithLimits(aycoder.Limits{Grace: time.Minute}))
	require.NoError(t, err)
	var res aycoder.Result
	for _, err := range l.Run(ctx, aycoder.Input{Prompt: "go"}, aycoder.WithChanges(w.files.Watch), aycoder.Into(&res)) {
		_ = err
	}
	require.Equal(t, []string{"modified a"}, lines(res.Changes))
	require.Empty(t, res.Changes.Missing())
}

// A command in the background that still runs is named.
func TestChangesWhileCommandRuns(t *testing.T) {
	w := newWatched(t, map[string]string{"a": "a\n"})
	got, list := w.run(script.Call("bash", map[string]any{"command": "echo b >> a; sleep 100", "background": true}),
		sh1("until grep -q b a; do :; done"))
	require.Equal(t, []string{"modified a"}, list)
	if len(got.Missing()) > 0 { // the shell ends with the run, perhaps before the files are looked at
		require.Equal(t, []string{"A command still runs."}, got.Missing())
	}
	_, list = w.run(sh1("true"))
	require.Empty(t, list)
}

// Suspended in one process and resumed in another one, a run tells all that it has changed.
func TestChangesOfResumedRun(t *testing.T) {
	for _, sameProcess := range []bool{true, false} {
		t.Run(fmt.Sprint(sameProcess), func(t *testing.T) {
			dir, store := t.TempDir(), newMemory()
			require.NoError(t, os.WriteFile(filepath.Join(dir, "a"), []byte(tenLines), 0o644))
			open := func(id string, v aycoder.Verdict, steps ...script.Step) (*desk, *aycoder.Loop) {
				d := newDesk(t, id, store, dir)
				list, err := tools.Coding(d.files, tools.WithExecMiddleware(d.files.Exec))
				require.NoError(t, err)
				l, err := aycoder.New(script.New(steps...), aycoder.WithTools(list...), aycoder.WithApprover(
					aycoder.ApproverFunc(func(_ context.Context, c *aycoder.ToolUse, _ *aycoder.ToolSpec) aycoder.Verdict {
						if strings.Contains(string(c.Args), "ask") {
							return v
						}
						return aycoder.Allow()
					})))
				require.NoError(t, err)
				require.NoError(t, d.s.SetAgent(l))
				return d, l
			}
			d, _ := open("", aycoder.Suspend(), sh1("sed -i s/^2/two/ a"),
				script.Reply(sh1("sed -i s/^3/three/ a; echo x > new"), sh1("echo ask; sed -i s/^9/nine/ a")))
			res := run(t, d.s, "go")
			require.Equal(t, aycoder.EndSuspended, res.End)
			require.Equal(t, []string{"modified a", "created new"}, lines(res.Changes))
			d.write("a", strings.Replace(d.read("a"), "5\n", "user\n", 1))
			if !sameProcess {
				require.NoError(t, d.s.Close())
				id := d.s.ID()
				d, _ = open(id, aycoder.Allow(), script.Say("done"), script.Say("nothing"))
				require.NoError(t, d.s.Trim(t.Context())) // keeps what the steps need
			} else {
				list, err := tools.Coding(d.files, tools.WithExecMiddleware(d.files.Exec))
				require.NoError(t, err)
				l, err := aycoder.New(script.New(script.Say("done"), script.Say("nothing")), aycoder.WithTools(list...), aycoder.WithApprover(verdict(aycoder.Allow())))
				require.NoError(t, err)
				require.NoError(t, d.s.SetAgent(l))
			}
			for _, err := range d.s.Run(t.Context(), aycoder.Input{}, aycoder.Into(&res)) {
				require.NoError(t, err)
			}
			require.Equal(t, aycoder.EndDone, res.End)
			require.Equal(t, []string{"modified a", "created new"}, lines(res.Changes))
			require.Empty(t, res.Changes.Missing())
			diff := res.Changes.Files()[0].Diff
			require.Contains(t, diff, "-2\n-3\n+two\n+three\n")
			require.Contains(t, diff, "-9\n+nine\n")
			require.NotContains(t, diff, "+user")
			res = run(t, d.s, "and now nothing")
			require.Empty(t, lines(res.Changes))
		})
	}
}

// Runs on two branches at the same time tell their own changes each, and both together lead from before to
// after.
func TestChangesOfBranches(t *testing.T) {
	dir := t.TempDir()
	d := newDesk(t, "", newMemory(), dir)
	for _, name := range []string{"a", "b", "both"} {
		d.write(name, tenLines)
	}
	before := filepath.Join(t.TempDir(), "before")
	shell(t, dir, "cp", "-a", dir, before)
	var all []*edit.Changes
	var wg sync.WaitGroup
	var mu sync.Mutex
	for name, line := range map[string]string{"a": "2", "b": "9"} {
		b := d.branch(name, session.Root, readFile(name), editFile(name, "5", "five"), readFile("both"), editFile("both", line, "of "+name), script.Say("done"))
		wg.Go(func() {
			var res aycoder.Result
			for _, err := range b.Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.Into(&res)) {
				require.NoError(t, err)
			}
			mu.Lock()
			defer mu.Unlock()
			require.Equal(t, []string{"modified " + name, "modified both"}, lines(res.Changes))
			all = append(all, res.Changes)
		})
	}
	wg.Wait()
	for _, c := range all {
		out, err := apply(t, before, c.Diff())
		require.NoError(t, err, "%s\n%s", out, c.Diff())
	}
	require.Equal(t, tree(t, dir), tree(t, before))
}

// After a crash, what the interrupted call had changed is said to be missing.
func TestChangesAfterCrash(t *testing.T) {
	dir, store := t.TempDir(), newMemory()
	d := newDesk(t, "", store, dir, sh1("echo x > a"), sh1("echo y > b"), script.Say("done"))
	n := 0
	for ev, err := range d.s.Run(t.Context(), aycoder.Input{Prompt: "go"}) {
		require.NoError(t, err)
		if _, ok := ev.(*aycoder.ToolFinished); ok {
			n++
		}
		if n == 2 {
			break
		}
	}
	records := slices.Clone(store.sessions[d.s.ID()].records)
	require.NoError(t, d.s.Close())
	cut := 0
	for i, r := range records { // up to where the second call has begun
		if strings.Contains(string(r), `"fact":"tool_began"`) {
			cut = i
		}
	}
	store.sessions[d.s.ID()].records = records[:cut+1]
	o := newDesk(t, d.s.ID(), store, dir, script.Say("done"))
	require.NotNil(t, o.s.Pending())
	var res aycoder.Result
	for _, err := range o.s.Run(t.Context(), aycoder.Input{}, aycoder.Into(&res)) {
		require.NoError(t, err)
	}
	require.Equal(t, []string{"created a"}, lines(res.Changes))
	require.Equal(t, []string{"The run was interrupted. What its calls had changed since the last message counts as the user's.",
		"Commands are not watched in what git ignores."}, res.Changes.Missing())
}
