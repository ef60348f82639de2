package replay_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/providers/replay"
	"github.com/aycoder/aycoder/providers/script"
)

// spelled returns the spellings of a secret.
func spelled(v string) []string {
	quoted, _ := json.Marshal(v)
	out := []string{v, url.QueryEscape(v), url.PathEscape(v), strings.Trim(string(quoted), `"`),
		strings.ReplaceAll(v, "/", `\/`)}
	for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding, base64.RawURLEncoding} {
		out = append(out, enc.EncodeToString([]byte(v)))
	}
	return out
}

// scan searches all files of a directory for secrets.
func scan(t testing.TB, dir string, secrets ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.NotEmpty(t, entries)
	for _, e := range entries {
		clean(t, readTape(t, filepath.Join(dir, e.Name())), secrets...)
	}
}

func clean(t testing.TB, text string, secrets ...string) {
	t.Helper()
	for _, secret := range secrets {
		for _, form := range spelled(secret) {
			at := strings.Index(text, form)
			if at >= 0 {
				t.Fatalf("%q is in it: %.200s", form, text[max(0, at-50):])
			}
		}
	}
}

// Keys do not get into the file, wherever a service or a program repeats them.
func TestNoSecretIsWritten(t *testing.T) {
	const (
		cookie   = "session-0123456789abcdef"
		password = "pass word/with <odd> chars"
		query    = "AIzaSyQUERY_key-0001"
		org      = "org-9876543210"
		own      = "the host's own secret"
		sig      = "fe5f80f77d5fa3beca038a248ff027d0445342fe2855ddc963176630326f1024"
	)
	all := []string{testKey, cookie, password, query, org, own, sig, "AKIDEXAMPLE", "tok-in-the-URL"}
	echo := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Set-Cookie", "sid="+cookie+"; Path=/; HttpOnly")
		w.Header().Set("Openai-Organization", org)
		w.Header().Set("Request-Id", "req of "+testKey)
		w.Header().Set("Location", r.URL.String())
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.Copy(io.Discard, r.Body)
		for _, secret := range all {
			for _, form := range spelled(secret) {
				half := len(form) / 2
				for _, piece := range []string{"{\"x\":\"", form[:half], form[half:], "\"}\n"} {
					_, _ = io.WriteString(w, piece)
					w.(http.Flusher).Flush()
				}
			}
			for shift := range 3 {
				_, _ = io.WriteString(w, base64.StdEncoding.EncodeToString([]byte("ab:"[:shift]+secret+":and more")))
			}
		}
		_, _ = io.WriteString(w, "the end")
	}
	s := serve(t, echo)
	path := tapePath(t)
	opts := []replay.Option{replay.WithSecretHeaders("openai-organization"), replay.WithSecrets(own), replay.WithHeaders("X-Note")}
	tape := record(t, path, opts...)
	target := strings.Replace(s.URL, "http://", "http://tok-in-the-URL:"+url.QueryEscape(password)+"@", 1) +
		"/v1/x?alt=sse&key=" + query + "&X-Amz-Signature=" + sig + "&note=" + url.QueryEscape(testKey)
	header := []string{"X-Api-Key", testKey, "Cookie", "sid=" + cookie, "X-Note", "note of " + own,
		"Authorization", "Bearer " + testKey, "Proxy-Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte("u:"+password)),
		"X-Auth-Token", "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20261101/us-east-1/bedrock/aws4_request, SignedHeaders=host, Signature=" + sig}
	body := `{"key":"` + testKey + `","` + own + `":1,"text":"plain"}`
	for _, b := range []string{body, "text of " + testKey + query, "\xff" + cookie} {
		_, got, err := get(t, tape, "POST", target, b, header...)
		require.NoError(t, err)
		require.Contains(t, got, testKey, "the program sees all")
		scan(t, filepath.Dir(path), all...)
	}
	clean(t, fmt.Sprintf("%v %+v %#v", tape, tape, tape), all...)
	require.NoError(t, tape.Close())
	scan(t, filepath.Dir(path), all...)
	file := readTape(t, path)
	require.Contains(t, file, "[redacted]")
	require.Contains(t, file, `"text":"plain"`)
	require.Contains(t, file, "/v1/x?alt=sse&note=")
	require.NotContains(t, file, "Openai-Organization")
	require.NotContains(t, file, "Set-Cookie")

	// The recording can be played back with another key, and errors do not show the
	// first.
	s.Close()
	back := openTape(t, path, opts...)
	const other = "sk-another/key=="
	swap := strings.NewReplacer(testKey, other)
	for i := range header {
		header[i] = swap.Replace(header[i])
	}
	target = strings.Replace(target, url.QueryEscape(testKey), url.QueryEscape(other), 1)
	resp, got, err := get(t, back, "POST", target, swap.Replace(body), header...)
	require.NoError(t, err)
	require.Equal(t, http.StatusNotFound, resp.StatusCode)
	require.Contains(t, got, "the end")
	_, _, err = get(t, back, "POST", target, "not recorded "+other+cookie, header...)
	require.ErrorAs(t, err, new(*replay.MismatchError))
	clean(t, fmt.Sprintf("%v %+v", err, err), append(all, other)...)
}

// A secret that becomes known late is also removed from earlier interactions.
func TestSecretThatIsKnownLate(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "it is "+testKey) })
	path := tapePath(t)
	tape := record(t, path)
	_, _, err := get(t, tape, "GET", s.URL, "")
	require.NoError(t, err)
	_, _, err = get(t, tape, "GET", s.URL, "", "X-Goog-Api-Key", testKey)
	require.NoError(t, err)
	require.NoError(t, tape.Close())
	scan(t, filepath.Dir(path), testKey)
	require.Equal(t, 2, strings.Count(readTape(t, path), "it is [redacted]"))
}

// The final scan of the file is independent of the removal of secrets.
func TestFinalScan(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "hello") })
	path := tapePath(t)
	require.NoError(t, os.WriteFile(path, []byte("as it was"), 0o600))
	tape := record(t, path, replay.WithRedact(func(b []byte) []byte {
		return []byte(strings.ReplaceAll(string(b), "hello", testKey))
	}))
	_, got, err := get(t, tape, "GET", s.URL, "", "X-Api-Key", testKey)
	require.NoError(t, err)
	require.Equal(t, "hello", got)
	scan(t, filepath.Dir(path), testKey)
	err = tape.Close()
	e, ok := errors.AsType[*replay.SecretError](err)
	require.True(t, ok, "%v", err)
	require.Equal(t, 1, e.Interaction)
	require.Equal(t, "header X-Api-Key", e.Source)
	clean(t, err.Error(), testKey)
	require.Equal(t, "as it was", readTape(t, path))
	noTrace(t, path)
}

func TestRedact(t *testing.T) {
	redact := func(b []byte) []byte {
		return []byte(strings.NewReplacer("alice@example.org", "user@x", "Alice", "U").Replace(string(b)))
	}
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		send(w, "first ", "hello Ali", "ce <alice@example.org>", " last")
	})
	path := tapePath(t)
	tape := record(t, path, replay.WithRedact(redact))
	hello := func(tape *replay.Tape) string {
		_, got, err := get(t, tape, "POST", s.URL+"/of/Alice", `{"user":"Alice"}`)
		require.NoError(t, err)
		return got
	}
	require.Equal(t, "first hello Alice <alice@example.org> last", hello(tape))
	require.NoError(t, tape.Close())
	require.NotContains(t, strings.ToLower(readTape(t, path)), "alice")
	require.Equal(t, "first hello U <user@x> last", hello(openTape(t, path, replay.WithRedact(redact))))

	// Events of models.
	m := script.New(script.Say("hello Alice"), script.Fail(&aycoder.AuthError{ModelError: &aycoder.ModelError{Err: errors.New("not Alice")}}))
	path = tapePath(t)
	tape = record(t, path, replay.WithRedact(redact))
	require.NoError(t, stream(t.Context(), tape.Client(m), ask("I am Alice"), -1).err)
	require.Error(t, stream(t.Context(), tape.Client(m), ask("I am Alice"), -1).err)
	require.NoError(t, tape.Close())
	require.NotContains(t, readTape(t, path), "Alice")
	back := openTape(t, path, replay.WithRedact(redact)).Client(nil)
	require.Equal(t, "hello |U|", texts(stream(t.Context(), back, ask("I am Alice"), -1)))
	require.ErrorContains(t, stream(t.Context(), back, ask("I am Alice"), -1).err, "not U")

	breaks := record(t, tapePath(t), replay.WithRedact(func([]byte) []byte { return []byte("no JSON") }))
	require.NoError(t, stream(t.Context(), breaks.Client(script.New(script.Say("hi"))), ask("x"), -1).err)
	require.Error(t, breaks.Close())
}

// A secret is found across the deltas of a stream, and in every field of an event.
func TestSecretsInEvents(t *testing.T) {
	const secret = "TOP-secret-42"
	part := &aycoder.ToolUse{ID: secret, Name: "x", Args: json.RawMessage(`{"a":"` + secret + `"}`)}
	m := script.New(script.Reply(script.Think("hm "+secret), script.Say("it is "+secret+"!"), script.Block(part)),
		script.Fail(&aycoder.OverloadedError{ModelError: &aycoder.ModelError{RequestID: secret, Err: errors.New(secret)}})).
		With(script.WithChunk(5), script.WithName(secret, "m"))
	path := tapePath(t)
	tape := record(t, path, replay.WithSecrets(secret))
	c := tape.Client(m)
	req := &aycoder.Request{Messages: []*aycoder.Message{aycoder.User(secret)}, Model: "of " + secret}
	want := stream(t.Context(), c, req, -1)
	require.NoError(t, want.err)
	require.Contains(t, strings.ReplaceAll(texts(want), "|", ""), secret)
	require.Error(t, stream(t.Context(), c, req, -1).err)
	scan(t, filepath.Dir(path), secret)
	require.NoError(t, tape.Close())
	scan(t, filepath.Dir(path), secret, "cret-")

	back := openTape(t, path, replay.WithSecrets(secret)).Client(nil)
	got := stream(t.Context(), back, req, -1)
	require.NoError(t, got.err)
	require.Len(t, got.events, len(want.events))
	require.Equal(t, "it is [redacted]!", strings.ReplaceAll(texts(got), "|", ""))
	require.ErrorContains(t, stream(t.Context(), back, req, -1).err, "[redacted]")
}

func TestSecretOptions(t *testing.T) {
	for name, opt := range map[string]replay.Option{
		"short secret":  replay.WithSecrets("abc"),
		"secret header": replay.WithHeaders("X-Session-Token"),
		"mode":          replay.WithMode(7),
		"matching":      replay.WithMatching(7),
		"chunk":         replay.WithChunk(-1),
		"size":          replay.WithMaxBytes(0),
		"transport":     replay.WithTransport(nil),
		"path":          replay.WithIgnore("a..b"),
		"nil":           nil,
	} {
		_, err := replay.Open(tapePath(t), opt, replay.WithMode(replay.Record), opt)
		require.ErrorAs(t, err, new(*aycoder.ConfigError), name)
		require.NotContains(t, err.Error(), "abc")
	}
}

// Keys in a body or a query are neither in the file nor in an error, wherever they are
// repeated, and the recording can be played back with another key.
func TestSecretsOfBodiesAndQueries(t *testing.T) {
	const key, other = "hunter2-very-secret-0123456789", "another-key-9876543210"
	body := func(key string) string {
		return `{"max_tokens":100,"tools":[{"type":"mcp","authorization":"` + key + `"},` +
			`{"type":"mcp","headers":{"Authorization":"Bearer ` + key + `"}}],` +
			`"mcp_servers":[{"type":"url","authorization_token":"` + key + `"}],"text":"plain"}`
	}
	tests := map[string]struct{ query, body string }{
		"body":   {"", body(key)},
		"camel":  {"?alt=sse&subscriptionKey=" + key, `{"a":1}`},
		"token":  {"?alt=sse&sessionToken=" + key, `{"a":1}`},
		"Azure":  {"?alt=sse&code=" + key, `{"a":1}`},
		"passwd": {"?alt=sse&passwd=" + key, `{"a":1}`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := serve(t, func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				_, _ = io.WriteString(w, "got "+key)
			})
			path := tapePath(t)
			tape := record(t, path)
			_, _, err := get(t, tape, "POST", s.URL+"/early", `{"text":"my key is `+key+`"}`)
			require.NoError(t, err)
			_, got, err := get(t, tape, "POST", s.URL+"/x"+tt.query, tt.body)
			require.NoError(t, err)
			require.Contains(t, got, key, "the program sees all")
			require.NoError(t, tape.Close())
			scan(t, filepath.Dir(path), key)

			swap := strings.NewReplacer(key, other)
			for _, asked := range []*strings.Replacer{strings.NewReplacer(), swap} {
				back := openTape(t, path)
				_, got, err = get(t, back, "POST", s.URL+"/early", asked.Replace(`{"text":"my key is `+key+`"}`))
				require.NoError(t, err, "what became known later was taken out here, too")
				require.Equal(t, "got [redacted]", got)
				_, _, err = get(t, back, "POST", s.URL+asked.Replace("/x"+tt.query), asked.Replace(tt.body))
				require.NoError(t, err)
			}
			back := openTape(t, path)
			_, _, err = get(t, back, "POST", s.URL+"/y"+tt.query, strings.Replace(tt.body, `{`, `{"said":"`+key+`",`, 1))
			require.ErrorAs(t, err, new(*replay.MismatchError))
			if tt.query == "" {
				clean(t, fmt.Sprintf("%v %+v", err, err), key)
			}
		})
	}
}

// A recording made before a secret was known can still be played back, and its errors do
// not show the secret either.
func TestSecretsOfOldRecordings(t *testing.T) {
	const key = "hunter2-very-secret-0123456789"
	body := `{"tools":[{"authorization":"` + key + `"}]}`
	got, err := post(t, openTape(t, written(t, body)), body)
	require.NoError(t, err)
	require.Equal(t, "1", got)
	_, err = post(t, openTape(t, written(t, body)), `{"tools":[]}`)
	require.ErrorAs(t, err, new(*replay.MismatchError))
	require.ErrorContains(t, err, "[redacted]")
	clean(t, err.Error(), key)
}

// A service that issues tokens has them in its response.
func TestSecretsOfGrants(t *testing.T) {
	const token = "ya29.a0AfB_0123456789"
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, `{"access_token":"`+token+`","token_type":"Bearer","expires_in":3599}`)
	})
	path := tapePath(t)
	tape := record(t, path)
	_, got, err := get(t, tape, "POST", s.URL, "grant_type=refresh_token&refresh_token=1%2F%2F0-refresh",
		"Content-Type", "application/x-www-form-urlencoded")
	require.NoError(t, err)
	require.Contains(t, got, token)
	scan(t, filepath.Dir(path), token, "1//0-refresh")
	require.NoError(t, tape.Close())
	scan(t, filepath.Dir(path), token, "1//0-refresh")
	require.Contains(t, readTape(t, path), "expires_in")
}
