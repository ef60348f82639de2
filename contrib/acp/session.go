package acp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	sdk "github.com/coder/acp-go-sdk"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/harness/project"
	"github.com/aycoder/aycoder/policy"
	"github.com/aycoder/aycoder/tools"
)

// A conversation is an open session.
type conversation struct {
	agent *agent
	id    sdk.SessionId
	dir   string // as the client names it
	rt    *harness.Runtime
	ctx   context.Context // until it is closed
	stop  context.CancelCauseFunc
	turn  chan struct{} // held by a prompt

	mu      sync.Mutex
	prompts map[*context.CancelCauseFunc]bool // that have come and are not answered
	told    []sdk.AvailableCommand
}

var errCancelled = errors.New("the user has cancelled it")

// cancel stops the prompts that have come.
func (s *conversation) cancel() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for stop := range s.prompts {
		(*stop)(errCancelled)
	}
}

// cancellable returns a context that ends with the session, and when the client cancels. The function is called at the end.
func (s *conversation) cancellable(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	after := context.AfterFunc(s.ctx, func() { cancel(context.Cause(s.ctx)) })
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.prompts == nil {
		s.prompts = map[*context.CancelCauseFunc]bool{}
	}
	s.prompts[&cancel] = true
	return ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.prompts, &cancel)
		after()
		cancel(nil)
	}
}

// tell sends an update. If the client has gone, nobody needs it.
func (s *conversation) tell(u sdk.SessionUpdate) {
	_ = s.agent.conn.SessionUpdate(s.agent.life, sdk.SessionNotification{SessionId: s.id, Update: u})
}

// files puts the editor of the client around the files of the session.
func (s *conversation) files(writes bool) harness.Option {
	return harness.WithFileMiddleware(func(inner tools.FS) tools.FS {
		e := newEditor(inner, (*clientFiles)(s), s.dir, writes)
		e.common = &s.agent.common
		return e
	})
}

// clientFiles are the texts in the editor of the client.
type clientFiles conversation

func (c *clientFiles) read(ctx context.Context, name string) (string, error) {
	if c.id == "" { // the client does not know the session yet
		return "", errors.New("the session is being opened")
	}
	ctx, cancel := context.WithTimeoutCause(ctx, answerFor, errNoAnswer)
	defer cancel()
	resp, err := c.agent.conn.ReadTextFile(ctx, sdk.ReadTextFileRequest{SessionId: c.id, Path: name})
	return resp.Content, answered(ctx, err)
}

// answerFor is how long a client may take to tell what is in its editor, or to save it.
const answerFor = 30 * time.Second

var errNoAnswer = fmt.Errorf("the editor has not answered within %s", answerFor)

// answered returns the error of a request, or why there was no answer.
func answered(ctx context.Context, err error) error {
	if err != nil && errors.Is(context.Cause(ctx), errNoAnswer) {
		return errNoAnswer
	}
	return err
}

func (c *clientFiles) write(ctx context.Context, name, text string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, answerFor, errNoAnswer)
	defer cancel()
	_, err := c.agent.conn.WriteTextFile(ctx, sdk.WriteTextFileRequest{SessionId: c.id, Path: name, Content: text})
	return answered(ctx, err)
}

// prompt answers a prompt.
func (s *conversation) prompt(ctx context.Context, req sdk.PromptRequest) (resp sdk.PromptResponse, err error) {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return sdk.PromptResponse{StopReason: sdk.StopReasonCancelled}, nil
	}
	text, parts, err := s.content(req.Prompt)
	if err != nil {
		return resp, err
	}
	t := &teller{s: s}
	var res aycoder.Result
	err = s.run(ctx, text, parts, t, &res)
	s.tellCommands()
	resp.StopReason = sdk.StopReasonEndTurn
	switch {
	case ctx.Err() != nil:
		resp.StopReason = sdk.StopReasonCancelled
	case err != nil:
		if resp.StopReason, err = t.failed(err); err != nil {
			return resp, failure(err)
		}
	case res.Stop == aycoder.StopMaxTokens:
		resp.StopReason = sdk.StopReasonMaxTokens
	case res.Stop == aycoder.StopRefusal:
		resp.StopReason = sdk.StopReasonRefusal
	}
	u := res.Usage
	resp.Usage = &sdk.Usage{InputTokens: int(u.Input), OutputTokens: int(u.Output), ThoughtTokens: new(int(u.Reasoning)),
		CachedReadTokens: new(int(u.CacheRead)), CachedWriteTokens: new(int(u.CacheWrite)),
		TotalTokens: int(u.Input + u.Output + u.CacheRead + u.CacheWrite)}
	return resp, nil
}

func (s *conversation) run(ctx context.Context, text string, parts []aycoder.Part, t *teller, res *aycoder.Result) error {
	var typed harness.Typed
	for ev, err := range s.rt.Expand(ctx, text, &typed) {
		if err != nil {
			return err
		}
		t.event(ctx, ev, "")
	}
	typed.Input.Parts = append(typed.Input.Parts, parts...)
	for ev, err := range typed.Run(ctx, aycoder.Into(res)) {
		if err != nil {
			return err
		}
		t.event(ctx, ev, "")
	}
	return nil
}

// failed tells the user of an error that the conversation goes on after, and returns any other.
func (t *teller) failed(err error) (sdk.StopReason, error) {
	say := func(stop sdk.StopReason) (sdk.StopReason, error) {
		t.text(err.Error())
		return stop, nil
	}
	if _, ok := errors.AsType[*aycoder.LimitError](err); ok {
		return say(sdk.StopReasonMaxTurnRequests)
	}
	if _, ok := errors.AsType[*aycoder.RefusalError](err); ok {
		return say(sdk.StopReasonRefusal)
	}
	_, unknown := errors.AsType[*harness.UnknownCommandError](err)
	_, untrusted := errors.AsType[*harness.UntrustedError](err)
	_, refused := errors.AsType[*project.ExpandError](err)
	if unknown || untrusted || refused {
		return say(sdk.StopReasonEndTurn)
	}
	return "", err
}

// The ids of the options of a session.
const (
	optionMode  = "mode"
	optionModel = "model"
)

type mode struct {
	policy.Mode
	name, description string
}

var modes = []mode{
	{policy.Ask, "Ask", "Asks before each call that may do more than read"},
	{policy.AcceptEdits, "Accept edits", "Edits files of the project without a question, and asks about the rest"},
	{policy.Plan, "Plan", "Only reads, and presents a plan"},
	{policy.FullAuto, "Full auto", "Asks only about what is dangerous"},
}

func (s *conversation) modes() *sdk.SessionModeState {
	if s.rt.Policy == nil {
		return nil
	}
	state := &sdk.SessionModeState{CurrentModeId: sdk.SessionModeId(s.rt.Policy.Mode())}
	for _, m := range modes {
		state.AvailableModes = append(state.AvailableModes,
			sdk.SessionMode{Id: sdk.SessionModeId(m.Mode), Name: m.name, Description: &m.description})
	}
	return state
}

func (s *conversation) setMode(name string) error {
	m, err := policy.ParseMode(name)
	if err == nil && s.rt.Policy == nil {
		err = errors.New("this session has no modes")
	}
	if err == nil {
		err = s.rt.Policy.SetMode(m)
	}
	if err != nil {
		return invalid(err.Error())
	}
	return nil
}

// model returns the name of the model that is asked, as the list has it.
func (s *conversation) model() string {
	namer, ok := aycoder.As[aycoder.ModelNamer](s.rt.Client)
	if !ok {
		return ""
	}
	provider, model := namer.ModelName()
	return provider + "/" + model
}

// choices are the models that the user may choose, with the one that is asked.
func (s *conversation) choices() []Model {
	if s.agent.Models == nil {
		return nil
	}
	list, now := slices.Clone(s.agent.Models(s.rt)), s.model()
	if len(list) == 0 {
		return nil
	}
	if !slices.ContainsFunc(list, func(m Model) bool { return m.ID == now }) {
		list = slices.Insert(list, 0, Model{ID: now})
	}
	for i := range list {
		list[i].Name = cmp.Or(list[i].Name, list[i].ID)
	}
	return list
}

func (s *conversation) setModel(ctx context.Context, id string) error {
	if !slices.ContainsFunc(s.choices(), func(m Model) bool { return m.ID == id }) {
		return invalid("there is no model " + id)
	}
	if id == s.model() {
		return nil
	}
	if err := s.rt.SetModel(ctx, id); err != nil {
		return failure(err)
	}
	return nil
}

// options are the modes and models.
func (s *conversation) options() []sdk.SessionConfigOption {
	list := []sdk.SessionConfigOption{}
	add := func(id, name string, category sdk.SessionConfigOptionCategory, now string, values sdk.SessionConfigSelectOptionsUngrouped) {
		list = append(list, sdk.SessionConfigOption{Select: &sdk.SessionConfigOptionSelect{
			Id: sdk.SessionConfigId(id), Name: name, Category: &category, CurrentValue: sdk.SessionConfigValueId(now),
			Options: sdk.SessionConfigSelectOptions{Ungrouped: &values},
		}})
	}
	if state := s.modes(); state != nil {
		var values sdk.SessionConfigSelectOptionsUngrouped
		for _, m := range state.AvailableModes {
			values = append(values, sdk.SessionConfigSelectOption{Value: sdk.SessionConfigValueId(m.Id), Name: m.Name, Description: m.Description})
		}
		add(optionMode, "Mode", sdk.SessionConfigOptionCategoryMode, string(state.CurrentModeId), values)
	}
	if all := s.choices(); all != nil {
		var values sdk.SessionConfigSelectOptionsUngrouped
		for _, m := range all {
			v := sdk.SessionConfigSelectOption{Value: sdk.SessionConfigValueId(m.ID), Name: m.Name}
			if m.Description != "" {
				v.Description = new(m.Description)
			}
			values = append(values, v)
		}
		add(optionModel, "Model", sdk.SessionConfigOptionCategoryModel, s.model(), values)
	}
	return list
}

// tellCommands tells the commands and skills that the user may call, and the prompts of servers, unless they are as before.
func (s *conversation) tellCommands() {
	list := s.commands()
	s.mu.Lock()
	same := s.told != nil && reflect.DeepEqual(s.told, list)
	s.told = list
	s.mu.Unlock()
	if !same {
		s.tell(sdk.SessionUpdate{AvailableCommandsUpdate: &sdk.SessionAvailableCommandsUpdate{AvailableCommands: list}})
	}
}

func (s *conversation) commands() []sdk.AvailableCommand {
	list := []sdk.AvailableCommand{}
	add := func(name, description, hint string) {
		list = append(list, sdk.AvailableCommand{Name: name, Description: description,
			Input: &sdk.AvailableCommandInput{Unstructured: &sdk.UnstructuredCommandInput{Hint: hint}}})
	}
	if s.rt.Library != nil {
		now := s.rt.Library.Now()
		for _, c := range now.Commands {
			add(c.Name, cmp.Or(c.Description, c.Name), cmp.Or(c.ArgumentHint, "arguments"))
		}
		for _, k := range now.Skills {
			if now.Command(k.Name) == nil {
				add(k.Name, strings.TrimSpace(k.Description), "arguments")
			}
		}
	}
	for _, server := range s.rt.Servers() {
		for _, name := range server.Prompts {
			add(name, "Prompt of the server "+server.Name, "arguments")
		}
	}
	return list
}
