package anthropic

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/api"
)

// The sum of absurd counts must not be negative, since limits of tokens and of cost are compared with it.
func TestAbsurdUsage(t *testing.T) {
	const most = `9223372036854775807`
	body := msgStart + strings.Replace(msgEnd, `{"output_tokens":2}`, `{"input_tokens":`+most+`,"output_tokens":`+most+
		`,"cache_read_input_tokens":`+most+`,"cache_creation_input_tokens":-1,"iterations":[{"type":"compaction","input_tokens":`+most+`}]}`, 1)
	a := ask(newClient(t, stream(body)))
	require.NoError(t, a.err)
	assert.Equal(t, aycoder.Usage{Input: 2 << 40, Output: 1 << 40, CacheRead: 1 << 40}, a.Usage)
}

// A prompt without tokens is none: some gateways repeat the usage with zeros.
func TestUsageOfZeros(t *testing.T) {
	for last, want := range map[string]aycoder.Usage{
		`"input_tokens":0,"output_tokens":5`:                             {Input: 3, Output: 5},
		`"input_tokens":0,"output_tokens":0,"cache_read_input_tokens":0`: {Input: 3},
		`"input_tokens":0,"output_tokens":5,"cache_read_input_tokens":2`: {Output: 5, CacheRead: 2},
		`"input_tokens":1`: {Input: 1, Output: 1},
	} {
		a := ask(newClient(t, stream(msgStart+strings.Replace(msgEnd, `"output_tokens":2`, last, 1))))
		require.NoError(t, a.err)
		assert.Equal(t, want, a.Usage, last)
	}
}

// Tools that are renamed on the wire are called under their original names.
func TestRenamedTools(t *testing.T) {
	req := hello()
	req.Tools = []*aycoder.ToolSpec{{Name: "files/read"}, {Name: "ok"}}
	name := string(api.AppendName(nil, "files/read", maxName))
	call := func(name string) string {
		return "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":" +
			`{"type":"tool_use","id":"","name":` + name + `,"input":{}}}` + "\n\n" + blockStop
	}
	c := newClient(t, stream(msgStart+call(name)+call(`"ok"`)+msgEnd))
	a := askFor(t.Context(), c, req)
	require.NoError(t, a.err)
	require.Len(t, a.Message.Calls(), 2)
	assert.Equal(t, "files/read", a.Message.Calls()[0].Name)
	assert.Equal(t, "ok", a.Message.Calls()[1].Name)
}
