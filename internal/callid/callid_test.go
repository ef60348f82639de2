package callid

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// The hash is written to journals, so it must not change: these are the first bytes of FNV-1a.
func TestSumsStay(t *testing.T) {
	require.Equal(t, Sum{0xcb, 0xf2, 0x9c, 0xe4, 0x84, 0x22}, SumOf(""))
	require.Equal(t, Sum{0xaf, 0x63, 0xdc, 0x4c, 0x86, 0x01}, SumOf("a"))
	require.Equal(t, Sum{0x85, 0x94, 0x41, 0x71, 0xf7, 0x39}, SumOf("foobar"))
}

func TestSetHasItsIDs(t *testing.T) {
	for _, n := range []int{0, 1, 2, 3, 1000} {
		var sums []Sum
		for i := range n {
			sums = append(sums, SumOf("call_1_"+strconv.Itoa(i)))
		}
		set := Set(sums)
		for i := range n + 100 {
			require.Equal(t, i < n, Has(set, "call_1_"+strconv.Itoa(i)), "%d of %d", i, n)
		}
	}
	require.False(t, Has([]byte("torn"), "x"))
}
