package harness

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"github.com/aycoder/aycoder"
)

const (
	repeatWindow = 20 // calls of a run that are looked at
	repeatWarn   = 3  // equal calls with equal results, after which the model is told
	repeatStop   = 6  // and after which a further one is refused
	repeatRuns   = 256
)

// repeats finds calls that are made again and again with the same result.
type repeats struct {
	mu   sync.Mutex
	runs map[string][]repeated // the last calls of a run
	old  []string              // the runs, the oldest first
}

// A repeated is a call with its result.
type repeated struct{ call, result [32]byte }

func newRepeats() *repeats { return &repeats{runs: map[string][]repeated{}} }

// aroundTool is an [aycoder.ToolMiddleware]. It adds a line to the third equal result of the same call among the
// last twenty of a run, and refuses the call after the sixth.
func (r *repeats) aroundTool(next aycoder.ToolFunc) aycoder.ToolFunc {
	return func(ctx context.Context, inv *aycoder.Invocation) (*aycoder.ToolResult, error) {
		place, _ := aycoder.PlaceFromContext(ctx)
		call := sha256.Sum256(append([]byte(inv.Name+"\x00"), inv.Args...))
		if r.equal(place.Run, call) >= repeatStop {
			return nil, fmt.Errorf("repeated: this call has given the same result %d times; do something else", repeatStop)
		}
		res, err := next(ctx, inv)
		n := r.add(place.Run, repeated{call, resultOf(res, err)})
		if n >= repeatWarn && err == nil && res != nil {
			told := *res
			told.Parts = append(slices.Clip(res.Parts), &aycoder.Text{
				Text: fmt.Sprintf("[This call has given the same result %d times. Do something else.]\n", n),
			})
			return &told, nil
		}
		return res, err
	}
}

func resultOf(res *aycoder.ToolResult, err error) [32]byte {
	text := fmt.Sprint(err)
	if res != nil {
		data, _ := json.Marshal(aycoder.Message{Role: aycoder.RoleUser, Parts: res.Parts}) // what cannot be encoded is equal
		text += string(data)
	}
	return sha256.Sum256([]byte(text))
}

// equal returns how often a call has given its last result.
func (r *repeats) equal(run string, call [32]byte) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := r.runs[run]
	for _, x := range slices.Backward(list) {
		if x.call == call {
			return count(list, x)
		}
	}
	return 0
}

// add remembers a call, and returns how often it has given this result.
func (r *repeats) add(run string, x repeated) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	list, ok := r.runs[run]
	if !ok {
		if r.old = append(r.old, run); len(r.old) > repeatRuns {
			delete(r.runs, r.old[0])
			r.old = r.old[1:]
		}
	}
	list = append(list, x)
	list = slices.Clone(list[max(len(list)-repeatWindow, 0):])
	r.runs[run] = list
	return count(list, x)
}

func count(list []repeated, x repeated) (n int) {
	for _, y := range list {
		if y == x {
			n++
		}
	}
	return n
}
