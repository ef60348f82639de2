package aycoder_test

import (
	"bufio"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/internal/timed"
)

// Whoever wants to know what an answer to a question does until the tool starts reads one page.
// The program counts the statements of this package that run in between: it clears the counters
// of its coverage before the answer and writes them when the tool starts.
func TestAnswersAreOnOnePage(t *testing.T) {
	timed.Long(t, "a program that is built with coverage")
	dir := t.TempDir()
	program, out, profile := filepath.Join(dir, "answer"), filepath.Join(dir, "out"), filepath.Join(dir, "profile")
	require.NoError(t, os.Mkdir(out, 0o700))
	for _, args := range [][]string{
		{"go", "build", "-cover", "-covermode=atomic", "-coverpkg=" + module + ",./testdata/answer", "-o=" + program, "./testdata/answer"},
		{program, out},
		{"go", "tool", "covdata", "textfmt", "-i=" + out, "-o=" + profile},
	} {
		cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
		cmd.Env = append(os.Environ(), "GOCOVERDIR="+dir)
		text, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s: %s", args, text)
	}
	lines, all := executed(t, profile), 0
	for _, name := range slices.Sorted(maps.Keys(lines)) {
		t.Logf("%4d %s", lines[name], name)
		all += lines[name]
	}
	page := lines["approval.go"]
	t.Logf("%d statements in %d files, %.1f %% of them in approval.go", all, len(lines), 100*float64(page)/float64(all))
	require.LessOrEqual(t, len(lines), 8, "files")
	require.GreaterOrEqual(t, 100*page, 70*all, "statements in approval.go")
}

// executed returns how many statements of each file a profile has that were executed.
func executed(t *testing.T, profile string) map[string]int {
	f, err := os.Open(profile)
	require.NoError(t, err)
	defer f.Close()
	files := map[string]int{}
	for r := bufio.NewScanner(f); r.Scan(); { // file:from,to statements count
		var place string
		var n, count int
		if _, err := fmt.Sscan(r.Text(), &place, &n, &count); err == nil && count > 0 {
			if name, _, _ := strings.Cut(strings.TrimPrefix(place, module+"/"), ":"); !strings.Contains(name, "/") {
				files[name] += n
			}
		}
	}
	return files
}
