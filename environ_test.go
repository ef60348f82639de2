package aycoder_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// readers are the functions that read variables of the environment.
var readers = []string{
	"os.Getenv", "os.LookupEnv", "os.Environ", "os.ExpandEnv", "os.UserHomeDir", "os.UserConfigDir", "os.UserCacheDir", "os.TempDir",
	"syscall.Getenv", "syscall.Environ", "http.ProxyFromEnvironment",
}

// environed are the files that read the environment, with what they read there and why. Whatever else decides something is
// passed by the host, such as the function of config.WithLookup.
var environed = map[string]string{
	"tools/env.go":        "HOME, PATH and others that commands get, as inherited says, and those that a host names",
	"tools/exec_local.go": "the same, of this machine",
	"tools/tools.go":      "the same, of this machine",
	"tools/bash.go":       "the values of those that a host names",
	"tools/masker.go":     "the values of those whose names suggest a secret, to mask them",
	"tools/excludes.go":   "XDG_CONFIG_HOME and HOME for GitExcludes, which a host calls",
	"policy/policy.go":    "HOME: the directory that ~ means in a command",

	"codegraph/middleware.go":         "the values of those whose names suggest a secret, to mask them",
	"egress/authority.go":             "SSL_CERT_FILE: the certificates that commands trust behind a proxy",
	"harness/plugin/fetch.go":         "what git needs, in a command of the user that fetches plugins",
	"runner/runner.go":                "HTTPS_PROXY and the like, for the connection of a runner",
	"internal/proc/peer.go":           "PATH, HOME and seven others that servers and other agents get",
	"internal/gitrepo/gitrepo.go":     "SYSTEMROOT, without which git does not start on Windows",
	"internal/sandbox/defaults.go":    "HOME and where languages have their packages: what a sandbox lets commands read",
	"internal/sandbox/canary.go":      "HOME and TMPDIR: where a file can be for a test of the sandbox",
	"internal/api/config.go":          "the customary variables of a provider: its key and its address",
	"providers/providers.go":          "AZURE_OPENAI_ENDPOINT and OPENAI_API_VERSION",
	"providers/ollama/client.go":      "OLLAMA_HOST",
	"providers/ollama/host.go":        "OLLAMA_HOST",
	"providers/anthropic/host.go":     "ANTHROPIC_AUTH_TOKEN, if there is no key",
	"providers/bedrock/client.go":     "AWS_REGION and the like",
	"providers/replay/options.go":     "the variable that a test names for WithModeEnv",
	"agenttest/exec.go":               "PATH, for the commands of a test",
	"agenttest/journal_process.go":    "that of a test, for the processes that it starts",
	"agenttest/eval/checks.go":        "all, for the programs that judge a test",
	"internal/cli/main.go":            "the program passes it on",
	"internal/cli/place.go":           "the program passes it on",
	"internal/cli/settings.go":        "the program passes it on",
	"internal/cli/worktree.go":        "all, for git, which the user starts with -w",
	"internal/cli/tty/open.go":        "TERM and NO_COLOR, unless the program passes them",
	"examples/prbot/main.go":          "the program's own",
	"internal/corpus/corpus.go":       ofTests,
	"internal/published/published.go": ofTests,
	"internal/timed/timed.go":         ofTests,
	"internal/gittest/gittest.go":     ofTests,
	"internal/ondisk/ondisk_linux.go": ofTests,
	"internal/ondisk/ondisk_other.go": ofTests,
	"internal/wiretest/self.go":       ofTests,
}

const ofTests = "only tests import it"

// environUses returns the functions by which a file reads the environment.
func (s source) environUses() (uses []string) {
	if s.test() {
		return nil
	}
	ast.Inspect(s.file, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if name := called(sel); slices.Contains(readers, name) {
				uses = append(uses, name)
			}
		}
		return true
	})
	return uses
}

// Nothing but what the list names depends on the environment.
func TestEnvironment(t *testing.T) {
	used := map[string]bool{}
	for _, s := range sources(t) {
		name := path.Join(s.dir, s.name)
		for _, use := range s.environUses() {
			used[name] = true
			if environed[name] == "" {
				t.Errorf("%s uses %s: let the host pass it, or say in the list why it does not", name, use)
			}
		}
	}
	for name := range environed {
		require.True(t, used[name], "%s does not read the environment any more", name)
	}
}

func TestEnvironmentFindsUses(t *testing.T) {
	for file, want := range map[string]string{
		`var x = os.Getenv("X")`: "os.Getenv", `func f() { g(os.LookupEnv) }`: "os.LookupEnv", `func f() { os.Setenv("X", "") }`: "",
		`var t = &http.Transport{Proxy: http.ProxyFromEnvironment}`: "http.ProxyFromEnvironment",
	} {
		f, err := parser.ParseFile(token.NewFileSet(), "a.go", "package p\n"+file, 0)
		require.NoError(t, err)
		require.Equal(t, want, strings.Join(source{".", "a.go", f}.environUses(), ", "), file)
	}
}
