// Review reviews a project, and can fix what it finds and review the fixes until nothing critical is left. It is one of the
// programs that docs/migration.md compares with those that it does the work of.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/policy"
	"github.com/aycoder/aycoder/providers"
	"github.com/aycoder/aycoder/tools"
)

const (
	system = "You review code. Report bugs, security problems and what is hard to maintain, each with its file and line and as " +
		"critical, warning or suggestion. End with one line: ALL_CLEAR if nothing critical is left, or else CRITICAL_REMAINING: and their number."
	explore = "Look at all source files of this directory. Say in a few words what the project is, then review it."
	fix     = "Apply the fixes that you recommend. "
)

type options struct {
	fix, again bool
	passes     int
}

func main() {
	var o options
	flag.BoolVar(&o.fix, "fix", false, "apply the fixes")
	flag.BoolVar(&o.again, "again", false, "apply the fixes, and review them until nothing critical is left")
	flag.IntVar(&o.passes, "passes", 5, "most reviews with -again")
	dir := flag.String("dir", ".", "directory to review")
	model := flag.String("model", "anthropic/claude-sonnet-4-5", "model")
	flag.Parse()
	client, err := providers.Open(*model)
	if err == nil {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
		defer stop()
		err = review(ctx, os.Stdout, client, *dir, strings.Join(flag.Args(), " "), o)
	}
	if e, ok := errors.AsType[*aycoder.AuthError](err); ok {
		err = fmt.Errorf("%w; set the key of %s in the environment", err, e.Provider)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "review:", err)
		os.Exit(1)
	}
}

// review does one review, or several with the fixes between them.
func review(ctx context.Context, out io.Writer, model aycoder.ModelClient, dir, prompt string, o options) error {
	mode := policy.Plan // nobody is asked: a review only reads, and a fix also edits files
	if o.fix || o.again {
		mode = policy.AcceptEdits
	}
	rt, err := harness.New(ctx, dir, harness.WithClient(model), harness.WithSection("review", system),
		harness.WithQuestions(aycoder.DenyAsks), harness.WithPolicyOptions(policy.WithMode(mode)))
	if err != nil {
		return err
	}
	defer rt.Close()
	if prompt == "" {
		prompt = explore
	}
	if o.fix || o.again {
		prompt = fix + prompt
	}
	for pass := 1; ; pass++ {
		text, edited, err := once(ctx, out, rt, prompt)
		clear := strings.HasSuffix(strings.TrimSpace(text), "ALL_CLEAR")
		switch {
		case err != nil:
			return err
		case !o.again:
		case clear && len(edited) == 0:
			fmt.Fprintln(out, "[nothing critical is left]")
		case len(edited) == 0:
			fmt.Fprintln(out, "[no file was changed, so this is all]")
		case pass >= o.passes:
			fmt.Fprintf(out, "[%d reviews were made, and something may be left]\n", pass)
		default:
			prompt = "Review these changed files again: " + strings.Join(edited, ", ") + ". Did the fixes break something? Fix what is critical or a warning."
			continue
		}
		return nil
	}
}

// once does a review, and returns its last text and the files that it has changed.
func once(ctx context.Context, out io.Writer, rt *harness.Runtime, prompt string) (string, []string, error) {
	var res aycoder.Result
	edited := map[string]bool{}
	for ev, err := range rt.Run(ctx, aycoder.Input{Prompt: prompt}, aycoder.Into(&res)) {
		if err != nil {
			return "", nil, err
		}
		switch ev := ev.(type) {
		case *aycoder.TextDelta:
			fmt.Fprint(out, tools.EscapeInvisible(ev.Text))
		case *aycoder.ToolFinished:
			fmt.Fprintf(out, "\n[%s %s: %s]\n", ev.Call.Name, tools.EscapeInvisible(ev.Subject), tools.EscapeInvisible(ev.Summary))
			for path := range changed(ev) {
				edited[path] = true
			}
		}
	}
	fmt.Fprintf(out, "\n[%d files changed]\n", len(edited))
	return res.Text(), slices.Sorted(maps.Keys(edited)), nil
}

// changed yields the files that a call has really changed.
func changed(ev *aycoder.ToolFinished) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		if ev.Changes == nil {
			return
		}
		for _, f := range ev.Changes.Files {
			if f.Written && !yield(f.Path) {
				return
			}
		}
	}
}
