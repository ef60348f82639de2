package policy

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// Configured is what a configuration says about approvals. See [Policy.Configure].
type Configured struct {
	// Mode is the mode, or "" to keep the one that is in force.
	Mode Mode
	// Least is the least strict mode that may be in force, such as that of an administrator, or "". It also limits
	// [WithMode], [Policy.SetMode] and the mode of a session that is resumed.
	Least Mode
	// Rules are the rules of each source.
	Rules map[Source][]Rule
}

// Configure sets the rules and the mode of a configuration that can change while the policy is used. The rules add to
// those of [WithRules], [WithFile] and [Policy.KeepRule], and the next Configure replaces them. All of it takes effect
// at once: a decision that has begun is made without any of it, and a later one with all of it. If Configure returns
// an error, nothing has changed.
func (p *Policy) Configure(c Configured) error {
	for _, m := range []Mode{c.Mode, c.Least} {
		if _, err := ParseMode(string(cmp.Or(m, Ask))); err != nil {
			return err
		}
	}
	return p.change(func(s *snapshot) error {
		s.least = c.Least
		s.mode = s.atLeast(cmp.Or(c.Mode, s.mode))
		old := func(r rule) bool { return r.order == 1 }
		s.rules = slices.DeleteFunc(slices.Clone(s.rules), old)
		s.ignored = slices.DeleteFunc(slices.Clone(s.ignored), old)
		var errs []error
		for source, entries := range c.Rules {
			if source.rank() < 0 {
				errs = append(errs, noSource(source))
				continue
			}
			errs = append(errs, s.insert(p, source, entries, 1))
		}
		return errors.Join(errs...)
	})
}

// atLeast returns a mode, or the least strict one that may be in force.
func (s *snapshot) atLeast(m Mode) Mode {
	order := []Mode{FullAuto, AcceptEdits, Ask, Plan}
	if slices.Index(order, m) < slices.Index(order, s.least) {
		return s.least
	}
	return m
}

func noSource(source Source) error {
	return fmt.Errorf("no source %q; there are managed, user, session and project", source)
}
