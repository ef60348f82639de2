package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/harness/project"
	"github.com/aycoder/aycoder/policy"
	"github.com/aycoder/aycoder/tokens"
	"github.com/aycoder/aycoder/tools"
)

// listed prints the lines of a list, which must be clean, or in place of an empty one what is said then.
func (c *chat) listed(lines []string, none string) (string, error) {
	for _, text := range lines {
		c.prose("", text)
	}
	if len(lines) == 0 {
		c.prose("", none)
	}
	return "", nil
}

func (c *chat) showDiff(ctx context.Context, words string) (string, error) {
	if words != "" {
		return "", c.compare(ctx, strings.Fields(words))
	}
	if c.changes == nil || len(c.changes.Files()) == 0 {
		c.line("There are no changes of a turn to show.")
		return "", nil
	}
	c.wholeDiff(c.changes.Diff())
	for _, m := range c.changes.Missing() {
		c.prose(notice, "! "+cleanLine(m))
	}
	return "", nil
}

// wholeDiff shows all of a diff, and what nobody would see in it.
func (c *chat) wholeDiff(text string) {
	c.whole = true
	c.diff(tools.EscapeInvisible(text))
	c.whole = false
}

// show prints an output of a tool whole, or lists them.
func (c *chat) show(_ context.Context, words string) (string, error) {
	o := &c.shown
	if words == "" {
		for i, out := range o.list {
			c.line(fmt.Sprintf("%4d  %s  %s", o.first+i+1, cleanLine(out.call), count(strings.Count(out.text, "\n"), "line")))
		}
		if len(o.list) == 0 {
			c.line("No tool has been called yet.")
		}
		return "", nil
	}
	n, err := strconv.Atoi(words)
	if i := n - 1 - o.first; err == nil && i >= 0 && i < len(o.list) {
		c.line(clean(o.list[i].text))
		return "", nil
	}
	return "", fmt.Errorf("there is no output %q any more: /show lists those that there are", cleanLine(words))
}

// window estimates what the next request holds.
func (c *chat) window(context.Context, string) (string, error) {
	req := &aycoder.Request{Messages: c.talk().View().Messages(c.talk().Head())}
	for _, s := range c.session.Sections {
		req.System = append(req.System, &aycoder.Text{Text: s.Text})
	}
	for _, t := range c.session.ToolsNow() {
		spec := t.Spec()
		req.Tools = append(req.Tools, &spec)
	}
	n := tokens.New().Estimate(tokens.ModelOf(c.session.Client, ""), req)
	b := n.Breakdown
	for _, part := range []struct {
		name   string
		tokens int64
	}{
		{"system prompt", b.System}, {"tools", b.Tools}, {"instructions", b.Instructions}, {"conversation", b.History},
		{"files", b.Files}, {"outputs", b.Outputs}, {"images", b.Images},
	} {
		c.line(fmt.Sprintf("%9d  %s", part.tokens, part.name))
	}
	text := fmt.Sprintf("%9d  together", n.Tokens)
	if all, source := c.session.Window(); all > 0 {
		text = fmt.Sprintf("%9d  together, %d %% of the %d of %s", n.Tokens, n.Tokens*100/all, all, source)
	}
	c.prose("", text+" (an estimate, before anything is left out)")
	return "", nil
}

// A kept rule is one that the user has made, and can take back.
type keptRule struct {
	rule  policy.Rule
	scope aycoder.Scope
}

func (c *chat) ownRules() (mine []keptRule) {
	for _, r := range c.session.Policy.Rules(policy.Session) {
		mine = append(mine, keptRule{r, aycoder.Session})
	}
	for _, r := range c.session.Policy.Rules(policy.User) {
		mine = append(mine, keptRule{r, aycoder.Saved})
	}
	return mine
}

func (c *chat) permissions(ctx context.Context, words string) (string, error) {
	p := c.session.Policy
	mine := c.ownRules()
	if n, ok := strings.CutPrefix(words, "drop "); ok {
		return "", c.dropRule(ctx, mine, strings.TrimSpace(n))
	}
	if words != "" {
		return "", errors.New("say /permissions, or /permissions drop number")
	}
	c.line("The mode is " + string(p.Mode()) + ".")
	for i, k := range mine {
		from := "of this conversation"
		if k.scope == aycoder.Saved {
			from = "of yours"
		}
		c.prose("", fmt.Sprintf("%4d  %s %s  %s", i+1, k.rule.Action, cleanLine(k.rule.String()), c.paint(faint, from)))
	}
	for _, source := range []policy.Source{policy.Managed, policy.Project} {
		for _, r := range p.Rules(source) {
			c.prose("", fmt.Sprintf("      %s %s  %s", r.Action, cleanLine(r.String()), c.paint(faint, "of "+string(source))))
		}
	}
	if len(mine) == 0 {
		c.line("You have made no rules.")
	}
	return "", nil
}

func (c *chat) dropRule(ctx context.Context, mine []keptRule, number string) error {
	n, err := strconv.Atoi(number)
	if err != nil || n < 1 || n > len(mine) {
		return fmt.Errorf("%q is not a number of /permissions", cleanLine(number))
	}
	k := mine[n-1]
	found := false
	if k.rule.Action == policy.RuleAllow {
		if found, err = c.session.Policy.DropRule(ctx, k.scope, k.rule.String()); err != nil {
			return err
		}
	}
	if !found {
		return errors.New("this rule is one of the configuration: change it there")
	}
	c.prose("", "Taken back: "+cleanLine(k.rule.String()))
	return nil
}

func (c *chat) todo(context.Context, string) (string, error) {
	return c.listed(c.tasks(tools.TodoPending, tools.TodoInProgress, tools.TodoCompleted, tools.TodoCancelled), "There are no tasks.")
}

// tasks returns the tasks with some statuses.
func (c *chat) tasks(with ...tools.TodoStatus) (list []string) {
	marks := map[tools.TodoStatus]string{
		tools.TodoPending: "[ ]", tools.TodoInProgress: "[>]", tools.TodoCompleted: "[x]", tools.TodoCancelled: "[-]",
	}
	if c.session.Todos == nil {
		return nil
	}
	for _, item := range c.session.Todos.Items() {
		if slices.Contains(with, item.Status) {
			list = append(list, marks[item.Status]+" "+cleanLine(item.Content))
		}
	}
	return list
}

const mostTasks = 3 // in the status area

// tasksAndJobs returns the rows of the status area about what is to be done, while the agent works, and about what
// works in the background: at most five.
func (c *chat) tasksAndJobs(works bool) (rows []string) {
	if c.session == nil {
		return nil
	}
	cols, height := c.Size()
	if open := append(c.tasks(tools.TodoInProgress), c.tasks(tools.TodoPending)...); works && len(open) > 0 {
		n := min(len(open), mostTasks, max(height/6, 1))
		rows = open[:n]
		if more := len(open) - n; more > 0 {
			rows = append(rows, fmt.Sprintf("    and %d more", more))
		}
	}
	var jobs []string
	for _, j := range c.backgroundJobs() {
		if j.Lives() {
			jobs = append(jobs, fit(cleanLine(j.ID+" "+j.Name), max(cols/2, 16))+" · "+seconds(time.Since(j.Started)))
		}
	}
	if len(jobs) > 0 {
		rows = append(rows, count(len(jobs), "job")+": "+strings.Join(jobs, ", "))
	}
	for i, row := range rows {
		rows[i] = c.paint(faint, fit(row, cols))
	}
	return rows
}

func (c *chat) backgroundJobs() []aycoder.Job {
	if c.session.Jobs == nil {
		return nil
	}
	return c.session.Jobs.Jobs()
}

func (c *chat) lessons(ctx context.Context, _ string) (string, error) {
	if c.session.Memory == nil {
		return c.listed(nil, "Lessons are off.")
	}
	all, err := c.session.Memory.Lessons(ctx)
	if err != nil {
		return "", err
	}
	var list []string
	for _, l := range all {
		if !l.Closed {
			list = append(list, cleanLine(string(l.Source)+": "+strings.Trim(l.Pattern+" -> "+l.Rule, " ->")))
		}
	}
	return c.listed(list, "There are no open lessons.")
}

func (c *chat) jobs(ctx context.Context, words string) (string, error) {
	if id, ok := strings.CutPrefix(words, "stop "); ok {
		id = strings.TrimSpace(id)
		if !slices.ContainsFunc(c.backgroundJobs(), func(j aycoder.Job) bool { return j.ID == id && j.Lives() }) {
			return "", fmt.Errorf("no job %q works: /jobs lists them", cleanLine(id))
		}
		return "", c.session.Jobs.Stop(ctx, id)
	}
	var list []string
	for _, j := range c.backgroundJobs() {
		list = append(list, fmt.Sprintf("%-10s %-8s %s  %s", cleanLine(j.ID), j.State, cleanLine(j.Name), cleanLine(j.Summary)))
	}
	return c.listed(list, "There are no background jobs.")
}

// library returns the commands, skills and agents that there are, which are empty if they are off.
func (c *chat) library() *project.Library {
	if c.session.Library == nil {
		return &project.Library{}
	}
	return c.session.Library.Now()
}

func (c *chat) agents(context.Context, string) (string, error) {
	var list []string
	for _, a := range c.library().Agents {
		list = append(list, cleanLine(a.Name+": "+a.Description))
	}
	for _, t := range c.session.OtherAgents {
		list = append(list, cleanLine(t.Spec().Name+": "+t.Spec().Description))
	}
	return c.listed(list, "There are no agents of this project or of yours.")
}

func (c *chat) skills(context.Context, string) (string, error) {
	lib := c.library()
	for _, w := range lib.Warnings {
		c.prose(notice, "! "+cleanLine(w.String()))
	}
	var list []string
	for _, s := range lib.Skills {
		list = append(list, "/"+cleanLine(s.Name+": "+s.Description))
	}
	for _, cmd := range lib.Commands {
		list = append(list, "/"+cleanLine(cmd.Name+" "+cmd.ArgumentHint+": "+cmd.Description))
	}
	return c.listed(list, "There are no skills or commands of this project or of yours.")
}

func (c *chat) hooks(context.Context, string) (string, error) {
	var list []string
	if c.session.Hooks != nil {
		for _, h := range c.session.Hooks.Hooks() {
			list = append(list, cleanLine(fmt.Sprintf("%s %s: %s (%s)", h.Event, h.Matcher, h.Command, h.Source)))
		}
	}
	return c.listed(list, "There are no hooks.")
}

// servers lists the servers, how they are, and what the model can call of each.
func (c *chat) servers(context.Context, string) (string, error) {
	var list []string
	for _, s := range c.session.Servers() {
		text := []string{s.Name + ": " + s.State}
		for _, t := range s.Tools {
			text = append(text, strings.TrimPrefix(t, "mcp__"+s.Name+"__"))
		}
		for _, p := range s.Prompts {
			text = append(text, "/"+p)
		}
		list = append(list, cleanLine(strings.Join(text, ", ")))
	}
	return c.listed(list, "There are no servers in the configuration.")
}

// init drafts files for the project, shows them, and writes them if the user says so.
func (c *chat) init(ctx context.Context, _ string) (string, error) {
	g, err := c.session.code()
	if err != nil {
		return "", err
	}
	var draft *project.Draft
	err = c.apart(ctx, func(ctx context.Context) error {
		s, err := g.Refresh(ctx)
		if err != nil {
			return err
		}
		known, err := g.Commands(ctx, s) // such as scripts of package.json
		if err != nil {
			return err
		}
		draft, err = project.Init(ctx, c.session.Files, known)
		return err
	})
	if err != nil {
		return "", err
	}
	for _, f := range []struct{ name, text string }{{project.ConfigFile, draft.Config}, {project.AgentsFile, draft.Agents}} {
		name := filepath.Join(c.session.Files.Dir(), filepath.FromSlash(f.name))
		if _, err := os.Lstat(name); f.text == "" || err == nil {
			continue
		}
		c.line(c.paint(bold, f.name))
		c.plain(f.text)
		key, err := c.answerKey("Write it?", yesNo)
		if err != nil || key == endOfInput {
			return "", err
		}
		if key == 'y' {
			if err := create(name, func(w io.Writer) error { _, err := io.WriteString(w, f.text); return err }); err != nil {
				return "", err
			}
		}
	}
	return "", nil
}

// create writes a new file. A file that exists stays as it is.
func create(name string, write func(io.Writer) error) (err error) {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}

// export writes the conversation to a new file, in the format that its name ends with.
func (c *chat) export(_ context.Context, name string) (string, error) {
	write := exporter(c.talk().View(), c.talk().Head(), strings.TrimPrefix(filepath.Ext(name), "."))
	if write == nil {
		return "", errors.New("say a new file: /export talk.md, .html or .json")
	}
	if err := create(name, write); err != nil {
		return "", err
	}
	c.prose("", "Written: "+cleanLine(name))
	return "", nil
}
