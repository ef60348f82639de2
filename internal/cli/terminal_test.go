package cli

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/config"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/harness/hooks"
	"github.com/aycoder/aycoder/internal/cli/tty"
	"github.com/aycoder/aycoder/policy"
)

// A user who is away hears of a question once. One who types hears nothing.
func TestAlerts(t *testing.T) {
	for _, tt := range []struct {
		name, notify string
		busy         bool // a key every second
		want         []string
	}{
		{"off", "off", false, nil},
		{"bell", "bell", false, []string{"\a"}},
		{"message", "message", false, []string{"\x1b]9; aycoder: Run it?\a"}},
		{"both", "both", false, []string{"\a", "\x1b]9; aycoder: Run it?\a"}},
		{"somebody types", "both", true, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDesk(t, true)
				d.terminal = config.Terminal{Notify: tt.notify, NotifyAfter: 10 * time.Second}
				d.lastKey = time.Now()
				done := d.asks(t)
				for range 30 {
					time.Sleep(time.Second)
					if tt.busy {
						d.types(t, "x\x7f")
					}
				}
				d.types(t, "\x03")
				<-done
				require.Equal(t, tt.want, d.rung)
				d.keys.Close()
			})
		})
	}
}

// The end of a turn is an alert, too, if it comes long after the last key.
func TestAlertAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, true)
		d.terminal = config.Terminal{Notify: "message", NotifyAfter: time.Second}
		d.lastKey = time.Now()
		done := d.asks(t)
		<-d.seen
		time.Sleep(600 * time.Millisecond)
		d.types(t, "\t")
		synctest.Wait()
		d.types(t, "y")
		<-done
		require.Len(t, d.rung, 1, "the key came just before the end")
		d.lastKey = time.Now().Add(-time.Minute)
		d.alert("done")
		require.Equal(t, "\x1b]9; aycoder: done\a", d.rung[1])
		d.keys.Close()
	})
}

// Hooks hear of a prompt at which nobody has pressed a key for a minute, once until the next key.
func TestIdleHook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []string
		d := newDesk(t, true, harness.WithHooks(hooks.Hook{Event: hooks.Notification, Matcher: "idle_prompt", Command: "idle",
			Call: func(_ context.Context, in []byte) ([]byte, error) {
				told = append(told, string(in))
				return nil, nil
			}}))
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = d.entered(t.Context())
		}()
		for _, step := range []struct {
			after time.Duration
			told  int
		}{{59 * time.Second, 0}, {59 * time.Second, 0}, {61 * time.Second, 1}, {time.Hour, 2}} {
			d.types(t, "x")
			time.Sleep(step.after)
			synctest.Wait()
			require.Len(t, told, step.told)
		}
		require.Contains(t, told[0], `"hook_event_name":"Notification"`)
		require.Contains(t, told[0], `"session_id":"`+d.session.Session.ID()+`"`)
		d.types(t, "\r")
		<-done
		d.keys.Close()
	})
}

// At /clear, a session ends and another one starts for hooks, and the model reads what they say with the next prompt.
func TestClearHooks(t *testing.T) {
	var told []string
	hook := func(e hooks.Event, says string) hooks.Hook {
		return hooks.Hook{Event: e, Matcher: "clear", Command: "x", Call: func(context.Context, []byte) ([]byte, error) {
			told = append(told, string(e))
			return []byte(says), nil
		}}
	}
	d := newDesk(t, false, harness.WithHooks(hook(hooks.SessionStart, "The build is <b>broken</b>."), hook(hooks.SessionEnd, "")))
	defer d.keys.Close()
	var err error
	d.session.Policy, err = policy.New()
	require.NoError(t, err)
	_, err = d.clear(t.Context(), "")
	require.NoError(t, err)
	require.Equal(t, []string{"SessionEnd", "SessionStart"}, told)
	require.Equal(t, "\n\n<hook_context>\nThe build is <b>broken</b>.\n</hook_context>\n", d.heard)
}

// Keys are those of the configuration, and a mistake is told.
func TestKeysOfTheConfiguration(t *testing.T) {
	s := newStage("")
	c := newTestChat(t, strings.NewReader(""), s, tty.Options{Plain: true}, &chat{})
	press := func(keys ...tty.Key) string {
		for _, k := range keys {
			k.At, k.Read = time.Unix(1, 0), 1
			c.typed(k)
		}
		return c.editor.Text()
	}
	c.configure(config.Terminal{Keys: map[string]string{"ctrl+x": "kill-line-start", "ctrl+u": "", "f2": "undoo"}})
	require.NoError(t, c.Flush())
	require.Contains(t, s.out, "! terminal.keys: f2: there is no action undoo; did you mean undo?")
	require.Equal(t, "ab", press(tty.Key{Rune: 'a'}, tty.Key{Rune: 'b'}, tty.Key{Rune: 'u', Ctrl: true}))
	require.Empty(t, press(tty.Key{Rune: 'x', Ctrl: true}))

	c.configure(config.Terminal{Vi: true})
	esc := tty.Key{Name: tty.Esc}
	require.True(t, c.isStop(esc), "there is no text")
	press(tty.Key{Rune: 'a'}, tty.Key{Rune: 'b'})
	require.False(t, c.isStop(esc))
	require.Equal(t, "a", press(esc, tty.Key{Rune: 'x'}))
	require.False(t, c.isStop(esc), "in normal mode")
	require.True(t, c.isStop(tty.Key{Rune: 'c', Ctrl: true}))

	c.configure(config.Terminal{})
	press(tty.Key{Rune: '/'}, tty.Key{Rune: 'm'})
	require.True(t, c.isStop(esc))
	press(tty.Key{Name: tty.Tab})
	require.False(t, c.isStop(esc), "it ends the menu")
	require.Equal(t, "/m", press(esc))
	press(tty.Key{Rune: 'r', Ctrl: true})
	require.False(t, c.isStop(esc), "it ends the search")
}

// A text that is edited elsewhere is not lost if the editor fails, and one that is left alone keeps its pastes.
func TestEditElsewhere(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there is no sh")
	}
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	editor := filepath.Join(dir, "editor")
	t.Setenv("VISUAL", editor)
	s := newStage("")
	c := newTestChat(t, strings.NewReader(""), s, tty.Options{Plain: true}, &chat{})
	c.edit = (&app{getenv: os.Getenv}).editor(func(f func() error) error { return f() })
	edits := func(script string) string {
		require.NoError(t, os.WriteFile(editor, []byte("#!/bin/sh\n"+script), 0o755))
		s.out = ""
		c.typed(tty.Key{Rune: 'g', Ctrl: true, At: time.Unix(1, 0), Read: 1})
		require.NoError(t, c.Flush())
		return s.out
	}
	left := func() []string {
		names, err := filepath.Glob(filepath.Join(dir, "aycoder-*", "*"))
		require.NoError(t, err)
		return names
	}
	c.typed(tty.Key{Name: tty.Paste, Text: strings.Repeat("x\n", 20), At: time.Unix(1, 0), Read: 1})
	require.Empty(t, edits("echo >> $1"))
	require.Equal(t, []string{"[paste #1: 20 lines]"}, c.editor.View(80).Lines)
	require.Contains(t, edits("exit 3"), "exit status 3")
	require.Empty(t, left())
	shown := edits("echo long work > $1; exit 3")
	names := left()
	require.Len(t, names, 1)
	require.Contains(t, shown, "! the text is kept in "+names[0]+": run "+editor+": exit status 3\n")
	data, err := os.ReadFile(names[0])
	require.NoError(t, err)
	require.Equal(t, "long work\n", string(data))
	require.Empty(t, edits("echo new > $1"))
	require.Equal(t, "new", c.editor.Text())
}

// The command of the status line gets the state, and has two seconds.
func TestStatusLine(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there is no sh")
	}
	at(t)
	a := &app{getenv: os.Getenv}
	t.Setenv("ANTHROPIC_API_KEY", "sk-ant-secret-0123")
	t.Setenv("ANTHROPIC_BASE_URL", newService(t, says("Hi.", "end_turn")).URL)
	screen := newStage("")
	c := newTestChat(t, strings.NewReader(""), screen, tty.Options{Getenv: func(string) string { return "xterm" }}, &chat{app: a, options: &options{}})
	s, err := c.open(context.WithCancelCause(t.Context()))
	require.NoError(t, err)
	c.enter(s)
	defer s.close()
	shows := func(command string) string {
		c.terminal.Status = command
		c.renewStatus()
		text := <-c.status.lines
		c.status.end()
		return text
	}
	require.Equal(t, "one", shows("echo one; echo two; seq 100000"))
	require.Equal(t, "status: exit status 7", shows("exit 7"))
	require.Equal(t, "status: context deadline exceeded", shows("sleep 100"))
	require.Equal(t, "␛[2J", shows(`printf '\033[2J'`))
	c.turn(t.Context(), "hello")
	c.status.end()
	out := filepath.Join(t.TempDir(), "state")
	require.Equal(t, "", shows("cat > "+out))
	data, err := os.ReadFile(out)
	require.NoError(t, err)
	var got map[string]any
	require.NoError(t, json.Unmarshal(data, &got))
	require.Equal(t, "anthropic/claude-sonnet-4-5", got["model"])
	require.Equal(t, s.id(), got["session"])
	require.Equal(t, "ask", got["mode"])
	require.Equal(t, 0.0, got["cost_usd"], "the price of claude-test is not known")
	require.Equal(t, map[string]any{"tokens": 15.0, "window": 200000.0, "percent": 0.0}, got["context"])
	_, err = c.window(t.Context(), "")
	require.NoError(t, err)
	require.NoError(t, c.Flush())
	require.Regexp(t, `together, \d+ % of the 200000 of the model`, screen.out)
}
