package cli

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/providers/script"
)

func TestComplete(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"client.go": "package a\n\ntype Client struct{ limit int }\n\nfunc NewClient() *Client { return nil }\n", "sub/notes.md": "# Notes\n",
		".gitignore": "secret.go\n", "secret.go": "package a\n",
	} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	rt, err := harness.New(t.Context(), dir, harness.WithClient(script.New(script.Say("Read."))), harness.WithStore(journal.Memory(), ""))
	require.NoError(t, err)
	defer func() { require.NoError(t, rt.Close()) }()
	require.NoError(t, rt.Policy.KeepRule(t.Context(), aycoder.Session, "bash:make *"))
	for _, err := range rt.Run(t.Context(), aycoder.Input{Prompt: "read it"}) {
		require.NoError(t, err)
	}
	c := &chat{ui: &ui{}, session: &session{Runtime: rt}, more: []Extension{testExtension()}}
	c.shown.add(&aycoder.ToolFinished{Call: &aycoder.ToolUse{Name: "bash"}, Output: &aycoder.ToolOutput{}})
	for _, tt := range []struct {
		text string
		from int
		want string // is among them, and the only one if nothing else is like it
		not  string
	}{
		{"@nwc", 0, "@client.go:NewClient", "@sub/notes.md"},
		{"see @notes", 4, "@sub/notes.md", "@client.go"},
		{"see @", 4, "@client.go", "@secret.go"},
		{"@secret", 0, "", "@secret.go"},
		{"/mo", 0, "/model", ""},
		{"/wh", 0, "/where", ""},
		{"/mode pl", 6, "plan", "/plan"},
		{"/config ", 8, "check", ""},
		{"/jobs ", 6, "", "stop"},
		{"/permissions dr", 13, "drop 1", ""},
		{"/permissions drop ", 18, "1", "drop 1"},
		{"/show ", 6, "1", "2"},
		{"/tree ", 6, "1", "2"},
		{"/branch ", 8, "1", "2"},
		{"/cost a", 6, "all", ""},
		{"/doctor ", 8, "-online", ""},
		{"say /mode ", 10, "", "plan"},
	} {
		from, list := c.complete(tt.text, len(tt.text))
		require.Equal(t, tt.from, from, tt.text)
		var texts []string
		for _, cand := range list {
			texts = append(texts, cand.Text)
		}
		if tt.want != "" {
			require.Contains(t, texts, tt.want, tt.text)
		}
		if tt.not != "" {
			require.NotContains(t, texts, tt.not, tt.text)
		}
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "later.go"), []byte("package a\n\nfunc Later() {}\n"), 0o644))
	c.finder.close()
	_, list := c.complete("@Later", 6)
	require.Equal(t, "@later.go:Later", list[0].Text, "a new file is found")
}
