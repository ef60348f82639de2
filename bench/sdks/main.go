//go:build linux

// Sdks compares a program that embeds aycoder with programs that embed the SDKs of Claude, Codex
// and Copilot from npm: the time to the first event, and the memory of many open sessions. It
// needs node, npm and git, and downloads about 1 GB once. From the repository's root:
//
//	go run -C bench/sdks . -dir /tmp/sdks
//
// All use one scripted model over loopback and a dummy key. Whatever else they try to reach goes
// to a proxy that refuses it, and is named below the table.
package main

import (
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// measures are those of the times, in the order of the table.
var measures = [][3]string{
	{"first session of a program: first event, ms", "first text of the model, ms", "end of the answer, ms"},
	{"another session: first event, ms", "first text, ms", "end, ms"},
	{"next turn of a session: first event, ms", "first text,  ms", "end,  ms"},
}

const request = "request of the first turn, kB"

func idle(n int) string    { return fmt.Sprintf("memory of %d sessions, idle, MB", n) }
func working(n int) string { return fmt.Sprintf("memory of %d sessions, each in a turn, MB", n) }

// A cell of the table.
type cell struct{ contestant, measure string }

type bench struct {
	dir, work, url string
	contestants    []string
	reserve        uint64        // bytes of memory that must remain available
	limit          time.Duration // to open the sessions
	model          *model
	values         map[cell][]float64
	notes          map[cell]string
}

func main() {
	b := &bench{model: &model{elsewhere: map[string]int{}}, values: map[cell][]float64{}, notes: map[cell]string{}}
	flag.StringVar(&b.dir, "dir", filepath.Join(os.TempDir(), "sdks"), "where the SDKs are installed")
	only := flag.String("only", "aycoder,claude,codex,copilot", "contestants, by commas")
	rounds := flag.Int("rounds", 5, "rounds of the times; the memory of one session has 3 at most")
	counts := flag.String("sessions", "1,40,1000", "numbers of sessions, by commas")
	flag.Uint64Var(&b.reserve, "reserve", 8<<10, "MiB of memory that must remain available")
	flag.DurationVar(&b.limit, "limit", time.Hour, "time to open the sessions")
	flag.Parse()
	b.contestants, b.reserve = strings.Split(*only, ","), b.reserve<<20
	if err := b.run(*rounds, strings.Split(*counts, ",")); err != nil {
		fmt.Fprintln(os.Stderr, "sdks:", err)
		os.Exit(1)
	}
}

func (b *bench) run(rounds int, counts []string) error {
	install := exec.Command("sh", "-ec", `mkdir -p "$1"
		go build -trimpath -o "$1/aycoder" ./aycoder
		cp host.mjs package.json "$1"
		[ -e "$1/node_modules" ] || npm install --prefix "$1" --no-audit --no-fund --no-package-lock
		git init -q "$2"
		echo "It does what it says." >"$2/README.md"`, "sh", b.dir, filepath.Join(b.dir, "repository"))
	install.Stdout, install.Stderr = os.Stderr, os.Stderr
	if err := install.Run(); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	b.url = "http://" + listener.Addr().String()
	go http.Serve(listener, b.model) //nolint:errcheck // it returns when the process ends
	if b.work, err = os.MkdirTemp("", "homes"); err != nil {
		return err
	}
	defer os.RemoveAll(b.work)
	// All that a host starts stays below this process, also if its parent ends.
	const subreaper = 36
	if _, _, errno := syscall.Syscall(syscall.SYS_PRCTL, subreaper, 1, 0); errno != 0 {
		return errno
	}
	load := output("cat", "/proc/loadavg")
	for round := range rounds + 1 { // the first one fills the caches and does not count
		if err := b.each(round, func(h *host) error { return h.times(round > 0) }); err != nil {
			return err
		}
	}
	b.print(nil) // what comes next takes long
	var ns []int
	for _, count := range counts {
		n, err := strconv.Atoi(count)
		if err != nil {
			return err
		}
		again := min(rounds, 3)
		if n > 1 {
			again = 1 // it takes minutes
		}
		for round := range again {
			if err := b.each(round, func(h *host) error { return h.memory(n) }); err != nil {
				return err
			}
		}
		ns = append(ns, n)
	}
	fmt.Printf("%s, node %s, %d rounds, load before: %s, after: %s\n\n", runtime.Version(),
		output("node", "--version"), rounds, load, output("cat", "/proc/loadavg"))
	b.print(ns)
	return nil
}

// each starts the host of each contestant and calls do; nobody is always the first.
func (b *bench) each(round int, do func(h *host) error) error {
	for i := range b.contestants {
		h, err := b.start(b.contestants[(i+round)%len(b.contestants)])
		if err != nil {
			return err
		}
		err = do(h)
		h.stop()
		if err != nil {
			return fmt.Errorf("%s: %w", h.contestant, err)
		}
	}
	return nil
}

// times measures the first turn of a session, its second, and the first of another session.
func (h *host) times(count bool) error {
	for i, m := range []int{0, 2, 1} {
		h.send(i/2, prompt)
		t := h.receive()
		if t.Error != "" {
			return errors.New(t.Error)
		}
		time.Sleep(time.Second) // what goes on in the background is not part of the next turn
		if !count {
			continue
		}
		for j, v := range []float64{t.First, t.Text, t.End} {
			h.add(measures[m][j], v)
		}
		if i == 0 {
			longest, _ := h.b.model.counts()
			h.add(request, float64(longest)/1000)
		}
	}
	return nil
}

// memory measures n sessions that are open at the same time: after a turn of each, and in the
// middle of the next answer of each.
func (h *host) memory(n int) error {
	want := n
	for i, measure := range []string{idle(want), working(want)} {
		begin := time.Now()
		reached, why := h.many(n, i == 1)
		took := time.Since(begin).Round(time.Second)
		time.Sleep(5 * time.Second) // what the turn has begun ends
		size, count := size()
		h.add(measure, float64(size)/1e6)
		note := fmt.Sprintf("in %d processes", count)
		if reached < want {
			note += fmt.Sprintf(", with %d sessions: %s", reached, why)
		}
		h.b.notes[cell{h.contestant, measure}] = note
		fmt.Fprintf(os.Stderr, "%s, %s: %.0f %s; took %s\n", h.contestant, measure, float64(size)/1e6, note, took)
		n = reached
	}
	return nil
}

func (h *host) add(measure string, v float64) {
	c := cell{h.contestant, measure}
	h.b.values[c] = append(h.b.values[c], v)
}

// print prints the table of medians.
func (b *bench) print(ns []int) {
	rows := append(slices.Concat(measures[0][:], measures[1][:], measures[2][:]), request)
	for _, n := range ns {
		rows = append(rows, idle(n), working(n))
	}
	fmt.Printf("| measure | %s |\n", strings.Join(b.contestants, " | "))
	fmt.Printf("|%s\n", strings.Repeat(" --- |", len(b.contestants)+1))
	for _, measure := range rows {
		fmt.Printf("| %s |", measure)
		for _, contestant := range b.contestants {
			c := cell{contestant, measure}
			text := b.notes[c]
			if v := b.values[c]; v != nil {
				slices.Sort(v)
				text = strings.TrimSpace(fmt.Sprintf("%.4g %s", (v[(len(v)-1)/2]+v[len(v)/2])/2, text))
			}
			fmt.Printf(" %s |", text)
		}
		fmt.Println()
	}
	fmt.Println("\nrequests to others, which were refused:", b.model.elsewhere)
}
