//go:build unix

// Bars compares an agent of aycoder with the least agent that does the same work, for four
// APIs: a first run, a step, an idle agent, and ten thousand agents at once. The answers come from memory. Each
// measurement is a process, the rounds are interleaved, and the program prints a table of medians, with the ratios
// in each round.
// Processor time includes that of the system and of the collector. From the repository's root:
//
//	go run -C bench/aycoder ./bars             a few minutes
//	go run -C bench/aycoder ./bars -rounds 1 -agents 100 -turns 10
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// A measure is a row of the table.
type measure struct{ mode, key, what, unit string }

var measures = []measure{
	{"first", "cpu", "a new client, tool and agent, and its first run with one call: CPU", "µs"},
	{"first", "allocs", "… allocations", ""},
	{"first", "heap", "memory of an idle agent with its conversation", "kB"},
	{"step", "cpu", "a step of 100 turns with three calls: CPU", "µs"},
	{"step", "allocs", "… allocations", ""},
	{"crowd", "cpu", "10,000 agents with five events a second: CPU an event", "µs"},
	{"crowd", "p99", "… an event is late, p99", "ms"},
}

// agents are the constructors. The first is the floor.
var agents = []struct {
	name string
	open func(*wire, setup) (agent, error)
}{{"floor", newFloor}, {"aycoder", newOurs}}

// sizes are those of the measurements.
type sizes struct{ agents, turns, crowd, seconds int }

func main() {
	var s sizes
	rounds := flag.Int("rounds", 5, "rounds")
	only := flag.String("only", "first,step,crowd", "measurements")
	child := flag.String("child", "", "measure one: mode,agent,wire")
	flag.IntVar(&s.agents, "agents", 1000, "agents whose first run is measured")
	flag.IntVar(&s.turns, "turns", 100, "turns whose steps are measured")
	flag.IntVar(&s.crowd, "crowd", 10_000, "agents that stream at once")
	flag.IntVar(&s.seconds, "seconds", 6, "how long they do")
	flag.Parse()
	var err error
	if *child != "" {
		err = measureOne(*child, s)
	} else {
		err = compare(*rounds, strings.Split(*only, ","))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bars:", err)
		os.Exit(1)
	}
}

// measureOne is what a child does. It prints an object of figures.
func measureOne(child string, s sizes) error {
	for _, w := range wires {
		for _, a := range agents {
			for mode, f := range modes {
				if child == mode+","+a.name+","+w.name {
					figures, err := f(func(set setup) (agent, error) { return a.open(w, set) }, w, s)
					if err != nil {
						return err
					}
					return json.NewEncoder(os.Stdout).Encode(figures)
				}
			}
		}
	}
	return fmt.Errorf("no such measurement: %s", child)
}

// compare measures in turns, and prints the table.
func compare(rounds int, modes []string) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	got := map[string][]map[string]float64{} // by child
	for round := range rounds {
		for _, mode := range modes {
			for _, w := range wires {
				for i := range agents {
					child := mode + "," + agents[(i+round)%len(agents)].name + "," + w.name
					cmd := exec.Command(program, append(os.Args[1:], "-child", child)...)
					cmd.Stderr = os.Stderr
					out, err := cmd.Output()
					if err != nil {
						return fmt.Errorf("%s: %w", child, err)
					}
					var figures map[string]float64
					if err := json.Unmarshal(out, &figures); err != nil {
						return fmt.Errorf("%s: %w", child, err)
					}
					got[child] = append(got[child], figures)
				}
			}
		}
	}
	fmt.Println("| measure | API | floor | aycoder | ratio, lowest to highest |\n| --- | --- | --- | --- | --- |")
	for _, m := range measures {
		if !slices.Contains(modes, m.mode) {
			continue
		}
		for _, w := range wires {
			var floor []float64
			fmt.Printf("| %s | %s |", m.what, w.name)
			for i, a := range agents {
				var values, ratios []float64
				for round := range rounds {
					values = append(values, got[m.mode+","+a.name+","+w.name][round][m.key])
					if i > 0 {
						ratios = append(ratios, values[round]/floor[round])
					}
				}
				fmt.Printf(" %.3g %s |", median(values), m.unit)
				if i == 0 {
					floor = values
					continue
				}
				fmt.Printf(" %.2f, %.2f to %.2f |", median(ratios), slices.Min(ratios), slices.Max(ratios))
			}
			fmt.Println()
		}
	}
	return nil
}

func median(values []float64) float64 {
	s := slices.Sorted(slices.Values(values))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}
