package schema

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/internal/corpus"
	"github.com/aycoder/aycoder/internal/timed"
)

// sharedFile opens a file of recorded material.
func sharedFile(t *testing.T, name string) *os.File {
	t.Helper()
	timed.Long(t, "recorded schemas and calls")
	f, err := os.Open(corpus.Path(t, name, "the tools and calls of the conversations"))
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

type wireCase struct {
	ID           string `json:"id"`
	Interactions []struct {
		Request struct {
			Body json.RawMessage `json:"body"`
		} `json:"request"`
		Expected struct {
			Calls []struct {
				Name      string          `json:"name"`
				Kind      string          `json:"kind"`
				Arguments json.RawMessage `json:"arguments"`
				Valid     bool            `json:"arguments_valid"`
			} `json:"tool_calls"`
		} `json:"expected"`
	} `json:"interactions"`
}

func readWire(t *testing.T, dialect string) []wireCase {
	t.Helper()
	z, err := gzip.NewReader(sharedFile(t, "wire/"+dialect+".jsonl.gz"))
	require.NoError(t, err)
	var cases []wireCase
	lines := bufio.NewScanner(z)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var c wireCase
		require.NoError(t, json.Unmarshal(lines.Bytes(), &c))
		cases = append(cases, c)
	}
	require.NoError(t, lines.Err())
	return cases
}

// schemaKeys are where the dialects put the schema of a tool, beside its name.
var schemaKeys = []string{"input_schema", "parameters", "parametersJsonSchema", "parameters_json_schema"}

// findSchemas collects the schemas of tools in a request, by name.
func findSchemas(v any, found map[string]any) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			findSchemas(e, found)
		}
	case map[string]any:
		name, _ := v["name"].(string)
		for _, key := range schemaKeys {
			if s, ok := v[key].(map[string]any); ok && name != "" {
				found[name] = s
				return
			}
		}
		if in, ok := v["inputSchema"].(map[string]any); ok && name != "" {
			found[name] = in["json"]
			return
		}
		for _, e := range v {
			findSchemas(e, found)
		}
	}
}

func requestSchemas(t *testing.T, body json.RawMessage) map[string]any {
	t.Helper()
	var request struct { // the parts of a body that may hold tools
		Tools      any `json:"tools"`
		ToolConfig any `json:"toolConfig"`
		Functions  any `json:"functions"`
	}
	found := map[string]any{}
	if json.Unmarshal(body, &request) != nil {
		return found // no request was recorded
	}
	findSchemas(request.Tools, found)
	findSchemas(request.ToolConfig, found)
	findSchemas(request.Functions, found)
	return found
}

// The misfits of the recordings, by the start of the case's id, with the reason. Each case
// and each problem was checked by hand.
var (
	refusedSchemas = map[string]string{
		"opentelemetry-python-contrib--vertexai-": "types are numbers: the enumeration of the gRPC form",
	}
	misfits = map[string]string{
		"rig--deepseek-truncation-":                                "cut off by the token limit, arguments empty",
		"rig--mistral-tool-truncation-":                            "cut off by the token limit, arguments empty",
		"openinference--bedrock-recordings-should-handle-multiple": "cut off by max_tokens, arguments empty",
		"adk-go--agent-llmagent-TestDelegation-07":                 "provoked: /answer is called wrong_field",
		"pydantic-ai--models-test-multimodal-tool":                 "Gemini makes up arguments for a tool without any",
	}
)

func known(table map[string]string, id string) bool {
	for prefix := range table {
		if strings.HasPrefix(id, prefix) {
			return true
		}
	}
	return false
}

type wireTotals struct{ schemas, refused, calls, misfit int }

func TestRecordedSchemasAndCalls(t *testing.T) {
	timed.Serial(t)
	var n wireTotals
	dialects := []string{"anthropic-messages", "openai-chat", "openai-responses", "gemini", "ollama",
		"bedrock-converse", "bedrock-invoke"}
	for _, dialect := range dialects {
		before := n
		for _, c := range readWire(t, dialect) {
			n.check(t, c)
		}
		t.Logf("%s: %d schemas, %d refused; %d calls, %d do not fit", dialect, n.schemas-before.schemas,
			n.refused-before.refused, n.calls-before.calls, n.misfit-before.misfit)
	}
	t.Logf("all: %d schemas, %d refused; %d calls, %d do not fit", n.schemas, n.refused, n.calls, n.misfit)
	assert.Greater(t, n.schemas, 3000)
	assert.Greater(t, n.calls, 1000)
}

// check compiles the schemas of a case and validates its calls against them. A tool
// counts until the case ends: some calls answer a request that names it no more.
func (n *wireTotals) check(t *testing.T, c wireCase) {
	t.Helper()
	tools := map[string]*Schema{}
	for _, in := range c.Interactions {
		for name, schema := range requestSchemas(t, in.Request.Body) {
			raw, err := json.Marshal(schema)
			require.NoError(t, err)
			n.schemas++
			if tools[name], err = Compile(raw); err != nil {
				n.refused++
				assert.True(t, known(refusedSchemas, c.ID), "%s: %s: %v\n%s", c.ID, name, err, raw)
			}
		}
		for _, call := range in.Expected.Calls {
			s := tools[call.Name]
			if s == nil || !call.Valid || call.Kind != "" {
				continue
			}
			n.calls++
			args := call.Arguments
			if slices.Contains([]string{"", "null"}, string(args)) {
				args = json.RawMessage("{}")
			}
			if problems := s.Validate(args); problems != nil {
				n.misfit++
				assert.True(t, known(misfits, c.ID), "%s: %s %s: %q", c.ID, call.Name, args, problems)
			}
		}
	}
}
