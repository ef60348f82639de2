package replay

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/internal/wiretest"
)

func TestSecretName(t *testing.T) {
	secret := "Authorization Proxy-Authorization X-Api-Key x-goog-api-key api_key apiKey APIKey OPENAI_API_KEY apikey " +
		"key subscriptionKey subscription-key Ocp-Apim-Subscription-Key sessionToken sessiontoken access_token " +
		"accessToken authorization_token X-Amz-Security-Token client_secret clientSecret password passWord pass_word " +
		"pwd passwd jwt X-Goog-Iap-Jwt-Assertion bearer Bearer-Token OAuth oauth2 connection_string connectionString " +
		"secretAccessKey private_key Cookie2 Set-Cookie X-Amz-Signature sig apiKeyString api_keys credential " +
		"X-Cache-Auth-Token publicApiKey MAX_API_KEY env_secret TYPE_TOKEN"
	plain := "max_tokens maxTokens tokens token_type tokenType token_count X-Amzn-Bedrock-Input-Token-Count " +
		"Anthropic-Ratelimit-Tokens-Remaining x-ratelimit-reset-tokens expires_in auth_type key_name token_url " +
		"prompt_cache_key pageToken public_key author authority model monkeys keyboard design assign id code " +
		"content_type input_tokens_details bearing tokenizer " + strings.Repeat("key", 20)
	for name := range strings.FieldsSeq(secret) {
		require.True(t, secretName(name), name)
	}
	for name := range strings.FieldsSeq(plain) {
		require.False(t, secretName(name), name)
	}
	require.True(t, secretParam("Code"))
	require.False(t, secretParam("country_code"))
}

// learned returns the secrets in a body.
func learned(contentType, body string) []string {
	s := newSecrets([]string{"X-Acme"}, nil)
	s.learnBody(contentType, []byte(body))
	var out []string
	for v := range s.known {
		out = append(out, v)
	}
	slices.Sort(out)
	return out
}

func TestSecretsOfBodies(t *testing.T) {
	tests := []struct{ name, body, want string }{
		{"tool", `{"tools":[{"type":"mcp","authorization":"key-0123456789"}]}`, "key-0123456789"},
		{"headers", `{"tools":[{"headers":{"Authorization":"Bearer key-0123456789","Accept":"text/plain0"}}]}`, "key-0123456789"},
		{"header of the host's", `{"headers":{"X-Acme":"acme-0123456789"}}`, "acme-0123456789"},
		{"server", `{"mcp_servers":[{"name":"x","authorization_token":"key-0123456789"}]}`, "key-0123456789"},
		{"user and password", `{"headers":{"Authorization":"Basic dTpwYXNzLXdvcmQx"}}`, "pass-word1 u:pass-word1"},
		{"Azure's data", `{"data_sources":[{"parameters":{"authentication":{"type":"api_key","key":"abcdef0123456789"}}}]}`,
			"abcdef0123456789"},
		{"connection string", `{"connectionString":"Host=x;AccountKey=abc=="}`, "Host=x;AccountKey=abc=="},
		{"pairs", `{"env":[{"name":"API_KEY","value":"key-0123456789"},{"value":"key-2123456789","name":"HOME_TOKEN"},` +
			`{"name":"HOME","value":"/home/me0"}]}`, "key-0123456789 key-2123456789"},
		{"value", `{"client_secret":{"value":"ek_0123456789","expires_at":1234567890}}`, "ek_0123456789"},
		{"list", `{"api_keys":["key-0123456789",5,["key-1123456789"]]}`, "key-0123456789 key-1123456789"},
		{"letters", `{"token":"ABCDEFGHIJKLMNOPQRSTUVWX"}`, "ABCDEFGHIJKLMNOPQRSTUVWX"},
		{"escaped", `{"api\u005fkey":"key\/0123456789"}`, "key/0123456789"},
		{"torn", `{"api_key":"key-0123456789","x":[`, "key-0123456789"},
		{"deep", `{"a":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `,"api_key":"key-0123456789"}`, "key-0123456789"},

		{"numbers", `{"max_tokens":100000000,"token":123456789,"key":"1234567890","api_key":"-1.5e+100"}`, ""},
		{"short", `{"api_key":"k-1","authorization":"none"}`, ""},
		{"words", `{"authorization":"required","auth":"service_account","token_type":"bearer-0123456789","secret":true}`, ""},
		{"sentences", `{"token":"what the user has to type in, 8 digits"}`, ""},
		{"cache", `{"prompt_cache_key":"session-0123456789"}`, ""},
		{"schema", `{"tools":[{"name":"login","input_schema":{"type":"object","properties":{"api_key":{"type":"string",` +
			`"description":"key-0123456789"},"password":{"type":"string","pattern":"^[a-z0-9]{12}$"}},"required":["api_key"]}}]}`, ""},
		{"conversation", `{"messages":[{"role":"assistant","content":[{"type":"thinking","signature":"EqQBCgIYAhIM1gbcDa9GJwZA2b3h"},` +
			`{"type":"tool_use","input":{"key":"ctrl+alt+f12","password":"hunter2-very-secret"}}]}],"input":[{"token":"abc-0123456"}]}`, ""},
		{"signatures", `{"signature":"EqQBCgIYAhIM1gbcDa9GJwZA2b3h","thoughtSignature":"CoEBAdHtim8x0123456789"}`, ""},
		{"no document", `api_key: key-0123456789`, ""},
		{"empty", ``, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			require.Equal(t, tt.want, strings.Join(learned("application/json", tt.body), " "))
		})
	}
	pem := "-----BEGIN PRIVATE KEY-----\nMIIEvQ==\n-----END PRIVATE KEY-----"
	require.Equal(t, []string{pem}, learned("", `{"private_key":"`+strings.ReplaceAll(pem, "\n", `\n`)+`\n"}`))
	require.Equal(t, []string{"code-0123", "s3cret/key"}, learned("application/x-www-form-urlencoded; charset=utf-8",
		"grant_type=authorization_code&code=code-0123&client_secret=s3cret%2Fkey&scope=all-of-it-0"))
}

// Real requests and responses do not contain secrets, because those were removed when
// they were recorded, so all of it must stay readable.
func TestUsualBodiesStayReadable(t *testing.T) {
	timed.Long(t, "bodies of many megabytes")
	cases := 0
	wiretest.Each(t, func(r *wiretest.Recording) {
		for _, in := range r.Interactions {
			cases++
			require.Empty(t, learned("application/json", string(in.RequestBody())), r.ID)
		}
	})
	t.Logf("%d requests", cases)
}

func TestFits(t *testing.T) {
	tests := []struct {
		recorded, request string
		want              bool
	}{
		{"a", "a", true},
		{"a", "b", false},
		{"[redacted]", "anything", true},
		{"[redacted]", "", true},
		{"a [redacted] b", "a key b", true},
		{"a [redacted] b", "a [redacted] b", true},
		{"a [redacted] b", "a key c", false},
		{"a [redacted] b", "a  key b c", false},
		{"[redacted] and [redacted]!", "x and y and z!", true},
		{"[redacted] and [redacted]!", "x or z!", false},
		{"ab[redacted]ba", "aba", false},
	}
	for _, tt := range tests {
		require.Equal(t, tt.want, fitsText(tt.recorded, tt.request), "%q %q", tt.recorded, tt.request)
	}
}

// In any body, words and numbers are left alone, and every learned secret can be removed.
func FuzzLearnBody(f *testing.F) {
	f.Add("", []byte(`{"tools":[{"headers":{"Authorization":"Bearer key-0123456789"},"api_key":["x"]}]}`))
	f.Add("", []byte(`[{"name":"token","value":"\ud800-0123456789"}]`))
	f.Add("application/x-www-form-urlencoded", []byte("client_secret=%zz0123456789&&=x"))
	f.Fuzz(func(t *testing.T, contentType string, body []byte) {
		s := newSecrets(nil, nil)
		s.learnBody(contentType, body)
		s.learnGrant(body)
		for v := range s.known {
			require.GreaterOrEqual(t, len(v), minSecret)
		}
		masked, _ := s.mask(body, nil)
		s.find(masked)
	})
}
