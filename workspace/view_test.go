package workspace_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/workspace"
)

type shownArgs struct {
	Op      string `json:"op"`
	Content string `json:"content"`
	Base    string `json:"base"`
	First   int    `json:"first"` // of nine lines
	Last    int    `json:"last"`
}

// A content is in view as long as the request has the calls that have shown it: one of several readings,
// and all edits since.
func TestInView(t *testing.T) {
	read, part := shownArgs{Op: "read", Content: "a"}, shownArgs{Op: "part", Content: "a"}
	edit := shownArgs{Op: "edit", Content: "b", Base: "a"}
	page := func(first, last int) shownArgs { return shownArgs{Op: "lines", Content: "a", First: first, Last: last} }
	var edits []shownArgs // of a file that grows
	for i := range 20 {
		base := "a"
		if i > 0 {
			base = fmt.Sprint("a", i-1)
		}
		edits = append(edits, shownArgs{Op: "edit", Content: fmt.Sprint("a", i), Base: base})
	}
	for name, tt := range map[string]struct {
		calls   []shownArgs
		content string
		hidden  []int // calls whose outputs the request does not have
		want    bool
		hash    bool
	}{
		"read":                  {[]shownArgs{read}, "a", nil, true, true},
		"hidden":                {[]shownArgs{read}, "a", []int{1}, false, false},
		"other":                 {[]shownArgs{read}, "x", nil, false, true},
		"another is hidden":     {[]shownArgs{{Op: "none"}, read}, "a", []int{1}, true, true},
		"twice":                 {[]shownArgs{read, read}, "a", []int{1}, true, true},
		"twice, last hidden":    {[]shownArgs{read, read}, "a", []int{2}, true, true},
		"twice, both hidden":    {[]shownArgs{read, read}, "a", []int{1, 2}, false, false},
		"part of it again":      {[]shownArgs{read, part}, "a", []int{1}, true, false},
		"read after a part":     {[]shownArgs{part, read}, "a", []int{2}, true, false},
		"pages":                 {[]shownArgs{page(5, 9), page(1, 5)}, "a", nil, true, true},
		"pages, one hidden":     {[]shownArgs{page(5, 9), page(1, 5)}, "a", []int{1}, true, false},
		"page hidden, again":    {[]shownArgs{page(5, 9), page(1, 5), page(4, 9)}, "a", []int{1}, true, true},
		"other pages again":     {[]shownArgs{page(1, 5), page(5, 9), page(1, 7), page(8, 9)}, "a", []int{1, 2}, true, true},
		"page in a page, again": {[]shownArgs{page(1, 9), page(4, 5), page(1, 4)}, "a", []int{1}, true, false},
		"edited":                {[]shownArgs{read, edit}, "b", nil, true, true},
		"edited, read hidden":   {[]shownArgs{read, edit}, "b", []int{1}, false, false},
		"edited, edit hidden":   {[]shownArgs{read, edit}, "b", []int{2}, false, false},
		"edited twice":          {append([]shownArgs{read}, edits[:2]...), "a1", []int{2}, false, false},
		"edited and read":       {[]shownArgs{read, edit, {Op: "read", Content: "b"}}, "b", []int{1, 2}, true, true},
		"another content":       {[]shownArgs{read, {Op: "read", Content: "b"}}, "a", []int{2}, true, false},
		"base is not known":     {[]shownArgs{edit}, "b", nil, true, true},
		"host":                  {[]shownArgs{{Op: "host", Content: "a"}}, "a", []int{1}, true, true},
		"host, edited":          {[]shownArgs{{Op: "host", Content: "a"}, edit}, "b", []int{1}, true, true},
		"restored":              {[]shownArgs{{Op: "restore", Content: "a"}}, "a", nil, true, true},
		"restored, some hidden": {[]shownArgs{{Op: "none"}, {Op: "restore", Content: "a"}}, "a", []int{1}, false, false},
		"restored, then read":   {[]shownArgs{{Op: "none"}, {Op: "restore", Content: "a"}, read}, "a", []int{1}, true, true},
		"many edits":            {append([]shownArgs{read}, edits...), "a19", nil, true, true},
		"many edits, hidden":    {append([]shownArgs{read}, edits...), "a19", []int{3}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			var seen workspace.SeenFiles
			var content, hash bool
			show, err := aycoder.NewTool("show", "Shows.", func(ctx context.Context, inv *aycoder.Invocation, in shownArgs) (*aycoder.ToolResult, error) {
				by := seen.For(workspace.WithCall(ctx, inv))
				switch in.Op {
				case "read":
					by.Add("f", in.Content)
				case "part":
					by.AddPart("f", in.Content)
				case "lines":
					by.AddLines("f", in.Content, in.First, in.Last, 9)
				case "edit":
					by.After(in.Base).Add("f", in.Content)
				case "host":
					seen.Add("f", in.Content)
				case "restore":
					var other workspace.SeenFiles
					other.Add("f", in.Content)
					seen.Restore(other.All()[0])
				case "look":
					content, hash = by.InView("f", in.Content), by.HashInView("f")
				}
				return aycoder.TextResult("shown by " + inv.ID), nil
			}, aycoder.WithEffect(aycoder.EffectReadOnly))
			require.NoError(t, err)
			var steps []script.Step
			for _, c := range append(slices.Clone(tt.calls), shownArgs{Op: "look", Content: tt.content}) {
				steps = append(steps, script.Call("show", c))
			}
			hide := func(next aycoder.ContextBuilder) aycoder.ContextBuilder {
				return aycoder.ContextFunc(func(ctx context.Context, in aycoder.ContextInput) (*aycoder.Request, error) {
					req, err := next.Build(ctx, in)
					if err != nil {
						return nil, err
					}
					r := *req
					r.Messages = slices.Clone(req.Messages)
					for _, n := range tt.hidden {
						if i := 2 * n; i < len(r.Messages) {
							id := r.Messages[i].Parts[0].(*aycoder.ToolOutput).ID
							r.Messages[i] = &aycoder.Message{Role: aycoder.RoleUser, Parts: []aycoder.Part{
								&aycoder.ToolOutput{ID: id, Name: "show", Parts: []aycoder.Part{&aycoder.Text{Text: "…"}}}}}
						}
					}
					return &r, nil
				})
			}
			l, err := aycoder.New(script.New(append(steps, script.Say("ok"))...), aycoder.WithTools(show), aycoder.WithContextMiddleware(hide))
			require.NoError(t, err)
			for _, err := range l.Run(t.Context(), aycoder.Input{Prompt: "go"}) {
				require.NoError(t, err)
			}
			require.Equal(t, tt.want, content, "content")
			require.Equal(t, tt.hash, hash, "hash")
		})
	}
}
