package session_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/session"
	"github.com/aycoder/aycoder/snapshot"
	"github.com/aycoder/aycoder/tools"
	"github.com/aycoder/aycoder/workspace"
)

// Eight agents on eight branches of one session edit the same files, beside a user, in a process
// that is killed again and again. Every line of the files holds a token that is written once. An
// edit brings a token into a file, and may take another one out of it. The agents tell the parent
// process of each call before it is made, and of each output that they get. So the parent can
// compute which tokens must be in the files, and which must not.

const (
	teamEnv    = "AYCODER_TEAM_DIR"
	teamRounds = "AYCODER_TEAM_ROUNDS" // of all agents together
	teamKills  = "AYCODER_TEAM_KILLS"

	teamAgents, teamFiles, teamSlots = 8, 20, 3
	maxOwn                           = 6 // lines of an agent in a file
)

func teamNumber(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return otherwise
}

// lastPrompt makes the agents read the last messages, and send none.
const lastPrompt = "anything left?"

// A lineEdit is the change of one line.
type lineEdit struct {
	File     string
	Old, New string // tokens; Old is "" if the line is added
}

// A teamEvent is a line that the process of the agents writes to its parent.
type teamEvent struct {
	Kind  string // open, call, told, done or failed
	Agent int
	ID    string     // of the call
	Edits []lineEdit // that the call makes, all or none
	To    int        // the agent that gets the message Text
	Text  string
	Error bool
}

// teamFile returns the first content of a file. Lines that never change keep the others apart.
func teamFile(file string) string {
	var b strings.Builder
	for a := range teamAgents {
		fmt.Fprintf(&b, "own %d: %s-own-%d\nend of %d\n\n#%d\n\n", a, file, a, a, a)
	}
	for s := range teamSlots {
		fmt.Fprintf(&b, "slot %d: %s-slot-%d\n\n-%d\n\n", s, file, s, s)
	}
	b.WriteString("lines of the user:\n")
	return b.String()
}

// tokens returns the tokens of the lines of a text that begin with a prefix.
func tokens(text, prefix string) []string {
	var out []string
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, prefix); ok {
			_, token, _ := strings.Cut(strings.TrimSpace(rest), ": ")
			out = append(out, token)
		}
	}
	return out
}

// A teammate is an agent's model, which follows a script at random.
type teammate struct {
	number int
	log    func(teamEvent)
	told   map[string]bool // calls whose outputs the parent knows
	calls  int
	id     string // of this process
}

// round returns what the model knows in a round: how many answers it has given, and what it has
// read.
func (m *teammate) round(req *aycoder.Request) (answers int, files map[string]string, outputs []*aycoder.ToolOutput) {
	paths := map[string]string{}
	files = map[string]string{}
	for _, msg := range req.Messages {
		if msg.Role == aycoder.RoleUser && strings.HasPrefix(msg.Text(), "round ") {
			answers = 0
			clear(files)
		}
		if msg.Role == aycoder.RoleAssistant {
			answers++
		}
		for _, call := range msg.Calls() {
			var in struct{ Path string }
			if json.Unmarshal(call.Args, &in) == nil && call.Name == "read_file" {
				paths[call.ID] = in.Path
			}
		}
		for _, p := range msg.Parts {
			out, ok := p.(*aycoder.ToolOutput)
			if !ok {
				continue
			}
			outputs = append(outputs, out)
			if paths[out.ID] != "" && !out.IsError {
				var b strings.Builder
				for line := range strings.Lines(textOf(out)) {
					if _, rest, ok := strings.Cut(line, "\t"); ok {
						b.WriteString(rest)
					}
				}
				files[paths[out.ID]] = b.String()
			}
		}
	}
	return answers, files, outputs
}

func textOf(out *aycoder.ToolOutput) string {
	var b strings.Builder
	for _, p := range out.Parts {
		if t, ok := p.(*aycoder.Text); ok {
			b.WriteString(t.Text)
		}
	}
	return b.String()
}

func (m *teammate) name(what string) string {
	m.calls++
	return fmt.Sprintf("%s-%d-%s-%d", what, m.number, m.id, m.calls)
}

// step answers a request: it reads files, edits them in one of the ways that there are, edits
// one of them once more without reading it again, and sends messages in between.
func (m *teammate) step(req *aycoder.Request) script.Step {
	answers, files, outputs := m.round(req)
	for _, out := range outputs {
		if !m.told[out.ID] {
			m.told[out.ID] = true
			m.log(teamEvent{Kind: "told", Agent: m.number, ID: out.ID, Text: textOf(out), Error: out.IsError})
		}
	}
	if slices.ContainsFunc(req.Messages, func(msg *aycoder.Message) bool { return msg.Text() == lastPrompt }) {
		return script.Say("nothing")
	}
	var steps []script.Step
	if rand.IntN(3) == 0 {
		steps = append(steps, m.send())
	}
	names := slices.Sorted(maps.Keys(files))
	switch {
	case answers == 0 || answers < 3 && len(names) == 0:
		two := rand.Perm(teamFiles)[:2]
		if rand.IntN(4) == 0 { // the model cannot tell which one of two readings at once is the newer
			two[1] = two[0]
		}
		for _, n := range two {
			steps = append(steps, m.call("read_file", args{"path": fmt.Sprintf("f%02d", n)}, nil))
		}
	case answers < 3 && len(names) == 2 && rand.IntN(4) == 0:
		steps = append(steps, m.patch(files, names))
	case answers < 3:
		for _, name := range names[:rand.IntN(len(names))+1] {
			steps = append(steps, m.edit(name, files[name], answers))
		}
	default:
		return script.Reply(append(steps, script.Say("done"))...)
	}
	return script.Reply(steps...)
}

type args = map[string]any

func (m *teammate) call(tool string, in args, edits []lineEdit) script.Step {
	id := m.name(tool)
	m.log(teamEvent{Kind: "call", Agent: m.number, ID: id, Edits: edits})
	return script.Call(tool, in).WithID(id)
}

func (m *teammate) send() script.Step {
	to := (m.number + 1 + rand.IntN(teamAgents-1)) % teamAgents
	text, id := m.name("message"), m.name("send")
	m.log(teamEvent{Kind: "call", Agent: m.number, ID: id, To: to, Text: text})
	return script.Call("send_message", args{"to": fmt.Sprint(to), "text": text}).WithID(id)
}

// replacement is a part of a text that an edit replaces.
type replacement struct{ old, new string }

// own changes the lines of the agent: one more, or another one in the place of one.
func (m *teammate) own(file, text string) (lineEdit, replacement) {
	e := lineEdit{File: file, New: m.name("t")}
	line := func(token string) string { return fmt.Sprintf("own %d: %s\n", m.number, token) }
	if have := tokens(text, fmt.Sprintf("own %d", m.number)); len(have) >= maxOwn {
		e.Old = have[rand.IntN(len(have))]
		return e, replacement{line(e.Old), line(e.New)}
	}
	end := fmt.Sprintf("end of %d\n", m.number)
	return e, replacement{end, line(e.New) + end}
}

// slot changes a line that all agents and the user change.
func (m *teammate) slot(file, text string) (lineEdit, replacement) {
	n := rand.IntN(teamSlots)
	e := lineEdit{File: file, Old: tokens(text, fmt.Sprint("slot ", n))[0], New: m.name("t")}
	return e, replacement{fmt.Sprintf("slot %d: %s\n", n, e.Old), fmt.Sprintf("slot %d: %s\n", n, e.New)}
}

func (m *teammate) edit(file, text string, answers int) script.Step {
	own, a := m.own(file, text)
	slot, b := m.slot(file, text)
	switch rand.IntN(8) {
	case 0: // at the end, as the user does
		line := lineEdit{File: file, New: own.New}
		return m.call("bash", args{"command": fmt.Sprintf("echo command: %s >> %s", line.New, file)}, []lineEdit{line})
	case 1, 2:
		return m.call("edit_file", args{"path": file, "old_string": a.old, "new_string": a.new}, []lineEdit{own})
	case 3, 4:
		return m.call("multi_edit", args{"path": file, "edits": []args{
			{"old_string": a.old, "new_string": a.new}, {"old_string": b.old, "new_string": b.new},
		}}, []lineEdit{own, slot})
	case 5, 6:
		if answers == 1 { // later, it would take back its own edits
			text = strings.Replace(strings.Replace(text, a.old, a.new, 1), b.old, b.new, 1)
			return m.call("write_file", args{"path": file, "content": text}, []lineEdit{own, slot})
		}
	}
	return m.call("edit_file", args{"path": file, "old_string": b.old, "new_string": b.new}, []lineEdit{slot})
}

// patch changes two files, both or none.
func (m *teammate) patch(files map[string]string, names []string) script.Step {
	var edits []lineEdit
	var b strings.Builder
	b.WriteString("*** Begin Patch\n")
	for _, name := range names {
		e, r := m.own(name, files[name])
		edits = append(edits, e)
		fmt.Fprintf(&b, "*** Update File: %s\n@@\n", name)
		if e.Old != "" {
			fmt.Fprintf(&b, "-%s+%s", r.old, r.new)
		} else {
			fmt.Fprintf(&b, "+%s %s", strings.TrimSuffix(r.new, r.old), r.old)
		}
	}
	b.WriteString("*** End Patch\n")
	return m.call("apply_patch", args{"patch": b.String()}, edits)
}

// TestTeamProcess is the process of the agents, which TestAgentsKilled kills.
func TestTeamProcess(t *testing.T) {
	dir := os.Getenv(teamEnv)
	if dir == "" {
		return
	}
	var mu sync.Mutex
	log := func(e teamEvent) { // a pipe keeps what a killed process has written
		data, _ := json.Marshal(e)
		mu.Lock()
		defer mu.Unlock()
		_, _ = os.Stdout.Write(append(data, '\n'))
	}
	if err := runTeam(dir, teamNumber(teamRounds, 0)/teamAgents, log); err != nil {
		log(teamEvent{Kind: "failed", Text: err.Error()})
		os.Exit(1)
	}
	log(teamEvent{Kind: "done"})
}

func runTeam(dir string, rounds int, log func(teamEvent)) error {
	ctx := context.Background()
	ws, err := workspace.Open(filepath.Join(dir, "work"))
	if err != nil {
		return err
	}
	defer ws.Close()
	files := snapshot.New(ws)
	store, err := journal.Dir(filepath.Join(dir, "sessions"))
	if err != nil {
		return err
	}
	s, err := session.Continue(ctx, store, dir, parrot{new(int)}, session.WithFiles(files), session.WithDir(dir))
	if err != nil {
		return err
	}
	for _, d := range s.Damage() {
		if damage, ok := errors.AsType[*journal.DamageError](d); !ok || !damage.Torn {
			return d
		}
	}
	for _, p := range s.Interrupted() { // one way or the other
		recover := p.Finish
		if rand.IntN(2) == 0 {
			recover = p.TakeBack
		}
		if _, err := recover(ctx); err != nil {
			return fmt.Errorf("recover %v: %w", p.Plan.Files(), err)
		}
	}
	log(teamEvent{Kind: "open"})
	team := make([]*session.Branch, teamAgents)
	for a := range team {
		if team[a], err = teamBranch(ctx, s, files, a, log); err != nil {
			return err
		}
	}
	if err := together(team, func(b *session.Branch) error { return workOn(ctx, s, b, rounds) }); err != nil {
		return err
	}
	// Now that nobody sends any more, the last messages are read.
	err = together(team, func(b *session.Branch) error {
		for len(b.Queued()) > 0 {
			if err := endOf(b.Run(ctx, aycoder.Input{Prompt: lastPrompt})); err != nil {
				return err
			}
		}
		return nil
	})
	return errors.Join(err, s.Close())
}

func together(team []*session.Branch, do func(*session.Branch) error) error {
	errs := make([]error, len(team))
	var wg sync.WaitGroup
	for i, b := range team {
		wg.Go(func() { errs[i] = do(b) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

func endOf(events func(func(aycoder.Event, error) bool)) (err error) {
	for _, err = range events {
	}
	return err
}

// teamBranch returns the branch of an agent, with the agent.
func teamBranch(ctx context.Context, s *session.Session, files *snapshot.Files, number int, log func(teamEvent)) (*session.Branch, error) {
	name := fmt.Sprint(number)
	b := s.BranchOf(name)
	if b == nil {
		var err error
		if b, err = s.NewBranch(ctx, name, session.Root, parrot{new(int)}); err != nil {
			return nil, err
		}
	}
	if err := aycoder.CheckHistory(s.View().Messages(b.Head())); err != nil {
		return nil, err
	}
	list, err := tools.Coding(files, tools.WithExecMiddleware(files.Exec))
	if err != nil {
		return nil, err
	}
	send, err := b.SendTool()
	if err != nil {
		return nil, err
	}
	m := &teammate{number: number, log: log, told: map[string]bool{}, id: fmt.Sprintf("%x", rand.Uint32())}
	l, err := aycoder.New(script.New(script.Func(m.step)).With(script.WithLoop(true)),
		aycoder.WithTools(append(list, send)...), aycoder.WithApprover(verdict(aycoder.Allow())))
	if err != nil {
		return nil, err
	}
	return b, b.SetAgent(l)
}

// workOn lets an agent do what is left of its rounds.
func workOn(ctx context.Context, s *session.Session, b *session.Branch, rounds int) error {
	for {
		if b.Pending() != nil {
			if err := endOf(b.Run(ctx, aycoder.Input{})); err != nil {
				return fmt.Errorf("continue: %w", err)
			}
			continue
		}
		done := 0
		for _, n := range s.View().Path(b.Head()) {
			if n.Message() != nil && strings.HasPrefix(n.Message().Text(), "round ") {
				done++
			}
		}
		if done >= rounds {
			return nil
		}
		if done%5 == 4 {
			err := b.Compact(ctx, func(context.Context, []*aycoder.Message) ([]*aycoder.Message, *aycoder.Compacted, error) {
				return nil, nil, nil
			})
			if err != nil {
				return err
			}
		}
		if err := endOf(b.Run(ctx, aycoder.Input{Prompt: fmt.Sprint("round ", done+1)})); err != nil {
			return fmt.Errorf("round: %w", err)
		}
	}
}

// Nothing that any of eight agents or the user wrote is lost, and an agent is told of each of its
// edits that was not made, although their process is killed.
func TestAgentsKilled(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a file that is open cannot be replaced")
	}
	rounds, kills := teamNumber(teamRounds, 32), teamNumber(teamKills, 4)
	if testing.Short() || os.Getenv(teamRounds) == "" && timed.Reduced(t) {
		rounds, kills = min(rounds, 16), min(kills, 2)
	}
	j := &teamJudge{t: t, dir: t.TempDir(), calls: map[string]teamEvent{}, told: map[string]teamEvent{}}
	require.NoError(t, os.Mkdir(filepath.Join(j.dir, "work"), 0o755))
	for n := range teamFiles {
		file := fmt.Sprintf("f%02d", n)
		require.NoError(t, os.WriteFile(filepath.Join(j.dir, "work", file), []byte(teamFile(file)), 0o644))
	}
	ws, err := workspace.Open(filepath.Join(j.dir, "work"))
	require.NoError(t, err)
	defer ws.Close()
	u := &teamUser{t: t, dir: j.dir, ws: ws}
	killed := 0
	for done := false; !done; {
		limit := -1
		if killed < kills {
			limit = rand.IntN(10*rounds/kills + 1) // a round has more events than that
		}
		if done = j.process(u, rounds, limit); !done {
			killed++
			for range 3 {
				j.ok(u.save(fmt.Sprintf("f%02d", rand.IntN(teamFiles))))
			}
		}
	}
	j.judge(ws)
	t.Logf("%d rounds, %d kills: %s", rounds, killed, j.summary)
	require.Positive(t, killed)
}
