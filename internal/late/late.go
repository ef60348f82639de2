// Package late makes values when they are first needed. A program that links many packages does not pay for the
// regular expressions of all of them when it starts.
package late

import (
	"regexp"
	"sync"
)

// Regexp returns a function that returns a regular expression, which it compiles at the first call. The function may
// be called by several goroutines. It panics if the expression is wrong.
//
//go:noinline
func Regexp(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}
