package docs

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/generate"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/tools"
)

// The page about migration has the bodies of the functions below.

func onePrompt(ctx context.Context, rt *harness.Runtime) (string, error) {
	var res aycoder.Result
	for _, err := range rt.Run(ctx, aycoder.Input{Prompt: "Which tests fail?"}, aycoder.Into(&res)) {
		if err != nil {
			return "", err
		}
	}
	return res.Text(), nil
}

func streamed(ctx context.Context, rt *harness.Runtime, out io.Writer) error {
	for ev, err := range rt.Run(ctx, aycoder.Input{Prompt: "Which tests fail?"}) {
		if err != nil {
			return err
		}
		switch ev := ev.(type) {
		case *aycoder.TextDelta:
			fmt.Fprint(out, ev.Text)
		case *aycoder.ToolStarted:
			fmt.Fprintf(out, "[%s %s]", ev.Call.Name, ev.Subject)
		}
	}
	return nil
}

func permitted(ctx context.Context, rt *harness.Runtime) error {
	for ev, err := range rt.Run(ctx, aycoder.Input{Prompt: "Tidy up."}) {
		if err != nil {
			return err
		}
		if q, ok := ev.(*aycoder.ApprovalRequested); ok {
			if q.Request.Tool == "bash" && strings.Contains(q.Request.Subject, "rm ") {
				q.Deny("nothing is removed here")
			} else {
				q.Allow()
			}
		}
	}
	return nil
}

type issueArgs struct {
	ID int `json:"id" jsonschema_description:"Number of the issue."`
}

func ownTool(ctx context.Context, dir string, model aycoder.ModelClient) (*harness.Runtime, error) {
	tool, err := aycoder.NewTool("issue", "Tells the title of an issue.",
		func(_ context.Context, _ *aycoder.Invocation, in issueArgs) (*aycoder.ToolResult, error) {
			return aycoder.TextResult(fmt.Sprintf("Issue %d: it hangs", in.ID)), nil
		}, aycoder.WithEffect(aycoder.EffectReadOnly))
	if err != nil {
		return nil, err
	}
	return harness.New(ctx, dir, harness.WithClient(model), harness.WithTools(tool))
}

func hooked(ctx context.Context, dir string, model aycoder.ModelClient, log io.Writer) (*harness.Runtime, error) {
	around := func(next aycoder.ToolFunc) aycoder.ToolFunc {
		return func(ctx context.Context, inv *aycoder.Invocation) (*aycoder.ToolResult, error) {
			fmt.Fprintln(log, "before", inv.Name)
			res, err := next(ctx, inv)
			fmt.Fprintln(log, "after", inv.Name)
			return res, err
		}
	}
	return harness.New(ctx, dir, harness.WithClient(model), harness.WithStage(harness.Stage{Name: "log", AroundTool: around}))
}

func resumed(ctx context.Context, dir string, model aycoder.ModelClient, store journal.Store, id string) (*harness.Runtime, error) {
	// store, err := journal.Dir(filepath.Join(home, ".local/state/mine"))
	return harness.New(ctx, dir, harness.WithClient(model), harness.WithStore(store, id)) // "" begins a session: rt.Session.ID()
}

type status struct {
	Summary string `json:"summary"`
	Status  string `json:"status" jsonschema:"enum=ok,enum=action_required"`
}

func typed(ctx context.Context, rt *harness.Runtime) (s status, err error) {
	for _, err := range generate.RunAs(ctx, rt, aycoder.Input{Prompt: "How is the repository?"}, &s) {
		if err != nil {
			return s, err
		}
	}
	return s, nil
}

func withSubagent(ctx context.Context, dir string, model, small aycoder.ModelClient, read aycoder.Tool) (*harness.Runtime, error) {
	reviewer, err := tools.Subagent(tools.SubagentConfig{
		Name: "reviewer", Description: "Reviews a change.", Model: small, Tools: []aycoder.Tool{read},
		Options: []aycoder.Option{aycoder.WithSystem("You review code.")},
	})
	if err != nil {
		return nil, err
	}
	return harness.New(ctx, dir, harness.WithClient(model), harness.WithTools(reviewer))
}

func interrupted(ctx context.Context, rt *harness.Runtime) error {
	for ev, err := range rt.Run(ctx, aycoder.Input{Prompt: "Which tests fail?"}) { // or cancel ctx
		if err != nil {
			return err
		}
		if _, ok := ev.(*aycoder.ToolStarted); ok {
			break // what runs is stopped before the loop statement ends, and the conversation is valid
		}
	}
	return nil
}

func costs(res *aycoder.Result) (dollars float64) {
	for _, s := range res.Spent { // each agent and model
		dollars += s.Cost
	}
	return dollars
}

// play runs one of the functions above with a runtime whose model follows a script.
func play(t *testing.T, steps ...script.Step) *harness.Runtime {
	t.Helper()
	rt, err := harness.New(t.Context(), t.TempDir(), harness.WithClient(script.New(steps...)))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, rt.Close()) })
	return rt
}

func TestMigration(t *testing.T) {
	ctx := t.Context()
	text, err := onePrompt(ctx, play(t, script.Say("None.")))
	require.NoError(t, err)
	require.Equal(t, "None.", text)

	var out strings.Builder
	list := script.Call("list_files", map[string]any{"path": "."})
	require.NoError(t, streamed(ctx, play(t, list, script.Say("None.")), &out))
	require.Equal(t, "[list_files .]None.", out.String())

	rt := play(t, script.Call("bash", map[string]any{"command": "rm -r x"}), script.Call("bash", map[string]any{"command": "mkdir y"}), script.Say("ok"))
	require.NoError(t, os.Mkdir(filepath.Join(rt.Files.Dir(), "x"), 0o700))
	require.NoError(t, permitted(ctx, rt))
	require.DirExists(t, filepath.Join(rt.Files.Dir(), "x"))
	require.DirExists(t, filepath.Join(rt.Files.Dir(), "y"))

	model := script.New(script.Call("issue", issueArgs{7}), script.Say("ok"))
	rt, err = ownTool(ctx, t.TempDir(), model)
	require.NoError(t, err)
	_, err = onePrompt(ctx, rt)
	require.NoError(t, err)
	require.Equal(t, "Issue 7: it hangs", script.LastOutput(model.Requests()[1]).Text())
	require.NoError(t, rt.Close())

	out.Reset()
	rt, err = hooked(ctx, t.TempDir(), script.New(list, script.Say("ok")), &out)
	require.NoError(t, err)
	_, err = onePrompt(ctx, rt)
	require.NoError(t, err)
	require.Equal(t, "before list_files\nafter list_files\n", out.String())
	require.NoError(t, rt.Close())

	store, dir, id := journal.Memory(), t.TempDir(), ""
	for _, want := range []int{1, 3} { // messages
		model = script.New(script.Say("ok"))
		rt, err = resumed(ctx, dir, model, store, id)
		require.NoError(t, err)
		id = rt.Session.ID()
		_, err = onePrompt(ctx, rt)
		require.NoError(t, err)
		require.Len(t, model.Requests()[0].Messages, want)
		require.NoError(t, rt.Close())
	}

	s, err := typed(ctx, play(t, script.Call("status", status{"It works.", "ok"})))
	require.NoError(t, err)
	require.Equal(t, status{"It works.", "ok"}, s)

	read, err := tools.ReadFile(rt.Files)
	require.NoError(t, err)
	model = script.New(script.Call("reviewer", map[string]any{"task": "Review it."}), script.Say("ok"))
	rt, err = withSubagent(ctx, dir, model, script.New(script.Say("It is fine.")), read)
	require.NoError(t, err)
	_, err = onePrompt(ctx, rt)
	require.NoError(t, err)
	require.Contains(t, script.LastOutput(model.Requests()[1]).Text(), "It is fine.")
	require.NoError(t, rt.Close())

	require.NoError(t, interrupted(ctx, play(t, list, script.Fail(io.ErrUnexpectedEOF))))
	require.InDelta(t, 0.75, costs(&aycoder.Result{Spent: []aycoder.Spent{{Cost: 0.5}, {Cost: 0.25}}}), 1e-9)
}

// The other side of the page about migration is checked by the compiler of TypeScript, against the packages that it names:
//
//	npm install --prefix DIR --omit=optional --ignore-scripts @anthropic-ai/claude-agent-sdk@0.3.332 \
//		@openai/codex-sdk@0.163.0 @github/copilot-sdk@1.0.14 typescript@5.9.3 @types/node@24 zod@4
//	AYCODER_MIGRATION_SDKS=DIR go test -run MigrationOtherSide -v ./docs
func TestMigrationOtherSide(t *testing.T) {
	dir := os.Getenv("AYCODER_MIGRATION_SDKS")
	if dir == "" {
		t.Skip("AYCODER_MIGRATION_SDKS does not name a directory with the packages of the other SDKs")
	}
	page, err := os.ReadFile("migration.md")
	require.NoError(t, err)
	blocks := regexp.MustCompile("(?ms)^```ts\n(.*?)^```$").FindAllStringSubmatch(string(page), -1)
	require.Greater(t, len(blocks), 25)
	src := t.TempDir()
	require.NoError(t, os.Symlink(filepath.Join(dir, "node_modules"), filepath.Join(src, "node_modules")))
	args := []string{"--noEmit", "--strict", "--skipLibCheck", "--target", "es2022", "--module", "nodenext", "--types", "node"}
	for i, b := range blocks {
		name := filepath.Join(src, fmt.Sprintf("block%d.mts", i))
		var head strings.Builder
		for pkg, names := range map[string][]string{
			"@anthropic-ai/claude-agent-sdk": {"query", "tool", "createSdkMcpServer"},
			"@openai/codex-sdk":              {"Codex"},
			"@github/copilot-sdk":            {"CopilotClient", "approveAll", "defineTool"},
			"zod":                            {"z"},
		} {
			for _, n := range names {
				if regexp.MustCompile(`\b` + n + `\b`).MatchString(b[1]) {
					fmt.Fprintf(&head, "import { %s } from %q;\n", n, pkg)
				}
			}
		}
		for _, given := range []string{"client: import(\"@github/copilot-sdk\").CopilotClient", "session: import(\"@github/copilot-sdk\").CopilotSession",
			"codex: import(\"@openai/codex-sdk\").Codex", "thread: import(\"@openai/codex-sdk\").Thread", "prompt: string", "id: string", "dir: string"} {
			n, _, _ := strings.Cut(given, ":")
			if regexp.MustCompile(`\b`+n+`\b`).MatchString(b[1]) && !regexp.MustCompile(`\b(const|let) `+n+`\b`).MatchString(b[1]) {
				head.WriteString("declare const " + given + ";\n")
			}
		}
		require.NoError(t, os.WriteFile(name, []byte(head.String()+b[1]+"export {};\n"), 0o600))
		args = append(args, name)
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "node_modules/.bin/tsc"), args...)
	cmd.Dir = src
	text, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", text)
}
