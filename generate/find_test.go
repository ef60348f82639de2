package generate_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/generate"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/providers/script"
)

// A part of another document is not accepted, whether that document is whole or broken.
func TestTakesNoParts(t *testing.T) {
	for _, text := range []string{
		`{"person":` + ada + `}`, `{"person":` + ada + `,}`, `{"person":` + ada, `[` + ada + `,`,
		`So: {"person":` + ada + `,}`, "```\n[" + ada + "]\n```",
	} {
		_, _, err := generates[person](t, text)
		require.True(t, is[*generate.Error](err), "%q: %v", text, err)
	}
}

// The search for objects takes linear time, however the braces are arranged.
func TestManyBraces(t *testing.T) {
	timed.Serial(t)
	for _, unit := range []string{"{", "[", `{"`, `{"a":`, "{}", "}", "```\n", `{\`, "{\"a\":\n"} {
		text := "x " + strings.Repeat(unit, 4<<20/len(unit))
		start := time.Now()
		_, err := generate.Value[person](t.Context(), answers(text), ask("?"), generate.WithRepairs(0))
		require.True(t, is[*generate.Error](err), "%q: %v", unit, err)
		timed.Within(t, start, 20*time.Second, unit)
	}
}

// answers returns a client that answers with one text.
func answers(text string) aycoder.ModelClient {
	return script.New(script.Say(text))
}

func FuzzText(f *testing.F) {
	for _, s := range []string{ada, "```json\n" + ada + "\n```", "x {y " + ada, "[" + ada + "]", `{"value":1}`, "\uFEFF\"\\", "{\"\\u12", "~~~", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := generate.Value[person](t.Context(), answers(text), ask("?"), generate.WithRepairs(0))
		if err == nil {
			require.GreaterOrEqual(t, got.Age, 0)
			require.Contains(t, text, "{")
		} else {
			checkOutputError(t, err)
		}
		if _, err := generate.Value[any](t.Context(), answers(text), ask("?"), generate.WithRepairs(0)); err != nil {
			checkOutputError(t, err)
		}
	})
}

func checkOutputError(t *testing.T, err error) {
	e, ok := errors.AsType[*generate.Error](err)
	require.True(t, ok, "%v", err)
	require.NotEmpty(t, e.Problems)
	require.Less(t, len(e.Error())+len(e.Raw), 32<<10)
	_, marshalErr := json.Marshal(e)
	require.NoError(t, marshalErr)
}

// FuzzFinds puts a document between words and expects to get it back.
func FuzzFinds(f *testing.F) {
	f.Add("Sure, here it is: ", "Ada", 36, "}", "\nThat's it.")
	f.Add("", "```", 0, "\n{\"", "")
	f.Fuzz(func(t *testing.T, before, name string, age int, tag, after string) {
		words := strings.NewReplacer("{", "", "[", "", "`", "", "~", "")
		want := person{Name: strings.ToValidUTF8(name, "?"), Age: max(age, 0), Tags: []string{strings.ToValidUTF8(tag, "?")}}
		doc, err := json.MarshalIndent(want, "", " ")
		require.NoError(t, err)
		before, after = words.Replace(before), words.Replace(after)
		for _, text := range []string{
			before + string(doc) + after,
			before + "\n```json\n" + string(doc) + "\n```\n" + after,
		} {
			got, err := generate.Value[person](t.Context(), answers(text), ask("?"), generate.WithRepairs(0))
			require.NoError(t, err, "%q", text)
			require.Equal(t, want, got, "%q", text)
		}
	})
}
