package providers_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/generate"
	"github.com/aycoder/aycoder/internal/wiretest"
	"github.com/aycoder/aycoder/providers"
)

// recorded is any value of the schema in recordedSchema.
type recorded struct{ raw json.RawMessage }

var recordedSchema json.RawMessage

func (recorded) JSONSchema() json.RawMessage { return recordedSchema }

func (r *recorded) UnmarshalJSON(data []byte) error {
	r.raw = bytes.Clone(data)
	return nil
}

// formats are the models of each dialect that can be held to a schema, and where its requests have one.
var formats = map[string]struct {
	model string
	at    []string
}{
	"anthropic-messages": {"anthropic/claude-sonnet-4-5", []string{"output_config", "format", "schema"}},
	"openai-chat":        {"openai-chat/gpt-5", []string{"response_format", "json_schema", "schema"}},
	"openai-responses":   {"openai/gpt-5", []string{"text", "format", "schema"}},
	"gemini":             {"google/gemini-3-pro-preview", []string{"generationConfig", "responseJsonSchema"}},
	"bedrock-converse": {"bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0",
		[]string{"outputConfig", "textFormat", "structure", "jsonSchema", "schema"}},
}

// old are the places in which earlier versions of an API have the schema.
var old = map[string][]string{"gemini": {"generationConfig", "responseSchema"}, "anthropic-messages": {"output_format", "schema"}}

// within returns the value at a path in a JSON document.
func within(doc json.RawMessage, path []string) json.RawMessage {
	for _, key := range path {
		var m map[string]json.RawMessage
		if json.Unmarshal(doc, &m) != nil {
			return nil
		}
		doc = m[key]
	}
	return doc
}

// TestRunAsRecorded gives each recorded answer to a request with a schema to a run that asks for a value
// of that schema, beside a tool. The request must have the schema where the recorded one has it, and the
// value must be the recorded one.
func TestRunAsRecorded(t *testing.T) {
	t.Setenv("AWS_REGION", "us-east-1")
	look, err := aycoder.NewTool("look", "Looks.", nopTool)
	require.NoError(t, err)
	values, refused, misfits := map[string]int{}, map[string]int{}, map[string]int{}
	wiretest.EachWith(t, "chema", func(rec *wiretest.Recording) {
		for _, i := range rec.Interactions {
			f, ok := formats[i.Family]
			if !ok || i.Kind != "inference" || i.Expected == nil || i.Expected.Error != nil || !i.Expected.Complete {
				continue
			}
			schema := within(i.RequestBody(), f.at)
			if path := old[i.Family]; schema == nil && path != nil {
				schema = within(i.RequestBody(), path)
			}
			var text string
			if json.Unmarshal(schema, &text) == nil { // Converse has it as a string
				schema = json.RawMessage(text)
			}
			if schema == nil || len(i.Expected.Calls) > 0 {
				continue
			}
			recordedSchema = schema
			var sent []byte
			rt := i.Transport(i.Body(), 1<<10)
			client, err := providers.Open(f.model, providers.WithAPIKey("key-0123456789"), providers.WithHTTPClient(&http.Client{
				Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
					sent, _ = io.ReadAll(r.Body)
					r.Body = io.NopCloser(bytes.NewReader(sent))
					return rt.RoundTrip(r)
				}),
			}))
			require.NoError(t, err)
			loop, err := aycoder.New(client, aycoder.WithTools(look))
			require.NoError(t, err)
			var got recorded
			var failed error
			for _, err := range generate.RunAs(t.Context(), loop, aycoder.Input{Prompt: "?"}, &got, generate.WithRepairs(0)) {
				failed = err
			}
			about := rec.ID + ": " + string(schema)
			if _, odd := errors.AsType[*aycoder.ConfigError](failed); odd {
				refused[i.Family]++ // a schema of another language, or one with references
				continue
			}
			require.Contains(t, string(sent), `"look"`, about)
			require.NotContains(t, string(sent), `Takes the answer`, about)
			if within(sent, f.at) == nil { // the service takes no such schema
				require.Contains(t, string(sent), "Answer with one JSON document", about)
			}
			if _, no := errors.AsType[*aycoder.RefusalError](failed); no {
				require.NotEmpty(t, i.Expected.Refusal, about)
				continue
			}
			if _, gave := errors.AsType[*generate.Error](failed); gave {
				misfits[i.Family]++
				require.Nil(t, got.raw)
				continue
			}
			require.NoError(t, failed, about)
			require.JSONEq(t, i.Expected.Text, string(got.raw), about)
			values[i.Family]++
		}
	})
	t.Logf("values %v, schemas that are refused %v, answers that do not fit %v", values, refused, misfits)
	for family := range formats {
		require.Positive(t, values[family], family)
	}
}

func nopTool(context.Context, *aycoder.Invocation, struct{}) (*aycoder.ToolResult, error) {
	return aycoder.TextResult("seen"), nil
}
