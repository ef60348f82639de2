package server_test

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/server"
)

// streamsEnv is the number of streams of TestManyStreams.
const streamsEnv = "AYCODER_STREAMS"

// Many clients read runs at the same time: slowly, breaking off, and coming again with the id of the last event that they
// have. Each puts together what one has that was not disturbed.
func TestManyStreams(t *testing.T) {
	streams, runs := 24, 6
	if n, err := strconv.Atoi(os.Getenv(streamsEnv)); err == nil {
		streams, runs = n, n/8
	}
	text := strings.Repeat("All work and no play. ", 400)
	s := newSite(t, nil, server.WithLimits(server.Limits{Rate: 1 << 20, Sessions: runs + 1, Streams: 2*streams + runs}))
	model := func() aycoder.ModelClient {
		return script.New(
			script.Reply(script.Think("Hm."), script.Say(text), script.Call("read_file", `{"path":"a.txt"}`)),
			script.Reply(script.Say(text), script.Call("list_files", `{}`), script.Call("read_file", `{"path":"none"}`)),
			script.Say(text),
		).With(script.WithChunk(20))
	}
	s.open = func(opts []harness.Option) []harness.Option { return append(opts, harness.WithClient(model())) }
	s.start()
	before := runtime.NumGoroutine()
	type started struct {
		id   string
		want []string
	}
	all := make([]started, runs)
	var wg, undisturbed sync.WaitGroup
	for i := range all {
		res := s.do("POST", "/api/prompt", prompt(fmt.Sprint("go ", i)))
		all[i].id = runOf(res)
		undisturbed.Go(func() { all[i].want = story(s.read(res).rest()) })
	}
	got := make([][]string, streams)
	for i := range got {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(i), 7))
			var seen []event
			for after := ""; ; {
				r := s.read(s.do("GET", "/api/runs/"+all[i%runs].id+"/events", nil, "Last-Event-ID", after))
				left := rng.IntN(40) == 0 // reads to the end
				for n := rng.IntN(30); n > 0 || left; n-- {
					e, ok := r.one()
					if !ok {
						break
					}
					seen, after = append(seen, e), e.id
					if rng.IntN(8) == 0 {
						runtime.Gosched()
					}
				}
				r.close()
				if len(seen) > 0 && seen[len(seen)-1].kind == "run_end" {
					got[i] = story(seen)
					return
				}
			}
		})
	}
	wg.Wait()
	undisturbed.Wait()
	for i, g := range got {
		require.Equal(t, all[i%runs].want, g, i)
		require.NotEmpty(t, g)
	}
	t.Logf("%d streams of %d runs, %d goroutines before, %d after", streams, runs, before, runtime.NumGoroutine())
}

// Clients that read nothing but a byte cost little memory, and do not slow their run: it ends while they are still there. Those
// that come when it works may cost as much as the answer that they are shown first.
func TestClientsThatReadNothing(t *testing.T) {
	const clients, turns = 32, 6
	text := strings.Repeat("All work and no play. ", 15_000) // 330 kB
	var steps []script.Step
	for range turns {
		steps = append(steps, script.Reply(script.Say(text), script.Call("read_file", `{"path":"a.txt"}`)))
	}
	gate := make(chan struct{})
	first := script.Func(func(*aycoder.Request) script.Step {
		<-gate
		return steps[0]
	})
	s := newSite(t, script.New(append([]script.Step{first}, append(steps[1:], script.Say("Done."))...)...).With(script.WithChunk(512))).start()
	res := s.do("POST", "/api/prompt", prompt("go"))
	reader := s.read(res)
	reader.until("run_start")
	before := memory()
	for range clients {
		conn, err := net.Dial("tcp", s.http.Listener.Addr().String())
		require.NoError(t, err)
		defer conn.Close()
		require.NoError(t, conn.(*net.TCPConn).SetReadBuffer(4<<10))
		_, err = fmt.Fprintf(conn, "GET /api/runs/%s/events HTTP/1.1\r\nHost: %s\r\n\r\n", runOf(res), s.http.Listener.Addr())
		require.NoError(t, err)
		_, err = conn.Read(make([]byte, 1)) // until the client is served
		require.NoError(t, err)
	}
	close(gate)
	reader.until("run_end")
	each := (memory() - before) / clients
	t.Logf("%d KiB for each of %d clients that read nothing of %d KiB", each>>10, clients, turns*len(text)>>10)
	require.LessOrEqual(t, each, 1<<20)
}

// memory returns what the heap and the stacks take, without garbage.
func memory() int {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc + m.StackInuse)
}

// BenchmarkFirstEvent compares the time to the first text of a run over HTTP with that of the same run in the process. Both
// make a session first. The runs take turns, so that what else the machine does slows both.
func BenchmarkFirstEvent(b *testing.B) {
	b.Run("disk", func(b *testing.B) { firstEvent(b, nil) })
	b.Run("memory", func(b *testing.B) { firstEvent(b, journal.Memory()) })
}

func firstEvent(b *testing.B, store journal.Store) {
	s := newSite(b, script.New(script.Say("Hi.")).With(script.WithLoop(true)), server.WithLimits(server.Limits{Rate: 1 << 20}))
	s.kept = store
	s.start()
	var http, process []time.Duration
	for b.Loop() {
		start := time.Now()
		r := s.read(s.do("POST", "/api/prompt", prompt("go")))
		r.until("text_delta")
		http = append(http, time.Since(start))
		r.rest()

		start = time.Now()
		rt, err := s.openRuntime(b.Context(), "other", "")
		require.NoError(b, err)
		for ev, err := range rt.Run(b.Context(), aycoder.Input{Prompt: "go"}) {
			require.NoError(b, err)
			if _, ok := ev.(*aycoder.TextDelta); ok {
				process = append(process, time.Since(start))
			}
		}
		require.NoError(b, rt.Close())
	}
	for name, all := range map[string][]time.Duration{"http": http, "process": process} {
		slices.Sort(all)
		b.ReportMetric(float64(all[len(all)/2])/1e6, name+"-p50-ms")
		b.ReportMetric(float64(all[len(all)*99/100])/1e6, name+"-p99-ms")
	}
}
