//go:build unix

// Bench compares aycoder with its peers: one fake provider, the same work for everyone, in
// interleaved rounds. It writes results.json, the tables in docs/benchmarks.md and the
// plots beside it. From the repository's root:
//
//	go run -C bench .               measures everything, a few minutes
//	go run -C bench . -only floor,aycoder -rounds 1 -dry
//	go run -C bench . -render       writes the document from results.json again
//
// A contestant is a directory with a program that calls contest.Main; it is a module, so
// one that cannot be built is named and left out. Once the modules are there, nothing
// leaves the machine.
package main

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"encoding/json"
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
	"strings"
	"time"

	"github.com/aycoder/aycoder/bench/internal/contest"
	"github.com/aycoder/aycoder/bench/internal/provider"
)

// contestants are the directories of the programs. The first is the floor, by which the
// others are divided; the second is ours.
var contestants = []string{"floor", "aycoder", "anthropic-sdk-go", "openai-go", "eino"}

// limit ends a contestant that hangs. The slowest needs seconds.
const limit = 3 * time.Minute

// Results are all figures of one run of this program.
type Results struct {
	Go     string   `json:"go"`
	System string   `json:"system"`
	Cores  int      `json:"cores"`
	CPU    string   `json:"cpu,omitempty"`
	Load   []string `json:"load,omitempty"` // over a minute, before and after
	Rounds int      `json:"rounds"`
	// Versions are those of the peers, Missing says why others are not there.
	Versions map[string]string `json:"versions"`
	Missing  map[string]string `json:"missing,omitempty"`
	Entries  []*Entry          `json:"entries"`
}

// An Entry is a contestant on a wire.
type Entry struct {
	Name string `json:"name"`
	Wire string `json:"wire"`
	Size int64  `json:"size"` // of the stripped program
	// Values hold one figure a round for each measure.
	Values map[string][]float64 `json:"values"`
	// Steps are those of the last round.
	Steps []float64 `json:"steps,omitempty"`

	program string
}

func main() {
	only := flag.String("only", "", "contestants, by commas (default: all)")
	rounds := flag.Int("rounds", 5, "rounds")
	dry := flag.Bool("dry", false, "print the tables, and write nothing")
	render := flag.Bool("render", false, "measure nothing: write the document from results.json")
	flag.Parse()
	if err := run(*only, *rounds, *dry, *render); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(only string, rounds int, dry, render bool) error {
	var res *Results
	var err error
	if render {
		res, err = load("results.json")
	} else {
		names := contestants
		if only != "" {
			names = append(contestants[:1:1], slices.DeleteFunc(strings.Split(only, ","),
				func(name string) bool { return name == contestants[0] })...)
		}
		res, err = measure(names, rounds)
	}
	if err != nil {
		return err
	}
	if dry {
		fmt.Print(tables(res))
		return nil
	}
	if !render {
		data, err := json.MarshalIndent(res, "", "\t")
		if err != nil {
			return err
		}
		if err := os.WriteFile("results.json", append(data, '\n'), 0o644); err != nil {
			return err
		}
	}
	fmt.Print(tables(res))
	return write("../docs", res)
}

func load(name string) (*Results, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var r Results
	return &r, json.Unmarshal(data, &r)
}

// measure builds the contestants and measures them in turns.
func measure(names []string, rounds int) (*Results, error) {
	tmp, err := os.MkdirTemp("", "bench")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	res := &Results{Go: runtime.Version(), System: runtime.GOOS + "/" + runtime.GOARCH, Cores: runtime.NumCPU(),
		CPU: cpuModel(), Rounds: rounds, Versions: map[string]string{}, Missing: map[string]string{}}
	for _, name := range names {
		entries, version, err := build(name, filepath.Join(tmp, name))
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s is left out: %v\n", name, err)
			res.Missing[name] = "does not build here"
			continue
		}
		res.Versions[name] = version
		res.Entries = append(res.Entries, entries...)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	server := &http.Server{Handler: &provider.Handler{}}
	go server.Serve(listener) //nolint:errcheck // it returns when the process ends
	defer server.Close()
	url := "http://" + listener.Addr().String()

	res.Load = append(res.Load, loadAverage())
	for round := range rounds {
		for _, what := range []string{contest.Decode, contest.Loop, contest.Idle} {
			for i := range res.Entries {
				e := res.Entries[(i+round)%len(res.Entries)] // nobody is always the first
				if err := e.measure(what, url); err != nil {
					return nil, fmt.Errorf("%s, %s, %s: %w", e.Name, e.Wire, what, err)
				}
			}
		}
		fmt.Fprintf(os.Stderr, "round %d of %d\n", round+1, rounds)
	}
	res.Load = append(res.Load, loadAverage())
	return res, nil
}

// build builds a contestant and asks it which wires it speaks.
func build(name, program string) ([]*Entry, string, error) {
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", program, ".")
	cmd.Dir = name
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-mod=readonly -buildvcs=false", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, "", fmt.Errorf("%w\n%s", err, bytes.TrimSpace(out))
	}
	info, err := os.Stat(program)
	if err != nil {
		return nil, "", err
	}
	version, err := versionOf(name, program)
	if err != nil {
		return nil, "", err
	}
	wires, err := exec.Command(program).Output()
	if err != nil {
		return nil, "", err
	}
	var out []*Entry
	for wire := range strings.FieldsSeq(string(wires)) {
		out = append(out, &Entry{Name: name, Wire: wire, Size: info.Size(), Values: map[string][]float64{}, program: program})
	}
	if out == nil {
		return nil, "", errors.New("it speaks no wire")
	}
	return out, version, nil
}

// versionOf returns the version of the module that the directory is named after, as the
// program has it linked.
func versionOf(name, program string) (string, error) {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return "", err
	}
	for _, dep := range info.Deps {
		if slices.Contains(strings.Split(dep.Path, "/"), name) && dep.Replace == nil {
			return dep.Version, nil
		}
	}
	return "", nil // of this repository
}

// measure runs one measurement in a separate process, so that none affects the next.
func (e *Entry) measure(what, url string) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, e.program, "-measure", what, "-wire", e.Wire, "-url", url)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return err
	}
	var r contest.Report
	if err := json.Unmarshal(out, &r); err != nil {
		return fmt.Errorf("it printed %.200q: %w", out, err)
	}
	if r.Error != "" {
		return errors.New(r.Error)
	}
	for name, v := range r.Values {
		e.Values[name] = append(e.Values[name], v)
	}
	if r.Steps != nil {
		e.Steps = r.Steps
	}
	return nil
}

func loadAverage() string {
	data, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	one, _, _ := strings.Cut(string(data), " ")
	return one
}

func cpuModel() string {
	data, _ := os.ReadFile("/proc/cpuinfo") // only Linux has it
	for line := range strings.Lines(string(data)) {
		if k, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == "model name" {
			return strings.TrimSpace(v)
		}
	}
	return ""
}
