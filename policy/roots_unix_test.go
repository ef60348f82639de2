//go:build unix

package policy_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/policy"
)

// Commands and edits in a further root are decided like those in the first one, and what is behind a link by
// where it leads.
func TestRoots(t *testing.T) {
	base := t.TempDir()
	base, err := filepath.EvalSymlinks(base)
	require.NoError(t, err)
	for _, dir := range []string{"ws/sub", "lib/src", "lib/.github", "out"} {
		require.NoError(t, os.MkdirAll(filepath.Join(base, dir), 0o755))
	}
	require.NoError(t, os.WriteFile(base+"/lib/.env", nil, 0o600))
	for link, to := range map[string]string{
		"ws/tolib": "../lib", "lib/towb": "../ws", "lib/out": "../out", "ws/lib:": "../out", "lib/notes": ".env", "ws/env": "../lib/.env", "lib/hook": ".envrc",
	} {
		require.NoError(t, os.Symlink(to, filepath.Join(base, link)))
	}
	lib := base + "/lib"
	with := []policy.Option{policy.WithWorkspace(base + "/ws"), policy.WithRoot("lib", lib)}
	p := newPolicy(t, append(with, policy.WithRules(policy.User, rules(t, "allow bash@writes_workspace", "allow edit_file:**",
		"deny edit_file:secret/**")...))...)
	for command, want := range map[string]string{
		"cat " + lib + "/src/a": "allow", "ls ../lib": "allow", "grep -r x " + lib: "allow", "cd " + lib + " && ls": "allow", "cd ../lib; cat a": "allow",
		"echo x > " + lib + "/src/a": "allow", "cd " + lib + "; echo x > a": "allow", "touch ../lib/n": "allow", "cp a ../lib/b": "allow",
		"mkdir " + lib + "/n": "allow", "echo x > ../lib/../ws/a": "allow",
		"echo x > ../out/a": "ask", "echo x > " + lib + "2/a": "ask", "cd " + lib + "; echo x > ../out/a": "ask",
		"cat " + lib + "/.env": "ask", "cat ../lib/notes": "ask", "cat env": "ask", "grep -r x ../lib/.env": "ask",
		"echo x > " + lib + "/AGENTS.md": "ask", "cp a ../lib/.github/x.yml": "ask", "echo x > ../lib/hook": "ask", "echo x > ../lib/.git/hooks/x": "ask",
		"echo x > ../lib/out/a": "ask", "echo x > tolib/.envrc": "ask", "rm -rf " + lib: "ask", "rm -rf ../lib/src": "ask",
		"echo x > lib:/a": "ask", // a link of the first root that leads out
	} {
		got, v := ask(t, p, &bashSpec, command)
		require.Equal(t, want, got, "%s: %+v", command, v.Grounds())
	}
	for name, want := range map[string]string{
		"a": "allow", "lib:/src/a": "allow", lib + "/src/a": "allow", "lib:/.env": "ask", "lib:/AGENTS.md": "ask", lib + "/.github/workflows/x.yml": "ask",
		"lib:/../a": "ask", "lib:/src/../../ws/a": "ask", "../lib/a": "ask", base + "/out/a": "ask", "./lib:/a": "ask",
		"secret/a": "deny", "lib:/secret/a": "deny", lib + "/secret/a": "deny", "lib:/src/secret/a": "allow",
	} {
		got, v := ask(t, p, &editSpec, name)
		require.Equal(t, want, got, "%s: %+v", name, v.Grounds())
	}
	// A rule for one root is one for this root.
	p = newPolicy(t, append(with, policy.WithRules(policy.User, rules(t, "allow edit_file:src/**", "allow edit_file:lib:/doc/**", "deny edit_file:lib:/src/**")...))...)
	for name, want := range map[string]string{"src/a": "allow", "lib:/src/a": "deny", "doc/a": "ask", "lib:/doc/a": "allow", lib + "/doc/a": "allow"} {
		got, v := ask(t, p, &editSpec, name)
		require.Equal(t, want, got, "%s: %+v", name, v.Grounds())
	}
	// One whose wildcard stands for a directory of the first root is not one for another root.
	p = newPolicy(t, append(with, policy.WithRules(policy.User, rules(t, "allow edit_file:*/a", "allow edit_file:?[a-z]*/doc/**")...))...)
	for name, want := range map[string]string{"src/a": "allow", "lib:/a": "ask", lib + "/a": "ask", "src/doc/a": "allow", "lib:/doc/a": "ask"} {
		got, v := ask(t, p, &editSpec, name)
		require.Equal(t, want, got, "%s: %+v", name, v.Grounds())
	}
	// A rule for a command holds in all directories of the workspace, and a shell may stand in any.
	p = newPolicy(t, append(with, policy.WithRules(policy.User, rules(t, "allow bash:go test *")...))...)
	for command, want := range map[string]string{
		"cd " + lib + " && go test ./...": "allow", "cd src && go test .": "allow", "cd " + base + "/out && go test .": "ask", "cd ../out && go test .": "ask",
	} {
		got, v := ask(t, p, &bashSpec, command)
		require.Equal(t, want, got, "%s: %+v", command, v.Grounds())
	}
	for _, name := range []string{"", "C", "a/b", "lib:", ".."} {
		_, err := policy.New(policy.WithRoot(name, lib))
		require.Error(t, err, name)
	}
}
