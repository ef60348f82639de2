package project_test

import (
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aycoder/aycoder/harness/project"
	"github.com/stretchr/testify/require"
)

func TestExpand(t *testing.T) {
	ws := dir(t, map[string]string{"src/a.go": "package a\n", "README.md": "Read @src/a.go and !`id`", ".env": "KEY=1"})
	file := func(name, text string) string { return "\n<file path=\"" + name + "\" id=" + text }
	tests := []struct {
		name, text, args string
		scripts          []string
		want             string // the beginning
		has              []string
		not              []string
	}{
		{"all", "Fix $ARGUMENTS now", "a  'b c'", nil, "Fix a  'b c' now", nil, nil},
		{"single", "$1 and $2 and $3.", `x "y z"`, nil, "x and y z and .", nil, nil},
		{"not an argument", "$12 $ARGUMENTSX $HOME", "x", nil, "$12 $ARGUMENTSX $HOME\n\nARGUMENTS: x", nil, nil},
		{"unused", "Fix it\n", "the bug", nil, "Fix it\n\nARGUMENTS: the bug", nil, nil},
		{"a word that is not used", "Fix $1 and $3", "a b c", nil, "Fix a and c\n\nARGUMENTS: a b c", nil, nil},
		{"more words than numbers", "$1 $2 $3 $4 $5 $6 $7 $8 $9", "1 2 3 4 5 6 7 8 9 10", nil, "1 2 3 4 5 6 7 8 9\n\nARGUMENTS: 1 2 3", nil, nil},
		{"as many words as numbers", "$1 $2 $3 $4 $5 $6 $7 $8 $9", "1 2 3 4 5 6 7 8 9", nil, "1 2 3 4 5 6 7 8 9", nil, []string{"ARGUMENTS:"}},
		{"a price, and a column", "Keep it under $5. Run `ps | awk '{print $2}'`.", "fix the parser in", nil,
			"Keep it under . Run `ps | awk '{print the}'`.\n\nARGUMENTS: fix the parser in", nil, nil},
		{"all, and a column", "$ARGUMENTS: `awk '{print $2}'`", "a b c", nil, "a b c: `awk '{print b}'`", nil, []string{"ARGUMENTS:"}},
		{"a column in a script", "!`ps | awk '{print $2}'`", "a b c", []string{"set -- 'a' 'b' 'c'\nARGUMENTS='a b c'\nps | awk '{print $2}'"},
			"<set", []string{"\n\nARGUMENTS: a b c"}, nil},
		{"all in a script", "!`echo \"$@\"`", "a b", []string{"set -- 'a' 'b'\nARGUMENTS='a b'\necho \"$@\""}, "<set", nil, []string{"ARGUMENTS:"}},
		{"in code", "Use `$1`:\n```\n$1 @src/a.go !`id`\n```\n", "x", nil, "Use `x`:\n```\nx @src/a.go !`id`\n```\n", nil, []string{"package a"}},
		{"file", "Look at @src/a.go.", "", nil, "Look at @src/a.go.\n<file path=\"src/a.go\"", []string{"package a"}, nil},
		{"file of an argument", "Look at @$1", "src/a.go", nil, "Look at @src/a.go\n<file", []string{"package a"}, nil},
		{"a file is added once", "@src/a.go @./src/a.go", "", nil, "@src/a.go @./src/a.go" + file("src/a.go", ""), nil, []string{"dummy"}},
		{"secret", "@.env", "", nil, "@.env\n[.env was not added", nil, []string{"KEY"}},
		{"outside", "@../../etc/passwd", "", nil, "@../../etc/passwd\n[../../etc/passwd was not added", nil, []string{"root:"}},
		{"missing", "@src/b.go", "", nil, "@src/b.go\n[src/b.go was not added", nil, nil},
		{"nobody's file", "Ask @alice. Mail a@b.c", "", nil, "Ask @alice. Mail a@b.c", nil, []string{"added"}},
		{"nothing in a file", "@README.md", "", nil, "@README.md\n<file", []string{"!`id`"}, []string{"package a"}},
		{"nothing in an argument", "Do $ARGUMENTS", "@src/a.go !`id` $1 `$ARGUMENTS`", nil,
			"Do @src/a.go !`id` $1 `$ARGUMENTS`", nil, []string{"package a"}},
		{"nothing in an argument that comes after", "Do", "@src/a.go !`id`", nil, "Do\n\nARGUMENTS: @src/a.go !`id`", nil,
			[]string{"package a"}},
		{"script", "State: !`git status`\n", "", []string{"git status"}, "State: <git status>\n", nil, nil},
		{"script in the middle", "a!`id` b", "", nil, "a!`id` b", nil, nil},
		{"nothing in an output", "!`echo x`", "y", []string{"echo x"}, "<echo x>\n\nARGUMENTS: y", nil, nil},
		{"arguments of a script", "!`echo \"$1\" $ARGUMENTS`", "a'b; id", []string{
			"set -- 'ab; id'\nARGUMENTS='a'\\''b; id'\necho \"$1\" $ARGUMENTS"}, "<set", nil, []string{"ARGUMENTS:"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := &project.Command{Name: "x", File: "x.md", Text: tt.text, Line: 1}
			var ran []string
			got, err := c.Expand(t.Context(), tt.args, project.Expansion{Files: ws,
				Run: func(_ context.Context, script string) (string, error) {
					ran = append(ran, script)
					return "<" + script + ">\n", nil
				}})
			require.NoError(t, err)
			require.Equal(t, tt.scripts, ran)
			require.Truef(t, strings.HasPrefix(got, tt.want), "%q does not begin with %q", got, tt.want)
			for _, s := range tt.has {
				require.Contains(t, got, s)
			}
			for _, s := range tt.not {
				require.NotContains(t, got, s)
			}
			require.LessOrEqual(t, strings.Count(got, "<file "), 1)
		})
	}
}

// Without a shell, and when a command is refused, there is no prompt, and the error says where and why.
func TestExpandRefused(t *testing.T) {
	c := &project.Command{Name: "x", File: "x.md", Text: "a\nb !`git push` `!`\n!`id`\n", Line: 5}
	require.Equal(t, []project.Script{{Line: 6, Text: "git push"}, {Line: 7, Text: "id"}}, c.Scripts())

	_, err := c.Expand(t.Context(), "", project.Expansion{})
	require.ErrorIs(t, err, project.ErrNoShell)
	require.EqualError(t, err, "expand command x: x.md:6: run git push: nothing runs the commands in it")

	denied := errors.New("denied by a rule")
	_, err = c.Expand(t.Context(), "", project.Expansion{Run: func(context.Context, string) (string, error) { return "", denied }})
	require.ErrorIs(t, err, denied)
	require.Equal(t, 6, errorOf(t, err).Line)

	c.Text = strings.Repeat("!`id`\n", 40)
	n := 0
	_, err = c.Expand(t.Context(), "", project.Expansion{Run: func(context.Context, string) (string, error) { n++; return "", nil }})
	require.Error(t, err)
	require.Equal(t, 32, n)
}

func errorOf(t *testing.T, err error) *project.ExpandError {
	e, ok := errors.AsType[*project.ExpandError](err)
	require.True(t, ok)
	return e
}

// Whatever a user types, a real shell reads it as an argument.
func TestExpandInShell(t *testing.T) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("there is no sh")
	}
	mark := filepath.Join(t.TempDir(), "mark")
	c := &project.Command{Text: "!`printf '<%s>' \"$1\" \"$ARGUMENTS\" \"x$2\"`"}
	run := func(ctx context.Context, script string) (string, error) {
		out, err := exec.CommandContext(ctx, sh, "-c", script).CombinedOutput()
		return string(out), err
	}
	for _, args := range []string{
		"plain", "$(touch " + mark + ")", "`touch " + mark + "`", "'; touch " + mark + "; '", "\"; touch " + mark + "; \"", "\\", "'", "''\\''",
		"a\ntouch " + mark, "a' 'b", "-n $HOME", "!`touch " + mark + "`", "*", "a;b&c|d>e",
	} {
		got, err := c.Expand(t.Context(), args, project.Expansion{Run: run})
		require.NoError(t, err, args)
		require.Contains(t, got, "<"+args+">", args)
		require.NoFileExists(t, mark, args)
	}
}

// The files and outputs in a prompt are bounded.
// Arguments are repeated as often as the text says, up to a size.
func TestExpandRepeats(t *testing.T) {
	lib := load(t, map[string]string{"/.claude/commands/a.md": strings.Repeat("$ARGUMENTS $1 ", 15_000)})
	text, err := lib.Command("a").Expand(t.Context(), "short", project.Expansion{})
	require.NoError(t, err)
	require.Equal(t, strings.Repeat("short short ", 15_000), text)
	_, err = lib.Command("a").Expand(t.Context(), strings.Repeat("long ", 1000), project.Expansion{})
	require.ErrorAs(t, err, new(*project.ExpandError))
	require.ErrorContains(t, err, "expand command a: .claude/commands/a.md:1: the arguments would have more than 1 MiB in it")
}

func TestExpandBounds(t *testing.T) {
	files := map[string]string{}
	var text strings.Builder
	for i := range 60 {
		name := "f" + strings.Repeat("x", i) + ".txt"
		files[name] = strings.Repeat("y", 100<<10)
		text.WriteString("@" + name + "\n")
	}
	c := &project.Command{Text: text.String() + "!`yes`"}
	got, err := c.Expand(t.Context(), "", project.Expansion{Files: dir(t, files),
		Run: func(context.Context, string) (string, error) { return strings.Repeat("z", 1<<20), nil }})
	require.NoError(t, err)
	require.Less(t, len(got), 320<<10)
	require.Contains(t, got, "there is no room for it")
	require.Contains(t, got, "[the rest of the file is left out]")
}

func FuzzExpand(f *testing.F) {
	for _, text := range []string{"$1 `x` !`id` @a.go", "```\n!`id`\n```", "@@a !!`b``c`", "$ARGUMENTS@$1", "~~~\n$1", "a `` !`x` ``"} {
		f.Add(text, "x 'y z")
	}
	const secret = "argument\x01"
	f.Fuzz(func(t *testing.T, text, args string) {
		c := &project.Command{Text: text, Line: 1}
		known := map[string]bool{}
		for _, s := range c.Scripts() {
			known[s.Text] = true
		}
		_, err := c.Expand(t.Context(), args+" !`"+secret+"`", project.Expansion{
			Run: func(_ context.Context, script string) (string, error) {
				_, last, _ := strings.Cut("\n"+script, "\nARGUMENTS=")
				if !known[script] && last == "" {
					t.Fatalf("%q is not a script of the command", script)
				}
				return "!`" + secret + "`", nil
			}})
		if err != nil && !strings.Contains(err.Error(), "more than") {
			t.Fatal(err)
		}
	})
}
