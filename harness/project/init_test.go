package project_test

import (
	"strings"
	"testing"

	"github.com/aycoder/aycoder/harness/project"
	"github.com/stretchr/testify/require"
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
	_, err = project.Init(t.Context(), dir(t, nil), nil)
	require.NoError(t, err)
}
