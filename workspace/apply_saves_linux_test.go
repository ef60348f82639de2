package workspace

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/aycoder/aycoder/edit"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const savesChild = "AYCODER_TEST_SAVES"

// TestMain lets the test binary be the other programs of a test.
func TestMain(m *testing.M) {
	tally, saves := os.LookupEnv(savesChild)
	how, killed := os.LookupEnv(killedChild)
	restores, restored := os.LookupEnv(restoreChild)
	var err error
	switch {
	case restored:
		err = restoreForever(restores)
	case saves:
		err = saveAsTold(tally)
	case killed:
		err = applyForever(how)
	default:
		os.Exit(m.Run())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// A savesTally is memory that two processes share: how many saves the writer has
// finished. It orders what they do without a clock.
type savesTally []byte

func openTally(name string) (savesTally, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := f.Truncate(tallySize); err != nil {
		return nil, err
	}
	return syscall.Mmap(int(f.Fd()), 0, tallySize, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
}

func (s savesTally) closed() int       { return int(binary.NativeEndian.Uint64(s)) }
func (s savesTally) setClosed(n int)   { binary.NativeEndian.PutUint64(s, uint64(n)) }
func (s savesTally) stopped() bool     { return s[8] == 1 }
func (s savesTally) setStopped(b byte) { s[8] = b }

// The rest is a ring of what the writer did last: lines of text that begin with the time.
const (
	tallySize  = 1 << 16
	tallyTrace = 64
)

func (s savesTally) clearTrace() {
	binary.NativeEndian.PutUint64(s[16:], 0)
	clear(s[tallyTrace:])
}

func (s savesTally) trace(format string, args ...any) {
	n, size := binary.NativeEndian.Uint64(s[16:]), uint64(tallySize-tallyTrace)
	for _, b := range []byte(fmt.Sprintf("%d writer ", time.Now().UnixNano()) + fmt.Sprintf(format, args...) + "\n") {
		s[tallyTrace+n%size] = b
		n++
	}
	binary.NativeEndian.PutUint64(s[16:], n)
}

// traced returns the lines, oldest first.
func (s savesTally) traced() []string {
	n, size := binary.NativeEndian.Uint64(s[16:]), uint64(tallySize-tallyTrace)
	ring := s[tallyTrace:]
	text := string(ring[:min(n, size)])
	if n > size {
		text = string(ring[n%size:]) + string(ring[:n%size])
		_, text, _ = strings.Cut(text, "\n")
	}
	return slices.Collect(strings.Lines(text))
}

func inodeOf(name string) uint64 {
	var st syscall.Stat_t
	if syscall.Stat(name, &st) != nil {
		return 0
	}
	return st.Ino
}

// saveAsTold is the writer: it reads lines of a file, a way to save, a number of saves
// and a seed, and says how many it made when it has ended.
func saveAsTold(name string) error {
	tally, err := openTally(name)
	if err != nil {
		return err
	}
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		var w otherWriter
		var seed uint64
		if _, err := fmt.Sscan(in.Text(), &w.file, &w.how, &w.saves, &seed); err != nil {
			return err
		}
		w.tally, w.rand = tally, rand.New(rand.NewPCG(seed, 2))
		text, err := os.ReadFile(w.file)
		if err != nil {
			return err
		}
		w.buffer = slices.Collect(strings.Lines(string(text)))
		if err := w.run(); err != nil {
			return fmt.Errorf("%s: %w", in.Text(), err)
		}
		fmt.Println(w.done)
	}
	return in.Err()
}

// otherWriter saves a file again and again, as one program does that is the only one
// but for the agent: none of its saves comes between two of its steps.
type otherWriter struct {
	file, how string
	saves     int
	rand      *rand.Rand
	tally     savesTally
	buffer    []string
	done      int
}

func (w *otherWriter) pause() { time.Sleep(time.Duration(1000+w.rand.IntN(19000)) * time.Microsecond) }

func userLine(i int) string { return fmt.Sprintf("user %d\n", i) }

func (w *otherWriter) run() error {
	for w.done < w.saves && !w.tally.stopped() {
		w.pause()
		n, err := w.save()
		if err != nil {
			return err
		}
		w.done += n
		w.tally.setClosed(w.done)
	}
	return nil
}

// save returns how many lines were saved.
func (w *otherWriter) save() (int, error) {
	line := userLine(w.done)
	switch w.how {
	case "append":
		return 1, w.append(line)
	case "keep":
		return w.keep()
	}
	at := w.rand.IntN(len(w.buffer) + 1)
	w.buffer = slices.Insert(w.buffer, at, line)
	text := strings.Join(w.buffer, "")
	if w.how == "rename" || w.how == "format" && w.rand.IntN(2) == 0 {
		if err := w.write(w.file+"~", text, os.O_CREATE|os.O_TRUNC); err != nil {
			return 0, err
		}
		w.tally.trace("renames")
		if err := os.Rename(w.file+"~", w.file); err != nil {
			return 0, err
		}
		w.tally.trace("renamed")
	} else if err := w.write(w.file, text, os.O_CREATE|os.O_TRUNC); err != nil {
		return 0, err
	}
	if w.how != "format" {
		return 1, nil
	}
	return 1, w.format()
}

func (w *otherWriter) append(text string) error { return w.write(w.file, text, os.O_APPEND) }

func (w *otherWriter) write(name, text string, how int) error {
	f, err := w.open(name, how)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	w.tally.trace("wrote line %d", w.done)
	err = errors.Join(err, f.Close())
	w.tally.trace("closed")
	return err
}

func (w *otherWriter) open(name string, how int) (*os.File, error) {
	w.tally.trace("opens")
	f, err := os.OpenFile(name, os.O_WRONLY|how, 0o644)
	now := time.Now()
	if err == nil {
		var st syscall.Stat_t
		err = syscall.Fstat(int(f.Fd()), &st)
		w.tally.trace("opened %d at %d, links %d", st.Ino, now.UnixNano(), st.Nlink)
	}
	return f, err
}

// keep keeps the file open between its writes.
func (w *otherWriter) keep() (int, error) {
	f, err := w.open(w.file, os.O_APPEND)
	if err != nil {
		return 0, err
	}
	n := 1 + w.rand.IntN(4)
	for i := range n {
		w.pause()
		if _, err := f.WriteString(userLine(w.done + i)); err != nil {
			return 0, err
		}
		w.tally.trace("wrote line %d", w.done+i)
	}
	err = f.Close()
	w.tally.trace("closed")
	return n, err
}

// format rewrites the file as a program does that runs after each save: it reads what
// is there, which may have the agent's lines, and so has the editor afterwards.
func (w *otherWriter) format() error {
	w.tally.trace("reads")
	text, err := os.ReadFile(w.file)
	if err != nil {
		return err
	}
	w.tally.trace("has read, agent's line %t, own line %t", strings.Contains(string(text), agentLine), strings.Contains(string(text), userLine(w.done)))
	formatted := strings.ReplaceAll(string(text), "user", "User")
	if err := w.write(w.file, formatted, os.O_CREATE|os.O_TRUNC); err != nil {
		return err
	}
	w.buffer = slices.Collect(strings.Lines(formatted))
	return nil
}

// savesRound is one Apply beside a writer.
type savesRound struct {
	how      string
	seed     uint64
	noLease  bool
	res      edit.FileResult
	err      error
	returned int // saves that were finished when Apply returned
	looked   int // and right before the file was read last
	done     int // and in the end
	final    string
	beside   string // what is in the files that the result names
	lost     int    // lines that are not in the file, though nobody took them out of it
	trace    []string
	dropped  int // lines that the writer itself took out after Apply had returned
}

const agentLine = "agent\n"

// check returns what is not as it is said to be.
//
// A line that was saved before Apply returned is in the file then, or in one that the
// result names. Later losses are the writer's fault: nobody else writes then. Only the
// formatter can take out a line that it wrote, since it continues with the text that it read.
// If it was suspended between finding the file and opening it while the file was exchanged,
// what it saves goes to the file that was taken out, and Apply brings it into the one in place.
// If the formatter reads the file before that, and saves what it read once more after Apply has
// returned, it overwrites its own line, which the result has told of.
func (r *savesRound) check() string {
	now, said := strings.ToLower(r.final), strings.ToLower(r.res.Content)
	for i := range r.done {
		switch line := userLine(i); {
		case strings.Contains(now, line), strings.Contains(r.beside, line):
		case r.how == "format" && i < r.looked && r.done > r.looked && strings.Contains(said, line):
			r.dropped++
		case i < r.returned && !r.noLease:
			return fmt.Sprintf("save %d of %d was finished before Apply returned, %d when it looked last, and is not in the file", i, r.returned, r.looked)
		default:
			r.lost++
		}
	}
	// The formatter may have read the agent's line too, before the plan was taken back.
	has := strings.Contains(now, agentLine) && !(r.how == "format" && r.done > r.looked)
	switch {
	case has && !r.res.Written:
		return "it is said that nothing was written, and the agent's line is in the file"
	case strings.Contains(said, agentLine) && !r.res.Written:
		return "it is said that nothing was written, and that the agent's line is in the file"
	case !strings.Contains(said, agentLine) && r.res.Outcome == edit.OutcomeApplied:
		return "it is said that the plan was applied, and not that its line is in the file"
	case r.done == r.looked && now != said:
		return "the file is not what is said"
	case r.how == "append" && !strings.HasPrefix(r.final, r.res.Content):
		return "the file does not begin with what is said"
	}
	if r.how == "append" {
		for line := range strings.Lines(strings.TrimPrefix(r.final, r.res.Content)) {
			var i int
			if _, err := fmt.Sscanf(line, "user %d", &i); err != nil || i < r.looked {
				return fmt.Sprintf("%q is in the file, and not in what is said", line)
			}
		}
	}
	return ""
}

// savesWorker has a separate writer.
type savesWorker struct {
	t     testing.TB
	w     *Workspace
	dir   string
	tally savesTally
	cmd   *exec.Cmd
	in    *bufio.Writer
	out   *bufio.Reader
	rand  *rand.Rand
}

func newSavesWorker(t testing.TB, base string, seed uint64) *savesWorker {
	dir, err := os.MkdirTemp(base, "")
	require.NoError(t, err)
	s := &savesWorker{t: t, dir: dir, rand: rand.New(rand.NewPCG(seed, 3))}
	s.w, err = Open(dir)
	require.NoError(t, err)
	s.tally, err = openTally(dir + ".tally")
	require.NoError(t, err)
	s.cmd = exec.CommandContext(t.Context(), os.Args[0])
	s.cmd.Env = append(os.Environ(), savesChild+"="+dir+".tally")
	s.cmd.Stderr = os.Stderr
	in, err := s.cmd.StdinPipe()
	require.NoError(t, err)
	out, err := s.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, s.cmd.Start())
	s.in, s.out = bufio.NewWriter(in), bufio.NewReader(out)
	return s
}

func (s *savesWorker) close() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
	_ = s.w.Close()
	_ = syscall.Munmap(s.tally)
	entries, err := os.ReadDir(s.dir)
	require.NoError(s.t, err)
	assert.Empty(s.t, entries, "what a round left")
}

func (s *savesWorker) round(noLease bool) *savesRound {
	ways := []string{"append", "append", "append", "truncate", "rename", "format", "keep"}
	r := &savesRound{how: ways[s.rand.IntN(len(ways))], seed: s.rand.Uint64(), noLease: noLease}
	name := fmt.Sprintf("f%d", r.seed)
	file := filepath.Join(s.dir, name)
	base := strings.Join(tortureBase(), "")
	require.NoError(s.t, os.WriteFile(file, []byte(base), 0o644))
	proposed := strings.Replace(base, fmt.Sprintf("line %d\n", s.rand.IntN(tortureLines)), agentLine, 1)
	if s.rand.IntN(6) == 0 {
		proposed = base + agentLine
	}
	saves := 1 + s.rand.IntN(6)
	if s.rand.IntN(3) == 0 {
		saves = 1000 // until it is told to stop
	}
	s.tally.setClosed(0)
	s.tally.setStopped(0)
	s.tally.clearTrace()
	fmt.Fprintln(s.in, file, r.how, saves, r.seed)
	require.NoError(s.t, s.in.Flush())
	time.Sleep(time.Duration(s.rand.IntN(12000)) * time.Microsecond)
	res, err := s.w.Apply(s.t.Context(), mustPlan(s.t, change(name, base, proposed)), func(c *applyConfig) error {
		c.noLease, c.wait = noLease, 200*time.Millisecond
		c.step = func(step, _ string) error {
			r.trace = append(r.trace, fmt.Sprintf("%d apply %s, in place %d\n", time.Now().UnixNano(), step, inodeOf(file)))
			if step == "last" {
				r.looked = s.tally.closed()
			}
			return nil
		}
		return nil
	})
	r.returned = s.tally.closed()
	r.trace = append(r.trace, fmt.Sprintf("%d apply returned, in place %d\n", time.Now().UnixNano(), inodeOf(file)))
	r.err, r.res = err, res.Files[0]
	if s.rand.IntN(2) == 0 {
		time.Sleep(time.Duration(s.rand.IntN(30000)) * time.Microsecond)
	}
	s.tally.setStopped(1)
	line, err := s.out.ReadString('\n')
	require.NoError(s.t, err)
	r.done, err = strconv.Atoi(strings.TrimSpace(line))
	require.NoError(s.t, err)
	data, err := os.ReadFile(file)
	require.NoError(s.t, err)
	r.final = string(data)
	r.trace = append(r.trace, s.tally.traced()...)
	slices.Sort(r.trace)
	require.NoError(s.t, os.Remove(file))
	for _, name := range r.res.Sidecars {
		name = filepath.Join(s.dir, name)
		data, err := os.ReadFile(name)
		require.NoError(s.t, err)
		require.NoError(s.t, os.Remove(name))
		r.beside += strings.ToLower(string(data))
	}
	return r
}

// Another process saves a file in all ways while plans are applied to it, on a disk
// that takes its time to flush: what the result says is what is in the file.
// AYCODER_SAVES is the number of saves, AYCODER_SAVES_WORKERS how many files are
// saved at once.
func TestApplyBesideSaves(t *testing.T) {
	want, _ := strconv.Atoi(os.Getenv("AYCODER_SAVES"))
	workers, _ := strconv.Atoi(os.Getenv("AYCODER_SAVES_WORKERS"))
	want, workers = max(want, 600), max(workers, 8)
	for _, noLease := range []bool{false, true} {
		t.Run(fmt.Sprintf("leases %t", !noLease), func(t *testing.T) {
			dir := t.TempDir()
			seed := uint64(time.Now().UnixNano())
			var mu sync.Mutex
			rounds, saves, aside, dropped, shown := 0, 0, 0, 0, 0
			lost := map[string]int{}
			outcomes, faults := map[string]int{}, map[string]int{}
			var wg sync.WaitGroup
			for i := range workers {
				s := newSavesWorker(t, dir, seed+uint64(i))
				wg.Go(func() {
					defer s.close()
					for more := true; more; {
						r := s.round(noLease)
						fault := r.check()
						if fault == "" && r.lost > 0 && !noLease {
							fault = fmt.Sprintf("%d lines lost", r.lost)
						}
						mu.Lock()
						rounds++
						saves += r.done
						if r.lost > 0 {
							lost[r.how] += r.lost
						}
						aside += len(r.res.Sidecars)
						dropped += r.dropped
						outcomes[r.how+" "+string(r.res.Outcome)]++
						if fault != "" {
							faults[r.how+": "+fault]++
							if shown++; shown <= 10 {
								t.Logf("%s\n%s, seed %d: %s\n%s %s written %t beside %v, %v\nsaid:\n%s\nis:\n%s", strings.Join(r.trace, ""), r.how, r.seed, fault,
									r.res.Outcome, r.res.Reason, r.res.Written, r.res.Sidecars, r.err, r.res.Content, r.final)
							}
						}
						more = saves < want
						mu.Unlock()
					}
				})
			}
			wg.Wait()
			t.Logf("%s: %d saves beside %d plans, lines lost: %v, taken out by the writer later: %d, %d texts kept aside",
				fileSystem(t, dir), saves, rounds, lost, dropped, aside)
			for _, k := range slices.Sorted(maps.Keys(outcomes)) {
				t.Logf("%6d %s", outcomes[k], k)
			}
			require.Empty(t, faults)
			if !noLease {
				require.Empty(t, lost)
			}
		})
	}
}

func fileSystem(t testing.TB, dir string) string {
	var st syscall.Statfs_t
	require.NoError(t, syscall.Statfs(dir, &st))
	switch st.Type {
	case 0xef53:
		return "ext4"
	case 0x01021994:
		return "tmpfs"
	}
	return fmt.Sprintf("file system %#x", st.Type)
}
