package background_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/background"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/session"
	"github.com/aycoder/aycoder/tools"
	"github.com/aycoder/aycoder/workspace"
)

// A lab is a session with real background commands and scripted agents.
type lab struct {
	t       *testing.T
	dir     string
	mark    string // in the environment of all commands
	outer   *gate
	inner   *gate
	group   *background.Group
	session *session.Session
	id      string
	number  int // of the last command

	cancel context.CancelFunc // of the run, or nil
	over   chan struct{}      // closed at the end of the run

	mu      sync.Mutex
	event   []aycoder.Job // of the last event of the active run
	level   []aycoder.Job // that Changes has yielded last
	ended   chan struct{} // when Changes is over
	noteFor map[string]bool
}

// open opens the session, or starts it.
func (l *lab) open() {
	t := l.t
	ws, err := workspace.Open(filepath.Join(l.dir, "work"))
	require.NoError(t, err)
	l.outer, l.inner = gated(), gated()
	l.group, err = background.New()
	require.NoError(t, err)
	opts := []tools.Option{tools.WithBackground(l.group), tools.WithEnv(l.mark)}
	coding, err := tools.Coding(ws, opts...)
	require.NoError(t, err)
	sub, err := tools.Subagent(tools.SubagentConfig{Model: l.inner.model, Tools: coding, Background: l.group,
		Options: []aycoder.Option{aycoder.WithApprover(approve{})}})
	require.NoError(t, err)
	loop, err := aycoder.New(l.outer.model, aycoder.WithTools(append(coding, sub)...), aycoder.WithApprover(approve{}),
		aycoder.WithLimits(aycoder.Limits{Turns: 1000}))
	require.NoError(t, err)
	store, err := journal.Dir(filepath.Join(l.dir, "sessions"))
	require.NoError(t, err)
	if l.id == "" {
		l.session, err = session.New(t.Context(), store, loop)
	} else {
		l.session, err = session.Open(t.Context(), store, l.id, loop)
	}
	require.NoError(t, err)
	l.id = l.session.ID()
	require.NoError(t, l.session.SetBackground(t.Context(), l.group, nil))
	l.ended = make(chan struct{})
	go func() {
		defer close(l.ended)
		for jobs := range l.group.Changes(context.Background()) {
			l.mu.Lock()
			l.level = jobs
			l.mu.Unlock()
		}
	}()
}

// begin starts a run, if none is active.
func (l *lab) begin() {
	if l.cancel != nil {
		return
	}
	ctx, cancel := context.WithCancel(l.t.Context())
	l.cancel, l.over = cancel, make(chan struct{})
	go func() {
		defer close(l.over)
		for ev := range l.session.Run(ctx, aycoder.Input{Prompt: "go on"}) {
			if e, ok := ev.(*aycoder.JobsChanged); ok {
				l.mu.Lock()
				l.event = e.Jobs
				l.mu.Unlock()
			}
		}
	}()
}

// finish waits for the end of the run.
func (l *lab) finish() {
	if l.cancel != nil {
		<-l.over
		l.cancel()
		l.cancel = nil
	}
}

// ask makes the model of the active run answer, and waits until it is asked again.
func (l *lab) ask(s script.Step) {
	l.begin()
	turns := l.turns()
	l.outer.steps <- s
	timed.Until(l.t, func() bool { return l.turns() > turns }, "the next turn")
}

func (l *lab) turns() int {
	v := l.session.View()
	n := 0
	for _, node := range v.Path(l.session.Head()) {
		if o := outputsIn(node.Message()); o > 0 {
			n++
		}
	}
	return n
}

func outputsIn(m *aycoder.Message) (n int) {
	if m == nil {
		return 0
	}
	for _, p := range m.Parts {
		if _, ok := p.(*aycoder.ToolOutput); ok {
			n++
		}
	}
	return n
}

// close ends the session.
func (l *lab) close() {
	if l.cancel != nil {
		l.cancel()
	}
	require.NoError(l.t, l.session.Close())
	l.finish()
	<-l.ended
	require.Empty(l.t, l.processes(), "nothing survives the session")
	require.Zero(l.t, agents(), "no agent survives the session")
	require.Empty(l.t, living(l.level), "the last event says so")
}

var duration = regexp.MustCompile(`sleep (\d+)`)

// processes returns the durations of the sleeping commands, as the system tells them.
func (l *lab) processes() map[string]int {
	out := map[string]int{}
	all, err := filepath.Glob("/proc/[0-9]*")
	require.NoError(l.t, err)
	for _, p := range all {
		if env, err := os.ReadFile(filepath.Join(p, "environ")); err != nil || !bytes.Contains(env, []byte(l.mark)) {
			continue
		}
		cmd, _ := os.ReadFile(filepath.Join(p, "cmdline"))
		if name, d, _ := strings.Cut(strings.TrimRight(string(cmd), "\x00"), "\x00"); filepath.Base(name) == "sleep" {
			out[d], _ = strconv.Atoi(filepath.Base(p))
		}
	}
	return out
}

// agents returns the number of goroutines that run agents in the background, as the runtime tells it.
func agents() int {
	var buf bytes.Buffer
	_ = pprof.Lookup("goroutine").WriteTo(&buf, 2)
	return strings.Count(buf.String(), ".workBeside(")
}

func living(jobs []aycoder.Job) (out []aycoder.Job) {
	for _, j := range jobs {
		if j.Lives() {
			out = append(out, j)
		}
	}
	return out
}

// agrees reports whether a set is what lives.
func (l *lab) agrees(jobs []aycoder.Job) bool {
	var commands []string
	helpers := 0
	for _, j := range living(jobs) {
		if j.Kind == background.Agent {
			helpers++
			continue
		}
		commands = append(commands, duration.FindStringSubmatch(j.Name)[1])
	}
	var real []string
	for d := range l.processes() {
		real = append(real, d)
	}
	slices.Sort(commands)
	slices.Sort(real)
	return slices.Equal(commands, real) && helpers == agents()
}

// check waits until the last events are what lives, which they stay.
func (l *lab) check() {
	l.t.Helper()
	timed.Until(l.t, func() bool {
		l.mu.Lock()
		event, level := l.event, l.level
		l.mu.Unlock()
		return l.agrees(level) && (l.cancel == nil || l.agrees(event))
	}, "the last event to be what lives")
}

func (l *lab) sleepCommand() string {
	l.number++
	return fmt.Sprintf("sleep %d; true", 500_000+l.number)
}

// step does something at random.
func (l *lab) step(r *rand.Rand) {
	l.mu.Lock()
	lives := living(l.level)
	l.mu.Unlock()
	pick := func() (aycoder.Job, bool) {
		if len(lives) == 0 {
			return aycoder.Job{}, false
		}
		return lives[r.IntN(len(lives))], true
	}
	switch n := r.IntN(20); {
	case n < 6:
		l.ask(script.Call("bash", args{"command": l.sleepCommand(), "background": true}))
	case n < 10:
		l.ask(script.Call("subagent", args{"task": "work", "background": true}))
	case n < 12:
		if j, ok := pick(); ok && j.By.Depth == 0 {
			delete(l.noteFor, j.ID) // the output of this call may tell
			l.ask(script.Call("job_stop", args{"id": j.ID}))
		}
	case n < 13:
		if j, ok := pick(); ok {
			require.NoError(l.t, l.group.Stop(l.t.Context(), j.ID))
		}
	case n < 15:
		for d, pid := range l.processes() {
			for _, j := range lives {
				if j.Kind == background.Command && strings.Contains(j.Name, d) && j.By.Depth == 0 {
					l.noteFor[j.ID] = true
				}
			}
			_ = syscall.Kill(pid, syscall.SIGKILL)
			break
		}
	case n < 17:
		if agents() > 0 {
			l.inner.steps <- []script.Step{
				script.Say("done"), script.Call("bash", args{"command": l.sleepCommand(), "background": true}),
				script.Call("job_output", args{}),
			}[r.IntN(3)]
		}
	case n < 18:
		if l.cancel != nil {
			l.outer.steps <- script.Say("done")
			timed.Until(l.t, func() bool { // a note makes the run go on
				select {
				case <-l.over:
					return true
				default:
					if len(l.outer.steps) == 0 {
						l.outer.steps <- script.Say("done")
					}
					return false
				}
			}, "the end of the run")
			l.finish()
			for len(l.outer.steps) > 0 {
				<-l.outer.steps
			}
		}
	case n < 19:
		if l.cancel != nil {
			l.cancel()
			l.finish()
		}
	default:
		l.check()
		l.close()
		l.open()
	}
}

// count notes how many jobs live at a time.
func (l *lab) count(most map[string]int) {
	n := map[string]int{}
	for _, j := range living(l.group.Jobs()) {
		n[j.Kind]++
		most[j.Kind] = max(most[j.Kind], n[j.Kind])
	}
}

func newLab(t *testing.T, dir string) *lab {
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "work"), 0o755))
	return &lab{t: t, dir: dir, mark: "AYCODER_LAB=" + filepath.Base(dir) + strconv.Itoa(os.Getpid()) + "x", noteFor: map[string]bool{}}
}

// Whatever is started, stopped, killed and left: the set in the last event is what lives, each job has at most
// one note, and nothing survives the session. AYCODER_JOBS is the number of schedules.
func TestTheSetIsWhatLives(t *testing.T) {
	timed.Long(t, "background commands")
	schedules := 2
	if timed.Reduced(t) {
		schedules = 1
	}
	if n, err := strconv.Atoi(os.Getenv("AYCODER_JOBS")); err == nil {
		schedules = n
	}
	most := map[string]int{}
	notes := 0
	for seed := range uint64(schedules) {
		r := rand.New(rand.NewPCG(seed, 1))
		l := newLab(t, t.TempDir())
		l.open()
		for range 8 * (1 - min(seed, 1)) { // all that the group takes
			l.ask(script.Reply(script.Call("bash", args{"command": l.sleepCommand(), "background": true}),
				script.Call("bash", args{"command": l.sleepCommand(), "background": true}),
				script.Call("subagent", args{"task": "work", "background": true})))
			l.count(most)
		}
		l.check()
		for range 25 + r.IntN(25) {
			l.step(r)
			if r.IntN(3) == 0 {
				l.check()
			}
			l.count(most)
		}
		l.check()
		l.close()
		l.open() // the notes of what was closed
		l.begin()
		l.outer.steps <- script.Say("end")
		l.finish()
		told := map[string]int{}
		for _, m := range l.session.View().Messages(l.session.Head()) {
			if m.Role == aycoder.RoleUser && strings.HasPrefix(m.Text(), "[") {
				for _, id := range regexp.MustCompile(`(agent|bash)-\d+`).FindAllString(m.Text(), -1) {
					told[id]++
					notes++
					require.Equal(t, 1, told[id], "seed %d: %s", seed, id)
				}
			}
		}
		for id := range l.noteFor {
			require.Equal(t, 1, told[id], "seed %d: %s was killed", seed, id)
		}
		l.close()
	}
	require.Equal(t, map[string]int{background.Agent: 8, background.Command: 16}, most)
	t.Logf("%d schedules, at most %v at a time, %d notes", schedules, most, notes)
}

const labEnv = "AYCODER_LAB_DIR"

// TestKilledLab is the process that TestProcessIsKilled kills.
func TestKilledLab(t *testing.T) {
	dir := os.Getenv(labEnv)
	if dir == "" {
		return
	}
	l := newLab(t, dir)
	l.mark = os.Getenv("AYCODER_LAB_MARK")
	l.open()
	fmt.Println("session", l.id)
	r := rand.New(rand.NewPCG(uint64(os.Getpid()), 2))
	for range 3 {
		l.ask(script.Call("bash", args{"command": l.sleepCommand(), "background": true}))
	}
	l.ask(script.Call("subagent", args{"task": "work", "background": true}))
	if r.IntN(2) == 0 {
		require.NoError(t, l.group.Stop(t.Context(), l.group.Jobs()[r.IntN(4)].ID))
	}
	if r.IntN(2) == 0 {
		l.cancel()
		l.finish()
	}
	l.check()
	line, err := json.Marshal(&aycoder.JobsChanged{Jobs: living(l.group.Jobs())})
	require.NoError(t, err)
	fmt.Println(string(line))
	select {}
}

// When the process is killed, nothing of its jobs survives, and the next one tells which they were.
func TestProcessIsKilled(t *testing.T) {
	timed.Long(t, "processes that are killed")
	l := newLab(t, t.TempDir())
	cmd := exec.Command(os.Args[0], "-test.run=^TestKilledLab$")
	cmd.Env = append(os.Environ(), labEnv+"="+l.dir, "AYCODER_LAB_MARK="+l.mark)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	var lived []aycoder.Job
	for lines.Scan() {
		if id, ok := strings.CutPrefix(lines.Text(), "session "); ok {
			l.id = id
		}
		if ev, err := aycoder.DecodeEvent(lines.Bytes()); err == nil {
			lived = ev.(*aycoder.JobsChanged).Jobs
			break
		}
	}
	require.GreaterOrEqual(t, len(lived), 3)
	require.NotEmpty(t, l.processes())
	require.NoError(t, cmd.Process.Kill())
	_, isExit := errors.AsType[*exec.ExitError](cmd.Wait())
	require.True(t, isExit)
	timed.Until(t, func() bool { return len(l.processes()) == 0 }, "commands of a killed process to end")

	l.open()
	var lost, want []string
	for _, c := range l.session.Changes() {
		if c.Kind == session.LostCommand || c.Kind == session.LostAgent {
			lost = append(lost, string(c.Kind)+" "+c.Name)
		}
	}
	var ids []string
	for _, j := range lived {
		want = append(want, j.Kind+" "+j.Name)
		ids = append(ids, j.ID)
	}
	require.ElementsMatch(t, want, lost)
	queued := l.session.Queued()
	require.NotEmpty(t, queued)
	last := queued[len(queued)-1].Text()
	for _, id := range ids {
		require.Contains(t, last, id)
	}
	l.close()
}
