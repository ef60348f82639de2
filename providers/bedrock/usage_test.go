package bedrock

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/api"
	"github.com/aycoder/aycoder/internal/wiretest"
)

// The sum of absurd counts must not be negative, since limits of tokens and of cost are compared with it.
func TestAbsurdUsage(t *testing.T) {
	a := ask(t, answered(200, frames(begin, textPiece("a"), stop0, endTurn,
		`metadata {"usage":{"inputTokens":9223372036854775807,"outputTokens":9223372036854775807,"cacheReadInputTokens":-1}}`)))
	require.NoError(t, a.Err)
	assert.Equal(t, aycoder.Usage{Input: 1 << 40, Output: 1 << 40}, a.Done.Usage)
}

// Tools that are renamed on the wire are called under their original names.
func TestRenamedTools(t *testing.T) {
	req := hello()
	req.Tools = []*aycoder.ToolSpec{{Name: "files/read"}, {Name: "ok"}}
	name := string(api.AppendName(nil, "files/read", maxName))
	start := func(name string) string {
		return `contentBlockStart {"contentBlockIndex":0,"start":{"toolUse":{"name":` + name + `}}}`
	}
	whole := `{"output":{"message":{"role":"assistant","content":[{"toolUse":{"name":` + name + `,"input":{}}},{"toolUse":{"name":"ok"}}]}},"stopReason":"tool_use"}`
	for _, body := range []string{frames(begin, start(name), stop0, start(`"ok"`), stop0, useTool, meta), whole} {
		a := wiretest.Ask(t.Context(), t, newClient(t, answered(200, body)), req)
		require.NoError(t, a.Err)
		calls := a.Message().Calls()
		require.Len(t, calls, 2)
		assert.Equal(t, []string{"files/read", "ok"}, []string{calls[0].Name, calls[1].Name})
	}
}
