package line

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/internal/cli/tty"
	"github.com/aycoder/aycoder/internal/timed"
)

func keys(e *Editor, text string) {
	var d Decoded
	for _, k := range d.all(text) {
		e.Key(k)
	}
}

// Decoded decodes keys, with an ESC at the end.
type Decoded struct{ tty.Decoder }

func (d *Decoded) all(text string) []tty.Key {
	return append(d.Decode([]byte(text), time.Time{}), d.Flush(time.Time{})...)
}

func TestHistoryFile(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "state", "history")
	add := func(dir string, texts ...string) {
		h, err := LoadHistory(name, dir)
		require.NoError(t, err)
		for _, text := range texts {
			require.NoError(t, h.Add(text))
		}
	}
	add("/a", "one", "two\nlines", "two\nlines", "")
	add("/b", "three", "one", strings.Repeat("x", maxEntry+1))
	f, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteString("not JSON\n{\"text\":7}\n{\"text\":\"cut")
	require.NoError(t, err)
	require.NoError(t, f.Close())
	add("/c", "four")

	h, err := LoadHistory(name, "/a")
	require.NoError(t, err)
	require.Equal(t, []string{"two\nlines", "one", "four", "three"}, h.Entries())
	if runtime.GOOS != "windows" {
		info, err := os.Stat(name)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	}
	require.NoFileExists(t, name+lockedSuffix)

	_, err = LoadHistory(filepath.Dir(name), "")
	require.Error(t, err)
}

// The files are bounded, and nothing of the newer one is lost when it becomes the older.
func TestHistoryIsBounded(t *testing.T) {
	timed.Serial(t)
	t.Parallel()
	name := filepath.Join(t.TempDir(), "history")
	h, err := LoadHistory(name, "/a")
	require.NoError(t, err)
	h.maxFile = 2000
	for i := range 500 {
		require.NoError(t, h.Add(fmt.Sprint("entry ", i)))
		for _, file := range []string{name, name + olderSuffix} {
			if info, err := os.Stat(file); err == nil {
				require.Less(t, info.Size(), int64(2200))
			}
		}
	}
	h, err = LoadHistory(name, "/a")
	require.NoError(t, err)
	entries := h.Entries()
	require.Greater(t, len(entries), 20)
	for i, text := range entries {
		require.Equal(t, fmt.Sprint("entry ", 499-i), text)
	}
	start := time.Now()
	for range 10 * maxEntries {
		h.keep(entry{Text: "x"})
	}
	timed.Within(t, start, 100*time.Millisecond, "the entries of two full files")
	require.Len(t, h.entries, maxEntries)
}

// Another process that turns the file over, or has died while it did, stops nobody.
func TestHistoryLock(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "history")
	h, err := LoadHistory(name, "")
	require.NoError(t, err)
	h.maxFile = 10
	require.NoError(t, os.WriteFile(name+lockedSuffix, nil, 0o600))
	require.NoError(t, h.Add("one"))
	require.NoError(t, h.Add("two"))
	require.NoFileExists(t, name+olderSuffix)
	old := time.Now().Add(-2 * lockTooOld)
	require.NoError(t, os.Chtimes(name+lockedSuffix, old, old))
	require.NoError(t, h.Add("three"))
	require.FileExists(t, name+olderSuffix)
	require.NoFileExists(t, name+lockedSuffix)
	h, err = LoadHistory(name, "")
	require.NoError(t, err)
	require.Equal(t, []string{"three", "two", "one"}, h.Entries())
}

const helper = "AYCODER_TEST_HISTORY"

// Two processes and two goroutines append at once. No entry is lost or mixed.
func TestHistoryOfTwoProcesses(t *testing.T) {
	t.Parallel()
	const entries = 300
	if name := os.Getenv(helper); name != "" {
		h, err := LoadHistory(name, "")
		require.NoError(t, err)
		for i := range entries {
			require.NoError(t, h.Add(fmt.Sprintf("%d %d %s", os.Getpid(), i, strings.Repeat("é", i))))
		}
		return
	}
	name := filepath.Join(t.TempDir(), "history")
	var wg sync.WaitGroup
	errs := make([]error, 2)
	for i := range errs {
		wg.Go(func() {
			cmd := exec.Command(os.Args[0], "-test.run=^TestHistoryOfTwoProcesses$")
			cmd.Env = append(os.Environ(), helper+"="+name)
			errs[i] = cmd.Run()
		})
	}
	wg.Wait()
	require.NoError(t, errs[0])
	require.NoError(t, errs[1])
	h, err := LoadHistory(name, "")
	require.NoError(t, err)
	require.Len(t, h.Entries(), 2*entries)
	for _, text := range h.Entries() {
		var pid, i int
		var rest string
		_, _ = fmt.Sscan(text, &pid, &i, &rest)
		require.Equal(t, strings.Repeat("é", i), rest)
	}
}

func remembering(t *testing.T, texts ...string) *Editor {
	t.Helper()
	h, err := LoadHistory("", "")
	require.NoError(t, err)
	for _, text := range texts {
		require.NoError(t, h.Add(text))
	}
	return New(Options{History: h, Prompt: "> "})
}

func TestRecall(t *testing.T) {
	t.Parallel()
	const up, down = "\x1b[A", "\x1b[B"
	for _, tt := range []struct{ name, keys, want string }{
		{"the newest", up, "git push"},
		{"older", up + up, "two\nlines"},
		{"per line, then per entry", up + up + up + up, "git log"},
		{"and back", up + up + up + up + down, "two\nlines"},
		{"back to the draft", "dr" + "\x01" + up + down + "aft", "aftdr"},
		{"with a prefix", "git" + up, "git push"},
		{"with a prefix, older", "git" + up + up, "git log"},
		{"with a prefix, beyond the oldest", "git" + up + up + up + up, "git log"},
		{"with a prefix, and back", "git" + up + up + down + down, "git"},
		{"down first", "x" + down, "x"},
		{"changed, then older than that", "git" + up + "!" + up, "git push!"},
		{"undone", "git" + up + up + "\x1f", "git"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := remembering(t, "git log", "two\nlines", "git push")
			keys(e, tt.keys)
			require.Equal(t, tt.want, e.Text())
		})
	}
	e := remembering(t, strings.Repeat("many\n", 100))
	keys(e, up)
	require.Equal(t, []string{"> [paste #1: 100 lines]"}, e.View(80).Lines)
	require.Equal(t, strings.Repeat("many\n", 100), e.Text())
}

func TestSearch(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, keys, view, text string }{
		{"begin", "dr\x12", `search "": dr`, "dr"},
		{"found", "\x12LOG", `search "LOG": git log`, "git log"},
		{"older", "\x12git\x12", `search "git": git log`, "git log"},
		{"beyond the oldest", "\x12git\x12\x12\x12", `not found "git": git log`, "git log"},
		{"not found", "\x12gitx", `not found "gitx": git push`, "git push"},
		{"a letter less", "\x12gitx\x7f", `search "git": git push`, "git push"},
		{"taken", "\x12log\r", "> git log", "git log"},
		{"left by another key", "\x12log\x05!", "> git log!", "git log!"},
		{"given up", "dr\x12log\x07aft", "> draft", "draft"},
		{"given up with escape", "dr\x12log\x1b", "> dr", "dr"},
		{"undone", "dr\x12log\r\x1f", "> dr", "dr"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := remembering(t, "git log", "two", "git push")
			keys(e, tt.keys)
			require.Equal(t, tt.view, e.View(80).Lines[0])
			require.Equal(t, tt.text, e.Text())
		})
	}
}
