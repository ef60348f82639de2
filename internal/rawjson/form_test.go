package rawjson

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// learned returns the form of a document with a text t, a number n and a text x, and whether it is valid.
func learned(doc string) (f Form, text string, ok bool) {
	r := NewReader(doc)
	var at, number, noise Place
	for r.Object(); r.Next(); {
		switch r.Key() {
		case "t":
			at.From = r.Offset()
			text, ok = r.Str()
			at.To = r.Offset()
		case "n":
			number = r.Here()
		case "x":
			noise = r.Here()
		}
	}
	if r.End() != nil || !ok {
		return f, "", false
	}
	f.Learn(doc, at, number, noise)
	return f, text, true
}

func TestForm(t *testing.T) {
	f, _, ok := learned(`{"a":[1,{}],"n":7, "t" : "first" ,"x":"pad"}`)
	require.True(t, ok)
	for doc, want := range map[string]string{
		`{"a":[1,{}],"n":7, "t" : "first" ,"x":"pad"}`:               "first",
		`{"a":[1,{}],"n":123, "t" : "a\n\"\u00e9\"" ,"x":""}`:        "a\n\"é\"",
		`{"a":[1,{}],"n":0, "t" : "" ,"x":"\\"}`:                     "",
		`{"a":[1,{}],"n":07, "t" : "a" ,"x":"pad"}`:                  "no",
		`{"a":[1,{}],"n":-7, "t" : "a" ,"x":"pad"}`:                  "no",
		`{"a":[1,{}],"n":7.5, "t" : "a" ,"x":"pad"}`:                 "no",
		`{"a":[1,{}],"n":, "t" : "a" ,"x":"pad"}`:                    "no",
		`{"a":[1,{}],"n":7, "t" : "a\x" ,"x":"pad"}`:                 "no",
		`{"a":[1,{}],"n":7, "t" : null ,"x":"pad"}`:                  "no",
		`{"a":[1,{}],"n":7, "t" : "a" ,"x":"pad","t":"b"}`:           "no",
		`{"a":[1,{}],"n":7, "t" : "a" ,"x":"pad"`:                    "no",
		`{"a":[1,{}],"n":7, "t" : "a" ,"x":"pad"} `:                  "no",
		`{"a":[2,{}],"n":7, "t" : "a" ,"x":"pad"}`:                   "no",
		`{"a":[1,{}],"n":7, "t" : "a`:                                "no",
		`{"a":[1,{}],"n":1234567890123456789012, "t" : "a" ,"x":""}`: "no",
		``: "no",
	} {
		text, ok := f.Match(doc)
		if want == "no" {
			assert.False(t, ok, doc)
		} else {
			assert.True(t, ok, doc)
			assert.Equal(t, want, text, doc)
		}
	}
	_, ok = new(Form).Match("")
	assert.False(t, ok, "of nothing")
}

// A document of a form is valid, and has the values of the document that the form was made of, but for
// the ones that change.
func FuzzForm(f *testing.F) {
	f.Add(`{"t":"a","n":1,"x":""}`, `{"t":"\"","n":22,"x":"y"}`)
	f.Add(`{"x":"t","t":"a","t":"b"}`, `{"x":"t","t":"c","t":"b"}`)
	f.Add(`{"n":{"t":1},"t":"","x":null}`, `{"n":{"t":2},"t":"","x":null}`)
	f.Fuzz(func(t *testing.T, doc, other string) {
		form, text, ok := learned(doc)
		if !ok || len(doc) > maxForm {
			return
		}
		same, ok := form.Match(doc)
		if ok {
			require.Equal(t, text, same)
		}
		got, ok := form.Match(other)
		if !ok {
			return
		}
		var a, b map[string]any
		require.NoError(t, json.Unmarshal([]byte(doc), &a))
		require.NoError(t, json.Unmarshal([]byte(other), &b), "%s of the form of %s", other, doc)
		_, want, ok := learned(other)
		require.True(t, ok)
		require.Equal(t, want, got)
		for _, key := range []string{"t", "n", "x"} {
			require.IsType(t, a[key], b[key])
			delete(a, key)
			delete(b, key)
		}
		require.Equal(t, a, b)
	})
}
