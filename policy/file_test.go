package policy_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/policy"
)

func allowRule(pattern string) string { return "bash:" + pattern }

func TestSavedRulesSurvive(t *testing.T) {
	name := filepath.Join(t.TempDir(), "config", "rules.json")
	first := newPolicy(t, policy.WithFile(name))
	require.NoError(t, first.KeepRule(t.Context(), aycoder.Saved, allowRule("go test *")))
	require.NoError(t, first.KeepRule(t.Context(), aycoder.Session, allowRule("touch *")))
	got, _ := ask(t, first, &bashSpec, "go test ./... && touch x")
	require.Equal(t, "allow", got)

	second := newPolicy(t, policy.WithFile(name))
	got, v := ask(t, second, &bashSpec, "go test ./...")
	require.Equal(t, "allow", got)
	require.Equal(t, "user allow bash:go test *", v.Grounds().Rule)
	got, _ = ask(t, second, &bashSpec, "touch x")
	require.Equal(t, "ask", got, "what was for the session is not saved")

	// Each learns what the other saved when it saves itself, and nothing is lost.
	require.NoError(t, second.KeepRule(t.Context(), aycoder.Saved, allowRule("go vet *")))
	require.NoError(t, first.KeepRule(t.Context(), aycoder.Saved, allowRule("go build *")))
	require.NoError(t, first.KeepRule(t.Context(), aycoder.Saved, allowRule("go build *")))
	require.Len(t, first.Rules(policy.User), 3)
	entries, err := policy.ReadRules(name)
	require.NoError(t, err)
	require.Len(t, entries, 3)
	if runtime.GOOS != "windows" {
		fi, err := os.Stat(name)
		require.NoError(t, err)
		require.Equal(t, fs.FileMode(0o600), fi.Mode())
	}
	left, err := os.ReadDir(filepath.Dir(name))
	require.NoError(t, err)
	require.Len(t, left, 2, "the file and its lock")
}

func TestManySaveAtOnce(t *testing.T) {
	name := filepath.Join(t.TempDir(), "rules.json")
	var wg sync.WaitGroup
	for i := range 8 {
		p := newPolicy(t, policy.WithFile(name))
		wg.Go(func() {
			for n := range 5 {
				if err := p.KeepRule(t.Context(), aycoder.Saved, allowRule(fmt.Sprintf("go test ./%d/%d", i, n))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if runtime.GOOS == "windows" {
		t.Skip("there is no lock on this system: of two rules saved at once one may be lost")
	}
	require.Len(t, newPolicy(t, policy.WithFile(name)).Rules(policy.User), 40)
}

func TestRulesFileThatIsDamaged(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"empty", "", "EOF"},
		{"half", `{"version":1,"rules":[{"action":"deny"`, "unexpected EOF"},
		{"null", `null`, "not of version 1"},
		{"list", `[]`, "cannot unmarshal array"},
		{"another version", `{"version":2,"rules":[]}`, "not of version 1"},
		{"unknown field", `{"version":1,"rules":[{"action":"deny","tool":"bash","host":"x"}]}`, `unknown field "host"`},
		{"something behind", `{"version":1,"rules":[]}{}`, "something behind the end"},
		{"wrong rule", `{"version":1,"rules":[{"action":"allow","tool":""}]}`, "no tool is named"},
		{"wrong example", `{"version":1,"rules":[{"action":"allow","tool":"bash","pattern":"go test *","not_match":["go test x"]}]}`, `it matches "go test x"`},
		{"large", strings.Repeat(" ", 5<<20), "larger than 4194304 bytes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			name := filepath.Join(t.TempDir(), "rules.json")
			require.NoError(t, os.WriteFile(name, []byte(tt.text), 0o600))
			_, err := policy.New(policy.WithFile(name))
			require.ErrorContains(t, err, tt.want)
			data, err := os.ReadFile(name)
			require.NoError(t, err)
			require.Equal(t, tt.text, string(data), "it is left as it is")
		})
	}
	_, err := policy.ReadRules(t.TempDir())
	e, ok := errors.AsType[*policy.FileError](err)
	require.True(t, ok, "%v", err)
	require.Equal(t, "read rules", e.Op)
	_, err = policy.ReadRules(filepath.Join(t.TempDir(), "none"))
	require.ErrorIs(t, err, fs.ErrNotExist)
}

// A file that was damaged after it was read is not overwritten, and the rule is not kept.
func TestSavingOverADamagedFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "rules.json")
	p := newPolicy(t, policy.WithFile(name))
	require.NoError(t, os.WriteFile(name, []byte("{"), 0o600))
	require.Error(t, p.KeepRule(t.Context(), aycoder.Saved, allowRule("go test *")))
	got, _ := ask(t, p, &bashSpec, "go test ./...")
	require.Equal(t, "ask", got)
	data, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Equal(t, "{", string(data))
}

func TestSavingWaitsNoLongerThanItsContext(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there is no lock on this system")
	}
	name := filepath.Join(t.TempDir(), "rules.json")
	p := newPolicy(t, policy.WithFile(name))
	unlock := lockFile(t, name+".lock")
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("enough")
	cancel(cause)
	require.ErrorIs(t, p.KeepRule(ctx, aycoder.Saved, allowRule("go test *")), cause)
	unlock()
	require.NoError(t, p.KeepRule(t.Context(), aycoder.Saved, allowRule("go test *")))
}

func TestRulesThatCannotBeKept(t *testing.T) {
	p := newPolicy(t)
	require.ErrorContains(t, p.KeepRule(t.Context(), aycoder.Saved, allowRule("go test *")), "no file for rules")
	require.ErrorContains(t, p.KeepRule(t.Context(), aycoder.Session, ":x"), "no tool is named")
	require.ErrorContains(t, p.KeepRule(t.Context(), 7, allowRule("x")), "no such scope")
	require.NoError(t, p.KeepRule(t.Context(), aycoder.Once, allowRule("x")))
	require.Empty(t, p.Rules(policy.Session))
	taken := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(taken, nil, 0o600))
	_, err := policy.New(policy.WithFile(filepath.Join(taken, "rules.json")))
	if err == nil {
		p = newPolicy(t, policy.WithFile(filepath.Join(taken, "rules.json")))
		err = p.KeepRule(t.Context(), aycoder.Saved, allowRule("go test *"))
	}
	_, ok := errors.AsType[*policy.FileError](err)
	require.True(t, ok, "a directory that is a file: %v", err)
}

func TestASymbolicLinkStays(t *testing.T) {
	dir := t.TempDir()
	real, link := filepath.Join(dir, "real.json"), filepath.Join(dir, "link.json")
	require.NoError(t, os.WriteFile(real, []byte(`{"version":1,"rules":[]}`), 0o600))
	if err := os.Symlink(real, link); err != nil {
		t.Skip("no symbolic links:", err)
	}
	require.NoError(t, newPolicy(t, policy.WithFile(link)).KeepRule(t.Context(), aycoder.Saved, allowRule("go test *")))
	fi, err := os.Lstat(link)
	require.NoError(t, err)
	require.NotZero(t, fi.Mode()&fs.ModeSymlink)
	entries, err := policy.ReadRules(real)
	require.NoError(t, err)
	require.Len(t, entries, 1)
}

func TestDropRule(t *testing.T) {
	name := filepath.Join(t.TempDir(), "rules.json")
	first, second := newPolicy(t, policy.WithFile(name)), newPolicy(t, policy.WithFile(name))
	for _, scope := range []aycoder.Scope{aycoder.Session, aycoder.Saved} {
		require.NoError(t, first.KeepRule(t.Context(), scope, allowRule("go test *")))
		require.NoError(t, first.KeepRule(t.Context(), scope, allowRule("go vet *")))
	}
	require.NoError(t, second.KeepRule(t.Context(), aycoder.Saved, allowRule("make")))
	drop := func(scope aycoder.Scope, text string) bool {
		found, err := first.DropRule(t.Context(), scope, text)
		require.NoError(t, err)
		return found
	}
	allowed := func(p *policy.Policy, command string) bool {
		got, _ := ask(t, p, &bashSpec, command)
		return got == "allow"
	}
	require.False(t, drop(aycoder.Session, allowRule("go build *")))
	require.True(t, drop(aycoder.Session, allowRule("go test *")))
	require.True(t, allowed(first, "go test ."), "the saved one is still there")
	require.True(t, drop(aycoder.Saved, first.Rules(policy.User)[0].String()))
	require.False(t, drop(aycoder.Saved, allowRule("go test *")))
	require.False(t, allowed(first, "go test ."))
	require.True(t, allowed(first, "go vet ."))

	entries, err := policy.ReadRules(name)
	require.NoError(t, err)
	require.Len(t, entries, 2, "what another process has saved stays")
	require.False(t, allowed(newPolicy(t, policy.WithFile(name)), "go test ."))
}

// A rule of the configuration is not in the file, and stays.
func TestDropRuleOfConfiguration(t *testing.T) {
	rule := policy.Rule{Action: policy.RuleAllow, Tool: "bash", Pattern: "go test *"}
	p := newPolicy(t, policy.WithFile(filepath.Join(t.TempDir(), "rules.json")))
	require.NoError(t, p.Configure(policy.Configured{Rules: map[policy.Source][]policy.Rule{policy.User: {rule}, policy.Session: {rule}}}))
	for _, scope := range []aycoder.Scope{aycoder.Session, aycoder.Saved} {
		found, err := p.DropRule(t.Context(), scope, rule.String())
		require.NoError(t, err)
		require.False(t, found)
	}
	require.Len(t, p.Rules(policy.User), 1)
	found, err := newPolicy(t).DropRule(t.Context(), aycoder.Saved, rule.String())
	require.False(t, found || err != nil, "no file")
	_, err = p.DropRule(t.Context(), aycoder.Once, rule.String())
	require.ErrorContains(t, err, "no rules of scope")
	_, err = p.DropRule(t.Context(), aycoder.Session, ":x")
	require.ErrorContains(t, err, "no tool is named")
}
