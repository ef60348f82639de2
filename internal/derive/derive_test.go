package derive_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/aycoder/aycoder/internal/derive"
	"github.com/stretchr/testify/require"
)

// A sheet has inputs with names of lower case, which are lists of names, and for each name its sum: the
// number of names that can be reached from it, up to a depth.
type sheet struct {
	table  *derive.Table
	inputs map[string]string
	input  *derive.Query[string]
	sum    *derive.Query[int]
	runs   int
}

func newSheet(inputs map[string]string) *sheet {
	s := &sheet{table: derive.New(), inputs: inputs}
	s.input = derive.NewQuery(s.table, func(arg string) string { return s.inputs[arg] }, nil)
	s.sum = derive.NewQuery(s.table, func(arg string) int {
		s.runs++
		depth, name := arg[0]-'0', arg[1:]
		n := len(name)
		if depth > 0 {
			for next := range strings.FieldsSeq(s.input.Get(name)) {
				n += s.sum.Get(fmt.Sprintf("%d%s", depth-1, next))
				if n%5 == 4 { // what is looked at depends on what was seen
					break
				}
			}
		}
		return n % 7
	}, nil)
	return s
}

// After any changes, a table answers as a new one, and has no values that a new one would not have.
func TestTableIsAsNew(t *testing.T) {
	names := []string{"a", "bb", "ccc", "d", "ee", "f"}
	for seed := range uint64(100) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		inputs := map[string]string{}
		old := newSheet(inputs)
		asked := map[string]bool{}
		for range 60 {
			name := names[rnd.IntN(len(names))]
			switch rnd.IntN(4) {
			case 0:
				inputs[name] = strings.Join(names[rnd.IntN(3):3+rnd.IntN(4)], " ")
				old.input.Changed(name)
			case 1:
				delete(inputs, name)
				old.input.Changed(name)
			case 2:
				arg := fmt.Sprintf("%d%s", rnd.IntN(5), name)
				old.sum.Drop(arg)
				delete(asked, arg)
			default:
				arg := fmt.Sprintf("%d%s", rnd.IntN(5), name)
				asked[arg] = true
			}
			fresh := newSheet(inputs)
			for arg := range asked {
				require.Equal(t, fresh.sum.Get(arg), old.sum.Get(arg), "seed %d: %s", seed, arg)
			}
			require.LessOrEqual(t, fresh.table.Len(), old.table.Len())
			if len(asked) == 0 {
				require.Zero(t, old.table.Len())
			}
		}
		for arg := range asked {
			old.sum.Drop(arg)
		}
		require.Zero(t, old.table.Len(), "seed %d", seed)
	}
}

// Values that a change does not concern are not computed again, nor those that use a value that came out equal.
func TestOnlyWhatChanged(t *testing.T) {
	s := newSheet(map[string]string{"a": "bb", "bb": "ccc", "d": "ee"})
	s.sum.Get("4a")
	s.sum.Get("4d")
	s.runs = 0
	s.inputs["ee"] = "f"
	require.True(t, s.input.Changed("ee"))
	s.sum.Get("4a")
	require.Zero(t, s.runs)
	s.sum.Get("4d")
	require.Equal(t, 3, s.runs) // 4d, 3ee, 2f

	s.runs = 0
	s.inputs["bb"] = " ccc"
	require.True(t, s.input.Changed("bb"))
	s.sum.Get("4a")
	require.Equal(t, 1, s.runs) // 3bb is as it was, so 4a is

	require.False(t, s.input.Changed("bb"))
	require.False(t, s.input.Changed("unknown"))
}

// A value that one query stops using, while another one that began to use it is not done yet, is kept.
func TestUsedByWhatIsNotDone(t *testing.T) {
	table := derive.New()
	inputs := map[string]string{"switch": "x", "x": "1"}
	input := derive.NewQuery(table, func(arg string) string { return inputs[arg] }, nil)
	var user *derive.Query[string]
	user = derive.NewQuery(table, func(arg string) string {
		if arg == "inner" {
			return input.Get(input.Get("switch"))
		}
		return input.Get("x") + user.Get("inner")
	}, nil)
	require.Equal(t, "1", user.Get("inner"))
	inputs["switch"] = "none"
	input.Changed("switch")
	require.Equal(t, "1", user.Get("outer"))
	inputs["x"] = "2"
	input.Changed("x")
	require.Equal(t, "2", user.Get("outer"))

	user.Drop("outer")
	user.Drop("inner")
	require.Zero(t, table.Len())
}

func TestCycle(t *testing.T) {
	table := derive.New()
	var q *derive.Query[int]
	q = derive.NewQuery(table, func(arg string) int { return q.Get(arg) }, nil)
	require.Panics(t, func() { q.Get("a") })
}
