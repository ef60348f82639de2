package lsp

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aycoder/aycoder/internal/timed"
	"github.com/stretchr/testify/require"
)

// requireLine fails unless a text is one line that a terminal shows as it is.
func requireLine(t *testing.T, text string, limit int) {
	t.Helper()
	require.LessOrEqual(t, len(text), limit)
	for _, r := range text {
		require.True(t, strconv.IsPrint(r), "%q", text)
	}
}

// Every text of a server is shown in one line without control characters.
func TestTextOfServersIsCleaned(t *testing.T) {
	const evil = "a\n\nIgnore this\x1b[2J\u202eb\u200b\U000E0041\x00"
	quoted, err := json.Marshal(evil)
	require.NoError(t, err)
	for _, d := range []wireDiagnostic{{Message: evil}, {Message: "m", Code: quoted},
		{Message: "m", Code: json.RawMessage("{\n\"a\":\n1}")}, {Message: strings.Repeat(evil, 1000), Code: quoted}} {
		requireLine(t, problemsOf([]wireDiagnostic{d})[0].text, maxErrorText+len("…"))
	}
	refusal := &ResponseError{Code: 1, Message: strings.Repeat(evil, 1000)}
	requireLine(t, refusal.Error(), maxErrorText+30)
	x := &session{server: &server{client: &Client{root: "/w", files: noFiles{}}}}
	_, err = x.edited(&workspaceEdit{Changes: map[string][]wireEdit{"file:///etc/" + strings.Repeat(evil, 1000): nil}})
	require.ErrorIs(t, err, errOutside)
	requireLine(t, err.Error(), 1000)
}

// A server cannot make the client keep, or answer with, much more than it has sent.
func TestServersCannotFillMemory(t *testing.T) {
	x := &session{server: &server{client: &Client{root: "/w", files: noFiles{}}}, store: newStore()}
	x.publish(&publishParams{URI: "file:///w/" + strings.Repeat("x", 1<<20), Diagnostics: make([]wireDiagnostic, 1)})
	require.Empty(t, x.store.errors(), "no file has such a name")
	x.Settings = json.RawMessage(`{"a":"` + strings.Repeat("x", 1000) + `"}`)
	items := []byte(`{"items":[{}` + strings.Repeat(",{}", 100_000) + `]}`)
	answer, refusal := x.serve("workspace/configuration", items)
	if refusal == nil {
		body, err := json.Marshal(answer)
		require.NoError(t, err)
		require.Less(t, len(body), 10*len(items))
	}
}

// A rename replaces whole names by the new name, and nothing else.
func TestRenameReplacesOnlyNames(t *testing.T) {
	at := func(from, to int) wireRange { return wireRange{wirePosition{0, from}, wirePosition{0, to}} }
	for name, tt := range map[string]struct {
		old  string
		edit wireEdit
	}{
		"inserted where no name is": {"", wireEdit{at(0, 0), "new"}},
		"other text":                {"two", wireEdit{at(4, 7), "evil"}},
		"more text":                 {"two", wireEdit{at(4, 7), "new; evil()"}},
		"lines":                     {"two", wireEdit{at(4, 7), "new\nnew"}},
	} {
		_, err := new(session).replace("one two twofold\n", []wireEdit{tt.edit}, tt.old, "new")
		require.ErrorIs(t, err, errAnswer, name)
	}
	for _, text := range []string{"new", "two: new", "new: two", "new as two", "two as new"} { // as in TypeScript
		got, err := new(session).replace("one two twofold\n", []wireEdit{{at(4, 7), text}}, "two", "new")
		require.NoError(t, err)
		require.Equal(t, "one "+text+" twofold\n", got)
	}
}

// Finding the new errors takes a time that is linear in the size of the file.
func TestAddedIsLinear(t *testing.T) {
	texts := func(lines int) func() {
		before := strings.Repeat("a\nb\n", lines/2)
		after := strings.Repeat("a\nc\n", lines/2)
		var old, now []problem
		for i := range maxFileErrors {
			old = append(old, problem{1 + 2*i, "e"})
			now = append(now, problem{lines - 1 - 2*i, "e"})
		}
		return func() { added(old, now, before, after) }
	}
	timed.AtMost(t, timed.Best(1, texts(40_000)), 500*time.Millisecond, "20,000 changed parts")
}

// Edits that are made at the same time wait for one another, which is not the fault of the server.
func TestEditsAtTheSameTimeHaveTheWholeWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{client: &Client{wait: 4 * time.Second}, turn: make(chan struct{}, 1)}
		s.turn <- struct{}{} // held by another edit
		start := time.Now()
		for range 4 {
			go func() {
				s.newErrors(t.Context(), nil)
				require.Equal(t, 4*time.Second, time.Since(start))
			}()
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
	})
}
