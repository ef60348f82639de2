package agenttest

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/aycoder/aycoder/journal"
)

// helperVariable is the environment variable that makes TestJournal do the work of another
// process, and then end the process. Its value is a helperTask.
const helperVariable = "AYCODER_JOURNAL_HELPER"

type helperTask struct {
	Dir string
	// Write makes the helper append until it is killed. Otherwise, it opens the session, says
	// whether that worked, and waits.
	Write bool
	Seed  uint64
}

// journalHelper does the task in the environment, if there is one, and exits.
func journalHelper(t testing.TB, setup JournalSetup) {
	var task helperTask
	text := os.Getenv(helperVariable)
	if text == "" {
		return
	}
	err := json.Unmarshal([]byte(text), &task)
	if err == nil {
		err = task.do(t.Context(), setup.Open(t, task.Dir))
	}
	if err != nil {
		say("error %v", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// say tells the process that started the helper something.
func say(format string, args ...any) { fmt.Printf("journal: "+format+"\n", args...) }

func (task *helperTask) do(ctx context.Context, store journal.Store) error {
	j, err := store.Open(ctx, journalID, true)
	if busy, ok := errors.AsType[*journal.BusyError](err); ok {
		say("busy %d", busy.Holder.PID)
		return nil
	}
	if err != nil {
		return err
	}
	if !task.Write {
		say("open %d", os.Getpid())
		_, err = io.Copy(io.Discard, os.Stdin)
		return errors.Join(err, j.Close())
	}
	return task.write(ctx, j)
}

// write appends records with numbers, which name objects that are stored before, and says which
// ones are acknowledged. Now and then it rewrites everything.
func (task *helperTask) write(ctx context.Context, j journal.Journal) error {
	rnd := rand.New(rand.NewPCG(task.Seed, 1))
	var all [][]byte
	for r, err := range j.Records(ctx) {
		if err != nil {
			return err
		}
		all = append(all, r)
	}
	for {
		var added [][]byte
		for range 1 + rnd.IntN(3) {
			n := len(all) + len(added)
			data := crashObject(n)
			if err := j.Put(ctx, journal.HashOf(data), data); err != nil {
				return err
			}
			added = append(added, crashRecord(n))
		}
		if err := j.Append(ctx, rnd.IntN(2) == 0, added...); err != nil {
			return err
		}
		all = append(all, added...)
		say("ack %d", len(all))
		if rnd.IntN(8) == 0 {
			err := j.Rewrite(ctx, func(yield func([]byte) bool) {
				for _, r := range all {
					if !yield(r) {
						return
					}
				}
			}, func(journal.Hash) bool { return true })
			if err != nil {
				return err
			}
		}
	}
}

// crashObject is the object that the record with a number names. Three records share one.
func crashObject(n int) []byte {
	return fmt.Appendf(nil, "object %d %s", n/3, strings.Repeat("text ", n/3*41%5000))
}

func crashRecord(n int) []byte {
	return fmt.Appendf(nil, `{"n":%d,"object":"%s","text":"%s"}`, n, journal.HashOf(crashObject(n)),
		strings.Repeat("x", n*131%20000))
}

// A helperProcess is this test binary, started again.
type helperProcess struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	out   *bufio.Reader
	errs  bytes.Buffer
}

func (s *journalSuite) start(task helperTask) *helperProcess {
	task.Dir = s.dir
	text, err := json.Marshal(task)
	if err != nil {
		s.t.Fatalf("agenttest: %v", err)
	}
	parts := strings.Split(s.name, "/")
	for i, p := range parts {
		parts[i] = "^" + regexp.QuoteMeta(p) + "$"
	}
	p := &helperProcess{cmd: exec.Command(os.Args[0], "-test.run="+strings.Join(parts, "/"), "-test.count=1")}
	p.cmd.Env = append(os.Environ(), helperVariable+"="+string(text))
	p.cmd.Stderr = &p.errs
	var out io.Reader
	p.stdin, err = p.cmd.StdinPipe()
	if err == nil {
		out, err = p.cmd.StdoutPipe()
	}
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		s.t.Fatalf("agenttest: %v", err)
	}
	p.out = bufio.NewReader(out)
	return p
}

// hear returns the next thing that the process says, or "" at the end.
func (p *helperProcess) hear() (word string, n int) {
	for {
		line, err := p.out.ReadString('\n')
		if _, said, ok := strings.Cut(line, "journal: "); ok {
			if strings.HasPrefix(said, "error") {
				return strings.TrimSpace(said), 0
			}
			_, _ = fmt.Sscan(said, &word, &n)
			return word, n
		}
		if err != nil {
			return "", 0
		}
	}
}

// processes opens a session in many processes at once. One of them gets it, and the others learn
// that it is open.
func (s *journalSuite) processes() {
	if s.InMemory {
		s.t.Skip("JournalSetup.InMemory is set: skipped")
	}
	const n = 50
	s.must(ruleJournalClosed, "close", s.create(journalID).Close())
	all := make([]*helperProcess, n)
	for i := range all {
		all[i] = s.start(helperTask{})
	}
	var mu sync.Mutex
	count := map[string]int{}
	var writer int
	holders := map[int]int{}
	var wg sync.WaitGroup
	for _, p := range all {
		wg.Go(func() {
			word, pid := p.hear()
			mu.Lock()
			defer mu.Unlock()
			switch word {
			case "open":
				writer = pid
			case "busy":
				holders[pid]++
			default:
				word = cmp.Or(word, "nothing") + p.errs.String()
			}
			count[word]++
		})
	}
	wg.Wait()
	if count["open"] != 1 || count["busy"] != n-1 {
		s.found.add(ruleJournalWriter, "of %d processes at once: %v", n, count)
	}
	// The description may not be there yet when the first of the others asks.
	for pid, times := range holders {
		if pid != 0 && pid != writer {
			s.found.add(ruleJournalWriter, "%d processes learn that %d is the writer, it is %d", times, pid, writer)
		}
	}
	_, err := s.store.Open(s.t.Context(), journalID, true)
	if busy, ok := errors.AsType[*journal.BusyError](err); !ok || busy.Holder.PID != writer {
		s.found.add(ruleJournalWriter, "beside another process: error %v, want a *BusyError of %d", err, writer)
	}
	for _, p := range all {
		p.stdin.Close()
	}
	for _, p := range all {
		if err := p.cmd.Wait(); err != nil {
			s.found.add(ruleJournalWriter, "a process ends with %v: %s", err, p.errs.String())
		}
	}
	s.must(ruleJournalClosed, "close", s.open(journalID, true).Close())
}

// killed kills a process that appends, again and again.
func (s *journalSuite) killed() {
	if s.InMemory {
		s.t.Skip("JournalSetup.InMemory is set: skipped")
	}
	s.must(ruleJournalClosed, "close", s.create(journalID).Close())
	rnd := rand.New(rand.NewPCG(1, 2))
	kills := cmp.Or(s.Kills, 20)
	most := 0
	for i := range kills {
		n := s.kill(uint64(i), rnd.IntN(12))
		if n < 0 || !s.found.empty() {
			return
		}
		if most = max(most, n); most > 400 { // begin again, as long journals take longer to check
			s.must(ruleJournalWriter, "delete", s.store.Delete(s.t.Context(), journalID))
			s.must(ruleJournalClosed, "close", s.create(journalID).Close())
			most = 0
		}
	}
	s.t.Logf("agenttest: %d kills", kills)
}

// kill starts a process, kills it some time after a number of acknowledgements, and checks what is
// there. It returns the number of records, or -1 if the process failed.
func (s *journalSuite) kill(seed uint64, acks int) int {
	p := s.start(helperTask{Write: true, Seed: seed})
	acked := 0
	hear := func() bool {
		word, n := p.hear()
		if word == "ack" {
			acked = n
		} else if word != "" {
			s.found.add(ruleJournalKept, "a process that appends: %s", word)
		}
		return word == "ack"
	}
	for i := 0; i <= acks && hear(); i++ {
	}
	_ = p.cmd.Process.Kill()
	for hear() { // what it said before it ended
	}
	_ = p.cmd.Wait()
	if acked == 0 {
		s.found.add(ruleJournalKept, "a process that appends says nothing: %s", p.errs.String())
		return -1
	}
	return s.survivors(acked)
}

// survivors checks that the acknowledged records are there, whole and in order, with the objects
// that they name.
func (s *journalSuite) survivors(acked int) int {
	n, torn := 0, 0
	j := s.open(journalID, true)
	for r, err := range j.Records(s.t.Context()) {
		if d, ok := errors.AsType[*journal.DamageError](err); ok && d.Torn && torn == 0 {
			torn++
			continue
		}
		if err != nil || torn > 0 || !bytes.Equal(r, crashRecord(n)) {
			s.found.add(ruleJournalKept, "after a kill, record %d is %s, error %v", n, shown(string(r)), err)
			break
		}
		data := crashObject(n)
		if got, err := j.Get(s.t.Context(), journal.HashOf(data)); err != nil || !bytes.Equal(got, data) {
			s.found.add(ruleJournalKept, "after a kill, the object of record %d: error %v", n, err)
		}
		n++
	}
	if n < acked {
		s.found.add(ruleJournalKept, "after a kill, %d records, %d were acknowledged", n, acked)
	}
	s.must(ruleJournalClosed, "close", j.Close())
	return n
}
