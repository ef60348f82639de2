package api

import (
	"bytes"
	"encoding/base64"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
)

func TestInline(t *testing.T) {
	tests := []struct {
		name, typ, url string
		want           *aycoder.Media // nil if unchanged
	}{
		{"another address", "image/png", "https://x/data:,a", nil},
		{"no address", "image/png", "", nil},
		{"base64", "", "data:image/png;base64,cG5n", &aycoder.Media{Type: "image/png", Data: []byte("png")}},
		{"the given type wins", "image/x", "data:image/png;base64,cG5n", &aycoder.Media{Type: "image/x", Data: []byte("png")}},
		{"no padding", "", "DATA:image/png;base64,YQ", &aycoder.Media{Type: "image/png", Data: []byte("a")}},
		{"escaped", "", "data:image/png;base64,YQ%3D%3D", &aycoder.Media{Type: "image/png", Data: []byte("a")}},
		{"text", "", "data:text/css;charset=utf-8,a%0Ab+c", &aycoder.Media{Type: "text/css;charset=utf-8", Data: []byte("a\nb+c")}},
		{"no type", "", "data:,a", &aycoder.Media{Type: "text/plain", Data: []byte("a")}},
		{"no data", "", "data:image/png;base64,", nil},
		{"no comma", "", "data:image/png", nil},
		{"not base64", "", "data:image/png;base64,a b", nil},
		{"not an escape", "", "data:,%zz", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := &aycoder.Media{Type: tt.typ, URL: tt.url}
			got := Inline(m)
			if tt.want == nil {
				assert.Same(t, m, got)
				return
			}
			assert.Equal(t, tt.want, got)
		})
	}
}

func FuzzInline(f *testing.F) {
	f.Add("image/png;base64", "cG5n", []byte("png"))
	f.Fuzz(func(t *testing.T, head, text string, data []byte) {
		_ = Inline(&aycoder.Media{URL: "data:" + head + "," + text}) // must not panic
		if len(data) == 0 {
			return
		}
		m := Inline(&aycoder.Media{URL: "data:a/b;base64," + base64.StdEncoding.EncodeToString(data)})
		require.True(t, bytes.Equal(data, m.Data))
	})
}

func TestNotShown(t *testing.T) {
	assert.Equal(t, "[2 bytes of a/b, which this model is not shown: n]", NotShown(&aycoder.Media{Type: "a/b", Name: "n", Data: []byte("xy")}))
	assert.Equal(t, "[0 bytes of a/b, which this model is not shown: http://x]", NotShown(&aycoder.Media{Type: "a/b", URL: "http://x"}))
	long := &aycoder.Media{Type: "a/b", URL: "data:," + strings.Repeat("x", 1<<20)}
	assert.Equal(t, "[0 bytes of a/b, which this model is not shown]", NotShown(long), "a URL is not a place for a file")
}

func TestCallName(t *testing.T) {
	call := &aycoder.Message{Role: aycoder.RoleAssistant, Parts: []aycoder.Part{&aycoder.ToolUse{ID: "1", Name: "read"}}}
	all := []*aycoder.Message{nil, aycoder.User("x"), call}
	assert.Equal(t, "read", CallName(all, "1"))
	assert.Empty(t, CallName(all, "2"))
	output := func(name string) *aycoder.Message {
		return &aycoder.Message{Role: aycoder.RoleUser, Parts: []aycoder.Part{nil, (*aycoder.ToolOutput)(nil), &aycoder.ToolOutput{ID: "1", Name: name}}}
	}
	assert.True(t, Unnamed(output("")))
	assert.False(t, Unnamed(output("read")))
}
