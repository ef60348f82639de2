package hooks_test

import (
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/harness/hooks"
)

const settings = `{
  "model": "x",
  "hooks": {
    "PreToolUse": [
      {"matcher": "Bash",
       "hooks": [
         {"type": "command", "command": "check.sh", "timeout": 2.5},
         {"type": "prompt", "prompt": "is it fine?"},
         {"type": "command", "command": "check.sh", "if": "Bash(rm *)"}
       ]},
      {"matcher": "Read(", "hooks": [{"type": "command", "command": "x"}]},
      {"matcher": "*", "hooks": [{"type": "command", "command": "a b", "args": ["it's", "$HOME"], "async": true, "timeout": 5000}]}
    ],
    "BeforeTool": [],
    "Stop": [{"hooks": [{"type": "command", "command": "  "}, 7]}, "x"],
    "Stop": [{"hooks": [{"type": "command", "command": "end.sh"}]}]
  }
}`

func TestParse(t *testing.T) {
	list, problems := hooks.Parse("s.json", []byte(settings))
	require.Equal(t, []hooks.Hook{
		{Event: "PreToolUse", Matcher: "Bash", Command: "check.sh", Timeout: 2500 * time.Millisecond, Source: "s.json:7", Line: 7, Column: 10},
		{Event: "PreToolUse", Matcher: "*", Command: `'a b' 'it'\''s' '$HOME'`, Timeout: 10 * time.Minute, Source: "s.json:12", Line: 12, Column: 34},
		{Event: "Stop", Command: "end.sh", Source: "s.json:16", Line: 16, Column: 25},
	}, list)
	var lines []int
	for _, p := range problems {
		lines = append(lines, p.Line)
	}
	require.Equal(t, []int{2, 8, 9, 11, 12, 14, 15, 15, 15}, lines, "%v", problems)

	list, problems = hooks.Parse("s.json", []byte("{\n\"hooks\": {\n,}}"))
	require.Empty(t, list)
	require.Equal(t, 3, problems[0].Line)
	for _, text := range []string{"", "[]", `{"hooks":[]}`, `{"hooks":{"Stop":{}}}`, `{"hooks":{"Stop":[{"matcher":1}]}}`} {
		list, problems = hooks.Parse("s.json", []byte(text))
		require.Empty(t, list)
		require.Len(t, problems, 1, text)
	}
	list, problems = hooks.Parse("s.json", []byte(`{"description": "x",
		"permissions": {}}`))
	require.Empty(t, list)
	require.Equal(t, []hooks.Problem{{Line: 2, Message: `the key "permissions" is ignored`}}, problems)
}

// Reading a file that nobody trusts costs no more than its size, whatever its matchers are.
func TestParseCostlyMatchers(t *testing.T) {
	file := func(matcher string) []byte {
		hook := `{"type": "command", "command": "x"},`
		return []byte(`{"hooks": {"PreToolUse": [{"matcher": "` + matcher + `", "hooks": [` + strings.Repeat(hook, 100) + `{}]}]}}`)
	}
	list, problems := hooks.Parse("s.json", file(strings.Repeat("(abc|def)*", 10_000)))
	require.Zero(t, len(list))
	require.Contains(t, problems[0].Message, "the matcher has more than 1024 bytes")

	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	list, _ = hooks.Parse("s.json", file(strings.Repeat("a{1000}", 140)))
	runtime.ReadMemStats(&after)
	require.Len(t, list, 100)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(64<<20))
}

func TestNew(t *testing.T) {
	_, err := hooks.New(hooks.Config{})
	require.ErrorContains(t, err, "Exec and Root")
	b := newBench(t, hooks.Hook{Event: "Nothing", Command: "x", Source: "a.toml:3"}, hooks.Hook{Event: hooks.Stop},
		hooks.Hook{Event: hooks.Stop, Command: "x\x00"}, hooks.Hook{Event: hooks.Stop, Command: "x", Timeout: -1},
		hooks.Hook{Event: hooks.Stop, Command: "x", Matcher: "["})
	_, err = hooks.New(b.config)
	e, ok := errors.AsType[*aycoder.ConfigError](err)
	require.True(t, ok)
	require.Equal(t, "a.toml:3", e.Option)
	require.Equal(t, 4, strings.Count(err.Error(), "\n"))
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(settings))
	f.Add([]byte(`{"hooks":{"Stop":[{"hooks":[{"type":"command","command":"x"}]}]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		list, problems := hooks.Parse("f", data)
		for _, p := range problems {
			require.Positive(t, p.Line)
			require.LessOrEqual(t, p.Line, strings.Count(string(data), "\n")+1)
		}
		for _, h := range list {
			require.NotEmpty(t, strings.TrimSpace(h.Command))
			require.GreaterOrEqual(t, h.Timeout, time.Duration(0))
		}
	})
}
