package postgres

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"strings"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/budget"
	"github.com/aycoder/aycoder/internal/part"
)

// Quota limits what a tenant uses in all processes together. A value of 0 limits nothing.
type Quota struct {
	// Runs is the number of runs at the same time: see [Tenant.Agent].
	Runs int
	// TokensPerMinute can be used at once, and is then regained evenly over a minute. A request with more waits until
	// all of it is there, and the next ones wait for what it has used too much, but for ten minutes at most.
	TokensPerMinute int64
	// Money, in US dollars, and Tokens are the budget of each day, from midnight to midnight UTC. A request that is under
	// way at midnight counts for the day on which it ends.
	Money  float64
	Tokens int64
}

// SetQuota sets the quota of a tenant. It is kept in the database and holds for all processes at once. The amounts that
// the tenant has spent and reserved stay.
func (s *Store) SetQuota(ctx context.Context, tenant string, q Quota) error {
	const put = `INSERT INTO tenants (name, runs, rate, money, tokens) VALUES ($1, $2, $3, $4, $5) ON CONFLICT (name)
		DO UPDATE SET runs = EXCLUDED.runs, rate = EXCLUDED.rate, money = EXCLUDED.money, tokens = EXCLUDED.tokens,
		level = least(tenants.level, EXCLUDED.rate) RETURNING key`
	err := checkTenant(tenant)
	switch {
	case err != nil:
	case q.Runs < 0 || q.Runs > math.MaxInt32 || min(q.TokensPerMinute, q.Tokens) < 0 || max(q.TokensPerMinute, q.Tokens) > mostTokens ||
		!(q.Money >= 0 && q.Money <= mostMoney):
		err = errors.New("a limit is negative or too large")
	default:
		var key int64
		if err = s.row(ctx, []any{&key}, put, tenant, q.Runs, q.TokensPerMinute, nanos(q.Money), q.Tokens); err == nil {
			s.lease.changed(-key)
			s.lease.changed(runsKey)
		}
	}
	return quotaError("set", tenant, err)
}

// SetRuns limits the runs of all tenants together, such as to what the machines can bear. With 0 there is no limit, which is
// the default. While there are more runs than that, they start fairly: next comes the tenant with the fewest runs at work,
// and of several the one for which a run was started the longest ago.
func (s *Store) SetRuns(ctx context.Context, most int) error {
	if most < 0 || most > math.MaxInt32 {
		return fmt.Errorf("set the runs of all tenants: a limit of %d", most)
	}
	var key int64 // which is of no use here
	err := s.row(ctx, []any{&key}, "INSERT INTO tenants (name, runs) VALUES ('', $1) ON CONFLICT (name) DO UPDATE SET runs = $1 RETURNING key", most)
	if err != nil {
		return fmt.Errorf("set the runs of all tenants: %w", err)
	}
	s.lease.changed(runsKey)
	return nil
}

// More than these is not a limit, and their sums stay within the range of numbers.
const (
	mostTokens = 1 << 50
	mostMoney  = 1e8
)

// nanos returns an amount of money in billionths of a dollar. An amount that is not 0 stays so, as a limit of 0 is none.
func nanos(dollars float64) int64 {
	if !(dollars > 0) {
		return 0
	}
	return max(int64(math.Round(min(dollars, mostMoney)*1e9)), 1)
}

func checkTenant(name string) error {
	if name == "" || len(name) > 200 || strings.ToValidUTF8(name, "") != name || strings.Contains(name, "\x00") {
		return fmt.Errorf("the name of a tenant is valid UTF-8 of 1 to 200 bytes without NUL")
	}
	return nil
}

// QuotaError is the error of an operation on the quota of a tenant, other than that nothing is left of it.
type QuotaError struct {
	// Op is the operation: "set", "reserve", "read" or "wait for a run in".
	Op, Tenant string
	// Err is the cause.
	Err error
}

// Error implements error.
func (e *QuotaError) Error() string {
	return fmt.Sprintf("%s the quota of tenant %.200q: %v", e.Op, e.Tenant, e.Err)
}

// Unwrap returns Err.
func (e *QuotaError) Unwrap() error { return e.Err }

func quotaError(op, tenant string, err error) error {
	if err == nil {
		return nil
	}
	return &QuotaError{op, tenant, err}
}

// Tenant returns the tenant of a name of 1 to 200 bytes. It need not have a quota.
//
// Its money and tokens are limited by a pot, for all model clients that work for it:
//
//	pot, err := budget.New(budget.Config{Name: "tenant a", Ledger: store.Tenant("a")})
//	loop, err := aycoder.New(client, aycoder.WithModelMiddleware(pot.Model))
//
// Its runs are limited by [Tenant.Agent].
func (s *Store) Tenant(name string) *Tenant { return &Tenant{s, name} }

// Tenant is a customer of hosts that share a database. It implements [budget.Ledger]. Its methods are safe for concurrent use.
//
// Reservations belong to the store, as open sessions do: when the process ends, none of them stays. When
// PostgreSQL itself was started again, what its clients had reserved counts for the time of the lease at least, so that
// they can connect anew. A process that was stopped or cut off for longer does not count meanwhile, and counts again
// when it is back, and the costs of its requests are counted even then. Requests of a process that was killed are not
// counted, since nobody knows what they have cost.
type Tenant struct {
	store *Store
	name  string
}

// Reserve implements [budget.Ledger]. The requests of a tenant are served in order of arrival.
//
// [budget.Ledger]: https://pkg.go.dev/github.com/aycoder/aycoder/budget#Ledger
func (t *Tenant) Reserve(ctx context.Context, need budget.Amount) (budget.Reservation, error) {
	c := &claim{store: t.store, tenant: t.name, money: nanos(need.Money), tokens: min(max(need.Tokens, 0), mostTokens)}
	if err := c.wait(ctx); err != nil {
		if used, ok := errors.AsType[*budget.ExhaustedError](err); ok {
			return nil, used
		}
		return nil, quotaError("reserve", t.name, err)
	}
	return c, nil
}

// Agent limits the runs of the tenant. It is for [harness.WithAgentMiddleware], or for any agent: a run waits until it may
// start, and counts until it ends, also while it waits for an answer. Runs inside of it count as a part of it.
//
// [harness.WithAgentMiddleware]: https://pkg.go.dev/github.com/aycoder/aycoder/harness#WithAgentMiddleware
func (t *Tenant) Agent(next aycoder.Agent) aycoder.Agent {
	if next == nil {
		panic("postgres: the agent is nil")
	}
	return &limitedAgent{t, next}
}

type limitedAgent struct {
	tenant *Tenant
	next   aycoder.Agent
}

// runKey marks the context of a run that has a claim.
type runKey struct {
	store  *Store
	tenant string
}

// Run implements [aycoder.Agent].
func (a *limitedAgent) Run(ctx context.Context, in aycoder.Input, opts ...aycoder.RunOption) iter.Seq2[aycoder.Event, error] {
	return part.Once(func(yield func(aycoder.Event, error) bool) {
		key := runKey{a.tenant.store, a.tenant.name}
		if ctx.Value(key) == nil {
			c := &claim{store: key.store, tenant: key.tenant, run: true}
			if err := c.wait(ctx); err != nil {
				yield(nil, quotaError("wait for a run in", key.tenant, err))
				return
			}
			defer c.settle(ctx, 0, 0)
		}
		a.next.Run(context.WithValue(ctx, key, true), in, opts...)(yield)
	})
}

// QuotaStatus describes what a tenant uses at this moment.
type QuotaStatus struct {
	Quota Quota
	// Runs and Calls are at work in all processes, and WaitingRuns and WaitingCalls wait until they may start.
	Runs, Calls, WaitingRuns, WaitingCalls int
	// Spent is that of the day, and Reserved is for the calls.
	Spent, Reserved budget.Amount
}

// Status returns what the tenant uses. A tenant that never reserved anything uses nothing.
func (t *Tenant) Status(ctx context.Context) (u QuotaStatus, err error) {
	err = t.store.retry(ctx, func(ctx context.Context) (err error) {
		u, err = t.store.status(ctx, t.name)
		return err
	})
	return u, quotaError("read", t.name, err)
}
