package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/tools"
)

// questions lets the model ask the user.
func (a *asks) questions() harness.Option {
	return harness.WithAskUser(func(ctx context.Context, q tools.Question) (tools.Answer, error) {
		answer := put(ctx, a, func(c *chat) *tools.Answer { return c.inquire(&q) })
		if answer == nil {
			return tools.Answer{}, cmp.Or(context.Cause(ctx), tools.ErrNoUser)
		}
		return *answer, nil
	})
}

// inquire puts a question of the model to the user. It returns nil if nobody is there any more.
func (c *chat) inquire(q *tools.Question) *tools.Answer {
	c.saidAll()
	c.fresh()
	c.headline("question", "  from the model")
	c.whole = true
	c.plain(q.Text)
	c.whole = false
	var may choices
	for i, o := range q.Options {
		c.prose("", fmt.Sprintf("  %d  %s", i+1, cleanLine(o)))
		if !q.Multiple && i < 9 {
			may = append(may, strconv.Itoa(i+1))
		}
	}
	may = append(may, "t type it", "n none")
	hint := ""
	if len(q.Options) > 0 {
		hint = "numbers or words, "
	}
	for {
		key, err := c.answerKey("Your answer?", may)
		switch {
		case c.halted(err) || err != nil || key == endOfInput:
			return nil
		case key == 'n':
			return &tools.Answer{}
		case key != 't':
			return &tools.Answer{Options: []int{int(key - '1')}}
		}
		line, err := c.readLine("  Answer ("+hint+"Enter: back to the question): ", "")
		if c.halted(err) || err != nil {
			return nil
		}
		if line = strings.TrimSpace(line); line != "" {
			return answerOf(q, line)
		}
	}
}

// answerOf returns what a line answers: options by their numbers, or words.
func answerOf(q *tools.Question, line string) *tools.Answer {
	var a tools.Answer
	for _, word := range strings.FieldsFunc(line, func(r rune) bool { return r == ' ' || r == ',' }) {
		n, err := strconv.Atoi(word)
		if err != nil || n < 1 || n > len(q.Options) || !q.Multiple && len(a.Options) > 0 {
			return &tools.Answer{Text: line}
		}
		if !slices.Contains(a.Options, n-1) {
			a.Options = append(a.Options, n-1)
		}
	}
	return &a
}
