package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/timed"
)

// The keys are those of lines that were published: of Claude Code 2.0 in docs/claude-code-project-notes.md of
// github.com/jwhenry28/claude-code-visualizer, of Codex 0.13 in tests of programs that read its rollouts.
const (
	claudeSession = `{"type":"summary","summary":"Counting lines","leafUuid":"u5"}
{"type":"file-history-snapshot","messageId":"m1","snapshot":{"trackedFiles":[]},"isSnapshotUpdate":false}
{"parentUuid":null,"isSidechain":false,"userType":"external","cwd":"DIR","sessionId":"c7d1","version":"2.0.61","gitBranch":"","type":"user","message":{"role":"user","content":"How many lines?"},"uuid":"u1","timestamp":"2026-05-26T07:27:40.079Z"}
{"parentUuid":"u1","isSidechain":false,"cwd":"DIR","sessionId":"c7d1","version":"2.0.61","message":{"model":"claude-sonnet-4-5-20250929","id":"msg_0","type":"message","role":"assistant","content":[{"type":"text","text":"An answer that was taken back."}]},"type":"assistant","uuid":"old","timestamp":"2026-05-26T07:27:41.079Z"}
{"parentUuid":"u1","isSidechain":false,"cwd":"DIR","sessionId":"c7d1","version":"2.0.61","message":{"model":"claude-sonnet-4-5-20250929","id":"msg_1","type":"message","role":"assistant","content":[{"type":"thinking","thinking":"Count them.","signature":"EqIC"}]},"type":"assistant","uuid":"u2","timestamp":"2026-05-26T07:27:42.079Z"}
{"parentUuid":"u2","isSidechain":false,"cwd":"DIR","sessionId":"c7d1","version":"2.0.61","message":{"model":"claude-sonnet-4-5-20250929","id":"msg_1","type":"message","role":"assistant","content":[{"type":"tool_use","id":"toolu_1","name":"Bash","input":{"command":"wc -l a"}}]},"type":"assistant","uuid":"u3","timestamp":"2026-05-26T07:27:43.079Z"}
{"parentUuid":"u3","isSidechain":false,"cwd":"DIR","sessionId":"c7d1","type":"user","message":{"role":"user","content":[{"tool_use_id":"toolu_1","type":"tool_result","content":"7 a","is_error":false}]},"uuid":"u4","timestamp":"2026-05-26T07:27:44.079Z","toolUseResult":{"stdout":"7 a"}}
{"parentUuid":null,"isSidechain":true,"cwd":"DIR","sessionId":"c7d1","type":"user","message":{"role":"user","content":"what a subagent was told"},"uuid":"side","timestamp":"2026-05-26T07:27:44.179Z"}
{"parentUuid":"u4","isSidechain":false,"isMeta":true,"cwd":"DIR","sessionId":"c7d1","type":"user","message":{"role":"user","content":"what the program has added"},"uuid":"meta","timestamp":"2026-05-26T07:27:44.279Z"}
{"parentUuid":"meta","isSidechain":false,"cwd":"DIR","sessionId":"c7d1","message":{"model":"claude-sonnet-4-5-20250929","id":"msg_2","type":"message","role":"assistant","content":[{"type":"text","text":"Seven."}]},"type":"assistant","uuid":"u5","timestamp":"2026-05-26T07:27:45.079Z"}
{"parentUuid":"u5","isSide`
	codexSession = `{"timestamp":"2026-05-23T10:18:47.419Z","type":"session_meta","payload":{"id":"019e5458","cwd":"DIR","cli_version":"0.139.0","model_provider":"openai"}}
{"timestamp":"2026-06-26T21:31:50.0Z","type":"response_item","payload":{"type":"message","role":"developer","content":[{"type":"input_text","text":"<permissions>"}]}}
{"timestamp":"2026-06-26T21:31:52.0Z","type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"# AGENTS.md instructions for /home/u\n\n<INSTRUCTIONS>\nbe nice\n</INSTRUCTIONS>"}]}}
{"timestamp":"2026-06-26T21:31:53.0Z","type":"turn_context","payload":{"cwd":"DIR","model":"gpt-5.2-codex"}}
{"timestamp":"2026-06-26T21:31:55.0Z","type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"How many lines?"}]}}
{"timestamp":"2026-06-26T21:31:56.0Z","type":"response_item","payload":{"type":"reasoning","summary":[{"type":"summary_text","text":"Counting"}],"content":null,"encrypted_content":"secret"}}
{"timestamp":"2026-06-26T21:31:57.0Z","type":"response_item","payload":{"type":"function_call","name":"exec_command","arguments":"{\"cmd\":\"wc -l a\"}","call_id":"call-1"}}
{"timestamp":"2026-06-26T21:31:58.0Z","type":"event_msg","payload":{"type":"exec_command_end","call_id":"call-1","aggregated_output":"7 a","exit_code":0}}
{"timestamp":"2026-06-26T21:31:58.5Z","type":"response_item","payload":{"type":"function_call_output","call_id":"call-1","output":"7 a"}}
{"timestamp":"2026-06-26T21:31:59.0Z","type":"response_item","payload":{"type":"custom_tool_call","status":"completed","call_id":"call-2","name":"apply_patch","input":"*** Begin Patch"}}
{"timestamp":"2026-06-26T21:32:00.0Z","type":"response_item","payload":{"type":"custom_tool_call_output","call_id":"call-2","output":"Done"}}
{"timestamp":"2026-06-26T21:32:01.0Z","type":"response_item","payload":{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Seven."}]}}
`
)

// Calls beside each other are lines of a tree, as github.com/anthropics/claude-code/issues/31330 and 37779 describe. The line that takes
// back a turn is that of tests of programs that read rollouts.
const (
	parallelSession = `{"uuid":"ZZZ","parentUuid":null,"cwd":"DIR","type":"user","message":{"role":"user","content":"Write both files."}}
{"uuid":"AAA","parentUuid":"ZZZ","cwd":"DIR","type":"assistant","message":{"id":"msg_1","role":"assistant","content":[{"type":"thinking","thinking":"Both.","signature":"EqIC"}]}}
{"uuid":"BBB","parentUuid":"AAA","cwd":"DIR","type":"assistant","message":{"id":"msg_1","role":"assistant","content":[{"type":"tool_use","id":"toolu_a","name":"Write","input":{"file_path":"a.md"}}]}}
{"uuid":"CCC","parentUuid":"AAA","cwd":"DIR","type":"assistant","message":{"id":"msg_1","role":"assistant","content":[{"type":"tool_use","id":"toolu_b","name":"Write","input":{"file_path":"b.md"}}]}}
{"uuid":"DDD","parentUuid":"BBB","cwd":"DIR","type":"user","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_a","content":"made a"}]},"sourceToolAssistantUUID":"BBB"}
{"uuid":"EEE","parentUuid":"CCC","cwd":"DIR","type":"user","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_b","content":"made b"}]},"sourceToolAssistantUUID":"CCC"}
{"uuid":"GGG","parentUuid":"EEE","cwd":"DIR","type":"assistant","message":{"id":"msg_2","role":"assistant","content":[{"type":"text","text":"Created both files."}]}}
`
	rolledBackSession = `{"timestamp":"2026-05-23T10:18:47.419Z","type":"session_meta","payload":{"id":"019e5458","cwd":"DIR"}}
{"type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"How many lines?"}]}}
{"type":"response_item","payload":{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Seven."}]}}
{"type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"And letters?"}]}}
{"type":"response_item","payload":{"type":"function_call","name":"exec_command","arguments":"{\"cmd\":\"wc -c a\"}","call_id":"call-1"}}
{"type":"response_item","payload":{"type":"function_call_output","call_id":"call-1","output":"99 a"}}
{"type":"event_msg","payload":{"type":"thread_rolled_back","num_turns":1}}
{"type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"And words?"}]}}
{"type":"response_item","payload":{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Nine."}]}}
`
)

func TestReadForeign(t *testing.T) {
	t.Parallel()
	call := func(id, name, args, output string) []string {
		return []string{"assistant: " + name + " " + args, "user: " + id + " " + name + " = " + output}
	}
	tests := []struct {
		name, text, title string
		want              []string
	}{
		{"Claude Code", claudeSession, "Counting lines", append(append([]string{"user: How many lines?"},
			call("toolu_1", "Bash", `{"command":"wc -l a"}`, "7 a")...), "assistant: Seven.")},
		{"calls beside each other", parallelSession, "", []string{"user: Write both files.",
			`assistant: Write {"file_path":"a.md"}`, `assistant: Write {"file_path":"b.md"}`,
			"user: toolu_a Write = made a", "user: toolu_b Write = made b", "assistant: Created both files."}},
		{"Codex, a turn taken back", rolledBackSession, "", []string{"user: How many lines?", "assistant: Seven.", "user: And words?", "assistant: Nine."}},
		{"Codex", codexSession, "", append(append(append([]string{"user: How many lines?"},
			call("call-1", "exec_command", `{"cmd":"wc -l a"}`, "7 a")...),
			call("call-2", "apply_patch", `{"input":"*** Begin Patch"}`, "Done")...), "assistant: Seven.")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, err := readForeign(strings.NewReader(tt.text))
			require.NoError(t, err)
			require.NoError(t, aycoder.CheckHistory(s.messages))
			require.Equal(t, []string{tt.title, "DIR"}, []string{s.title, s.dir})
			var got []string
			for _, m := range s.messages {
				for _, p := range m.Parts {
					switch p := p.(type) {
					case *aycoder.Text:
						got = append(got, string(m.Role)+": "+p.Text)
					case *aycoder.ToolUse:
						got = append(got, string(m.Role)+": "+p.Name+" "+string(p.Args))
					case *aycoder.ToolOutput:
						got = append(got, string(m.Role)+": "+p.ID+" "+p.Name+" = "+p.Text())
					}
				}
			}
			require.Equal(t, tt.want, got)
		})
	}
	for _, text := range []string{"", "x", "{}", `{"type":"user","message":7}`} {
		_, err := readForeign(strings.NewReader(text))
		require.ErrorContains(t, err, "neither an export", text)
	}
}

func FuzzReadForeign(f *testing.F) {
	f.Add([]byte(claudeSession))
	f.Add([]byte(codexSession))
	f.Add([]byte("{\"message\":{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":\"1\",\"content\":{\"\xff\":\"\xff\"}}]}}"))
	f.Add([]byte("{\"message\":{\"role\":\"assistant\",\"content\":[{\"type\":\"tool_use\",\"id\":\"1\",\"name\":\"n\",\"input\":{\"\xff\":1}}]}}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := readForeign(strings.NewReader(string(data)))
		if err != nil {
			return
		}
		require.NoError(t, aycoder.CheckHistory(s.messages))
		_, err = s.document()
		require.NoError(t, err)
	})
}

// A session of another program goes on in the directory in which it was made.
func TestImportForeign(t *testing.T) {
	t.Parallel()
	timed.Serial(t)
	for _, text := range []string{claudeSession, codexSession} {
		k := newKept(t, newService(t, says("Still seven.", "end_turn")))
		here, err := filepath.EvalSymlinks(k.dir)
		require.NoError(t, err)
		file := filepath.Join(t.TempDir(), "session.jsonl")
		require.NoError(t, os.WriteFile(file, []byte(strings.ReplaceAll(text, "DIR", filepath.ToSlash(here))), 0o600))
		k.dir = here
		k.command(exitOK, "sessions", "import", file)
		ids := k.ids()
		require.Len(t, ids, 1)
		require.Contains(t, k.command(exitOK, "sessions", "show", ids[0]).out, "Seven.")
		require.Equal(t, "Still seven.\n", k.run(exitOK, "-p", "-c", "sure?").out)
		require.Contains(t, k.service.requests()[0], "7 a")
		require.Contains(t, k.service.requests()[0], "Seven.")
		require.Contains(t, k.command(exitError, "sessions", "import", filepath.Join(k.dir, "none")).err, "none")
	}
}
