package packed_test

import (
	"math"
	"testing"

	"github.com/aycoder/aycoder/internal/packed"
	"github.com/stretchr/testify/require"
)

type kind uint8

type inner struct {
	Name string
	Yes  bool
	At   int32
}

type outer struct {
	Kind  kind
	List  []inner
	Lists [][]string
	None  []inner
	Last  inner
}

var example = outer{
	Kind:  255,
	List:  []inner{{"a", true, math.MaxInt32}, {"", false, math.MinInt32}, {"a", true, -1}},
	Lists: [][]string{{"a", "\xff\x00"}, nil, {"", "b"}},
	Last:  inner{Name: "b"},
}

func TestEncode(t *testing.T) {
	data := packed.Encode(example)
	var got outer
	require.True(t, packed.Decode(data, &got))
	require.Equal(t, example, got)
	for n := range data {
		require.False(t, packed.Decode(data[:n], new(outer)), "cut at %d", n)
	}
	require.False(t, packed.Decode(append(data, 0), new(outer)))
	require.Panics(t, func() { packed.Encode(1.5) })
}

// Bytes that are not those of a value are refused, or decoded to what is encoded as another spelling of them.
func FuzzDecode(f *testing.F) {
	f.Add(packed.Encode(example))
	f.Add([]byte("\x00\xfe\xff\xff\xff\x0f"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var got, again outer
		if packed.Decode(data, &got) {
			require.True(t, packed.Decode(packed.Encode(got), &again))
			require.Equal(t, got, again)
		}
	})
}
