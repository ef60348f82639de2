package schema

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestFit(t *testing.T) {
	s, err := Compile([]byte(`{"type":"object","properties":{"query":{"type":"string"},"limit":{"type":"integer"},` +
		`"all":{"type":"boolean"}},"required":["query"],"additionalProperties":false}`))
	require.NoError(t, err)
	tests := []struct{ name, in, want string }{
		{"fits", `{"query":"x","limit":3}`, `{"query":"x","limit":3}`},
		{"written as text", `{"query":"x","limit":"3","all":"true"}`, `{"query":"x","limit":3,"all":true}`},
		{"a fraction of zero", `{"query":"x","limit":3.0}`, `{"query":"x","limit":3}`},
		{"both", `{"query":"x","limit":"1e2"}`, `{"query":"x","limit":100}`},
		{"one of two is wrong", `{"limit":"3"}`, ""},
		{"no JSON", `{`, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, problems := s.Fit([]byte(tt.in))
			if tt.want == "" {
				assert.NotEmpty(t, problems)
				assert.Equal(t, tt.in, string(got))
				return
			}
			assert.Empty(t, problems)
			assert.Equal(t, tt.want, string(got))
		})
	}
}

// Arguments that fit are parsed once, with the allocations of one small object.
func TestFitCost(t *testing.T) {
	s, err := Compile([]byte(`{"type":"object","properties":{"query":{"type":"string"},"limit":{"type":"integer"}}}`))
	require.NoError(t, err)
	args := []byte(`{"query":"some words","limit":3}`)
	assert.LessOrEqual(t, testing.AllocsPerRun(100, func() { s.Fit(args) }), 1.0)
	assert.LessOrEqual(t, reflect.TypeFor[run]().Size(), uintptr(576))
}
