// Package journey is for tests of workspaces that are elsewhere: it makes runs of an agent of which each call leaves a
// separate mark, so that a test can cut the connection anywhere and compare what each call says with what it has done.
package journey

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/providers/script"
)

// A Journey is what the model of a run does in a directory: calls that read, plans and commands.
type Journey struct {
	Dir   string
	Steps []script.Step // the last one ends the run
	marks []mark        // by call
}

// A mark says what a call leaves: files with a text before and after, or a line in the log.
type mark struct {
	files         []string
	before, after string // "" if there is no file
	line          string
	says          string // what a call that reads says
}

// New makes the directory and the calls of a seed.
func New(t testing.TB, seed uint64) *Journey {
	j := &Journey{Dir: t.TempDir()}
	r := rand.New(rand.NewPCG(seed, 7))
	long := strings.Repeat("a line of a long text\n", 5000)
	put := func(name, text string) {
		if err := os.WriteFile(filepath.Join(j.Dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 3 + r.IntN(3) {
		a, b := fmt.Sprintf("a%d", i), fmt.Sprintf("b%d", i)
		var call script.Step
		var m mark
		switch r.IntN(6) {
		case 0:
			put(a, "text\n")
			call, m = script.Call("read_file", map[string]any{"path": a}), mark{says: "text"}
		case 1:
			put(a, "needle\n")
			call, m = script.Call("code_search", map[string]any{"pattern": "needle"}), mark{says: a + "\n1:needle"}
			if r.IntN(2) == 0 {
				call, m = script.Call("list_files", map[string]any{"recursive": true}), mark{says: a + "\n"}
			}
		case 2:
			text := "new\n"
			if r.IntN(2) == 0 {
				text = long
			}
			call, m = script.Call("write_file", map[string]any{"path": "d/" + a, "content": text}), mark{files: []string{"d/" + a}, after: text}
		case 3:
			text := "one\ntwo\n" + long[:22*r.IntN(5000)]
			put(a, text)
			call = script.Call("edit_file", map[string]any{"path": a, "old_string": "two", "new_string": "2"})
			m = mark{files: []string{a}, before: text, after: strings.Replace(text, "two", "2", 1)}
		case 4:
			put(a, "old\n")
			put(b, "old\n")
			call = script.Call("apply_patch", map[string]any{"patch": "*** Begin Patch\n*** Update File: " + a + "\n@@\n-old\n+new\n*** Update File: " + b + "\n@@\n-old\n+new\n*** End Patch\n"})
			m = mark{files: []string{a, b}, before: "old\n", after: "new\n"}
		case 5:
			m = mark{line: fmt.Sprintf("call %d\n", i)}
			call = script.Call("bash", map[string]any{"command": fmt.Sprintf("echo begun; echo 'call %d' >>log; sleep 300 & echo done", i)})
		}
		j.Steps, j.marks = append(j.Steps, call.WithID(fmt.Sprintf("c%d", i))), append(j.marks, m)
	}
	j.Steps = append(j.Steps, script.Say("done"))
	return j
}

// state says whether what a call does is done: "before", "after", or what else there is.
func (j *Journey) state(m mark) string {
	if m.line != "" {
		log, _ := os.ReadFile(filepath.Join(j.Dir, "log")) // the first call makes it
		return []string{"before", "after", "twice", "thrice"}[min(strings.Count(string(log), m.line), 3)]
	}
	var states []string
	for _, name := range m.files {
		data, _ := os.ReadFile(filepath.Join(j.Dir, name)) // its call may make it
		s := fmt.Sprintf("%.100q in %s", data, name)
		switch string(data) {
		case m.before:
			s = "before"
		case m.after:
			s = "after"
		}
		states = append(states, s)
	}
	slices.Sort(states)
	return strings.Join(slices.Compact(states), " and ")
}

// Counts are numbers of calls: of those that may change something, those done, those that say that they were interrupted,
// and those refused before they began; and of all, those done after one that was not.
type Counts struct{ Done, Interrupted, Refused, Later int }

// Check compares what each call says in the messages of a run with what it has done, and that nothing of it works any
// more. The number of the cut is a part of what it says.
func (j *Journey) Check(t testing.TB, messages []*aycoder.Message, cut int64) (sum Counts) {
	t.Helper()
	if err := aycoder.CheckHistory(messages); err != nil {
		t.Fatal(err)
	}
	answered, failed := 0, false
	for _, msg := range messages {
		for _, p := range msg.Parts {
			out, ok := p.(*aycoder.ToolOutput)
			if !ok {
				continue
			}
			i, err := strconv.Atoi(strings.TrimPrefix(out.ID, "c"))
			if err != nil {
				t.Fatal(err)
			}
			m, text := j.marks[i], out.Parts[0].(*aycoder.Text).Text
			answered++
			if failed && !out.IsError {
				sum.Later++
			}
			failed = failed || out.IsError
			state, want := j.state(m), []string{"before"}
			switch {
			case m.says != "":
				if !out.IsError && !strings.Contains(text, m.says) {
					t.Fatalf("cut at %d, call %d says %.300q, want %q in it", cut, i, text, m.says)
				}
				continue
			case !out.IsError:
				sum.Done++
				want = []string{"after"}
			case strings.HasPrefix(text, "interrupted:"):
				sum.Interrupted++
				want = []string{"before", "after"}
			default:
				sum.Refused++
			}
			if !slices.Contains(want, state) {
				t.Fatalf("cut at %d, call %d: the files are as %s, want %q; it says %.300s", cut, i, state, want, text)
			}
		}
	}
	if answered != len(j.marks) {
		t.Fatalf("cut at %d: %d of %d calls have an answer", cut, answered, len(j.marks))
	}
	all, _ := filepath.Glob("/proc/[0-9]*/cwd") // none where there is no /proc
	for _, name := range all {
		if at, err := os.Readlink(name); err == nil && strings.HasPrefix(at, j.Dir) {
			t.Fatalf("cut at %d: %s is still there", cut, name)
		}
	}
	return sum
}
