package remote

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/tools"
	"github.com/aycoder/aycoder/workspace"
)

// cutter passes frames on in both directions until it has seen a number of them. Then it cuts the
// connection, if half is true in the middle of a frame.
type cutter struct {
	left atomic.Int64
	half bool
	cut  func()
}

func (c *cutter) pass(w io.Writer, r io.Reader) {
	in := bufio.NewReader(r)
	if _, err := io.CopyN(w, in, int64(len(greeting()))); err != nil {
		return
	}
	for {
		head := make([]byte, headerLen)
		if _, err := io.ReadFull(in, head); err != nil {
			c.cut()
			return
		}
		f := append(head, make([]byte, binary.BigEndian.Uint32(head))...)
		if _, err := io.ReadFull(in, f[headerLen:]); err != nil {
			c.cut()
			return
		}
		if c.left.Add(-1) < 0 {
			if c.half {
				_, _ = w.Write(f[:(len(f)+headerLen)/2])
			}
			c.cut()
			return
		}
		if _, err := w.Write(f); err != nil {
			c.cut()
			return
		}
	}
}

// cutConnection connects to a goroutine that serves a directory, until n frames have passed.
func cutConnection(t *testing.T, files tools.FS, e tools.Exec, n int64, half bool) (c *Client, left *atomic.Int64, done func()) {
	t.Helper()
	type pipe struct {
		r *io.PipeReader
		w *io.PipeWriter
	}
	var pipes [4]pipe // client to cutter to server, and back
	for i := range pipes {
		pipes[i].r, pipes[i].w = io.Pipe()
	}
	k := &cutter{half: half, cut: sync.OnceFunc(func() {
		for _, p := range pipes {
			p.r.Close()
			p.w.Close()
		}
	})}
	k.left.Store(n)
	var wg sync.WaitGroup
	wg.Go(func() { k.pass(pipes[1].w, pipes[0].r) })
	wg.Go(func() { k.pass(pipes[3].w, pipes[2].r) })
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = Serve(context.Background(), pipes[1].r, pipes[2].w, files, e)
	}()
	c, err := Connect(t.Context(), pipes[3].r, pipes[0].w)
	require.NoError(t, err)
	return c, &k.left, func() {
		_ = c.Close()
		<-served
		wg.Wait()
	}
}

// journey is what the model of a run does: calls that read, plans and commands, each of which leaves
// a separate mark.
type journey struct {
	t     *testing.T
	dir   string
	steps []script.Step
	marks []mark // by call
}

// mark says what a call leaves: files with contents before and after, or a line in the log.
type mark struct {
	files         []string
	before, after string // "" if there is no file
	line          string
	says          string // what a call that reads says
}

func newJourney(t *testing.T, seed uint64) *journey {
	j := &journey{t: t, dir: t.TempDir()}
	r := rand.New(rand.NewPCG(seed, 7))
	long := strings.Repeat("a line of a long text\n", 5000)
	put := func(name, text string) string {
		require.NoError(t, os.WriteFile(filepath.Join(j.dir, name), []byte(text), 0o644))
		return name
	}
	for i := range 3 + r.IntN(3) {
		a, b := fmt.Sprintf("a%d", i), fmt.Sprintf("b%d", i)
		var call script.Step
		var m mark
		switch r.IntN(6) {
		case 0:
			call, m = script.Call("read_file", map[string]any{"path": put(a, "text\n")}), mark{says: "text"}
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
		j.steps, j.marks = append(j.steps, call.WithID(fmt.Sprintf("c%d", i))), append(j.marks, m)
	}
	return j
}

// state says whether what a call does is done: "before", "after", or what else there is.
func (j *journey) state(m mark) string {
	if m.line != "" {
		log, _ := os.ReadFile(filepath.Join(j.dir, "log"))
		return []string{"before", "after", "twice", "thrice"}[min(strings.Count(string(log), m.line), 3)]
	}
	states := map[string]bool{}
	for _, name := range m.files {
		data, _ := os.ReadFile(filepath.Join(j.dir, name))
		switch string(data) {
		case m.before:
			states["before"] = true
		case m.after:
			states["after"] = true
		default:
			return fmt.Sprintf("%.100q in %s", data, name)
		}
	}
	if len(states) > 1 {
		return "a part"
	}
	for s := range states {
		return s
	}
	return ""
}

// run makes a run over a connection that is cut after n frames, and checks what is left of it. It
// returns whether the run came to its end before the cut.
func (j *journey) run(n int64, half bool) bool {
	ws, err := workspace.Open(j.dir)
	require.NoError(j.t, err)
	defer ws.Close()
	e, err := tools.LocalExec()
	require.NoError(j.t, err)
	c, left, done := cutConnection(j.t, ws, e, n, half)
	coding, err := tools.Coding(c, tools.WithExec(c))
	require.NoError(j.t, err)
	loop, err := aycoder.New(script.New(append(j.steps, script.Say("done"))...), aycoder.WithTools(coding...),
		aycoder.WithApprover(aycoder.ApproverFunc(func(context.Context, *aycoder.ToolUse, *aycoder.ToolSpec) aycoder.Verdict {
			return aycoder.Allow()
		})))
	require.NoError(j.t, err)
	var res aycoder.Result
	for _, err := range loop.Run(j.t.Context(), aycoder.Input{Messages: []*aycoder.Message{aycoder.User("go")}}, aycoder.Into(&res)) {
		require.NoError(j.t, err)
	}
	whole := left.Load() >= 0
	done()
	require.NoError(j.t, aycoder.CheckHistory(res.Messages))
	j.check(res.Messages, n)
	j.orphans(n)
	return whole
}

// check compares what each call says with what it has done.
func (j *journey) check(messages []*aycoder.Message, n int64) {
	answered := 0
	for _, msg := range messages {
		for _, p := range msg.Parts {
			out, ok := p.(*aycoder.ToolOutput)
			if !ok {
				continue
			}
			i, err := strconv.Atoi(strings.TrimPrefix(out.ID, "c"))
			require.NoError(j.t, err)
			m, text := j.marks[i], out.Parts[0].(*aycoder.Text).Text
			answered++
			if m.says != "" {
				require.True(j.t, out.IsError || strings.Contains(text, m.says), "cut at %d, call %d: %.300s", n, i, text)
				continue
			}
			state := j.state(m)
			switch {
			case !out.IsError:
				require.Equal(j.t, "after", state, "cut at %d, call %d: %.300s", n, i, text)
			case strings.HasPrefix(text, "interrupted:"):
				require.Contains(j.t, []string{"before", "after"}, state, "cut at %d, call %d: %.300s", n, i, text)
			default:
				require.Equal(j.t, "before", state, "cut at %d, call %d: %.300s", n, i, text)
			}
		}
	}
	require.Equal(j.t, len(j.marks), answered)
}

// orphans checks that no process is left in the directory.
func (j *journey) orphans(n int64) {
	all, _ := filepath.Glob("/proc/[0-9]*/cwd")
	for _, name := range all {
		if at, err := os.Readlink(name); err == nil && strings.HasPrefix(at, j.dir) {
			j.t.Fatalf("cut at %d: %s is still there", n, name)
		}
	}
}

// The connection of a run is cut at each of its messages. AYCODER_REMOTE_CUTS sets the number of runs.
func TestCutAtEveryMessage(t *testing.T) {
	timed.Long(t, "hundreds of connections that are cut")
	runs, _ := strconv.Atoi(os.Getenv("AYCODER_REMOTE_CUTS"))
	if runs == 0 && timed.Reduced(t) {
		runs = 1
	} else if runs == 0 {
		runs = 2
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("%d runs, seed %d", runs, seed)
	cuts := 0
	for i := range runs {
		for n := int64(1); ; n++ {
			cuts++
			j := newJourney(t, seed+uint64(i))
			whole := j.run(n, (i+int(n))%2 == 0)
			require.NoError(t, os.RemoveAll(j.dir))
			if whole {
				break
			}
		}
	}
	t.Logf("%d connections were cut", cuts-runs)
}
