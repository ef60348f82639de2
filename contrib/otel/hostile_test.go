package otel_test

import (
	"context"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/contrib/otel"
	"github.com/aycoder/aycoder/contrib/otel/prom"
	"github.com/aycoder/aycoder/providers/script"
)

// A text is masked before it is cut, so that no part of a secret is left at its end.
func TestContentMasksWhatIsCut(t *testing.T) {
	const left = 35 // bytes of the secret before the end
	text := strings.Repeat("x", 16<<10-left-1) + " " + secret
	r := newRecorder(t, func(o *otel.Options) { o.Content = true })
	model := aycoder.ModelFunc(func(context.Context, *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
		return func(yield func(aycoder.ModelEvent, error) bool) {
			for i := 0; i < len(text); i += 4 {
				if !yield(&aycoder.TextDelta{Text: text[i:min(i+4, len(text))]}, nil) {
					return
				}
			}
			_ = yield(&aycoder.BlockDone{Part: &aycoder.Text{Text: text}}, nil) && yield(&aycoder.MessageDone{Stop: aycoder.StopEndTurn}, nil)
		}
	})
	require.NoError(t, work(t, r.Telemetry, model))
	for _, s := range r.spans.Ended() {
		for name, v := range attributes(s) {
			text, _ := v.(string)
			require.NotContains(t, text, "xxx g", name)
		}
	}
}

// The secrets in arguments are hidden however the model has written them in JSON.
func TestArgumentsAreMaskedAsTexts(t *testing.T) {
	const pem = "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA7bq8mVZf3nQJx0sT5kYw2LrCgHd9UeXo4PiNvKzRj6Sy1AhB\n-----END RSA PRIVATE KEY-----\n"
	for _, args := range []string{
		`{"Path":"ghp\u005fx7Kq9vLm2Rt5Wz8Yb3Nd6Fg1Hj4Pc0SaUeQi"}`,
		`{"Path":"` + strings.ReplaceAll(pem, "\n", `\n`) + `"}`,
		`{"Path":"password=\"` + "hunter2hunter2xyz" + `\""}`,
	} {
		r := newRecorder(t, func(o *otel.Options) { o.Content = true })
		require.NoError(t, work(t, r.Telemetry, script.New(script.Call("read", args), script.Say("Done."))))
		for _, s := range r.spans.Ended() {
			for name, v := range attributes(s) {
				text, _ := v.(string)
				for _, part := range []string{"x7Kq9vLm", "MIIEpAIBAAKC", "hunter2"} {
					require.NotContains(t, text, part, name)
				}
			}
		}
	}
}

// Whatever a gateway answers, an error does not tell its password, and metrics that did not arrive are an error.
func TestPushAnswers(t *testing.T) {
	p, err := prom.New()
	require.NoError(t, err)
	for _, status := range []int{201, 204, 206, 302, 307, 404, 500} {
		there := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(r.URL.Path, "/elsewhere") {
				return
			}
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(status)
		}))
		err := p.Push(t.Context(), strings.Replace(there.URL, "http://", "http://user:hunter2@", 1), "job")
		require.Error(t, err, status)
		require.NotContains(t, err.Error(), "hunter2", status)
		there.Close()
	}
	require.NoError(t, p.Close(t.Context()))
}

// A prompt that comes with the history, as that of chat completions, is a message of the user.
func TestMessageWithTheHistory(t *testing.T) {
	r := newRecorder(t, nil)
	a, err := aycoder.New(r.Model(script.New(script.Say("Hi."))))
	require.NoError(t, err)
	in := aycoder.Input{Messages: []*aycoder.Message{aycoder.User("one"), aycoder.Assistant("two"), aycoder.User("three")}}
	for _, err := range r.Agent(a, otel.Run{}).Run(t.Context(), in) {
		require.NoError(t, err)
	}
	_, labels, values := points(r.collect(t)["aycoder.messages"])
	require.Contains(t, labels, map[string]string{"role": "user"})
	require.Equal(t, []float64{1, 1}, values)
}
