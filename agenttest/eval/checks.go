package eval

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/aycoder/aycoder/internal/proc"
	"github.com/aycoder/aycoder/internal/regular"
)

// Check returns what is wrong with an outcome, or nil. It may be called by several goroutines.
type Check func(ctx context.Context, o *Outcome) error

const maxFile = 64 << 20 // bytes of a file that a check reads

// file returns the content of a regular file in the directory. A link does not lead out of it.
func (o *Outcome) file(name string) (string, error) {
	root, err := os.OpenRoot(o.Dir)
	if err != nil {
		return "", err
	}
	defer root.Close()
	data, err := regular.ReadIn(root, filepath.FromSlash(name), maxFile)
	return string(data), err
}

// FileIs requires that a file has a text.
func FileIs(name, text string) Check {
	return func(_ context.Context, o *Outcome) error {
		got, err := o.file(name)
		if err == nil && got != text {
			err = fmt.Errorf("%s is %s, and should be %s", name, quote(got), quote(text))
		}
		return err
	}
}

// FileMatches requires that a regular expression is found in a file. It panics if the expression is wrong.
func FileMatches(name, expression string) Check {
	re := regexp.MustCompile(expression)
	return func(_ context.Context, o *Outcome) error {
		got, err := o.file(name)
		if err == nil && !re.MatchString(got) {
			err = fmt.Errorf("%s does not match %q: it is %s", name, expression, quote(got))
		}
		return err
	}
}

// NoFile requires that there is no file of a name.
func NoFile(name string) Check {
	return func(_ context.Context, o *Outcome) error {
		_, err := o.file(name)
		switch {
		case err == nil:
			return fmt.Errorf("%s is there", name)
		case errors.Is(err, fs.ErrNotExist):
			return nil
		}
		return err
	}
}

// Unchanged requires that files are as they were at the beginning.
func Unchanged(names ...string) Check {
	return func(ctx context.Context, o *Outcome) error {
		var errs []error
		for _, name := range names {
			text, ok := o.Before[name]
			if !ok {
				errs = append(errs, fmt.Errorf("%s was not there at the beginning", name))
				continue
			}
			errs = append(errs, FileIs(name, text)(ctx, o))
		}
		return errors.Join(errs...)
	}
}

const (
	maxOutput   = 64 << 10 // bytes of a command's output
	commandWait = 2 * time.Second
)

// Command requires that a program exits with 0, in the directory. Processes that it has started end with it, except on
// Windows. It runs with the rights of this process, and with what the agent wrote, so an evaluation of an agent that is
// not trusted belongs in a sandbox.
func Command(name string, args ...string) Check {
	return func(ctx context.Context, o *Outcome) error {
		argv := append([]string{name}, args...)
		out := &proc.Tail{Max: maxOutput}
		res, err := proc.Run(ctx, &proc.Command{Argv: argv, Dir: o.Dir, Env: os.Environ(), Output: out, Memory: -1})
		switch {
		case errors.Is(err, proc.ErrUnsupported):
			cmd := exec.CommandContext(ctx, name, args...)
			cmd.Dir, cmd.WaitDelay, cmd.Stdout, cmd.Stderr = o.Dir, commandWait, out, out
			err = cmd.Run()
		case err == nil && res.Signal != "":
			err = errors.New(res.Signal)
		case err == nil && res.Code != 0:
			err = fmt.Errorf("exit status %d", res.Code)
		}
		if err != nil {
			return fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, quote(out.Text()))
		}
		return nil
	}
}

// Called requires that a tool was called at least so many times without an error.
func Called(tool string, times int) Check {
	return func(_ context.Context, o *Outcome) error {
		n := 0
		for _, c := range o.Calls {
			if c.Name == tool && !c.Failed {
				n++
			}
		}
		if n < times {
			return fmt.Errorf("%s was called %d times, and should be called %d times", tool, n, times)
		}
		return nil
	}
}

// NotCalled requires that a tool was not called, not even in vain.
func NotCalled(tool string) Check {
	return func(_ context.Context, o *Outcome) error {
		for _, c := range o.Calls {
			if c.Name == tool {
				return fmt.Errorf("%s was called with %s", tool, quote(c.Args))
			}
		}
		return nil
	}
}

// AnswerMatches requires that a regular expression is found in the last answer. It panics if the expression is wrong.
func AnswerMatches(expression string) Check {
	re := regexp.MustCompile(expression)
	return func(_ context.Context, o *Outcome) error {
		if !re.MatchString(o.Answer) {
			return fmt.Errorf("the answer does not match %q: it is %s", expression, quote(o.Answer))
		}
		return nil
	}
}

// CostAtMost requires that the try cost at most so many US dollars, and that the price of each answer is known.
func CostAtMost(dollars float64) Check {
	return func(_ context.Context, o *Outcome) error {
		switch {
		case o.Cost > dollars:
			return fmt.Errorf("it cost $%.4f, and may cost $%.4f", o.Cost, dollars)
		case o.Unpriced > 0:
			return fmt.Errorf("%d answers have no known price", o.Unpriced)
		}
		return nil
	}
}

// TurnsAtMost requires that the models answered at most so many times.
func TurnsAtMost(turns int) Check {
	return func(_ context.Context, o *Outcome) error {
		if o.Turns > turns {
			return fmt.Errorf("it took %d turns, and may take %d", o.Turns, turns)
		}
		return nil
	}
}

const maxQuote = 300 // bytes

// quote shortens a text for a message.
func quote(s string) string {
	if len(s) > maxQuote {
		s = strings.ToValidUTF8(s[:maxQuote], "") + "…"
	}
	return fmt.Sprintf("%q", s)
}
