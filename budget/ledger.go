package budget

import "context"

// Ledger keeps what several processes reserve and spend together, such as a quota of a tenant in a database: see
// [Config].Ledger. Its methods must be safe for concurrent use.
//
// It gets amounts of money and tokens. Work is always 0, since each [Pot] counts the working time for itself.
type Ledger interface {
	// Reserve waits until need, the highest cost of a request, fits, and reserves it. The error is an
	// [*ExhaustedError] if nothing is left, so that waiting would not help. After ctx has ended, nothing is reserved.
	Reserve(ctx context.Context, need Amount) (Reservation, error)
}

// Reservation is a reservation of a [Ledger].
type Reservation interface {
	// Settle ends the reservation and counts what the request has cost. It is called once. A ledger that cannot write the
	// cost at this moment keeps it, and Reserve fails until it is written.
	Settle(ctx context.Context, spent Amount)
}

// claim makes a reservation in the ledger.
func (c *call) claim(ctx context.Context) (err error) {
	if c.pot.conf.Ledger != nil {
		c.claimed, err = c.pot.conf.Ledger.Reserve(ctx, c.need.public())
	}
	return err
}

// settle ends the reservation in the ledger, with what was counted since it was made. It does so also if ctx has ended.
func (c *call) settle(ctx context.Context) {
	if c.claimed != nil {
		c.claimed.Settle(context.WithoutCancel(ctx), c.owed.public())
	}
	c.claimed, c.owed = nil, amounts{}
}
