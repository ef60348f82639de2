package webhook_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/server/webhook"
)

// The example of the specification's libraries.
func TestVerify(t *testing.T) {
	const key, body = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", `{"test": 2432232314}`
	at := time.Unix(1614265330, 0)
	header := func() http.Header {
		h := http.Header{}
		h.Set("webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek")
		h.Set("webhook-timestamp", "1614265330")
		h.Set("webhook-signature", "v1,Ceo5qEr07ixe2NLpvHk3FH9bwy/WavXrAFQ/9tdO6mc= v2,x v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=")
		return h
	}
	require.NoError(t, webhook.Verify([]string{key}, header(), []byte(body), at))
	require.NoError(t, webhook.Verify([]string{other, key[len("whsec_"):]}, header(), []byte(body), at.Add(4*time.Minute)))
	for name, change := range map[string]func(h http.Header, body *string, now *time.Time){
		"body":         func(_ http.Header, b *string, _ *time.Time) { *b += " " },
		"id":           func(h http.Header, _ *string, _ *time.Time) { h.Set("webhook-id", "msg_x") },
		"no id":        func(h http.Header, _ *string, _ *time.Time) { h.Del("webhook-id") },
		"time":         func(h http.Header, _ *string, _ *time.Time) { h.Set("webhook-timestamp", "1614265331") },
		"no number":    func(h http.Header, _ *string, _ *time.Time) { h.Set("webhook-timestamp", "now") },
		"old":          func(_ http.Header, _ *string, now *time.Time) { *now = now.Add(6 * time.Minute) },
		"new":          func(_ http.Header, _ *string, now *time.Time) { *now = now.Add(-6 * time.Minute) },
		"no signature": func(h http.Header, _ *string, _ *time.Time) { h.Del("webhook-signature") },
		"other version": func(h http.Header, _ *string, _ *time.Time) {
			h.Set("webhook-signature", "v1a,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=")
		},
		"cut": func(h http.Header, _ *string, _ *time.Time) { h.Set("webhook-signature", "v1,g0hM9SsE") },
	} {
		h, b, now := header(), body, at
		change(h, &b, &now)
		err := webhook.Verify([]string{key}, h, []byte(b), now)
		var wrong *webhook.VerifyError
		require.ErrorAs(t, err, &wrong, name)
	}
	require.Error(t, webhook.Verify([]string{other}, header(), []byte(body), at))
	require.Error(t, webhook.Verify(nil, header(), []byte(body), at))
	require.Error(t, webhook.Verify([]string{"whsec_"}, header(), []byte(body), at), "an empty secret is none")
}
