package replay_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/providers/replay"
)

// written writes a recording with a POST for each body, answered with its number.
func written(t testing.TB, bodies ...string) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("{\"aycoder_replay\":1}\n")
	for i, body := range bodies {
		fmt.Fprintf(&b, `{"http":{"method":"POST","url":"https://api.test/v1/x?alt=sse","header":{"Accept":"a"},"json":%s}}
{"response":{"status":200}}
{"chunk":"%d"}
{"end":"complete"}
`, body, i+1)
	}
	b.WriteString("{\"eof\":true}\n")
	path := tapePath(t)
	require.NoError(t, os.WriteFile(path, []byte(b.String()), 0o600))
	return path
}

const target = "http://localhost:1/v1/x?alt=sse"

// post returns the number of the interaction that was served, or the error.
func post(t testing.TB, tape *replay.Tape, body string) (string, error) {
	t.Helper()
	_, got, err := get(t, tape, "POST", target, body, "Accept", "a")
	return got, err
}

func TestMatching(t *testing.T) {
	const date = `"2026-11-21"`
	tests := []struct {
		name     string
		opts     []replay.Option
		recorded []string
		asked    []string
		want     string // the served interactions, with - for a mismatch
	}{
		{"in order", nil, []string{`{"a":1}`, `{"a":2}`}, []string{`{"a":1}`, `{"a":2}`}, "1 2"},
		{"canonical", nil, []string{`{"a":1,"b":[1.50,"é"]}`}, []string{` {"b" : [15e-1, "\u00e9"], "a":1.0}`}, "1"},
		{"large numbers", nil, []string{`{"a":9007199254740993}`}, []string{`{"a":9007199254740992}`}, "-"},
		{"other order", nil, []string{`{"a":1}`, `{"a":2}`}, []string{`{"a":2}`, `{"a":1}`, `{"a":2}`}, "- 1 2"},
		{"used once", nil, []string{`{"a":1}`, `{"a":1}`}, []string{`{"a":1}`, `{"a":1}`, `{"a":1}`}, "1 2 -"},
		{"reuse", []replay.Option{replay.WithReuse(true)}, []string{`{"a":1}`, `{"a":1}`, `{"a":2}`},
			[]string{`{"a":1}`, `{"a":1}`, `{"a":1}`, `{"a":2}`, `{"a":1}`, `{"a":3}`}, "1 2 2 3 2 -"},
		{"lenient", []replay.Option{replay.WithMatching(replay.Lenient)}, []string{`{"a":1}`, `{"a":2}`, `{"a":1}`},
			[]string{`{"a":2}`, `{"a":1}`, `{"a":1}`, `{"a":1}`}, "2 1 3 -"},
		{"lists have an order", nil, []string{`{"a":[1,2]}`}, []string{`{"a":[2,1]}`}, "-"},
		{"null is not nothing", nil, []string{`{"a":null}`}, []string{`{}`}, "-"},
		{"ignored", []replay.Option{replay.WithIgnore("metadata.user_id", "list[0].x", "m.*.id")},
			[]string{`{"metadata":{"user_id":"a","b":1},"list":[{"x":1,"y":2}],"m":[{"id":1},{"id":2}]}`},
			[]string{`{"metadata":{"user_id":"c","b":1},"list":[{"y":2}],"m":[{"id":3},{}]}`}, "1"},
		{"ignored anywhere", []replay.Option{replay.WithIgnore("**.cache", `["x.y"]`)},
			[]string{`{"cache":1,"a":[{"b":{"cache":2,"c":3}}],"x.y":1}`}, []string{`{"a":[{"b":{"c":3}}]}`}, "1"},
		{"not ignored", []replay.Option{replay.WithIgnore("metadata.user_id")}, []string{`{"metadata":{"b":1}}`},
			[]string{`{"metadata":{"b":2}}`}, "-"},
		{"normalised", []replay.Option{replay.WithNormalize(func(b []byte) []byte {
			return []byte(strings.ReplaceAll(string(b), date, `"today"`))
		})}, []string{`{"at":` + date + `}`}, []string{`{"at":"today"}`}, "1"},
		{"no object", nil, []string{`[1]`, `"s"`}, []string{`[1]`, `"s"`}, "1 2"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tape := openTape(t, written(t, tt.recorded...), tt.opts...)
			var got []string
			for _, body := range tt.asked {
				n, err := post(t, tape, body)
				if err != nil {
					require.ErrorAs(t, err, new(*replay.MismatchError))
					n = "-"
				}
				got = append(got, n)
			}
			require.Equal(t, tt.want, strings.Join(got, " "))
		})
	}
}

func TestMatchingOfTheRest(t *testing.T) {
	path := written(t, `{"a":1}`)
	tests := []struct {
		name, method, url, accept, want string
		opts                            []replay.Option
	}{
		{"same at another host", "POST", "https://other.test/v1/x?alt=sse", "a", "", nil},
		{"key in the query", "POST", target + "&key=AIza-0123456789", "a", "", nil},
		{"method", "PUT", target, "a", `~ @method: "POST" → "PUT"`, nil},
		{"path", "POST", "http://localhost/v1/y?alt=sse", "a", `~ @path: "/v1/x" → "/v1/y"`, nil},
		{"query", "POST", "http://localhost/v1/x?alt=json&b=", "a", `~ @query.alt: "sse" → "json"` + "\n  " + `+ @query.b: ""`, nil},
		{"header", "POST", target, "b", `~ @header.Accept: "a" → "b"`, nil},
		{"ignored header", "POST", target, "b", "", []replay.Option{replay.WithIgnore("@header.Accept")}},
		{"lenient header", "POST", target, "b", "", []replay.Option{replay.WithMatching(replay.Lenient)}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, _, err := get(t, openTape(t, path, tt.opts...), tt.method, tt.url, `{"a":1}`, "Accept", tt.accept)
			if tt.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, "is not the one that was recorded as interaction 1:\n  "+tt.want)
		})
	}
}

func TestDiff(t *testing.T) {
	long := strings.Repeat("all work and no play ", 50)
	tests := []struct{ name, recorded, asked, want string }{
		{"changed", `{"a":{"b":1}}`, `{"a":{"b":2}}`, `~ a.b: 1 → 2`},
		{"added and removed", `{"a":1}`, `{"b":"x"}`, "- a: 1\n+ b: \"x\""},
		{"type", `{"a":{"b":1}}`, `{"a":[1]}`, `~ a: {"b":1} → [1]`},
		{"in a list", `{"a":[1,2,3]}`, `{"a":[1,9,3]}`, `~ a[1]: 2 → 9`},
		{"inserted", `{"a":[1,3]}`, `{"a":[1,2,3]}`, `+ a[1]: 2`},
		{"cut out", `{"a":[1,2,2,3]}`, `{"a":[1,3]}`, "- a[1]: 2\n- a[2]: 2"},
		{"grown", `{"a":[{"t":"x"}]}`, `{"a":[{"t":"x"},{"t":"y"}]}`, `+ a[1]: {"t":"y"}`},
		{"odd keys", `{"a.b":1,"":{"[":1}}`, `{"a.b":2,"":{"[":2}}`, "~ [\"\"][\"[\"]: 1 → 2\n~ [\"a.b\"]: 1 → 2"},
		{"long text", `{"a":"` + long + `x` + long + `"}`, `{"a":"` + long + `ü` + long + `"}`,
			`~ a: …ay all work and no play xall work and no play all work and no play all work and … → ` +
				`…ay all work and no play üall work and no play all work and no play all work and…`},
		{"no JSON object", `[1,2]`, `[1]`, `- @body[1]: 2`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := post(t, openTape(t, written(t, tt.recorded)), tt.asked)
			e, ok := errors.AsType[*replay.MismatchError](err)
			require.True(t, ok, "%v", err)
			var lines []string
			for _, c := range e.Changes {
				lines = append(lines, c.String())
				require.NotEqual(t, c.Recorded, c.Request)
			}
			require.Equal(t, tt.want, strings.Join(lines, "\n"))
			require.Equal(t, 1, e.Nearest)
			require.ErrorAs(t, err, new(*aycoder.BadRequestError))
			for _, c := range e.Changes { // each change can be ignored by its path
				if strings.HasPrefix(c.String(), "~") {
					_, err := post(t, openTape(t, written(t, tt.recorded), replay.WithIgnore(c.Path)), tt.asked)
					if e, ok := errors.AsType[*replay.MismatchError](err); ok {
						require.NotContains(t, e.Changes, c)
					}
				}
			}
		})
	}
}

func TestDiffIsBounded(t *testing.T) {
	var a, b strings.Builder
	for i := range 500 {
		fmt.Fprintf(&a, `"%s%d":"%s",`, strings.Repeat("key", 100), i, strings.Repeat("a", 1000))
		fmt.Fprintf(&b, `"%s%d":"%s",`, strings.Repeat("key", 100), i, strings.Repeat("b", 1000))
	}
	deep := func(s string) string { return strings.Repeat(`[`, 5000) + s + strings.Repeat(`]`, 5000) }
	recorded := `{` + a.String() + `"deep":` + deep("1") + `}`
	_, err := post(t, openTape(t, written(t, recorded)), `{`+b.String()+`"deep":`+deep("2")+`}`)
	e, ok := errors.AsType[*replay.MismatchError](err)
	require.True(t, ok)
	require.Equal(t, 501, len(e.Changes)+e.More)
	require.Less(t, len(err.Error()), 8<<10)
	require.Contains(t, err.Error(), "and 481 more")
}

func TestNearest(t *testing.T) {
	path := written(t, `{"a":1,"b":1,"c":1}`, `{"a":2,"b":2,"c":2}`, `{"a":3,"b":3,"c":3}`)
	ask := func(body string, opts ...replay.Option) *replay.MismatchError {
		tape := openTape(t, path, opts...)
		_, err := post(t, tape, body)
		require.Len(t, tape.Unused(), 3, "a mismatch uses nothing")
		e, ok := errors.AsType[*replay.MismatchError](err)
		require.True(t, ok, "%v", err)
		return e
	}
	e := ask(`{"a":2,"b":2,"c":0}`, replay.WithMatching(replay.Lenient))
	require.Equal(t, 2, e.Nearest)
	require.Equal(t, []replay.Change{{Path: "c", Recorded: "2", Request: "0"}}, e.Changes)
	e = ask(`{"a":3,"b":3,"c":3}`)
	require.Equal(t, 1, e.Nearest, "the next one")
	require.ErrorContains(t, e, "it is interaction 3: the order is another")

	tape := openTape(t, written(t, `{"a":1}`))
	_, err := post(t, tape, `{"a":1}`)
	require.NoError(t, err)
	_, err = post(t, tape, `{"a":1}`)
	require.ErrorContains(t, err, "request 2, POST /v1/x, was not recorded: nothing is left (it is interaction 1, which was used already)")
}

func TestModes(t *testing.T) {
	for _, m := range []replay.Mode{replay.Replay, replay.Record, replay.RecordMissing} {
		got, err := replay.ParseMode(m.String())
		require.NoError(t, err)
		require.Equal(t, m, got)
	}
	path := written(t, `{"a":1}`)
	t.Setenv("TAPE_MODE", "")
	require.Equal(t, replay.Replay, openTape(t, path, replay.WithModeEnv("TAPE_MODE")).Mode())
	t.Setenv("TAPE_MODE", "record-missing")
	require.Equal(t, replay.RecordMissing, openTape(t, path, replay.WithModeEnv("TAPE_MODE")).Mode())
	t.Setenv("TAPE_MODE", "rewind")
	_, err := replay.Open(path, replay.WithModeEnv("TAPE_MODE"))
	require.ErrorAs(t, err, new(*aycoder.ConfigError))
	t.Setenv("TAPE_MODE", "")
	_, err = replay.Open(filepath.Join(t.TempDir(), "none"), replay.WithModeEnv("TAPE_MODE"))
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, "record it with TAPE_MODE=record")

	fresh := filepath.Join(t.TempDir(), "new", "directory", "tape")
	require.NoError(t, openTape(t, fresh, replay.WithMode(replay.Record)).Close())
	require.Equal(t, "{\"aycoder_replay\":1}\n{\"eof\":true}\n", readTape(t, fresh))
	require.Empty(t, openTape(t, fresh).Unused())
}

func TestLimits(t *testing.T) {
	_, err := replay.Open(written(t, `{"a":1}`), replay.WithMaxBytes(100))
	require.ErrorAs(t, err, new(*aycoder.LimitError))

	s := serve(t, func(w http.ResponseWriter, r *http.Request) { send(w, strings.Repeat("x", 5000)) })
	path := tapePath(t)
	tape := record(t, path, replay.WithMaxBytes(4000))
	_, got, err := get(t, tape, "GET", s.URL, "")
	require.NoError(t, err)
	require.Len(t, got, 5000, "the program has all of it")
	_, _, err = get(t, tape, "GET", s.URL, strings.Repeat("y", 5000))
	require.ErrorAs(t, err, new(*aycoder.LimitError))
	require.ErrorAs(t, tape.Close(), new(*aycoder.LimitError))
	require.NoFileExists(t, path)
	require.NoFileExists(t, path+".part")
}

// tester collects the errors that a test would report.
type tester struct {
	cleanup []func()
	said    []string
}

func (f *tester) Helper()           {}
func (f *tester) Cleanup(fn func()) { f.cleanup = append(f.cleanup, fn) }
func (f *tester) Errorf(format string, args ...any) {
	f.said = append(f.said, fmt.Sprintf(format, args...))
}
func (f *tester) Fatalf(format string, args ...any) { f.Errorf("fatal: "+format, args...) }

func TestForTest(t *testing.T) {
	f := &tester{}
	tape := replay.ForTest(f, written(t, `{"a":1}`, `{"a":2}`))
	_, err := post(t, tape, `{"a":1}`)
	require.NoError(t, err)
	f.cleanup[0]()
	require.Len(t, f.said, 1)
	require.Contains(t, f.said[0], "interaction 2, POST /v1/x was not asked for")

	f = &tester{}
	require.Nil(t, replay.ForTest(f, tapePath(t)))
	require.Len(t, f.said, 1)
	require.Contains(t, f.said[0], "fatal: open recording")
}
