package webhook

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// queued returns a sender for which deliveries wait, without a directory.
func queued(endpoints, n int) *Sender {
	s := &Sender{endpoints: map[string]*endpoint{}, waiting: newBox(), failed: newBox()}
	now := time.Now()
	for i := range endpoints {
		id := fmt.Sprint("e", i)
		s.endpoints[id] = &endpoint{Endpoint: Endpoint{ID: id}}
		for j := range n {
			d := &Delivery{ID: fmt.Sprintf("msg_%06d", j), Endpoint: id, Created: now, next: now.Add(time.Hour + time.Duration(j))}
			s.wait(d)
		}
	}
	return s
}

// A wake costs the same, however many deliveries wait.
func TestWakeIsCheap(t *testing.T) {
	for _, n := range []int{1, 20_000} {
		s := queued(2, n)
		none := func(*endpoint, *Delivery) { t.Error("nothing is due") }
		require.Zero(t, testing.AllocsPerRun(20, func() { s.begin(none) }), "%d deliveries", n)
	}
}

// The front of a queue is what a sorted list has first, whatever was put, changed and removed before.
func TestQueues(t *testing.T) {
	s := &Sender{waiting: newBox()}
	var all []*Delivery
	start := time.Now()
	for i := range 3000 {
		switch k := rand.IntN(4); {
		case k < 2 || len(all) == 0:
			d := &Delivery{ID: fmt.Sprint("id", i), Endpoint: "a", Created: start.Add(time.Duration(rand.IntN(50)))}
			s.wait(d)
			all = append(all, d)
		case k == 2:
			d := all[rand.IntN(len(all))]
			d.next = start.Add(time.Duration(rand.IntN(50)))
			heap.Fix(s.waiting.queues["a"], d.turn)
		default:
			j := rand.IntN(len(all))
			s.waiting.remove(all[j])
			all = slices.Delete(all, j, j+1)
		}
		require.Len(t, s.waiting.all, len(all))
		if len(all) == 0 {
			require.Empty(t, s.waiting.of("a"))
			continue
		}
		first := slices.MinFunc(all, func(x, y *Delivery) int {
			if x.next != y.next {
				return x.next.Compare(y.next)
			}
			if x.Created != y.Created {
				return x.Created.Compare(y.Created)
			}
			return map[bool]int{true: -1, false: 1}[x.ID < y.ID]
		})
		require.Equal(t, first.ID, s.waiting.of("a")[0].ID)
	}
}
