package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/semaphore"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/runes"
)

const (
	maxQuestion = 4000 // bytes
	maxOptions  = 10
	maxOption   = 500 // bytes
	maxAnswer   = 16 << 10
)

const askDescription = `Ask the user one question and wait for the answer. Ask only if you cannot
find out with other tools, and if the answer changes what you do next. Give options if there are
only a few possible answers; the user may also answer freely.`

type askArgs struct {
	Question string   `json:"question" jsonschema_description:"The question, with what the user has to know to answer it."`
	Options  []string `json:"options,omitempty" jsonschema_description:"Up to 10 answers to choose from, the recommended one first."`
	Multiple bool     `json:"multiple,omitempty" jsonschema_description:"Whether several options may be chosen."`
}

// Question is a question from the model to the user. Invisible characters in its texts are
// written out (see [EscapeInvisible]), so that a host can print them safely.
type Question struct {
	Text string
	// Options are answers from which the user can choose. The list may be empty.
	Options []string
	// Multiple says that the user may choose several of Options.
	Multiple bool
}

// Answer is the user's answer to a [Question].
type Answer struct {
	// Options are the 0-based indexes of the chosen entries in the Options of the [Question].
	Options []int
	// Text is an answer in the user's words. It may be given in addition to Options.
	Text string
}

// ErrNoUser is the error that the function passed to [AskUser] returns if there is no user to
// answer.
var ErrNoUser = errors.New("no user is there")

// AskUser returns the tool ask_user, with which the model asks the user a question. The function
// ask shows the question to the user and returns the answer. The function may wait as long as it
// likes, but must return when ctx is done. The tool never asks two questions at the same time. If
// ask is nil or returns [ErrNoUser], the tool tells the model to continue with the most sensible
// assumption. [Coding] does not include the tool, since not every program has a user who can
// answer.
func AskUser(ask func(ctx context.Context, q Question) (Answer, error)) (aycoder.Tool, error) {
	if ask == nil {
		ask = func(context.Context, Question) (Answer, error) { return Answer{}, ErrNoUser }
	}
	a := &asker{ask: ask, turn: semaphore.NewWeighted(1)}
	return aycoder.NewTool("ask_user", askDescription, guard(a.run),
		aycoder.WithEffect(aycoder.EffectReadOnly))
}

// DeclareAskUser returns the tool ask_user without a function: see [aycoder.DeclareTool]. The host gets
// each question in an [aycoder.CallRequested], and, if nobody answers while the run lives, in Calls of
// [aycoder.Pending]. [QuestionOf] reads it, and [Question.Result] makes the result:
//
//	q, err := tools.QuestionOf(request)
//	res, err := q.Result(tools.Answer{Options: []int{0}})
//	in.Results = append(in.Results, request.Result(res))
func DeclareAskUser() (aycoder.Tool, error) {
	return aycoder.DeclareTool[declaredAsk]("ask_user", askDescription, aycoder.WithEffect(aycoder.EffectReadOnly))
}

// declaredAsk is askArgs with its bounds in the schema, since no function checks them.
type declaredAsk struct {
	Question string   `json:"question" jsonschema:"minLength=1,maxLength=4000,pattern=\\S" jsonschema_description:"The question, with what the user has to know to answer it."`
	Options  []string `json:"options,omitempty" jsonschema:"maxItems=10,uniqueItems=true" jsonschema_description:"Up to 10 answers to choose from, the recommended one first."`
	Multiple bool     `json:"multiple,omitempty" jsonschema_description:"Whether several options may be chosen."`
}

// QuestionOf returns the question of a call of [DeclareAskUser].
func QuestionOf(q *aycoder.CallRequest) (Question, error) {
	var in askArgs
	if err := json.Unmarshal(q.Args, &in); err != nil {
		return Question{}, fmt.Errorf("question of call %q: %w", q.CallID, err)
	}
	out := Question{Text: shown(in.Question, maxQuestion), Multiple: in.Multiple}
	for _, o := range in.Options {
		out.Options = append(out.Options, shown(o, maxOption))
	}
	return out, nil
}

func shown(text string, limit int) string {
	return runes.Shorten(EscapeInvisible(strings.TrimSpace(text)), limit)
}

// Result returns what the model reads of an answer. The error says that one of the options is not there.
func (q Question) Result(a Answer) (*aycoder.ToolResult, error) { return q.answered(a) }

// An asker asks one question at a time: a user who saw two at once could give the answer to the
// wrong one.
type asker struct {
	ask  func(context.Context, Question) (Answer, error)
	turn *semaphore.Weighted // held while a question is open
}

func (a *asker) run(ctx context.Context, _ *invocation, in askArgs) (*result, error) {
	q, err := in.question()
	if err != nil {
		return nil, err
	}
	if a.turn.Acquire(ctx, 1) != nil {
		return nil, context.Cause(ctx)
	}
	defer a.turn.Release(1)
	answer, err := a.ask(ctx, q)
	if errors.Is(err, ErrNoUser) {
		return nil, problemf("no_user", "nobody is there to answer; go on with the most sensible assumption, and say "+
			"at the end which one you made")
	}
	if err != nil {
		return nil, err
	}
	return q.answered(answer)
}

// question validates the arguments and makes their texts safe to print.
func (in *askArgs) question() (Question, error) {
	q := Question{Text: EscapeInvisible(strings.TrimSpace(in.Question)), Multiple: in.Multiple}
	switch {
	case q.Text == "":
		return q, problemf("invalid_arguments", "the question is empty")
	case len(q.Text) > maxQuestion:
		return q, problemf("too_long",
			"the question has %d bytes, at most %d are shown", len(q.Text), maxQuestion)
	case len(in.Options) > maxOptions:
		return q, problemf("too_many",
			"there are %d options, at most %d are shown", len(in.Options), maxOptions)
	}
	for i, o := range in.Options {
		o = EscapeInvisible(strings.TrimSpace(o))
		if o == "" || len(o) > maxOption || slices.Contains(q.Options, o) {
			return q, problemf("invalid_arguments",
				"option %d is empty, there twice, or longer than %d bytes", i+1, maxOption)
		}
		q.Options = append(q.Options, o)
	}
	return q, nil
}

// answered describes the answer to the model.
func (q *Question) answered(a Answer) (*result, error) {
	var b strings.Builder
	for _, i := range a.Options {
		if i < 0 || i >= len(q.Options) {
			return nil, errors.New("ask the user: the answer is none of the options")
		}
		b.WriteString("The user chose: " + q.Options[i] + "\n")
	}
	if text := strings.TrimSpace(printable(a.Text)); text != "" {
		b.WriteString("The user says: " + runes.Shorten(text, maxAnswer) + "\n")
	}
	if b.Len() == 0 {
		return textResult("[the user gave no answer; go on as you think best]\n", "no answer"), nil
	}
	return textResult(b.String(), "answered"), nil
}
