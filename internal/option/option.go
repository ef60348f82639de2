// Package option applies functional options in the same way in all packages except the root.
package option

import (
	"errors"

	"github.com/aycoder/aycoder"
)

// Apply applies the options to c, in order, and returns their errors joined. A nil option is an
// [*aycoder.ConfigError], as in [aycoder.New].
func Apply[C any, O ~func(C) error](c C, opts []O) error {
	errs := make([]error, 0, len(opts))
	for _, opt := range opts {
		if opt == nil {
			errs = append(errs, &aycoder.ConfigError{Option: "option", Err: errors.New("is nil")})
			continue
		}
		errs = append(errs, opt(c))
	}
	return errors.Join(errs...)
}
