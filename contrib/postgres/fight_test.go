package postgres

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	osexec "os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aycoder/aycoder/journal"
)

// fightVariable makes TestFight do the work of one of its processes. Its value is a fighter.
const fightVariable = "AYCODER_FIGHT_HELPER"

// fighter is the task of a process: to open any of the sessions for writing, and to append to it.
type fighter struct {
	Dir      string
	Sessions int
	Seed     uint64
}

// link is a record of a chain: each names the one before by its hash, so that two writers that both continue the same
// record cannot stay unnoticed.
type link struct {
	N    int    `json:"n"`
	Prev string `json:"prev"`
	By   int    `json:"by"`
	Text string `json:"text"`
}

func hashOf(record []byte) string {
	sum := sha256.Sum256(record)
	return hex.EncodeToString(sum[:8])
}

// fightLease returns the lease of fighters. A process that is stopped for longer loses its session. On a machine with few processors,
// the server takes more than a second to accept the connections of fifty new processes.
func fightLease() time.Duration {
	if os.Getenv("AYCODER_FIGHT") != "" {
		return 5 * time.Second
	}
	return time.Second
}

// TestFight lets processes fight for sessions, while some of them are killed and others are stopped until they have lost
// what they had. No session forks, and whatever was acknowledged is there. AYCODER_FIGHT=1 makes it large.
func TestFight(t *testing.T) {
	if text := os.Getenv(fightVariable); text != "" {
		var f fighter
		must(t, json.Unmarshal([]byte(text), &f))
		f.run(t)
		return
	}
	processes, sessions, wantedKills, wantedStops := 6, 12, 10, 3
	if os.Getenv("AYCODER_FIGHT") != "" {
		processes, sessions, wantedKills, wantedStops = 50, 1000, 500, 50
	}
	dir := tempDir(t)
	s := openStore(t, dir)
	for i := range sessions {
		j, err := s.Create(t.Context(), strconv.Itoa(i))
		must(t, err)
		must(t, j.Close())
	}
	a := &arena{t: t, acks: make([]map[int]string, sessions), counts: map[string]int{}}
	for i := range a.acks {
		a.acks[i] = map[int]string{}
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	seed := uint64(0)
	start := func() *combatant {
		seed++
		return a.start(fighter{Dir: dir, Sessions: sessions, Seed: seed})
	}
	all := make([]*combatant, processes)
	for i := range all {
		all[i] = start()
	}
	for kills, stops := 0, 0; kills < wantedKills || stops < wantedStops; {
		a.await(1 + rnd.IntN(2*processes))
		i := rnd.IntN(len(all))
		if stops < wantedStops && rnd.IntN(8) == 0 || kills == wantedKills {
			if stops++; !all[i].stop(s) {
				stops = wantedStops // this system cannot
			}
			continue
		}
		kills++
		all[i].kill()
		all[i] = start()
	}
	for _, c := range all {
		c.stdin.Close()
	}
	for _, c := range all {
		c.wait()
	}
	a.check(s)
	t.Logf("%d processes, %d sessions: %v", processes, sessions, a.counts)
	if a.counts["taken"] == 0 && a.counts["busy"] == 0 {
		t.Error("no process has met another one")
	}
}

// arena collects what the processes say.
type arena struct {
	t testing.TB

	mu     sync.Mutex
	acks   []map[int]string // of each session: the hashes of records by their numbers
	counts map[string]int
	news   chan struct{}
}

// combatant is a process.
type combatant struct {
	arena *arena
	cmd   *osexec.Cmd
	stdin io.Closer
	done  chan struct{}

	holder atomic.Int64
}

func (a *arena) start(f fighter) *combatant {
	text, err := json.Marshal(f)
	must(a.t, err)
	c := &combatant{arena: a, cmd: osexec.Command(os.Args[0], "-test.run=^TestFight$", "-test.count=1"), done: make(chan struct{})}
	c.cmd.Env = append(os.Environ(), fightVariable+"="+string(text))
	c.cmd.Stderr = os.Stderr
	c.stdin, err = c.cmd.StdinPipe()
	must(a.t, err)
	out, err := c.cmd.StdoutPipe()
	must(a.t, err)
	must(a.t, c.cmd.Start())
	go func() {
		defer close(c.done)
		for in := bufio.NewScanner(out); in.Scan(); {
			a.hear(c, in.Text())
		}
		_ = c.cmd.Wait() // it may have been killed
	}()
	return c
}

func (c *combatant) kill() {
	c.arena.mu.Lock()
	c.arena.counts["killed"]++
	c.arena.mu.Unlock()
	_ = c.cmd.Process.Kill()
	<-c.done
}

// stop stops a process until it has lost its lease, so that others may take what it had.
func (c *combatant) stop(s *Store) bool {
	if !stopProcess(c.cmd.Process) {
		return false
	}
	for held := 1; held > 0; {
		must(c.arena.t, s.row(c.arena.t.Context(), []any{&held}, `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'
			AND mode = 'ExclusiveLock' AND (classid::bigint << 32) + objid::bigint = $1`, c.holder.Load()))
	}
	c.arena.await(3)
	continueProcess(c.cmd.Process)
	return true
}

// wait waits for the end of a process. One that hangs ends the test.
func (c *combatant) wait() { <-c.done }

// hear takes a line of a process. It may be half a line if the process was killed; then it has no full stop.
func (a *arena) hear(c *combatant, line string) {
	rest, ok := strings.CutPrefix(line, "fight: ")
	if !ok || !strings.HasSuffix(rest, ".") {
		return
	}
	var word, hash string
	var session, n int
	_, _ = fmt.Sscan(strings.TrimSuffix(rest, "."), &word, &session, &n, &hash)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.counts[word]++
	switch word {
	case "ack":
		if before, ok := a.acks[session][n]; ok && before != hash {
			a.t.Errorf("session %d: record %d was acknowledged twice, as %s and %s", session, n, before, hash)
		}
		a.acks[session][n] = hash
		if a.news != nil {
			select {
			case a.news <- struct{}{}:
			default:
			}
		}
	case "holder":
		id, _ := strconv.ParseInt(hash, 10, 64)
		c.holder.Store(id)
	case "error":
		a.t.Errorf("a process says: %s", rest)
	}
}

// await waits for a number of acknowledgements, of which it may miss some.
func (a *arena) await(n int) {
	news := make(chan struct{})
	a.mu.Lock()
	a.news = news
	a.mu.Unlock()
	for range n {
		<-news
	}
}

// check compares all sessions with what was acknowledged.
func (a *arena) check(s *Store) {
	total, acked := 0, 0
	for i, acks := range a.acks {
		j, err := s.Open(a.t.Context(), strconv.Itoa(i), true)
		must(a.t, err)
		hashes := map[int]string{}
		if _, err := chain(a.t.Context(), j, func(n int, hash string) { hashes[n] = hash }); err != nil {
			a.t.Errorf("session %d: %v", i, err)
		}
		must(a.t, j.Close())
		for n, hash := range acks {
			if hashes[n] != hash {
				a.t.Errorf("session %d: record %d is %q, %q was acknowledged", i, n, hashes[n], hash)
			}
		}
		total, acked = total+len(hashes), acked+len(acks)
	}
	a.t.Logf("%d records, %d of them acknowledged, in the right chains", total, acked)
}

// chain reads a chain and returns its last record.
func chain(ctx context.Context, j journal.Journal, each func(n int, hash string)) (last link, err error) {
	prev := ""
	for r, err := range j.Records(ctx) {
		var l link
		if err == nil {
			err = json.Unmarshal(r, &l)
		}
		if err != nil {
			return last, err
		}
		if l.N != last.N+1 || l.Prev != prev {
			return last, fmt.Errorf("record %d names %q as record %d, which is %q", l.N, l.Prev, last.N, prev)
		}
		last, prev = l, hashOf(r)
		each(l.N, prev)
	}
	last.Prev = prev // for the next one
	return last, nil
}

// run fights until its input ends.
func (f *fighter) run(t testing.TB) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	s, err := Open(ctx, os.Getenv(addressVariable)+" pool_max_conns=3", WithSchema(schemaOf(f.Dir)), WithLease(fightLease()))
	if err == nil {
		fmt.Printf("fight: holder 0 0 %d.\n", s.lease.me)
		rnd := rand.New(rand.NewPCG(f.Seed, 3))
		for err == nil && ctx.Err() == nil {
			err = f.round(ctx, s, rnd)
		}
		err = errors.Join(err, s.Close())
	}
	if err != nil && ctx.Err() == nil {
		fmt.Printf("fight: error %v.\n", err)
	}
}

// round opens a session and appends to it. Half of the time, it is one of a few that are sought after.
func (f *fighter) round(ctx context.Context, s *Store, rnd *rand.Rand) error {
	i := rnd.IntN(f.Sessions)
	if rnd.IntN(2) == 0 {
		i %= 10
	}
	j, err := s.Open(ctx, strconv.Itoa(i), true)
	if _, busy := errors.AsType[*journal.BusyError](err); busy {
		fmt.Printf("fight: busy.\n")
		return nil
	}
	if err != nil {
		return err
	}
	last, err := chain(ctx, j, func(int, string) {})
	for range 1 + rnd.IntN(8) {
		if err != nil {
			break
		}
		var records [][]byte
		for range 1 + rnd.IntN(3) {
			last = link{N: last.N + 1, Prev: last.Prev, By: os.Getpid(), Text: strings.Repeat("x", rnd.IntN(500))}
			r, err := json.Marshal(last)
			if err != nil {
				return err
			}
			records, last.Prev = append(records, r), hashOf(r)
		}
		if err = j.Append(ctx, rnd.IntN(4) > 0, records...); err == nil {
			for k, r := range records {
				fmt.Printf("fight: ack %d %d %s.\n", i, last.N-len(records)+1+k, hashOf(r))
			}
		}
	}
	if _, busy := errors.AsType[*journal.BusyError](err); busy { // it was stopped for too long
		fmt.Printf("fight: taken.\n")
		err = nil
	}
	return errors.Join(err, j.Close())
}
