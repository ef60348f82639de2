package compaction_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/compaction"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/tools"
	"github.com/aycoder/aycoder/workspace"
)

// A read is left out if a later one has all lines of the file, or the same text, and never else.
func TestRepeatedReads(t *testing.T) {
	timed.Serial(t)
	type in = map[string]any
	read := func(args in) script.Step { return script.Call("read_file", args) }
	whole := read(in{"path": "f"})
	const n = 100
	lines := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "line %d of the file\n", i+1)
		}
		return b.String()
	}
	for name, tt := range map[string]struct {
		first, second script.Step
		save          string // the file before the second one
		out           bool
	}{
		"the same":            {whole, whole, "", true},
		"another name of it":  {whole, read(in{"path": "./d/../f"}), "", true},
		"a part, then all":    {read(in{"path": "f", "offset": 20, "limit": 30}), whole, "", true},
		"all, then a part":    {whole, read(in{"path": "f", "offset": 20, "limit": 30}), "", false},
		"the same part":       {read(in{"path": "f", "offset": 20, "limit": 30}), read(in{"path": "./f", "offset": 20, "limit": 30}), "", true},
		"the part has moved":  {read(in{"path": "f", "offset": 20, "limit": 30}), read(in{"path": "f", "offset": 20, "limit": 30}), "new\n" + lines(n), false},
		"a smaller part":      {read(in{"path": "f", "offset": 20, "limit": 30}), read(in{"path": "f", "offset": 25, "limit": 10}), "", false},
		"a larger part":       {read(in{"path": "f", "offset": 20, "limit": 30}), read(in{"path": "f", "limit": 90}), "", false},
		"all in another way":  {whole, read(in{"path": "f", "offset": 1, "limit": n}), "", true},
		"it has changed":      {whole, whole, "new\n" + lines(n), true},
		"it is shorter":       {read(in{"path": "f", "offset": 60, "limit": 40}), whole, lines(50), false},
		"it cannot be read":   {whole, read(in{"path": "f", "offset": 1000}), "", false},
		"another file":        {whole, read(in{"path": "g"}), "", false},
		"an edit shows it":    {whole, script.Call("edit_file", in{"path": "f", "old_string": "line 7 of", "new_string": "Line 7 of"}), "", false},
		"a command shows it":  {whole, script.Call("bash", in{"command": "cat -n f"}), "", false},
		"a secret is between": {whole, whole, "-----BEGIN PRIVATE KEY-----\n" + strings.Repeat("MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7\n", 5) + "-----END PRIVATE KEY-----\n" + lines(n), false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			save := func(name, text string) {
				require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
			}
			save("f", lines(n))
			save("g", lines(n))
			require.NoError(t, os.Mkdir(filepath.Join(dir, "d"), 0o700))
			ws, err := workspace.Open(dir)
			require.NoError(t, err)
			defer ws.Close()
			list, err := tools.Coding(ws)
			require.NoError(t, err)
			calls := 0
			m := &strict{window: 40_000, cost: map[*aycoder.Message]int64{}}
			left := false
			m.step = func(req *aycoder.Request) script.Step {
				for _, msg := range req.Messages {
					for _, p := range msg.Parts {
						if o, ok := p.(*aycoder.ToolOutput); ok && strings.Contains(o.Text(), "the file was read again later") {
							left = true
							require.Equal(t, "call_1", o.ID)
						}
					}
				}
				switch calls++; calls {
				case 1:
					return tt.first
				case 2:
					if tt.save != "" {
						save("f", tt.save)
					}
					return tt.second
				case 12:
					return script.Say("ok")
				}
				return script.Call("bash", in{"command": fmt.Sprint("seq 1000 3500; echo ", calls)})
			}
			keep, err := compaction.New(m, compaction.WithWindow(40_000))
			require.NoError(t, err)
			l, err := aycoder.New(m, aycoder.WithTools(list...), aycoder.WithContextMiddleware(keep.Middleware), aycoder.WithApprover(allow))
			require.NoError(t, err)
			compactions := 0
			for ev, err := range l.Run(t.Context(), aycoder.Input{Prompt: "go"}) {
				require.NoError(t, err)
				if c, ok := ev.(*aycoder.Compacted); ok && c.Shortened > 0 {
					compactions++
				}
			}
			require.Positive(t, compactions)
			require.Equal(t, tt.out, left)
		})
	}
}
