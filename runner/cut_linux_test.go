package runner

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/edit"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/tools"
	"github.com/aycoder/aycoder/workspace"
)

// A cutter is what is between a runner and its server. It passes messages on in both directions until it has seen a number
// of them. Then it cuts the connection, if half is true in the middle of a message; later connections stay.
type cutter struct {
	net.Listener
	to   string
	left atomic.Int64
	half bool
	work sync.WaitGroup
}

func newCutter(t *testing.T, server string, n int64, half bool) *cutter {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	k := &cutter{Listener: l, to: strings.TrimPrefix(server, "http://"), half: half}
	k.left.Store(n)
	k.work.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			k.work.Go(func() { k.join(c) })
		}
	})
	return k
}

func (k *cutter) join(runner net.Conn) {
	server, err := net.Dial("tcp", k.to)
	if err != nil {
		runner.Close()
		return
	}
	cut := sync.OnceFunc(func() { runner.Close(); server.Close() })
	var both sync.WaitGroup
	both.Go(func() { defer cut(); k.pass(server, runner) })
	both.Go(func() { defer cut(); k.pass(runner, server) })
	both.Wait()
}

// pass passes on the head of the request, or of the answer, the greeting, and then messages.
func (k *cutter) pass(w io.Writer, r io.Reader) {
	in := bufio.NewReader(r)
	method, _ := in.Peek(6)
	for line := ""; line != "\r\n"; {
		var err error
		if line, err = in.ReadString('\n'); err != nil {
			return
		}
		if _, err = io.WriteString(w, line); err != nil {
			return
		}
	}
	if string(method) == "DELETE" || strings.HasPrefix(string(method), "HTTP/") && in.Buffered() == 0 && k.refused(in) {
		_, _ = io.Copy(w, in)
		return
	}
	if _, err := io.CopyN(w, in, int64(len("aycoder-remote\n")+2)); err != nil {
		return
	}
	for {
		f := make([]byte, 9)
		if _, err := io.ReadFull(in, f); err != nil {
			return
		}
		f = append(f, make([]byte, binary.BigEndian.Uint32(f))...)
		if _, err := io.ReadFull(in, f[9:]); err != nil {
			return
		}
		if k.left.Add(-1) == -1 {
			if k.half {
				_, _ = w.Write(f[:(len(f)+9)/2])
			}
			return
		}
		if _, err := w.Write(f); err != nil {
			return
		}
	}
}

// refused reports whether what follows an answer is not a greeting.
func (k *cutter) refused(in *bufio.Reader) bool {
	b, err := in.Peek(1)
	return err != nil || b[0] != 'a'
}

// A journey is what the model of a run does: calls that read, plans and commands, each of which leaves a separate mark.
type journey struct {
	t     *testing.T
	dir   string
	steps []script.Step
	marks []mark // by call
}

// A mark says what a call leaves: files with a text before and after, or a line in the log.
type mark struct {
	files         []string
	before, after string // "" if there is no file
	line          string
	says          string // what a call that reads says
}

func newJourney(t *testing.T, seed uint64) *journey {
	j := &journey{t: t, dir: t.TempDir()}
	r := rand.New(rand.NewPCG(seed, 11))
	put := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(j.dir, name), []byte(text), 0o644))
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
		case 2:
			text := strings.Repeat("a line of a long text\n", 1+r.IntN(5000))
			call, m = script.Call("write_file", map[string]any{"path": "d/" + a, "content": text}), mark{files: []string{"d/" + a}, after: text}
		case 3:
			put(a, "one\ntwo\n")
			call = script.Call("edit_file", map[string]any{"path": a, "old_string": "two", "new_string": "2"})
			m = mark{files: []string{a}, before: "one\ntwo\n", after: "one\n2\n"}
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
	var states []string
	for _, name := range m.files {
		data, _ := os.ReadFile(filepath.Join(j.dir, name))
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

// arrived records the plans and commands that reach the machine of the runner.
type arrived struct {
	tools.FS
	exec tools.Exec

	mu      sync.Mutex
	plans   []string // digests
	scripts []string
	bare    int // without what was approved
}

func (a *arrived) Apply(ctx context.Context, plan edit.Plan, opts ...workspace.ApplyOption) (*edit.Result, error) {
	set, err := workspace.SettingsOf(opts...)
	a.mu.Lock()
	a.plans = append(a.plans, plan.Digest())
	if err != nil || set.Approved != plan.Digest() {
		a.bare++
	}
	a.mu.Unlock()
	return a.FS.Apply(ctx, plan, opts...)
}

func (a *arrived) Run(ctx context.Context, c *tools.ExecCommand) (*tools.ExecResult, error) {
	a.mu.Lock()
	a.scripts = append(a.scripts, c.Script)
	if c.Approved == "" {
		a.bare++
	}
	a.mu.Unlock()
	return a.exec.Run(ctx, c)
}

// counts are over all runs of a test.
type counts struct{ cuts, interrupted, refused, done, later int }

// run makes a run over a connection that is cut after n messages, and checks what is left of it. It returns whether
// there was no cut.
func (j *journey) run(n int64, half bool, sum *counts) bool {
	ws, err := workspace.Open(j.dir)
	require.NoError(j.t, err)
	defer ws.Close()
	local, err := tools.LocalExec()
	require.NoError(j.t, err)
	there := &arrived{FS: ws, exec: local}
	h, url := hub(j.t)
	k := newCutter(j.t, url, n, half)
	stop := servingFiles(j.t, "http://"+k.Addr().String(), there, there)
	env, err := h.Environment(j.t.Context(), "laptop")
	require.NoError(j.t, err)
	coding, err := tools.Coding(env, tools.WithExec(env))
	require.NoError(j.t, err)
	var mu sync.Mutex
	approved := map[string]bool{} // digests of plans, and scripts
	loop, err := aycoder.New(script.New(append(j.steps, script.Say("done"))...), aycoder.WithTools(coding...),
		aycoder.WithApprover(aycoder.ApproverFunc(func(_ context.Context, _ *aycoder.ToolUse, s *aycoder.ToolSpec) aycoder.Verdict {
			if s.Effect == aycoder.EffectReadOnly {
				return aycoder.Allow()
			}
			return aycoder.Ask()
		})))
	require.NoError(j.t, err)
	var res aycoder.Result
	for ev, err := range loop.Run(j.t.Context(), aycoder.Input{Messages: []*aycoder.Message{aycoder.User("go")}}, aycoder.Into(&res)) {
		require.NoError(j.t, err)
		if ask, ok := ev.(*aycoder.ApprovalRequested); ok {
			mu.Lock()
			if p := ask.Request.Plan; p != nil {
				approved[p.Digest()] = true
			}
			_, command, _ := strings.Cut(ask.Request.Preview, ": ")
			approved[command] = true
			mu.Unlock()
			ask.Allow()
		}
	}
	whole := k.left.Load() >= 0
	_ = stop()
	k.Close()
	require.NoError(j.t, h.Close())
	k.work.Wait()
	require.NoError(j.t, aycoder.CheckHistory(res.Messages))
	require.Zero(j.t, there.bare, "cut at %d", n)
	for _, x := range append(there.plans, there.scripts...) {
		require.True(j.t, approved[x], "cut at %d: nobody has approved %.200q", n, x)
	}
	j.check(res.Messages, n, sum)
	j.orphans(n)
	return whole
}

// check compares what each call says with what it has done.
func (j *journey) check(messages []*aycoder.Message, n int64, sum *counts) {
	answered, failed := 0, false
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
			if failed && !out.IsError {
				sum.later++
			}
			failed = failed || out.IsError
			if m.says != "" {
				require.True(j.t, out.IsError || strings.Contains(text, m.says), "cut at %d, call %d: %.300s", n, i, text)
				continue
			}
			state := j.state(m)
			switch {
			case !out.IsError:
				sum.done++
				require.Equal(j.t, "after", state, "cut at %d, call %d: %.300s", n, i, text)
			case strings.HasPrefix(text, "interrupted:"):
				sum.interrupted++
				require.Contains(j.t, []string{"before", "after"}, state, "cut at %d, call %d: %.300s", n, i, text)
			default:
				sum.refused++
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

// The connection of a run is cut at each of its messages, and the run goes on over the next one.
// AYCODER_REMOTE_CUTS sets the number of runs.
func TestCutAtEveryMessage(t *testing.T) {
	timed.Long(t, "hundreds of connections that are cut")
	runs, _ := strconv.Atoi(os.Getenv("AYCODER_REMOTE_CUTS"))
	runs = max(runs, 1)
	seed := uint64(time.Now().UnixNano())
	t.Logf("%d runs, seed %d", runs, seed)
	var sum counts
	for i := range runs {
		for n := int64(0); ; n++ {
			j := newJourney(t, seed+uint64(i))
			whole := false
			t.Run(fmt.Sprintf("%d at %d", i, n), func(t *testing.T) {
				j.t = t
				whole = j.run(n, (i+int(n))%2 == 0, &sum)
			})
			require.NoError(t, os.RemoveAll(j.dir))
			if whole || t.Failed() {
				break
			}
			sum.cuts++
		}
	}
	t.Logf("%d connections were cut: %d writing calls done, %d interrupted, %d refused before they began, %d calls done after one that was lost",
		sum.cuts, sum.done, sum.interrupted, sum.refused, sum.later)
	require.False(t, t.Failed())
	require.NotZero(t, sum.later)
}
