package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/internal/cli/tty"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/providers/script"
)

// testExtension is linked into the program that the tests start.
func testExtension() Extension {
	oracle, err := aycoder.DeclareTool[struct {
		Question string `json:"question"`
	}]("oracle", "Knows everything.", aycoder.WithEffect(aycoder.EffectReadOnly))
	if err != nil {
		panic(err)
	}
	deaf, err := aycoder.NewTool("deaf", "Never returns.", func(context.Context, *aycoder.Invocation, struct{}) (*aycoder.ToolResult, error) {
		select {}
	}, aycoder.WithEffect(aycoder.EffectReadOnly))
	if err != nil {
		panic(err)
	}
	return Extension{
		Options: []harness.Option{harness.WithTools(oracle, deaf)},
		Subcommands: []Subcommand{{Name: "echo", Help: "prints its words", Run: func(ctx context.Context, p Program, args []string) error {
			switch {
			case len(args) == 0:
				return fmt.Errorf("%w: echo needs words", ErrUsage)
			case args[0] == "fail":
				return errors.New("echo is tired")
			case args[0] == "-h":
				_, _, err := p.Open(ctx, args)
				return err
			}
			_, err := fmt.Fprintln(p.Out, strings.Join(args, " "))
			return err
		}}, {Name: "models", Actions: []Action{{"weigh", "name", "weighs a model"}}, Run: func(_ context.Context, p Program, args []string) error {
			_, err := fmt.Fprintln(p.Out, "the extension:", strings.Join(args, " "))
			return err
		}}},
		Slash: []SlashCommand{{Name: "where", Help: "names the directory", Run: func(_ context.Context, rt *harness.Runtime, words string) (string, error) {
			return words + " is " + rt.Files.Dir(), nil
		}}, {Name: "panic", Help: "panics", Run: func(context.Context, *harness.Runtime, string) (string, error) {
			panic("on purpose")
		}}},
	}
}

// The output of a slash command breaks between words.
func TestSlashBreaksBetweenWords(t *testing.T) {
	t.Parallel()
	rt, err := harness.New(t.Context(), t.TempDir(), harness.WithClient(script.New()), harness.WithStore(journal.Memory(), ""))
	require.NoError(t, err)
	defer func() { require.NoError(t, rt.Close()) }()
	s := newStage("")
	c := newTestChat(t, strings.NewReader(""), s, tty.Options{Getenv: func(string) string { return "xterm" }}, &chat{
		session: &session{Runtime: rt}, more: []Extension{testExtension()}, app: &app{getenv: func(string) string { return "" }}})
	words := strings.Repeat("abcdefg ", 20)
	_, err = c.command(t.Context(), "/where "+words)
	require.NoError(t, err)
	_, err = callsOf("models")(c, t.Context(), "list claude-opus-4-1")
	require.NoError(t, err)
	require.NoError(t, c.Flush())
	for row := range strings.Lines(s.out) {
		require.LessOrEqual(t, columns(strings.TrimRight(row, "\r\n")), 80)
	}
	require.Equal(t, 20, strings.Count(s.out, "abcdefg"))
	require.Contains(t, s.out, "anthropic/claude-opus-4-1")
}

func TestSubcommandOfExtension(t *testing.T) {
	t.Parallel()
	timed.Serial(t)
	for _, tt := range []struct {
		args     []string
		code     int
		out, err string
	}{
		{[]string{"echo", "a", "b"}, exitOK, "a b\n", ""},
		{[]string{"echo"}, exitUsage, "", "aycoder: wrong usage: echo needs words\n"},
		{[]string{"echo", "fail"}, exitError, "", "aycoder: echo is tired\n"},
		{[]string{"echo", "-h"}, exitOK, "usage: aycoder echo [flags]\n\nprints its words\n", ""},
	} {
		got := runProgram(t, nil, "", tt.args...)
		require.Equal(t, ended{tt.out, tt.err, tt.code}, got, tt.args)
	}
}

// An extension adds actions to a command of the program, and changes nothing else of it.
func TestSubcommandExtended(t *testing.T) {
	t.Parallel()
	timed.Serial(t)
	got := runProgram(t, nil, "", "models", "weigh", "-x", "y")
	require.Equal(t, ended{"the extension: weigh -x y\n", "", exitOK}, got)
	got = runProgram(t, nil, "", "models", "claude-sonnet-4-5")
	require.Equal(t, exitOK, got.code)
	require.Contains(t, got.out, "anthropic/claude-sonnet-4-5")
	got = runProgram(t, nil, "", "models", "-h")
	require.Contains(t, got.out, "weighs a model")
	require.Contains(t, got.out, "list [text]")
	got = runProgram(t, nil, "", "models", "list", "weigh", "x")
	require.Equal(t, exitUsage, got.code)
}
