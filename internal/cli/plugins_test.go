package cli

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/internal/timed"
)

func TestPluginCommands(t *testing.T) {
	timed.Serial(t)
	t.Parallel()
	home, from := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{
		".claude-plugin/marketplace.json": `{"plugins": [{"name": "lint", "source": "./lint", "description": "Checks"}, {"name": "up", "source": "../up"}]}`,
		"lint/plugin.json":                `{"name": "lint", "version": "2", "description": "Checks code."}`,
		"lint/commands/fix.md":            "Fix it\n",
	} {
		name = filepath.Join(from, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
		require.NoError(t, os.WriteFile(name, []byte(text), 0o644))
	}
	cli := func(code int, args ...string) string {
		t.Helper()
		e := runProgram(t, []string{"XDG_CONFIG_HOME=" + home}, "", append([]string{"plugin"}, args...)...)
		require.Equal(t, code, e.code, "%s%s", e.out, e.err)
		return e.out + e.err
	}
	require.Contains(t, cli(exitOK), "There are no plugins")
	require.Contains(t, cli(exitOK, "-h"), "usage: aycoder plugin")
	require.Contains(t, cli(exitUsage, "dance"), `there is no "dance"; aycoder plugin -h tells more`)
	require.Contains(t, cli(exitUsage, "add"), "it is used so: aycoder plugin add source [name]")
	require.Contains(t, cli(exitError, "add", filepath.Join(from, "none")), "aycoder: fetch plugin")
	offered := cli(exitError, "add", from, "up")
	require.Contains(t, offered, "lint: Checks")
	require.Contains(t, offered, `note: offer plugin "up": "plugins[1]": "../up" is not in the directory of the index`)
	out := cli(exitOK, "add", from, "lint")
	require.Contains(t, out, "lint 2: Checks code.\n  command /lint:fix\n")
	require.Contains(t, out, "It does nothing until you trust it")
	require.Contains(t, cli(exitOK, "list"), "lint: not trusted, from ")
	cli(exitOK, "trust", "lint")
	require.Contains(t, cli(exitOK, "list"), "lint: on, from ")
	require.Contains(t, cli(exitOK, "update", "lint"), "Nothing has changed.")
	require.NoError(t, os.WriteFile(filepath.Join(from, "lint", "new.txt"), []byte("x"), 0o644))
	require.Contains(t, cli(exitOK, "update", "lint"), "new: new.txt\n")
	require.Contains(t, cli(exitOK, "list"), "lint: not trusted, from ")
	cli(exitOK, "off", "lint")
	require.Contains(t, cli(exitOK, "list"), "lint: off, from ")
	require.Contains(t, cli(exitOK, "show", "lint"), "command /lint:fix")
	cli(exitOK, "remove", "lint")
	require.Contains(t, cli(exitError, "remove", "lint"), "is not installed")
}
