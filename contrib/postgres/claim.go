package postgres

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/aycoder/aycoder/budget"
)

// A claim is a row: a run or a model call that waits, or one that was granted. Any process may grant the claims of all, in a
// transaction that locks the row of their tenant, or for runs the one of all tenants. Rows are ordered by a number of the
// database, but known by a random one of the process: so a process whose connection has broken knows what to remove.
//
// Whether a claim counts depends on the lease of its holder. Rows of a process that is gone are ignored, and removed a day
// later: until then, a process that was only cut off can still settle what it has spent.
type claim struct {
	store         *Store
	tenant        string
	run           bool
	money, tokens int64 // that are reserved; money in billionths of a dollar

	id, key int64
	done    chan error // has room for the answer of those who wait
}

// runsKey wakes those who wait for a run. The key of a tenant, negative, wakes those who wait for a call. The keys of sessions
// are above.
const runsKey = math.MinInt64

// quotas are the claims of a store.
type quotas struct {
	work sync.WaitGroup
	keys sync.Map // of tenants, by name

	mu       sync.Mutex
	cancel   context.CancelFunc // ends the goroutines
	run      context.Context    // of them
	known    map[int64]bool     // claims that may have a row
	waiting  map[int64]*claim
	serving  map[int64]chan struct{} // wakes the goroutine of a key
	owed     map[int64]cost          // what is to be settled when the database can be reached
	settling bool                    // a goroutine does that
}

type cost struct{ money, tokens int64 }

// wait waits until a claim is granted. If it returns nil, settle must be called.
func (c *claim) wait(ctx context.Context) error {
	if err := errors.Join(checkTenant(c.tenant), context.Cause(ctx)); err != nil {
		return err
	}
	if err := c.store.lease.ensure(ctx); err != nil {
		return err
	}
	if err := c.store.settleOwed(ctx); err != nil {
		return err
	}
	c.id, c.done = rand.Int64(), make(chan error, 1)
	c.store.quotas.know(c.id)
	err := c.put(ctx)
	if err == nil {
		err = c.granted(ctx)
	} else if c.key != 0 && ctx.Err() != nil {
		// The row may be about to be stored, so that it could not be removed yet. To insert it again waits for that.
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		_ = c.put(end) // err says what went wrong
		cancel()
	}
	if err == nil {
		return nil
	}
	c.settle(ctx, 0, 0)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx) // which the driver does not say
	case err == errNoTenant: // somebody has deleted it, and it is made anew, as for a process that did not know it
		c.store.quotas.keys.Delete(c.tenant)
		return c.wait(ctx)
	}
	return err
}

// errNoTenant is the answer to claims of which the tenant is not in the database any more.
var errNoTenant = errors.New("no such tenant")

// put makes the row.
func (c *claim) put(ctx context.Context) (err error) {
	const sql = `INSERT INTO claims (id, tenant, holder, run, money, tokens) VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING`
	if c.key, err = c.store.tenantKey(ctx, c.tenant); err != nil {
		return err
	}
	return c.store.retry(ctx, func(ctx context.Context) error {
		_, err := c.store.pool.Exec(ctx, sql, c.id, c.key, c.store.lease.me, c.run, c.money, c.tokens)
		return err
	})
}

// tenantKey returns the key of a tenant, which does not change as long as its row is there.
func (s *Store) tenantKey(ctx context.Context, name string) (key int64, err error) {
	if key, ok := s.quotas.keys.Load(name); ok {
		return key.(int64), nil
	}
	err = s.row(ctx, []any{&key}, "INSERT INTO tenants (name) VALUES ($1) ON CONFLICT (name) DO UPDATE SET name = EXCLUDED.name RETURNING key", name)
	if err == nil {
		s.quotas.keys.Store(name, key)
	}
	return key, err
}

// granted waits for the answer.
func (c *claim) granted(ctx context.Context) error {
	q := &c.store.quotas
	c.store.join(c)
	defer func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		delete(q.waiting, c.id)
	}()
	select {
	case err := <-c.done:
		return err
	case <-q.run.Done():
		return fs.ErrClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// join adds a claim to those that wait. One goroutine serves all of a key, so that many that come at once cost little more
// than one.
func (s *Store) join(c *claim) {
	q, key := &s.quotas, c.wakeKey()
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.waiting[c.id] = c; q.run.Err() != nil {
		return
	}
	wake, ok := q.serving[key]
	if !ok {
		wake = make(chan struct{}, 1)
		q.serving[key] = wake
		q.work.Go(func() { s.serveWaiting(q.run, key, wake) })
	}
	select {
	case wake <- struct{}{}:
	default:
	}
}

// serveWaiting serves a key until no claim of this store waits for it.
func (s *Store) serveWaiting(ctx context.Context, key int64, wake chan struct{}) {
	joined := false
	for pause := look; ; {
		select {
		case <-wake:
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
		again, err := s.serve(ctx, key)
		if err != nil {
			s.answer(key, grants{used: err})
		}
		if s.quotas.idle(key) {
			return
		}
		if pause = look; again > 0 {
			pause = min(pause, again+time.Millisecond)
		}
		if !joined { // most claims need not wait for others
			joined = true
			s.hub.join(key, wake)
			defer s.hub.leave(key, wake)
			pause = 0 // as something may have changed before
		}
	}
}

// idle reports whether no claim of this store waits for a key. Then its goroutine has to end.
func (q *quotas) idle(key int64) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, c := range q.waiting {
		if c.wakeKey() == key {
			return false
		}
	}
	delete(q.serving, key)
	return true
}

func (q *quotas) setup() {
	q.run, q.cancel = context.WithCancel(context.Background())
	q.known, q.waiting, q.serving, q.owed = map[int64]bool{}, map[int64]*claim{}, map[int64]chan struct{}{}, map[int64]cost{}
}

// close ends the goroutines, and makes a last attempt to settle what is owed.
func (s *Store) closeQuotas() error {
	if s.quotas.cancel == nil {
		return nil
	}
	s.quotas.mu.Lock() // nothing starts after that
	s.quotas.cancel()
	s.quotas.mu.Unlock()
	s.quotas.work.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return s.settleOwed(ctx)
}

func (c *claim) wakeKey() int64 {
	if c.run {
		return runsKey
	}
	return -c.key
}

// Settle implements [budget.Reservation].
func (c *claim) Settle(ctx context.Context, spent budget.Amount) {
	c.settle(ctx, nanos(spent.Money), min(max(spent.Tokens, 0), mostTokens))
}

// settle ends a claim, and grants others in its place, also if ctx has ended. If that is not possible now, it is done later.
func (c *claim) settle(ctx context.Context, money, tokens int64) {
	ctx, cancel := c.store.lasting(ctx)
	defer cancel()
	q, of := &c.store.quotas, cost{money, tokens}
	err := c.store.retry(ctx, func(ctx context.Context) error { return q.settle(ctx, c.store.pool, c.id, of) })
	if err == nil {
		_, _ = c.store.serve(ctx, c.wakeKey()) // those who wait look by themselves now and then
		return
	}
	q.mu.Lock() // it is tried again with the next claim, and with each beat of the lease
	defer q.mu.Unlock()
	q.owed[c.id] = of
}

// settleOwed ends the claims of which that was not possible before.
func (s *Store) settleOwed(ctx context.Context) error {
	for id, of := range s.quotas.debts() {
		if err := s.retry(ctx, func(ctx context.Context) error { return s.quotas.settle(ctx, s.pool, id, of) }); err != nil {
			return fmt.Errorf("settle what was spent before: %w", err)
		}
	}
	return nil
}

// settleSoon makes another attempt at that, apart from the lease, which must not wait for what others have locked.
func (s *Store) settleSoon() {
	q := &s.quotas
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.settling || len(q.owed) == 0 || q.run.Err() != nil {
		return
	}
	q.settling = true
	q.work.Go(func() {
		ctx, cancel := context.WithTimeout(q.run, s.patience+time.Second)
		defer cancel()
		_ = s.settleOwed(ctx) // or with a later beat
		q.mu.Lock()
		defer q.mu.Unlock()
		q.settling = false
	})
}

// debts returns the claims that have to be settled.
func (q *quotas) debts() map[int64]cost {
	q.mu.Lock()
	defer q.mu.Unlock()
	return maps.Clone(q.owed)
}

// settle ends a claim. It can be repeated: a claim that is gone was settled.
func (q *quotas) settle(ctx context.Context, db *pgxpool.Pool, id int64, of cost) (err error) {
	const sql = `WITH gone AS (DELETE FROM claims WHERE id = $1 RETURNING tenant)
		UPDATE tenants SET day = ` + today + `, spent_money = ` + spentMoney + ` + $2, spent_tokens = ` + spentTokens + ` + $3,
		level = greatest(` + refilled + ` - $3, -10 * rate), refilled = clock_timestamp() FROM gone WHERE key = gone.tenant`
	if of == (cost{}) { // which locks no tenant, as a claim that waits may be about to be granted
		_, err = db.Exec(ctx, "DELETE FROM claims WHERE id = $1", id)
	} else {
		_, err = db.Exec(ctx, sql, id, of.money, of.tokens)
	}
	if err == nil {
		q.mu.Lock()
		defer q.mu.Unlock()
		delete(q.owed, id)
		delete(q.known, id)
	}
	return err
}

func (q *quotas) know(id int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.known[id] = true
}

// disown ends those of the claims in the database that nobody here knows: the row of a claim that was given up can come late.
func (q *quotas) disown(rows []int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, id := range rows {
		if !q.known[id] {
			q.owed[id] = cost{}
		}
	}
}

// Expressions of a row of tenants: the day, its sums and the tokens left of the minute, as they are now. A bucket begins full.
const (
	today       = "(clock_timestamp() AT TIME ZONE 'UTC')::date"
	spentMoney  = "CASE WHEN day = " + today + " THEN spent_money ELSE 0 END"
	spentTokens = "CASE WHEN day = " + today + " THEN spent_tokens ELSE 0 END"
	refilled    = "least(rate, level + rate * extract(epoch FROM clock_timestamp() - refilled) / 60)::bigint"
)

// counts is the condition for the row of a claim whose holder lives. Its arguments are the holder that asks, $1, and the time of
// the lease in milliseconds, $2. The lock of a holder that is gone can be shared for a moment. When the database was started
// just now, holders may not have their locks again yet.
const counts = `(holder = $1 OR pg_postmaster_start_time() > clock_timestamp() - $2 * interval '1 millisecond' OR holder <> ALL (ARRAY(
	SELECT h.holder FROM (SELECT DISTINCT holder FROM claims) h WHERE h.holder <> $1 AND pg_try_advisory_xact_lock_shared(h.holder))))`

// serve grants the claims that a key is for, as far as they fit, and answers those of this store. It returns the time after
// which more of them may fit by themselves, or 0.
func (s *Store) serve(ctx context.Context, key int64) (again time.Duration, err error) {
	var g grants
	err = s.retry(ctx, func(ctx context.Context) error {
		return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) (err error) {
			if key == runsKey {
				g, err = s.grantRuns(ctx, tx)
			} else {
				g, err = s.grantCalls(ctx, tx, -key)
			}
			return err
		})
	})
	if err != nil {
		return 0, err
	}
	if g.others > 0 {
		s.lease.changed(key)
	}
	s.answer(key, g)
	return g.again, nil
}

// grants are claims that were granted now, and those of this store that were granted before.
type grants struct {
	ids    []int64
	others int           // of other stores, that were granted now
	again  time.Duration // after which more may fit
	used   error         // instead, for all that wait
}

// locked begins the transactions that grant claims: one at a time for each key, so that they see what the others have done. It is not the
// lock of a row, as then those that find nothing to do would have to wait for the disk.
const locked = "SELECT pg_advisory_xact_lock(hashtextextended('aycoder claims ' || current_schema(), $1))"

// answer tells the claims of this store that they are granted, or that all of a key get an error.
func (s *Store) answer(key int64, g grants) {
	granted := map[int64]bool{}
	for _, id := range g.ids {
		granted[id] = true
	}
	q := &s.quotas
	q.mu.Lock()
	defer q.mu.Unlock()
	for id, c := range q.waiting {
		if c.wakeKey() != key {
			continue
		}
		switch {
		case granted[id]:
			c.done <- nil
		case g.used != nil:
			c.done <- g.used
		default:
			continue
		}
		delete(q.waiting, id)
	}
}

// startRuns picks the runs that start now, in the order of [Store.SetRuns], as if they started one after the other. A run sorts by the
// number of runs that its tenant has when it starts. Of two tenants with the same number, the one that had more runs before has not
// been served in this statement, or not for longer, so it comes first. The tenant with the name "" has the number of the last run
// that was started.
const startRuns = `WITH everybody AS (SELECT key, runs, served FROM tenants WHERE name = ''),
	live AS (SELECT id, n, tenant, granted, t.runs, t.served FROM claims JOIN tenants t ON t.key = tenant WHERE run AND ` + counts + `),
	places AS (SELECT *, count(*) FILTER (WHERE granted) OVER (PARTITION BY tenant) AS working,
		count(*) FILTER (WHERE NOT granted) OVER (PARTITION BY tenant ORDER BY n) - 1 AS nth FROM live),
	next AS (SELECT id, tenant, row_number() OVER (ORDER BY working + nth, working DESC, served, tenant) AS turn FROM places
		WHERE NOT granted AND (runs = 0 OR working + nth < runs) ORDER BY turn
		LIMIT (SELECT CASE WHEN runs > 0 THEN greatest(runs - (SELECT count(*) FROM live WHERE granted), 0) END FROM everybody)),
	started AS (UPDATE claims SET granted = true FROM next WHERE claims.id = next.id RETURNING claims.id, holder),
	numbered AS (UPDATE tenants SET served = coalesce((SELECT served FROM everybody), 0) + turn FROM (SELECT tenant, max(turn) AS turn FROM next
		GROUP BY tenant UNION ALL SELECT key, max(turn) FROM everybody, next GROUP BY key) t WHERE key = tenant)
	SELECT coalesce(array_agg(id), '{}'), count(*) FILTER (WHERE holder <> $1) FROM (SELECT * FROM started
		UNION ALL SELECT id, holder FROM claims WHERE run AND granted AND holder = $1) g`

// grantRuns grants runs.
func (s *Store) grantRuns(ctx context.Context, tx pgx.Tx) (g grants, err error) {
	b := &pgx.Batch{}
	b.Queue(locked, int64(runsKey))
	b.Queue(startRuns, s.lease.me, s.hold.Milliseconds()).QueryRow(func(row pgx.Row) error { return row.Scan(&g.ids, &g.others) })
	lost := false
	b.Queue("SELECT EXISTS (SELECT FROM claims WHERE run AND NOT granted AND holder = $1 AND tenant NOT IN (SELECT key FROM tenants))",
		s.lease.me).QueryRow(func(row pgx.Row) error { return row.Scan(&lost) })
	if err = tx.SendBatch(ctx, b).Close(); lost {
		g.used = errNoTenant
	}
	return g, err
}

// A spender is a tenant with its calls.
type spender struct {
	name                    string
	rate, money, tokens     int64 // the quota
	spentMoney, spentTokens int64 // today
	level                   int64 // tokens left of the minute
	heldMoney, heldTokens   int64
}

// exhausted returns an error if nothing is left for today.
func (t *spender) exhausted() error {
	kind := ""
	switch {
	case t.money > 0 && t.spentMoney >= t.money:
		kind = "money"
	case t.tokens > 0 && t.spentTokens >= t.tokens:
		kind = "tokens"
	default:
		return nil
	}
	return &budget.ExhaustedError{Budget: "tenant " + t.name + " today", Kind: kind, Key: "the quota of the tenant",
		Max: amount(t.money, t.tokens), Spent: amount(t.spentMoney, t.spentTokens)}
}

func amount(money, tokens int64) budget.Amount {
	return budget.Amount{Money: float64(money) / 1e9, Tokens: tokens}
}

// take reserves the amounts of a call if they fit. A call that is larger than a limit fits when nothing else is reserved, or
// when the tokens of the whole minute are there. If it does not fit, take returns the time until there will be enough tokens,
// or 0 if something else has to end before.
func (t *spender) take(money, tokens int64) (ok bool, again time.Duration) {
	if t.money > 0 && t.heldMoney > 0 && t.spentMoney+t.heldMoney+money > t.money ||
		t.tokens > 0 && t.heldTokens > 0 && t.spentTokens+t.heldTokens+tokens > t.tokens {
		return false, 0
	}
	if lacks := min(tokens, t.rate) - (t.level - t.heldTokens); t.rate > 0 && lacks > 0 {
		return false, time.Duration(float64(lacks) / float64(t.rate) * float64(time.Minute))
	}
	t.heldMoney, t.heldTokens = t.heldMoney+money, t.heldTokens+tokens
	return true, 0
}

// grantCalls picks the calls of a tenant that start now, in order of arrival. One statement reads what is spent and what is
// reserved, as a call that ends meanwhile turns one into the other.
func (s *Store) grantCalls(ctx context.Context, tx pgx.Tx, key int64) (g grants, err error) {
	const read = `SELECT name, rate, t.money, t.tokens, ` + spentMoney + `, ` + spentTokens + `, ` + refilled + `,
		coalesce(id, 0), coalesce(granted, false), coalesce(c.money, 0), coalesce(c.tokens, 0)
		FROM tenants t LEFT JOIN (SELECT * FROM claims WHERE NOT run AND ` + counts + `) c ON tenant = t.key
		WHERE t.key = $3 ORDER BY granted DESC, n`
	const grant = `WITH g AS (UPDATE claims SET granted = true WHERE id = ANY($1) RETURNING holder) SELECT count(*) FROM g WHERE holder <> $2`
	var t spender
	var now []int64
	b := &pgx.Batch{}
	b.Queue(locked, key)
	b.Queue(read, s.lease.me, s.hold.Milliseconds(), key).Query(func(rows pgx.Rows) error {
		var of call
		full := false
		_, err := pgx.ForEachRow(rows, []any{&t.name, &t.rate, &t.money, &t.tokens, &t.spentMoney, &t.spentTokens, &t.level,
			&of.id, &of.granted, &of.money, &of.tokens}, func() error {
			switch {
			case of.granted:
				t.heldMoney, t.heldTokens = t.heldMoney+of.money, t.heldTokens+of.tokens
			case of.id == 0 || full || t.exhausted() != nil:
			default:
				var ok bool
				if ok, g.again = t.take(of.money, of.tokens); ok {
					now = append(now, of.id)
				}
				full = !ok
			}
			return nil
		})
		return err
	})
	b.Queue("SELECT id FROM claims WHERE granted AND NOT run AND holder = $1 AND tenant = $2", s.lease.me, key).Query(func(rows pgx.Rows) (err error) {
		g.ids, err = pgx.CollectRows(rows, pgx.RowTo[int64])
		return err
	})
	err = tx.SendBatch(ctx, b).Close()
	if g.used = t.exhausted(); t.name == "" {
		g.used = errNoTenant
	}
	if err == nil && len(now) > 0 {
		g.ids = append(g.ids, now...)
		err = tx.QueryRow(ctx, grant, now, s.lease.me).Scan(&g.others)
	}
	return g, err
}

// A call is a claim in the database.
type call struct {
	id, money, tokens int64
	granted           bool
}

// status reads what a tenant uses.
func (s *Store) status(ctx context.Context, tenant string) (u QuotaStatus, err error) {
	const sql = `SELECT runs, rate, t.money, t.tokens, ` + spentMoney + `, ` + spentTokens + `,
		count(*) FILTER (WHERE run AND granted), count(*) FILTER (WHERE run AND NOT granted),
		count(*) FILTER (WHERE NOT run AND granted), count(*) FILTER (WHERE NOT run AND NOT granted),
		coalesce(sum(c.money) FILTER (WHERE granted), 0)::bigint, coalesce(sum(c.tokens) FILTER (WHERE granted), 0)::bigint
		FROM tenants t LEFT JOIN (SELECT * FROM claims WHERE ` + counts + `) c ON tenant = t.key WHERE name = $3 GROUP BY t.key`
	var money, tokens, spentMoney, spentTokens, heldMoney, heldTokens int64
	err = s.pool.QueryRow(ctx, sql, s.lease.me, s.hold.Milliseconds(), tenant).Scan(&u.Quota.Runs, &u.Quota.TokensPerMinute, &money, &tokens,
		&spentMoney, &spentTokens, &u.Runs, &u.WaitingRuns, &u.Calls, &u.WaitingCalls, &heldMoney, &heldTokens)
	if errors.Is(err, pgx.ErrNoRows) {
		return u, nil
	}
	u.Quota.Money, u.Quota.Tokens = float64(money)/1e9, tokens
	u.Spent, u.Reserved = amount(spentMoney, spentTokens), amount(heldMoney, heldTokens)
	return u, err
}
