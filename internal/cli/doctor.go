package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/config"
	"github.com/aycoder/aycoder/tools"
	"github.com/aycoder/aycoder/workspace"
)

const (
	onlineTime = 20 * time.Second // for the answer of a provider
	leastDisk  = 256 << 20        // bytes that should be free for sessions
)

// A finding is what one check of "aycoder doctor" has found. State is "ok", "warning" or "error".
type finding struct {
	Check string `json:"check"`
	State string `json:"state"`
	Text  string `json:"text"`
}

// errUnfit is the error if a check has found something that keeps the program from working.
var errUnfit = errors.New("something keeps the program from working")

// doctor prints what it finds.
func doctor(ctx context.Context, k *call) error {
	st, loaded := k.load(&options{})
	if loaded == nil {
		k.choose(&options{print: true}, st)
	}
	found := []finding{k.checkConfiguration(st, loaded), k.checkKeys()}
	if loaded == nil {
		found = append(found, k.checkModel(ctx, st), checkSandbox(ctx), k.checkSessions(ctx, st))
	}
	found = append(found, checkGit(ctx), k.checkTerminal())
	var failed error
	if slices.ContainsFunc(found, func(f finding) bool { return f.State == "error" }) {
		failed = errUnfit
	}
	return cmp.Or(printList(k, found, func(f *finding) string { return fmt.Sprintf("%-8s %-14s %s", f.State, f.Check, f.Text) }, ""), failed)
}

func (k *call) checkConfiguration(st *settings, err error) finding {
	if invalid, ok := errors.AsType[*config.InvalidError](err); ok {
		return finding{"configuration", "error", fmt.Sprintf("%d mistakes; see aycoder config check", len(invalid.Diagnostics))}
	}
	if err != nil {
		return finding{"configuration", "error", err.Error()}
	}
	if n := len(st.loaded.Diagnostics); n > 0 {
		return finding{"configuration", "warning", fmt.Sprintf("%d warnings; see aycoder config check", n)}
	}
	return finding{"configuration", "ok", "in " + cmp.Or(st.home, "no directory: HOME is not set")}
}

// checkKeys tells which keys are there, and never one of them.
func (k *call) checkKeys() finding {
	var names []string
	for _, v := range vendorTable() {
		if name := k.key(v); name != "" {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return finding{"keys", "warning", "none is in the environment"}
	}
	return finding{"keys", "ok", strings.Join(names, ", ")}
}

// checkModel tells which model would be used. With -online, it asks for one word.
func (k *call) checkModel(ctx context.Context, st *settings) finding {
	if st.model == "" {
		return finding{"model", "error", (&noModelError{st.why}).Error()}
	}
	text := strings.TrimSpace(st.model + " " + st.why)
	if !k.on["online"] {
		return finding{"model", "ok", text + " (not asked; -online does)"}
	}
	ctx, cancel := context.WithTimeout(ctx, onlineTime)
	defer cancel()
	o := &options{print: true, noSession: true}
	s, err := k.open(ctx, o, st)
	if err != nil {
		return finding{"model", "error", err.Error()}
	}
	defer s.close()
	req := &aycoder.Request{MaxTokens: 16, Messages: []*aycoder.Message{aycoder.User("Say OK.")}}
	if _, err := aycoder.Complete(ctx, s.Client, req); err != nil {
		return finding{"model", "error", explain(err)}
	}
	return finding{"model", "ok", text + " has answered"}
}

// checkSandbox tries the sandbox that fits the system.
func checkSandbox(ctx context.Context) finding {
	ws, err := workspace.Open(".")
	if err != nil {
		return finding{"sandbox", "error", err.Error()}
	}
	defer ws.Close()
	open := map[string]func(tools.FS, ...tools.SandboxOption) (*tools.LocalSandbox, error){"linux": tools.Landlock, "darwin": tools.Seatbelt}[runtime.GOOS]
	if open == nil {
		return finding{"sandbox", "warning", "there is none on " + runtime.GOOS}
	}
	box, err := open(ws)
	if err != nil {
		return finding{"sandbox", "warning", err.Error()}
	}
	defer box.Close()
	report, err := tools.CheckSandbox(ctx, box, tools.SandboxCall{})
	switch {
	case err != nil:
		return finding{"sandbox", "warning", err.Error()}
	case len(report.Missing) > 0:
		return finding{"sandbox", "warning", report.String()}
	}
	return finding{"sandbox", "ok", report.String()}
}

// keeps tries to make a file in a directory.
func keeps(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, ".doctor-*")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// checkSessions tries to write where conversations are kept.
func (k *call) checkSessions(ctx context.Context, st *settings) finding {
	dir := k.sessionDir(st)
	if dir == "" {
		return finding{"sessions", "warning", "they are not kept: HOME is not set"}
	}
	if err := keeps(dir); err != nil {
		return finding{"sessions", "error", "they cannot be kept: " + err.Error()}
	}
	free, ok := freeBytes(dir)
	text := filepath.Clean(dir)
	if n, size, err := k.sizes(ctx, st); err == nil {
		text += ", " + count(n, "session") + " of " + bytesOf(size)
	}
	if ok {
		text += fmt.Sprintf(", %d MB free", free>>20)
	}
	if ok && free < leastDisk {
		return finding{"sessions", "warning", text}
	}
	return finding{"sessions", "ok", text}
}

// sizes returns how many sessions there are, and how many bytes they take.
func (k *call) sizes(ctx context.Context, st *settings) (n int, size int64, err error) {
	store, err := k.store(st)
	if err != nil {
		return 0, 0, err
	}
	for e, err := range store.List(ctx) {
		if err != nil {
			return 0, 0, err
		}
		one, err := sizeOf(ctx, store, e.ID)
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // another process may have deleted it
			return 0, 0, err
		}
		n, size = n+1, size+one
	}
	return n, size, nil
}

func checkGit(ctx context.Context) finding {
	out, err := exec.CommandContext(ctx, "git", "--version").Output()
	if err != nil {
		return finding{"git", "warning", "it does not run: " + err.Error()}
	}
	return finding{"git", "ok", strings.TrimSpace(string(out))}
}

func (k *call) checkTerminal() finding {
	switch {
	case !isTerminal(k.stdin) || !isTerminal(k.stdout):
		return finding{"terminal", "ok", "none: prompts come from arguments and standard input"}
	case k.getenv("TERM") == "" || k.getenv("TERM") == "dumb":
		return finding{"terminal", "warning", "a plain one, since TERM says so"}
	}
	return finding{"terminal", "ok", k.getenv("TERM")}
}
