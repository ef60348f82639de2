package policy_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/policy"
)

const root = "/ws"

var (
	bashSpec = aycoder.ToolSpec{
		Name: "bash", Effect: aycoder.EffectWrite, Destructive: true, OpenWorld: true,
		Subject: aycoder.Subject{Arg: "command", Kind: aycoder.SubjectCommand},
	}
	editSpec = aycoder.ToolSpec{
		Name: "edit_file", Effect: aycoder.EffectWrite, Subject: aycoder.Subject{Arg: "path", Kind: aycoder.SubjectPath},
	}
	readSpec = aycoder.ToolSpec{
		Name: "read_file", Effect: aycoder.EffectReadOnly, Subject: aycoder.Subject{Arg: "path", Kind: aycoder.SubjectPath},
	}
	fetchSpec = aycoder.ToolSpec{
		Name: "fetch", Effect: aycoder.EffectReadOnly, OpenWorld: true, Subject: aycoder.Subject{Arg: "url"},
	}
	patchSpec = aycoder.ToolSpec{Name: "apply_patch", Effect: aycoder.EffectWrite}
	otherSpec = aycoder.ToolSpec{Name: "deploy"}
)

// ask puts a call to a policy, and returns "allow", "ask" or "deny" with the verdict.
func ask(t testing.TB, a aycoder.Approver, spec *aycoder.ToolSpec, subject string) (string, aycoder.Verdict) {
	t.Helper()
	args := json.RawMessage(`{}`)
	if spec.Subject.Arg != "" {
		var err error
		args, err = json.Marshal(map[string]string{spec.Subject.Arg: subject})
		require.NoError(t, err)
	}
	v := a.Decide(t.Context(), &aycoder.ToolUse{ID: "1", Name: spec.Name, Args: args}, spec)
	data, err := json.Marshal(v)
	require.NoError(t, err)
	var w struct{ Kind string }
	require.NoError(t, json.Unmarshal(data, &w))
	if w.Kind == "" {
		return "ask", v
	}
	return w.Kind, v
}

func newPolicy(t testing.TB, opts ...policy.Option) *policy.Policy {
	t.Helper()
	p, err := policy.New(append([]policy.Option{policy.WithWorkspace(root)}, opts...)...)
	require.NoError(t, err)
	return p
}

func entry(t testing.TB, action policy.RuleAction, text string) policy.Rule {
	t.Helper()
	r, err := policy.ParseRule(action, text)
	require.NoError(t, err)
	return r
}

// rules reads "allow bash:ls" and the like.
func rules(t testing.TB, texts ...string) []policy.Rule {
	t.Helper()
	var out []policy.Rule
	for _, text := range texts {
		var action, rule string
		n, err := fmt.Sscanf(text, "%s %s", &action, &rule)
		require.NoError(t, err)
		require.Equal(t, 2, n)
		out = append(out, entry(t, policy.RuleAction(action), text[len(action)+1:]))
	}
	return out
}

func TestModes(t *testing.T) {
	tests := []struct {
		spec              *aycoder.ToolSpec
		subject           string
		ask, edits, plan  string
		full, tainted     string
		managed           string // tainted, with a managed rule for the tool that holds
		headless, suggest string
	}{
		{&readSpec, "a.go", "allow", "allow", "allow", "allow", "allow", "allow", "allow", ""},
		{&editSpec, "a.go", "ask", "allow", "deny", "allow", "allow", "allow", "deny", "edit_file:a.go"},
		{&editSpec, "/ws/a.go", "ask", "allow", "deny", "allow", "allow", "allow", "deny", "edit_file:a.go"},
		{&editSpec, "../a.go", "ask", "ask", "deny", "allow", "ask", "ask", "deny", ""},
		{&editSpec, "/etc/passwd", "ask", "ask", "deny", "ask", "ask", "ask", "deny", ""},
		{&editSpec, ".github/workflows/ci.yml", "ask", "ask", "deny", "ask", "ask", "ask", "deny", "edit_file:.github/workflows/ci.yml"},
		{&editSpec, "sub/.env", "ask", "ask", "deny", "ask", "ask", "ask", "deny", "edit_file:sub/.env"},
		{&patchSpec, "", "ask", "allow", "deny", "allow", "allow", "allow", "deny", ""},
		{&otherSpec, "", "ask", "ask", "deny", "allow", "ask", "ask", "deny", ""},
		{&fetchSpec, "https://go.dev/", "ask", "ask", "deny", "allow", "ask", "allow", "deny", ""},
		{&bashSpec, "ls -l", "allow", "allow", "allow", "allow", "allow", "allow", "allow", ""},
		{&bashSpec, "git log -3 | head", "allow", "allow", "allow", "allow", "allow", "allow", "allow", ""},
		{&bashSpec, "touch a", "ask", "ask", "deny", "allow", "allow", "allow", "deny", "bash:touch a"},
		{&bashSpec, "go test ./...", "ask", "ask", "deny", "allow", "ask", "allow", "deny", "bash:go test ./..."},
		{&bashSpec, "curl https://example.com", "ask", "ask", "deny", "allow", "ask", "allow", "deny", "bash:curl https://example.com"},
		{&bashSpec, "echo x > /etc/passwd", "ask", "ask", "deny", "ask", "ask", "ask", "deny", "bash:echo x > /etc/passwd"},
		{&bashSpec, "sudo ls", "ask", "ask", "deny", "allow", "ask", "ask", "deny", "bash:sudo ls"},
		{&bashSpec, "rm -rf /", "deny", "deny", "deny", "deny", "deny", "deny", "deny", ""},
		{&bashSpec, "cat .env", "ask", "ask", "ask", "ask", "ask", "ask", "deny", "bash:cat .env"},
	}
	for _, tt := range tests {
		check := func(want string, a aycoder.Approver, what string) aycoder.Verdict {
			got, v := ask(t, a, tt.spec, tt.subject)
			require.Equal(t, want, got, "%s: %s %s: %+v", what, tt.spec.Name, tt.subject, v.Grounds())
			return v
		}
		v := check(tt.ask, newPolicy(t), "ask")
		if s := v.Grounds().Suggested; tt.suggest != "" {
			require.NotEmpty(t, s, tt.subject)
			require.Equal(t, tt.suggest, s[0])
		}
		require.NotEmpty(t, v.Grounds().Class)
		check(tt.edits, newPolicy(t, policy.WithMode(policy.AcceptEdits)), "accept-edits")
		check(tt.plan, newPolicy(t, policy.WithMode(policy.Plan)), "plan")
		full := newPolicy(t, policy.WithMode(policy.FullAuto))
		check(tt.full, full, "full-auto")
		require.NoError(t, full.Audit(t.Context(), &aycoder.AuditRecord{Untrusted: true}))
		check(tt.tainted, full, "tainted")
		full.Trust()
		check(tt.full, full, "trusted again")
		managed := newPolicy(t, policy.WithManagedTrust(true), policy.WithMode(policy.FullAuto),
			policy.WithRules(policy.Managed, rules(t, "allow bash", "allow fetch")...))
		require.NoError(t, managed.Audit(t.Context(), &aycoder.AuditRecord{Untrusted: true}))
		check(tt.managed, managed, "managed")
		check(tt.headless, aycoder.DenyAsks(newPolicy(t)), "headless")
	}
}

func TestRules(t *testing.T) {
	tests := []struct {
		name    string
		rules   []string
		spec    *aycoder.ToolSpec
		subject string
		want    string
	}{
		{"prefix", []string{"allow bash:go test *"}, &bashSpec, "go test ./...", "allow"},
		{"prefix without further words", []string{"allow bash:go test *"}, &bashSpec, "go test", "allow"},
		{"no star, no further words", []string{"allow bash:go test"}, &bashSpec, "go test ./...", "ask"},
		{"another subcommand", []string{"allow bash:go test *"}, &bashSpec, "go generate", "ask"},
		{"a word is a word", []string{"allow bash:go test *"}, &bashSpec, "go testify", "ask"},
		{"star in a word", []string{"allow bash:npm run test:*"}, &bashSpec, "npm run test:unit", "allow"},
		{"star in a word is of that word", []string{"allow bash:npm run test:*"}, &bashSpec, "npm run test:unit x", "ask"},
		{"and what only reads", []string{"allow bash:go test *"}, &bashSpec, "ls && go test ./... | head", "allow"},
		{"and what is not covered", []string{"allow bash:go test *"}, &bashSpec, "go test ./... && touch x", "ask"},
		{"two rules", []string{"allow bash:go test *", "allow bash:touch *"}, &bashSpec, "go test ./... && touch x", "allow"},
		{"in a variable directory", []string{"allow bash:go test *"}, &bashSpec, "/tmp/go test", "ask"},
		{"harmless wrapper", []string{"allow bash:go test *"}, &bashSpec, "timeout 5 go test ./...", "allow"},
		{"wrapper that adds power", []string{"allow bash:go test *"}, &bashSpec, "sudo go test ./...", "ask"},
		{"redirect", []string{"allow bash:go test *"}, &bashSpec, "go test ./... > out.txt", "ask"},
		{"redirect that is covered by class", []string{"allow bash:go test *", "allow bash@writes_workspace"}, &bashSpec, "go test ./... > out.txt", "allow"},
		{"redirect to outside", []string{"allow bash:go test *", "allow bash@writes_workspace"}, &bashSpec, "go test ./... > /etc/passwd", "ask"},
		{"another directory", []string{"allow bash:go test *"}, &bashSpec, "cd sub && go test ./...", "allow"},
		{"a directory outside", []string{"allow bash:go test *"}, &bashSpec, "cd /tmp && go test ./...", "ask"},
		{"a directory above", []string{"allow bash:go test *"}, &bashSpec, "cd .. && go test ./...", "ask"},
		{"class", []string{"allow bash@needs_approval"}, &bashSpec, "go test ./...", "allow"},
		{"class that is exceeded", []string{"allow bash@needs_approval"}, &bashSpec, "curl https://example.com", "ask"},
		{"class and pattern", []string{"allow bash@needs_approval:curl *"}, &bashSpec, "curl https://example.com", "ask"},
		{"the very text", []string{"allow bash:cat .env"}, &bashSpec, "cat .env", "allow"},
		{"secrets are not meant", []string{"allow bash:cat *"}, &bashSpec, "cat .env", "ask"},
		{"catastrophe that is named", []string{"allow bash:rm -rf /"}, &bashSpec, "rm -rf /", "allow"},
		{"catastrophe that is not meant", []string{"allow bash:rm *"}, &bashSpec, "rm -rf /", "deny"},
		{"all commands", []string{"allow bash"}, &bashSpec, "curl https://example.com", "allow"},
		{"deny before allow", []string{"allow bash", "deny bash:git push *"}, &bashSpec, "git push", "deny"},
		{"deny in a list", []string{"allow bash", "deny bash:git push *"}, &bashSpec, "ls; git push origin", "deny"},
		{"deny behind a wrapper", []string{"allow bash", "deny bash:git push *"}, &bashSpec, "env timeout 5 git push", "deny"},
		{"deny behind options", []string{"allow bash", "deny bash:git push *"}, &bashSpec, "git -C sub push", "deny"},
		{"deny in another directory", []string{"allow bash", "deny bash:git push *"}, &bashSpec, "/usr/bin/git push", "deny"},
		{"deny with a directory", []string{"allow bash", "deny bash:/usr/bin/git push *"}, &bashSpec, "git push", "deny"},
		{"deny with the directory of the call", []string{"allow bash", "deny bash:node_modules/.bin/x *"}, &bashSpec, "node_modules/.bin/x a", "deny"},
		{"deny is not a text search", []string{"allow bash", "deny bash:rm *"}, &bashSpec, "git commit -m 'rm old files'", "allow"},
		{"deny with options anywhere", []string{"allow bash", "deny bash:git push --force"}, &bashSpec, "git push origin --force", "deny"},
		{"deny with options in another order", []string{"allow bash@destructive", "deny bash:rm -rf *"}, &bashSpec, "rm -f -r x", "deny"},
		{"deny of other options", []string{"allow bash@destructive", "deny bash:rm -rf *"}, &bashSpec, "rm -f x", "allow"},
		{"deny that may be meant", []string{"allow bash", "deny bash:rm *"}, &bashSpec, "$X -rf y", "ask"},
		{"deny of a class", []string{"allow bash", "deny bash@network"}, &bashSpec, "curl https://example.com", "deny"},
		{"deny of a lower class", []string{"allow bash", "deny bash@network"}, &bashSpec, "touch x", "allow"},
		{"deny of every tool", []string{"allow bash", "deny *@network"}, &fetchSpec, "https://go.dev", "deny"},
		{"ask before allow", []string{"allow bash", "ask bash:git push *"}, &bashSpec, "git push", "ask"},
		{"paths", []string{"allow edit_file:src/**"}, &editSpec, "src/a/b.go", "allow"},
		{"paths elsewhere", []string{"allow edit_file:src/**"}, &editSpec, "doc/b.md", "ask"},
		{"paths that climb", []string{"allow edit_file:**"}, &editSpec, "src/../../b.go", "ask"},
		{"paths in full", []string{"allow edit_file:src/**"}, &editSpec, "/ws/src/b.go", "allow"},
		{"protected paths are not meant", []string{"allow edit_file:**"}, &editSpec, ".git/config", "ask"},
		{"protected paths that are named", []string{"allow edit_file:.github/**"}, &editSpec, ".github/x.yml", "allow"},
		{"deny of reading", []string{"deny read_file:secret/**"}, &readSpec, "secret/a", "deny"},
		{"deny of a class for edits", []string{"allow edit_file", "deny edit_file@writes_outside"}, &editSpec, "../x", "deny"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := newPolicy(t, policy.WithRules(policy.User, rules(t, tt.rules...)...))
			got, v := ask(t, p, tt.spec, tt.subject)
			require.Equal(t, tt.want, got, "%+v", v.Grounds())
		})
	}
}

// A suggested rule answers the question from then on, and never covers all commands.
func TestSuggestedRulesAnswer(t *testing.T) {
	subjects := []string{
		"go test ./...", "touch a", "git commit -m 'x *'", "cd sub && go test ./... | head", "curl https://example.com",
		"rm -rf build", `echo "a\b" > out.txt`, "sudo make install", "cat .env", "for i in 1 2; do go test ./$i; done",
		"go test ./... && git push", "FOO=1 go build", "python3 -c 'print(1)'", "make -j4 'a b'",
	}
	for _, s := range subjects {
		got, v := ask(t, newPolicy(t), &bashSpec, s)
		if got != "ask" {
			continue
		}
		require.NotEmpty(t, v.Grounds().Suggested, s)
		for _, r := range v.Grounds().Suggested {
			back, err := policy.ParseRule(policy.RuleAllow, r)
			require.NoError(t, err)
			require.Equal(t, r, back.String())
			require.NotContains(t, []string{"", "*"}, back.Pattern, s)
			p := newPolicy(t)
			require.NoError(t, p.KeepRule(t.Context(), aycoder.Session, r))
			got, v := ask(t, p, &bashSpec, s)
			require.Equal(t, "allow", got, "%s with %s", s, r)
			require.Contains(t, v.Grounds().Rule, r)
		}
	}
}

// The meaning of a command depends on the directory in which it starts.
// A rule that answers a question about a tool of a server covers the tool as it was shown, and not what has its name
// later. A rule that the user writes without a definition covers all of them, and one against the tool does, too.
func TestRulesAreBoundToDefinitions(t *testing.T) {
	shown := aycoder.ToolSpec{Name: "mcp__s__read", OpenWorld: true, Definition: "sha256-a*b"}
	changed := shown
	changed.Definition = "sha256-aXb" // which the pattern would match, were its star not quoted
	p := newPolicy(t)
	got, v := ask(t, p, &shown, "")
	require.Equal(t, "ask", got)
	require.Equal(t, []string{`mcp__s__read:sha256-a\*b`}, v.Grounds().Suggested)
	require.NoError(t, p.KeepRule(t.Context(), aycoder.Session, v.Grounds().Suggested[0]))
	got, _ = ask(t, p, &shown, "")
	require.Equal(t, "allow", got)
	got, _ = ask(t, p, &changed, "")
	require.Equal(t, "ask", got)

	p = newPolicy(t, policy.WithRules(policy.User, policy.Rule{Action: policy.RuleAllow, Tool: "mcp__s__*"}))
	got, _ = ask(t, p, &changed, "")
	require.Equal(t, "allow", got)
	for _, action := range []policy.RuleAction{policy.RuleAsk, policy.RuleDeny} {
		p = newPolicy(t, policy.WithRules(policy.User, policy.Rule{Action: policy.RuleAllow, Tool: "mcp__s__*"},
			policy.Rule{Action: action, Tool: "mcp__s__read", Pattern: "/etc/*"}))
		got, _ = ask(t, p, &changed, "")
		require.Equal(t, string(action), got)
	}
}

func TestWhereACommandStarts(t *testing.T) {
	dir := "."
	p := newPolicy(t, policy.WithMode(policy.FullAuto), policy.WithDir(func(context.Context) string { return dir }))
	got, _ := ask(t, p, &bashSpec, "echo x > config")
	require.Equal(t, "allow", got)
	dir = ".git"
	got, _ = ask(t, p, &bashSpec, "echo x > config")
	require.Equal(t, "ask", got, "it is .git/config")
	args := json.RawMessage(`{"command":"echo x > config","working_dir":".git/hooks"}`)
	dir = "."
	v := p.Decide(t.Context(), &aycoder.ToolUse{Name: "bash", Args: args}, &bashSpec)
	require.Contains(t, v.Grounds().Reasons, "writes .git/hooks/config: it is what version control keeps for itself")
}

func TestProjectRulesOnlyTighten(t *testing.T) {
	p := newPolicy(t, policy.WithRules(policy.Project, rules(t, "allow bash", "deny bash:ls *", "ask read_file")...))
	got, _ := ask(t, p, &bashSpec, "touch x")
	require.Equal(t, "ask", got)
	got, v := ask(t, p, &bashSpec, "ls x")
	require.Equal(t, "deny", got)
	require.Equal(t, "project deny bash:ls *", v.Grounds().Rule)
	got, v = ask(t, p, &readSpec, "x")
	require.Equal(t, "ask", got)
	require.Empty(t, v.Grounds().Suggested, "no rule can answer what a rule asks")
	require.Len(t, p.Ignored(), 1)
	require.Equal(t, "bash", p.Ignored()[0].String())
	require.Len(t, p.Rules(policy.Project), 2)
}

func TestSourcesAreNamedInOrder(t *testing.T) {
	deny := rules(t, "deny bash:ls *")
	p := newPolicy(t, policy.WithRules(policy.Project, deny...), policy.WithRules(policy.Managed, deny...), policy.WithRules(policy.User, deny...))
	_, v := ask(t, p, &bashSpec, "ls")
	require.Equal(t, "managed deny bash:ls *", v.Grounds().Rule)
}

func TestRulesThatAreNone(t *testing.T) {
	tests := []struct {
		name  string
		entry policy.Rule
		want  string
	}{
		{"no action", policy.Rule{Tool: "bash"}, `no action ""`},
		{"no tool", policy.Rule{Action: "deny"}, "no tool is named"},
		{"bad tool", policy.Rule{Action: "deny", Tool: "[a"}, "bracket is not closed"},
		{"no class", policy.Rule{Action: "deny", Tool: "bash", Class: "evil"}, `no class "evil"`},
		{"long pattern", policy.Rule{Action: "deny", Tool: "bash", Pattern: string(make([]byte, 5000))}, "the pattern has 5000 bytes"},
		{"example", policy.Rule{Action: "allow", Tool: "bash", Pattern: "go test *", Match: []string{"go test", "go vet"}}, `it does not match "go vet"`},
		{"counterexample", policy.Rule{Action: "deny", Tool: "bash", Pattern: "git push *", NotMatch: []string{"ls; git push"}}, `it matches "ls; git push"`},
		{"path example", policy.Rule{Action: "allow", Tool: "edit_file", Pattern: "src/*", Match: []string{"src/a/b"}}, `it does not match "src/a/b"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := policy.New(policy.WithRules(policy.User, tt.entry))
			require.ErrorContains(t, err, tt.want)
		})
	}
	fine := policy.Rule{
		Action: "allow", Tool: "bash", Pattern: "go test *",
		Match: []string{"go test ./..."}, NotMatch: []string{"go test; rm x", "go test > /etc/x"},
	}
	_, err := policy.New(policy.WithWorkspace(root), policy.WithRules(policy.User, fine))
	require.NoError(t, err)
	_, err = policy.New(policy.WithRules("somebody"))
	require.ErrorContains(t, err, `no source "somebody"`)
	_, err = policy.New(policy.WithMode("yolo"))
	require.ErrorContains(t, err, `no mode "yolo"`)
}

// An example of a rule is about the workspace, wherever a shell stands when rules are loaded.
func TestExamplesDoNotDependOnDirectory(t *testing.T) {
	e := policy.Rule{Action: "allow", Tool: "bash", Pattern: "touch *", Match: []string{"touch a.txt"}}
	for _, dir := range []string{"", "/elsewhere"} {
		_, err := policy.New(policy.WithWorkspace(t.TempDir()), policy.WithRules(policy.User, e),
			policy.WithDir(func(context.Context) string { return dir }))
		require.NoError(t, err, "in %q", dir)
	}
}

// A generator of rules and calls for the properties.
func someRules(r *rand.Rand, t testing.TB) []policy.Rule {
	patterns := []string{
		"bash", "bash:ls *", "bash:git *", "bash:git push *", "bash:go test *", "bash:touch x", "bash@network", "bash@writes_workspace",
		"bash@needs_approval:go *", "edit_file", "edit_file:src/**", "edit_file:.github/**", "*", "*@writes_outside", "read_file:src/*", "deploy",
	}
	var out []policy.Rule
	for range r.IntN(6) {
		action := []policy.RuleAction{policy.RuleAllow, policy.RuleAsk, policy.RuleDeny}[r.IntN(3)]
		e := entry(t, action, patterns[r.IntN(len(patterns))])
		if r.IntN(3) == 0 {
			e.Reason = fmt.Sprint("reason ", r.IntN(3))
		}
		out = append(out, e)
	}
	return out
}

type question struct {
	spec    *aycoder.ToolSpec
	subject string
}

var questions = []question{
	{&bashSpec, "ls"}, {&bashSpec, "ls; git push"}, {&bashSpec, "go test ./... > x"}, {&bashSpec, "touch x"}, {&bashSpec, "sudo touch x"},
	{&bashSpec, "rm -rf /"}, {&bashSpec, "$X a"}, {&bashSpec, "cat .env"}, {&bashSpec, "((("}, {&bashSpec, "curl https://example.com"},
	{&editSpec, "src/a.go"}, {&editSpec, ".github/x"}, {&editSpec, "../x"}, {&readSpec, "src/a"}, {&fetchSpec, "https://go.dev"}, {&otherSpec, ""},
}

// strictness orders verdicts.
func strictness(kind string) int { return slices.Index([]string{"allow", "ask", "deny"}, kind) }

func TestProperties(t *testing.T) {
	timed.Serial(t)
	timed.Long(t, "thousands of random commands")
	r := rand.New(rand.NewPCG(1, 2))
	sources := []policy.Source{policy.Managed, policy.User, policy.Session, policy.Project}
	modes := []policy.Mode{policy.Ask, policy.AcceptEdits, policy.Plan, policy.FullAuto}
	checked := 0
	for range 150 {
		mode := modes[r.IntN(4)]
		given := map[policy.Source][]policy.Rule{}
		for _, s := range sources {
			given[s] = someRules(r, t)
		}
		build := func(change func(policy.Source, []policy.Rule) []policy.Rule) *policy.Policy {
			opts := []policy.Option{policy.WithMode(mode)}
			for _, s := range sources {
				opts = append(opts, policy.WithRules(s, change(s, slices.Clone(given[s]))...))
			}
			return newPolicy(t, opts...)
		}
		same := func(_ policy.Source, e []policy.Rule) []policy.Rule { return e }
		extra := someRules(r, t)
		into := sources[r.IntN(4)]
		base := build(same)
		shuffled := build(func(_ policy.Source, e []policy.Rule) []policy.Rule {
			r.Shuffle(len(e), func(i, j int) { e[i], e[j] = e[j], e[i] })
			return e
		})
		denied := build(func(s policy.Source, e []policy.Rule) []policy.Rule {
			for _, x := range extra {
				if x.Action = policy.RuleDeny; s == into {
					e = append(e, x)
				}
			}
			return e
		})
		project := build(func(s policy.Source, e []policy.Rule) []policy.Rule {
			if s == policy.Project {
				e = append(e, extra...)
			}
			return e
		})
		tainted := build(same)
		require.NoError(t, tainted.Audit(t.Context(), &aycoder.AuditRecord{Untrusted: true}))
		for _, q := range questions {
			kind, v := ask(t, base, q.spec, q.subject)
			_, again := ask(t, shuffled, q.spec, q.subject)
			require.Equal(t, v, again, "the order of rules in a source does not matter")
			for what, p := range map[string]*policy.Policy{"a deny rule": denied, "a project's rule": project, "taint": tainted} {
				stricter, _ := ask(t, p, q.spec, q.subject)
				require.GreaterOrEqual(t, strictness(stricter), strictness(kind), "%s lets %s %s run: %v %v", what, q.spec.Name, q.subject, given, extra)
				checked++
			}
		}
	}
	t.Logf("%d comparisons", checked)
}

func TestConcurrently(t *testing.T) {
	p := newPolicy(t)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for n := range 50 {
				switch i % 4 {
				case 0:
					_ = p.SetMode([]policy.Mode{policy.Ask, policy.FullAuto}[n%2])
				case 1:
					_ = p.KeepRule(t.Context(), aycoder.Session, fmt.Sprint("bash:touch ", n))
				case 2:
					_ = p.Audit(t.Context(), &aycoder.AuditRecord{Untrusted: n%2 == 0})
				}
				got, _ := ask(t, p, &bashSpec, "rm -rf /")
				if got != "deny" {
					t.Errorf("a catastrophe: %s", got)
				}
			}
		})
	}
	wg.Wait()
	require.Len(t, p.Rules(policy.Session), 50)
	got, _ := ask(t, newPolicy(t), &bashSpec, "touch 7")
	require.Equal(t, "ask", got)
	got, _ = ask(t, p, &bashSpec, "touch 7")
	require.Equal(t, "allow", got)
}

// A policy that is read from JSON has the mode and the rules of the other one's session, and nothing
// else of it. Invalid JSON changes nothing.
func TestPolicyAsJSON(t *testing.T) {
	a, err := policy.New(policy.WithMode(policy.Plan), policy.WithRules(policy.Managed, policy.Rule{Action: policy.RuleDeny, Tool: "fetch"}),
		policy.WithRules(policy.Session, policy.Rule{Action: policy.RuleAllow, Tool: "bash", Pattern: "go vet *"}))
	require.NoError(t, err)
	data, err := json.Marshal(a)
	require.NoError(t, err)
	require.JSONEq(t, `{"mode":"plan","rules":[{"action":"allow","tool":"bash","pattern":"go vet *"}]}`, string(data))
	b, err := policy.New()
	require.NoError(t, err)
	for _, bad := range []string{`{}`, `{"mode":"free"}`, `[]`, `{"mode":"plan","rules":[{"action":"allow"}]}`} {
		require.Error(t, json.Unmarshal([]byte(bad), b), bad)
		require.Equal(t, policy.Ask, b.Mode())
		require.False(t, b.Tainted())
	}
	require.NoError(t, json.Unmarshal(data, b))
	require.Equal(t, policy.Plan, b.Mode())
	require.Equal(t, a.Rules(policy.Session), b.Rules(policy.Session))
	require.Empty(t, b.Rules(policy.Managed))

	require.NoError(t, a.Audit(t.Context(), &aycoder.AuditRecord{Untrusted: true}))
	tainted, err := json.Marshal(a)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(tainted, b))
	require.True(t, b.Tainted())
	require.NoError(t, json.Unmarshal(data, b)) // one that is tainted stays so
	require.True(t, b.Tainted())
}
