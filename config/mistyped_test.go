package config_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A mistyped name is read as the one that was probably meant, also beside that one, so that only it is at fault, and
// what is wrong below it.
func TestMistypedBesideRight(t *testing.T) {
	for name, tt := range map[string]struct {
		text string
		want []string // places and messages
	}{
		"table before": {"[agnt]\nmax_turns = 2\n[agent]\nmax_calls = 3\n", []string{"1:2: error: agnt is not a key; did you mean agent?"}},
		"table after":  {"[agent]\nmax_turns = 2\n[agnt]\nmax_calls = 0\n", []string{"3:2: error: agnt is not a key; did you mean agent?", "4:13: error: agent.max_calls is too small; the smallest possible value is 1"}},
		"tables of tables": {
			"[models.a]\nprovider = 'x'\nmodel = 'y'\n[modls.b]\nprovider = 'x'\n", []string{"4:2: error: modls is not a key; did you mean models?", "4:8: error: models.b needs the key model"},
		},
		"list": {
			"[[hooks]]\nevent = 'Stop'\ncommand = 'x'\n[[hoks]]\nevent = 'Stop'\n[[hooks]]\nevent = 'Stop'\ncommand = 'y'\n",
			[]string{"4:3: error: hoks is not a key; did you mean hooks?", "4:3: error: hooks[1] needs the key command"},
		},
		"value before":       {"[agent]\nmax_turn = 2\nmax_turns = 0\n", []string{"2:1: error: agent.max_turn is not a key; did you mean max_turns?", "3:13: error: agent.max_turns is too small; the smallest possible value is 1"}},
		"value after":        {"[agent]\nmax_turns = 2\nmax_turn = 3\n", []string{"3:1: error: agent.max_turn is not a key; did you mean max_turns?"}},
		"value twice":        {"[agent]\nmax_turns = 2\nmax_turn = 3\nmax_turns = 4\n", []string{"3:1: error: agent.max_turn is not a key; did you mean max_turns?", "4:1: error: agent.max_turns is defined twice, first on line 2; keep one of them"}},
		"table for list":     {"[[hooks]]\nevent = 'Stop'\ncommand = 'x'\n[hoks]\nevent = 'Stop'\n", []string{"4:2: error: hoks is not a key; did you mean hooks?"}},
		"list for table":     {"[agent]\nmax_turns = 2\n[[agnt]]\nmax_calls = 0\n", []string{"3:3: error: agnt is not a key; did you mean agent?"}},
		"value for table":    {"agnt = 5\n[agent]\nmax_turns = 0\n", []string{"1:1: error: agnt is not a key; did you mean agent?", "3:13: error: agent.max_turns is too small; the smallest possible value is 1"}},
		"value behind table": {"agent.max_turns = 0\nagnt = 5\n", []string{"1:19: error: agent.max_turns is too small; the smallest possible value is 1", "2:1: error: agnt is not a key; did you mean agent?"}},
		"dotted":             {"agnt.max_turns = 2\nagent.max_calls = 3\n", []string{"1:1: error: agnt is not a key; did you mean agent?"}},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tt.want, faults(t, tt.text))
		})
	}
}

// An unknown key is an error also after more warnings than are reported.
func TestMistypedAfterManyWarnings(t *testing.T) {
	var b strings.Builder
	for i := range 120 {
		fmt.Fprintf(&b, "[models.m%d]\nprovider = 'x'\nmodel = 'y'\nmax_tokens = 2_000_000\n", i)
	}
	b.WriteString("[agent]\nnothing_like_it = 1\n")
	require.Contains(t, strings.Join(faults(t, b.String()), "\n"), "agent.nothing_like_it is not a key")
}
