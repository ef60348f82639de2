package hooks

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"time"

	"github.com/aycoder/aycoder/internal/jsontext"
	"github.com/aycoder/aycoder/internal/late"
	"github.com/aycoder/aycoder/internal/program"
	"github.com/aycoder/aycoder/internal/rawjson"
)

// Event is the moment at which a hook runs.
type Event string

// The events.
const (
	PreToolUse         Event = "PreToolUse"
	PostToolUse        Event = "PostToolUse"
	PostToolUseFailure Event = "PostToolUseFailure"
	PermissionRequest  Event = "PermissionRequest"
	PermissionDenied   Event = "PermissionDenied"
	UserPromptSubmit   Event = "UserPromptSubmit"
	Stop               Event = "Stop"
	SubagentStart      Event = "SubagentStart"
	SubagentStop       Event = "SubagentStop"
	PreCompact         Event = "PreCompact"
	Notification       Event = "Notification"
	SessionStart       Event = "SessionStart"
	SessionEnd         Event = "SessionEnd"
)

var events = []Event{PreToolUse, PostToolUse, PostToolUseFailure, PermissionRequest, PermissionDenied,
	UserPromptSubmit, Stop, SubagentStart, SubagentStop, PreCompact, Notification, SessionStart, SessionEnd}

const (
	defaultTimeout = time.Minute
	longestTimeout = 10 * time.Minute
	maxHooks       = 256
	maxCommand     = 64 << 10
	maxMatcher     = 1 << 10
)

// Hook is a command that runs at an event.
type Hook struct {
	Event Event
	// Matcher selects tools, or the source, reason, trigger or type of other events. "" and "*" match all.
	// Letters, digits, "_" and "|" alone are names, of which one must be equal. Anything else is a regular
	// expression, which may match a part of the name.
	Matcher string
	// Command is a command for a shell.
	Command string
	// Call answers in place of Command, unless it is nil: it gets what the command would read, and returns what the command
	// would write with exit code 0. Its error means that the hook did not work. It must return soon after ctx has ended, and
	// be safe for concurrent use. Command then only names the hook in messages.
	Call func(ctx context.Context, input []byte) (output []byte, err error)
	// Timeout is at most 10 minutes; longer ones are cut to that. Default: 1 minute.
	Timeout time.Duration
	// Source tells the user where the hook comes from, such as "settings.json:12". It may be empty.
	Source string
	// Line and Column say where the hook begins in the file that [Parse] has read. They are 1-based, and columns are
	// bytes.
	Line, Column int
	// Env are variables of this hook, as "NAME=value", beside those of [Config].
	Env []string
	// Verify is called right before the hook runs, unless it is nil: its error means that the hook cannot run. So a
	// host checks that a script is still the one that the user has allowed.
	Verify func() error
}

// Problem is something in a file that is not understood.
type Problem struct {
	Line    int // from 1
	Message string
}

// check returns what makes a hook unusable. It compiles no matcher, which can take long, since nobody may trust the hook.
func (h *Hook) check() error {
	switch {
	case !slices.Contains(events, h.Event):
		return fmt.Errorf("there is no event %.80q", h.Event)
	case strings.TrimSpace(h.Command) == "":
		return errors.New("the command is empty")
	case len(h.Command) > maxCommand || strings.ContainsRune(h.Command, 0):
		return fmt.Errorf("the command has a NUL or more than %d bytes", maxCommand)
	case h.Timeout < 0:
		return errors.New("the timeout is negative")
	case len(h.Matcher) > maxMatcher:
		return fmt.Errorf("the matcher has more than %d bytes", maxMatcher)
	case h.all():
		return nil
	}
	if _, err := syntax.Parse(h.Matcher, syntax.Perl); err != nil {
		return fmt.Errorf("matcher %.80q: %w", h.Matcher, err)
	}
	return nil
}

// all reports whether a hook is for all tools.
func (h *Hook) all() bool { return h.Matcher == "" || h.Matcher == "*" }

// compiled returns the matcher of a hook, or nil for all tools. The error is that of check.
func (h *Hook) compiled() (*regexp.Regexp, error) {
	if err := h.check(); err != nil || h.all() {
		return nil, err
	}
	if names().MatchString(h.Matcher) {
		return regexp.Compile("^(?:" + h.Matcher + ")$")
	}
	return regexp.Compile(h.Matcher)
}

var names = late.Regexp(`^[A-Za-z0-9_|]+$`)

// Parse reads the hooks in settings of the form of .claude/settings.json, or in the hooks.json of a plugin.
// Other keys than "hooks" are reported and ignored. A hook that is not understood is left out, and reported. name is
// the name of the file, for [Hook].Source.
func Parse(name string, data []byte) ([]Hook, []Problem) {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	p := &parser{name: name, data: data}
	if at, err := jsontext.Syntax(data); err != nil {
		p.at = at
		p.problem("%v", err)
		return nil, p.problems
	}
	p.json = rawjson.NewReader(string(data))
	p.each("the settings", '{', func(key string) {
		switch key {
		case "hooks":
			p.each("hooks", '{', p.event)
		case "description", "$schema":
		default:
			p.problem("the key %.80q is ignored", key)
		}
	})
	return p.hooks, p.problems
}

// A parser walks through a file from its beginning to its end.
type parser struct {
	name     string
	data     []byte
	json     *rawjson.Reader
	at       int // where the value begins that is looked at
	hooks    []Hook
	problems []Problem
}

func (p *parser) line() int {
	return bytes.Count(p.data[:min(p.at, len(p.data))], []byte("\n")) + 1
}

func (p *parser) problem(format string, args ...any) {
	if len(p.problems) < maxHooks {
		p.problems = append(p.problems, Problem{p.line(), fmt.Sprintf(format, args...)})
	}
}

// each calls f for each element of the value that comes next, also for members of the same name. f gets the key of a
// member, and need not read its value.
func (p *parser) each(what string, open byte, f func(key string)) {
	p.at = p.json.Offset()
	if p.json.Kind() != open {
		p.problem("%s must be %s", what, map[byte]string{'{': "an object", '[': "a list"}[open])
		return
	}
	if open == '{' {
		p.json.Object()
	} else {
		p.json.Array()
	}
	for p.json.Next() {
		p.at = p.json.Offset()
		f(p.json.Key())
	}
}

// event reads the groups of an event.
func (p *parser) event(name string) {
	if !slices.Contains(events, Event(name)) {
		p.problem("there is no event %.80q", name)
		return
	}
	p.each(name, '[', func(string) {
		var g struct {
			Matcher string `json:"matcher"`
		}
		ahead := *p.json // since the matcher may come after the hooks
		if err := json.Unmarshal([]byte(ahead.Raw()), &g); err != nil {
			p.problem("a group of %s: %v", name, err)
			return
		}
		p.each("a group of "+name, '{', func(key string) {
			switch key {
			case "hooks":
				p.each("hooks", '[', func(string) { p.handler(Event(name), g.Matcher) })
			case "matcher", "description":
			default:
				p.problem("the key %.80q of a group is ignored", key)
			}
		})
	})
}

// handler is a hook in a file.
type handler struct {
	Type    string   `json:"type"`
	Command string   `json:"command"`
	Args    []string `json:"args"`
	Timeout float64  `json:"timeout"` // in seconds
	If      string   `json:"if"`
	Shell   string   `json:"shell"`
	Async   bool     `json:"async"`
}

func (p *parser) handler(event Event, matcher string) {
	var h handler
	if err := json.Unmarshal([]byte(p.json.Raw()), &h); err != nil {
		p.problem("a hook of %s: %v", event, err)
		return
	}
	switch {
	case h.Type != "command":
		p.problem("a hook of %s is left out: its type is %.80q, and only \"command\" is supported", event, h.Type)
		return
	case h.If != "":
		p.problem("a hook of %s is left out: the condition \"if\" is not supported", event)
		return
	case h.Shell != "" && h.Shell != "bash" && h.Shell != "sh":
		p.problem("a hook of %s is left out: it is for the shell %.80q", event, h.Shell)
		return
	case len(p.hooks) == maxHooks:
		p.problem("a hook of %s is left out: there are more than %d", event, maxHooks)
		return
	case h.Async:
		p.problem("a hook of %s is waited for: \"async\" is not supported", event)
	}
	hook := Hook{Event: event, Matcher: matcher, Command: h.command(), Source: fmt.Sprintf("%s:%d", p.name, p.line())}
	hook.Line, hook.Column = p.line(), p.at-bytes.LastIndexByte(p.data[:min(p.at, len(p.data))], '\n')
	hook.Timeout = time.Duration(min(h.Timeout, longestTimeout.Seconds()) * float64(time.Second))
	if err := hook.check(); err != nil {
		p.problem("a hook of %s is left out: %v", event, err)
		return
	}
	p.hooks = append(p.hooks, hook)
}

// command returns the command with its arguments, which a shell must not change.
func (h *handler) command() string {
	if h.Args == nil {
		return h.Command
	}
	words := []string{word(h.Command)}
	for _, a := range h.Args {
		words = append(words, word(a))
	}
	return strings.Join(words, " ")
}

// places are the variables that name directories for hooks.
var places = late.Regexp(`\$\{CLAUDE_(?:PLUGIN_ROOT|PROJECT_DIR)\}`)

// word makes a text one word for a shell, which puts in only the directories.
func word(s string) string {
	return places().ReplaceAllString(program.Quote(s), `'"$0"'`)
}
