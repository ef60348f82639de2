package workspace

import (
	"fmt"
	"sync/atomic"
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

	missed   atomic.Int32 // how often files were searched for again
	record   *planRecord
	recovers bool // the record was begun before, by an Apply that crashed or by Restore
	restores bool // the record was begun by a Restore that still runs
}

// WithApproved states that the plan with this [edit.Plan.Digest] was approved, either by a
// person who saw the plan or by a rule that names its files. Apply then also changes files that
// run code implicitly or instruct agents (see [Workspace]), and refuses a plan with another
// digest. Default: Apply accepts any plan that does not change such files.
func WithApproved(digest string) ApplyOption {
	return func(c *applyConfig) error { c.approved = digest; return nil }
}

// WithWrittenConflicts sets whether Apply writes a conflict into the file. If true, Apply writes
// both sides of the conflict, between markers, and carries out the rest of the plan. The outcome
// for the file is still conflicted, but Apply returns no error for it. The option has no effect
// on binary files and deletions. Default: false, so that a conflict leaves all files unchanged.
func WithWrittenConflicts(on bool) ApplyOption {
	return func(c *applyConfig) error { c.markers = on; return nil }
}

// WithWriterWait sets how long Apply waits for other processes to close files that they have open
// for writing. All files of the plan share this time. The time starts anew in each of three
// steps: before Apply first reads the files, before it exchanges them, and before it closes the
// old files and reads the new ones for the result. Apply repeats the last step if a program opens
// an old file late. Default: 1 s.
func WithWriterWait(d time.Duration) ApplyOption {
	return func(c *applyConfig) error {
		if d < 0 {
			return &aycoder.ConfigError{Option: "WithWriterWait",
				Err: fmt.Errorf("%s is negative", d)}
		}
		c.wait = d
		return nil
	}
}

// WithMerge adds options for merging files, such as [merge.WithTouchingEdits]. Default: only
// [merge.WithLabels], with labels that name the two sides of a conflict.
func WithMerge(opts ...merge.Option) ApplyOption {
	return func(c *applyConfig) error { c.merge = append(c.merge, opts...); return nil }
}

// ApplySettings are the values of options for [Workspace.Apply]. An implementation of the interface FS
// of package tools that carries out plans elsewhere needs them, since options are functions.
type ApplySettings struct {
	// Approved is the digest of [WithApproved], or "".
	Approved string
	// WrittenConflicts and WriterWait are the values of the options of these names.
	WrittenConflicts bool
	WriterWait       time.Duration
	// Merge are the options with which Apply merges files: first the default labels, then those of
	// [WithMerge].
	Merge []merge.Option
}

// SettingsOf returns the values that the options set, or their defaults.
func SettingsOf(opts ...ApplyOption) (ApplySettings, error) {
	c, err := newApplyConfig(opts)
	return ApplySettings{c.approved, c.markers, c.wait, c.merge}, err
}

// newApplyConfig applies the options. The labels of conflict markers are for the model, who
// is "you" in them.
func newApplyConfig(opts []ApplyOption) (*applyConfig, error) {
	c := &applyConfig{wait: time.Second}
	c.merge = []merge.Option{merge.WithLabels("when you read it", "the file now", "your change")}
	return c, option.Apply(c, opts)
}
