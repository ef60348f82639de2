package agenttest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aycoder/aycoder"
)

// modelOf is a client that plays steps, of [world.Stream]; what is to go wrong is
// in hook, which gets the yield function.
func modelOf(hook func(ctx context.Context, req *aycoder.Request,
	yield func(aycoder.ModelEvent, error) bool)) Client {
	return Client{Model: aycoder.ModelFunc(func(ctx context.Context,
		req *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
		return func(yield func(aycoder.ModelEvent, error) bool) { hook(ctx, req, yield) }
	})}
}

// saying is a client that plays the steps and stops when ctx is done.
func saying(steps ...any) Client {
	return modelOf(func(ctx context.Context, _ *aycoder.Request,
		yield func(aycoder.ModelEvent, error) bool) {
		for _, s := range steps {
			if ctx.Err() != nil {
				yield(nil, ctx.Err())
				return
			}
			if !play(ctx, nil, s, yield) {
				return
			}
		}
	})
}

func TestSuiteFindsBrokenModels(t *testing.T) {
	const hello = "Hello"
	ok := []any{delta("Hel"), delta("lo"), block(hello), done(aycoder.StopEndTurn)}
	use := call("call_7", "read", 7)
	text := func(s *modelSuite, c Client) { s.text(c, hello) }
	leave := func(s *modelSuite, c Client) { s.leave(c) }
	var first atomic.Bool
	tests := []struct {
		name   string
		client Client
		check  func(*modelSuite, Client)
		rule   string
	}{
		{"ends without MessageDone", saying(delta(hello), block(hello)), text, ruleModelOrder},
		{"two MessageDone", saying(delta(hello), block(hello), done(""), done("")), text,
			ruleModelOrder},
		{"a delta after MessageDone", saying(delta(hello), block(hello), done(""), delta("?")), text,
			ruleModelOrder},
		{"no BlockDone", saying(delta(hello), done(aycoder.StopEndTurn)), text, ruleModelOrder},
		{"no BlockDone of a call", saying(delta(hello), block(hello), &aycoder.ToolDelta{ID: "a", Args: "{}"},
			done(aycoder.StopEndTurn)), text, ruleModelOrder},
		{"goes on after the pieces", modelOf(func(_ context.Context, _ *aycoder.Request,
			yield func(aycoder.ModelEvent, error) bool) {
			for _, p := range pieces[:3] {
				yield(delta(p), nil)
			}
			yield(delta("?"), nil)
		}), func(s *modelSuite, c Client) { s.pieces(c) }, ruleModelAgain},
		{"a block that is nil", saying(&aycoder.BlockDone{}, done(aycoder.StopEndTurn)), text,
			ruleModelOrder},
		{"arguments that are not JSON", saying(callArgs("a", "b", `{"n"`), done(aycoder.StopToolUse)),
			text, ruleModelOrder},
		{"deltas of another text", saying(delta("Hel"), block(hello), done(aycoder.StopEndTurn)), text,
			ruleModelDeltas},
		{"deltas of another thought",
			saying(&aycoder.ThinkingDelta{Text: "a"},
				&aycoder.BlockDone{Part: &aycoder.Thinking{Text: "b"}}, done("")), text, ruleModelDeltas},
		{"deltas of other arguments",
			saying(&aycoder.ToolDelta{ID: "call_7", Args: "{}"}, use, done("")), text, ruleModelDeltas},
		{"another text", saying(delta("?"), block("?"), done(aycoder.StopEndTurn)), text,
			ruleModelWhole},
		{"another stop reason", saying(delta(hello), block(hello), done(aycoder.StopToolUse)), text,
			ruleModelWhole},
		{"no thinking", saying(ok...), func(s *modelSuite, c Client) { s.thinking(c, "Hm", hello) },
			ruleModelWhole},
		{"another call", saying(delta("Let me see."), block("Let me see."), call("x", "read", 7),
			done(aycoder.StopToolUse)),
			func(s *modelSuite, c Client) { s.call(c, use.Part.(*aycoder.ToolUse)) }, ruleModelWhole},
		{"an error with an event", modelOf(func(_ context.Context, _ *aycoder.Request,
			yield func(aycoder.ModelEvent, error) bool) {
			yield(delta(""), modelError("x"))
		}), func(s *modelSuite, c Client) { s.fails(c) }, ruleModelError},
		{"events after an error", modelOf(func(_ context.Context, _ *aycoder.Request,
			yield func(aycoder.ModelEvent, error) bool) {
			_ = yield(nil, modelError("x")) && yield(delta(""), nil)
		}), func(s *modelSuite, c Client) { s.fails(c) }, ruleModelError},
		{"nil and nil", saying(nil), text, ruleModelError},
		{"an error of no type", saying(errors.New("x")), func(s *modelSuite, c Client) { s.fails(c) },
			ruleModelError},
		{"sends at once", Client{Model: aycoder.ModelFunc(func(context.Context,
			*aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
			go func() { <-time.After(time.Second) }()
			return saying(ok...).Model.Stream(t.Context(), request())
		})}, func(s *modelSuite, c Client) { s.lazy(c) }, ruleModelLazy},
		{"goes on after break", modelOf(func(_ context.Context, _ *aycoder.Request,
			yield func(aycoder.ModelEvent, error) bool) {
			yield(delta("a"), nil)
			yield(delta("b"), nil)
		}), leave, ruleModelAgain},
		{"on another goroutine", modelOf(func(ctx context.Context, req *aycoder.Request,
			yield func(aycoder.ModelEvent, error) bool) {
			over := make(chan struct{})
			go func() { defer close(over); saying(ok...).Model.Stream(ctx, req)(yield) }()
			<-over
		}), text, ruleModelAgain},
		{"leaves a goroutine after break",
			modelOf(func(ctx context.Context, req *aycoder.Request,
				yield func(aycoder.ModelEvent, error) bool) {
				left, stop := make(chan struct{}), make(chan struct{})
				go func() {
					select {
					case <-stop:
					case <-ctx.Done():
					}
					close(left)
				}()
				saying(ok...).Model.Stream(ctx, req)(func(ev aycoder.ModelEvent, err error) bool {
					if !yield(ev, err) {
						return false
					}
					if _, end := ev.(*aycoder.MessageDone); end {
						close(stop)
					}
					return true
				})
			}), leave, ruleModelGone},
		{"does not hear a cancel", modelOf(func(_ context.Context, req *aycoder.Request,
			yield func(aycoder.ModelEvent, error) bool) {
			saying(delta("a"), broken()).Model.Stream(t.Context(), req)(yield)
		}), func(s *modelSuite, c Client) { s.cancel(c, false) }, ruleModelCancel},
		{"asks though it was cancelled",
			modelOf(func(_ context.Context, req *aycoder.Request,
				yield func(aycoder.ModelEvent, error) bool) {
				saying(ok...).Model.Stream(t.Context(), req)(yield)
			}), func(s *modelSuite, c Client) { s.cancelled(c) }, ruleModelCancel},
		{"another error after cancel",
			modelOf(func(ctx context.Context, _ *aycoder.Request,
				yield func(aycoder.ModelEvent, error) bool) {
				<-ctx.Done()
				yield(nil, broken())
			}), func(s *modelSuite, c Client) { s.silent(c) }, ruleModelCancel},
		{"changes a message", modelOf(func(ctx context.Context, req *aycoder.Request,
			yield func(aycoder.ModelEvent, error) bool) {
			req.Messages[1].Parts = req.Messages[1].Parts[:1]
			saying(ok...).Model.Stream(ctx, req)(yield)
		}), text, ruleModelReq},
		{"changes the request", modelOf(func(ctx context.Context, req *aycoder.Request,
			yield func(aycoder.ModelEvent, error) bool) {
			req.Model = "another"
			saying(ok...).Model.Stream(ctx, req)(yield)
		}), text, ruleModelReq},
		{"a broken answer that is whole", saying(ok...), func(s *modelSuite, c Client) { s.broken(c) },
			ruleModelBroken},
		{"a broken answer that just ends", saying(delta("Hel")),
			func(s *modelSuite, c Client) { s.broken(c) }, ruleModelBroken},
		{"a refusal that is an answer", saying(ok...), func(s *modelSuite, c Client) { s.fails(c) },
			ruleModelBroken},
		{"a cut call that is whole", saying(use, done(aycoder.StopMaxTokens)),
			func(s *modelSuite, c Client) { s.cut(c, use.Part.(*aycoder.ToolUse)) }, ruleModelCut},
		{"a cut call that is lost", saying(done(aycoder.StopMaxTokens)),
			func(s *modelSuite, c Client) { s.cut(c, use.Part.(*aycoder.ToolUse)) }, ruleModelCut},
		{"a retry after a block", saying(delta("Hel"), block("Hel"), &aycoder.Retrying{}, delta(hello), block(hello), done("")),
			text, ruleModelOrder},
		{"an overload that is a rate limit", saying(&aycoder.OverloadedError{ModelError: modelError("x")}),
			func(s *modelSuite, c Client) { s.rateLimited(c) }, ruleModelType},
		{"a rate limit without an end", saying(&aycoder.RateLimitError{ModelError: modelError("x")}),
			func(s *modelSuite, c Client) { s.rateLimited(c) }, ruleModelType},
		{"an error with the key", saying(&aycoder.AuthError{ModelError: modelError("no " + secret)}),
			func(s *modelSuite, c Client) { s.badKey(c) }, ruleModelSecret},
		{"a request in another order", saying(ok...), func(s *modelSuite, c Client) {
			n := 0
			s.grows(c, func() []byte { n++; return []byte{byte(n / 2)} })
		}, ruleModelGrows},
		{"a request with a counter", saying(ok...), func(s *modelSuite, c Client) {
			n := 0
			s.grows(c, func() []byte { n++; return bytes.Repeat([]byte("x"), n) })
		}, ruleModelGrows},
		{"another provider's signature is sent", saying(ok...), func(s *modelSuite, c Client) {
			s.moved(c, func() []byte { return []byte(`"` + foreign + ` is there is there is there"`) })
		}, ruleModelMoved},
		{"an output is not sent", saying(ok...), func(s *modelSuite, c Client) {
			s.moved(c, func() []byte { return []byte(`"is there"`) })
		}, ruleModelMoved},
		{"a refusal that ends the turn", saying(ok...), func(s *modelSuite, c Client) { s.refused(c, hello) },
			ruleModelWhole},
		{"a refusal whose text is lost", saying(&aycoder.RefusalError{ModelError: modelError("x")}),
			func(s *modelSuite, c Client) { s.refused(c, hello) }, ruleModelWhole},
		{"a schema though it has no such ability", saying(ok...), func(s *modelSuite, c Client) {
			s.format(c, func() []byte { return []byte(`"colour"`) })
		}, ruleModelFormat},
		{"no tools beside the schema", Client{Model: formatter{saying(ok...).Model}}, func(s *modelSuite, c Client) {
			s.format(c, func() []byte { return []byte(`"colour"`) })
		}, ruleModelFormat},
		{"a signature is lost", saying(use, done(aycoder.StopToolUse)), func(s *modelSuite, c Client) {
			s.back(c, func() []byte { return nil })
		}, ruleModelBack},
		{"a system prompt is not sent", saying(ok...), func(s *modelSuite, c Client) {
			s.sends(c, func() []byte { return nil })
		}, ruleModelSends},
		{"one request at a time", modelOf(func(ctx context.Context, req *aycoder.Request,
			yield func(aycoder.ModelEvent, error) bool) {
			if first.Swap(true) {
				yield(nil, errors.New("busy"))
				return
			}
			saying(ok...).Model.Stream(ctx, req)(yield)
		}), func(s *modelSuite, c Client) { s.concurrent(c, hello) }, ruleModelShared},
	}
	rules := map[string]bool{}
	for _, tt := range tests {
		rules[tt.rule] = true
		t.Run(tt.name, func(t *testing.T) {
			found := &findings{}
			tt.check(&modelSuite{t: t, found: found, patience: 50 * time.Millisecond}, tt.client)
			if !found.of(tt.rule) {
				t.Errorf("the suite does not find %q; it finds %q", tt.rule, found)
			}
		})
	}
	for _, r := range []string{
		ruleModelOrder, ruleModelDeltas, ruleModelError, ruleModelLazy, ruleModelAgain, ruleModelGone,
		ruleModelCancel,
		ruleModelReq, ruleModelBroken, ruleModelCut, ruleModelShared, ruleModelWhole,
		ruleModelType, ruleModelSecret, ruleModelSends, ruleModelGrows, ruleModelBack, ruleModelMoved, ruleModelFormat,
	} {
		if !rules[r] {
			t.Errorf("no client breaks %q", r)
		}
	}
}

// opener is a client whose answers differ if they are read event by event.
type opener struct{ aycoder.ModelClient }

func (o opener) Opens(aycoder.ModelClient) bool { return true }

func (o opener) Open(ctx context.Context, req *aycoder.Request) aycoder.ModelReader {
	next, stop := iter.Pull2(saying(delta("Hello"), done(aycoder.StopEndTurn)).Model.Stream(ctx, req))
	return pulled{next, stop}
}

type pulled struct {
	next func() (aycoder.ModelEvent, error, bool)
	stop func()
}

func (p pulled) Next() (aycoder.ModelEvent, error) {
	ev, err, ok := p.next()
	if !ok {
		err = io.EOF
	}
	return ev, err
}

func (p pulled) Stop() { p.stop() }

// The suite also reads event by event the answers of a client that has this ability.
func TestSuiteOpensAnswers(t *testing.T) {
	m := saying(delta("Hello"), block("Hello"), done(aycoder.StopEndTurn)).Model
	clients := func(m aycoder.ModelClient) *Clients {
		return &Clients{Text: func(testing.TB, ...string) Client { return Client{Model: m} }}
	}
	if rules := openRules(t, clients(m)); len(rules) > 0 {
		t.Errorf("%d rules for a client that opens nothing", len(rules))
	}
	found := &findings{}
	for _, r := range openRules(t, clients(opener{m})) {
		if r.name == "whole answer, event by event" && r.field == "Text" {
			r.check(&modelSuite{t, found, soon})
		}
	}
	if !found.of(ruleModelOrder) {
		t.Errorf("the suite does not find that BlockDone is missing; it finds %q", found)
	}
}

// sender is a client that sends requests as JSON, without what lose takes away.
type sender struct {
	lose func(*aycoder.Request)
	sent []byte
}

func (c *sender) Stream(ctx context.Context, req *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
	data, err := json.Marshal(req)
	var own aycoder.Request
	if err != nil || json.Unmarshal(data, &own) != nil {
		panic(err)
	}
	if c.lose != nil {
		c.lose(&own)
	}
	if c.sent, err = json.Marshal([]any{own.System, own.Tools, own.Messages, own.Tail}); err != nil {
		panic(err)
	}
	return saying(delta("Hello"), block("Hello"), done(aycoder.StopEndTurn)).Model.Stream(ctx, req)
}

func (c *sender) body() []byte { return c.sent }

func TestSuiteFindsWhatIsNotSent(t *testing.T) {
	without := func(drop func(aycoder.Part) bool) func(*aycoder.Request) {
		return func(r *aycoder.Request) {
			for _, m := range r.Messages {
				m.Parts = slices.DeleteFunc(m.Parts, drop)
			}
		}
	}
	outputs := func(change func(*aycoder.ToolOutput)) func(*aycoder.Request) {
		return without(func(p aycoder.Part) bool {
			if o, ok := p.(*aycoder.ToolOutput); ok {
				change(o)
			}
			return false
		})
	}
	tests := []struct {
		name string
		lose func(*aycoder.Request)
		want string // in the finding
	}{
		{"nothing", nil, ""},
		{"the tools", func(r *aycoder.Request) { r.Tools = nil }, "Tools"},
		{"all tools but the first", func(r *aycoder.Request) { r.Tools = r.Tools[:1] }, "Tools"},
		{"descriptions", func(r *aycoder.Request) { r.Tools[0].Description = "" }, "Description"},
		{"schemas", func(r *aycoder.Request) { r.Tools[0].Schema = json.RawMessage("{}") }, "Schema"},
		{"the system prompt", func(r *aycoder.Request) { r.System = nil }, "System"},
		{"all of the system prompt but the first block", func(r *aycoder.Request) { r.System = r.System[:1] }, "System"},
		{"the tail", func(r *aycoder.Request) { r.Tail = nil }, "Tail"},
		{"the tail's place", func(r *aycoder.Request) { r.System, r.Tail = append(r.System, r.Tail...), nil }, "Tail"},
		{"system messages", func(r *aycoder.Request) {
			r.Messages = slices.DeleteFunc(r.Messages, func(m *aycoder.Message) bool { return m.Role == aycoder.RoleSystem })
		}, "RoleSystem"},
		{"the user's texts", func(r *aycoder.Request) {
			r.Messages = slices.DeleteFunc(r.Messages, func(m *aycoder.Message) bool {
				return m.Role == aycoder.RoleUser && len(m.Parts) == 1
			})
		}, "RoleUser"},
		{"texts beside calls", without(func(p aycoder.Part) bool {
			text, ok := p.(*aycoder.Text)
			return ok && strings.Contains(text.Text, "look")
		}), "RoleAssistant"},
		{"calls", without(func(p aycoder.Part) bool { _, ok := p.(*aycoder.ToolUse); return ok }), "ToolUse"},
		{"outputs", without(func(p aycoder.Part) bool { _, ok := p.(*aycoder.ToolOutput); return ok }), "ToolOutput"},
		{"all parts of outputs but the first", outputs(func(o *aycoder.ToolOutput) { o.Parts = o.Parts[:1] }), "ToolOutput"},
		{"IsError", outputs(func(o *aycoder.ToolOutput) { o.IsError = false }), "IsError"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			found, c := &findings{}, &sender{lose: tt.lose}
			s := &modelSuite{t: t, found: found, patience: soon}
			s.sends(Client{Model: c}, c.body)
			if got := found.String(); found.of(ruleModelSends) != (tt.want != "") || !strings.Contains(got, tt.want) {
				t.Errorf("the suite finds %q, want %q", got, tt.want)
			}
		})
	}
}

// A client that sends too early is found although it leaves no goroutine.
func TestSuiteFindsEarlyRequests(t *testing.T) {
	hello := []any{delta("Hello"), block("Hello"), done(aycoder.StopEndTurn)}
	for _, rule := range []string{ruleModelLazy, ruleModelCancel} {
		var sent []byte
		c := Client{Model: aycoder.ModelFunc(func(ctx context.Context, req *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
			if rule == ruleModelLazy || ctx.Err() != nil {
				sent, _ = json.Marshal(req.Messages)
			}
			return saying(hello...).Model.Stream(ctx, req)
		})}
		found := &findings{}
		(&modelSuite{t: t, found: found, patience: soon}).unsent(c, func() []byte { return sent })
		if !found.of(rule) {
			t.Errorf("the suite does not find %q; it finds %q", rule, found)
		}
	}
}

// A finding says what is missing, and where requests differ.
func TestSuiteSaysWhere(t *testing.T) {
	long := strings.Repeat("long ", 100)
	bodies := []string{`{"a":"` + long + `","n":1,"m":[1]}`, `{"a":"` + long + `","n":2,"m":[1,2]}`}
	n := 0
	hello := saying(delta("Hello"), block("Hello"), done(aycoder.StopEndTurn))
	tests := []struct {
		name  string
		check func(*modelSuite)
		want  string
	}{
		{"requests in another order", func(s *modelSuite) {
			s.grows(hello, func() []byte { n++; return []byte(bodies[(n-1)/2%2]) })
		}, `\"n\":2`},
		{"other bytes for the same request", func(s *modelSuite) {
			s.grows(hello, func() []byte { n++; return []byte(bodies[n%2]) })
		}, `\"n\":2`},
		{"an output that is lost", func(s *modelSuite) {
			s.moved(hello, func() []byte { return []byte(`"is there, is there"`) })
		}, "2 of 3 outputs"},
		{"another provider's signature", func(s *modelSuite) {
			s.moved(hello, func() []byte { return []byte(`"` + long + foreign + ` is there is there is there"`) })
		}, foreign},
		{"a text without BlockDone", func(s *modelSuite) { s.text(saying(delta("Hello"), done(aycoder.StopEndTurn)), "Hello") },
			`no BlockDone follows the TextDelta "Hello"` + "\n"},
		{"thinking without BlockDone", func(s *modelSuite) {
			s.text(saying(&aycoder.ThinkingDelta{Text: "Hm"}, delta("Hello"), block("Hello"), done(aycoder.StopEndTurn)), "Hello")
		}, `no BlockDone follows the ThinkingDelta "Hm"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			found := &findings{}
			n = 0
			tt.check(&modelSuite{t: t, found: found, patience: soon})
			if got := found.String() + "\n"; !strings.Contains(got, tt.want) {
				t.Errorf("the suite says %q, want %q in it", got, tt.want)
			}
		})
	}
}

// A client that keeps the rules has no findings.
func TestSuiteFindsNothingInGoodModel(t *testing.T) {
	found := &findings{}
	s := &modelSuite{t: t, found: found, patience: soon}
	c := saying(delta("Hel"), delta("lo"), block("Hello"), done(aycoder.StopEndTurn))
	s.text(c, "Hello")
	s.leave(c)
	s.cancel(c, false)
	s.cancelled(c)
	s.concurrent(c, "Hello")
	s.text(saying(delta("Hi"), &aycoder.Retrying{Discarded: true}, delta("Hello"), block("Hello"), done(aycoder.StopEndTurn)), "Hello")
	s.rateLimited(saying(&aycoder.RateLimitError{ModelError: modelError("x"), RetryAfter: 7 * time.Second}))
	s.badKey(saying(&aycoder.AuthError{ModelError: modelError("wrong key")}))
	var sent []byte
	sends := modelOf(func(ctx context.Context, req *aycoder.Request, yield func(aycoder.ModelEvent, error) bool) {
		sent, _ = json.Marshal(req.Messages)
		sent = bytes.ReplaceAll(sent, []byte(foreign), nil)
		call := &aycoder.ToolUse{ID: "call_7", Name: "read", Args: json.RawMessage("{}"),
			Extra: &aycoder.Opaque{Provider: "x", Raw: json.RawMessage(`{"mark":"` + mark + `"}`)}}
		saying(&aycoder.BlockDone{Part: call}, done(aycoder.StopToolUse)).Model.Stream(ctx, req)(yield)
	})
	body := func() []byte { return sent }
	s.grows(sends, body)
	s.moved(sends, body)
	s.format(sends, body)
	s.back(sends, body)
	s.refused(saying(delta("Hel"), block("Hel"), done(aycoder.StopRefusal)), "Hel")
	found.report(t)
}

// brokenTool is a tool with a hook for what goes wrong.
type brokenTool struct {
	spec func() aycoder.ToolSpec
	call func(ctx context.Context, inv *aycoder.Invocation) (*aycoder.ToolResult, error)
}

func (b *brokenTool) Spec() aycoder.ToolSpec {
	if b.spec != nil {
		return b.spec()
	}
	return aycoder.ToolSpec{Name: "probe", Description: "A tool.",
		Schema: json.RawMessage(probeSchema), Effect: aycoder.EffectReadOnly}
}

func (b *brokenTool) Call(ctx context.Context, inv *aycoder.Invocation) (*aycoder.ToolResult,
	error) {
	if b.call != nil {
		return b.call(ctx, inv)
	}
	return aycoder.TextResult("ok"), nil
}

// A formatter says that it sends schemas, also beside tools.
type formatter struct{ aycoder.ModelClient }

func (formatter) FormatsOutput(string) bool    { return true }
func (formatter) FormatsWithTools(string) bool { return true }
