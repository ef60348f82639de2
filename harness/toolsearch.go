package harness

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"regexp"
	"slices"
	"strings"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/runes"
	"github.com/aycoder/aycoder/internal/words"
)

const (
	searchTool   = "tool_search"
	usualWindow  = 100_000 // tokens, of a model of which nothing is known
	mostFound    = 8
	mostDescribe = 400 // bytes of a description that a search shows
)

// A finder leaves the definitions of servers' tools out of requests in which they would take more than a tenth of the
// window, and lets the model search them. A request has those that the conversation has found or called, in the order in
// which it has done so, behind the other tools. So what a request has depends on nothing but its messages: it is the same
// after a resumption, and grows at the end.
type finder struct {
	b *builder
}

// searching adds the tool that finds tools, if there are servers.
func (b *builder) searching() error {
	if !b.serving() {
		return nil
	}
	t, err := (&finder{b}).tool()
	if err == nil {
		b.addTool("servers", "that finds others", t)
	}
	return err
}

// tool is the tool by which the model finds others.
func (f *finder) tool() (aycoder.Tool, error) {
	type args struct {
		Query string `json:"query" jsonschema_description:"Words that the names or descriptions of the tools may have."`
	}
	return aycoder.NewTool(searchTool, "Finds tools of servers that are not listed here, by words. Those that it finds can be called in the next step.",
		func(ctx context.Context, _ *aycoder.Invocation, in args) (*aycoder.ToolResult, error) {
			res := aycoder.TextResult(f.search(ctx, in.Query))
			res.Untrusted = true // the servers have written the descriptions
			return res, nil
		}, aycoder.WithEffect(aycoder.EffectReadOnly))
}

// specs are those of the tools that servers offer now.
func (x *sourceList) specs() (list []*aycoder.ToolSpec) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, s := range x.list {
		for _, t := range s.offered {
			list = append(list, new(t.Spec()))
		}
	}
	return list
}

// search describes the tools that fit best, one a line. A word counts three times as much in a name.
func (f *finder) search(ctx context.Context, query string) string {
	list := f.b.served.specs()
	texts := make([][]string, len(list))
	for i, s := range list {
		texts[i] = []string{s.Name, s.Description}
	}
	best := words.Rank(ctx, query, texts, 3, 1)
	var b strings.Builder
	for _, i := range best[:min(len(best), mostFound)] {
		text := strings.Join(strings.Fields(list[i].Description), " ")
		fmt.Fprintf(&b, "- %s: %s\n", list[i].Name, runes.Shorten(text, mostDescribe))
	}
	if b.Len() > 0 {
		return b.String()
	}
	var servers []string
	for _, s := range f.b.Servers() {
		if len(s.Tools) > 0 {
			servers = append(servers, fmt.Sprintf("%s (%d tools)", s.Name, len(s.Tools)))
		}
	}
	return "No tool has these words. There are tools of the servers " + strings.Join(servers, ", ") + "."
}

// model wraps the client of requests.
func (f *finder) model(next aycoder.ModelClient) aycoder.ModelClient { return &findingModel{next, f} }

type findingModel struct {
	next aycoder.ModelClient
	f    *finder
}

// Unwrap returns the wrapped client, whose abilities [aycoder.As] finds.
func (m *findingModel) Unwrap() aycoder.ModelClient { return m.next }

// Stream implements [aycoder.ModelClient].
func (m *findingModel) Stream(ctx context.Context, req *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
	other := *req
	other.Tools = m.f.shown(m.window(req.Model), req)
	return m.next.Stream(ctx, &other)
}

// window returns the window of the model in tokens.
func (m *findingModel) window(model string) int64 {
	window := cmp.Or(windowOf(m.next, model), usualWindow)
	if most := m.f.b.window.Load(); most > 0 {
		window = min(window, most)
	}
	return window
}

// shown returns the definitions that a request is to have.
func (f *finder) shown(window int64, req *aycoder.Request) []*aycoder.ToolSpec {
	if !slices.ContainsFunc(req.Tools, func(s *aycoder.ToolSpec) bool { return s.Name == searchTool }) {
		return req.Tools
	}
	served := map[string]bool{}
	for _, s := range f.b.served.specs() {
		served[s.Name] = true
	}
	var own []*aycoder.ToolSpec
	later := map[string]*aycoder.ToolSpec{}
	size := 0
	for _, s := range req.Tools {
		if !served[s.Name] {
			own = append(own, s)
			continue
		}
		later[s.Name] = s
		size += len(s.Name) + len(s.Description) + len(s.Schema)
	}
	if int64(size)/4 <= window/10 { // a token has about four bytes
		return slices.DeleteFunc(slices.Clone(req.Tools), func(s *aycoder.ToolSpec) bool { return s.Name == searchTool })
	}
	for _, name := range found(req.Messages) {
		if s := later[name]; s != nil {
			own = append(own, s)
			delete(later, name)
		}
	}
	return own
}

var foundTool = regexp.MustCompile(`(?m)^- ([A-Za-z0-9_-]+): `)

// found returns the names of the tools that messages have found or called.
func found(messages []*aycoder.Message) (names []string) {
	for _, m := range messages {
		for _, p := range m.Parts {
			switch p := p.(type) {
			case *aycoder.ToolUse:
				names = append(names, p.Name)
			case *aycoder.ToolOutput:
				if p.Name == searchTool && !p.IsError {
					for _, m := range foundTool.FindAllStringSubmatch(p.Text(), -1) {
						names = append(names, m[1])
					}
				}
			}
		}
	}
	return names
}
