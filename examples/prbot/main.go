// Prbot reviews a pull request on GitHub with the commands of gh, and posts the review as a comment. It is one of the programs
// that docs/migration.md compares with those that it does the work of.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/policy"
	"github.com/aycoder/aycoder/providers"
	"github.com/aycoder/aycoder/tools"
)

func main() {
	err := errors.New("usage: prbot OWNER/REPO NUMBER")
	if len(os.Args) == 3 {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
		defer stop()
		err = run(ctx, os.Stdout, os.Args[1], os.Args[2])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "prbot:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, repo, number string) error {
	model, err := providers.Open(os.Getenv("PRBOT_MODEL")) // such as openai/gpt-5.1-codex
	if err != nil {
		return err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return err
	}
	store, err := journal.Dir(filepath.Join(cache, "prbot"))
	if err != nil {
		return err
	}
	return review(ctx, out, model, store, ".", repo, number)
}

// review reviews a pull request. The agent can do what the rules name, and nobody is asked about anything else.
func review(ctx context.Context, out io.Writer, model aycoder.ModelClient, store journal.Store, dir, repo, number string) error {
	if n, err := strconv.Atoi(number); err != nil || n <= 0 || strings.Trim(repo, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./") != "" {
		return fmt.Errorf("%q is not the number of a pull request, or %q is not a repository", number, repo)
	}
	instructions, err := os.ReadFile(filepath.Join(dir, "pr-review-instructions.md"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	post, err := comment(repo, number)
	if err != nil {
		return err
	}
	diff := fmt.Sprintf("gh pr diff %s --repo %s", number, repo)
	view := fmt.Sprintf("gh pr view %s --repo %s --json title,body,labels,files", number, repo)
	// A star at the end would allow further options, such as another --repo.
	rules := []policy.Rule{{Action: policy.RuleAllow, Tool: "comment"}}
	for _, command := range []string{diff, view} {
		rules = append(rules, policy.Rule{Action: policy.RuleAllow, Tool: "bash", Class: "network", Pattern: command})
	}
	rt, err := harness.New(ctx, dir, harness.WithClient(model), harness.WithStore(store, ""), harness.WithTools(post),
		harness.WithSection("instructions", string(instructions)), harness.WithQuestions(aycoder.DenyAsks),
		harness.WithPolicyOptions(policy.WithRules(policy.User, rules...)))
	if err != nil {
		return err
	}
	defer rt.Close()
	prompt := fmt.Sprintf("Review pull request %s of %s:\n1. %s\n2. %s\n3. Review the change by your instructions.\n4. Post the review with the tool comment.",
		number, repo, diff, view)
	var res aycoder.Result
	for ev, err := range rt.Run(ctx, aycoder.Input{Prompt: prompt}, aycoder.Into(&res)) {
		if err != nil {
			return err
		}
		switch ev := ev.(type) {
		case *aycoder.TextDelta:
			fmt.Fprint(out, tools.EscapeInvisible(ev.Text))
		case *aycoder.ToolFinished:
			fmt.Fprintf(out, "\n[%s %s: %s]\n", ev.Call.Name, tools.EscapeInvisible(ev.Subject), tools.EscapeInvisible(ev.Summary))
		}
	}
	u := res.Usage
	fmt.Fprintf(out, "\n[tokens: %d in, %d cached, %d out; session %s]\n", u.Input, u.CacheRead, u.Output, rt.Session.ID())
	return nil
}

// comment returns the tool that posts the review. The model gives a text alone, so that no option of gh names a file to post.
func comment(repo, number string) (aycoder.Tool, error) {
	type args struct {
		Text string `json:"text"`
	}
	post := func(ctx context.Context, _ *aycoder.Invocation, in args) (*aycoder.ToolResult, error) {
		cmd := exec.CommandContext(ctx, "gh", "pr", "comment", number, "--repo", repo, "--body-file", "-")
		cmd.Stdin, cmd.WaitDelay = strings.NewReader(in.Text), time.Second
		out, err := cmd.CombinedOutput()
		if err != nil {
			return nil, fmt.Errorf("gh: %w: %s", err, out)
		}
		return aycoder.TextResult(string(out)), nil
	}
	return aycoder.NewTool("comment", "Posts a comment on the pull request.", post,
		aycoder.WithEffect(aycoder.EffectWrite), aycoder.WithHints(false, true))
}
