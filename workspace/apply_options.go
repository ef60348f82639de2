package workspace

import (
	"fmt"
	"time"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/option"
	"github.com/aycoder/aycoder/merge"
)

// ApplyOption configures one call of [Workspace.Apply].
type ApplyOption func(*applyConfig) error

// applyConfig holds the values of the options, and what tests put in the place of the
// system. The time to wait is for other programs that have a file open.
type applyConfig struct {
	approved string
	markers  bool
	wait     time.Duration
	merge    []merge.Option

	// Hooks for tests: step runs between two steps of the protocol; plain and noLease turn off
	// atomic exchanges and leases, which some systems lack.
	step           func(step, path string) error
	plain, noLease bool

	missed   int // how often files were searched for again
	record   *planRecord
	recovers bool // the record belongs to a plan that is being finished or taken back
}

// WithApproved states that the plan with this [aycoder.EditPlan.Digest] was approved, either by
// a person who saw it or by a rule that names its files. The plan may then change files that
// run code, see [Workspace]; a plan with another digest is refused. Default: any plan is
// accepted, but none may change such files.
func WithApproved(digest string) ApplyOption {
	return func(c *applyConfig) error { c.approved = digest; return nil }
}

// WithWrittenConflicts writes both sides of a conflict into the file, between markers, and
// carries out the rest of the plan. The outcome is still conflicted, but Apply returns no error
// for it. Binary files and deletions are not affected. Default: false, so a conflict changes
// nothing.
func WithWrittenConflicts(on bool) ApplyOption {
	return func(c *applyConfig) error { c.markers = on; return nil }
}

// WithWriterWait sets how long Apply waits, in total for all files, until no other process has
// one of them open for writing. It waits before it carries out the plan, and again before it
// closes the old files. Default: 1 s.
func WithWriterWait(d time.Duration) ApplyOption {
	return func(c *applyConfig) error {
		if d < 0 {
			return &aycoder.ConfigError{Option: "WithWriterWait", Err: fmt.Errorf("%s is negative", d)}
		}
		c.wait = d
		return nil
	}
}

// WithMerge sets options for the merges, such as [merge.WithTouchingEdits]. Default: labels
// that name the two sides of a conflict.
func WithMerge(opts ...merge.Option) ApplyOption {
	return func(c *applyConfig) error { c.merge = append(c.merge, opts...); return nil }
}

// newApplyConfig applies the options. The labels of conflict markers are for the model, who
// is "you" in them.
func newApplyConfig(opts []ApplyOption) (*applyConfig, error) {
	c := &applyConfig{wait: time.Second}
	c.merge = []merge.Option{merge.WithLabels("when you read it", "the file now", "your change")}
	return c, option.Apply(c, opts)
}
