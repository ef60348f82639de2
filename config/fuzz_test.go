package config_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pelletier/go-toml/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/config"
	"github.com/aycoder/aycoder/internal/timed"
)

// Whatever a file has in it, each fault has a place in it, and a file that a whole decoder refuses is refused.
func FuzzLoad(f *testing.F) {
	good, err := os.ReadFile("testdata/good.toml")
	require.NoError(f, err)
	for section := range strings.SplitSeq(string(good), "\n\n") {
		f.Add([]byte(section))
	}
	for _, s := range []string{
		"a.b.c=1\na.b=2", "[a]\n[a.b]\n[a]", "[[hooks]]\n[hooks.x]\n[[hooks.y]]", "models={a={b={c={}}}}\n[models.a]",
		"agent={max_turns=1}\nagent.max_turns=2", "[[models]]\n[models.a]", "tools.env=[[[]]]", "\xff=1", "\"\"=1",
		"[profile.work]\nagent=1\n[profile.work.agent]", "hooks=[{},1]", "roles.main=\"${A:-${B}}\"", "a=2024-01-01",
	} {
		f.Add([]byte(s))
	}
	name := filepath.Join(f.TempDir(), "config.toml")
	f.Fuzz(func(t *testing.T, data []byte) {
		require.NoError(t, os.WriteFile(name, data, 0o600))
		got := diagnostics(t, config.WithUserFile(name), config.WithCatalog(known), config.WithProfile("work"))
		lines := strings.Split(string(data), "\n")
		refused := false
		for _, d := range got {
			refused = refused || d.Severity == config.Error && d.Key != "profile"
			if d.File == "" || d.Line == 0 {
				continue
			}
			require.LessOrEqual(t, d.Line, len(lines), d)
			require.LessOrEqual(t, d.Column, len(lines[d.Line-1])+1, d)
			require.NotContains(t, d.String(), "\n")
		}
		require.True(t, slices.IsSortedFunc(got, func(a, b config.Diagnostic) int {
			if a.File != b.File {
				return strings.Compare(a.File, b.File)
			}
			return a.Line - b.Line
		}))
		if err := toml.Unmarshal(data, new(map[string]any)); err != nil && !strings.HasPrefix(string(data), "\ufeff") {
			require.True(t, refused, "%v", err)
		}
	})
}

// The scripts of a command are files of the project, whatever the command is.
func FuzzBind(f *testing.F) {
	dir := f.TempDir()
	write(f, filepath.Join(dir, "a", "b.sh"), "b")
	write(f, filepath.Join(dir, "c.sh"), "c")
	outside := write(f, filepath.Join(f.TempDir(), "x.sh"), "x")
	require.NoError(f, os.Symlink(outside, filepath.Join(dir, "link.sh")))
	for _, s := range []string{"./c.sh", "cd a && ./b.sh", "a/../c.sh", "../x.sh", "/etc/passwd", "link.sh", "l'ink.sh'", "'c.sh", "$PWD/c.sh", dir + "/c.sh", outside, "\x00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, command string) {
		q, err := config.Question{Root: dir, File: "c.sh", Command: command}.Bind()
		if err != nil {
			// The name of the link may come in pieces, as in l'ink.sh'.
			require.Regexp(t, "^link.sh leads out of the project$|too long|does not show", err)
			return
		}
		for _, s := range q.Scripts {
			require.Contains(t, []string{"a/b.sh", "c.sh"}, s)
		}
	})
}

// A large file of any shape takes time and memory in proportion.
func TestHostileFiles(t *testing.T) {
	timed.Serial(t)
	const size = 1 << 20
	fill := func(s string) string { return strings.Repeat(s, size/len(s)) }
	for name, text := range map[string]string{
		"unknown keys":   fill("max_turn.x = 1\n"),
		"one line":       "agent = {" + fill("a=1,") + "}",
		"nested lists":   "tools.env = " + strings.Repeat("[", 9000) + strings.Repeat("]", 9000),
		"nested tables":  strings.Repeat("a.", size/2) + "b = 1",
		"rules":          fill("[[approval.rules]]\n"),
		"headers":        fill("[agent]\n"),
		"models":         "[models]\n" + fill("a.model = 1\n"),
		"names":          "[tools]\ndisabled = [" + fill("\"x\",") + "]",
		"long name":      fill("a") + " = 1",
		"variables":      "agent.system = \"" + fill("${A:-b}") + "\"",
		"growing values": "agent.system = \"" + strings.Repeat("${A}", 10000) + "\"",
	} {
		t.Run(name, func(t *testing.T) {
			path := file(t, text[:min(len(text), size)])
			start := time.Now()
			got := diagnostics(t, config.WithUserFile(path), config.WithCatalog(known),
				config.WithLookup(variables("A", strings.Repeat("x", 1000))))
			timed.Within(t, start, 3*time.Second, name)
			assert.LessOrEqual(t, len(got), 101)
		})
	}
	got := faults(t, strings.Repeat("#", size+1))
	require.Len(t, got, 1)
	assert.Contains(t, got[0], "cannot be read: larger than 1048576 bytes")
}

// So does a large file of a project, which is read before anybody trusts it.
func TestHostileProjects(t *testing.T) {
	timed.Serial(t)
	user := file(t, "[models.main]\nprovider = \"anthropic\"\nmodel = \"m\"\n[servers.s]\ncommand = \"s\"\n")
	for name, entry := range map[string]string{
		"models":              "[models.a%d]\n",
		"servers":             "[servers.a%d]\ncommand = \"x\"\n",
		"servers of profiles": "[servers.a%[1]d]\n[profile.p.servers.a%[1]d]\n",
	} {
		t.Run(name, func(t *testing.T) {
			var text strings.Builder
			for i := 0; text.Len() < 1<<20-64; i++ {
				fmt.Fprintf(&text, entry, i)
			}
			dir := t.TempDir()
			write(t, filepath.Join(dir, config.ProjectFile), text.String())
			start := time.Now()
			_ = diagnostics(t, config.WithUserFile(user), config.WithProject(dir), config.WithProfile("p"), config.WithCatalog(known))
			timed.Within(t, start, 5*time.Second, name)
		})
	}
}
