package cli

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/internal/cli/tty"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/providers/script"
)

// asking runs a tool that asks the user, who types lines, and returns the screen.
func asking(t *testing.T, lines string, do func(context.Context, *User) string, steps ...script.Step) (shown, got string) {
	t.Helper()
	asks := newAsks()
	tool, err := aycoder.NewTool("server", "Asks.", func(ctx context.Context, _ *aycoder.Invocation, _ struct{}) (*aycoder.ToolResult, error) {
		got = do(ctx, &User{asks})
		return aycoder.TextResult("done"), nil
	}, aycoder.WithEffect(aycoder.EffectReadOnly))
	require.NoError(t, err)
	steps = append([]script.Step{script.Call("server", nil)}, append(steps, script.Say("Well."))...)
	rt, err := harness.New(t.Context(), t.TempDir(), harness.WithClient(script.New(steps...)), harness.WithTools(tool), harness.WithStore(journal.Memory(), ""))
	require.NoError(t, err)
	defer func() { require.NoError(t, rt.Close()) }()
	s := newStage("go\n" + lines)
	c := newTestChat(t, s, s, tty.Options{Plain: true}, &chat{
		session: &session{Runtime: rt}, asks: asks,
	})
	require.Equal(t, exitOK, c.run(t.Context(), ""))
	require.NoError(t, c.Screen.Close())
	return s.out, got
}

// A server's question goes to the user, whose answer is what the schema wants, or none.
func TestForm(t *testing.T) {
	t.Parallel()
	schema := json.RawMessage(`{"type":"object","properties":{
		"name":{"type":"string","title":"Your name","minLength":2},
		"age":{"type":"integer","description":"In years.","default":30},
		"color":{"type":"string","enum":["r","b"],"enumNames":["Red","Blue"]},
		"size":{"type":"string","oneOf":[{"const":"s","title":"Small"},{"const":"l","title":"Large"}]},
		"tags":{"type":"array","items":{"type":"string","enum":["x","y","z"]},"default":["z","x"]},
		"ok":{"type":"boolean","default":true}},"required":["name","ok"]}`)
	for _, tt := range []struct {
		name, lines, want string
		shown             []string
	}{
		{"answered", "y\nAda\n36\n2\nlarge\n1,2\nno\n", `accept {"name":"Ada","age":36,"color":"b","size":"l","tags":["x","y"],"ok":false}`,
			[]string{"server files", "asks you", "Who are you?", "Answer it?", "no passwords", "Your name (string)", "In years.", "1  Red", "2  Blue"}},
		{"defaults", "y\nAda\n\n\n\n\n\n", `accept {"name":"Ada","age":30,"tags":["z","x"],"ok":true}`, nil},
		{"wrong ones are asked again", "y\n\nAda\nold\n7\n3\n1\n\n5\n1\nmaybe\nyes\n", `accept {"name":"Ada","age":7,"color":"r","tags":["x"],"ok":true}`,
			[]string{"old is not a number", "3 is none of them: type a number from 1 to 2", "maybe is none of them"}},
		{"checked by the schema", "y\nA\n\n\n\n\n\nAda\n\n\n\n\n\n", `accept {"name":"Ada","age":30,"tags":["z","x"],"ok":true}`, []string{"/name"}},
		{"refused", "n\n", "decline", nil},
		{"anything else asks again", "perhaps\n\nn\n", "decline", []string{"Please answer with one of y, yes, n, no"}},
		{"gone", "", "dismissed", nil},
		{"gone in the middle", "y\nAda\n", "dismissed", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			shown, got := asking(t, tt.lines, func(ctx context.Context, u *User) string {
				r, err := u.Ask(ctx, Form{Server: "files\x1b[2J", Message: "Who are you?\x1b[2J", Schema: schema})
				switch {
				case err != nil:
					return err.Error()
				case r.Decline:
					return "decline"
				case !r.Accept:
					return "dismissed"
				}
				return "accept " + string(r.Content)
			})
			inOrder(t, shown, tt.shown...)
			require.NotContains(t, shown, "\x1b[2J")
			if want, ok := strings.CutPrefix(tt.want, "accept "); ok {
				require.True(t, strings.HasPrefix(got, "accept "), got)
				require.JSONEq(t, want, strings.TrimPrefix(got, "accept "))
				return
			}
			require.Equal(t, tt.want, got)
		})
	}
}

func TestFormOfAddress(t *testing.T) {
	t.Parallel()
	shown, got := asking(t, "y\n", func(ctx context.Context, u *User) string {
		r, err := u.Ask(ctx, Form{Server: "files", Message: "Please pay.", URL: "https://example.com/pay"})
		require.NoError(t, err)
		require.Empty(t, r.Content)
		return map[bool]string{true: "accept"}[r.Accept]
	})
	require.Equal(t, "accept", got)
	inOrder(t, shown, "asks you to open an address", "Please pay.", "https://example.com/pay", "Answer it?", "Open the address yourself")
}

func TestOddForms(t *testing.T) {
	timed.Serial(t)
	t.Parallel()
	many := strings.Repeat(`"a":{},`, 40)
	for schema, want := range map[string]string{
		`7`: "not understood", `{"properties":7}`: "not understood", `{"properties":{"a":7}}`: "not understood",
		`{"properties":{` + many + `"b":{}}}`: "more than 32 fields", `{"type":"object","required":["x"]}`: "x",
	} {
		shown, _ := asking(t, "y\n", func(ctx context.Context, u *User) string {
			r, err := u.Ask(ctx, Form{Server: "s", Message: "?", Schema: json.RawMessage(schema)})
			require.NoError(t, err)
			require.Equal(t, Reply{}, r, schema)
			return ""
		})
		require.Contains(t, shown, want, schema)
	}
}

// A server gets an answer of the model only if the user has seen the question, and no more than it may have.
func TestSample(t *testing.T) {
	t.Parallel()
	for lines, want := range map[string]string{"y\n": "42", "n\n": "the user has not allowed it", "": "the user has not allowed it"} {
		steps := []script.Step{}
		if lines == "y\n" {
			steps = append(steps, script.Func(func(req *aycoder.Request) script.Step {
				require.Equal(t, 4096, req.MaxTokens)
				require.Len(t, req.Messages, 1)
				return script.Say("42")
			}))
		}
		shown, got := asking(t, lines, func(ctx context.Context, u *User) string {
			res, err := u.Sample(ctx, "files", &aycoder.Request{MaxTokens: 1 << 20, System: []*aycoder.Text{{Text: "be short"}},
				Messages: []*aycoder.Message{{Role: aycoder.RoleUser, Parts: []aycoder.Part{&aycoder.Text{Text: "the answer?"},
					&aycoder.Media{Type: "image/png", Data: []byte("secret")}}}}})
			if err != nil {
				return err.Error()
			}
			return res.Text()
		}, steps...)
		require.Equal(t, want, got)
		inOrder(t, shown, "server files", "wants an answer of your model to this", "be short", "the answer?", "[image/png, 6 bytes]", "Let it ask?")
	}
}

// Between two runs, nobody is asked, and nobody waits.
func TestAskedAtThePrompt(t *testing.T) {
	t.Parallel()
	u := &User{newAsks()}
	r, err := u.Ask(t.Context(), Form{Server: "s"})
	require.NoError(t, err)
	require.Equal(t, Reply{}, r)
	_, err = u.Sample(t.Context(), "s", &aycoder.Request{})
	require.Error(t, err)
}

// A question for which the user has had no time is not put to the next run.
func TestAskedTooLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		u := &User{newAsks()}
		ended := u.asks.work()
		replied := make(chan Reply)
		go func() {
			r, _ := u.Ask(t.Context(), Form{Server: "s"})
			replied <- r
		}()
		synctest.Wait()
		ended()
		synctest.Wait()
		defer u.asks.work()()
		select {
		case f := <-u.asks.c:
			t.Error("the next run is asked")
			f(&chat{})
		case r := <-replied:
			require.Equal(t, Reply{}, r)
		}
	})
}
