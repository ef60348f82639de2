package harness

import (
	"context"
	"reflect"
	"slices"
	"strings"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/harness/project"
	"github.com/aycoder/aycoder/internal/runes"
)

// An updated is a section of the system prompt whose files may change. Requests have the text that was sent first, so
// that the prompt caches of providers hit, and the tail has what has changed since. A compaction, after which they
// do not hit anyway, puts the new text into the prompt.
type updated struct {
	section, plain   string // and its text with secrets, as the files have it
	first, sent, now string // as New has made it, as requests have it, and as the files have it
	change           string // from sent to now, for the tail
	compare          func(sent, now string) string
}

// changedText returns a function that says what has become of a section as a whole.
func changedText(what string) func(sent, now string) string {
	return func(sent, now string) string {
		switch now {
		case sent:
			return ""
		case "":
			return "[The " + what + " of the system prompt does not hold any more. This is not a message of the user.]\n"
		}
		return "[The " + what + " has changed since the conversation began. This one replaces that of the system prompt. " +
			"This is not a message of the user.]\n" + now + "\n"
	}
}

// follow begins to follow the files of a section, unless the host has put another text in its place.
func (x *reload) follow(section, plain string, compare func(sent, now string) string) {
	text := x.b.masked(plain)
	i := slices.IndexFunc(x.b.Sections, func(s Section) bool { return s.Name == section })
	if i < 0 && text == "" || i >= 0 && x.b.Sections[i].Text == text {
		x.texts = append(x.texts, &updated{section: section, plain: plain, first: text, sent: text, now: text, compare: compare})
	}
}

// follows reports whether the prompt follows a key of the configuration.
func (x *reload) follows(key string) bool {
	section, ok := map[string]string{"agent.system": "base", "agent.rules": "rules"}[key]
	return ok && slices.ContainsFunc(x.texts, func(u *updated) bool { return u.section == section })
}

// update takes the text that a section would have now. It reports whether the text is another one than before.
func (x *reload) update(section, plain string) bool {
	i := slices.IndexFunc(x.texts, func(u *updated) bool { return u.section == section })
	if i < 0 || x.texts[i].plain == plain {
		return false
	}
	u := x.texts[i]
	u.plain, u.now = plain, x.b.masked(plain)
	u.change = u.compare(u.sent, u.now)
	return true
}

// instructions reads the instructions again.
func (x *reload) instructions(ctx context.Context) {
	if x.read == nil || !x.read.Changed(ctx) {
		return
	}
	next, err := project.ReadInstructions(ctx, x.b.sources()...)
	if err != nil {
		return // of ctx, which ends the run
	}
	x.warn("instructions", next.Warnings, x.read.Warnings)
	x.read = next
	if x.update("instructions", next.Prompt()) {
		x.b.Notify("instructions", "files with instructions have changed, and the model is told of it")
	}
}

// warn tells of warnings that are new.
func (x *reload) warn(source string, list, known []project.Warning) {
	x.b.warn(source, slices.DeleteFunc(slices.Clone(list), func(w project.Warning) bool { return slices.Contains(known, w) }))
}

// library reads commands, agents and skills again.
func (x *reload) library(ctx context.Context) {
	if x.b.Library == nil {
		return
	}
	next, err := project.Load(ctx, x.b.librarySources()...)
	if err != nil {
		return // of ctx, which ends the run
	}
	before := x.b.Library.Now()
	x.warn("skills", next.Warnings, before.Warnings)
	x.b.Library.Replace(next)
	if x.update("skills", next.SkillsPrompt()) {
		x.b.Notify("skills", "the list of skills has changed, and the model is told of it")
	}
	first := x.b.offerSkills()
	if first || !reflect.DeepEqual(before.Agents, next.Agents) {
		x.exchangeAgents(ctx)
	}
	if !reflect.DeepEqual(before.Commands, next.Commands) {
		x.b.prepareCommands(ctx)
	}
}

// exchangeAgents makes the tool that starts agents again. Agents at work stay as they are.
func (x *reload) exchangeAgents(ctx context.Context) {
	next := new(agents)
	if err := x.b.agents(ctx, next); err != nil {
		x.b.Notify("agents", "the agents stay as they were: "+err.Error())
		return
	}
	x.agents = next
}

// tools returns the tools of a turn.
func (x *reload) tools(list []aycoder.Tool) []aycoder.Tool {
	list = slices.DeleteFunc(list, x.b.isOff)
	has := map[string]bool{}
	for _, t := range list {
		has[t.Spec().Name] = true
	}
	for _, t := range slices.Concat(x.b.Tools, x.b.late) { // the sources add theirs
		if _, ok := t.(interface{ served() }); !ok && !has[t.Spec().Name] && !x.b.isOff(t) {
			list = append(list, t)
		}
	}
	for i, t := range list {
		if _, ok := t.(*agents); ok && x.agents != nil {
			list[i] = x.agents
		}
	}
	return list
}

// context is the middleware that puts changed texts into requests.
func (x *reload) context(next aycoder.ContextBuilder) aycoder.ContextBuilder {
	return aycoder.ContextFunc(func(ctx context.Context, in aycoder.ContextInput) (*aycoder.Request, error) {
		req, err := next.Build(ctx, in)
		if err != nil || req == nil {
			return req, err
		}
		return x.into(in, req), nil
	})
}

func (x *reload) into(in aycoder.ContextInput, req *aycoder.Request) *aycoder.Request {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.b.runs.Load() <= 1 && len(in.Messages) < x.messages && (in.Run == x.run || in.Turn == 1) {
		x.rebuild()
	}
	x.run, x.messages = in.Run, len(in.Messages)
	out := *req
	if x.think != nil && len(x.b.in.loop) == 0 {
		out.Thinking = *x.think
	}
	for _, u := range x.texts {
		out.System = u.replace(out.System)
		if u.change != "" {
			out.Tail = append(slices.Clip(out.Tail), &aycoder.Text{Text: u.change})
		}
	}
	return &out
}

// rebuild puts the changed texts into the prompt of the requests that follow: this one does not begin with the one
// before, as a compaction or the user has left out messages.
func (x *reload) rebuild() {
	var names []string
	for _, u := range x.texts {
		if u.change != "" && u.first != "" { // there is a place for it
			u.sent, u.change = u.now, ""
			names = append(names, u.section)
		}
	}
	if len(names) > 0 {
		x.b.Notify("instructions", "the system prompt has the changed texts now: "+strings.Join(names, ", "))
	}
}

// replace returns the system prompt with the text that requests have of the section.
func (u *updated) replace(system []*aycoder.Text) []*aycoder.Text {
	if u.sent == u.first {
		return system
	}
	i := slices.IndexFunc(system, func(t *aycoder.Text) bool { return t.Text == runes.Clean(u.first) })
	switch {
	case i < 0: // an option of the host has another prompt
		return system
	case u.sent == "":
		return slices.Delete(slices.Clone(system), i, i+1)
	}
	system = slices.Clone(system)
	system[i] = &aycoder.Text{Text: runes.Clean(u.sent)}
	return system
}
