package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/providers/script"
)

func Example() {
	main()
	// Output:
	// wrong: tool deploy: invalid arguments: /target: must be one of "staging", "production", got "moon"
	// failed: no version v9; there are v1.1, v1.2
	// done: v1.2 runs on staging
	// ? deploy {"target":"production","version":"v1.2","replicas":3}
	// refused: the user refused this call: not on a Friday
	// v1.2 is on staging only.
}

func TestApprovalDecides(t *testing.T) {
	tests := []struct {
		name   string
		answer func(*aycoder.ApprovalRequested)
		done   []string
	}{
		{"allow", func(a *aycoder.ApprovalRequested) { a.Allow() }, []string{"v1.2 to production"}},
		{"deny", func(a *aycoder.ApprovalRequested) { a.Deny("no") }, nil},
		{"no answer", func(*aycoder.ApprovalRequested) {}, nil},
		{"edit", func(a *aycoder.ApprovalRequested) {
			args := json.RawMessage(`{"target":"staging","version":"v1.1"}`)
			require.NoError(t, a.AllowWith(args))
		}, []string{"v1.1 to staging"}},
		{"wrong edit", func(a *aycoder.ApprovalRequested) {
			require.Error(t, a.AllowWith(json.RawMessage(`{"target":"moon","version":"v1.1"}`)))
		}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := script.New(
				script.Call("deploy", deployArgs{Target: "production", Version: "v1.2"}),
				script.Say("Done."),
			)
			d := &deployer{versions: []string{"v1.1", "v1.2"}}
			var b strings.Builder
			require.NoError(t, run(t.Context(), &b, m, d, tt.answer))
			require.Equal(t, tt.done, d.done)
			require.Contains(t, b.String(), "? deploy")
		})
	}
}

func TestSchemaSaysWhatTheModelMaySend(t *testing.T) {
	tool, err := new(deployer).tool()
	require.NoError(t, err)
	var schema struct {
		Properties map[string]struct{ Enum []string }
		Required   []string
	}
	require.NoError(t, json.Unmarshal(tool.Spec().Schema, &schema))
	require.Equal(t, []string{"target", "version"}, schema.Required)
	require.Equal(t, []string{"staging", "production"}, schema.Properties["target"].Enum)
}
