package anthropic

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
)

// wire is the body that encode makes, as bytes.
func (c *Client) wire(req *aycoder.Request) ([]byte, error) {
	p, err := c.encode(req)
	if err != nil {
		return nil, err
	}
	data := bytes.Join(p.pieces, nil)
	if int64(len(data)) != p.size() {
		panic("size is wrong")
	}
	return data, nil
}

func TestPayloadReader(t *testing.T) {
	tests := map[string][]string{
		"nothing":      nil,
		"one":          {"abc"},
		"many":         {"a", "", "bcd", "efghij", ""},
		"empty pieces": {"", "", ""},
	}
	for name, pieces := range tests {
		t.Run(name, func(t *testing.T) {
			p := &payload{}
			var want strings.Builder
			for _, s := range pieces {
				p.pieces = append(p.pieces, []byte(s))
				want.WriteString(s)
			}
			require.NoError(t, iotest.TestReader(p.reader(), []byte(want.String())))
			again, err := io.ReadAll(p.reader())
			require.NoError(t, err)
			require.Equal(t, want.String(), string(again), "it can be read again")
		})
	}
}
