package project_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/config"
	"github.com/aycoder/aycoder/harness/project"
)

func TestInit(t *testing.T) {
	ws := dir(t, map[string]string{
		"go.mod": "module x", ".golangci.yml": "", "vendor/x/x.go": "package x", "target/x": "", "docs/x.md": "",
	})
	d, err := project.Init(t.Context(), ws, []string{"make lint", "go test ./...", "npm run test in web", "make deploy", "a\nb"})
	require.NoError(t, err)
	for line := range strings.Lines(d.Config) {
		require.True(t, strings.TrimSpace(line) == "" || line[0] == '#', "%q takes effect", line)
	}
	require.Contains(t, d.Config, `# ignore = ["target/", "vendor/"]`)
	for _, want := range []string{"go test ./...", "go vet ./...", "gofmt -l .", "golangci-lint run", "make lint"} {
		require.Equal(t, 1, strings.Count(d.Config, `# pattern = "`+want+`"`), want)
	}
	require.Contains(t, d.Config, "only from your own config.toml, too: copy\n# there what you want, into the table [tools].\n"+`# checks = ["go vet", "golangci-lint"]`+"\n")
	require.Contains(t, d.Config, "allows their commands, since they run code of the project.\n# [language_servers.gopls]\n")
	require.NotContains(t, d.Config, "deploy")
	require.NotContains(t, d.Config, "npm")
	require.Equal(t, `# For coding agents

<!-- Say in a few lines what the project is, and what a stranger gets wrong. -->

## Build

- `+"`go build ./...`"+`

## Test

- `+"`go test ./...`\n- `npm run test` in web"+`

## Lint

- `+"`golangci-lint run`\n- `go vet ./...`\n- `make lint`"+`

## Format

- `+"`gofmt -l .`\n", d.Agents)

	put(t, ws.Dir(), "AGENTS.md", "mine")
	d, err = project.Init(t.Context(), ws, nil)
	require.NoError(t, err)
	require.Empty(t, d.Agents)
	d, err = project.Init(t.Context(), dir(t, nil), nil)
	require.NoError(t, err)
	require.NotContains(t, d.Config, "check")
	require.NotContains(t, d.Config, "anguage server")
}

// Each checker that a draft suggests is one that the configuration takes, without the mark of the comment.
func TestInitChecks(t *testing.T) {
	for file, want := range map[string]string{
		"go.mod": "go vet", "staticcheck.conf": "staticcheck", ".golangci.yaml": "golangci-lint", "Cargo.toml": "clippy",
		"ruff.toml": "ruff", "tsconfig.json": "tsc", "eslint.config.mjs": "eslint",
	} {
		d, err := project.Init(t.Context(), dir(t, map[string]string{file: ""}), nil)
		require.NoError(t, err)
		line := `checks = ["` + want + `"]`
		require.Contains(t, d.Config, "\n# "+line+"\n", file)
		user := filepath.Join(t.TempDir(), "config.toml")
		require.NoError(t, os.WriteFile(user, []byte("[tools]\n"+line), 0o600))
		loaded, err := config.Load(config.WithUserFile(user))
		require.NoError(t, err)
		require.Equal(t, []config.Check{config.Check(want)}, loaded.Config.Tools.Checks)
	}
}
