package jsontext

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCanonical(t *testing.T) {
	same := []string{`{"a":1,"b":[true,"<é>"]}`, ` { "b" : [ true , "\u003c\u00e9>" ], "a" : 1 } `}
	require.Equal(t, Canonical([]byte(same[0])), Canonical([]byte(same[1])))
	for _, other := range []string{`{"a":1.0,"b":[true,"<é>"]}`, `{"a":"1","b":[true,"<é>"]}`, `{"b":[true,"<é>"]}`} {
		require.NotEqual(t, Canonical([]byte(same[0])), Canonical([]byte(other)), other)
	}
	require.NotEqual(t, Canonical([]byte(`12345678901234567890`)), Canonical([]byte(`12345678901234567891`)))
	for _, bad := range []string{``, `{`, `{} {}`, `nope`} {
		require.Equal(t, bad, Canonical([]byte(bad)))
	}
}

func FuzzText(f *testing.F) {
	f.Add([]byte("plain"))
	f.Add([]byte("\xff{\"base64\":1}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		data, err := json.Marshal(Text(text))
		require.NoError(t, err)
		var back Text
		require.NoError(t, json.Unmarshal(data, &back))
		require.True(t, bytes.Equal(text, []byte(back)), "%q is %s", text, data)
	})
}
