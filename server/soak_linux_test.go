package server_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/server"
)

// soakEnv is how many minutes TestMemoryOfServer works.
const soakEnv = "AYCODER_SERVER_MINUTES"

// rss returns the resident memory of this process in KiB.
func rss(t *testing.T) int {
	data, err := os.ReadFile("/proc/self/status")
	require.NoError(t, err)
	for line := range strings.SplitSeq(string(data), "\n") {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			n, err := strconv.Atoi(strings.Fields(rest)[0])
			require.NoError(t, err)
			return n
		}
	}
	t.Fatal("no VmRSS")
	return 0
}

// A server that works without a pause does not grow: its memory at the end is at most 1.1 times that after a fifth of the time.
func TestMemoryOfServer(t *testing.T) {
	minutes, err := strconv.ParseFloat(os.Getenv(soakEnv), 64)
	if err != nil {
		t.Skip(soakEnv + " is not set: for how many minutes to work")
	}
	s := newSite(t, nil, server.WithLimits(server.Limits{Rate: 1 << 20, Sessions: 24}))
	s.open = func(opts []harness.Option) []harness.Option {
		return append(opts, harness.WithClient(script.New(script.Think("Hm."),
			script.Reply(script.Think("Hm."), script.Say(strings.Repeat("All work. ", 20)), script.Call("read_file", `{"path":"a.txt"}`)),
			script.Call("edit_file", map[string]any{"path": "a.txt", "old_string": "two", "new_string": "two"}),
			script.Call("write_file", map[string]any{"path": "b.txt", "content": "new"}),
			script.Say("Done.")).With(script.WithLoop(true), script.WithPace(10*time.Millisecond))))
	}
	s.start()
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(minutes*float64(time.Minute)))
	defer cancel()
	var runs atomic.Int64
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() { soak(ctx, s, uint64(i), &runs) })
	}
	var all []int
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-tick.C:
			all = append(all, rss(t))
		case <-ctx.Done():
		}
	}
	wg.Wait()
	after := func(n int) int { // the median of the last 20 s
		last := slices.Clone(all[max(0, n-20):n])
		slices.Sort(last)
		return last[len(last)/2]
	}
	early, late := after(len(all)/5), after(len(all))
	t.Logf("%d runs; resident memory: %d KiB after a fifth of the time, %d KiB at the end, ratio %.3f; at most %d KiB", runs.Load(), early, late,
		float64(late)/float64(early), slices.Max(all))
	require.LessOrEqual(t, 10*late, 11*early)
}

// soak uses a site in many ways: whole runs, clients that break off and come again, questions, and all forms.
func soak(ctx context.Context, s *site, seed uint64, runs *atomic.Int64) {
	rng := rand.New(rand.NewPCG(seed, 20))
	session := ""
	for n := 0; ctx.Err() == nil; n++ {
		body := prompt(fmt.Sprint("go ", n))
		if n%20 != 0 {
			body["session"] = session
		}
		res := s.do("POST", "/api/prompt", body)
		session = res.Header.Get("Aycoder-Session")
		run := runOf(res)
		r := s.read(res)
		for over := false; !over; {
			e, ok := r.one()
			if !ok || rng.IntN(30) == 0 { // breaks off
				r.close()
				r = s.read(s.do("GET", "/api/runs/"+run+"/events", nil, "Last-Event-ID", e.id))
			}
			switch ev := e.ev.(type) {
			case *aycoder.ApprovalRequested:
				answer := map[string]any{"decision": []string{"allow", "deny"}[rng.IntN(2)], "digest": ev.Request.Digest}
				s.do("POST", "/api/runs/"+run+"/approvals/"+ev.Request.CallID, answer).Body.Close()
			case *aycoder.RunFinished:
				over = true
			}
		}
		r.close()
		if n%5 == 0 {
			for _, path := range []string{"/api/agui", "/api/chat", "/v1/chat/completions"} {
				b := aguiBody(fmt.Sprint("r", n), "id", fmt.Sprint("c", seed, "-", n/20), "stream", true, "threadId", fmt.Sprint("t", seed, "-", n/20),
					"messages", list{{"id": fmt.Sprint("u", n), "role": "user", "content": "go", "parts": list{{"type": "text", "text": "go"}}}})
				if path == "/v1/chat/completions" {
					delete(b, "tools")
				}
				res := s.do("POST", path, b)
				res.Body.Close() // reads nothing
				if run := runOf(res); run != "" {
					s.do("POST", "/api/runs/"+run+"/cancel", nil).Body.Close()
				}
			}
		}
		s.do("GET", "/api/sessions/"+session, nil).Body.Close()
		runs.Add(1)
	}
}
