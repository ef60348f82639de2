package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/edit"
	"github.com/aycoder/aycoder/internal/atomicswap"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/tools"
	"github.com/aycoder/aycoder/workspace"
)

// A hundred calls of all kinds at once each get their own answer.
func TestManyCalls(t *testing.T) {
	dir := t.TempDir()
	c := child(t, dir)
	text := func(i int) string { return strings.Repeat(fmt.Sprintf("line of %d\n", i), 1+i*i*2) }
	for i := range 100 {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, fmt.Sprint("d", i), fmt.Sprint("e", i)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, fmt.Sprint("f", i)), []byte(text(i)), 0o644))
	}
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Go(func() {
			f, err := c.Open(fmt.Sprint("f", i))
			if assert.NoError(t, err) {
				data, err := io.ReadAll(f)
				assert.NoError(t, err)
				assert.True(t, string(data) == text(i), "the file %d", i)
				f.Close()
			}
			all, err := c.ReadDir(t.Context(), fmt.Sprint("d", i))
			assert.NoError(t, err)
			assert.Equal(t, fmt.Sprint("e", i), all[0].Name())
			plan, err := edit.NewPlan(edit.File{Path: fmt.Sprint("f", i), Kind: edit.Change, Base: text(i), Proposed: text(i + 1)})
			assert.NoError(t, err)
			_, err = c.Apply(t.Context(), plan)
			assert.NoError(t, err)
			var out bytes.Buffer
			res, err := c.Run(t.Context(), &tools.ExecCommand{Script: fmt.Sprintf("cat f%d; exit %d", i, i), Root: c.Dir(), Dir: c.Dir(), Env: c.Environ(), Output: &out})
			assert.NoError(t, err)
			assert.Equal(t, i, res.Code)
			assert.True(t, out.String() == text(i+1), "the output %d: %d bytes, want %d", i, out.Len(), len(text(i+1)))
		})
	}
	wg.Wait()
}

// wake is a writer that closes a channel when it has got something.
type wake struct {
	once sync.Once
	c    chan struct{}
	b    bytes.Buffer
}

func newWake() *wake { return &wake{c: make(chan struct{})} }

func (w *wake) Write(p []byte) (int, error) {
	w.b.Write(p)
	if bytes.IndexByte(w.b.Bytes(), '\n') >= 0 {
		w.once.Do(func() { close(w.c) })
	}
	return len(p), nil
}

// gone waits until a process is not there any more, or is a zombie.
func gone(t *testing.T, pid string) {
	t.Helper()
	timed.Until(t, func() bool {
		stat, err := os.ReadFile("/proc/" + strings.TrimSpace(pid) + "/stat")
		return err != nil || bytes.Contains(stat, []byte(") Z"))
	}, "process ", pid)
}

// If the server is killed, the call in flight is interrupted, later ones fail, and the kernel kills
// the command.
func TestServerKilled(t *testing.T) {
	linuxOnly(t)
	dir := t.TempDir()
	cmd := testProgram(dir)
	c, err := Start(t.Context(), cmd)
	require.NoError(t, err)
	out := newWake()
	done := make(chan error, 1)
	go func() {
		_, err := c.Run(t.Context(), &tools.ExecCommand{Script: "echo x >>log; echo $$; sleep 1000", Root: dir, Dir: dir, Env: c.Environ(), Output: out})
		done <- err
	}()
	<-out.c
	all, err := tools.Coding(c, tools.WithExec(c))
	require.NoError(t, err)
	call := func(i int, args string) string {
		r, err := all[i].Call(t.Context(), aycoder.NewInvocation("c1", all[i].Spec().Name, []byte(args), nil))
		require.NoError(t, err)
		return r.Text()
	}
	require.Contains(t, call(8, `{"command":"echo job; sleep 1000","background":true}`), "bash-1: running")
	require.NoError(t, cmd.Process.Kill())
	err = <-done
	require.Equal(t, workspace.KindInterrupted, kindOf(err), "%v", err)
	e, ok := errors.AsType[*DisconnectedError](err)
	require.True(t, ok && e.Started)
	gone(t, out.b.String())
	_, err = c.ReadDir(t.Context(), ".")
	require.ErrorIs(t, err, ErrDisconnected)
	require.Equal(t, workspace.KindIO, kindOf(err))
	require.ErrorContains(t, c.Close(), "killed")
	log, err := os.ReadFile(filepath.Join(dir, "log"))
	require.NoError(t, err)
	assert.Equal(t, "x\n", string(log))

	text := call(8, `{"command":"true"}`) // what the model reads of it
	assert.True(t, strings.HasPrefix(text, "io: "), text)
	assert.Contains(t, text, "nothing was done")
	text = call(9, `{"id":"bash-1","wait":1}`)
	assert.Contains(t, text, "it may have happened or not")
	assert.NotContains(t, text, "not started")
}

func linuxOnly(t *testing.T) {
	t.Helper()
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("there is no /proc here")
	}
}

const clientDir = "AYCODER_TEST_CLIENT"

// If the client is killed, the server ends, and so does the command.
func TestClientKilled(t *testing.T) {
	linuxOnly(t)
	if dir := os.Getenv(clientDir); dir != "" {
		os.Unsetenv(clientDir)
		c, err := Start(t.Context(), testProgram(dir))
		require.NoError(t, err)
		_, _ = c.Run(t.Context(), &tools.ExecCommand{Script: "echo $PPID $$; (setsid sleep 1000 &) ; while :; do echo more; sleep 0.01; done", Root: dir, Dir: dir, Env: c.Environ(), Output: os.Stdout})
		return
	}
	for range 5 {
		dir := t.TempDir()
		cmd := exec.Command(os.Args[0], "-test.run=^TestClientKilled$")
		cmd.Env = append(os.Environ(), clientDir+"="+dir)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		var server, shell string
		_, err = fmt.Fscan(out, &server, &shell)
		require.NoError(t, err)
		require.NoError(t, cmd.Process.Kill())
		_ = cmd.Wait()
		gone(t, server)
		gone(t, shell)
		all, _ := filepath.Glob("/proc/[0-9]*/cwd") // also what has left the session
		for _, name := range all {
			at, err := os.Readlink(name)
			assert.False(t, err == nil && strings.HasPrefix(at, dir), "%s is still there", name)
		}
	}
}

// A client that reads nothing does not make the server take memory, and its commands end with it.
func TestSlowReader(t *testing.T) {
	linuxOnly(t)
	dir := t.TempDir()
	ws, e := local(t, dir)
	toServer, fromClient := io.Pipe()
	toClient, fromServer := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- Serve(t.Context(), toServer, fromServer, ws, e) }()
	send := func(id uint32, what op, body []byte) {
		_, err := fromClient.Write(frameOf(id, frameLast, append([]byte{byte(what)}, body...)))
		require.NoError(t, err)
	}
	_, err := fromClient.Write(greeting())
	require.NoError(t, err)
	require.NoError(t, greeted(toClient))
	c := new(coder).code(&request{Command: tools.ExecCommand{Script: "seq 5000000 >&2; echo end; touch finished", Dir: dir, Env: []string{"PATH=" + os.Getenv("PATH")}}})
	before := allocated()
	send(1, opRun, c.b)
	for id := range uint32(60) { // the answers wait, too
		send(id+2, opReadDir, named(".").b)
	}
	finished := filepath.Join(dir, "finished")
	timed.Until(t, func() bool { _, err := os.Stat(finished); return err == nil })
	assert.Less(t, allocated()-before, uint64(200<<20)) // of 39 MB of output, moved around
	in := newReceiver(toClient)
	var output bytes.Buffer
	for {
		f, err := in.next()
		require.NoError(t, err)
		if f.id == 1 && f.kind == frameOutput {
			output.Write(f.payload)
		}
		if f.id == 1 && f.kind == frameLast {
			break
		}
	}
	assert.Less(t, output.Len(), 2*boxHard+boxSoft)
	assert.Contains(t, output.String(), "left out: the connection is too slow")
	assert.True(t, strings.HasPrefix(output.String(), "1\n2\n3\n"))
	assert.True(t, strings.HasSuffix(output.String(), "5000000\nend\n"))
	c = new(coder).code(&request{Command: tools.ExecCommand{Script: "echo $$ >pid; yes", Dir: dir, Env: []string{"PATH=" + os.Getenv("PATH")}}})
	send(101, opRun, c.b)
	var pid []byte
	timed.Until(t, func() bool { pid, _ = os.ReadFile(filepath.Join(dir, "pid")); return len(pid) > 0 })
	fromClient.Close()
	require.NoError(t, <-done)
	gone(t, string(pid))
}

// slowly passes bytes on in small pieces, so that a large message is long under way.
type slowly struct{ io.WriteCloser }

func (w slowly) Write(p []byte) (int, error) {
	n := 0
	for len(p) > n {
		m, err := w.WriteCloser.Write(p[n:min(len(p), n+4096)])
		if n += m; err != nil {
			return n, err
		}
	}
	return n, nil
}

// A plan that is cancelled at any moment, also while it is being sent, is carried out or not; and
// what Apply returns says which.
func TestCancelledPlans(t *testing.T) {
	dir := t.TempDir()
	ws, e := local(t, dir)
	toServer, fromClient := io.Pipe()
	toClient, fromServer := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- Serve(context.Background(), toServer, fromServer, ws, e) }()
	c, err := Connect(t.Context(), toClient, slowly{fromClient})
	require.NoError(t, err)
	defer func() {
		require.NoError(t, c.Close())
		require.NoError(t, <-done)
	}()
	old, proposed := strings.Repeat("old line\n", 100_000), strings.Repeat("new line\n", 100_000)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	outcomes := map[string]int{}
	plans := 60
	if timed.Reduced(t) {
		plans = 15
	}
	for i := range plans {
		name := fmt.Sprint("f", i)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(old), 0o644))
		plan, err := edit.NewPlan(edit.File{Path: name, Kind: edit.Change, Base: old, Proposed: proposed})
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(r.Int64N(int64(30*time.Millisecond))))
		_, err = c.Apply(ctx, plan)
		cancel()
		data, errRead := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, errRead)
		switch {
		case err == nil:
			outcomes["done"]++
			require.True(t, string(data) == proposed)
		case errors.Is(err, context.DeadlineExceeded):
			outcomes["cancelled"]++
			require.True(t, string(data) == old, "%v", err)
		default:
			t.Fatal(err)
		}
		f, err := c.Open(name) // the connection is fine
		require.NoError(t, err)
		f.Close()
	}
	t.Log(outcomes)
}

// Somebody over there exchanges a directory with a link that leads out: nothing outside is read or
// written.
func TestLinksSwappedThere(t *testing.T) {
	base := t.TempDir()
	dir, out := filepath.Join(base, "ws"), filepath.Join(base, "out")
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "d"), 0o755))
	require.NoError(t, os.Mkdir(out, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "d", "f"), []byte("inside"), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(out, "f"), []byte("SECRET"), 0o644))
	c := child(t, dir)
	require.NoError(t, os.Symlink(out, filepath.Join(dir, "l")))
	top, err := os.Open(dir)
	require.NoError(t, err)
	defer top.Close()
	if err := atomicswap.Exchange(top, "d", "l"); err != nil {
		t.Skipf("two names cannot be exchanged here: %v", err)
	}
	var stop atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() {
		for !stop.Load() {
			_ = atomicswap.Exchange(top, "d", "l")
		}
	})
	read, wrote := 0, 0
	for i := range 1500 {
		for f, err := range c.OpenFiles(t.Context(), []string{"d/f", "d/f"}) {
			if err == nil {
				data, _ := io.ReadAll(f)
				assert.Equal(t, "inside", string(data))
				read++
			}
		}
		if all, err := c.Ahead(t.Context(), "d", nil).ReadDir(t.Context(), "d"); err == nil {
			for _, e := range all {
				assert.NotEqual(t, "g", e.Name())
			}
		}
		if i%10 > 0 {
			continue
		}
		plan, err := edit.NewPlan(edit.File{Path: fmt.Sprint("d/n", i), Kind: edit.Create, Proposed: "x"})
		require.NoError(t, err)
		if _, err := c.Apply(t.Context(), plan); err == nil {
			wrote++
		}
	}
	stop.Store(true)
	wg.Wait()
	all, err := os.ReadDir(out)
	require.NoError(t, err)
	assert.Len(t, all, 1)
	t.Logf("%d reads and %d plans of files that were there", read, wrote)
}

// A file that is opened by a call which nobody waits for any more does not stay open.
func TestAbandonedFilesAreClosed(t *testing.T) {
	timed.Serial(t)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "f"), make([]byte, maxChunk+1), 0o644))
	ws, e := local(t, dir)
	c := here(t, ws, e)
	abandoned := 0
	for i := range 3 * maxOpen {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i%60)*20*time.Microsecond)
		f, err := c.Within(ctx).Open("f")
		if cancel(); err == nil {
			f.Close()
		} else {
			abandoned++
		}
	}
	t.Logf("%d calls were abandoned", abandoned)
	var all []io.Closer
	for range maxOpen {
		f, err := c.Open("f")
		require.NoError(t, err)
		all = append(all, f)
	}
	_, err := c.Open("f")
	require.ErrorContains(t, err, errTooManyOpen.Error())
	for _, f := range all {
		f.Close()
	}
	f, err := c.Open("f")
	require.NoError(t, err)
	f.Close()
}
