package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/internal/cli/line"
	"github.com/aycoder/aycoder/policy"
	sessions "github.com/aycoder/aycoder/session"
)

// A command is what a line that begins with a slash does. It may return a prompt for the model.
type command struct {
	name, args, help string
	anytime          bool // also while the agent works
	run              func(c *chat, ctx context.Context, words string) (prompt string, err error)
}

// commands are those of the program, in the order of the help.
func commands() []command {
	return []command{
		{"help", "", "lists the commands", true, (*chat).help},
		{"mode", "[ask|accept-edits|plan|full-auto]", "says or sets what is asked about", true, (*chat).setMode},
		{"plan", "[task]", "only looks from now on, and writes a plan", false, (*chat).plan},
		{"go", "", "leaves the plan mode, and carries the plan out", false, (*chat).carryOut},
		{"model", "[name]", "chooses the model that is asked from the next turn on", true, (*chat).chooseModel},
		{"tree", "", "shows the conversation as a tree, and goes back in it, with its files", false, (*chat).tree},
		{"branch", "[number]", "goes on behind a turn (3), a message of it (3.2; 3. lists them) or at the beginning (0); the files stay as they are", false, (*chat).branch},
		{"undo", "", "takes back the last turn and its changes of files", false, (*chat).undo},
		{"redo", "", "takes that back", false, (*chat).redo},
		{"diff", "[number [number]]", "shows the changes of the last turn, or what differs between two points of /tree", false, (*chat).showDiff},
		{"show", "[number]", "shows an output of a tool whole", true, (*chat).show},
		{"cost", "[all]", "tells what the conversation has used by model, day and tool, or all of this directory", true, (*chat).cost},
		{"context", "", "tells what fills the window of the model, and what sets its size", true, (*chat).window},
		{"permissions", "[drop number]", "lists the rules in force, and takes one back", true, (*chat).permissions},
		{"todo", "", "lists the tasks of the model", true, (*chat).todo},
		{"lessons", "", "lists the lessons of the project and of the user", true, (*chat).lessons},
		{"jobs", "[stop id]", "lists what works in the background, and stops it", true, (*chat).jobs},
		{"agents", "", "lists the agents that work can be handed to", true, (*chat).agents},
		{"skills", "", "lists the skills and commands of the project and of the user", true, (*chat).skills},
		{"hooks", "", "lists the hooks", true, (*chat).hooks},
		{"mcp", "", "lists the servers and their tools", true, (*chat).servers},
		{"plugins", "[command]", "lists the plugins, or does what aycoder plugin does", false, callsOf("plugin")},
		{"config", "[show|check|schema]", "shows the configuration in force, or its mistakes", false, callsOf("config")},
		{"trust", "", "asks again what you trust of this project", false, (*chat).trustAgain},
		{"doctor", "[-online]", "checks what the program needs", false, callsOf("doctor")},
		{"init", "", "drafts a configuration and instructions for this project", false, (*chat).init},
		{"save", "label", "marks this point of the conversation, to be found in /tree", false, (*chat).mark},
		{"rename", "title", "names the conversation", false, (*chat).rename},
		{"resume", "[words]", "goes on with another conversation of this directory", false, (*chat).resume},
		{"copy", "[number]", "copies an answer, or a block of code, to the clipboard", false, (*chat).copyOut},
		{"export", "file.md|.html|.json", "writes the conversation to a new file", false, (*chat).export},
		{"compact", "[words]", "lets the model forget details; the words say what to keep", false, (*chat).compact},
		{"reload", "", "reads the configuration again, and asks about what is new in it", false, (*chat).reloadNow},
		{"clear", "", "begins a new conversation; /tree has the old one", false, (*chat).clear},
		{"quit", "", "leaves; so does ctrl-d", false, (*chat).quitNow},
	}
}

// commands are those of the program, and behind them those of extensions, which may replace some.
func (c *chat) commands() []command {
	list := commands()
	for _, e := range c.more {
		for _, s := range e.Slash {
			list = slices.DeleteFunc(list, func(cmd command) bool { return cmd.name == s.Name })
			list = append(list, command{name: s.Name, help: s.Help, anytime: true, run: func(c *chat, ctx context.Context, words string) (string, error) {
				text, err := s.Run(ctx, c.session.Runtime, words)
				if err == nil {
					c.prose("", clean(text))
				}
				return "", err
			}})
		}
	}
	return list
}

// find returns the command with a name.
func (c *chat) find(name string) (command, bool) {
	return first(c.commands(), func(cmd command) bool { return cmd.name == name })
}

// called returns the name of the command that a line calls, and the words behind it. A path such as /etc/hosts is none.
func called(line string) (name, words string, ok bool) {
	name, slash := strings.CutPrefix(line, "/")
	if i := strings.IndexAny(name, " \t\n"); i >= 0 {
		name, words = name[:i], name[i:]
	}
	if name == "exit" {
		name = "quit"
	}
	return name, strings.TrimSpace(words), slash && (name != "" || words == "") && !strings.Contains(name, "/")
}

// command carries out a line, if it is a command. Otherwise the line is the prompt that it returns. A name that
// nothing has is an error, and never reaches the model.
func (c *chat) command(ctx context.Context, line string) (prompt string, err error) {
	if script, ok := strings.CutPrefix(line, "!"); ok {
		return "", c.shell(ctx, strings.TrimSpace(script))
	}
	name, words, ok := called(line)
	if !ok {
		return line, nil
	}
	if cmd, ok := c.find(name); ok {
		return cmd.run(c, ctx, words)
	}
	names := c.libraryNames()
	if slices.Contains(names, name) {
		return line, nil
	}
	for _, cmd := range c.commands() {
		names = append(names, cmd.name)
	}
	return "", &harness.UnknownCommandError{Name: name, Similar: similar(name, names)}
}

// besides carries out a command that a user calls while the agent works. It reports whether the line calls one.
func (c *chat) besides(text string) (handled bool, err error) {
	name, _, ok := called(text)
	own := strings.HasPrefix(text, "!")
	if !ok && !own {
		return false, nil
	}
	if cmd, ok := c.find(name); own || ok && !cmd.anytime {
		return true, errors.New("not while the agent works; ctrl-c stops it")
	}
	prompt, err := c.command(context.Background(), text)
	if prompt != "" {
		err = errors.New("not while the agent works; alt-enter would send it as a text when the agent is done")
	}
	return true, err
}

// complete returns what can follow at the cursor: commands, their arguments, and behind an @ files and what they declare.
func (c *chat) complete(text string, at int) (from int, list []line.Candidate) {
	from = strings.LastIndexAny(text[:at], " \n") + 1
	word := text[from:at]
	switch {
	case from == 0 && strings.HasPrefix(word, "/"):
		for _, cmd := range c.commands() {
			list = append(list, line.Candidate{Text: "/" + cmd.name, Note: cmd.help})
		}
		for _, name := range c.libraryNames() {
			list = append(list, line.Candidate{Text: "/" + name})
		}
	case from > 0 && strings.HasPrefix(text, "/") && !strings.Contains(text[:from], "\n"):
		name, _, _ := called(text)
		args := strings.IndexByte(text, ' ') + 1
		if name == "resume" { // a title has several words
			from = args
		}
		list = c.argumentsOf(name, text[args:from])
	case strings.HasPrefix(word, "@"):
		list = c.found(word[1:])
	}
	return from, list
}

// argumentsOf returns what can stand behind the name of a command and the arguments before.
func (c *chat) argumentsOf(name, before string) (list []line.Candidate) {
	add := func(text, note string) {
		if rest, ok := strings.CutPrefix(text, before); ok {
			list = append(list, line.Candidate{Text: rest, Note: cleanLine(note)})
		}
	}
	if c.session == nil { // a question before it
		return nil
	}
	switch name {
	case "model":
		if c.settings != nil && (c.session.demo || c.settings.loaded != nil) {
			list = c.models()
		}
		return list
	case "tree", "branch":
		for i, t := range turns(c.talk().View(), c.talk().Head()) {
			add(strconv.Itoa(i+1), t.text)
		}
	case "resume":
		all, _ := c.otherSessions(context.Background()) // the command tells the error
		for _, e := range all {
			add(titleOf(&e)+" "+e.ID, e.Used.Local().Format(time.DateTime)) // titles need not differ
		}
	case "jobs":
		for _, j := range c.backgroundJobs() {
			if j.Lives() {
				add("stop "+j.ID, j.Name)
			}
		}
	case "permissions":
		for i, k := range c.ownRules() {
			add(fmt.Sprint("drop ", i+1), k.rule.String())
		}
	case "show":
		for i, out := range slices.Backward(c.shown.list) {
			add(strconv.Itoa(c.shown.first+i+1), out.call)
		}
	case "cost":
		add("all", "all conversations of this directory")
	case "doctor":
		add("-online", "ask the provider, too")
	}
	cmd, _ := c.find(name)
	if _, sub, ok := strings.Cut(cmd.args, "["); ok {
		for text := range strings.SplitSeq(strings.TrimSuffix(sub, "]"), "|") {
			if strings.Contains(cmd.args, "|") {
				list = append(list, line.Candidate{Text: text})
			}
		}
	}
	return list
}

// libraryNames are the commands and skills of the project and of the user, and the prompts of servers.
func (c *chat) libraryNames() (names []string) {
	if c.session == nil {
		return nil
	}
	for _, s := range c.session.Servers() {
		names = append(names, s.Prompts...)
	}
	lib := c.library()
	for _, cmd := range lib.Commands {
		names = append(names, cmd.Name)
	}
	for _, s := range lib.Skills {
		names = append(names, s.Name)
	}
	return names
}

// similar returns the names that may have been meant by another one, at most three.
func similar(name string, names []string) []string {
	var near []string
	for most := 1; most <= 2 && len(near) == 0; most++ {
		for _, n := range names {
			if distance(name, n) <= most && most < len(name) || len(name) > 2 && strings.HasPrefix(n, name) {
				near = append(near, n)
			}
		}
	}
	slices.Sort(near)
	near = slices.Compact(near)
	return near[:min(len(near), 3)]
}

// distance is how many letters must be inserted, removed, changed or swapped with the next one to make b of a
// (optimal string alignment).
func distance(a, b string) int {
	before, last := []int(nil), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row := []int{i + 1}
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			least := min(last[j]+cost, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				least = min(least, before[j-1]+1)
			}
			row = append(row, least)
		}
		before, last = last, row
	}
	return last[len(b)]
}

func (c *chat) help(context.Context, string) (string, error) {
	c.prose("", "Say what is to be done.\n"+
		"While the agent works, ctrl-c stops it, and what you type and end with Enter reaches the model at its next step.\n"+
		"!command runs a command, whose output the model gets with your next line.\n"+
		"@ completes names of files.\n")
	for _, cmd := range c.commands() {
		c.entry(strings.TrimSpace("/"+cmd.name+" "+cmd.args), cmd.help)
	}
	if names := c.libraryNames(); len(names) > 0 {
		c.prose("", "\nOf this project and yours: /"+cleanLine(strings.Join(names, ", /")))
	}
	return "", nil
}

// pad adds spaces up to n columns.
func pad(s string, n int) string {
	return s + strings.Repeat(" ", max(n-columns(s), 0))
}

func (c *chat) setMode(_ context.Context, words string) (string, error) {
	if words != "" {
		mode, err := policy.ParseMode(words)
		if err == nil {
			err = c.enterMode(mode)
		}
		if err != nil {
			return "", err
		}
	}
	c.line("The mode is " + string(c.session.Policy.Mode()) + ".")
	return "", nil
}

// enterMode sets the mode, and notes the one to which the plan mode goes back.
func (c *chat) enterMode(mode policy.Mode) error {
	p := c.session.Policy
	if p == nil {
		return errors.New("there are no modes here")
	}
	was := p.Mode()
	err := p.SetMode(mode)
	if err == nil && mode == policy.Plan && was != policy.Plan {
		c.before = was
	}
	return err
}

// switchPlan begins the plan mode, or ends it without carrying out a plan.
func (c *chat) switchPlan() {
	mode := policy.Plan
	c.hint = "Nothing is changed until /go, or this key again."
	if c.planning() {
		mode = cmp.Or(c.before, policy.Ask)
		c.hint = "The mode is " + string(mode) + "."
	}
	if err := c.enterMode(mode); err != nil {
		c.hint = cleanLine(err.Error())
	}
	c.renewStatus()
}

func (c *chat) planning() bool {
	p := c.session.Policy // nil if an extension decides in its place
	return p != nil && p.Mode() == policy.Plan
}

// sign is what stands in front of the line at the prompt.
func (c *chat) sign() string {
	if c.planning() {
		return strings.TrimSpace(c.label+" plan") + "> "
	}
	return c.label + "> "
}

// plan sets the mode in which nothing is changed. A task is asked at once.
func (c *chat) plan(ctx context.Context, words string) (string, error) {
	if _, err := c.setMode(ctx, string(policy.Plan)); err != nil {
		return "", err
	}
	c.line("Nothing is changed until /go.")
	if words == "" {
		return "", nil
	}
	return "Look at what is there, and write a plan for the following task. Change nothing.\n\n" + words, nil
}

func (c *chat) carryOut(ctx context.Context, _ string) (string, error) {
	if c.session.Policy.Mode() != policy.Plan {
		return "", errors.New("there is no plan: see /plan")
	}
	if _, err := c.setMode(ctx, string(cmp.Or(c.before, policy.Ask))); err != nil {
		return "", err
	}
	return "Carry out the plan.", nil
}

func (c *chat) reloadNow(ctx context.Context, _ string) (string, error) {
	if err := c.reload(ctx); err != nil {
		return "", err
	}
	c.line("The configuration was read again.")
	return "", nil
}

// clear begins a new conversation. The old one stays in the tree.
func (c *chat) clear(ctx context.Context, _ string) (string, error) {
	if _, err := c.talk().Checkout(ctx, sessions.Root, sessions.OnlyConversation()); err != nil {
		return "", err
	}
	c.session.Policy.Trust()
	c.changes = nil
	c.prose("", "A new conversation begins. /tree has the one before.")
	hooks := c.session.Hooks
	if hooks == nil {
		return "", nil
	}
	return "", c.apart(ctx, func(ctx context.Context) error {
		hooks.SessionEnd(ctx, "clear")
		if text := hooks.SessionStart(ctx, "clear"); text != "" {
			c.heard += "\n\n<hook_context>\n" + text + "\n</hook_context>\n"
		}
		return nil
	})
}

func (c *chat) quitNow(context.Context, string) (string, error) { return "", io.EOF }

func (c *chat) mark(ctx context.Context, words string) (string, error) {
	if words == "" {
		return "", errors.New("say a label: /save label")
	}
	if err := c.talk().SetLabel(ctx, c.talk().Head(), words); err != nil {
		return "", err
	}
	c.line("Marked. /tree shows it.")
	return "", nil
}

func (c *chat) rename(ctx context.Context, words string) (string, error) {
	if words == "" {
		return "", errors.New("say a title: /rename title")
	}
	if err := c.talk().SetTitle(ctx, words); err != nil {
		return "", err
	}
	c.prose("", "The conversation is called "+cleanLine(words)+".")
	return "", nil
}

// An output is what a tool gave, for /show.
type output struct{ call, text string }

// outputs are the last outputs, whose number and size are bounded.
type outputs struct {
	list  []output
	first int // the number of the first one
	size  int
}

const (
	mostOutputs    = 200
	mostOutputSize = 4 << 20 // bytes
)

// add keeps an output, and returns its number.
func (o *outputs) add(ev *aycoder.ToolFinished) int {
	text := ev.Output.Text()
	o.list = append(o.list, output{ev.Call.Name, text})
	o.size += len(text)
	for len(o.list) > mostOutputs || len(o.list) > 1 && o.size > mostOutputSize {
		o.size -= len(o.list[0].text)
		o.list, o.first = o.list[1:], o.first+1
	}
	return o.first + len(o.list)
}
