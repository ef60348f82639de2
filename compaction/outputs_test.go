package compaction_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/compaction"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/internal/whole"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/session"
	"github.com/aycoder/aycoder/tools"
	"github.com/aycoder/aycoder/workspace"
)

// reader is a model that runs commands, and then recalls all pages of their outputs.
type reader struct {
	t        *testing.T
	commands []string
	ids      []string // that the outputs name
	shown    []string // what the model got of them
	texts    []string
	page     strings.Builder
	from     int // where to begin, in bytes
	failed   string
	id       string // what to recall in the place of what outputs name
}

var (
	pointed = regexp.MustCompile(`\[The whole output has (\d+) bytes; recall returns it for the id "([^"]+)"`)
	paged   = regexp.MustCompile(`\n\[bytes (\d+) to (\d+) of (\d+); [^\]]*\]\n$`)
)

func (r *reader) step(req *aycoder.Request) script.Step {
	out := script.LastOutput(req)
	switch out.Name {
	case "bash":
		found := pointed.FindStringSubmatch(out.Text())
		require.NotNil(r.t, found, "%.300q", out.Text())
		r.shown = append(r.shown, out.Text())
		r.ids = append(r.ids, found[2])
	case "recall":
		found := paged.FindStringSubmatchIndex(out.Text())
		if out.IsError {
			r.failed = out.Text()
			return script.Say("It is gone.")
		}
		require.NotNil(r.t, found, "%.300q", out.Text())
		r.page.WriteString(out.Text()[:found[0]])
		number := func(i int) int {
			n, err := strconv.Atoi(out.Text()[found[2*i]:found[2*i+1]])
			require.NoError(r.t, err)
			return n
		}
		if end := number(2); end < number(3) {
			return r.recall(end)
		}
		r.texts = append(r.texts, r.page.String())
		r.page.Reset()
	}
	if len(r.ids) < len(r.commands) {
		return script.Call("bash", map[string]any{"command": r.commands[len(r.ids)]})
	}
	if len(r.texts) < len(r.ids) {
		return r.recall(r.from)
	}
	return script.Say("I have it.")
}

func (r *reader) recall(offset int) script.Step {
	id := r.id
	if id == "" {
		id = r.ids[len(r.texts)]
	}
	return script.Call("recall", map[string]any{"id": id, "offset": offset})
}

func (r *reader) model() *strict {
	return &strict{window: 200_000, cost: map[*aycoder.Message]int64{}, step: r.step}
}

var allow = aycoder.ApproverFunc(func(context.Context, *aycoder.ToolUse, *aycoder.ToolSpec) aycoder.Verdict { return aycoder.Allow() })

// agent returns an agent with the coding tools, which keeps whole outputs.
func (r *reader) agent(dir string, opts ...aycoder.Option) *aycoder.Loop {
	return r.agentWith(dir, nil, nil, opts...)
}

func (r *reader) agentWith(dir string, keep []compaction.Option, toolOpts []tools.Option, opts ...aycoder.Option) *aycoder.Loop {
	ws, err := workspace.Open(dir)
	require.NoError(r.t, err)
	r.t.Cleanup(func() { ws.Close() })
	list, err := tools.Coding(ws, toolOpts...)
	require.NoError(r.t, err)
	m := r.model()
	c, err := compaction.New(m, append([]compaction.Option{compaction.WithWindow(200_000)}, keep...)...)
	require.NoError(r.t, err)
	l, err := aycoder.New(m, append([]aycoder.Option{aycoder.WithTools(append(list, c.Recall())...), aycoder.WithContextMiddleware(c.Middleware),
		aycoder.WithWholeOutputs(c.KeepOutput), aycoder.WithApprover(allow), aycoder.WithLimits(aycoder.Limits{Turns: 500})}, opts...)...)
	require.NoError(r.t, err)
	return l
}

// printed returns what a command prints.
func printed(t *testing.T, dir, command string) string {
	t.Helper()
	cmd := exec.Command("bash", "-c", command)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	require.NoError(t, err)
	return string(out)
}

func ask(t *testing.T, a aycoder.Agent, in aycoder.Input) aycoder.Result {
	t.Helper()
	return askIn(t.Context(), t, a, in)
}

func askIn(ctx context.Context, t *testing.T, a aycoder.Agent, in aycoder.Input) aycoder.Result {
	t.Helper()
	var res aycoder.Result
	for ev, err := range a.Run(ctx, in, aycoder.Into(&res)) {
		require.NoError(t, err)
		if fin, ok := ev.(*aycoder.ToolFinished); ok {
			require.LessOrEqual(t, len(fin.Output.Text()), 33_000)
		}
	}
	require.NoError(t, aycoder.CheckHistory(res.Messages))
	return res
}

var megabytes = []string{
	"seq 1 160000",
	`awk 'BEGIN { for (i = 0; i < 40000; i++) print i, "größer als äöü €" }'`,
	"head -c 700000 /dev/zero | tr '\\0' x",
	"seq 1 100000; seq 1 90000 >&2",
}

// The model gets all that commands have printed, page by page, and the history does not.
func TestWholeOutputs(t *testing.T) {
	for _, where := range []string{"memory", "session", "session in memory"} {
		t.Run(where, func(t *testing.T) {
			if where != "session" {
				timed.Serial(t)
			}
			dir := t.TempDir()
			r := &reader{t: t, commands: megabytes}
			var a aycoder.Agent = r.agent(dir)
			stored := ""
			if where != "memory" {
				store := journal.Memory()
				if where == "session" {
					stored = t.TempDir()
					var err error
					store, err = journal.Dir(stored)
					require.NoError(t, err)
				}
				s, err := session.New(t.Context(), store, a)
				require.NoError(t, err)
				defer s.Close()
				a = s
			}
			res := ask(t, a, aycoder.Input{Prompt: "go"})
			all := 0
			for i, command := range megabytes {
				want := printed(t, dir, command) + "[exit 0]\n"
				if !strings.HasSuffix(want, "\n[exit 0]\n") { // the tool ends the last line
					want = strings.TrimSuffix(want, "[exit 0]\n") + "\n[exit 0]\n"
				}
				require.Equal(t, len(want), len(r.texts[i]), command)
				require.True(t, want == r.texts[i], "%s: another text", command)
				require.LessOrEqual(t, len(r.shown[i]), 31_000)
				head, tail := r.shown[i][:14_000], r.shown[i][len(r.shown[i])-14_000:]
				require.True(t, strings.HasPrefix(want, head), command)
				before, _, _ := strings.Cut(tail, "\n[The whole output")
				require.True(t, strings.HasSuffix(want, before), command)
				all += len(want)
			}
			require.Greater(t, all, 3_000_000)
			for _, m := range res.Messages {
				for _, p := range m.Parts {
					if o, ok := p.(*aycoder.ToolOutput); ok {
						require.LessOrEqual(t, len(o.Text()), 33_000)
					}
				}
			}
		})
	}
}

// A run that goes on in another process recalls what the first one has kept: after the session was
// closed, and after the process was killed. A fork has it as well.
func TestWholeOutputsOfAnotherProcess(t *testing.T) {
	for _, how := range []string{"closed", "killed", "trimmed", "forked", "undone"} {
		t.Run(how, func(t *testing.T) {
			if how != "killed" {
				timed.Serial(t)
			}
			dir, stored := t.TempDir(), t.TempDir()
			store, err := journal.Dir(stored)
			require.NoError(t, err)
			first := &reader{t: t, commands: megabytes[:1]}
			s, err := session.New(t.Context(), store, first.agent(dir))
			require.NoError(t, err)
			for ev, err := range s.Run(t.Context(), aycoder.Input{Prompt: "go"}) {
				require.NoError(t, err)
				if turn, ok := ev.(*aycoder.TurnFinished); ok && turn.Turn == 2 {
					break // it was about to recall
				}
			}
			id := s.ID()
			if how == "killed" { // what is on the disk now
				copied := t.TempDir()
				require.NoError(t, os.CopyFS(filepath.Join(copied, id), os.DirFS(filepath.Join(stored, id))))
				stored = copied
			}
			switch how {
			case "trimmed":
				require.NoError(t, s.Trim(t.Context()))
			case "forked":
				f, err := s.Fork(t.Context(), s.Head())
				require.NoError(t, err)
				id = f.ID()
				require.NoError(t, f.Close())
			}
			head := s.Head()
			require.NoError(t, s.Close())
			if how == "forked" {
				require.NoError(t, store.Delete(t.Context(), s.ID()))
			}
			again := &reader{t: t, ids: first.ids}
			store, err = journal.Dir(stored)
			require.NoError(t, err)
			s, err = session.Open(t.Context(), store, id, again.agent(dir))
			require.NoError(t, err)
			if how == "undone" {
				_, err = s.Undo(t.Context())
				require.NoError(t, err)
				_, err = s.Checkout(t.Context(), head)
				require.NoError(t, err)
			}
			defer s.Close()
			ask(t, s, aycoder.Input{Prompt: "go on"})
			require.Equal(t, printed(t, dir, megabytes[0])+"[exit 0]\n", again.texts[0])

			other := &reader{t: t, ids: first.ids} // another conversation does not get it
			ask(t, other.agent(dir), aycoder.Input{Prompt: "go on"})
			require.Contains(t, other.failed, "no text with this id in this conversation")
		})
	}
}

// Secrets that are masked in the output are masked in the pages of recall, at any offset, and whatever the
// order of the middleware.
func TestSecretsInWholeOutputs(t *testing.T) {
	timed.Serial(t)
	secret := "gh" + "p_" + "a8Fk2LmQ9xZr4TvB7nWc1YdE5hJs0GuPq3Ki"
	password := "correct-horse-battery-91!"
	command := fmt.Sprintf(`seq 1 20000; echo 'token: %s'; seq 1 500 | sed 's/$/ %s/'; echo 'DB_PASSWORD="%s"'; seq 1 20000`, secret, secret, password)
	masker := tools.NewMasker([]byte("key"))
	own := func(next aycoder.ToolFunc) aycoder.ToolFunc { // of a host, which knows nothing of whole outputs
		return func(ctx context.Context, inv *aycoder.Invocation) (*aycoder.ToolResult, error) {
			res, err := next(ctx, inv)
			if err != nil {
				return nil, err
			}
			text := strings.NewReplacer(secret, "[gone]", password, "[gone]").Replace(res.Text())
			return aycoder.TextResult(text), nil
		}
	}
	nothing := func(next aycoder.ToolFunc) aycoder.ToolFunc { return next }
	for name, tt := range map[string]struct {
		masked bool
		with   []aycoder.ToolMiddleware
	}{
		"tools":              {true, nil},
		"middleware":         {false, []aycoder.ToolMiddleware{tools.Masking(masker)}},
		"middleware outside": {false, []aycoder.ToolMiddleware{tools.Masking(masker), nothing}},
		"middleware inside":  {false, []aycoder.ToolMiddleware{nothing, tools.Masking(masker)}},
		"both":               {true, []aycoder.ToolMiddleware{tools.Masking(masker)}},
		"of the host":        {false, []aycoder.ToolMiddleware{own}},
		"none":               {false, nil}, // the secrets are there
	} {
		t.Run(name, func(t *testing.T) {
			var texts []string
			const step = 37
			for from := 0; from < 200; from += step { // from one end of what is recalled to the next
				r := &reader{t: t, commands: []string{command}, from: 108_894 - 100 + from}
				a := r.agentWith(t.TempDir(), nil, []tools.Option{tools.WithMasking(tt.masked)},
					aycoder.WithToolMiddleware(tt.with...), aycoder.WithLimits(aycoder.Limits{ToolOutput: 64 << 10}))
				var res aycoder.Result
				for _, err := range a.Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.Into(&res)) {
					require.NoError(t, err)
				}
				texts = append(texts, r.texts...)
			}
			require.Len(t, texts, 1+199/step)
			if name == "none" {
				require.Contains(t, texts[0], secret)
				require.Contains(t, texts[0], password)
				return
			}
			require.Contains(t, texts[0], "token: [")
			for _, text := range texts {
				require.Contains(t, text, "20000\n")
				for _, s := range []string{secret[4:], password} {
					for i := range len(s) - 12 {
						require.NotContains(t, text, s[i:i+12])
					}
				}
			}
		})
	}
}

// An output that the session has let go is reported with its size, and the shown part is still there. An
// output that the session cannot keep is in memory.
func TestWholeOutputsThatAreGone(t *testing.T) {
	timed.Serial(t)
	for _, small := range []bool{false, true} {
		r := &reader{t: t, commands: megabytes[:2]}
		dir := t.TempDir()
		a := r.agentWith(dir, nil, nil)
		ctx := whole.With(t.Context(), &lastOutput{broken: !small})
		res := askIn(ctx, t, a, aycoder.Input{Prompt: "go"})
		if !small {
			require.Equal(t, []string{printed(t, dir, megabytes[0]) + "[exit 0]\n", printed(t, dir, megabytes[1]) + "[exit 0]\n"}, r.texts)
			continue
		}
		size := len(printed(t, dir, megabytes[0]) + "[exit 0]\n")
		require.Contains(t, r.failed, fmt.Sprintf("the whole output of %d bytes is not kept any more", size))
		calls := res.Messages[1].Calls()
		shown := &reader{t: t, ids: []string{calls[0].ID}}
		ask(t, shown.agent(dir), aycoder.Input{Messages: res.Messages, Prompt: "go on"})
		require.Equal(t, r.shown[0], shown.texts[0])
		guess := &reader{t: t, ids: []string{"out_0123456789abcdef"}}
		ask(t, guess.agent(dir), aycoder.Input{Messages: res.Messages, Prompt: "go on"})
		require.Contains(t, guess.failed, "no text with this id")
	}
}

// lastOutput is a store that keeps the last output only, or none.
type lastOutput struct {
	broken bool
	key    string
	data   []byte
}

func (s *lastOutput) Put(_ context.Context, key string, data []byte) error {
	if s.broken {
		return errors.New("disk full")
	}
	s.key, s.data = key, data
	return nil
}

func (s *lastOutput) Get(_ context.Context, key string) ([]byte, error) {
	if key != s.key {
		return nil, fs.ErrNotExist
	}
	return s.data, nil
}

func bashOf(t *testing.T, dir string) aycoder.Tool {
	ws, err := workspace.Open(dir)
	require.NoError(t, err)
	t.Cleanup(func() { ws.Close() })
	list, err := tools.Coding(ws)
	require.NoError(t, err)
	return list[slices.IndexFunc(list, func(t aycoder.Tool) bool { return t.Spec().Name == "bash" })]
}

// Calls of one message recall pages at the same time.
func TestParallelRecalls(t *testing.T) {
	dir := t.TempDir()
	const n = 8
	var got strings.Builder
	m := &strict{window: 200_000, cost: map[*aycoder.Message]int64{}}
	m.step = func(req *aycoder.Request) script.Step {
		switch out := script.LastOutput(req); out.Name {
		case "bash":
			found := pointed.FindStringSubmatch(out.Text())
			require.NotNil(t, found)
			var all []script.Step
			for i := range n {
				all = append(all, script.Call("recall", map[string]any{"id": found[2], "offset": i << 14}))
			}
			return script.Reply(all...)
		case "recall":
			last := req.Messages[len(req.Messages)-1]
			for _, p := range last.Parts {
				text := p.(*aycoder.ToolOutput).Text()
				found := paged.FindStringIndex(text)
				require.NotNil(t, found, text)
				got.WriteString(text[:found[0]])
			}
			return script.Say("ok")
		}
		return script.Call("bash", map[string]any{"command": "seq 1 40000"})
	}
	c, err := compaction.New(m, compaction.WithWindow(200_000))
	require.NoError(t, err)
	l, err := aycoder.New(m, aycoder.WithTools(bashOf(t, dir), c.Recall()), aycoder.WithApprover(allow), aycoder.WithContextMiddleware(c.Middleware),
		aycoder.WithWholeOutputs(c.KeepOutput))
	require.NoError(t, err)
	ask(t, l, aycoder.Input{Prompt: "go"})
	require.Equal(t, printed(t, dir, "seq 1 40000")[:n<<14], got.String())
}
