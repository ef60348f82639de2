package compaction_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/compaction"
	"github.com/aycoder/aycoder/internal/part"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/tokens"
)

// limited is a client that limits the answer to each request.
type limited struct{ *strict }

func (limited) AnswerLimit() int64 { return 8192 }

func (l limited) Stream(ctx context.Context, req *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
	sent := *req
	sent.MaxTokens = 8192
	return l.strict.Stream(ctx, &sent)
}

// The answer that a client asks for by itself has room in each request.
func TestAnswerLimit(t *testing.T) {
	m := limited{worker(32_000, 9)}
	keep, err := compaction.New(m, compaction.WithWindow(32_000))
	require.NoError(t, err)
	l, err := aycoder.New(m, aycoder.WithTools(outputs(t, 5000)), aycoder.WithContextMiddleware(keep.Middleware))
	require.NoError(t, err)
	c := &chat{t: t, agent: l}
	for i := range 12 {
		require.NoError(t, c.ask(fmt.Sprint("prompt ", i)))
	}
	require.NotEmpty(t, c.events)
	require.Zero(t, m.refused)
}

// A refusal that counts the answer, too, does not make the estimate of texts larger.
func TestRefusalWithAnswer(t *testing.T) {
	m := worker(24_000, 9)
	counter := tokens.New()
	keep, err := compaction.New(m, compaction.WithCounter(counter))
	require.NoError(t, err)
	l, err := aycoder.New(m, aycoder.WithTools(outputs(t, 5000)), aycoder.WithContextMiddleware(keep.Middleware),
		aycoder.WithLimits(aycoder.Limits{Tokens: 8000}))
	require.NoError(t, err)
	c := &chat{t: t, agent: l}
	var before, after float64 // the factor of the texts
	step := m.step
	m.step = func(req *aycoder.Request) script.Step {
		switch factor, _ := counter.Scale(tokens.ModelOf(m, "")); {
		case m.refused == 0:
			before = factor
		case after == 0:
			after = factor
		}
		return step(req)
	}
	for i := 0; after == 0; i++ {
		require.Less(t, i, 20)
		require.NoError(t, c.ask(fmt.Sprint("prompt ", i)))
	}
	require.InEpsilon(t, before, after, 0.05)
}

// A prompt of any parts fits or ends its run with a typed error, and later prompts work. The first
// prompt always stays, and so do those that have no answer.
func TestLargePrompts(t *testing.T) {
	timed.Serial(t)
	many := &aycoder.Message{Role: aycoder.RoleUser}
	for i := range 2000 {
		many.Parts = append(many.Parts, &aycoder.Text{Text: fmt.Sprint(i, strings.Repeat(" some words of a log", 30))})
	}
	document := func(size int) *aycoder.Message {
		return &aycoder.Message{Role: aycoder.RoleUser, Parts: []aycoder.Part{&aycoder.Text{Text: "Read this."},
			&aycoder.Media{Type: "text/plain", Name: "a.txt", Data: []byte(strings.Repeat("a line of a document\n", size/21))}}}
	}
	for name, tt := range map[string]struct {
		prompt *aycoder.Message
		fails  bool
	}{
		"many parts":       {many, false},
		"a large document": {document(200_000), true},
		"a small document": {document(1000), false},
	} {
		for _, before := range []int{0, 3} {
			t.Run(fmt.Sprint(name, " after ", before), func(t *testing.T) {
				c := newChat(t, worker(16_000, 3), compaction.WithWindow(16_000))
				for i := range before {
					require.NoError(t, c.ask(fmt.Sprint("prompt ", i)))
				}
				for range 2 {
					c.messages = append(c.messages[:len(c.messages):len(c.messages)], tt.prompt)
					err := c.ask("")
					require.Equal(t, tt.fails, err != nil, "%v", err)
					if tt.fails {
						_, ok := errors.AsType[*aycoder.ContextError](err)
						require.True(t, ok, "%v", err)
					}
					require.NoError(t, c.ask("hello?"))
				}
			})
		}
	}
}

// A document that did not fit goes when the next prompt comes, also if nothing else is left to be shortened.
func TestDocumentBeforeLastPrompt(t *testing.T) {
	messages := []*aycoder.Message{aycoder.User("begin"), aycoder.Assistant("ok"), aycoder.User("go on"),
		{Role: aycoder.RoleAssistant, Parts: []aycoder.Part{&aycoder.Text{Text: "ok"},
			part.Mark{Note: []byte(`{"v":1,"at":3,"short":3,"each":512,"most":1024}`)}.Part()}},
		{Role: aycoder.RoleUser, Parts: []aycoder.Part{&aycoder.Text{Text: "Read this."},
			&aycoder.Media{Type: "text/plain", Name: "log.txt", Data: []byte(strings.Repeat("a line of a log\n", 5000))}}}}
	m := worker(4_000, 0)
	keep, err := compaction.New(m, compaction.WithWindow(m.window))
	require.NoError(t, err)
	l, err := aycoder.New(m, aycoder.WithContextMiddleware(keep.Middleware))
	require.NoError(t, err)
	c := &chat{t: t, agent: l, messages: messages}
	require.NoError(t, c.ask("Forget it."))
	require.Contains(t, m.last.Messages[4].Text(), "is left out")
}

// If the model refuses a request of which nothing can be left out, the model and the one who writes the
// summaries are not asked again, and the error says once what the matter is.
func TestRefusalForGood(t *testing.T) {
	m := worker(4_000, 0)
	asked := 0
	w := writer(func(context.Context, func(aycoder.ModelEvent, error) bool) { asked++ })
	keep, err := compaction.New(m, compaction.WithWindow(400_000), compaction.WithSummarizer(w, ""))
	require.NoError(t, err)
	l, err := aycoder.New(m, aycoder.WithContextMiddleware(keep.Middleware), aycoder.WithSystem(strings.Repeat("a rule of the host ", 5000)))
	require.NoError(t, err)
	messages := []*aycoder.Message{aycoder.User("begin")}
	for range 10 {
		messages = append(messages, aycoder.Assistant(strings.Repeat("ok ", 300)), aycoder.User(strings.Repeat("go on ", 300)))
	}
	var failed error
	for _, err := range l.Run(t.Context(), aycoder.Input{Messages: messages}) {
		failed = err
	}
	require.ErrorAs(t, failed, new(*aycoder.ContextError))
	require.ErrorAs(t, failed, new(*aycoder.ContextTooLargeError))
	require.Equal(t, 1, m.refused)
	require.LessOrEqual(t, asked, 1)
	require.Regexp(t, `^compact: the request has about \d+ tokens, at most \d+ fit, and nothing more can be left out; `+
		`its largest parts are: system prompt \d+, history \d+ \(script script: context too large \(status 400\): the script says so\)$`, failed.Error())
}
