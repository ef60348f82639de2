package rawjson

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// value builds the same value as encoding/json.
func value(r *Reader) any {
	switch r.Kind() {
	case '{':
		m := map[string]any{}
		for r.Object(); r.Next(); {
			m[r.Key()] = value(r)
		}
		return m
	case '[':
		l := []any{}
		for r.Array(); r.Next(); {
			l = append(l, value(r))
		}
		return l
	case '"':
		s, _ := r.Str()
		return s
	case '0':
		x, _ := r.Float()
		return x
	case 't', 'f':
		b, _ := r.Bool()
		return b
	}
	r.Skip()
	return nil
}

func TestReader(t *testing.T) {
	tests := []struct {
		name, in string
		valid    bool
	}{
		{"object", `{"a":1,"b":[true,false,null],"c":{"d":"e"}}`, true},
		{"space", " \t\r\n{ \"a\" : [ 1 , 2 ] , \"b\" : { } } ", true},
		{"escapes", `{"\u0061":"\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00"}`, true},
		{"half surrogates", `["\ud83d","\ud83dx","\ude00","\ud83d\u0041"]`, true},
		{"numbers", `[0,-0,1.5,-1e3,2E+2,3e-2,0.1]`, true},
		{"empty containers", `[{},[],""]`, true},
		{"scalar", `"x"`, true},
		{"nothing", ``, false},
		{"space only", ` `, false},
		{"open object", `{"a":1`, false},
		{"open key", `{"a`, false},
		{"no colon", `{"a" 1}`, false},
		{"no value", `{"a":}`, false},
		{"trailing comma", `[1,]`, false},
		{"trailing comma in object", `{"a":1,}`, false},
		{"leading comma", `[,1]`, false},
		{"wrong end", `[1}`, false},
		{"wrong end of object", `{"a":1]`, false},
		{"leading zero", `[01]`, false},
		{"plus", `[+1]`, false},
		{"no digits", `[1.]`, false},
		{"no exponent", `[1e]`, false},
		{"minus alone", `-`, false},
		{"control character", "[\"a\nb\"]", false},
		{"bad escape", `["\x"]`, false},
		{"short escape", `["\u12"]`, false},
		{"word", `[nul]`, false},
		{"two values", `{} {}`, false},
		{"comma after", `{},`, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			check(t, tt.in)
			assert.Equal(t, tt.valid, json.Valid([]byte(tt.in)))
		})
	}
}

// check compares a walk, a skip and a raw read with encoding/json.
func check(t *testing.T, in string) {
	t.Helper()
	var want any
	valid := json.Unmarshal([]byte(in), &want) == nil
	walk := NewReader(in)
	got := value(walk)
	require.Equal(t, valid, walk.End() == nil, "walk of %q: %v", in, walk.Err())
	require.Equal(t, valid, NewReader(in).End() == nil, "skip of %q", in)
	raw := NewReader(in)
	text := raw.Raw()
	require.Equal(t, valid, raw.End() == nil, "raw of %q", in)
	require.Equal(t, valid, Valid([]byte(in)), "%q", in)
	if valid {
		require.Equal(t, want, got, "value of %q", in)
		require.Equal(t, strings.Trim(in, space), text)
	}
}

func TestReaderSkipsWhatIsNotRead(t *testing.T) {
	r := NewReader(`{"a":{"x":[1,{"y":2}]},"b":"no number","c":[3],"d":4,"e":5.9,"f":"é"}`)
	got := map[string]any{}
	for r.Object(); r.Next(); {
		switch r.Key() {
		case "b":
			_, ok := r.Int()
			assert.False(t, ok)
		case "c":
			for r.Object(); r.Next(); {
				t.Error("entered a list as an object")
			}
		case "d", "e":
			n, ok := r.Int()
			assert.True(t, ok)
			got[r.Key()] = n
		case "f":
			got["f"], _ = r.Str()
		}
	}
	require.NoError(t, r.End())
	assert.Equal(t, map[string]any{"d": int64(4), "e": int64(5), "f": "é"}, got)
}

func TestReaderDepth(t *testing.T) {
	for _, n := range []int{maxDepth, maxDepth + 1, 1_000_000} {
		in := strings.Repeat("[", n) + strings.Repeat("]", n)
		assert.Equal(t, json.Valid([]byte(in)), NewReader(in).End() == nil, "depth %d", n)
	}
	r := NewReader(strings.Repeat("[", 200))
	for r.Array() {
		r.Next()
	}
	assert.ErrorIs(t, r.End(), errDepth)
}

func FuzzReader(f *testing.F) {
	for _, s := range []string{`{"a":[1,2.5e3,"x\u00e9\n"],"b":null}`, `[true,false,{}]`, `"\ud83d\ude00"`, `{"a":1,}`, `[[[`, "\x00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		if utf8.ValidString(in) && strings.Count(in, "[")+strings.Count(in, "{") < maxNesting && !huge(in) {
			check(t, in)
		}
		o, err := Parse([]byte(in))
		if err != nil {
			return
		}
		again, err := Parse(o.AppendTo(nil))
		require.NoError(t, err)
		require.Len(t, again, len(o))
	})
}

// huge reports whether in may contain a number outside of the range of float64, which
// encoding/json refuses.
func huge(in string) bool {
	return strings.ContainsAny(in, "eE") || len(in) > 300
}

func FuzzUnquote(f *testing.F) {
	f.Add(`a\u00e9\ud83d\ude00\n`)
	f.Add(`\u12`)
	f.Fuzz(func(t *testing.T, in string) {
		if !utf8.ValidString(in) {
			return
		}
		text, rest, ok := ScanString(in + `"rest`)
		var want string
		err := json.Unmarshal([]byte(`"`+in+`"`), &want)
		if err == nil && !strings.Contains(in, `"`) {
			require.True(t, ok)
			require.Equal(t, want, text)
			require.Equal(t, "rest", rest)
		}
		quoted := AppendString(nil, in)
		require.NoError(t, json.Unmarshal(quoted, &want), "%s", quoted)
		require.Equal(t, in, want)
	})
}

// Strings are read and written eight bytes at a time, so each byte is tried in each place.
func TestEachByteOfString(t *testing.T) {
	for n := range 20 {
		for c := range 256 {
			in := strings.Repeat("a", n) + string([]byte{byte(c)}) + "bcdefghijk"
			var want string
			err := json.Unmarshal([]byte(`"`+in+`"`), &want)
			text, rest, ok := ScanString(in + `"rest"`)
			switch {
			case c == '"':
				require.Equal(t, strings.Repeat("a", n), text)
			case err != nil:
				require.False(t, ok, "%q", in)
			case c < utf8.RuneSelf:
				require.True(t, ok)
				require.Equal(t, want, text)
				require.Equal(t, `rest"`, rest)
			}
			require.NoError(t, json.Unmarshal(AppendString(nil, in), &want))
			require.Equal(t, strings.ToValidUTF8(in, "\uFFFD"), want)
		}
	}
	require.Equal(t, `"\ufffd\ufffda"`, strings.ToLower(strconv.QuoteToASCII(string(AppendEscaped(nil, "\xe2\x82a")))))
}

func BenchmarkReader(b *testing.B) {
	const chunk = `{"id":"chatcmpl-B5tF","object":"chat.completion.chunk","created":1741035601,"model":"gpt-4o-mini-2024-07-18",` +
		`"service_tier":"default","system_fingerprint":"fp_06737a9306","choices":[{"index":0,"delta":{"content":" to retrieve"},` +
		`"logprobs":null,"finish_reason":null}]}`
	b.Run("reader", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			r := NewReader(chunk)
			text := ""
			for r.Object(); r.Next(); {
				if r.Key() != "choices" {
					continue
				}
				for r.Array(); r.Next(); {
					for r.Object(); r.Next(); {
						if r.Key() == "delta" {
							for r.Object(); r.Next(); {
								text, _ = r.Str()
							}
						}
					}
				}
			}
			if text != " to retrieve" || r.End() != nil {
				b.Fatal(text)
			}
		}
	})
	b.Run("encoding/json", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var c struct {
				Choices []struct{ Delta struct{ Content string } }
			}
			if err := json.Unmarshal([]byte(chunk), &c); err != nil || c.Choices[0].Delta.Content != " to retrieve" {
				b.Fatal(err)
			}
		}
	})
}

func ExampleReader() {
	r := NewReader(`{"id":"x","list":[{"n":1},{"n":2}]}`)
	var id string
	var sum int64
	for r.Object(); r.Next(); {
		switch r.Key() {
		case "id":
			id, _ = r.Str()
		case "list":
			for r.Array(); r.Next(); {
				for r.Object(); r.Next(); {
					n, _ := r.Int()
					sum += n
				}
			}
		}
	}
	fmt.Println(id, sum, r.End())
	// Output: x 3 <nil>
}

func TestResume(t *testing.T) {
	var r, mark, again Reader
	r.Reset(`{"id":"a","n":[1,{"x":2}],"last":true}`)
	for r.Object(); r.Next(); {
		if r.Key() == "n" {
			mark = r
		}
	}
	require.NoError(t, r.End())
	require.False(t, again.Resume(&Reader{}, `{}`), "of nothing")
	require.False(t, again.Resume(&mark, `{"id":"b","n":[3]}`), "another beginning")
	require.True(t, again.Resume(&mark, `{"id":"a","n":[3],"more":null}`))
	require.Equal(t, "n", again.Key())
	require.True(t, again.Array())
	require.True(t, again.Next())
	n, ok := again.Int()
	require.True(t, ok)
	require.EqualValues(t, 3, n)
	require.False(t, again.Next())
	require.True(t, again.Next())
	require.Equal(t, "more", again.Key())
	require.False(t, again.Next())
	require.NoError(t, again.End())
	require.True(t, again.Resume(&mark, `{"id":"a","n":`))
	require.Error(t, again.End())
}
