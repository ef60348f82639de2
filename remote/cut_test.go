package remote

import (
	"bufio"
	"context"
	"encoding/binary"
	"io"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/journey"
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

// cutRun makes a run over a connection that is cut after n frames, and checks what is left of it. It
// returns whether the run came to its end before the cut.
func cutRun(t *testing.T, j *journey.Journey, n int64, half bool) bool {
	ws, err := workspace.Open(j.Dir)
	require.NoError(t, err)
	defer ws.Close()
	e, err := tools.LocalExec()
	require.NoError(t, err)
	c, left, done := cutConnection(t, ws, e, n, half)
	coding, err := tools.Coding(c, tools.WithExec(c))
	require.NoError(t, err)
	loop, err := aycoder.New(script.New(j.Steps...), aycoder.WithTools(coding...),
		aycoder.WithApprover(aycoder.ApproverFunc(func(context.Context, *aycoder.ToolUse, *aycoder.ToolSpec) aycoder.Verdict {
			return aycoder.Allow()
		})))
	require.NoError(t, err)
	var res aycoder.Result
	for _, err := range loop.Run(t.Context(), aycoder.Input{Messages: []*aycoder.Message{aycoder.User("go")}}, aycoder.Into(&res)) {
		require.NoError(t, err)
	}
	whole := left.Load() >= 0
	done()
	j.Check(t, res.Messages, n)
	return whole
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
			j := journey.New(t, seed+uint64(i))
			whole := cutRun(t, j, n, (i+int(n))%2 == 0)
			require.NoError(t, os.RemoveAll(j.Dir))
			if whole {
				break
			}
		}
	}
	t.Logf("%d connections were cut", cuts-runs)
}
