//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	prompt = "What does the program do?"
	limit  = 3 * time.Minute // for one turn
)

// A turn is the answer of a host: times in ms from the call of the library.
type turn struct {
	First, Text, End float64
	Error            string
}

// A host is a program that embeds a contestant.
type host struct {
	b          *bench
	contestant string
	in         io.WriteCloser
	turns      chan turn
}

// start starts the host of a contestant, in a small repository and with a separate home.
func (b *bench) start(contestant string) (*host, error) {
	home := filepath.Join(b.work, contestant)
	if err := os.MkdirAll(home, 0o700); err != nil {
		return nil, err
	}
	cmd := exec.Command("node", filepath.Join(b.dir, "host.mjs"), contestant, b.url)
	if contestant == "aycoder" {
		cmd = exec.Command(filepath.Join(b.dir, "aycoder"), b.url)
	}
	cmd.Dir, cmd.Stderr = filepath.Join(b.dir, "repository"), os.Stderr
	cmd.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "LANG=C.UTF-8",
		"ANTHROPIC_BASE_URL=" + b.url, "ANTHROPIC_API_KEY=key",
		"HTTP_PROXY=" + b.url, "HTTPS_PROXY=" + b.url, "http_proxy=" + b.url, "https_proxy=" + b.url,
		"NO_PROXY=127.0.0.1", "no_proxy=127.0.0.1", "DO_NOT_TRACK=1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1"}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	b.model.reset(contestant)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	h := &host{b: b, contestant: contestant, in: in, turns: make(chan turn, 1)}
	go func() {
		defer close(h.turns)
		for d := json.NewDecoder(out); ; {
			var t turn
			if d.Decode(&t) != nil {
				return
			}
			h.turns <- t
		}
	}()
	time.Sleep(2 * time.Second) // the program and the SDK are loaded
	return h, nil
}

func (h *host) send(session int, prompt string) {
	fmt.Fprintf(h.in, `{"session":%d,"prompt":%q}`+"\n", session, prompt) // if it fails, no turn comes
}

func (h *host) receive() turn {
	select {
	case t, ok := <-h.turns:
		if !ok {
			t.Error = "the program ended"
		}
		return t
	case <-time.After(limit):
		return turn{Error: "no answer after " + limit.String()}
	}
}

// many begins a turn in n sessions, four at a time, or in as many as fit: until all are answered,
// or until half of each answer has come. It returns their number, and why there are not more.
func (h *host) many(n int, half bool) (reached int, why string) {
	text, begin := prompt, time.Now()
	if half {
		text = holdMark
	}
	for sent := 0; reached < n; {
		switch {
		case sent < n && h.b.full():
			n, why = sent, fmt.Sprintf("less than %d MiB of memory were available", h.b.reserve>>20)
		case sent < n && time.Since(begin) > h.b.limit:
			n, why = sent, fmt.Sprintf("%s had passed", h.b.limit)
		case sent < n && sent-reached < 4:
			h.send(sent, text)
			sent++
		case half:
			if len(h.turns) > 0 {
				return reached, h.receive().Error
			}
			time.Sleep(5 * time.Millisecond)
			_, reached = h.b.model.counts()
		default:
			if t := h.receive(); t.Error != "" {
				return reached, t.Error
			}
			reached++
		}
	}
	return reached, why
}

// stop ends the host and all that it has started.
func (h *host) stop() {
	for range 500 {
		for _, pid := range below(os.Getpid()) {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
		}
		if _, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); errors.Is(err, syscall.ECHILD) {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	_ = h.in.Close() // nobody reads it
	for range h.turns {
	}
}

// size returns the memory of the host and its processes: their PSS, which counts a page that
// several of them share only once.
func size() (bytes uint64, processes int) {
	for _, pid := range below(os.Getpid()) {
		if n := field(fmt.Sprintf("/proc/%d/smaps_rollup", pid), "Pss:"); n > 0 {
			bytes += n
			processes++
		}
	}
	return bytes, processes
}

// full reports whether less memory is available than must remain.
func (b *bench) full() bool { return field("/proc/meminfo", "MemAvailable:") < b.reserve }

// field returns a size in a file of /proc, in bytes.
func field(name, key string) uint64 {
	data, _ := os.ReadFile(name) // the process may have ended
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, key); ok {
			n, _ := strconv.ParseUint(strings.Fields(rest)[0], 10, 64)
			return n << 10
		}
	}
	return 0
}

// below returns the processes that a process has started, and theirs.
func below(pid int) (out []int) {
	names, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid)) // the pattern is right
	for _, name := range names {
		data, _ := os.ReadFile(name) // it may have ended
		for text := range strings.FieldsSeq(string(data)) {
			child, _ := strconv.Atoi(text)
			out = append(append(out, child), below(child)...)
		}
	}
	return out
}

// output returns what a command prints, or "".
func output(name string, args ...string) string {
	out, _ := exec.Command(name, args...).Output()
	return strings.TrimSpace(string(out))
}
