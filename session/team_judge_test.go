package session_test

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/edit"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/session"
	"github.com/aycoder/aycoder/workspace"
)

// A teamJudge knows what was about to be done, and what was told of it.
type teamJudge struct {
	t       *testing.T
	dir     string
	calls   map[string]teamEvent
	order   []string // of the calls
	told    map[string]teamEvent
	users   []lineEdit
	summary string
}

func (j *teamJudge) ok(e lineEdit) { j.users = append(j.users, e) }

// process runs the process of the agents until it is done, or kills it after limit events.
func (j *teamJudge) process(u *teamUser, rounds, limit int) (done bool) {
	cmd := exec.Command(os.Args[0], "-test.run=^TestTeamProcess$")
	cmd.Env = append(os.Environ(), teamEnv+"="+j.dir, fmt.Sprintf("%s=%d", teamRounds, rounds))
	pipe, err := cmd.StdoutPipe()
	require.NoError(j.t, err)
	cmd.Stderr = os.Stderr
	require.NoError(j.t, cmd.Start())
	in := bufio.NewReader(pipe)
	killed := false
	for n := 0; ; n++ {
		if n == limit {
			most := 10
			if n == 0 {
				most = 100 // so that it may be about to open the session
			}
			time.Sleep(time.Duration(rand.IntN(most)) * time.Millisecond)
			killed = cmd.Process.Kill() == nil
		}
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			break // what comes after the kill was about to happen, too
		}
		require.NoError(j.t, err)
		var e teamEvent
		if json.Unmarshal(line, &e) != nil {
			continue // of package testing
		}
		require.NotEqual(j.t, "failed", e.Kind, e.Text)
		done = done || e.Kind == "done"
		j.event(e)
		file := fmt.Sprintf("f%02d", rand.IntN(teamFiles))
		switch n % 20 {
		case 0:
			j.ok(u.append(file))
		case 10:
			if e, ok := u.apply(file); ok {
				j.ok(e)
			}
		}
	}
	err = cmd.Wait()
	if !killed { // or else it may have been done before, and just about to exit
		require.NoError(j.t, err)
	}
	require.True(j.t, done || err != nil)
	return done
}

func (j *teamJudge) event(e teamEvent) {
	switch e.Kind {
	case "call":
		require.NotContains(j.t, j.calls, e.ID)
		j.calls[e.ID] = e
		j.order = append(j.order, e.ID)
	case "told":
		if was, ok := j.told[e.ID]; ok {
			require.Equal(j.t, was, e, "it was told something else before the kill")
		}
		j.told[e.ID] = e
	}
}

// judge compares the history, the messages and the files with what is known.
func (j *teamJudge) judge(ws *workspace.Workspace) {
	store, err := journal.Dir(filepath.Join(j.dir, "sessions"))
	require.NoError(j.t, err)
	s, err := session.Continue(j.t.Context(), store, j.dir, parrot{new(int)}, session.WithDir(j.dir))
	require.NoError(j.t, err, "nobody holds it any more")
	defer s.Close()
	for e, err := range store.List(j.t.Context()) {
		require.NoError(j.t, err)
		if e.ID != s.ID() { // it was killed before it had written the first record
			_, _, err := session.Read(j.t.Context(), store, e.ID)
			require.ErrorContains(j.t, err, "no header", e.ID)
		}
	}
	j.journal(s.ID())
	require.Empty(j.t, s.Damage())
	v := s.View()
	outputs := map[string]*aycoder.ToolOutput{}
	got := make([][]string, teamAgents)
	for a := range teamAgents {
		b := s.BranchOf(fmt.Sprint(a))
		require.Nil(j.t, b.Pending())
		require.Empty(j.t, b.Queued())
		require.NoError(j.t, aycoder.CheckHistory(v.Messages(b.Head())))
		var all []*aycoder.Message
		for _, n := range v.Path(b.Head()) {
			if n.Message() == nil {
				continue
			}
			all = append(all, n.Message())
			if text, ok := strings.CutPrefix(n.Message().Text(), "Message from the agent "); ok {
				_, text, _ = strings.Cut(text, "\n")
				got[a] = append(got[a], text)
			}
			for _, p := range n.Message().Parts {
				if out, ok := p.(*aycoder.ToolOutput); ok {
					require.Equal(j.t, a, j.calls[out.ID].Agent, "an output that belongs to another agent")
					require.NotContains(j.t, outputs, out.ID)
					outputs[out.ID] = out
				}
			}
		}
		require.NoError(j.t, aycoder.CheckHistory(all))
	}
	for id, e := range j.told {
		require.Contains(j.t, outputs, id, "the agent was told, and it is not in the tree")
		require.Equal(j.t, e.Text, textOf(outputs[id]))
		require.Equal(j.t, e.Error, outputs[id].IsError)
	}
	j.messages(outputs, got)
	j.files(outputs, ws)
}

// journal requires that no call began twice.
func (j *teamJudge) journal(id string) {
	times := beginnings(j.t, filepath.Join(j.dir, "sessions", id, "journal.jsonl"))
	for id, n := range times {
		require.True(j.t, n == 1 || strings.HasPrefix(id, "read"), "%s began twice", id)
	}
	require.NotEmpty(j.t, times)
}

// outcome is what a call has done.
type outcome int

const (
	did outcome = iota
	didNot
	unknown // it was interrupted
)

func outcomeOf(out *aycoder.ToolOutput) outcome {
	switch {
	case out == nil: // the call never became a part of the conversation
		return didNot
	case !out.IsError:
		return did
	case strings.HasPrefix(textOf(out), "interrupted"):
		return unknown
	}
	return didNot
}

// messages requires that messages arrived once, and those of one agent in their order.
func (j *teamJudge) messages(outputs map[string]*aycoder.ToolOutput, got [][]string) {
	sent := map[string]int{} // by text: when
	for i, id := range j.order {
		c := j.calls[id]
		if c.Text == "" {
			continue
		}
		sent[c.Text] = i + 1
		times := 0
		for a, texts := range got {
			for _, text := range texts {
				if text == c.Text {
					times++
					require.Equal(j.t, c.To, a)
				}
			}
		}
		switch outcomeOf(outputs[id]) {
		case did:
			require.Equal(j.t, 1, times, "%s was sent", c.Text)
		case didNot:
			require.Zero(j.t, times, "%s was not sent", c.Text)
		case unknown:
			require.LessOrEqual(j.t, times, 1, c.Text)
		}
	}
	for a, texts := range got {
		last := map[string]int{}
		for _, text := range texts {
			from := strings.Split(text, "-")[1]
			require.Greater(j.t, sent[text], last[from], "%q comes to %d in wrong order, or nobody sent it", text, a)
			last[from] = sent[text]
		}
	}
}

// change is an edit with what is known of it.
type change struct {
	lineEdit
	id      string // of the call
	outcome outcome
}

// files requires that the files hold what the changes leave.
func (j *teamJudge) files(outputs map[string]*aycoder.ToolOutput, ws *workspace.Workspace) {
	entries, err := os.ReadDir(filepath.Join(j.dir, "work"))
	require.NoError(j.t, err)
	here := map[string]string{} // tokens, with their files
	for i, e := range entries {
		file := fmt.Sprintf("f%02d", i)
		require.Equal(j.t, file, e.Name(), "something is left")
		data, err := os.ReadFile(filepath.Join(j.dir, "work", file))
		require.NoError(j.t, err)
		for line := range strings.Lines(string(data)) {
			if _, token, ok := strings.Cut(strings.TrimSpace(line), ": "); ok {
				require.NotContains(j.t, here, token, "%s has it twice", file)
				here[token] = file
			}
		}
		require.Equal(j.t, constant(teamFile(file)), constant(string(data)), file)
	}
	require.Len(j.t, entries, teamFiles)

	var all []change
	for file := range teamFiles {
		name := fmt.Sprintf("f%02d", file)
		for line := range strings.Lines(teamFile(name)) {
			if _, token, ok := strings.Cut(strings.TrimSpace(line), ": "); ok {
				all = append(all, change{lineEdit{File: name, New: token}, "", did})
			}
		}
	}
	for _, e := range j.users {
		all = append(all, change{e, "", did})
	}
	count := map[string]int{}
	for _, id := range j.order {
		o := outcomeOf(outputs[id])
		for _, e := range j.calls[id].Edits {
			all = append(all, change{e, id, o})
		}
		if out := outputs[id]; len(j.calls[id].Edits) > 0 && out != nil {
			kind, _, _ := strings.Cut(textOf(out), ":")
			count[cmp.Or(map[bool]string{false: "made"}[out.IsError], kind)]++
		}
	}
	j.summary = fmt.Sprint(count, ", edits of the user: ", len(j.users))
	takers := map[string][]change{} // the changes that take a token out
	for _, c := range all {
		takers[c.Old] = append(takers[c.Old], c)
	}
	// A change was made if its token is there, or was taken by another change that was made.
	made := map[string]bool{}
	var wasMade func(c change) bool
	wasMade = func(c change) bool {
		if yes, known := made[c.New]; known {
			return yes
		}
		_, yes := here[c.New]
		for _, next := range takers[c.New] {
			yes = wasMade(next) || yes
		}
		made[c.New] = yes
		return yes
	}
	calls := map[string]bool{}
	for _, c := range all {
		yes := wasMade(c)
		switch c.outcome {
		case did:
			require.True(j.t, yes, "%s: %s is lost, which took the place of %q (%s)", c.File, c.New, c.Old, c.id)
		case didNot:
			require.False(j.t, yes, "%s: %s was refused (%s), and was written", c.File, c.New, c.id)
		}
		if file := here[c.New]; file != "" {
			require.Equal(j.t, c.File, file)
			delete(here, c.New)
			for _, next := range takers[c.New] {
				require.False(j.t, wasMade(next), "%s: %s is still there, beside %s", c.File, c.New, next.New)
			}
		}
		n := 0
		for _, next := range takers[c.New] {
			if wasMade(next) {
				n++
			}
		}
		require.LessOrEqual(j.t, n, 1, "%s: %s was replaced twice: %v", c.File, c.New, takers[c.New])
		if was, ok := calls[c.id]; ok && c.id != "" {
			require.Equal(j.t, was, yes, "%s was made by half", c.id)
		}
		calls[c.id] = yes
	}
	require.Empty(j.t, here, "nobody wrote this")
	require.NotZero(j.t, count["made"])
	for n := range teamFiles { // nothing is locked
		file := fmt.Sprintf("f%02d", n)
		data, err := os.ReadFile(filepath.Join(j.dir, "work", file))
		require.NoError(j.t, err)
		plan, err := edit.NewPlan(edit.File{Path: file, Kind: edit.Change, Base: string(data), Proposed: string(data) + "end\n"})
		require.NoError(j.t, err)
		_, err = ws.Apply(j.t.Context(), plan)
		require.NoError(j.t, err)
	}
}

// constant returns the lines that no edit changes.
func constant(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if !strings.Contains(line, ": ") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// A teamUser edits the files beside the agents.
type teamUser struct {
	t     *testing.T
	dir   string
	ws    *workspace.Workspace
	calls int
}

func (u *teamUser) path(file string) string { return filepath.Join(u.dir, "work", file) }

func (u *teamUser) token() string {
	u.calls++
	return fmt.Sprint("user-", u.calls)
}

// append adds a line to a file, as a program does that has opened it for appending.
func (u *teamUser) append(file string) lineEdit {
	e := lineEdit{File: file, New: u.token()}
	f, err := os.OpenFile(u.path(file), os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(u.t, err)
	_, err = f.WriteString("user: " + e.New + "\n")
	require.NoError(u.t, errors.Join(err, f.Close()))
	return e
}

// slot replaces a line that the agents change, too.
func (u *teamUser) slot(file string) (lineEdit, string, string) {
	data, err := os.ReadFile(u.path(file))
	require.NoError(u.t, err)
	n := rand.IntN(teamSlots)
	have := tokens(string(data), fmt.Sprint("slot ", n))
	require.Len(u.t, have, 1, "%s:\n%s", file, data)
	e := lineEdit{File: file, Old: have[0], New: u.token()}
	return e, string(data), strings.Replace(string(data), ": "+e.Old+"\n", ": "+e.New+"\n", 1)
}

// save replaces a file by one with another slot, as editors do. The agents are not there meanwhile,
// because the user's editor would overwrite what they write.
func (u *teamUser) save(file string) lineEdit {
	e, _, text := u.slot(file)
	require.NoError(u.t, os.WriteFile(filepath.Join(u.dir, "new"), []byte(text), 0o644))
	require.NoError(u.t, os.Rename(filepath.Join(u.dir, "new"), u.path(file)))
	return e
}

// apply changes a slot through another workspace, as another program with this library does. It
// reports whether there was no conflict.
func (u *teamUser) apply(file string) (lineEdit, bool) {
	e, was, text := u.slot(file)
	plan, err := edit.NewPlan(edit.File{Path: file, Kind: edit.Change, Base: was, Proposed: text})
	require.NoError(u.t, err)
	_, err = u.ws.Apply(u.t.Context(), plan)
	if err != nil {
		_, ok := errors.AsType[*edit.ConflictError](err)
		require.True(u.t, ok, "%v", err)
	}
	return e, err == nil
}
