//go:build unix

package acp

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	sdk "github.com/coder/acp-go-sdk"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/budget"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/internal/published"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/policy"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/tools"
)

// raw is an agent that does what its task names.
type raw struct {
	sdk.Agent // nil: what is not needed
	conn      *sdk.AgentSideConnection
	id        sdk.SessionId
	dir       string
	locked    bool // until it is told how to authenticate itself
	mode      sdk.SessionModeId
}

func rawAgent(locked bool) error {
	r, ready := &raw{locked: locked, mode: "auto"}, make(chan struct{})
	r.conn = sdk.NewAgentSideConnection(r, os.Stdout, &gate{os.Stdin, ready})
	r.conn.SetLogger(slog.New(slog.DiscardHandler))
	close(ready)
	<-r.conn.Done()
	return nil
}

func (r *raw) Initialize(context.Context, sdk.InitializeRequest) (sdk.InitializeResponse, error) {
	return sdk.InitializeResponse{ProtocolVersion: 1, AuthMethods: []sdk.AuthMethod{{Agent: &sdk.AuthMethodAgent{Id: "key", Name: "A key"}}}}, nil
}

func (r *raw) Authenticate(_ context.Context, p sdk.AuthenticateRequest) (resp sdk.AuthenticateResponse, err error) {
	if r.locked = p.MethodId != "key"; r.locked {
		err = sdk.NewAuthRequired(nil)
	}
	return resp, err
}

func (r *raw) SetSessionMode(_ context.Context, p sdk.SetSessionModeRequest) (resp sdk.SetSessionModeResponse, err error) {
	r.mode = p.ModeId
	return resp, nil
}

func (r *raw) NewSession(_ context.Context, p sdk.NewSessionRequest) (sdk.NewSessionResponse, error) {
	if r.locked {
		return sdk.NewSessionResponse{}, sdk.NewAuthRequired(nil)
	}
	r.id, r.dir = "s", p.Cwd
	return sdk.NewSessionResponse{SessionId: r.id, Modes: &sdk.SessionModeState{CurrentModeId: r.mode,
		AvailableModes: []sdk.SessionMode{{Id: "auto", Name: "Auto"}, {Id: "ask", Name: "Ask"}}}}, nil
}

func (r *raw) Cancel(context.Context, sdk.CancelNotification) error { return nil }

func (r *raw) tell(u sdk.SessionUpdate) {
	if err := r.conn.SessionUpdate(context.Background(), sdk.SessionNotification{SessionId: r.id, Update: u}); err != nil {
		panic(err)
	}
}

func (r *raw) say(text string) { r.tell(sdk.UpdateAgentMessageText(text)) }

func (r *raw) read(ctx context.Context, name string) string {
	resp, err := r.conn.ReadTextFile(ctx, sdk.ReadTextFileRequest{SessionId: r.id, Path: filepath.Join(r.dir, name)})
	if err != nil {
		r.say("read: " + err.Error() + "\n")
	}
	return resp.Content
}

func (r *raw) write(ctx context.Context, name, text string) {
	if _, err := r.conn.WriteTextFile(ctx, sdk.WriteTextFileRequest{SessionId: r.id, Path: filepath.Join(r.dir, name), Content: text}); err != nil {
		r.say("write: " + err.Error() + "\n")
	}
}

func (r *raw) permission(ctx context.Context, kinds ...sdk.PermissionOptionKind) string {
	var options []sdk.PermissionOption
	for _, k := range kinds {
		options = append(options, sdk.PermissionOption{OptionId: sdk.PermissionOptionId(k), Kind: k, Name: string(k)})
	}
	resp, err := r.conn.RequestPermission(ctx, sdk.RequestPermissionRequest{SessionId: r.id, Options: options,
		ToolCall: sdk.ToolCallUpdate{ToolCallId: "c1", Title: new("Remove everything"), Kind: new(sdk.ToolKindExecute),
			RawInput: map[string]any{"command": "rm -rf build"}}})
	switch {
	case err != nil:
		return err.Error()
	case resp.Outcome.Selected == nil:
		return "cancelled"
	}
	return string(resp.Outcome.Selected.OptionId)
}

// usualKinds are the answers that agents offer.
var usualKinds = []sdk.PermissionOptionKind{sdk.PermissionOptionKindAllowAlways, sdk.PermissionOptionKindAllowOnce, sdk.PermissionOptionKindRejectOnce}

func (r *raw) Prompt(ctx context.Context, p sdk.PromptRequest) (resp sdk.PromptResponse, err error) {
	resp.StopReason = sdk.StopReasonEndTurn
	switch task := p.Prompt[0].Text.Text; task {
	case "write":
		r.tell(sdk.UpdateAgentThoughtText("Hm."))
		text := r.read(ctx, "a.txt")
		r.write(ctx, "a.txt", swap(text, "one", "ONE"))
		r.tell(sdk.SessionUpdate{UsageUpdate: &sdk.SessionUsageUpdate{Used: 1, Size: 2, Cost: &sdk.Cost{Amount: 0.25, Currency: "USD"}}})
		r.write(ctx, "a.txt", swap(swap(text, "one", "ONE"), "two", "TWO")) // without reading it again
		r.tell(sdk.SessionUpdate{UsageUpdate: &sdk.SessionUsageUpdate{Used: 1, Size: 2, Cost: &sdk.Cost{Amount: 0.75, Currency: "USD"}}})
		resp.Usage = &sdk.Usage{InputTokens: 100, OutputTokens: 20, TotalTokens: 120}
		r.say("Done.")
	case "mode":
		r.say(string(r.mode))
	case "permission":
		r.say(r.permission(ctx, usualKinds...))
	case "own write": // as some agents do: they ask, and write the file themselves
		text, err := os.ReadFile(r.dir + "/a.txt")
		if err != nil {
			return resp, err
		}
		call := sdk.ToolCallUpdate{ToolCallId: "c1", Title: new("Edit file"), Kind: new(sdk.ToolKindEdit), Locations: []sdk.ToolCallLocation{{Path: r.dir + "/a.txt"}}}
		answer, err := r.conn.RequestPermission(ctx, sdk.RequestPermissionRequest{SessionId: r.id, ToolCall: call,
			Options: []sdk.PermissionOption{{OptionId: "yes", Kind: sdk.PermissionOptionKindAllowOnce, Name: "yes"}, {OptionId: "no", Kind: sdk.PermissionOptionKindRejectOnce, Name: "no"}}})
		if err == nil && answer.Outcome.Selected.OptionId == "yes" {
			err = os.WriteFile(r.dir+"/a.txt", []byte(swap(string(text), "one", "ONE")), 0o644)
		}
		return resp, err
	case "told before": // the question names the call, of which it has said what it is
		for _, by := range []string{"two", "TWO"} {
			r.tell(sdk.StartToolCall("c1", "Editing", sdk.WithStartKind(sdk.ToolKindEdit),
				sdk.WithStartContent([]sdk.ToolCallContent{sdk.ToolDiffContent(r.dir+"/a.txt", by+"\n", "one\n")})))
			call := sdk.ToolCallUpdate{ToolCallId: "c1", Title: new("Edit files"), Locations: []sdk.ToolCallLocation{{Path: r.dir + "/a.txt"}}}
			if _, err := r.conn.RequestPermission(ctx, sdk.RequestPermissionRequest{SessionId: r.id, ToolCall: call, Options: []sdk.PermissionOption{}}); err != nil {
				return resp, err
			}
		}
	case "only always":
		r.say(r.permission(ctx, sdk.PermissionOptionKindAllowAlways, sdk.PermissionOptionKindRejectAlways))
	case "unread":
		r.write(ctx, "a.txt", "mine\n")
		r.write(ctx, "new.txt", "mine\n")
		r.write(ctx, "../out.txt", "mine\n")
		r.say(r.read(ctx, "none.txt") + r.read(ctx, "../out.txt"))
	case "part":
		got, err := r.conn.ReadTextFile(ctx, sdk.ReadTextFileRequest{SessionId: r.id, Path: r.dir + "/a.txt", Line: new(2), Limit: new(2)})
		r.say(fmt.Sprintf("%q %v", got.Content, err))
	case "die":
		r.read(ctx, "a.txt")
		r.say("Now.")
		fmt.Fprintln(os.Stderr, "out of luck")
		os.Exit(3)
	case "hang", "wait":
		r.read(ctx, "a.txt")
		if task == "wait" {
			<-ctx.Done()
			return sdk.PromptResponse{StopReason: sdk.StopReasonCancelled}, nil
		}
		select {}
	case "flood":
		for range 5000 {
			r.say("x")
		}
	case "silent":
	}
	return resp, nil
}

// other returns a tool whose agent is this program, in a runtime whose model calls it with the tasks.
type otherTest struct {
	*harness.Runtime
	t     *testing.T
	file  string
	model *script.Model
	pot   *budget.Pot
	asked []*aycoder.ApprovalRequest
	on    func(q *aycoder.ApprovalRequested) // answers a question
	event func(ev aycoder.Event)             // of the agent's run
	ended func()                             // after a task

	config AgentConfig
	mode   string

	mu      sync.Mutex
	audited []string // decisions about the agent's calls
}

func withOther(t *testing.T, command string, args []string, mode string, tasks ...string) *otherTest {
	return withAgent(t, AgentConfig{Command: command, Args: args}, mode, tasks...)
}

func withAgent(t *testing.T, c AgentConfig, mode string, tasks ...string) *otherTest {
	top, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	dir := filepath.Join(top, "work")
	require.NoError(t, os.Mkdir(dir, 0o700))
	o := &otherTest{t: t, file: filepath.Join(dir, "a.txt"), config: c, mode: mode}
	require.NoError(t, os.WriteFile(o.file, []byte(five), 0o644))
	return o.again(t, tasks...)
}

// again returns a new runtime for the same files.
func (old *otherTest) again(t *testing.T, tasks ...string) *otherTest {
	o := &otherTest{t: t, file: old.file, config: old.config, mode: old.mode, on: func(q *aycoder.ApprovalRequested) { q.Allow() }}
	var err error
	o.pot, err = budget.New(budget.Config{Money: 100})
	require.NoError(t, err)
	t.Cleanup(func() { _ = o.pot.Close() })
	var steps []script.Step
	for _, task := range tasks {
		steps = append(steps, script.Call("other", map[string]any{"task": task}))
	}
	o.model = script.New(append(steps, script.Say("ok"))...)
	c := o.config
	c.Name, c.Files, c.Options = "other", func() tools.FS { return o.Files }, []aycoder.Option{aycoder.WithModelMiddleware(o.pot.Model)}
	c.Env = map[string]string{caseVariable: o.mode, "GORACE": "atexit_sleep_ms=0"}
	tool, err := Agent(c)
	require.NoError(t, err)
	o.Runtime, err = harness.New(t.Context(), filepath.Dir(o.file), harness.WithClient(o.model), harness.WithStore(journal.Memory(), ""), harness.WithTools(tool),
		harness.WithLoopOptions(aycoder.WithAudit(o)))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, o.Close()) })
	return o
}

// Audit implements [aycoder.Auditor].
func (o *otherTest) Audit(_ context.Context, r *aycoder.AuditRecord) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if r.Agent == "other" && r.Verdict != "" {
		o.audited = append(o.audited, r.Tool+" "+r.Verdict+" "+string(r.By))
	}
	return nil
}

func withSelf(t *testing.T, mode string, tasks ...string) *otherTest {
	return withBounds(t, bounds{}, mode, tasks...)
}

func withBounds(t *testing.T, b bounds, mode string, tasks ...string) *otherTest {
	self, err := os.Executable()
	require.NoError(t, err)
	return withAgent(t, AgentConfig{Command: self, bounds: b}, mode, tasks...)
}

// run returns the last output of the tool, after it has checked that the conversation is valid.
func (o *otherTest) run(ctx context.Context) (*aycoder.ToolOutput, aycoder.Result, error) {
	var res aycoder.Result
	var failed error
	var out *aycoder.ToolOutput
	for ev, err := range o.Run(ctx, aycoder.Input{Prompt: "go"}, aycoder.Into(&res)) {
		failed = err
		inner := ev
		if child, ok := ev.(*aycoder.ChildEvent); ok {
			inner = child.Innermost()
			if o.event != nil {
				o.event(inner)
			}
		}
		switch ev := inner.(type) {
		case *aycoder.ApprovalRequested:
			if ev.Request.Tool == "other" { // whether to start it
				ev.Allow()
				continue
			}
			o.asked = append(o.asked, &ev.Request)
			o.on(ev)
		case *aycoder.ToolFinished:
			if ev.Call.Name == "other" {
				if out = ev.Output; o.ended != nil {
					o.ended()
				}
			}
		}
	}
	require.NoError(o.t, aycoder.CheckHistory(res.Messages))
	return out, res, failed
}

func (o *otherTest) disk() string {
	text, err := os.ReadFile(o.file)
	require.NoError(o.t, err)
	return string(text)
}

func (o *otherTest) tools() (names []string) {
	for _, q := range o.asked {
		names = append(names, q.Tool+" "+filepath.Base(q.Subject))
	}
	return names
}

// The user edits the file at each question. No line is lost, and everything is asked.
func TestOtherWrites(t *testing.T) {
	o := withSelf(t, "raw", "write")
	user := 0
	o.on = func(q *aycoder.ApprovalRequested) {
		require.NotNil(t, q.Request.Plan)
		user++
		require.NoError(t, os.WriteFile(o.file, []byte(o.disk()+fmt.Sprintf("user %d\n", user)), 0o644))
		q.Allow()
	}
	out, res, err := o.run(t.Context())
	require.NoError(t, err)
	require.False(t, out.IsError, out.Text())
	require.Contains(t, out.Text(), "Done.")
	require.True(t, out.Untrusted)
	require.Equal(t, []string{"edit_file a.txt", "edit_file a.txt"}, o.tools())
	require.Equal(t, swap(swap(five, "one", "ONE"), "two", "TWO")+"user 1\nuser 2\n", o.disk())
	require.Equal(t, []string{"read_file allow policy", "edit_file allow user", "edit_file allow user"}, o.audited)
	require.InDelta(t, 0.75, o.pot.Status().Spent.Money, 1e-9, "the shared budget counts it")
	require.Empty(t, o.pot.Status().Unpriced)
	var cost float64
	for _, s := range res.Spent {
		if s.Provider == "acp" {
			cost += s.Cost
		}
	}
	require.InDelta(t, 0.75, cost, 1e-9)
}

// An agent that asks for a permission and then writes the file itself would write over what the user has done meanwhile.
func TestOtherOwnWrites(t *testing.T) {
	o := withSelf(t, "raw", "own write", "own write")
	want := []string{five + "user\n", swap(five, "one", "ONE") + "user\n"}
	calls := 0
	o.on = func(q *aycoder.ApprovalRequested) {
		if len(o.asked) == 1 {
			require.NoError(t, os.WriteFile(o.file, []byte(five+"user\n"), 0o644))
		}
		q.Allow()
	}
	o.event = func(ev aycoder.Event) {
		if f, ok := ev.(*aycoder.ToolFinished); ok {
			require.Equal(t, calls == 0, f.Output.IsError, f.Output.Text())
			calls++
		}
	}
	var after []string
	o.ended = func() { after = append(after, o.disk()) }
	_, _, err := o.run(t.Context())
	require.NoError(t, err)
	require.Equal(t, want, after)
}

// That is so for a file that is larger than what an agent can ask for.
func TestOtherOwnWritesOfLargeFile(t *testing.T) {
	o := withSelf(t, "raw", "own write")
	large := five + strings.Repeat("line\n", maxBuffer/5+1)
	require.NoError(t, os.WriteFile(o.file, []byte(large), 0o644))
	o.on = func(q *aycoder.ApprovalRequested) {
		require.NoError(t, os.WriteFile(o.file, []byte(large+"user\n"), 0o644))
		q.Allow()
	}
	_, _, err := o.run(t.Context())
	require.NoError(t, err)
	require.True(t, strings.HasSuffix(o.disk(), "line\nuser\n"), "the line of the user is lost")
}

// Some agents say what they will do in the call, and not in the question about it.
func TestOtherToldBefore(t *testing.T) {
	o := withSelf(t, "raw", "told before")
	_, _, err := o.run(t.Context())
	require.NoError(t, err)
	require.Len(t, o.asked, 2)
	require.Contains(t, o.asked[0].Preview, "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-one\n+two\n")
	require.Contains(t, o.asked[1].Preview, "\n-one\n+TWO\n")
	require.True(t, strings.HasPrefix(o.asked[0].Subject, "Edit files ["), o.asked[0].Subject)
	require.NotEqual(t, o.asked[0].Subject, o.asked[1].Subject, "a rule about one is not about the other")
}

func TestOtherSettings(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	for _, tt := range []struct{ auth, mode, want string }{
		{"key", "", "auto"},
		{"key", "ask", "ask"},
		{"key", "yolo", `set the mode: it has no mode "yolo", but ["auto" "ask"]`},
		{"", "", `it offers to authenticate itself by ["key"]`},
		{"browser", "", `authenticate: {"code":-32000,"message":"Authentication required"}; it offers to authenticate itself by ["key"]`},
	} {
		o := withAgent(t, AgentConfig{Command: self, Auth: tt.auth, Mode: tt.mode}, "locked", "mode")
		out, _, err := o.run(t.Context())
		require.NoError(t, err)
		require.Contains(t, out.Text(), tt.want)
		require.Equal(t, tt.want != "auto" && tt.want != "ask", out.IsError)
	}
}

func TestOtherConflicts(t *testing.T) {
	o := withSelf(t, "raw", "write")
	o.on = func(q *aycoder.ApprovalRequested) {
		require.NoError(t, os.WriteFile(o.file, []byte(swap(five, "one", "1")), 0o644))
		q.Allow()
	}
	out, _, err := o.run(t.Context())
	require.NoError(t, err)
	require.Contains(t, out.Text(), "write: ")
	require.Contains(t, out.Text(), "conflict")
	require.Equal(t, swap(five, "one", "1"), o.disk())
}

func TestOtherPermissions(t *testing.T) {
	tests := []struct {
		name, task string
		mode       policy.Mode
		allow      bool
		want       string
		asked      int
	}{
		{"allow", "permission", policy.Ask, true, "allow_once", 1},
		{"deny", "permission", policy.Ask, false, "reject_once", 1},
		{"only always", "only always", policy.Ask, true, "cancelled", 1},
		{"only always, denied", "only always", policy.Ask, false, "reject_always", 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := withSelf(t, "raw", tt.task)
			require.NoError(t, o.Policy.SetMode(tt.mode))
			o.on = func(q *aycoder.ApprovalRequested) {
				require.Equal(t, "other_permission", q.Request.Tool)
				require.Equal(t, "other", q.Request.Agent)
				require.Equal(t, `Remove everything {"command":"rm -rf build"}`, q.Request.Subject)
				require.Contains(t, q.Request.Preview, "rm -rf build")
				if tt.allow {
					q.Allow()
				} else {
					q.Deny("no")
				}
			}
			out, _, err := o.run(t.Context())
			require.NoError(t, err)
			require.Len(t, o.asked, tt.asked)
			require.Contains(t, out.Text(), tt.want)
		})
	}
}

func TestOtherCannot(t *testing.T) {
	o := withSelf(t, "raw", "unread")
	said := ""
	o.event = func(ev aycoder.Event) {
		if d, ok := ev.(*aycoder.TextDelta); ok {
			said += d.Text
		}
	}
	out, _, err := o.run(t.Context())
	require.NoError(t, err)
	require.False(t, out.IsError)
	require.Equal(t, five, o.disk())
	require.Contains(t, said, "was not read by")
	require.FileExists(t, filepath.Join(filepath.Dir(o.file), "new.txt"))
	require.NoFileExists(t, filepath.Join(filepath.Dir(o.file), "../out.txt"))
	require.Equal(t, 2, strings.Count(said, "write: "))
	require.Equal(t, 2, strings.Count(said, "read: "))
	require.Equal(t, []string{"write_file new.txt"}, o.tools())

	o = withSelf(t, "raw", "part")
	out, _, err = o.run(t.Context())
	require.NoError(t, err)
	require.Contains(t, out.Text(), `"two\nthree\n" <nil>`)
}

func TestOtherEnds(t *testing.T) {
	o := withSelf(t, "raw", "die", "silent", "flood")
	var outputs []string
	o.event = nil
	_, res, err := o.run(t.Context())
	require.NoError(t, err)
	for _, m := range res.Messages {
		for _, p := range m.Parts {
			if out, ok := p.(*aycoder.ToolOutput); ok {
				outputs = append(outputs, fmt.Sprint(out.IsError, " ", out.Text()))
			}
		}
	}
	require.Len(t, outputs, 3)
	require.Equal(t, []string{"acp/other"}, o.pot.Status().Unpriced, "which has told no cost")
	require.Contains(t, outputs[0], "true ")
	require.Contains(t, outputs[0], "out of luck")
	require.Contains(t, outputs[1], "has said nothing")
	require.Contains(t, outputs[2], strings.Repeat("x", 5000))

	o = withOther(t, "/no/such/program", nil, "raw", "x")
	out, _, err := o.run(t.Context())
	require.NoError(t, err)
	require.True(t, out.IsError)
	require.Contains(t, out.Text(), "start the program")
}

// A call that is cancelled ends the program soon, whether or not it listens, and leaves a valid conversation.
func TestOtherCancelled(t *testing.T) {
	for _, task := range []string{"hang", "wait"} {
		t.Run(task, func(t *testing.T) {
			o := withSelf(t, "raw", task)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			o.event = func(ev aycoder.Event) {
				if _, ok := ev.(*aycoder.ToolFinished); ok { // it has read the file
					cancel()
				}
			}
			out, _, err := o.run(ctx)
			require.ErrorIs(t, err, context.Canceled)
			require.True(t, out.IsError)
			require.NotContains(t, out.Text(), "abandoned")
		})
	}
}

func TestOtherConfig(t *testing.T) {
	for missing, c := range map[string]AgentConfig{"Name": {}, "Command": {Name: "x"}, "Files": {Name: "x", Command: "y"}} {
		_, err := Agent(c)
		require.ErrorContains(t, err, "AgentConfig."+missing)
	}
}

// One of ours as the agent, while the user edits the same file.
func TestOtherIsOurs(t *testing.T) {
	o := withSelf(t, "edit", "go")
	o.on = func(q *aycoder.ApprovalRequested) {
		require.NoError(t, os.WriteFile(o.file, []byte(swap(o.disk(), "five", "FIVE")+"user\n"), 0o644))
		q.Allow()
	}
	out, _, err := o.run(t.Context())
	require.NoError(t, err)
	require.Contains(t, out.Text(), "Done.")
	require.Equal(t, swap(swap(five, "one", "ONE"), "five", "FIVE")+"user\n", o.disk())
	require.Len(t, o.asked, 1)
	require.Equal(t, "other_permission", o.asked[0].Tool)
	require.Contains(t, o.asked[0].Subject, "edit_file a.txt [")
	require.Contains(t, o.asked[0].Preview, "+ONE")
}

// The same by the official SDK in TypeScript, and the example agent of its authors.
func TestSDKAgents(t *testing.T) {
	dir := withSDK(t, "agent.mjs")
	t.Run("writes", func(t *testing.T) {
		o := withOther(t, "node", []string{filepath.Join(dir, "agent.mjs")}, "", "write")
		o.on = func(q *aycoder.ApprovalRequested) {
			require.NoError(t, os.WriteFile(o.file, []byte(o.disk()+"user "+q.Request.Tool+"\n"), 0o644))
			q.Allow()
		}
		out, _, err := o.run(t.Context())
		require.NoError(t, err)
		require.Contains(t, out.Text(), "Done.")
		require.Len(t, o.asked, 2)
		require.Contains(t, o.asked[0].Subject, "Write a.txt {")
		require.Equal(t, "edit_file", o.asked[1].Tool)
		require.Equal(t, swap(five, "one", "ONE")+"user other_permission\nuser edit_file\n", o.disk())
	})
	t.Run("killed", func(t *testing.T) {
		o := withOther(t, "node", []string{filepath.Join(dir, "agent.mjs")}, "", "die")
		out, _, err := o.run(t.Context())
		require.NoError(t, err)
		require.True(t, out.IsError)
		require.Contains(t, out.Text(), "the program has ended")
		require.Equal(t, five, o.disk())
	})
}

// The example agent is in version 0.12.0 of the package: dist/examples/agent.js.
func TestSDKExampleAgent(t *testing.T) {
	example := os.Getenv("AYCODER_ACP_EXAMPLE")
	if example == "" {
		t.Skip("AYCODER_ACP_EXAMPLE does not name the example agent of the official SDK")
	}
	published.Packages(t, filepath.Join(example, "../../../../.."), "@agentclientprotocol/sdk@0.12.0")
	for _, allow := range []bool{true, false} {
		o := withOther(t, "node", []string{example}, "", "go")
		o.on = func(q *aycoder.ApprovalRequested) {
			require.NoError(t, os.WriteFile(o.file, []byte(o.disk()+"user\n"), 0o644))
			if allow {
				q.Allow()
			} else {
				q.Deny("no")
			}
		}
		out, _, err := o.run(t.Context())
		require.NoError(t, err)
		require.Len(t, o.asked, 1)
		require.Contains(t, o.asked[0].Subject, "Modifying critical configuration file")
		require.Equal(t, allow, strings.Contains(out.Text(), "successfully updated"))
		require.Equal(t, five+"user\n", o.disk())
	}
	o := withOther(t, "node", []string{example}, "", "go")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	o.on = func(*aycoder.ApprovalRequested) { cancel() }
	_, _, err := o.run(ctx)
	require.ErrorIs(t, err, context.Canceled)
}
