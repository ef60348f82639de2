package tools

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/timed"
)

// ends returns what the loop gives to the model of a result.
func ends(r *result) string { return shownText(r) }

// A tool whose caller keeps the rest returns all that it has, and says which ends are for the model.
// Without such a caller it returns what it did before.
func TestWholeResults(t *testing.T) {
	timed.Serial(t)
	files := map[string]string{}
	for i := range 1500 {
		files[fmt.Sprintf("dir/file-%04d.txt", i)] = fmt.Sprintf("needle %d %s\n", i, strings.Repeat("x", 60))
	}
	var page strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&page, "line %d of the page\n", i)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		fmt.Fprint(w, page.String())
	}))
	defer server.Close()
	w := newWorld(t, files)
	all, err := Coding(w.ws, WithPrivateHosts(strings.TrimPrefix(server.URL, "http://")))
	require.NoError(t, err)
	tool := map[string]aycoder.Tool{}
	for _, one := range all {
		tool[one.Spec().Name] = one
	}
	agent, err := Subagent(SubagentConfig{Model: modelOf(says(page.String()))})
	require.NoError(t, err)
	tool["subagent"] = agent
	for name, tt := range map[string]struct {
		args  args
		most  int      // bytes for the model
		whole []string // in the whole result, and not in what the model gets
		both  []string // in both
	}{
		"bash":        {args{"command": "seq 1 40000"}, 31_000, []string{"\n20000\n"}, []string{"1\n2\n3\n", "\n40000\n", "[exit 0]"}},
		"list_files":  {args{"path": "dir"}, 61_000, []string{"file-1400.txt"}, []string{"file-0000.txt", "file-0900.txt", "500 more, not shown"}},
		"glob":        {args{"pattern": "**/*.txt"}, 61_000, []string{"file-1400.txt"}, []string{"file-0000.txt", "500 more, not shown"}},
		"code_search": {args{"pattern": "needle", "max_results": 1000}, 62_000, []string{"needle 950 "}, []string{"needle 3 ", "there are more", "files searched"}},
		"fetch":       {args{"url": server.URL}, 51_000, []string{"line 19999 "}, []string{"line 0 ", "line 2000 ", "</untrusted", "go on with offset 50000"}},
		"subagent":    {args{"task": "look"}, 51_000, []string{"line 10000 "}, []string{"line 0 ", "line 19999 ", "1 turn"}},
	} {
		t.Run(name, func(t *testing.T) {
			call := func(whole int) *result {
				inv := aycoder.NewInvocation("1", name, mustJSON(t, tt.args), nil)
				inv.Whole = whole
				r, err := tool[name].Call(t.Context(), inv)
				require.NoError(t, err)
				require.False(t, r.IsError, r.Text())
				return r
			}
			plain := call(0)
			require.Zero(t, plain.Head+plain.Tail)
			require.LessOrEqual(t, len(plain.Text()), tt.most+1000)
			kept := call(4 << 20)
			require.Positive(t, kept.Head+kept.Tail)
			shown := ends(kept)
			require.LessOrEqual(t, len(shown), tt.most+1000)
			require.Greater(t, len(kept.Text()), len(shown))
			require.Equal(t, plain.Untrusted, kept.Untrusted)
			for _, s := range tt.whole {
				require.Contains(t, kept.Text(), s)
				require.NotContains(t, shown, s)
				require.NotContains(t, plain.Text(), s)
			}
			for _, s := range tt.both {
				require.Contains(t, kept.Text(), s)
				require.Contains(t, shown, s)
				if s = strings.Replace(s, "not shown", "not listed", 1); name != "subagent" {
					require.Contains(t, plain.Text(), s)
				}
			}
			bounded := call(70_000)
			require.LessOrEqual(t, len(bounded.Text()), 72_000)
		})
	}
}

// A command has shown the lines that the model gets, and not those that the loop keeps.
func TestWholeResultsAreNotSeen(t *testing.T) {
	var text strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&text, "line %d\n", i)
	}
	for name, tt := range map[string]struct {
		command string
		seen    bool
	}{
		"beginning": {"head -3 f; seq 1 20000", true},
		"middle":    {"seq 100000 120000; head -3 f; seq 100000 120000", false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, map[string]string{"f": text.String()})
			inv := aycoder.NewInvocation("1", "bash", mustJSON(t, args{"command": tt.command}), nil)
			inv.Whole = 4 << 20
			r, err := w.tool["bash"].Call(t.Context(), inv)
			require.NoError(t, err)
			require.Contains(t, r.Text(), "line 2\n")
			require.Equal(t, tt.seen, len(w.ws.Seen().Contents("f")) > 0)
		})
	}
	files := map[string]string{}
	for i := range 900 {
		files[fmt.Sprintf("f%03d", i)] = "needle " + strings.Repeat("x", 100) + "\n"
	}
	w := newWorld(t, files)
	inv := aycoder.NewInvocation("1", "code_search", mustJSON(t, args{"pattern": "needle", "max_results": 1000}), nil)
	inv.Whole = 4 << 20
	r, err := w.tool["code_search"].Call(t.Context(), inv)
	require.NoError(t, err)
	require.Contains(t, r.Text(), "f899\n")
	require.NotEmpty(t, w.ws.Seen().Contents("f000"))
	require.Empty(t, w.ws.Seen().Contents("f899"))
}
