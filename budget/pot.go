package budget

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/tokens"
)

// Config configures a [Pot]. Without a limit, or with 0, nothing is limited.
type Config struct {
	// Name names the budget in errors. Default: "default".
	Name string
	// Money is in US dollars. Tokens counts input and output, with cached input. Work is working time.
	Money  float64
	Tokens int64
	Work   time.Duration
	// Key returns the configuration key of the limit of a kind ("money", "tokens" or "work"), which errors name.
	// Default: "budget.", the name, a dot and the kind.
	Key func(kind string) string
	// Models describes models, such as the method Lookup of package catalog. Default: the client is asked.
	Models func(provider, model string) (aycoder.ModelInfo, bool)
	// Idle are the names of tools that wait for people, such as "ask_user". Their time does not count.
	Idle []string
	// File is the path of a file that keeps what was spent: see the package comment. Default: no file.
	File string
	// Ledger keeps what several processes reserve and spend together: each request also needs a reservation there.
	// Default: none, so that only the limits of this Config hold.
	Ledger Ledger
	// Clock measures working time. Default: [aycoder.SystemClock].
	Clock aycoder.Clock
}

// Amount is an amount of what a budget limits.
type Amount struct {
	Money  float64       `json:"money"` // in US dollars
	Tokens int64         `json:"tokens"`
	Work   time.Duration `json:"work"` // in nanoseconds
}

// The indices of amounts. Money is in billionths of a dollar, so that sums are exact.
const (
	money = iota
	tokenCount
	work
)

type amounts [3]int64

var kinds = [...]string{"money", "tokens", "work"}

func (a amounts) public() Amount {
	return Amount{float64(a[money]) / 1e9, a[tokenCount], time.Duration(a[work])}
}

// add adds b, and stays within the range of numbers.
func (a *amounts) add(b amounts) {
	for i, n := range b {
		if n > 0 && a[i] > math.MaxInt64/2-n {
			a[i] = math.MaxInt64 / 2
			continue
		}
		a[i] += n
	}
}

func (a *amounts) sub(b amounts) {
	for i, n := range b {
		a[i] -= n
	}
}

// nanos converts dollars, rounded up. An amount that cannot be a cost is 0.
func nanos(dollars float64) int64 {
	if !(dollars > 0) {
		return 0
	}
	return int64(math.Ceil(min(dollars, 1e8) * 1e9))
}

// Pot is a shared budget. Its methods are safe for concurrent use. It has no goroutine.
type Pot struct {
	conf    Config
	max     amounts
	counter *tokens.Counter

	mu        sync.Mutex     // guards all that follows
	spent     amounts        // with a file, as far as it is not in the file
	filed     amounts        // in the file
	held      amounts        // reserved
	calls     int            // that hold a reservation
	queue     []*waiter      // requests that wait for a reservation
	running   map[*span]bool // the spans that count
	since     time.Time      // until which the time of running counts
	unarm     func() bool
	unpriced  []string
	rates     map[tokens.Model]float64 // billionths of a dollar for a token, of models without a price
	estimated int
	uncounted int
	file      *file // or nil
}

// New returns a budget of which nothing is spent, or which continues the file of c. The error is a
// [*aycoder.ConfigError], or that of the file.
func New(c Config) (*Pot, error) {
	c.Name = cmp.Or(c.Name, "default")
	if c.Key == nil {
		c.Key = func(kind string) string { return "budget." + c.Name + "." + kind }
	}
	if c.Clock == nil {
		c.Clock = aycoder.SystemClock()
	}
	c.Idle = slices.Clone(c.Idle)
	p := &Pot{conf: c, running: map[*span]bool{}, rates: map[tokens.Model]float64{}}
	if err := p.checkLimits(Amount{c.Money, c.Tokens, c.Work}); err != nil {
		return nil, err
	}
	p.counter = tokens.New()
	p.max = amounts{nanos(c.Money), c.Tokens, int64(c.Work)}
	if c.File == "" {
		return p, nil
	}
	var err error
	if p.file, err = openFile(c.File); err == nil {
		err = p.sync()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("budget %s: %w", c.Name, err), p.Close())
	}
	return p, nil
}

// SetLimits replaces the limits. Zero removes a limit. The amounts spent so far stay, so a limit below them means that
// nothing is left. Requests that wait get their answers by the new limits, and those that
// have begun go on, but calls are cancelled when the working time is used up.
func (p *Pot) SetLimits(c Amount) error {
	if err := p.checkLimits(c); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.advance()
	p.max = amounts{nanos(c.Money), c.Tokens, int64(c.Work)}
	p.arm()
	p.serve()
	return nil
}

func (p *Pot) checkLimits(c Amount) error {
	if c.Tokens < 0 || c.Work < 0 || !(c.Money >= 0) || math.IsInf(c.Money, 0) {
		return &aycoder.ConfigError{Option: "budget." + p.conf.Name, Err: errors.New("a limit is negative or not a number")}
	}
	return nil
}

// Close closes the file of the budget. Requests fail after it. Without a file, it does nothing.
func (p *Pot) Close() error {
	if p.file == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.advance()
	return errors.Join(p.sync(), p.file.Close())
}

// Status describes the state of a [Pot].
type Status struct {
	Name string `json:"name"`
	// Max are the limits, where 0 means that there is none. Reserved is for Calls model calls in progress.
	Max      Amount `json:"max"`
	Spent    Amount `json:"spent"`
	Reserved Amount `json:"reserved"`
	Calls    int    `json:"calls,omitempty"`
	// Waiting is the number of requests that wait for a reservation.
	Waiting int `json:"waiting,omitempty"`
	// Unpriced are models whose answers cost an unknown amount, as "provider/model". There are at most 64.
	Unpriced []string `json:"unpriced,omitempty"`
	// Estimated is how many answers broke off, and Uncounted how many came without a usage and a cost. Their tokens
	// are estimated.
	Estimated int `json:"estimated,omitempty"`
	Uncounted int `json:"uncounted,omitempty"`
}

// Status returns the state of the budget at this moment.
func (p *Pot) Status() Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.advance()
	return Status{
		Name: p.conf.Name, Max: p.max.public(), Spent: p.total().public(), Reserved: p.held.public(), Calls: p.calls,
		Waiting: len(p.queue), Unpriced: slices.Clone(p.unpriced), Estimated: p.estimated, Uncounted: p.uncounted,
	}
}

// state is what a Pot encodes. There are no reservations in it: they end with their process.
type state struct {
	Name      string   `json:"name"`
	Money     int64    `json:"nanodollars"`
	Tokens    int64    `json:"tokens"`
	Work      int64    `json:"work_ns"`
	Unpriced  []string `json:"unpriced,omitempty"`
	Estimated int      `json:"estimated,omitempty"`
	Uncounted int      `json:"uncounted,omitempty"`
}

// MarshalJSON encodes what was spent up to now, without the limits and the reservations.
func (p *Pot) MarshalJSON() ([]byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.advance()
	t := p.total()
	return json.Marshal(state{p.conf.Name, t[money], t[tokenCount], t[work], p.unpriced, p.estimated, p.uncounted})
}

// UnmarshalJSON replaces what was spent by what [Pot.MarshalJSON] encoded. It refuses the state of a budget
// of another name, negative amounts, and a Pot with a file. If it returns an error, it changes nothing.
func (p *Pot) UnmarshalJSON(data []byte) error {
	var s state
	if err := json.Unmarshal(data, &s); err != nil {
		return fmt.Errorf("decode budget: %w", err)
	}
	switch {
	case p.running == nil:
		return errors.New("decode budget: the pot is not made by New")
	case p.file != nil:
		return fmt.Errorf("decode budget %s: its file has the state", p.conf.Name)
	case s.Name != p.conf.Name:
		return fmt.Errorf("decode budget %s: the state is that of %q", p.conf.Name, s.Name)
	case min(s.Money, s.Tokens, s.Work) < 0 || min(s.Estimated, s.Uncounted) < 0 || len(s.Unpriced) > maxUnpriced:
		return fmt.Errorf("decode budget %s: an amount is out of range", p.conf.Name)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.advance()
	p.spent = amounts{}
	p.spent.add(amounts{s.Money, s.Tokens, s.Work})
	p.unpriced, p.estimated, p.uncounted = s.Unpriced, s.Estimated, s.Uncounted
	p.arm()
	p.serve()
	return nil
}

// ExhaustedError reports that a limit of a budget is reached. It unwraps to an [*aycoder.LimitError], so
// that a run does not retry and keeps what it has.
type ExhaustedError struct {
	// Budget is the name of the budget, Kind is "money", "tokens" or "work", and Key is the configuration
	// key that set the limit.
	Budget, Kind, Key string
	// Max are the limits, and Spent is what was spent.
	Max, Spent Amount
}

// Error implements the error interface.
func (e *ExhaustedError) Error() string {
	spent, limit := "", ""
	switch e.Kind {
	case "money":
		spent, limit = fmt.Sprintf("$%.4f", e.Spent.Money), fmt.Sprintf("$%.4f", e.Max.Money)
	case "tokens":
		spent, limit = fmt.Sprintf("%d tokens", e.Spent.Tokens), fmt.Sprint(e.Max.Tokens)
	default:
		spent, limit = e.Spent.Work.Round(time.Millisecond).String()+" of work", e.Max.Work.String()
	}
	return fmt.Sprintf("budget %s is used up: %s of %s (limit set by %s)", e.Budget, spent, limit, e.Key)
}

// Unwrap returns the limit as an [*aycoder.LimitError], with money in US cents and time in seconds.
func (e *ExhaustedError) Unwrap() error {
	limit, most := e.Kind, e.Max.Tokens
	switch e.Kind {
	case "money":
		limit, most = "US cents", int64(e.Max.Money*100)
	case "work":
		limit, most = "seconds of work", int64(e.Max.Work/time.Second)
	}
	return &aycoder.LimitError{Limit: limit + " of budget " + e.Budget, Max: most}
}
