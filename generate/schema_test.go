package generate_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/generate"
	"github.com/aycoder/aycoder/providers/script"
)

const (
	boatSchema = `{"type":"object","properties":{"name":{"type":"string"},"mast":{"$ref":"#/$defs/mast"}},
		"required":["name"],"additionalProperties":false,"$defs":{"mast":{"type":"object","properties":{"height":{"type":"integer"}}}}}`
	boat = `{"name":"Ada","mast":{"height":12}}`
)

// A schema that comes from elsewhere is asked for, and the answer fits it as it is.
func TestWithSchema(t *testing.T) {
	for name, first := range map[string]string{"as it is": boat, "null for nothing": `{"name":"Ada","mast":null}`} {
		t.Run(name, func(t *testing.T) {
			var got json.RawMessage
			m := script.New(script.Call("answer", `{"mast":1}`), script.Call("answer", boat))
			for _, err := range generate.RunAs(t.Context(), newLoop(t, m), who, &got, generate.WithSchema(json.RawMessage(boatSchema))) {
				require.NoError(t, err)
			}
			require.JSONEq(t, boat, string(got))
			tools := m.Requests()[0].Tools
			require.JSONEq(t, boatSchema, string(tools[len(tools)-1].Schema))

			got, err := generate.Value[json.RawMessage](t.Context(), script.New(script.Say(first), script.Say(boat)),
				&aycoder.Request{Messages: []*aycoder.Message{aycoder.User("Which?")}}, generate.WithSchema(json.RawMessage(boatSchema)))
			require.NoError(t, err)
			require.JSONEq(t, boat, string(got))
		})
	}
}

func TestWithSchemaRefuses(t *testing.T) {
	for _, tt := range []struct{ schema, want string }{
		{`{"type":"array"}`, `the type of the document is not "object"`},
		{`{"type":"object","properties":1}`, "WithSchema"},
		{`{`, "WithSchema"},
		{``, "WithSchema"},
	} {
		var got json.RawMessage
		var failed error
		for _, err := range generate.RunAs(t.Context(), newLoop(t, script.New()), who, &got, generate.WithSchema(json.RawMessage(tt.schema))) {
			failed = err
		}
		require.ErrorContains(t, failed, tt.want, tt.schema)
		require.ErrorAs(t, failed, new(*aycoder.ConfigError), tt.schema)
	}
	var p person
	for _, err := range generate.RunAs(t.Context(), newLoop(t, script.New()), who, &p, generate.WithSchema(json.RawMessage(boatSchema))) {
		require.ErrorContains(t, err, "not json.RawMessage")
	}
}
