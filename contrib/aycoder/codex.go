package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/edit"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/internal/cli"
	"github.com/aycoder/aycoder/policy"
)

const (
	maxHostPrompt = 16 << 20 // bytes
	maxHostImage  = 20 << 20
)

// codexArgs are what a host says when it starts the program.
type codexArgs struct {
	flags  []string // for [cli.Program]
	mode   policy.Mode
	strict bool // whatever the mode is
	schema json.RawMessage
	images []string
	words  []string // the prompt, if it is among the arguments
}

// The sandboxes of the protocol, and our modes. Nobody can be asked in this protocol: what the mode would ask about is
// refused.
var codexModes = map[string]policy.Mode{"read-only": policy.Ask, "workspace-write": policy.AcceptEdits, "danger-full-access": policy.FullAuto}

func parseCodexArgs(args []string) (*codexArgs, error) {
	a := &codexArgs{mode: policy.Ask}
	fs := flag.NewFlagSet("aycoder", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	lines := false
	for _, name := range []string{"json", "experimental-json"} {
		fs.BoolVar(&lines, name, false, "")
	}
	fs.Bool("skip-git-repo-check", false, "") // this program checks nothing of the kind
	for _, name := range []string{"config", "c"} {
		fs.Func(name, "", a.config)
	}
	for _, name := range []string{"model", "m"} {
		fs.Func(name, "", func(s string) error { a.flag("model", modelName("openai", s)); return nil })
	}
	for _, name := range []string{"cd", "C"} {
		fs.Func(name, "", func(s string) error { a.flag("C", s); return nil })
	}
	for _, name := range []string{"image", "i"} {
		fs.Func(name, "", func(s string) error { a.images = append(a.images, s); return nil })
	}
	for _, name := range []string{"add-dir", "profile"} {
		fs.Func(name, "", func(s string) error { a.flag(name, s); return nil })
	}
	fs.BoolFunc("trust", "", func(s string) error { a.flag("trust", s); return nil })
	fs.Func("sandbox", "", func(s string) error {
		mode, ok := codexModes[s]
		if a.mode = mode; !ok {
			return unsupported("the sandbox %q", s)
		}
		return nil
	})
	fs.Func("output-schema", "", func(s string) (err error) {
		a.schema, err = os.ReadFile(s)
		return err
	})
	words, err := []string(nil), error(nil)
	for rest := args; err == nil; { // flags may follow words
		if err = fs.Parse(rest); err != nil || fs.NArg() == 0 {
			break
		}
		if n := len(rest) - fs.NArg(); n > 0 && rest[n-1] == "--" { // all after it are words
			words = append(words, fs.Args()...)
			break
		}
		words, rest = append(words, fs.Arg(0)), fs.Args()[1:]
	}
	switch {
	case err != nil:
		return nil, wrongFlag(err)
	case len(words) == 0 || words[0] != "exec":
		return nil, unsupported("other commands than exec")
	case !lines:
		return nil, unsupported("exec without --json")
	}
	if words = words[1:]; len(words) > 0 && words[0] == "resume" {
		if len(words) < 2 || words[1] == "" {
			return nil, unsupported("resume without the id of a thread")
		}
		a.flag("r", words[1])
		words = words[2:]
	}
	a.words = words
	if a.strict {
		a.mode = policy.Ask
	}
	a.flag("mode", string(a.mode))
	return a, nil
}

func (a *codexArgs) flag(name, value string) { a.flags = append(a.flags, "-"+name+"="+value) }

// config reads an override of the configuration. Those that change nothing here are accepted.
func (a *codexArgs) config(override string) error {
	key, value, _ := strings.Cut(override, "=")
	value = strings.Trim(value, `"`)
	switch {
	case key == "approval_policy" && value == "untrusted": // nothing is allowed then but what only reads
		a.strict = true
	case key == "approval_policy" && slices.Contains([]string{"never", "on-request", "on-failure"}, value):
	case key == "web_search" && value == "disabled", key == "sandbox_workspace_write.network_access" && value == "false":
	case key == "openai_base_url":
		a.flag("base-url", value)
	default:
		return unsupported("the setting %s", override)
	}
	return nil
}

// input reads the prompt and the images.
func (a *codexArgs) input(in io.Reader) (aycoder.Input, error) {
	prompt := strings.Join(a.words, " ")
	if prompt == "" || prompt == "-" {
		data, err := io.ReadAll(io.LimitReader(in, maxHostPrompt+1))
		switch {
		case err != nil:
			return aycoder.Input{}, fmt.Errorf("read the prompt: %w", err)
		case len(data) > maxHostPrompt:
			return aycoder.Input{}, fmt.Errorf("the prompt has more than %d bytes", maxHostPrompt)
		}
		prompt = strings.TrimSpace(string(data))
	}
	input := aycoder.Input{Prompt: prompt}
	for _, name := range a.images {
		f, err := os.Open(name)
		if err != nil {
			return input, err
		}
		data, err := io.ReadAll(io.LimitReader(f, maxHostImage+1))
		if err = errors.Join(err, f.Close()); err != nil {
			return input, err
		}
		if len(data) > maxHostImage {
			return input, fmt.Errorf("%s is not an image of at most %d bytes", name, maxHostImage)
		}
		image, err := harness.Image(filepath.Base(name), data)
		if err != nil {
			return input, fmt.Errorf("image %s: %w", name, err)
		}
		input.Parts = append(input.Parts, image)
	}
	if input.Prompt == "" && len(input.Parts) == 0 {
		return input, fmt.Errorf("%w: there is no prompt", cli.ErrUsage)
	}
	return input, nil
}

// waitForInput is like input, and ends with ctx.
func (a *codexArgs) waitForInput(ctx context.Context, from io.Reader) (aycoder.Input, error) {
	type read struct {
		in  aycoder.Input
		err error
	}
	done := make(chan read, 1)
	go func() { // which may hang in reading until the program ends
		in, err := a.input(from)
		done <- read{in, err}
	}()
	select {
	case r := <-done:
		return r.in, r.err
	case <-ctx.Done():
		return aycoder.Input{}, context.Cause(ctx)
	}
}

// serveCodex answers one prompt, and tells the host what happens by lines of JSON. Its error is that of the answer, of which
// the host is told, too.
func serveCodex(ctx context.Context, p cli.Program, args []string) error {
	a, err := parseCodexArgs(args)
	if err != nil {
		return err
	}
	in, err := a.waitForInput(ctx, p.In)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	rt, end, err := p.Converse(ctx, a.flags, withAsking(func(string) bool { return false }), harness.WithToolFilter(func(all []aycoder.Tool) []aycoder.Tool {
		return slices.DeleteFunc(slices.Clone(all), func(t aycoder.Tool) bool { return t.Spec().Name == "ask_user" })
	}))
	if err != nil {
		return err
	}
	defer end()
	out := newWire(ctx, p.Out, func() { cancel(errHostGone) })
	defer out.finish()
	out.beat(" ") // which is nothing before a line of JSON
	t := &codexTeller{out: out, rt: rt}
	out.send(map[string]any{"type": "thread.started", "thread_id": rt.Session.ID()})
	out.send(map[string]any{"type": "turn.started"})
	res, document, failed := answer(ctx, rt, in, a.schema, t.event)
	if failed != nil {
		t.said("")
		out.send(map[string]any{"type": "turn.failed", "error": map[string]any{"message": failed.Error()}})
		return failed
	}
	t.said(string(document))
	u := res.Usage
	out.send(map[string]any{"type": "turn.completed", "usage": map[string]any{
		"input_tokens": u.Input + u.CacheRead + u.CacheWrite, "cached_input_tokens": u.CacheRead, "cache_write_input_tokens": u.CacheWrite,
		"output_tokens": u.Output, "reasoning_output_tokens": u.Reasoning,
	}})
	return nil
}

// A codexTeller tells the host what happens in a run. The work of subagents is a part of the call that has started them.
type codexTeller struct {
	out      *wire
	rt       *harness.Runtime
	items    int
	text     strings.Builder
	thinking strings.Builder
	ids      map[string]string // of the items of calls
}

func (t *codexTeller) event(ev aycoder.Event) {
	switch ev := ev.(type) {
	case *aycoder.TextDelta:
		t.thought()
		t.text.WriteString(ev.Text)
	case *aycoder.ThinkingDelta:
		t.said("")
		t.thinking.WriteString(ev.Text)
	case *aycoder.Retrying:
		t.text.Reset()
		t.thinking.Reset()
	case *aycoder.ToolStarted:
		t.said("")
		t.item("item.started", t.id(ev.Call.ID), t.call(ev.Call, ev.Args), map[string]any{"status": "in_progress"})
	case *aycoder.CallRequested:
		_ = ev.Answer(aycoder.ErrorResult("nobody can answer this here")) // the run may have ended
	case *aycoder.ToolFinished:
		t.finished(ev)
	case *aycoder.Notice:
		t.item("item.completed", t.next(), map[string]any{"type": "error", "message": "[" + ev.Source + "] " + ev.Text})
	}
}

func (t *codexTeller) thought() {
	if text := t.thinking.String(); text != "" {
		t.thinking.Reset()
		t.item("item.completed", t.next(), map[string]any{"type": "reasoning", "text": text})
	}
}

// said sends what the model has said so far. If there is a document, the last message is that.
func (t *codexTeller) said(document string) {
	t.thought()
	text := cmp.Or(document, t.text.String())
	t.text.Reset()
	if text != "" {
		t.item("item.completed", t.next(), map[string]any{"type": "agent_message", "text": text})
	}
}

func (t *codexTeller) next() string {
	t.items++
	return fmt.Sprintf("item_%d", t.items-1)
}

// id returns the id of the item of a call.
func (t *codexTeller) id(call string) string {
	if t.ids == nil {
		t.ids = map[string]string{}
	}
	if t.ids[call] == "" {
		t.ids[call] = t.next()
	}
	return t.ids[call]
}

func (t *codexTeller) item(event, id string, fields ...map[string]any) {
	item := map[string]any{"id": id}
	for _, f := range fields {
		maps.Copy(item, f)
	}
	t.out.send(map[string]any{"type": event, "item": item})
}

// call tells what a call is: a command, or a tool of a server. The program's own tools are those of a server with its name.
func (t *codexTeller) call(c *aycoder.ToolUse, args json.RawMessage) map[string]any {
	if c.Name == "bash" {
		var in struct {
			Command string `json:"command"`
		}
		_ = json.Unmarshal(args, &in) // what is not a command was refused
		return map[string]any{"type": "command_execution", "command": in.Command, "aggregated_output": ""}
	}
	server, tool := "aycoder", c.Name
	if rest, ok := strings.CutPrefix(c.Name, "mcp__"); ok {
		server, tool, _ = strings.Cut(rest, "__")
	}
	if !json.Valid(args) {
		args = json.RawMessage("{}")
	}
	return map[string]any{"type": "mcp_tool_call", "server": server, "tool": tool, "arguments": args}
}

func (t *codexTeller) finished(ev *aycoder.ToolFinished) {
	t.said("")
	id, call, text := t.id(ev.Call.ID), t.call(ev.Call, ev.Call.Args), ev.Output.Text()
	more := map[string]any{"status": "completed"}
	failed := ev.Output.IsError || ev.Err != nil
	if failed {
		more["status"] = "failed"
	}
	switch {
	case call["type"] == "command_execution":
		more["aggregated_output"] = text
		var code int
		if n, _ := fmt.Sscanf(ev.Summary, "exit %d", &code); n == 1 && ev.Err == nil {
			if more["exit_code"] = code; code != 0 {
				more["status"] = "failed"
			}
		}
	case failed:
		more["error"] = map[string]any{"message": text}
	default:
		more["result"] = map[string]any{"content": []any{map[string]any{"type": "text", "text": text}}, "structured_content": nil}
	}
	t.item("item.completed", id, call, more)
	t.changed(ev.Changes)
	if ev.Call.Name == "todo" && !failed {
		list := []any{}
		for _, x := range t.rt.Todos.Items() {
			list = append(list, map[string]any{"text": x.Content, "completed": x.Status == "completed"})
		}
		t.item("item.completed", t.next(), map[string]any{"type": "todo_list", "items": list})
	}
}

// changed tells which files a call has changed.
func (t *codexTeller) changed(res *edit.Result) {
	kinds := map[edit.Kind]string{edit.Create: "add", edit.Change: "update", edit.Delete: "delete"}
	var changes []any
	if res != nil {
		for _, f := range res.Files {
			if f.Written {
				changes = append(changes, map[string]any{"path": f.Path, "kind": kinds[f.Kind]})
			}
		}
	}
	if len(changes) > 0 {
		t.item("item.completed", t.next(), map[string]any{"type": "file_change", "changes": changes, "status": "completed"})
	}
}
