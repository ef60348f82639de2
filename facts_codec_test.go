package aycoder_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
)

// Each line is the form that a journal of an earlier release may hold. It must not change.
var factLines = []string{
	`{"run":"r","fact":"start"}`,
	`{"run":"r","seq":1,"fact":"block","part":{"type":"text","text":"hi"}}`,
	`{"seq":2,"fact":"block","part":{"type":"thinking","text":"hm","signature":"EqQB+/==","provider":"p"}}`,
	`{"seq":2,"fact":"block","part":{"type":"tool_use","id":"c","name":"t","args":"{ \"a\" :\n1.0, \"\\/\":\"\u2028\"}","extra":{"type":"opaque","provider":"p","raw":"{ }"}}}`,
	`{"seq":2,"fact":"block","part":{"type":"new","x":12345678901234567890.10}}`,
	`{"seq":3,"fact":"cut","part":{"type":"tool_use","id":"c","name":"t","args":"{\"a"}}`,
	`{"seq":4,"fact":"message","id":"m","stop":"tool_use","model":"x","usage":{"input":1,"output":2,"reasoning":3,"cache_read":4,"cache_write":5},"cost":0.25,"provider":"p","request_id":"req"}`,
	`{"seq":4,"fact":"message"}`,
	`{"seq":5,"fact":"failed","began":true,"retry":true,"after":1000,"shrink":true,"limit":2000,"keep":true}`,
	`{"seq":5,"fact":"failed","retry":false}`,
	`{"seq":6,"fact":"waited"}`,
	`{"seq":7,"fact":"decided","id":"c","verdict":"allow","args":"{ \"a\": 2 }","read_only":true,"by":"policy","digest":"d"}`,
	`{"seq":7,"fact":"decided","id":"c","verdict":"allow","args":{"base64":"ewD/fQ=="},"by":"user"}`,
	`{"seq":7,"fact":"decided","id":"c","verdict":"allow","plan":{"files":[{"path":"a","kind":"change","base":{"base64":"/w=="},"proposed":"b","memo":"m"}],"asked":[{"path":"a","kind":"change","base":{"base64":"/w=="},"proposed":"c"}]},"by":"user"}`,
	`{"seq":7,"fact":"decided","id":"c","verdict":"deny","reason":"no \u003c\u003e","by":"timeout"}`,
	`{"seq":7,"fact":"decided","id":"c","verdict":"suspend","by":"policy"}`,
	`{"seq":7,"fact":"decided","id":"c","verdict":"allow","by":"policy","outside":true}`,
	`{"seq":8,"fact":"tool_began","id":"c"}`,
	`{"seq":8,"fact":"call_requested","args":"{ \"a\" : 1 }","request":{"key":"t1/tool/c","run":"r","agent":"a","id":"c","name":"t","args":null,"subject":"s","digest":"d","created":"2026-01-02T03:04:05.000000006Z"}}`,
	`{"seq":9,"fact":"tool_done","id":"c","output":{"type":"tool_output","id":"c","name":"t","is_error":true,"untrusted":true,"parts":[{"type":"text","text":"out"},{"type":"media","media_type":"image/png","data":"AP8="}]},"spent":[{"agent":"a","model":"m","answers":2,"usage":{"input":1,"output":0},"uncounted":1,"cost":0.5,"unpriced":1}]}`,
	`{"seq":9,"fact":"tool_done","spent":[{"agent":"a","answers":1,"usage":{"input":1,"output":0},"cost":0}]}`,
	`{"seq":10,"fact":"steered","message":{"role":"user","parts":[{"type":"text","text":"hey"}]},"follow_up":true}`,
	`{"seq":11,"fact":"cancelled"}`,
	`{"seq":11,"fact":"cancelled","began":true}`,
	`{"seq":12,"fact":"setup","setup":{"type":"setup_changed","tools":{"a":1,"b":2},"added":["a"],"removed":["c"],"changed":["b"],"model":"p/x","max_turns":7,"max_calls":8}}`,
	`{"seq":12,"fact":"resumed"}`,
	`{"seq":12,"fact":"resumed","model":"p/x","max_turns":7,"repeat_reads":true}`,
}

func TestFactLines(t *testing.T) {
	for _, line := range factLines {
		var rec aycoder.FactRecord
		require.NoError(t, json.Unmarshal([]byte(line), &rec), line)
		data, err := json.Marshal(rec)
		require.NoError(t, err)
		require.Equal(t, line, string(data))
	}
	var rec aycoder.FactRecord
	require.NoError(t, json.Unmarshal([]byte(factLines[3]), &rec))
	use := rec.Fact.(*aycoder.BlockDone).Part.(*aycoder.ToolUse)
	require.Equal(t, "{ \"a\" :\n1.0, \"\\/\":\"\u2028\"}", string(use.Args), "byte for byte")
	require.Equal(t, "{ }", string(use.Extra.Raw))
	require.NoError(t, json.Unmarshal([]byte(`{"v":1,"fact":"waited"}`), &rec))
}

func TestFactsOfAnotherVersion(t *testing.T) {
	for line, want := range map[string]aycoder.FormatError{
		`{"fact":"forked"}`:                {Form: "fact", Kind: "forked"},
		`{"fact":"forked","seq":"seven"}`:  {Form: "fact", Kind: "forked"},
		`{}`:                               {Form: "fact"},
		`{"v":2,"fact":"waited"}`:          {Form: "fact", Kind: "waited", Version: 2},
		`{"v":2,"fact":"block","part":[]}`: {Form: "fact", Kind: "block", Version: 2},
		`{"part":[],"v":2,"fact":"block"}`: {Form: "fact", Kind: "block", Version: 2},
		`{"v":-1,"fact":"waited"}`:         {Form: "fact", Kind: "waited", Version: -1},
	} {
		var rec aycoder.FactRecord
		err := json.Unmarshal([]byte(line), &rec)
		got, ok := errors.AsType[*aycoder.FormatError](err)
		require.True(t, ok, "%s: %v", line, err)
		require.Equal(t, want, *got, line)
	}
	for _, line := range []string{
		`{"fact":"block"}`, `{"fact":"block","part":5}`, `{"fact":"cut","part":{"type":"text","text":"a"}}`, `{"fact":"failed"}`,
		`{"fact":"tool_done","id":"c","output":{"type":"text","text":"a"}}`, `{"fact":"steered"}`, `{"fact":"tool_done"}`, `{"fact":"setup"}`,
		`{"fact":"decided","verdict":"maybe"}`, `{"fact":"waited","seq":"x"}`, `{"fact":`, `[]`,
	} {
		var rec aycoder.FactRecord
		require.Error(t, json.Unmarshal([]byte(line), &rec), line)
	}
}

// A fact of an older program has only the sum of what a call had used.
func TestOldFactsKeepUsage(t *testing.T) {
	var rec aycoder.FactRecord
	require.NoError(t, json.Unmarshal([]byte(`{"fact":"tool_done","id":"c","output":{"type":"tool_output","id":"c","name":"t","parts":[]},"usage":{"input":7,"output":2}}`), &rec))
	require.Equal(t, []aycoder.Spent{{Answers: 1, Usage: aycoder.Usage{Input: 7, Output: 2}, Unpriced: 1}}, rec.Fact.(*aycoder.ToolDone).Spent)
}

func FuzzFactRecord(f *testing.F) {
	for _, line := range factLines {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var rec, again aycoder.FactRecord
		if json.Unmarshal(data, &rec) != nil {
			return
		}
		first, err := json.Marshal(rec)
		if err != nil {
			return // an opaque block without a provider that is not JSON
		}
		require.NoError(t, json.Unmarshal(first, &again), "%s", first)
		second, err := json.Marshal(again)
		require.NoError(t, err)
		require.Equal(t, string(first), string(second))
	})
}
