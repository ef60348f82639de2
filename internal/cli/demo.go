package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/config"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/policy"
	"github.com/aycoder/aycoder/providers/script"
)

const (
	demoTask  = "Make the failing check pass."
	demoCheck = "sh check.sh"
	demoEdit  = "edit_file:greet.sh"  // the rule that allows its change
	demoPace  = 12 * time.Millisecond // for each word, in a terminal
)

// The workspace of the demo: small shell files, so that a check takes a few milliseconds.
const (
	demoGreet = `#!/bin/sh
# greet.sh NAME... greets everybody by name.
names=$1; shift
for n; do names="$names,$n"; done
echo "Hello $names!"
`
	demoBye = `#!/bin/sh
# bye.sh NAME says goodbye.
echo "Goodbye $1."
`
	demoChecks = `#!/bin/sh
# check.sh checks what the other scripts print.
bad=0
check() { # name, want, got
  if [ "$2" = "$3" ]; then echo "ok   $1"; return; fi
  printf 'FAIL %s\n  got  %s\n  want %s\n' "$1" "$3" "$2"; bad=1
}
check "bye Ada" "Goodbye Ada." "$(sh bye.sh Ada)"
check "greet Ada Bob" "Hello Ada, Bob!" "$(sh greet.sh Ada Bob)"
exit $bad
`
	demoWrong = `names="$names,$n"`
	demoRight = `names="$names, $n"`
)

// demoLabel explains the demo, and why it runs if nobody has asked for it.
func demoLabel(dir, why string) string {
	if why != "" {
		why = "No model configured: " + clean(why) + ".\n"
	}
	return why + "Starting the demo: a scripted model with the real tools, in\n" +
		clean(dir) + ", which is removed at the end.\n" +
		"It is not an AI, costs nothing and sends nothing.\n"
}

// openDemo makes a session with the scripted model and a temporary workspace, which is
// removed at the end.
func (a *app) openDemo(ctx context.Context, s *session, o *options) error {
	dir, err := os.MkdirTemp("", "aycoder-demo-")
	if err != nil {
		return fmt.Errorf("make the demo's workspace: %w", err)
	}
	s.closers = append(s.closers, func() error { return os.RemoveAll(dir) })
	for name, text := range map[string]string{"greet.sh": demoGreet, "bye.sh": demoBye, "check.sh": demoChecks} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return fmt.Errorf("make the demo's workspace: %w", err)
		}
	}
	pace := demoPace
	if o.print {
		pace = 0
	}
	s.demo = true
	// Running the check changes nothing, so the demo does not ask for approval.
	check := policy.Rule{Action: policy.RuleAllow, Tool: "bash", Pattern: demoCheck}
	loaded, err := config.Load(o.flags()...) // the demo reads no file
	if err != nil {
		return err
	}
	m := newDemoModel(pace)
	return s.build(ctx, dir, o, append(a.extra(),
		harness.WithClient(m), harness.WithSummaryClient(m), harness.WithSettings(loaded.Config.Settings), harness.WithStore(journal.Memory(), ""),
		harness.WithPolicyOptions(policy.WithRules(policy.Session, check)),
	))
}

// newDemoModel returns a model that knows one task. It chooses each step by the last
// output of a tool, so that it can react to a refusal or to edited arguments.
func newDemoModel(pace time.Duration) *script.Model {
	return script.New(script.Func(demoStep)).With(
		script.WithName(demoModel, demoModel), script.WithLoop(true),
		script.WithPace(pace), script.WithEstimate(false))
}

const demoHonest = "I am the scripted demo model and know only this task: “" + demoTask +
	"” Set " + keyEnv + " to ask a real model anything."

// demoStep answers a request.
func demoStep(req *aycoder.Request) script.Step {
	d := readDemo(req.Messages)
	switch {
	case isDemoTask(d.said):
		return script.Reply(
			script.Say("I will look at what is here, then run the check.\n"),
			script.Call("list_files", map[string]string{"path": "."}))
	case d.last == nil:
		return script.Say(demoHonest)
	case d.said != "":
		return script.Say(demoHonest + " If you say “go on”, I start it again.")
	}
	return d.next()
}

// isDemoTask reports whether the script covers the prompt.
func isDemoTask(said string) bool {
	said = strings.ToLower(said)
	for _, word := range []string{"check", "go on", "again", "continue"} {
		if strings.Contains(said, word) {
			return true
		}
	}
	return false
}

// A demo is the state of the script, derived from the conversation.
type demo struct {
	said   string // by the user since the model's last message
	last   *aycoder.ToolUse
	output *aycoder.ToolOutput // output of last
	edited bool                // in this task
	looked bool
}

// readDemo reads the messages since the model last finished a task.
func readDemo(messages []*aycoder.Message) *demo {
	d := &demo{}
	for _, m := range messages {
		calls := m.Calls()
		switch {
		case m.Role != aycoder.RoleAssistant:
			for _, p := range m.Parts {
				d.hear(p)
			}
		case len(calls) == 0:
			*d = demo{}
		default:
			d.said, d.last = "", calls[len(calls)-1]
		}
	}
	return d
}

func (d *demo) hear(p aycoder.Part) {
	switch p := p.(type) {
	case *aycoder.Text:
		if d.said = p.Text; isDemoTask(d.said) {
			d.edited, d.looked = false, false
		}
	case *aycoder.ToolOutput:
		d.output = p
		d.edited = d.edited || p.Name == "edit_file" && !p.IsError
		d.looked = d.looked || p.Name == "read_file" && !p.IsError
	}
}

// next chooses the step after the last output.
func (d *demo) next() script.Step {
	if d.output == nil {
		return script.Say(demoHonest)
	}
	text := d.output.Text()
	switch d.last.Name {
	case "list_files":
		return script.Call("bash", map[string]string{"command": demoCheck})
	case "bash":
		return d.checked(text)
	case "code_search":
		return script.Call("read_file", map[string]string{"path": "greet.sh"})
	case "read_file":
		return d.read(text)
	}
	if d.output.IsError {
		return script.Say("The change was not made: " + strings.TrimSuffix(text, ".") + ". " +
			"The check still fails, because greet.sh joins the names with a bare comma. " +
			"What shall I do? If you say “try again”, I propose the change once more.")
	}
	return script.Call("bash", map[string]string{"command": demoCheck})
}

// checked continues after the check has run, or could not.
func (d *demo) checked(text string) script.Step {
	ran := strings.Contains(text, "greet Ada Bob")
	switch {
	case ran && !strings.Contains(text, "FAIL"):
		return script.Say("The check passes: greet.sh now joins names with a comma and a space.")
	case ran && d.edited:
		return script.Say("The check still fails with the change as it is now:\n" + firstFail(text) +
			"What shall I do? If you say “try again”, I look once more.")
	case !ran && d.edited:
		return script.Say("greet.sh is changed, but I cannot run the check here.")
	case d.looked:
		return script.Say("I cannot find out why the check fails.")
	}
	return script.Call("code_search", map[string]string{"pattern": "Hello"})
}

// firstFail returns the lines about the first failure.
func firstFail(text string) string {
	i := strings.Index(text, "FAIL")
	lines := strings.SplitAfterN(text[i:], "\n", 4)
	return strings.Join(lines[:min(3, len(lines))], "")
}

// read continues after greet.sh was read: the script only knows its original text.
func (d *demo) read(text string) script.Step {
	switch {
	case strings.Contains(text, demoWrong):
		return script.Reply(
			script.Say("greet.sh joins the names with a bare comma. I will add a space.\n"),
			script.Call("edit_file", map[string]string{
				"path": "greet.sh", "old_string": demoWrong, "new_string": demoRight,
			}))
	case strings.Contains(text, demoRight):
		return script.Say("greet.sh joins the names with a comma and a space already.")
	}
	return script.Say("greet.sh is not what my script knows, so I leave it alone. " +
		"Start the demo again for a fresh one.")
}
