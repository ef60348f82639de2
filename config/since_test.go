package config_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/config"
)

// A change is told without secrets.
func TestSince(t *testing.T) {
	load := func(text string) *config.Loaded {
		l, err := config.Load(config.WithUserFile(write(t, filepath.Join(t.TempDir(), "c.toml"), text)),
			config.WithLookup(func(name string) (string, bool) { return "sesame", name == "NAME" }))
		require.NoError(t, err)
		return l
	}
	before := load(`agent.max_turns = 50
agent.system = "be sesame"
models.m = {provider = "acme", model = "old", base_url = "https://sesame.test"}
tools.max_output = 262144
[[hooks]]
event = "Stop"
command = "echo sesame"
`)
	after := load(`agent.max_cost = 0.5
agent.system = "be open sesame"
models.m = {provider = "acme", model = "${NAME}", base_url = "https://sesame.test/v2", idle_timeout = "90s"}
approval.mode = "plan"
hooks = []
[[approval.rules]]
action = "deny"
tool = "bash"
`)
	var got []string
	for _, c := range after.Since(before) {
		got = append(got, c.String())
	}
	require.Equal(t, []string{
		"agent.max_cost: none → 0.5", "agent.system: changed", `approval.mode: "ask" → "plan"`,
		"approval.rules: 0 entries → 1 entry", "hooks: 1 entry → 0 entries",
		"models.m.base_url: changed", "models.m.idle_timeout: none → 1m30s", `models.m.model: "old" → …`,
	}, got, "a key that a file sets to its default has not changed")
	require.Empty(t, after.Since(after))
}

// An entry that needs no key is told, too, and is not one that has gone when it gets a key.
func TestSinceOfEntriesWithoutKeys(t *testing.T) {
	load := func(text string) *config.Loaded {
		l, err := config.Load(config.WithUserFile(file(t, text)))
		require.NoError(t, err)
		return l
	}
	none, bare, full := load("[agent]\n"), load("[language_servers.gopls]\n"), load("[language_servers.gopls.settings]\nx = 1\n")
	changes := func(from, to *config.Loaded) (lines []string) {
		for _, c := range to.Since(from) {
			lines = append(lines, c.String())
		}
		return lines
	}
	require.Equal(t, []string{"language_servers.gopls: none → set"}, changes(none, bare))
	require.Equal(t, []string{"language_servers.gopls: set → none"}, changes(bare, none))
	require.Equal(t, []string{"language_servers.gopls.settings.x: none → 1"}, changes(bare, full))
	require.Equal(t, 1, bare.Origin("language_servers.gopls").Line)
}

// The user asks for it: files are read at once, however young they are.
func TestReload(t *testing.T) {
	s := newSaver(t)
	s.write(s.name, "agent.max_turns = 20\n")
	c := s.r.Reload()
	require.NoError(t, c.Err)
	require.Equal(t, []string{"agent.max_turns"}, c.Keys)
	require.Equal(t, 20, s.turns())
	s.write(s.name, "agent.max_turns = ")
	require.ErrorAs(t, s.r.Reload().Err, new(*config.InvalidError))
	require.ErrorAs(t, s.r.Fault(), new(*config.InvalidError))
	require.Equal(t, 20, s.turns())
	require.NoError(t, os.Remove(s.name))
	require.NoError(t, s.r.Reload().Err)
	require.NoError(t, s.r.Fault())
	require.Equal(t, 20, s.turns(), "a file that vanished keeps its values")
}
