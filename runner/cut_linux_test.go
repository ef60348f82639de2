package runner

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/edit"
	"github.com/aycoder/aycoder/internal/journey"
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

// cutRun makes a run over a connection that is cut after n messages, and checks what is left of it. It returns whether
// there was no cut.
func cutRun(t *testing.T, j *journey.Journey, n int64, half bool) (sum journey.Counts, whole bool) {
	ws, err := workspace.Open(j.Dir)
	require.NoError(t, err)
	defer ws.Close()
	local, err := tools.LocalExec()
	require.NoError(t, err)
	there := &arrived{FS: ws, exec: local}
	h, url := hub(t)
	k := newCutter(t, url, n, half)
	stop := servingFiles(t, "http://"+k.Addr().String(), there, there)
	env, err := h.Environment(t.Context(), "laptop")
	require.NoError(t, err)
	coding, err := tools.Coding(env, tools.WithExec(env))
	require.NoError(t, err)
	var mu sync.Mutex
	approved := map[string]bool{} // digests of plans, and scripts
	loop, err := aycoder.New(script.New(j.Steps...), aycoder.WithTools(coding...),
		aycoder.WithApprover(aycoder.ApproverFunc(func(_ context.Context, _ *aycoder.ToolUse, s *aycoder.ToolSpec) aycoder.Verdict {
			if s.Effect == aycoder.EffectReadOnly {
				return aycoder.Allow()
			}
			return aycoder.Ask()
		})))
	require.NoError(t, err)
	var res aycoder.Result
	for ev, err := range loop.Run(t.Context(), aycoder.Input{Messages: []*aycoder.Message{aycoder.User("go")}}, aycoder.Into(&res)) {
		require.NoError(t, err)
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
	whole = k.left.Load() >= 0
	_ = stop()
	k.Close()
	require.NoError(t, h.Close())
	k.work.Wait()
	require.Zero(t, there.bare, "cut at %d", n)
	for _, x := range append(there.plans, there.scripts...) {
		require.True(t, approved[x], "cut at %d: nobody has approved %.200q", n, x)
	}
	return j.Check(t, res.Messages, n), whole
}

// The connection of a run is cut at each of its messages, and the run goes on over the next one.
// AYCODER_REMOTE_CUTS sets the number of runs.
func TestCutAtEveryMessage(t *testing.T) {
	timed.Long(t, "hundreds of connections that are cut")
	runs, _ := strconv.Atoi(os.Getenv("AYCODER_REMOTE_CUTS"))
	runs = max(runs, 1)
	seed := uint64(time.Now().UnixNano())
	t.Logf("%d runs, seed %d", runs, seed)
	var sum journey.Counts
	cuts := 0
	for i := range runs {
		for n := int64(0); ; n++ {
			j := journey.New(t, seed+uint64(i))
			whole := false
			t.Run(fmt.Sprintf("%d at %d", i, n), func(t *testing.T) {
				var of journey.Counts
				of, whole = cutRun(t, j, n, (i+int(n))%2 == 0)
				sum.Done, sum.Interrupted, sum.Refused, sum.Later = sum.Done+of.Done, sum.Interrupted+of.Interrupted, sum.Refused+of.Refused, sum.Later+of.Later
			})
			require.NoError(t, os.RemoveAll(j.Dir))
			if whole || t.Failed() {
				break
			}
			cuts++
		}
	}
	t.Logf("%d connections were cut: %d writing calls done, %d interrupted, %d refused before they began, %d calls done after one that was lost",
		cuts, sum.Done, sum.Interrupted, sum.Refused, sum.Later)
	require.False(t, t.Failed())
	require.NotZero(t, sum.Later)
}
