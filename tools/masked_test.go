package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/edit"
	"github.com/aycoder/aycoder/internal/timed"
)

// The secrets are assembled here, so that scanners do not take this file for a leak.
var (
	maskedToken = strings.Join([]string{"gh", "p_", "k5Ns3qB6Rh7Hj4Gz9KR4LB3Nt4ZN6bh2Sj9D"}, "")
	otherToken  = strings.Join([]string{"gh", "p_", "w3Rc4bm7rt4Sw5nj4jS2Nr6Gz9KR4LB3Nt4Z"}, "")
	keyBlock    = "-----BEGIN " + "PRIVATE KEY-----\n" + strings.Repeat("k5Ns3qB6Rh7Hj4Gz9KR4LB3Nt4ZN6bh2Sj9Dw3Rc4bm7rt4Sw5nj4jS2Nr6Gz9K\n", 3) +
		"-----END " + "PRIVATE KEY-----"
)

// placeholders returns the placeholders in a text.
func placeholders(text string) []string {
	return NewMasker(nil).mask.Unresolved(text)
}

// A private key is not shown in parts either: in pages, as the lines that a search or a
// command finds, or behind line numbers.
func TestMaskedPages(t *testing.T) {
	lines := strings.Split(strings.Replace(keyBlock, "k5Ns3qB6", "Jt4ZN6bh", 1), "\n")
	var long []string
	for i := range 30 {
		line := string(rune('A'+i%26)) + lines[1][1:] + "w7"
		long = append(long, line[:64])
	}
	text := lines[0] + "\n" + strings.Join(long, "\n") + "\n" + lines[len(lines)-1] + "\n"
	w := newWorld(t, map[string]string{"certs/k.txt": text})
	for _, call := range []struct {
		tool string
		args args
	}{
		{"read_file", args{"path": "certs/k.txt"}},
		{"read_file", args{"path": "certs/k.txt", "offset": 1, "limit": 7}},
		{"read_file", args{"path": "certs/k.txt", "offset": 10, "limit": 7}},
		{"read_file", args{"path": "certs/k.txt", "offset": 28}},
		{"code_search", args{"pattern": "Ns3qB6|j4jS2"}},
		{"code_search", args{"pattern": "^D", "context": 2}},
		{"bash", args{"command": "sed -n 5,9p certs/k.txt"}},
		{"bash", args{"command": "head -4 certs/k.txt; tail -3 certs/k.txt"}},
		{"bash", args{"command": "grep -n . certs/k.txt"}},
		{"bash", args{"command": "grep -rn . ."}},
		{"bash", args{"command": "grep -rnC1 ^G ."}},
		{"bash", args{"command": "cat -n certs/k.txt; nl certs/k.txt"}},
		{"bash", args{"command": "tr '\\n' ' ' <certs/k.txt"}},
		{"bash", args{"command": "sed 's/$/<br>/' certs/k.txt"}},
	} {
		got := w.ok(call.tool, call.args)
		require.NotContains(t, got, lines[1][20:44], "%s %v", call.tool, call.args)
		require.Contains(t, got, "[secret:", "%s %v", call.tool, call.args)
	}
}

func TestMaskedFiles(t *testing.T) {
	w := newWorld(t, map[string]string{
		"a.env": "NAME=x\nTOKEN=" + maskedToken + "\nEND=1\n",
		"b.env": "TOKEN=" + otherToken + "\n",
		"k.txt": "before\n" + keyBlock + "\nafter\n",
		"i.txt": "a\u200bb\u202ec\nd\n",
	})
	text := w.ok("read_file", args{"path": "a.env"})
	require.NotContains(t, text, maskedToken)
	found := placeholders(text)
	require.Len(t, found, 1)
	require.Equal(t, found, placeholders(w.ok("code_search", args{"pattern": "TOKEN=", "include": "a.env"})), "the same everywhere")
	require.Equal(t, found, placeholders(w.ok("bash", args{"command": "cat a.env"})))
	second := placeholders(w.ok("read_file", args{"path": "b.env"}))
	require.NotEqual(t, found, second)

	t.Run("a command does not get it", func(t *testing.T) {
		w.fails("masked_secret", "bash", args{"command": "echo TOKEN=" + found[0] + " > a.env"})
		assert.Contains(t, w.read("a.env"), maskedToken)
	})
	t.Run("an edit keeps it", func(t *testing.T) {
		diff := w.ok("edit_file", args{"path": "a.env", "old_string": "TOKEN=" + found[0] + "\nEND=1", "new_string": "KEY=" + found[0] + "\nEND=2"})
		assert.NotContains(t, diff, maskedToken)
		assert.Equal(t, "NAME=x\nKEY="+maskedToken+"\nEND=2\n", w.read("a.env"))
	})
	t.Run("so do the others that write", func(t *testing.T) {
		w.ok("multi_edit", args{"path": "a.env", "edits": []args{
			{"old_string": "KEY=" + found[0], "new_string": "A=" + found[0]}, {"old_string": "END=2", "new_string": "END=" + found[0]},
		}})
		assert.Equal(t, "NAME=x\nA="+maskedToken+"\nEND="+maskedToken+"\n", w.read("a.env"))
		w.ok("apply_patch", args{"patch": "*** Begin Patch\n*** Update File: a.env\n@@\n NAME=x\n-A=" + found[0] + "\n+B=" + found[0] + "\n*** End Patch\n"})
		assert.Equal(t, "NAME=x\nB="+maskedToken+"\nEND="+maskedToken+"\n", w.read("a.env"))
		w.ok("read_file", args{"path": "a.env"})
		w.ok("write_file", args{"path": "a.env", "content": "NAME=x\nKEY=" + found[0] + "\n"})
		assert.Equal(t, "NAME=x\nKEY="+maskedToken+"\n", w.read("a.env"))
		w.fails("masked_secret", "apply_patch", args{"patch": "*** Begin Patch\n*** Add File: n\n+" + found[0] + "\n*** End Patch\n"})
		w.fails("masked_secret", "write_file", args{"path": "n", "content": found[0]})
		assert.NoFileExists(t, w.path("n"))
	})
	t.Run("another file cannot get it", func(t *testing.T) {
		said := w.fails("masked_secret", "edit_file", args{"path": "b.env", "old_string": "TOKEN=" + second[0], "new_string": "TOKEN=" + found[0]})
		assert.Contains(t, said, found[0])
		assert.Contains(t, said, "b.env")
		assert.Equal(t, "TOKEN="+otherToken+"\n", w.read("b.env"))
		w.fails("masked_secret", "edit_file", args{"path": "new.env", "old_string": "", "new_string": "TOKEN=" + found[0]})
		assert.NoFileExists(t, w.path("new.env"))
	})
	t.Run("a made up one is refused", func(t *testing.T) {
		w.fails("masked_secret", "edit_file", args{"path": "a.env", "old_string": "NAME", "new_string": "[secret:token:0123456789]"})
	})
	t.Run("a private key", func(t *testing.T) {
		text := w.ok("read_file", args{"path": "k.txt"})
		assert.NotContains(t, text, "k5Ns3qB6")
		key := placeholders(text)
		require.Len(t, key, 1)
		w.ok("edit_file", args{"path": "k.txt", "old_string": "before\n" + key[0] + "\n", "new_string": "first\n" + key[0] + "\n"})
		assert.Equal(t, "first\n"+keyBlock+"\nafter\n", w.read("k.txt"))
	})
	t.Run("what nobody sees", func(t *testing.T) {
		text := w.ok("read_file", args{"path": "i.txt"})
		assert.Contains(t, text, "a<U+200B>b<U+202E>c")
		w.ok("edit_file", args{"path": "i.txt", "old_string": "a<U+200B>b<U+202E>c", "new_string": "A<U+200B>b<U+202E>C"})
		assert.Equal(t, "A\u200bb\u202eC\nd\n", w.read("i.txt"))
		w.ok("edit_file", args{"path": "i.txt", "old_string": "<U+200B>", "new_string": ""})
		assert.Equal(t, "Ab\u202eC\nd\n", w.read("i.txt"))
		w.write("i.txt", "a\u200bb <U+200B>\n")
		w.fails("masked_secret", "edit_file", args{"path": "i.txt", "old_string": "a<U+200B>b", "new_string": "ab"})
	})
	t.Run("a placeholder that is in the file", func(t *testing.T) {
		w.write("doc.md", "it looks like "+found[0]+"\n")
		w.ok("edit_file", args{"path": "doc.md", "old_string": "like " + found[0], "new_string": "as " + found[0]})
		assert.Equal(t, "it looks as "+found[0]+"\n", w.read("doc.md"))
	})
}

func TestMaskedOutput(t *testing.T) {
	w := newWorld(t, nil)
	text := w.ok("bash", args{"command": `printf 'a \033[31mred\033[0m \342\200\256x\n'; printf 'gh''p_\033[1m%s\033[0m' ` + maskedToken[4:]})
	assert.Contains(t, text, "a red <U+202E>x")
	assert.NotContains(t, text, maskedToken[4:])
	assert.NotContains(t, text, "\x1b")
}

// A text full of invisible characters does not get much longer.
func TestMaskedGrowth(t *testing.T) {
	m := NewMasker(nil)
	junk := strings.Repeat("\x01\u200b", 10_000)
	assert.LessOrEqual(t, len(m.text(junk, true)), len(junk)+maxGrowth)
	assert.LessOrEqual(t, len(m.text(junk, false)), len(junk)*9/8+maxGrowth)
	assert.True(t, strings.HasPrefix(m.text(junk, true), "<U+0001><U+200B><U+0001>"))
	assert.True(t, strings.HasSuffix(m.text(junk, false), "?\uFFFD?\uFFFD"))
	hidden := m.text(maskedToken[:9]+"\x1b[1m"+maskedToken[9:], true)
	assert.Equal(t, m.Mask(maskedToken), hidden, "an escape sequence hides nothing")
}

// fakeTool is a tool with the behaviour that a test gives it.
type fakeTool struct {
	spec aycoder.ToolSpec
	call aycoder.ToolFunc
}

func (f *fakeTool) Spec() aycoder.ToolSpec { return f.spec }

func (f *fakeTool) Call(ctx context.Context, inv *aycoder.Invocation) (*aycoder.ToolResult, error) {
	return f.call(ctx, inv)
}

func (f *fakeTool) Preview(_ context.Context, inv *aycoder.Invocation) (string, error) {
	return "would run " + string(inv.Args) + maskedToken, nil
}

// fakePlanner is a fakeTool that plans.
type fakePlanner struct{ *fakeTool }

func (fakePlanner) Plan(_ context.Context, inv *aycoder.Invocation) (edit.Plan, error) {
	if strings.Contains(string(inv.Args), "fail") {
		return edit.Plan{}, errors.New("no match near " + maskedToken)
	}
	return edit.NewPlan(edit.File{Path: "a", Kind: edit.Create, Proposed: string(inv.Args)})
}

func TestMaskedParts(t *testing.T) {
	m := NewMasker([]byte("the key of a session"), "correct-horse-42")
	var reports []aycoder.Progress
	f := &fakeTool{call: func(_ context.Context, inv *aycoder.Invocation) (*aycoder.ToolResult, error) {
		inv.Progress(aycoder.Progress{Current: 3, Message: "TOKEN=" + maskedToken})
		inv.Progress(aycoder.Progress{Message: strings.Split(keyBlock, "\n")[1]})
		parts := []aycoder.Part{
			&aycoder.Text{Text: "a " + maskedToken + " b"}, &aycoder.Text{Text: "Y29ycmVjdC1ob3JzZS00Mg== \x1b[1m"},
			&aycoder.Media{Type: "image/png", Data: []byte(maskedToken), URL: "https://x:" + maskedToken + "@y"},
		}
		return &aycoder.ToolResult{Parts: parts, Summary: "got " + maskedToken, Untrusted: true, IsError: true}, nil
	}}
	tool := m.Wrap(nil, f)
	inv := aycoder.NewInvocation("1", "x", json.RawMessage(`{}`), func(p aycoder.Progress) { reports = append(reports, p) })
	inv.Run, inv.Depth = "r", 2
	r, err := tool.Call(t.Context(), inv)
	require.NoError(t, err)
	all := fmt.Sprintf("%v %v %v", r.Summary, reports, r.Text())
	assert.NotContains(t, all, maskedToken)
	assert.NotContains(t, all, "Y29ycmVjdC1ob3JzZS00")
	assert.NotContains(t, all, "k5Ns3qB6")
	assert.True(t, r.Untrusted && r.IsError)
	assert.Equal(t, int64(3), reports[0].Current)
	assert.Nil(t, m.part((*aycoder.Text)(nil), true))
	media := r.Parts[2].(*aycoder.Media)
	assert.Equal(t, maskedToken, string(media.Data), "binary data stays")
	assert.NotContains(t, media.URL, maskedToken)
	assert.Equal(t, m.Mask(maskedToken), NewMasker([]byte("the key of a session")).Mask(maskedToken), "the same key, the same placeholder")
	assert.NotEqual(t, m.Mask(maskedToken), NewMasker(nil).Mask(maskedToken))

	text, err := tool.(aycoder.Previewer).Preview(t.Context(), inv)
	require.NoError(t, err)
	assert.NotContains(t, text, maskedToken)

	f.call = func(context.Context, *aycoder.Invocation) (*aycoder.ToolResult, error) {
		return nil, aycoder.Fatal(fmt.Errorf("disk of %s: %w", maskedToken, errDisk))
	}
	_, err = tool.Call(t.Context(), inv)
	require.ErrorIs(t, err, errDisk)
	assert.NotContains(t, err.Error(), maskedToken)
	assert.Same(t, tool, m.Wrap(nil, tool), "once is enough")
	assert.Same(t, aycoder.Tool(f), tool.(interface{ Unwrap() aycoder.Tool }).Unwrap())
}

var errDisk = errors.New("full")

func TestMaskedPlans(t *testing.T) {
	w := newWorld(t, map[string]string{"a.env": "TOKEN=" + maskedToken + "\n", "k.txt": keyBlock + "\n", "b.env": "x\n"})
	m := NewMasker(nil)
	tool := m.Wrap(w.ws, fakePlanner{&fakeTool{}})
	plan := func(in args) (string, error) {
		p, err := tool.(aycoder.Planner).Plan(t.Context(), aycoder.NewInvocation("1", "x", mustJSON(t, in), nil))
		if err != nil {
			return "", err
		}
		return p.Files()[0].Proposed, nil
	}
	hidden, key := m.Mask(maskedToken), m.Mask(keyBlock)

	got, err := plan(args{"path": "a.env", "edits": [][]string{{hidden, "a\"<&" + hidden}}, "n": int64(12345678901234567)})
	require.NoError(t, err)
	assert.JSONEq(t, string(mustJSON(t, args{"path": "a.env", "edits": [][]string{{maskedToken, "a\"<&" + maskedToken}}, "n": int64(12345678901234567)})), got)
	got, err = plan(args{"files": []args{{"path": "a.env", "new": hidden}, {"path": "b.env", "new": "y"}}})
	require.NoError(t, err)
	assert.Contains(t, got, maskedToken)
	_, err = plan(args{"files": []args{{"path": "a.env", "new": "y"}, {"path": "b.env", "new": hidden}}})
	require.ErrorContains(t, err, "masked_secret")

	patch := "*** Begin Patch\n*** Update File: a.env\n@@\n-TOKEN=" + hidden + "\n+KEY=" + hidden + "\n*** Update File: k.txt\n " + key + "\n+more\n*** End Patch\n"
	got, err = plan(args{"patch": patch})
	require.NoError(t, err)
	var in struct{ Patch string }
	require.NoError(t, json.Unmarshal([]byte(got), &in))
	assert.Contains(t, in.Patch, "-TOKEN="+maskedToken+"\n+KEY="+maskedToken+"\n")
	assert.Contains(t, in.Patch, " "+strings.ReplaceAll(keyBlock, "\n", "\n ")+"\n+more\n")
	_, err = plan(args{"patch": "*** Begin Patch\n*** Update File: b.env\n+" + hidden + "\n*** End Patch\n"})
	require.ErrorContains(t, err, "masked_secret")

	_, err = plan(args{"path": "fail"})
	require.ErrorContains(t, err, "no match near [secret:")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errDisk)
	_, err = tool.(aycoder.Planner).Plan(ctx, aycoder.NewInvocation("1", "x", mustJSON(t, args{"path": "a.env", "new": hidden}), nil))
	require.ErrorIs(t, err, errDisk)
}

func TestMaskingOptions(t *testing.T) {
	w := newWorld(t, map[string]string{"f": maskedToken + "\n"})
	off, err := Coding(w.ws, WithMasking(false))
	require.NoError(t, err)
	w.tool["read_file"] = off[0]
	require.Contains(t, w.ok("read_file", args{"path": "f"}), maskedToken)
	_, err = Coding(w.ws, WithMasker(nil))
	require.ErrorContains(t, err, "WithMasker")

	t.Setenv("MY_SERVICE_TOKEN", "plain-words-but-secret-of-3-hosts")
	on, err := Coding(w.ws, WithEnv("DB_PASSWORD=another-1-of-them"))
	require.NoError(t, err)
	for _, tool := range on {
		w.tool[tool.Spec().Name] = tool
	}
	text := w.ok("bash", args{"command": "echo plain-words-but-secret-of-3-hosts; printf $DB_PASSWORD | rev; echo $DB_PASSWORD"})
	require.NotContains(t, text, "plain-words")
	require.NotContains(t, text, "another-1")
	require.Contains(t, text, "meht-fo-1-rehtona", "what no one knows")
}

func TestMaskerIsShared(t *testing.T) {
	m := NewMasker(nil, "value-of-the-host")
	want := m.Mask(maskedToken + " value-of-the-host")
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				assert.Equal(t, want, m.Mask(maskedToken+" value-of-the-host"))
			}
		})
	}
	wg.Wait()
	var b strings.Builder
	out := m.Writer(&b)
	for _, c := range maskedToken + "\n" {
		_, err := out.Write([]byte(string(c)))
		require.NoError(t, err)
	}
	require.NoError(t, out.Close())
	require.Equal(t, m.Mask(maskedToken)+"\n", b.String())
}

// A path that is not an argument of a tool does not decide where a secret goes.
func TestMaskedElsewhere(t *testing.T) {
	files := map[string]string{"a.env": "NAME=x\nTOKEN=" + maskedToken + "\n", "b.txt": "hello\n"}
	w := newWorld(t, files)
	p := placeholders(w.ok("read_file", args{"path": "a.env"}))[0]
	w.fails("masked_secret", "apply_patch", args{"path": "a.env", "patch": "*** Begin Patch\n*** Add File: n\n+" + p + "\n*** End Patch\n"})
	assert.NoFileExists(t, w.path("n"))
	w.fails("masked_secret", "multi_edit", args{"path": "b.txt", "edits": []args{{"path": "a.env", "old_string": "hello", "new_string": p}}})
	w.fails("masked_secret", "edit_file", args{"path": "b.txt", "old_string": "hello", "new_string": args{"path": "a.env", "x": p}})
	assert.Equal(t, files["b.txt"], w.read("b.txt"))
}

// A misspelt placeholder never replaces the secret.
func TestMaskedMisspelt(t *testing.T) {
	const other = "say \"[secret:\" and [secret:kind:id]\n"
	text := "NAME=x\nTOKEN=" + maskedToken + "\n" + other
	for name, misspell := range map[string]func(p string) string{
		"a digit less": func(p string) string { return p[:len(p)-2] + "]" },
		"a digit more": func(p string) string { return p[:len(p)-1] + "0]" },
		"no bracket":   func(p string) string { return p[:len(p)-1] },
		"no id":        func(p string) string { return p[:strings.LastIndex(p, ":")] + "]" },
		"dots":         func(p string) string { return p[:strings.LastIndex(p, ":")] + ":...]" },
		"upper case":   strings.ToUpper,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, map[string]string{"a.env": text})
			p := placeholders(w.ok("read_file", args{"path": "a.env"}))[0]
			said := w.fails("masked_secret", "write_file", args{"path": "a.env", "content": "NAME=y\nTOKEN=" + misspell(p) + "\n" + other})
			assert.Contains(t, said, misspell(p))
			assert.Equal(t, text, w.read("a.env"))
			w.ok("write_file", args{"path": "a.env", "content": "NAME=y\nTOKEN=" + p + "\n" + other})
			assert.Equal(t, "NAME=y"+text[6:], w.read("a.env"))
		})
	}
	w := newWorld(t, nil)
	w.ok("write_file", args{"path": "doc.md", "content": other})
}

// Invisible characters that were left out because they are too many do not replace the
// real ones.
func TestMaskedHiddenStays(t *testing.T) {
	for hidden, shownAs := range map[string]string{"\u200b": "\uFFFD", "\x1b": "?"} {
		line := strings.Repeat("a"+hidden, 200) + "\n"
		w := newWorld(t, map[string]string{"f": line + "b\n"})
		_, rest, _ := strings.Cut(w.ok("read_file", args{"path": "f"}), "\t")
		shown, _, _ := strings.Cut(rest, "\n")
		require.Contains(t, shown, "a"+shownAs+"a")
		w.fails("not_read", "write_file", args{"path": "f", "content": shown + "\nc\n"})
		assert.Equal(t, line+"b\n", w.read("f"))
	}
}

// The file is read once, however many placeholders there are.
func TestMaskedOften(t *testing.T) {
	timed.Serial(t)
	w := newWorld(t, map[string]string{"a.env": "TOKEN=" + maskedToken + "\n" + strings.Repeat("some text\n", 200_000) + "a\u200bb\n"})
	p := NewMasker(nil).Mask(maskedToken)
	var b strings.Builder
	b.WriteString("*** Begin Patch\n*** Update File: a.env\n@@\n")
	for range 20_000 {
		b.WriteString("-" + p + " <U+200B>\n")
	}
	b.WriteString("*** End Patch\n")
	w.fails("masked_secret", "apply_patch", args{"patch": b.String()})
}
