package compat

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/server/webhook"
)

const webhookSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// sentWebhook is a request of a sender.
type sentWebhook struct {
	Header http.Header
	Body   string
}

// webhooks returns the requests for some events.
func webhooks(t *testing.T) (sent []sentWebhook) {
	t.Helper()
	requests := make(chan sentWebhook)
	s, err := webhook.Open(t.TempDir(), webhook.Options{Transport: transport(func(r *http.Request) (*http.Response, error) {
		body, err := io.ReadAll(r.Body)
		requests <- sentWebhook{r.Header, string(body)}
		return &http.Response{StatusCode: http.StatusNoContent, Body: http.NoBody}, err
	})})
	require.NoError(t, err)
	other := "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
	require.NoError(t, s.Register(webhook.Endpoint{ID: "a", URL: "https://hooks.example.com", Secrets: []string{other, webhookSecret}}))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	for _, text := range []string{"", "a", "é 漢 \x00 </script>", `{"a":"b"}`} {
		_, err := s.Send(webhook.Event{Type: "my.event", Data: map[string]string{"text": text}})
		require.NoError(t, err)
		sent = append(sent, <-requests)
	}
	cancel()
	<-done
	require.NoError(t, s.Close())
	return sent
}

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// The library of the specification accepts our requests, refuses what was changed, and its own are accepted by ours.
func TestWebhooks(t *testing.T) {
	judge, err := standardwebhooks.NewWebhook(webhookSecret)
	require.NoError(t, err)
	for _, s := range webhooks(t) {
		require.NoError(t, judge.Verify([]byte(s.Body), s.Header))
		require.Error(t, judge.Verify([]byte(s.Body+" "), s.Header))
		for name, value := range map[string]string{"Webhook-Id": "msg_1", "Webhook-Timestamp": "1", "Webhook-Signature": "v1,AAAA"} {
			changed := s.Header.Clone()
			changed.Set(name, value)
			require.Error(t, judge.Verify([]byte(s.Body), changed), name)
		}
	}
	now, body := time.Now(), []byte(`{"type":"x"}`)
	sign, err := judge.Sign("msg_1", now, body)
	require.NoError(t, err)
	header := http.Header{}
	header.Set(standardwebhooks.HeaderWebhookID, "msg_1")
	header.Set(standardwebhooks.HeaderWebhookTimestamp, strconv.FormatInt(now.Unix(), 10))
	header.Set(standardwebhooks.HeaderWebhookSignature, sign)
	require.NoError(t, webhook.Verify([]string{webhookSecret}, header, body, now))
	require.Error(t, webhook.Verify([]string{webhookSecret}, header, bytes.ToUpper(body), now))
}

// So does the package standardwebhooks of npm, which AYCODER_NODE_MODULES has.
func TestWebhooksNode(t *testing.T) {
	dir := os.Getenv("AYCODER_NODE_MODULES")
	if dir == "" {
		t.Skip("AYCODER_NODE_MODULES is not set: a directory with the package standardwebhooks")
	}
	data, err := json.Marshal(webhooks(t))
	require.NoError(t, err)
	name := filepath.Join(t.TempDir(), "sent.json")
	require.NoError(t, os.WriteFile(name, data, 0o600))
	cmd := exec.CommandContext(t.Context(), "node", "-e", `
const { Webhook } = require("standardwebhooks");
const judge = new Webhook("`+webhookSecret+`");
let n = 0;
for (const s of JSON.parse(require("fs").readFileSync(process.argv[1]))) {
  const headers = Object.fromEntries(Object.entries(s.Header).map(([k, v]) => [k.toLowerCase(), v[0]]));
  judge.verify(s.Body, headers);
  try { judge.verify(s.Body + " ", headers); process.exit(2); } catch (e) { n++; }
}
console.log(n);`, name)
	cmd.Env = append(os.Environ(), "NODE_PATH="+dir)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	require.Equal(t, "4\n", string(out))
}
