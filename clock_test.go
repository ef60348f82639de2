package aycoder_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// clocks are the functions that would make a test depend on the speed of the machine.
// Bounds and waits go through internal/timed; in a bubble of synctest, time is exact.
var clocks = []string{
	"time.Since", "time.Until", "time.Sleep", "time.After", "time.Tick", "time.NewTimer", "time.NewTicker",
	"context.WithTimeout", "context.WithDeadline", "context.WithTimeoutCause", "context.WithDeadlineCause",
	"assert.Eventually", "require.Eventually", "assert.EventuallyWithT", "require.EventuallyWithT",
	"assert.Never", "require.Never", "assert.WithinDuration", "require.WithinDuration",
	"assert.WithinRange", "require.WithinRange",
}

// unclocked are test functions that may use clocks outside a bubble, with the reason.
var unclocked = map[string]string{
	"loop_test.go execute":                            bubbled,
	"facts_test.go rest":                              bubbled,
	"broken_agent_test.go abandon":                    bubbled,
	"broken_agent_test.go TestSuiteFindsBrokenAgents": bubbled,
	"broken_model_test.go TestSuiteFindsBrokenModels": bubbled,
	"broken_tool_test.go TestSuiteFindsBrokenTools":   bubbled,
	"answer_test.go newDesk":                          bubbled,
	"net_test.go Read":                                bubbled,
	"net_test.go TestCancel":                          bubbled,
	"cache_test.go TestCacheLeaderGoes":               bubbled,
	"conformance_test.go leave":                       bubbled,
	"idle_test.go paced":                              bubbled,
	"ratelimit_test.go times":                         bubbled,
	"fetch_test.go TestFetchThatHangs":                bubbled,
	"fetch_test.go hang":                              bubbled,
	"find_test.go nap":                                bubbled,
	"follow_test.go followedSession":                  bubbled,
	"follow_test.go testFollow":                       bubbled,
	"jobs_test.go starter":                            bubbled,
	"server_test.go nap":                              bubbled,
	"server_test.go waitLong":                         bubbled,
	"phase_test.go slow":                              bubbled,
	"phase_test.go begin":                             bubbled,
	"phase_test.go Stream":                            bubbled,
	"size_test.go TestSizeOfSession":                  "what is logged at the end",
	"soak_linux_test.go TestMemoryOfServer":           "how long it works",

	"apply_saves_linux_test.go pause":                   chance,
	"apply_saves_linux_test.go round":                   chance,
	"kill_test.go killOnce":                             chance,
	"kill_session_test.go TestSessionKilled":            chance,
	"team_judge_test.go process":                        chance,
	"bash_robust_test.go step":                          chance,
	"hard_test.go TestCancelledPlans":                   chance,
	"hard_test.go TestAbandonedFilesAreClosed":          chance,
	"broken_fs_test.go TestSuiteFindsBrokenFS":          broken,
	"broken_exec_unix_test.go TestSuiteFindsBrokenExec": broken,
	"conformance_test.go slowly":                        "the least that a slow file takes, never the most",
	"robust_net_test.go fetch":                          "a server that never ends, one byte after the other",
	"memory_linux_test.go TestMemoryBorrowed":           "the least that a wait takes, never the most",

	"read_test.go pause":         bubbled,
	"browser_test.go newBrowser": guard,
	"proc_test.go within":        guard,
	"effects_test.go run":        guard,

	"stream_test.go answers":            "how often a screen is written, whose cost is measured",
	"pty_linux_test.go TestDemo":        "what is logged at the end",
	"bench_test.go measure":             "of a benchmark",
	"many_test.go firstEvent":           "of a benchmark",
	"vector_test.go recall":             "of a benchmark",
	"dir_bench_test.go compare":         "of a benchmark",
	"agents_bench_test.go Read":         "of a benchmark",
	"start_linux_test.go TestStartCost": "of a benchmark",
}

const (
	bubbled = "what it makes runs in bubbles"
	chance  = "a moment that may be any, so nothing depends on it"
	broken  = "what a broken implementation does, which is found whenever it does that"
	guard   = "ends another process that hangs, minutes after it should have ended"
)

// clockUses returns the uses of clocks in a test file that are outside a bubble or a
// benchmark and are not only logged.
func (s source) clockUses() []string {
	if !s.test() {
		return nil
	}
	var out []string
	for _, d := range s.file.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Body == nil || strings.HasPrefix(fn.Name.Name, "Benchmark") {
			continue
		}
		ast.Inspect(fn.Body, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			name := called(call.Fun)
			if name == "synctest.Test" || strings.HasSuffix(name, ".Logf") || strings.HasSuffix(name, ".ReportMetric") {
				return false
			}
			if slices.Contains(clocks, name) {
				out = append(out, fn.Name.Name+" "+name)
			}
			return true
		})
	}
	return out
}

// No test depends on the speed of the machine.
func TestNoWallClock(t *testing.T) {
	used := map[string]bool{}
	for _, s := range sources(t) {
		for _, use := range s.clockUses() {
			name, clock, _ := strings.Cut(use, " ")
			key := s.name + " " + name
			used[key] = true
			if unclocked[key] == "" {
				t.Errorf("%s/%s: %s uses %s outside of a bubble: see internal/timed", s.dir, s.name, name, clock)
			}
		}
	}
	for key := range unclocked {
		require.True(t, used[key], "%s uses no clock any more", key)
	}
}

func TestNoWallClockFindsUses(t *testing.T) {
	tests := []struct{ name, file, body, want string }{
		{"bound", "a_test.go", `func TestX(t *testing.T) { assert.Less(t, time.Since(start), 1) }`, "TestX time.Since"},
		{"helper", "a_test.go", `func wait() { time.Sleep(1) }`, "wait time.Sleep"},
		{"literal", "a_test.go", `func TestX(t *testing.T) { t.Run("a", func(t *testing.T) { <-time.After(1) }) }`, "TestX time.After"},
		{"bubble", "a_test.go", `func TestX(t *testing.T) { synctest.Test(t, func(t *testing.T) { time.Sleep(1) }) }`, ""},
		{"benchmark", "a_test.go", `func BenchmarkX(b *testing.B) { time.Sleep(1) }`, ""},
		{"log", "a_test.go", `func TestX(t *testing.T) { t.Logf("%v", time.Since(start)) }`, ""},
		{"code", "a.go", `func f() { time.Sleep(1) }`, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f, err := parser.ParseFile(token.NewFileSet(), tt.file, "package p\n"+tt.body, 0)
			require.NoError(t, err)
			require.Equal(t, tt.want, strings.Join(source{".", tt.file, f}.clockUses(), ", "), fmt.Sprint(tt.file))
		})
	}
}
