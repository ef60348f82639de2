package cli

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"strconv"
	"strings"

	"github.com/aycoder/aycoder/internal/cli/line"
)

const mostChoices = 15 // of a list that are shown at a time

// choose lets the user choose from a list: by its number, or by words, until one is left. It returns -1 if the user
// wants none. The words may have been given already.
func (c *chat) choose(ask string, list []line.Candidate, words string) (int, error) {
	for {
		left := like(list, words)
		switch n, err := strconv.Atoi(words); {
		case err == nil && n > 0 && n <= len(list):
			return n - 1, nil
		case len(left) == 1 && words != "":
			return left[0], nil
		case len(left) == 0:
			c.prose("", fmt.Sprintf("  Nothing is like %q.", cleanLine(words)))
			left = like(list, "")
		}
		shown, wide := left[:min(len(left), mostChoices)], 0
		for _, i := range shown {
			wide = max(wide, columns(cleanLine(list[i].Text)))
		}
		for _, i := range shown {
			text := pad(cleanLine(list[i].Text), min(wide, c.width()/2))
			c.line(fit(fmt.Sprintf("%4d  %s  %s", i+1, text, c.paint(faint, cleanLine(list[i].Note))), c.width()))
		}
		if more := len(left) - mostChoices; more > 0 {
			c.line(fmt.Sprintf("      and %d more", more))
		}
		text, err := c.readLine("  "+ask+" (number or words): ", "")
		if words = strings.TrimSpace(text); err != nil || words == "" {
			return -1, err
		}
	}
}

// like returns the indexes of the candidates that have all words. If one is just that, it is the only one.
func like(list []line.Candidate, words string) (found []int) {
	for i, cand := range list {
		if cand.Text == words {
			return []int{i}
		}
		text, has := strings.ToLower(cand.Text+" "+cand.Note), true
		for w := range strings.FieldsSeq(strings.ToLower(words)) {
			has = has && strings.Contains(text, w)
		}
		if has {
			found = append(found, i)
		}
	}
	return found
}

// callsOf returns the slash command that does what a command of the program does, such as "aycoder config check".
func callsOf(name string) func(*chat, context.Context, string) (string, error) {
	return func(c *chat, ctx context.Context, words string) (string, error) {
		sub, _ := c.app.subcommand(name)
		var b strings.Builder
		k := &call{app: c.app, out: &b, args: strings.Fields(words)}
		err := k.parse(sub)
		switch {
		case errors.Is(err, flag.ErrHelp):
			b.WriteString(sub.usage(c.width()))
			err = nil
		case err == nil:
			err = c.apart(ctx, func(ctx context.Context) error { return sub.run(ctx, k) })
		}
		switch text := strings.TrimRight(b.String(), "\n"); {
		case json.Valid([]byte(text)): // is not for reading only
			c.line(clean(text))
		case text != "":
			c.prose("", clean(text))
		}
		return "", err
	}
}
