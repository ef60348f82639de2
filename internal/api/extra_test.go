package api

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestAppendExtra(t *testing.T) {
	fields := func(nameValues ...string) map[string]json.RawMessage {
		m := map[string]json.RawMessage{}
		for i := 0; i < len(nameValues); i += 2 {
			m[nameValues[i]] = json.RawMessage(nameValues[i+1])
		}
		return m
	}
	tests := []struct {
		name  string
		b     string
		extra map[string]json.RawMessage
		want  string
		err   string
	}{
		{"none", `{`, nil, `{`, ""},
		{"sorted", `{"x":1`, fields("b", "2", "a", `{"c":[]}`, "q\"", "null"), `{"x":1,"a":{"c":[]},"b":2,"q\"":null`, ""},
		{"first", `{`, fields("b", "2"), `{"b":2`, ""},
		{"not UTF-8", `{`, fields("b", "\"\xff\""), "{\"b\":\"\ufffd\"", ""},
		{"reserved", `{`, fields("model", `"x"`), "", `field "model" is not for Extra`},
		{"no JSON", `{`, fields("a", `{`), "", `field "a" of Extra is not JSON`},
		{"nothing", `{`, fields("a", ``), "", `field "a" of Extra is not JSON`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := AppendExtra([]byte(tt.b), tt.extra, "model", "stream")
			assert.Equal(t, tt.want, string(got))
			if tt.err == "" {
				assert.NoError(t, err)
				return
			}
			assert.EqualError(t, err, tt.err)
		})
	}
}

func TestHostLabel(t *testing.T) {
	for s, want := range map[string]bool{"us-east-1": true, "global": true, "": false, "a.b": false, "a/": false, "A": false, "é": false} {
		assert.Equal(t, want, HostLabel(s), s)
	}
}
