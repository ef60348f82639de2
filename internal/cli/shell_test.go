package cli

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/cli/tty"
	"github.com/aycoder/aycoder/policy"
	"github.com/aycoder/aycoder/providers/script"
)

// A command of the user runs unasked, and the model gets its output once, behind the next prompt.
func TestShellOfTheUser(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("bash does not run commands here")
	}
	dir := at(t)
	s := newService(t, says("I see.", "end_turn"))
	shown := chats(t, s, "!\n!echo one > made; seq 20; exit 3\n! pwd\nwhat is this?\nand now?\n/tree\n\n", options{})
	inOrder(t, shown, "say a command", "bash echo one > made", "exit 3", "| 1\n", "| 10\n", "| 20\n", "The model gets this", dir, "I see.", "I see.",
		"1 what is this?", "2 and now?")
	require.NotContains(t, shown, "Run it?")
	require.FileExists(t, filepath.Join(dir, "made"))
	all := s.requests()
	require.Len(t, all, 2)
	inOrder(t, all[0], "what is this?", "I have run a command", "$ echo one > made; seq 20; exit 3", `\n20\n[exit 3]`, "$ pwd", dir)
	require.Equal(t, 1, strings.Count(all[1], "$ pwd"), "it is in the history alone")
}

// An output waits for the next prompt that reaches the model.
func TestShellOutputIsKept(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("bash does not run commands here")
	}
	dir := at(t)
	commands := filepath.Join(os.Getenv("HOME"), "aycoder", "commands")
	require.NoError(t, os.MkdirAll(commands, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(commands, "bad.md"), []byte("Look: !`touch made`"), 0o644))
	s := newService(t, says("I see.", "end_turn"))
	shown := chats(t, s, "!echo first\n/bad\nn\nno\nwhat is this?\nand now?\n", options{})
	inOrder(t, shown, "The model gets this", "Run it?", "refused", "! ", "I see.", "I see.")
	require.NoFileExists(t, filepath.Join(dir, "made"))
	all := s.requests()
	require.Len(t, all, 2)
	inOrder(t, all[0], "what is this?", "I have run a command", "$ echo first")
	require.Equal(t, 1, strings.Count(all[1], "$ echo first"))
}

// Nothing but the very command that was typed is decided by that.
func TestDecidedByTyping(t *testing.T) {
	c := &chat{own: "rm a"}
	for _, tt := range []struct {
		tool, args string
		want       bool
	}{
		{"bash", `{"command":"rm a"}`, true}, {"bash", `{"command":"rm b"}`, false}, {"bash", `{"command":"rm a","working_dir":"x"}`, false},
		{"bash", `{"command":"rm a","network":true}`, false}, {"write_file", `{"command":"rm a"}`, false}, {"bash", `null`, false},
	} {
		require.Equal(t, tt.want, c.decidedByTyping(&aycoder.ApprovalRequest{Tool: tt.tool, Args: []byte(tt.args)}), tt.args)
	}
	require.False(t, (&chat{}).decidedByTyping(&aycoder.ApprovalRequest{Tool: "bash", Args: []byte(`{"command":""}`)}))
}

// The policy refuses the user's own command, too.
func TestShellInPlanMode(t *testing.T) {
	dir := t.TempDir()
	shown := talkOn(t, newStage("!touch made\n"), policy.Plan, dir, script.Say("never"))
	require.Contains(t, shown, "refused")
	require.NoFileExists(t, filepath.Join(dir, "made"))
}

// pixel is a PNG of one pixel.
var pixel, _ = base64.StdEncoding.DecodeString("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")

func TestImagesOfALine(t *testing.T) {
	dir := at(t)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.png"), pixel, 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "no.png"), []byte("text"), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "Screen Shot 1.png"), pixel, 0o644)) // the names of macOS
	require.NoError(t, os.WriteFile(filepath.Join(t.TempDir(), "out.png"), pixel, 0o644))
	s := newService(t, says("I see.", "end_turn"))
	shown := chats(t, s, "look at @a.png and x@a.png\n@no.png @../out.png @gone.jpg what?\n"+
		"see @Screen Shot 1.png, @a.png and @dir or a.png, @x or ./../a.png, @x or ../a.png\n"+
		"@dir/"+strings.Repeat("a long line and ", 20)+"a.png, @no.png/x or a.png, @/x or a.png\n", options{})
	inOrder(t, shown, "I see.", "only the name of @no.png: it is text/plain", "only the name of @../out.png", "only the name of @gone.jpg", "I see.")
	require.Equal(t, 1, strings.Count(s.requests()[0], `"type":"image"`))
	require.Equal(t, 1, strings.Count(s.requests()[1], `"type":"image"`), "that of the first line")
	require.Equal(t, 3, strings.Count(s.requests()[2], `"type":"image"`), "two more")
	require.NotRegexp(t, "@dir|@x|@no.png/|@/x", shown, "these are no names")
}

// Ctrl-V puts an image of the clipboard into the line, or says why it does not.
func TestPasteOfAnImage(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the program is that of Wayland")
	}
	at(t)
	bin := t.TempDir()
	t.Setenv("PATH", bin)
	t.Setenv("WAYLAND_DISPLAY", "")
	t.Setenv("DISPLAY", "")
	shown := newStage("")
	c := newTestChat(t, strings.NewReader(""), shown, tty.Options{Plain: true}, &chat{app: &app{getenv: os.Getenv}})
	c.image = c.pasteImage
	paste := func() string {
		c.hint = ""
		c.typed(tty.Key{Rune: 'v', Ctrl: true, At: time.Unix(1, 0), Read: 1})
		return c.editor.Text() + "|" + c.hint
	}
	require.Contains(t, paste(), "|no clipboard can be reached here")
	t.Setenv("WAYLAND_DISPLAY", "wayland-test")
	require.Equal(t, "|reading images from the clipboard needs wl-paste", paste())
	put := func(text string) {
		require.NoError(t, os.WriteFile(filepath.Join(bin, "wl-paste"), []byte("#!/bin/sh\n"+text), 0o755))
	}
	put("exit 1\n")
	require.Equal(t, "|wl-paste: exit status 1", paste())
	put("echo text\n")
	require.Contains(t, paste(), "|the clipboard: it is text/plain")
	put("printf '" + octal(pixel) + "'\n")
	require.Equal(t, "[image 1]|", paste())
	require.Equal(t, "[image 1][image 2]|", paste())
	got := c.images("see [image 2], [image 7]")
	require.Len(t, got, 1)
	require.Equal(t, pixel, got[0].(*aycoder.Media).Data)
	for range 20 {
		paste()
	}
	require.Empty(t, c.images("[image 2] [image 99999999999999999999] [image 99]"))
	require.NoError(t, c.Flush())
	inOrder(t, shown.out, "! the model gets only the label [image 2]: the program keeps the last 10 images")
	require.Equal(t, 1, strings.Count(shown.out, "!"))
	require.Len(t, c.images("[image 22] [image 13]"), 2)
}

// octal returns bytes as the printf of a shell writes them.
func octal(data []byte) string {
	var b strings.Builder
	for _, c := range data {
		b.WriteString(`\0` + string('0'+c>>6) + string('0'+c>>3&7) + string('0'+c&7))
	}
	return strings.ReplaceAll(b.String(), `\0`, `\`)
}

func TestClipboards(t *testing.T) {
	names := func(system string, env map[string]string) (out []string) {
		for _, c := range clipboards(system, func(name string) string { return env[name] }) {
			out = append(out, c.write[0])
			if len(c.image) > 0 {
				out = append(out, c.image[0])
			}
		}
		return out
	}
	require.Equal(t, []string{"pbcopy", "pngpaste"}, names("darwin", nil))
	require.Equal(t, []string{"clip", "powershell"}, names("windows", nil))
	require.Empty(t, names("linux", nil))
	require.Equal(t, []string{"xclip", "xclip", "xsel"}, names("linux", map[string]string{"DISPLAY": ":0"}))
	require.Equal(t, []string{"wl-copy", "wl-paste", "xclip", "xclip", "xsel"}, names("linux", map[string]string{"DISPLAY": ":0", "WAYLAND_DISPLAY": "w"}))
}
