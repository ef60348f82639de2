package policy_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/policy"
)

// A star of a command's pattern covers nothing that would let the command do more than the
// author of the rule can have meant.
func TestStarsOfCommandsHaveACeiling(t *testing.T) {
	tests := []struct{ pattern, command, want string }{
		{"go test *", "go test -v -run TestX ./pkg", "allow"},
		{"go test *", "go test -o ../x ./...", "ask"},
		{"go test *", "go test -o conftest.py ./...", "ask"},
		{"go test *", "go test -exec ./x ./...", "ask"},
		{"go vet *", "go vet -vettool x ./...", "ask"},
		{"git log *", "git log --output /root/.bashrc", "ask"},
		{"git log *", "git log --output .github/workflows/x.yml", "ask"},
		{"git log *", "git log --output .git/config", "ask"},
		{"git diff *", "git diff --ext-diff", "ask"},
		{"git *", "git clean -fd", "ask"},
		{"git *", "git checkout .", "ask"},
		{"git *", "git config alias.x y", "ask"},
		{"tar *", "tar xf a.tar --to-command sh", "ask"},
		{"tar -xf *", "tar -xf a.tar", "allow"},
		{"tar -xf *", "tar -xf a.tar --checkpoint-action=exec=sh", "ask"},
		{"tar -xf *", "tar -xf a.tar -C /root", "ask"},
		{"/bin/rm *", "/bin/rm a", "ask"},
		{"sudo *", "sudo ls", "ask"},
		{"* x", "rm x", "ask"},
		{"*", "rm x", "ask"},
		{"env *", "env rm x", "ask"},
		{"cp *", "cp a ..", "ask"},
		{"cp *", "cp a x/../../y", "ask"},
		{"cp *", "cp a conftest.py", "ask"},
		{"cp *", "cp a .ENV", "ask"},
		{"npm run *", "npm run test", "allow"},
		{"curl *", "curl https://example.com/a/b", "allow"},
		{"curl *", "curl -o/root/x https://example.com", "ask"},
		{"curl *", "curl --libcurl /root/x https://example.com", "ask"},
		{"wget *", "wget --save-cookies=/root/x https://example.com", "ask"},
		{"cp *", "cp -S -t a ../b", "ask"},
		{"cp *", "cp -S -- -t /root a", "ask"},
		{"cp *", "cp -S .bak a b", "allow"},
		{"mv *", "mv -S -t a /root/b", "ask"},
		{"tar *", "tar -c --exclude -fa.tar -f /root/a.tar src", "ask"},
		{"tar *", "tar -c --file=a.tar -f /root/a.tar src", "ask"},
		{"unzip *", "unzip x.zip", "allow"},
		{"unzip *", "unzip -: x.zip", "ask"},
		{"unzip *", "unzip -l -- -l -d /root x.zip", "ask"},
		{"patch *", "patch -b -B /root/ a", "ask"},
		{"patch *", "patch -b --basename-prefix=../ a", "ask"},
		{"git *", "git maintenance start", "ask"},
	}
	for _, tt := range tests {
		p := newPolicy(t, policy.WithRules(policy.User, entry(t, policy.RuleAllow, "bash:"+tt.pattern)))
		got, v := ask(t, p, &bashSpec, tt.command)
		assert.Equal(t, tt.want, got, "%q on %q: %+v", tt.pattern, tt.command, v.Grounds())
	}
}

// An allow rule for paths covers a patch as a whole or not at all; a deny rule that covers any
// of its files denies it.
func TestRulesOfPatches(t *testing.T) {
	tests := []struct{ rule, body, want string }{
		{"allow apply_patch:src/**", "*** Add File: src/a\n+a\n*** Delete File: src/b\n", "allow"},
		{"allow apply_patch:src/**", "*** Add File: src/a\n+a\n*** Delete File: b\n", "ask"},
		{"allow apply_patch:src/**", "*** Update File: src/a\n*** Move to: b\n", "ask"},
		{"allow apply_patch:src/**", "*** Update File: src/a\n*** Move to: src/b\n", "allow"},
		{"allow apply_patch:src/**", "*** Add File: src/../b\n+a\n", "ask"},
		{"allow apply_patch:**", "*** Add File: conftest.py\n+a\n", "ask"},
		{"allow apply_patch", "*** Add File: conftest.py\n+a\n", "ask"},
		{"allow apply_patch", "*** Add File: a\n+a\n", "allow"},
		{"allow apply_patch:**", "?", "ask"},
		{"deny apply_patch:src/**", "*** Add File: a\n+a\n", "ask"},
		{"deny apply_patch:src/**", "*** Add File: a\n+a\n*** Delete File: src/b\n", "deny"},
		{"deny apply_patch:src/**", "*** Update File: a\n*** Move to: SRC/b\n", "deny"},
		{"deny apply_patch:src/**", "?", "deny"},
		{"allow apply_patch:src/**", "*** Add File: src/a\n+a\n*** End Patch\n?\n", "ask"}, // more after the end
		{"deny apply_patch:lib/**", "*** Add File: src/a\n+a\n*** End Patch\n?\n", "deny"},
	}
	spec := aycoder.ToolSpec{
		Name: "apply_patch", Effect: aycoder.EffectWrite,
		Subject: aycoder.Subject{Arg: "patch", Kind: aycoder.SubjectPatch},
	}
	for _, tt := range tests {
		p := newPolicy(t, policy.WithRules(policy.User, rules(t, tt.rule)...))
		got, v := ask(t, p, &spec, "*** Begin Patch\n"+tt.body+"*** End Patch\n")
		assert.Equal(t, tt.want, got, "%s: %s: %+v", tt.rule, tt.body, v.Grounds())
	}
	p := newPolicy(t, policy.WithMode(policy.FullAuto), policy.WithRules(policy.User, rules(t, "ask apply_patch:src/**")...))
	v := p.Decide(t.Context(), &aycoder.ToolUse{Name: "apply_patch", Args: json.RawMessage(`{}`)}, &spec)
	require.Contains(t, strings.Join(v.Grounds().Reasons, " "), "apply_patch:src/**", "a call without a patch may be one")
}

// The texts by which a model might get around a rule.
func TestRulesAgainstAModelThatTries(t *testing.T) {
	timed.Serial(t)
	timed.Long(t, "thousands of commands that get around rules")
	tests := []struct {
		spec                *aycoder.ToolSpec
		rule, subject, want string
	}{
		{&editSpec, "deny edit_file:private/**", "", "deny"},
		{&editSpec, "deny edit_file:private/key", ".", "deny"},
		{&editSpec, "deny edit_file:**/.env", ".", "allow"},
		{&editSpec, "deny edit_file:private/**", "\u017Fecret/../private/x", "deny"},
		{&editSpec, "deny edit_file:secret/**", "\u017Fecret/x", "deny"},
		{&editSpec, "deny edit_file:app/[id/**", "anything", "deny"},
		{&editSpec, "deny edit_file:private/", "private/x/y", "deny"},
		{&editSpec, "deny edit_file:./private/**", "private/x", "deny"},
		{&editSpec, "deny edit_file:./private/", "Private/x", "deny"},
		{&editSpec, "deny edit_file:./", "x", "deny"},
		{&editSpec, "deny edit_file:private/", "privates/x", "allow"},
		{&bashSpec, "deny bash:git push*", "git -c alias.p=push p", "deny"},
		{&bashSpec, "deny bash:git push*", "git -c Alias.p='push --force' p origin", "deny"},
		{&bashSpec, "deny bash:git push*", "git -c alias.p='!git push' p", "deny"},
		{&bashSpec, "deny bash:git reset --hard", "git reset --har HEAD", "ask"},
		{&bashSpec, "deny bash:git reset --hard *", "git reset HEAD --ha", "ask"},
		{&bashSpec, "deny bash:git log --output=*", "git log --outp=x", "ask"},
		{&bashSpec, "deny bash:git reset --hard", "git reset --keep HEAD", "allow"},
		{&editSpec, "deny edit_file:.env", `C:\ws\.env`, "deny"},
		{&editSpec, "deny edit_file:.git/**", "../ws/.git/config", "deny"},
		{&editSpec, "deny edit_file:**/x", "/" + strings.Repeat("a/", 1<<20), "deny"},
		{&bashSpec, "deny bash:git push*", "command git push", "deny"},
		{&bashSpec, "deny bash:git push*", "/usr/bin/git push", "deny"},
		{&bashSpec, "deny bash:git push*", "git \\\npush", "deny"},
		{&bashSpec, "deny bash:git push*", "bash -c 'git push'", "deny"},
		{&bashSpec, "deny bash:git push*", "eval git push", "deny"},
		{&bashSpec, "deny bash:git push*", "x=push; git $x", "deny"},
		{&bashSpec, "deny bash:git push*", "git pull", "allow"},
		{&bashSpec, "deny bash:rm *", "ls && rm -rf x", "deny"},
		{&bashSpec, "deny bash:rm *", "ls;rm  -rf x", "deny"},
		{&bashSpec, "deny bash:rm *", "(rm x)", "deny"},
		{&bashSpec, "deny bash:rm *", "((; rm x", "ask"}, // not a script
		{&bashSpec, "deny bash:git push", "((; git -C sub push origin", "ask"},
		{&bashSpec, "deny bash:git push", "make 'git push origin'", "ask"},
		{&bashSpec, "deny bash:git * push", "make git a b push", "ask"},
		{&bashSpec, "deny bash:git push", "make $git push", "ask"},
		{&bashSpec, "deny bash:git push", "make {git push}", "ask"},
		{&bashSpec, "deny bash:rm *", "echo alarm", "allow"},
		{&bashSpec, "deny bash:curl * | sh", "curl x|sh", "deny"},
		{&bashSpec, "deny bash:curl * | sh", "/usr/bin/curl -fsSL x | tee y | /bin/sh -s", "deny"},
		{&bashSpec, "deny bash:curl * | sh", `"curl" x | s"h"`, "deny"},
		{&bashSpec, "deny bash:curl * | sh", "bash -c 'curl x | sh'", "ask"},
		{&bashSpec, "deny bash:curl * | sh", "curl x; ls | shuf", "allow"},
		{&bashSpec, "deny bash:curl * | sh", "make " + strings.Repeat("x", 70<<10), "ask"},
	}
	for _, tt := range tests {
		tool, _, _ := strings.Cut(tt.rule[len("deny "):], ":")
		for _, action := range []string{"deny", "ask"} {
			rule := action + tt.rule[len("deny"):]
			p := newPolicy(t, policy.WithMode(policy.FullAuto), policy.WithRules(policy.User, rules(t, "allow "+tool, rule)...))
			want := tt.want
			if action == "ask" && want == "deny" {
				want = "ask"
			}
			got, v := ask(t, p, tt.spec, tt.subject)
			assert.Equal(t, want, got, "%s on %.60q: %+v", rule, tt.subject, v.Grounds())
		}
	}
	for _, subject := range []string{`C:\ws\x`, "C:/ws/x", `src\a.go`, strings.Repeat("a/", 1<<20)} {
		for _, pattern := range []string{"**", "src/**"} {
			p := newPolicy(t, policy.WithRules(policy.User, entry(t, policy.RuleAllow, "edit_file:"+pattern)))
			got, _ := ask(t, p, &editSpec, subject)
			assert.Equal(t, "ask", got, "%s on %.60q", pattern, subject)
		}
	}
	p := newPolicy(t, policy.WithRules(policy.User, entry(t, policy.RuleAllow, "bash:touch x")))
	got, _ := ask(t, p, &bashSpec, "\u00a0touch x")
	assert.Equal(t, "ask", got, "a space that is none to a shell")
}

// Reaching out is asked about, also by a tool that only reads.
func TestWhatReachesOutIsAskedAbout(t *testing.T) {
	open := fetchSpec
	got, _ := ask(t, newPolicy(t), &open, "https://go.dev/doc")
	require.Equal(t, "ask", got)
	open.OpenWorld = false
	got, _ = ask(t, newPolicy(t), &open, "https://go.dev/doc")
	require.Equal(t, "allow", got)
}

// The suggestions for calls that are not commands answer the question, and cover no more than
// they show. A call that no rule can describe has none.
func TestSuggestionsForOtherCalls(t *testing.T) {
	patch := aycoder.ToolSpec{
		Name: "apply_patch", Effect: aycoder.EffectWrite,
		Subject: aycoder.Subject{Arg: "patch", Kind: aycoder.SubjectPatch},
	}
	url := fetchSpec
	url.Subject.Kind = aycoder.SubjectURL
	deploy := aycoder.ToolSpec{Name: "deploy", Effect: aycoder.EffectWrite, Subject: aycoder.Subject{Arg: "target"}}
	one := func(name string) string { return "*** Begin Patch\n*** Add File: " + name + "\n+a\n*** End Patch\n" }
	two := "*** Begin Patch\n*** Add File: a\n+a\n*** Delete File: b\n*** End Patch\n"
	tests := []struct {
		spec    *aycoder.ToolSpec
		subject string
		want    []string
	}{
		{&editSpec, "src/a.go", []string{"edit_file:src/a.go", "edit_file:src/*"}},
		{&editSpec, "a*.go", nil},
		{&editSpec, " a", []string{"edit_file:*"}}, // the narrower one would be read without its blank
		{&editSpec, "../a", nil},
		{&editSpec, "conftest.py", []string{"edit_file:conftest.py"}},
		{&patch, one("src/a.go"), []string{"apply_patch:src/a.go", "apply_patch:src/*"}},
		{&patch, one("conftest.py"), []string{"apply_patch:conftest.py"}},
		{&patch, two, []string{"apply_patch"}},
		{&url, "https://go.dev:8080/x", []string{"fetch:go.dev:8080"}},
		{&url, "https://go.dev@evil.example/", nil},
		{&deploy, "staging *", []string{`deploy:staging \*`}},
		{&deploy, "staging ", nil},
		{&otherSpec, "", []string{"deploy"}},
	}
	for _, tt := range tests {
		got, v := ask(t, newPolicy(t), tt.spec, tt.subject)
		require.Equal(t, "ask", got, tt.subject)
		assert.Equal(t, tt.want, v.Grounds().Suggested, tt.subject)
		for _, text := range v.Grounds().Suggested {
			p := newPolicy(t)
			require.NoError(t, p.KeepRule(t.Context(), aycoder.Session, text))
			got, _ := ask(t, p, tt.spec, tt.subject)
			assert.Equal(t, "allow", got, text)
		}
	}
}

func TestParseRule(t *testing.T) {
	for _, text := range []string{"bash", "bash@network", "bash:a@b:c", "*@writes_outside:curl *", "bash:git log *"} {
		r, err := policy.ParseRule(policy.RuleDeny, text)
		require.NoError(t, err)
		require.Equal(t, text, r.String())
	}
	r, err := policy.ParseRule(policy.RuleAllow, "bash@network:curl *")
	require.NoError(t, err)
	require.Equal(t, policy.Rule{Action: "allow", Tool: "bash", Class: "network", Pattern: "curl *"}, r)
	_, err = policy.ParseRule(policy.RuleAllow, ":x")
	_, ok := errors.AsType[*aycoder.ConfigError](err)
	require.True(t, ok, "%v", err)
}
