package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/policy"
)

// ask asks the user for an approval. Only keys that are typed after the question answer
// it; earlier text stays for the next prompt. End of input means no.
func (c *chat) ask(a *aycoder.ApprovalRequested) {
	start := time.Now()
	what := "Run it?"
	if isDiff(a.Request.Preview) {
		what = "Apply?"
	}
	c.question(&a.Request, false)
	c.opened = nil
	for done := false; !done && !c.stopping; {
		done = c.answer(a, what)
	}
	c.waited += time.Since(start)
}

// question shows the request.
func (v *view) question(r *aycoder.ApprovalRequest, whole bool) {
	v.saidAll()
	v.whole = whole
	defer func() { v.whole = false }()
	v.fresh()
	plain := 0 // reasons that the user sees anyway
	if isDiff(r.Preview) {
		plain = 1 // it changes files
		v.headline(cleanLine(r.Tool), " "+cleanLine(r.Subject))
		v.diff(r.Preview)
	} else {
		v.headline(cleanLine(r.Tool), "")
		if r.Preview != "" {
			v.plain(r.Preview)
		}
		if r.Preview == "" || whole {
			v.arguments(r.Args)
		}
	}
	if len(r.Reasons) > plain {
		v.prose(faint, "  "+words(r.Class)+": "+cleanLine(strings.Join(r.Reasons, ", ")))
	}
}

// isDiff reports whether a preview is a diff of files.
func isDiff(preview string) bool {
	return strings.HasPrefix(preview, "--- ") || strings.HasPrefix(preview, "diff --git ")
}

// plain shows all of some lines, broken between words.
func (v *view) plain(text string) {
	for _, line := range fold(clean(text), v.most(previewLines)) {
		v.barred(line)
	}
}

// words formats a name such as needs_approval for people.
func words(name string) string { return cleanLine(strings.ReplaceAll(name, "_", " ")) }

// arguments shows every argument of a call, with lines of any length, because the user
// must see everything that is approved.
func (v *view) arguments(raw json.RawMessage) {
	for _, text := range named(raw) {
		v.plain(text)
	}
}

// named returns the arguments as "name: value", sorted by name.
func named(raw json.RawMessage) []string {
	var args map[string]any
	if json.Unmarshal(raw, &args) != nil {
		return []string{string(raw)}
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(args)) {
		text, ok := args[name].(string)
		if !ok {
			b, _ := json.Marshal(args[name]) // it was decoded from JSON
			text = string(b)
		}
		out = append(out, name+": "+strings.ReplaceAll(text, "\n", "\n  ")) // so that no line of it looks like another argument
	}
	return out
}

// answer asks for one answer. It reports whether the request is settled.
func (c *chat) answer(a *aycoder.ApprovalRequested, what string) bool {
	key, err := c.answerKey(what, mayCall(&a.Request))
	if err != nil || key == endOfInput {
		return c.unanswered(a, err)
	}
	switch key {
	case 'y':
		a.Allow()
		return true
	case 'n':
		return c.refuse(a)
	case 'a':
		return c.always(a)
	case 'e':
		return c.change(a)
	case 'p':
		return c.pickHunks(a)
	case '?':
		c.question(&a.Request, true)
		c.prose("", askHelp)
	}
	return false
}

const askHelp = `  y  do it once
  n  do not, and tell the model why
  p  do some of it: each hunk of the change is asked about, if there are several
  a  do it, and do not ask again about the like, in this session or ever
  e  change the arguments first
  ?  show all of it, and this
  ctrl-c  stop; the conversation is kept`

func (c *chat) refuse(a *aycoder.ApprovalRequested) bool {
	reason, err := c.readLine("  Tell the model why (Enter to skip): ", "")
	if c.halted(err) {
		return true
	}
	a.Deny(strings.TrimSpace(reason))
	return true
}

// always lets the user choose one of the suggested rules.
func (c *chat) always(a *aycoder.ApprovalRequested) bool {
	rules := a.Request.Suggested
	if len(rules) == 0 {
		c.prose("", "  No rule can describe this call; answer y or n.")
		return false
	}
	c.line("  Do not ask again about")
	for i, r := range rules {
		c.prose("", fmt.Sprintf("  %d  %s", i+1, describe(r)))
	}
	line, err := c.readLine("  Number, with s to save it for this directory (Enter: back to the question): ", "")
	if c.halted(err) {
		return true
	}
	rule, scope, ok := chosenRule(line, rules)
	if err != nil || !ok {
		return false
	}
	err = a.AllowFor(scope, rule)
	if err == nil {
		return true
	}
	c.prose("", "  "+clean(err.Error()))
	return is[*aycoder.RuleError](err) || errors.Is(err, aycoder.ErrDecided)
}

// chosenRule returns the rule that a line chooses by its number, and how long it holds.
func chosenRule(line string, rules []string) (rule string, scope aycoder.Scope, ok bool) {
	number, save := strings.CutSuffix(strings.TrimSpace(line), "s")
	if scope = aycoder.Session; save {
		scope = aycoder.Saved
	}
	n, err := strconv.Atoi(strings.TrimSpace(number))
	if err != nil || n < 1 || n > len(rules) {
		return "", scope, false
	}
	return rules[n-1], scope, true
}

// describe describes in words what a rule of the policy covers.
func describe(text string) string {
	r, err := policy.ParseRule(policy.RuleAllow, text)
	if err != nil {
		return cleanLine(text)
	}
	pattern := strings.NewReplacer(`\\`, `\`, `\*`, "*").Replace(r.Pattern)
	wild := strings.Contains(strings.ReplaceAll(r.Pattern, `\*`, ""), "*")
	dir, _ := strings.CutSuffix(pattern, "*")
	switch {
	case pattern == "":
		return "every call of " + cleanLine(r.Tool)
	case pattern == "*":
		return cleanLine(r.Tool) + " of files in this directory (not in those below it)"
	case wild && strings.HasSuffix(dir, "/"):
		return cleanLine(r.Tool) + " of files in " + cleanLine(dir)
	case wild:
		like := cleanLine(r.Tool+" like: "+pattern) + " (* is any words)"
		if r.Class != "" {
			like += ", at most " + words(r.Class)
		}
		return like
	}
	return cleanLine(r.Tool + " of exactly: " + pattern)
}

// change lets the user edit the arguments. Invalid ones leave the request open.
func (c *chat) change(a *aycoder.ApprovalRequested) bool {
	args, err := c.editArgs(a.Request.Args)
	switch {
	case c.halted(err):
		return true
	case err == io.EOF:
		a.Deny("end of input: nobody is there to approve")
		return true
	case err != nil:
		c.prose(red, "  "+clean(err.Error()))
		return false
	case args == nil:
		c.line("  Nothing was changed.")
		return false
	}
	if err := a.AllowWith(args); err != nil {
		c.prose(red, "  "+clean(err.Error()))
		return errors.Is(err, aycoder.ErrDecided)
	}
	return true
}

// editArgs returns the edited arguments, or nil if they are unchanged.
func (c *chat) editArgs(args json.RawMessage) (json.RawMessage, error) {
	var old, now bytes.Buffer
	if err := json.Compact(&old, args); err != nil {
		return nil, err
	}
	edited, err := c.editText(old.Bytes())
	if err != nil {
		return nil, err
	}
	if err := json.Compact(&now, bytes.TrimSpace(edited)); err != nil {
		return nil, fmt.Errorf("the arguments are not JSON: %w", err)
	}
	if bytes.Equal(old.Bytes(), now.Bytes()) {
		return nil, nil
	}
	return now.Bytes(), nil
}

// editText uses the user's editor or, if none is configured, the prompt.
func (c *chat) editText(args []byte) ([]byte, error) {
	if c.edit != nil {
		var pretty bytes.Buffer
		if err := json.Indent(&pretty, args, "", "  "); err != nil {
			return nil, err
		}
		return c.editAgain(".json", pretty.Bytes())
	}
	line, err := c.readLine("  Arguments: ", string(escapeJSON(args)))
	return []byte(line), err
}
