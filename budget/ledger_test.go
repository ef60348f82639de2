package budget_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"testing"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/budget"
	"github.com/aycoder/aycoder/providers/script"
)

// noted is a ledger that writes down what it is asked for.
type noted struct {
	t      testing.TB
	refuse error
	log    []string
}

func (l *noted) Reserve(_ context.Context, need budget.Amount) (budget.Reservation, error) {
	if need.Tokens < 100 || need.Work != 0 {
		l.t.Errorf("it needs %+v", need)
	}
	if l.refuse != nil {
		return nil, l.refuse
	}
	l.log = append(l.log, "reserve")
	return &reservation{l: l}, nil
}

type reservation struct {
	l       *noted
	settled bool
}

func (r *reservation) Settle(ctx context.Context, spent budget.Amount) {
	if r.settled || ctx.Err() != nil {
		r.l.t.Errorf("settled before: %v, context: %v", r.settled, ctx.Err())
	}
	r.settled = true
	what := fmt.Sprintf("settle %d", spent.Tokens)
	if spent.Tokens > 0 && spent.Tokens < 20 {
		what = "settle an estimate"
	}
	r.l.log = append(r.l.log, what)
}

// Each request that is sent has one reservation in the ledger, which is settled however the request ends.
func TestLedger(t *testing.T) {
	answer := script.Say("done").WithUsage(aycoder.Usage{Input: 50, Output: 10})
	retries := aycoder.ModelFunc(func(ctx context.Context, req *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
		return func(yield func(aycoder.ModelEvent, error) bool) {
			if yield(&aycoder.TextDelta{Text: "twelve bytes"}, nil) && yield(&aycoder.Retrying{}, nil) {
				script.New(answer).Stream(ctx, req)(yield)
			}
		}
	})
	refused := errors.New("refused")
	for _, c := range []struct {
		what   string
		client aycoder.ModelClient
		stop   bool // at the first event
		refuse error
		want   []string
	}{
		{"an answer", script.New(answer), false, nil, []string{"reserve", "settle 60"}},
		{"an error", script.New(script.Fail(refused)), false, nil, []string{"reserve", "settle 0"}},
		{"a retry", retries, false, nil, []string{"reserve", "settle an estimate", "reserve", "settle 60"}},
		{"a break", retries, true, nil, []string{"reserve", "settle an estimate"}},
		{"refused", script.New(answer), false, refused, nil},
	} {
		l := &noted{t: t, refuse: c.refuse}
		pot, err := budget.New(budget.Config{Ledger: l})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var failed error
		for _, err := range pot.Model(c.client).Stream(ctx, &aycoder.Request{MaxTokens: 100}) {
			if failed = err; c.stop {
				cancel()
				break
			}
		}
		cancel()
		if !slices.Equal(l.log, c.want) {
			t.Errorf("%s: %v, want %v", c.what, l.log, c.want)
		}
		if s := pot.Status(); s.Calls != 0 || s.Reserved != (budget.Amount{}) || c.refuse != nil && !errors.Is(failed, c.refuse) {
			t.Errorf("%s: status %+v, error %v", c.what, s, failed)
		}
	}
}
