package config_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/config"
	"github.com/aycoder/aycoder/internal/timed"
)

// A mutation breaks one line of the good file. The expected fault follows from what it does to the text.
type mutation struct {
	name string
	// breaks returns the new text of a line, the 1-based column of the fault in the last line of it, and a text of
	// the message. It returns false for a line that it cannot break.
	breaks func(r *rand.Rand, line string) (text string, column int, message string, ok bool)
}

var assignment = regexp.MustCompile(`^([a-z_]+) = (.+[^\[{"]|"[^"]+"|".*\\.*")$`)

func parts(line string) (key, value string, ok bool) {
	m := assignment.FindStringSubmatch(line)
	if m == nil || strings.HasSuffix(line, `"""`) {
		return "", "", false
	}
	return m[1], m[2], true
}

func valueColumn(key string) int { return len(key) + len(" = ") + 1 }

const letters = "abcdefghijklmnopqrstuvwxyz_"

// typo changes a word by one insertion, deletion, change or swap of neighbours.
func typo(r *rand.Rand, word string) string {
	i, c := r.IntN(len(word)), letters[r.IntN(len(letters))]
	switch b := []byte(word); r.IntN(4) {
	case 0:
		return string(slices.Insert(b, i, c))
	case 1:
		return string(slices.Delete(b, i, i+1))
	case 2:
		b[i] = c
		return string(b)
	default:
		i = min(i, max(0, len(b)-2))
		j := min(i+1, len(b)-1)
		b[i], b[j] = b[j], b[i]
		return string(b)
	}
}

// oneEdit reports whether one typo makes b of a.
func oneEdit(a, b string) bool {
	for i := range len(a) + 1 {
		switch {
		case i < len(a) && a[:i]+a[i+1:] == b, i < len(b) && b[:i]+b[i+1:] == a:
			return true
		case i < len(a) && i < len(b) && a[:i] == b[:i] && a[i+1:] == b[i+1:]:
			return true
		case i+1 < len(a) && a[:i]+string(a[i+1])+string(a[i])+a[i+2:] == b:
			return true
		}
	}
	return false
}

// siblings are the keys of the tables, written down from the documentation of the types.
var siblings = [][]string{
	{"models", "roles", "agent", "budgets", "context", "tools", "approval", "sandbox", "session", "hooks", "servers", "terminal", "serve", "profile"},
	{"provider", "model", "key_env", "key_command", "base_url", "headers", "proxy", "max_tokens", "requests_per_minute",
		"tokens_per_minute", "idle_timeout", "fallbacks"},
	{"main", "small", "summary"},
	{"system", "max_turns", "max_calls", "max_tokens", "max_cost", "budget", "thinking", "retries", "retry_time"},
	{"cost", "tokens", "time"},
	{"max_tokens", "max_bytes", "fill", "server"},
	{"disabled", "env", "ignore", "private_hosts", "mask", "max_output", "parallel", "memory", "commands", "agents", "grace"},
	{"mode", "timeout", "rules"},
	{"action", "tool", "pattern", "class", "reason", "match", "not_match"},
	{"mode", "kind", "network", "sockets", "debuggers", "shared_caches", "read", "write", "protect", "hosts"},
	{"dir", "snapshots", "sync", "audit", "repeat_reads", "keep", "max_bytes"},
	{"vi", "keys", "notify", "notify_after", "title", "status"},
	{"webhooks", "cost_threshold"},
	{"url", "secret_env", "types", "content", "private", "disabled"},
	{"event", "matcher", "command", "timeout", "env"},
	{"command", "args", "env", "url", "headers", "timeout", "tools", "disabled"},
}

// ambiguous reports whether a mistyped key is as near to another key of a table that has the right one.
func ambiguous(key, mistyped string) bool {
	for _, keys := range siblings {
		if !slices.Contains(keys, key) {
			continue
		}
		for _, k := range keys {
			if k != key && (k == mistyped || oneEdit(k, mistyped)) {
				return true
			}
		}
	}
	return false
}

var mutations = []mutation{
	{"mistyped key", func(r *rand.Rand, line string) (string, int, string, bool) {
		key, value, ok := parts(line)
		if !ok {
			return "", 0, "", false
		}
		for range 20 {
			if w := typo(r, key); w != "" && w != key && !ambiguous(key, w) {
				return w + " = " + value, 1, "is not a key", true
			}
		}
		return "", 0, "", false
	}},
	{"mistyped table", func(r *rand.Rand, line string) (string, int, string, bool) {
		name := strings.Trim(line, "[]")
		if !strings.HasPrefix(line, "[") || strings.Contains(name, "profile") {
			return "", 0, "", false
		}
		first, rest, _ := strings.Cut(name, ".")
		w := first
		for w == first || w == "" || ambiguous(first, w) {
			w = typo(r, first)
		}
		column := strings.Index(line, first) + 1
		return strings.Replace(line, name, strings.TrimSuffix(w+"."+rest, "."), 1), column, "is not a key", true
	}},
	{"case", func(_ *rand.Rand, line string) (string, int, string, bool) {
		key, value, ok := parts(line)
		return strings.ToUpper(key) + " = " + value, 1, "is not a key; did you mean " + key + "?", ok
	}},
	{"type", func(_ *rand.Rand, line string) (string, int, string, bool) {
		key, value, ok := parts(line)
		wrong := "7"
		if value != "" && value[0] >= '0' && value[0] <= '9' {
			wrong = `"seven"`
		} else if strings.HasPrefix(value, "[") || strings.HasPrefix(value, "{") {
			wrong = "true"
		}
		return key + " = " + wrong, 1, "must be", ok
	}},
	{"twice", func(_ *rand.Rand, line string) (string, int, string, bool) {
		_, _, ok := parts(line)
		return line + "\n" + line, 1, "is defined twice", ok
	}},
	{"range", replaced("is too small", map[string]string{
		"max_turns": "0", "max_calls": "-5", "max_cost": "-0.5", "thinking": "-1", "retries": "-2", "retry_time": `"1ms"`,
		"idle_timeout": `"0s"`, "requests_per_minute": "0", "tokens_per_minute": "0", "max_bytes": "1", "fill": "0.01",
		"max_output": "100", "parallel": "0", "memory": "-2", "commands": "0", "agents": "0", "grace": `"0s"`,
		"max_tokens": "0", "cost": "-1", "tokens": "-1", "time": `"-1h"`, "timeout": `"1ms"`,
	})},
	{"large", replaced("is unreasonably large", map[string]string{
		"max_turns": "5000", "max_tokens": "3_000_000_000", "max_cost": "1e6", "thinking": "300_000", "retries": "101",
		"retry_time": `"240h"`, "idle_timeout": `"61m"`, "parallel": "1000", "commands": "5000", "grace": `"11m"`,
	})},
	{"value", replaced("has no such value", map[string]string{
		"mode": `"yes"`, "kind": `"docker"`, "sync": `"never"`, "action": `"permit"`, "event": `"Always"`, "class": `"all"`,
	})},
	{"name", replaced(", which is not in", map[string]string{
		"main": `"nobody"`, "small": `"nobody"`, "summary": `"nobody"`, "budget": `"nobody"`,
	})},
}

// replaced gives keys values that are wrong.
func replaced(message string, values map[string]string) func(*rand.Rand, string) (string, int, string, bool) {
	return func(_ *rand.Rand, line string) (string, int, string, bool) {
		key, value, ok := parts(line)
		wrong, has := values[key]
		if strings.HasPrefix(value, "[") || value == `"any mode"` || key == "max_tokens" && strings.Contains(line, "2_000_000") && message != "is too small" {
			return "", 0, "", false // a list of the same name, a mode of another agent, and a limit without a largest value
		}
		return key + " = " + wrong, valueColumn(key), message, ok && has
	}
}

// An expected fault.
type fault struct {
	line, column int
	message      string
}

// broken returns the good file with mutations of different lines, and what they must give.
func broken(t *testing.T, r *rand.Rand, good []string, kinds []mutation) (string, []fault) {
	t.Helper()
	type change struct {
		text, message string
		column        int
	}
	changes := map[int]change{}
	for _, m := range kinds {
		for {
			i := r.IntN(len(good))
			text, column, message, ok := m.breaks(r, good[i])
			if _, taken := changes[i]; ok && !taken {
				changes[i] = change{text, message, column}
				break
			}
		}
	}
	var lines []string
	var want []fault
	for i, line := range good {
		c, ok := changes[i]
		if !ok {
			lines = append(lines, line)
			continue
		}
		lines = append(lines, strings.Split(c.text, "\n")...)
		want = append(want, fault{len(lines), c.column, c.message})
	}
	return strings.Join(lines, "\n") + "\n", want
}

func goodLines(t testing.TB) []string {
	t.Helper()
	data, err := os.ReadFile("testdata/good.toml")
	require.NoError(t, err)
	return strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
}

func TestMutations(t *testing.T) {
	timed.Serial(t)
	t.Parallel()
	good, r := goodLines(t), rand.New(rand.NewPCG(16, 1))
	count := map[string]int{}
	for n := range 200 {
		kinds := []mutation{mutations[n%len(mutations)]}
		if n >= 150 {
			kinds = nil
			for _, i := range r.Perm(len(mutations))[:5] {
				kinds = append(kinds, mutations[i])
			}
		}
		text, want := broken(t, r, good, kinds)
		checkFaults(t, text, want)
		for _, k := range kinds {
			count[k.name]++
		}
	}
	t.Log(count)
}

// checkFaults compares all diagnostics of a file with what is expected.
func checkFaults(t *testing.T, text string, want []fault) {
	t.Helper()
	got := diagnostics(t, config.WithUserFile(file(t, text)), config.WithCatalog(known), config.WithLookup(goodVariables))
	ok := len(got) == len(want)
	for i := 0; ok && i < len(want); i++ {
		ok = got[i].Line == want[i].line && got[i].Column == want[i].column && strings.Contains(got[i].String(), want[i].message)
	}
	if ok {
		return
	}
	lines := strings.Split(text, "\n")
	for _, w := range want {
		t.Logf("want %d:%d %s in %q", w.line, w.column, w.message, lines[w.line-1])
	}
	for _, d := range got {
		t.Logf("got %d:%d %s", d.Line, d.Column, d)
	}
	t.Error("other faults")
}

// Wrong syntax is reported at the first line at which the file cannot go on, with the faults before it.
func TestSyntaxMutations(t *testing.T) {
	timed.Serial(t)
	t.Parallel()
	good, r := goodLines(t), rand.New(rand.NewPCG(16, 2))
	breaks := map[string]func(line string) (text string, next bool, ok bool){
		"open string": func(line string) (string, bool, bool) {
			_, v, ok := parts(line)
			return strings.TrimSuffix(line, `"`), false, ok && strings.HasPrefix(v, `"`)
		},
		"no equals sign": func(line string) (string, bool, bool) {
			_, _, ok := parts(line)
			return strings.Replace(line, "=", " ", 1), false, ok
		},
		"no value": func(line string) (string, bool, bool) {
			k, _, ok := parts(line)
			return k + " =", false, ok
		},
		"open header": func(line string) (string, bool, bool) {
			return strings.TrimSuffix(line, "]"), false, strings.HasPrefix(line, "[")
		},
		"open list": func(line string) (string, bool, bool) {
			_, v, ok := parts(line)
			return strings.TrimSuffix(line, "]"), true, ok && strings.HasPrefix(v, "[")
		},
		"two values": func(line string) (string, bool, bool) {
			_, _, ok := parts(line)
			return line + " 1", false, ok
		},
		"bare word": func(line string) (string, bool, bool) {
			k, _, ok := parts(line)
			return k + " = yes", false, ok
		},
	}
	for name, breakLine := range breaks {
		for range 20 {
			i := r.IntN(len(good))
			text, next, ok := breakLine(good[i])
			for !ok {
				i = r.IntN(len(good))
				text, next, ok = breakLine(good[i])
			}
			lines := slices.Clone(good)
			lines[i] = text
			before := 0
			if i > 3 {
				lines[2] = `provder = "anthropic"`
				before = 1
			}
			want := i + 1
			if next { // the first line that has more than a comment or nothing
				for want++; lines[want-1] == ""; want++ {
				}
			}
			got := diagnostics(t, config.WithUserFile(file(t, strings.Join(lines, "\n"))), config.WithCatalog(known))
			require.Len(t, got, before+1, "%s in line %d: %s\n%v", name, i+1, text, got)
			assert.Equal(t, want, got[before].Line, "%s in line %d: %s\n%v", name, i+1, text, got)
			assert.Contains(t, got[before].Message, "invalid syntax")
		}
	}
}

// One typo in a key is recognised in at least 95 of 100 cases, also by a reader who would have no other choice.
func TestTypos(t *testing.T) {
	timed.Serial(t)
	t.Parallel()
	good, r := goodLines(t), rand.New(rand.NewPCG(16, 3))
	right, all, left := 0, 0, 0
	for i, line := range good {
		key, value, ok := parts(line)
		if !ok {
			continue
		}
		for range 5 {
			w := typo(r, key)
			if w == key || w == "" {
				continue
			}
			if ambiguous(key, w) {
				left++
				continue
			}
			lines := slices.Clone(good)
			lines[i] = w + " = " + value
			text := strings.Join(lines, "\n")
			all++
			before := right
			for _, d := range diagnostics(t, config.WithUserFile(file(t, text)), config.WithCatalog(known), config.WithLookup(goodVariables)) {
				if d.Help == fmt.Sprintf("did you mean %s?", key) {
					right++
				}
			}
			if right == before {
				t.Logf("%s for %s was not recognised", w, key)
			}
		}
	}
	t.Logf("%d of %d right, %d with two keys equally near left out", right, all, left)
	assert.GreaterOrEqual(t, float64(right), 0.95*float64(all))
}
