package policy_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/policy"
	"github.com/aycoder/aycoder/providers/script"
)

// shellTool pretends to run commands.
func shellTool() aycoder.Tool {
	type args struct {
		Command string `json:"command"`
	}
	run := func(_ context.Context, _ *aycoder.Invocation, in args) (*aycoder.ToolResult, error) {
		return aycoder.TextResult("ran " + in.Command), nil
	}
	t, err := aycoder.NewTool("bash", "Runs a command.", run,
		aycoder.WithEffect(aycoder.EffectWrite), aycoder.WithSubject(aycoder.SubjectCommand, "command"))
	if err != nil {
		log.Fatal(err)
	}
	return t
}

// play lets a scripted model run commands, and prints what comes of each.
func play(a aycoder.Approver, answer func(*aycoder.ApprovalRequested), opts []aycoder.Option, commands ...string) {
	var steps []script.Step
	for _, c := range commands {
		steps = append(steps, script.Call("bash", map[string]string{"command": c}))
	}
	agent, err := aycoder.New(script.New(append(steps, script.Say("Done."))...),
		append(opts, aycoder.WithTools(shellTool()), aycoder.WithApprover(a))...)
	if err != nil {
		log.Fatal(err)
	}
	for ev, err := range agent.Run(context.Background(), aycoder.Input{Prompt: "Go."}) {
		if err != nil {
			log.Fatal(err)
		}
		switch ev := ev.(type) {
		case *aycoder.ApprovalRequested:
			answer(ev)
		case *aycoder.ToolFinished:
			fmt.Println(ev.Output.Text())
		}
	}
}

// Only what provably reads runs unasked. A question says why it is asked, and which
// rules would answer it from now on.
func Example() {
	p, err := policy.New(policy.WithWorkspace("/work"))
	if err != nil {
		log.Fatal(err)
	}
	answer := func(q *aycoder.ApprovalRequested) {
		fmt.Printf("%s? %s: %s\n", q.Request.Subject, q.Request.Class, strings.Join(q.Request.Reasons, ", "))
		rule := q.Request.Suggested[len(q.Request.Suggested)-1]
		fmt.Println("from now on:", rule)
		if err := q.AllowFor(aycoder.Session, rule); err != nil {
			log.Fatal(err)
		}
	}
	play(p, answer, nil, "git log | head -3", "go test ./a", "cd b && go test ./... | tail", "rm -rf /")
	// Output:
	// ran git log | head -3
	// go test ./a? needs_approval: go may run code of the project
	// from now on: bash@needs_approval:go test *
	// ran go test ./a
	// ran cd b && go test ./... | tail
	// denied: a command of this kind destroys too much: deletes files, deletes /
}

// A rule for a command covers its first words, wherever in a script the command is.
func ExampleWithRules() {
	deny := policy.Rule{
		Action: policy.RuleDeny, Tool: "bash", Pattern: "git push *", Reason: "pushing is for people",
		Match:    []string{"git push", "cd sub && git -C .. push --force", "timeout 5 sh -c 'git push'"},
		NotMatch: []string{"git log --grep push", "echo git push"},
	}
	p, err := policy.New(policy.WithMode(policy.FullAuto), policy.WithRules(policy.Managed, deny))
	if err != nil {
		log.Fatal(err)
	}
	play(p, nil, nil, "git commit -m 'then git push'", "make && env A=1 git push")
	// Output:
	// ran git commit -m 'then git push'
	// denied: pushing is for people
}

// Rules can come from flags. The user is asked about commands that no rule covers.
func ExampleParseRule() {
	allow, err := policy.ParseRule(policy.RuleAllow, "bash:go test *")
	if err != nil {
		log.Fatal(err)
	}
	p, err := policy.New(policy.WithWorkspace("/work"), policy.WithRules(policy.User, allow))
	if err != nil {
		log.Fatal(err)
	}
	refuse := func(q *aycoder.ApprovalRequested) { q.Deny("not " + q.Request.Subject) }
	play(p, refuse, nil, "go test ./...", "go test ./... && curl evil.example", "go testify")
	// Output:
	// ran go test ./...
	// the user refused this call: not go test ./... && curl evil.example
	// the user refused this call: not go testify
}

// Where nobody can be asked a question is a denial, which names the rule to allow the
// call.
func ExamplePolicy_headless() {
	p, err := policy.New(policy.WithWorkspace("/work"))
	if err != nil {
		log.Fatal(err)
	}
	play(aycoder.DenyAsks(p), nil, nil, "touch a.txt")
	// Output:
	// approval_required: nobody can be asked here (touch writes files, writes a.txt); the host can allow it with the rule bash:touch a.txt
}

// Rules that users save are in a file, for the next session and for other processes.
func ExampleWithFile() {
	dir, err := os.MkdirTemp("", "example-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	session := func() *policy.Policy {
		p, err := policy.New(policy.WithWorkspace("/work"), policy.WithFile(filepath.Join(dir, "rules.json")))
		if err != nil {
			log.Fatal(err)
		}
		return p
	}
	save := func(q *aycoder.ApprovalRequested) {
		if err := q.AllowFor(aycoder.Saved, q.Request.Suggested[1]); err != nil {
			log.Fatal(err)
		}
	}
	play(session(), save, nil, "go test ./a")
	play(session(), nil, nil, "go test ./b")
	fmt.Println(session().Rules(policy.User))
	// Output:
	// ran go test ./a
	// ran go test ./b
	// [bash@needs_approval:go test *]
}

// The log has a line for each request, decision, rule, effect and security event. A
// decision is in it before its tool starts; if it cannot be, the tool does not.
func ExampleNewAuditLog() {
	p, err := policy.New(policy.WithWorkspace("/work"))
	if err != nil {
		log.Fatal(err)
	}
	var buf bytes.Buffer
	opts := []aycoder.Option{aycoder.WithAudit(policy.NewAuditLog(&buf))}
	play(p, func(q *aycoder.ApprovalRequested) { q.Allow() }, opts, "API_TOKEN=s3cr3t-of-mine ./deploy")
	for line := range strings.Lines(buf.String()) {
		var rec aycoder.AuditRecord
		if err := json.Unmarshal([]byte(line), &rec); err != nil {
			log.Fatal(err)
		}
		fmt.Println(rec.Seq, rec.Kind, rec.Verdict+rec.Outcome, rec.By, rec.Subject)
	}
	// Output:
	// ran API_TOKEN=s3cr3t-of-mine ./deploy
	// 1 request   API_TOKEN=[masked] ./deploy
	// 2 decision allow user API_TOKEN=[masked] ./deploy
	// 3 effect ok  API_TOKEN=[masked] ./deploy
}

// A rule that the user has made is taken back.
func ExamplePolicy_DropRule() {
	ctx := context.Background()
	p, err := policy.New()
	if err != nil {
		log.Fatal(err)
	}
	if err := p.KeepRule(ctx, aycoder.Session, "bash:make *"); err != nil {
		log.Fatal(err)
	}
	for _, r := range p.Rules(policy.Session) {
		found, err := p.DropRule(ctx, aycoder.Session, r.String())
		fmt.Println(r, found, err)
	}
	fmt.Println(len(p.Rules(policy.Session)))
	// Output:
	// bash:make * true <nil>
	// 0
}

// Files of a further directory have its name in rules, and a rule that denies holds in all directories.
func ExampleWithRoot() {
	p, err := policy.New(policy.WithWorkspace("/work/app"), policy.WithRoot("lib", "/work/lib"),
		policy.WithRules(policy.User,
			policy.Rule{Action: policy.RuleAllow, Tool: "write_file", Pattern: "lib:/src/**"},
			policy.Rule{Action: policy.RuleDeny, Tool: "write_file", Pattern: "vendor/**"}))
	if err != nil {
		log.Fatal(err)
	}
	spec := &aycoder.ToolSpec{
		Name: "write_file", Effect: aycoder.EffectWrite, Subject: aycoder.Subject{Arg: "path", Kind: aycoder.SubjectPath},
	}
	for _, path := range []string{"lib:/src/a.go", "/work/lib/src/a.go", "src/a.go", "lib:/vendor/a.go"} {
		args, err := json.Marshal(map[string]string{"path": path})
		if err != nil {
			log.Fatal(err)
		}
		v := p.Decide(context.Background(), &aycoder.ToolUse{ID: "1", Name: "write_file", Args: args}, spec)
		fmt.Printf("%s: %q\n", path, v.Grounds().Rule)
	}
	// Output:
	// lib:/src/a.go: "user allow write_file:lib:/src/**"
	// /work/lib/src/a.go: "user allow write_file:lib:/src/**"
	// src/a.go: ""
	// lib:/vendor/a.go: "user deny write_file:vendor/**"
}
