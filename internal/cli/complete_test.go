package cli

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/config"
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
	defer c.session.close()
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
	_, list := c.complete("@Later", 6)
	require.Equal(t, "@later.go:Later", list[0].Text, "a new file is found")
}

// Tab may come anywhere in a line, and before there is a session.
func TestCompleteAnywhere(t *testing.T) {
	rt, err := harness.New(t.Context(), t.TempDir(), harness.WithClient(script.New()), harness.WithStore(journal.Memory(), ""))
	require.NoError(t, err)
	defer func() { require.NoError(t, rt.Close()) }()
	for _, c := range []*chat{{ui: &ui{}}, {ui: &ui{}, session: &session{Runtime: rt, demo: true}, app: &app{}}} {
		if c.session != nil {
			defer c.session.close()
		}
		for _, text := range []string{"/show 1", "/", "/x\ny", "see @a", "/tree ", "/resume ", "/jobs ", "/permissions ", "/model "} {
			for at := range len(text) + 1 {
				from, _ := c.complete(text, at)
				require.LessOrEqual(t, from, at, text)
			}
		}
	}
}

// A key that the user has entered goes to its provider, and not to another address of the configuration.
func TestEnteredKeyStaysHome(t *testing.T) {
	var got []string
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r.Header.Get("Authorization"))
		w.WriteHeader(http.StatusBadRequest)
	}))
	defer service.Close()
	loaded, err := config.Load()
	require.NoError(t, err)
	st := &settings{loaded: loaded, model: "openai/gpt-5", app: &app{}}
	st.app.entered.Store("openai", "sk-entered")
	for _, spec := range []struct{ base, flag, want string }{{service.URL, "", ""}, {"", service.URL, "Bearer sk-entered"}} {
		client, err := st.opener(spec.flag)(t.Context(), harness.ModelSpec{Provider: "openai", Model: "gpt-5", BaseURL: spec.base})
		require.NoError(t, err)
		for _, err := range client.Stream(t.Context(), &aycoder.Request{Messages: []*aycoder.Message{aycoder.User("go")}}) {
			require.Error(t, err)
		}
		require.Equal(t, spec.want, got[len(got)-1])
	}
}
