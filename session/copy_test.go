package session_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/session"
)

// branched returns a session with two branches, a label and a title.
func branched(t *testing.T, store journal.Store) *session.Session {
	s, err := session.New(t.Context(), store, agent(t,
		script.Reply(script.Say("**look** <b>"), call("look", "```\na\n```")), script.Say("done"), script.Say("other")))
	require.NoError(t, err)
	run(t, s, "first <script>alert(1)</script>")
	require.NoError(t, s.SetLabel(t.Context(), 2, "here"))
	require.NoError(t, s.SetTitle(t.Context(), "A & B"))
	_, err = s.Checkout(t.Context(), session.Root)
	require.NoError(t, err)
	run(t, s, "second")
	return s
}

func TestForkIsIndependent(t *testing.T) {
	store := journal.Memory()
	s := branched(t, store)
	f, err := s.Fork(t.Context(), 4)
	require.NoError(t, err)
	require.NotEqual(t, s.ID(), f.ID())
	require.Equal(t, asJSON(t, s.View().Messages(4)), asJSON(t, f.View().Messages(f.Head())))
	require.Equal(t, "A & B", f.View().Title())
	id, ok := f.View().Labelled("here")
	require.True(t, ok)
	require.Equal(t, session.ID(2), id)
	require.NoError(t, f.SetAgent(agent(t, script.Say("further"))))
	run(t, f, "go on")
	require.Equal(t, 7, s.View().Len())
	require.Equal(t, 7, f.View().Len())
	_, err = s.Fork(t.Context(), 99)
	_, refused := errors.AsType[*session.CommandError](err)
	require.True(t, refused)
	require.NoError(t, s.Close())
	require.NoError(t, store.Delete(t.Context(), s.ID()))
	require.NoError(t, f.Close())
	v, damage, err := session.Read(t.Context(), store, f.ID())
	require.NoError(t, err)
	require.Empty(t, damage)
	require.Equal(t, asJSON(t, f.View().Messages(f.Head())), asJSON(t, v.Messages(v.Head(""))))
}

func TestExportAndImport(t *testing.T) {
	s := branched(t, journal.Memory())
	var doc bytes.Buffer
	require.NoError(t, s.View().WriteJSON(&doc))
	text := doc.String()
	i, err := session.Import(t.Context(), journal.Memory(), agent(t), &doc)
	require.NoError(t, err)
	require.Equal(t, s.Head(), i.Head())
	var again bytes.Buffer
	require.NoError(t, i.View().WriteJSON(&again))
	require.Equal(t, text, again.String())

	for _, bad := range []string{"", "{}", `{"format":"aycoder-tree","version":99}`,
		strings.Replace(text, `"parent": 1`, `"parent": 7`, 1), strings.Replace(text, `"id": 2`, `"id": 5`, 1)} {
		_, err := session.Import(t.Context(), journal.Memory(), agent(t), strings.NewReader(bad))
		require.Error(t, err, bad)
	}
}

// A document that makes no sense is refused, or becomes a conversation that can go on, as it can when it is opened again.
func TestImportOfOddDocuments(t *testing.T) {
	document := func(node string) string {
		return `{"format":"aycoder-tree","version":1,"heads":{"":1},"nodes":[{"id":1,"parent":0,"at":"2020-01-01T00:00:00Z",` + node + `}]}`
	}
	for _, bad := range []string{`"message":{"role":"assistant","parts":[]}`, `"context":[null]`,
		`"context":[{"role":"assistant","parts":[{"type":"tool_use","id":"x","name":"y","args":"{}"}]}]`} {
		_, err := session.Import(t.Context(), journal.Memory(), agent(t), strings.NewReader(document(bad)))
		require.Error(t, err, bad)
	}
	for _, message := range []string{
		`{"role":"odd","parts":[{"type":"text","text":"x"}]}`,
		`{"role":"user","parts":[{"type":"tool_output","id":"q","parts":[]}]}`,
	} {
		s, err := session.Import(t.Context(), journal.Memory(), agent(t, script.Say("yes")), strings.NewReader(document(`"message":`+message)))
		require.NoError(t, err, message)
		res := run(t, s, "go")
		require.Equal(t, "yes", res.Text(), message)
	}
}

func TestMarkdownAndHTML(t *testing.T) {
	s := branched(t, journal.Memory())
	mask := func(text string) string { return strings.ReplaceAll(text, "done", "[masked]") }
	var md bytes.Buffer
	require.NoError(t, s.View().WriteMarkdown(&md, 4, mask))
	require.Contains(t, md.String(), "# A & B\n")
	require.Contains(t, md.String(), "[masked]")
	require.NotContains(t, md.String(), "done")
	require.Contains(t, md.String(), "````\necho ```\na\n```\n````\n")

	var page bytes.Buffer
	require.NoError(t, s.View().WriteHTML(&page, 4, mask))
	source := page.String()
	root, err := html.Parse(&page)
	require.NoError(t, err)
	var shown strings.Builder
	for n := range root.Descendants() {
		require.False(t, n.Type == html.ElementNode && n.Data == "script", "a script element in %s", source)
		if n.Type == html.TextNode {
			shown.WriteString(n.Data)
		}
		for _, a := range n.Attr {
			require.False(t, strings.HasPrefix(a.Key, "on") || a.Key == "src" || a.Key == "href", "%s=%s", a.Key, a.Val)
		}
	}
	require.Contains(t, shown.String(), "first <script>alert(1)</script>")
	require.Contains(t, shown.String(), "echo ```")
	require.NotContains(t, shown.String(), "done")
}

// The model gets what Compact made of the conversation, also in the next process; the nodes stay.
func TestCompact(t *testing.T) {
	store := newMemory()
	m := script.New(script.Say("a"), script.Say("b"), script.Say("c"))
	l, err := aycoder.New(m)
	require.NoError(t, err)
	s, err := session.New(t.Context(), store, l)
	require.NoError(t, err)
	run(t, s, "one")
	require.NoError(t, s.Compact(t.Context(), shortened))
	run(t, s, "two")
	require.Equal(t, []string{"what was said", "two"}, texts(m.Requests()[1].Messages))
	require.NoError(t, s.Close())
	o, err := session.Open(t.Context(), store, s.ID(), l)
	require.NoError(t, err)
	run(t, o, "three")
	require.Equal(t, []string{"what was said", "two", "b", "three"}, texts(m.Requests()[2].Messages))
	require.Equal(t, []string{"one", "a"}, texts(o.View().Messages(2)))

	require.Error(t, o.Compact(t.Context(), invalid))
	require.Equal(t, []string{"what was said", "two", "b", "three", "c"}, texts(o.View().Messages(o.Head())))
}

func shortened(context.Context, []*aycoder.Message) ([]*aycoder.Message, *aycoder.Compacted, error) {
	return []*aycoder.Message{aycoder.User("what was said")}, nil, nil
}

func invalid(_ context.Context, m []*aycoder.Message) ([]*aycoder.Message, *aycoder.Compacted, error) {
	orphan := &aycoder.ToolUse{ID: "x", Name: "look", Args: []byte(`{}`)}
	return append(m, &aycoder.Message{Role: aycoder.RoleAssistant, Parts: []aycoder.Part{orphan}}), nil, nil
}
