package session_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/session"
	"github.com/aycoder/aycoder/snapshot"
	"github.com/aycoder/aycoder/tools"
	"github.com/aycoder/aycoder/workspace"
)

// coder returns an agent with the coding tools on the files of the desk.
func (d *desk) coder(steps ...script.Step) aycoder.Agent {
	list, err := tools.Coding(d.files, tools.WithExecMiddleware(d.files.Exec))
	require.NoError(d.t, err)
	l, err := aycoder.New(script.New(steps...), aycoder.WithTools(list...), aycoder.WithApprover(verdict(aycoder.Allow())))
	require.NoError(d.t, err)
	return l
}

// branch returns a branch of the session on which a new agent follows the script. It begins at the
// node from if it is new.
func (d *desk) branch(name string, from session.ID, steps ...script.Step) *session.Branch {
	b := d.s.BranchOf(name)
	if b == nil {
		var err error
		b, err = d.s.NewBranch(d.t.Context(), name, from, d.coder())
		require.NoError(d.t, err)
	}
	require.NoError(d.t, b.SetAgent(d.coder(steps...)))
	return b
}

func (d *desk) read(name string) string {
	d.t.Helper()
	data, err := os.ReadFile(filepath.Join(d.dir, name))
	require.NoError(d.t, err)
	return string(data)
}

func readFile(path string) script.Step {
	return script.Call("read_file", map[string]any{"path": path})
}

func editFile(path, old, new string) script.Step {
	return script.Call("edit_file", map[string]any{"path": path, "old_string": old, "new_string": new})
}

const tenLines = "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n"

// A file that an agent writes is merged with what that agent was shown, and not with what another
// agent was: it would otherwise delete the lines of the other agent.
func TestAgentsSeeForThemselves(t *testing.T) {
	for _, tt := range []struct {
		name  string
		other []script.Step // of the agent on another branch
		want  string
	}{
		{"the other has edited", []script.Step{editFile("f", "9\n", "9\nother\n"), script.Say("done")},
			"1\nmine\n2\n3\n4\n5\n6\n7\n8\n9\nother\n10\n"},
		{"the other has written", []script.Step{readFile("f"), writeFile("f", "1\n2\n3\n4\n5\n6\n7\n8\nother\n9\n10\n"), script.Say("done")},
			"1\nmine\n2\n3\n4\n5\n6\n7\n8\nother\n9\n10\n"},
		{"the other has read what the user wrote", []script.Step{bash("sed -i 's/^8$/8 of the user/' f"), readFile("f"), script.Say("done")},
			"1\nmine\n2\n3\n4\n5\n6\n7\n8 of the user\n9\n10\n"},
		{"the other has searched", []script.Step{bash("sed -i 's/^8$/8 of the user/' f"),
			script.Call("code_search", map[string]any{"pattern": "user"}), bash("grep user f"), script.Say("done")},
			"1\nmine\n2\n3\n4\n5\n6\n7\n8 of the user\n9\n10\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := newDesk(t, "", journal.Memory(), t.TempDir())
			d.write("f", tenLines)
			run(t, d.branch("a", session.Root, readFile("f"), script.Say("read")), "look")
			run(t, d.branch("b", session.Root, tt.other...), "change")
			run(t, d.branch("a", session.Root, writeFile("f", "1\nmine\n"+tenLines[2:]), script.Say("done")), "change")
			require.Equal(t, tt.want, d.read("f"))
		})
	}
}

// An agent that has not read a file does not replace it, although another one has read it.
func TestAgentHasNotRead(t *testing.T) {
	d := newDesk(t, "", journal.Memory(), t.TempDir())
	d.write("f", tenLines)
	run(t, d.branch("a", session.Root, readFile("f"), script.Say("read")), "look")
	res := run(t, d.branch("b", session.Root, writeFile("f", "mine\n"), script.Say("done")), "change")
	require.Contains(t, asJSON(t, res.Messages), "not_read")
	require.Equal(t, tenLines, d.read("f"))
}

// A checkout of a branch does not change what the agents of other branches were shown, and each of
// them is still known in the next process, and on a branch that begins where it was shown.
func TestShownFilesOfBranches(t *testing.T) {
	store := journal.Memory()
	d := newDesk(t, "", store, t.TempDir())
	d.write("f", tenLines)
	for _, name := range []string{"", "a", "b"} {
		run(t, d.branch(name, session.Root, readFile("f"), script.Say("read")), "look")
	}
	_, err := d.branch("b", 0).Undo(t.Context())
	require.NoError(t, err)
	text := tenLines
	write := func(name string) aycoder.Result {
		text = "user\n" + text
		d.write("f", text)
		b := d.branch(name, d.s.BranchOf("a").Head(), writeFile("f", tenLines+name+"\n"), script.Say("done"))
		return run(t, b, "change")
	}
	write("a")
	require.Equal(t, "user\n"+tenLines+"a\n", d.read("f"))

	text = tenLines
	write("")
	require.Equal(t, "user\n"+tenLines+"\n", d.read("f"))
	text = tenLines
	require.Contains(t, asJSON(t, write("b").Messages), "not_read", "the reading was undone")

	text = tenLines
	d.write("f", text)
	run(t, d.branch("a", 0, readFile("f"), script.Say("read")), "look")
	head := d.s.BranchOf("a").Head()
	require.NoError(t, d.s.Close())
	d = newDesk(t, d.s.ID(), store, d.dir)
	write("a")
	require.Equal(t, "user\n"+tenLines+"a\n", d.read("f"))
	text = tenLines
	b := d.branch("new", head)
	require.Equal(t, head, b.Head())
	write("new")
	require.Equal(t, "user\n"+tenLines+"new\n", d.read("f"))
}

// deskOf returns a desk on a store in memory. Its agent reads f, reads it again beside a command,
// which suspends the run if suspend is set, and writes it with a line more. Before the second
// reading, the user deletes the line 9.
func deskOf(t *testing.T, store journal.Store, id, dir string, suspend bool) *desk {
	ws, err := workspace.Open(dir)
	require.NoError(t, err)
	t.Cleanup(func() { ws.Close() })
	d := &desk{t: t, dir: dir, store: store, files: snapshot.New(ws)}
	step := script.Func(func(req *aycoder.Request) script.Step {
		m := teammate{}
		answers, files, _ := m.round(req)
		switch answers {
		case 0:
			return readFile("f").WithID("first")
		case 1:
			if id == "" {
				d.write("f", strings.Replace(tenLines, "9\n", "", 1))
			}
			return script.Reply(readFile("f").WithID("second"), bash("true").WithID("third"))
		case 2:
			return writeFile("f", files["f"]+"mine\n").WithID("fourth")
		}
		return script.Say("done")
	})
	list, err := tools.Coding(d.files, tools.WithExecMiddleware(d.files.Exec))
	require.NoError(t, err)
	approve := aycoder.ApproverFunc(func(_ context.Context, call *aycoder.ToolUse, _ *aycoder.ToolSpec) aycoder.Verdict {
		if suspend && call.Name == "bash" {
			return aycoder.Suspend()
		}
		return aycoder.Allow()
	})
	l, err := aycoder.New(script.New(step).With(script.WithLoop(true)), aycoder.WithTools(list...), aycoder.WithApprover(approve))
	require.NoError(t, err)
	if id == "" {
		d.s, err = session.New(t.Context(), store, l, session.WithFiles(d.files))
	} else {
		d.s, err = session.Open(t.Context(), store, id, l, session.WithFiles(d.files))
	}
	require.NoError(t, err)
	t.Cleanup(func() { d.s.Close() })
	return d
}

// A model that was shown a file just before a crash does not delete a line that the user writes
// afterwards: what it was shown earlier is not the base of its change.
func TestShownBeforeCrash(t *testing.T) {
	timed.Serial(t)
	whole := newMemory()
	d := deskOf(t, whole, "", t.TempDir(), false)
	d.write("f", tenLines)
	run(t, d.s, "round 1")
	require.Equal(t, strings.Replace(tenLines, "9\n", "", 1)+"mine\n", d.read("f"))
	j := whole.sessions[d.s.ID()]
	written := 0
	for n := 2; n <= 2*len(j.records)+1; n += 3 { // whole and trimmed ones
		n, trim := n/2, n%2 == 1
		store := newMemory()
		store.sessions["x"] = &memoryJournal{records: j.records[:n:n], objects: j.objects}
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "f"), []byte(tenLines), 0o644))
		for range 2 { // the second time, nothing is left to do
			o := deskOf(t, store, "x", dir, false)
			if trim {
				require.NoError(t, o.s.Trim(t.Context()))
				require.NoError(t, o.s.Close())
				o = deskOf(t, store, "x", dir, false)
			}
			in := aycoder.Input{}
			if o.s.Pending() == nil {
				in.Prompt = "go on"
			}
			for _, err := range o.s.Run(t.Context(), in) {
				require.NoError(t, err)
			}
			require.Contains(t, o.read("f"), "\n9\n", "after %d of %d records", n, len(j.records))
			if strings.Contains(o.read("f"), "mine") {
				written++
			}
			require.NoError(t, o.s.Close())
		}
	}
	require.Positive(t, written)
}

// The next process knows what the model of a suspended run was shown in the open turn.
func TestShownBeforeSuspension(t *testing.T) {
	store := journal.Memory()
	d := deskOf(t, store, "", t.TempDir(), true)
	d.write("f", tenLines)
	run(t, d.s, "round 1")
	require.NotNil(t, d.s.Pending())
	for _, change := range []func() error{
		func() error { return nil },
		func() error { return d.s.Trim(t.Context()) },
	} {
		require.NoError(t, change())
		require.NoError(t, d.s.Close())
		d = deskOf(t, store, d.s.ID(), d.dir, true)
	}
	d.write("f", tenLines)
	p := d.s.Pending()
	in := aycoder.Input{}
	for _, q := range p.Requests {
		in.Decisions = append(in.Decisions, aycoder.Decision{CallID: q.CallID, Digest: q.Digest, Verdict: aycoder.Allow()})
	}
	require.Len(t, in.Decisions, 1)
	for _, err := range d.s.Run(t.Context(), in) {
		require.NoError(t, err)
	}
	require.Equal(t, tenLines+"mine\n", d.read("f"))
}

// After a crash, the model knows the files that it has read, also if what a job has spent was recorded last.
func TestShownFilesAfterSpent(t *testing.T) {
	store, dir := newMemory(), t.TempDir()
	d := newDesk(t, "", store, dir, readFile("f"), script.Say("read"))
	d.write("f", tenLines)
	run(t, d.s, "look")
	j := store.sessions[d.s.ID()]
	records := slices.Clone(j.records)
	require.NoError(t, d.s.Close())
	last, seq := 0, int64(0) // the node with the output, and the number of the last fact before it
	for i, r := range records {
		var f struct {
			T   string
			Seq int64
		}
		require.NoError(t, json.Unmarshal(r, &f))
		switch {
		case strings.Contains(string(r), `"t":"node"`) && strings.Contains(string(r), `"role":"user"`):
			last = i
		case f.Seq > 0 && strings.Contains(string(r), `"tool_done"`):
			seq = f.Seq
		}
	}
	require.Positive(t, seq)
	spent := &aycoder.ToolDone{Spent: []aycoder.Spent{{Answers: 1}}}
	line, err := aycoder.FactRecord{Run: "1", Seq: seq + 1, Fact: spent}.MarshalJSON()
	require.NoError(t, err)
	j.records = append(records[:last+1:last+1], line)
	d = newDesk(t, d.s.ID(), store, dir, writeFile("f", "mine\n"), script.Say("done"))
	require.NotNil(t, d.s.Pending())
	for _, err := range d.s.Run(t.Context(), aycoder.Input{}) {
		require.NoError(t, err)
	}
	require.Equal(t, "mine\n", d.read("f"))
}
