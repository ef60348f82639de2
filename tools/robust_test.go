//go:build linux

package tools

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/timed"
)

type robustCase struct {
	ID, Tool, Name, Why string
	Setup               []step
	Args                args
	Expect              struct {
		Outcome        string
		MaxMS          int               `json:"max_ms"`
		MaxOutputBytes int               `json:"max_output_bytes"`
		Contains       string            `json:"contains"`
		NotContains    string            `json:"not_contains"`
		ContainsAll    []string          `json:"contains_all"`
		ErrorKind      string            `json:"error_kind"`
		FileAfter      map[string]string `json:"file_after"`
		FileAfterB64   map[string]string `json:"file_after_b64"`
		ExitCode       *int              `json:"exit_code"`
		MaxRSS         int               `json:"max_rss_mb"`
		Stable         bool
		SideEffects    string `json:"side_effects"`
		Meta           struct {
			TotalLines int    `json:"total_lines"`
			LineEnding string `json:"line_ending"`
		}
	}
}

func (c *robustCase) leftOut() string {
	for _, s := range c.Setup {
		for _, k := range []string{"tmpfs", "sparse"} {
			if s[k] != nil {
				return k
			}
		}
	}
	return ""
}

// expand evaluates the generators of the file.
func expand(v any) any {
	m, ok := v.(map[string]any)
	switch {
	case !ok:
		return v
	case m["$repeat"] != nil:
		return strings.Repeat(m["$repeat"].(string), int(m["$n"].(float64)))
	case m["$concat"] != nil:
		var s strings.Builder
		for _, p := range m["$concat"].([]any) {
			s.WriteString(expand(p).(string))
		}
		return s.String()
	}
	return v
}

var renamed = map[string]string{"old": "old_string", "new": "new_string", "glob": "include"}

func (c *robustCase) args(t *testing.T) (in args, cancelAt time.Duration) {
	in, cancelAt = args{}, -1
	for k, v := range c.Args {
		switch k {
		case "cancel_at_ms":
			cancelAt = time.Duration(v.(float64)) * time.Millisecond
		case "timeout_ms":
			in["timeout"] = int(math.Ceil(v.(float64) / 1000))
		case "host_env":
			fallthrough
		case "env": // of the host's process
			for name, value := range v.(map[string]any) {
				t.Setenv(name, value.(string))
			}
		case "parallel":
		case "hidden": // hidden files are searched anyway
		case "encoding": // the loop tells the model that there is no such argument
		default:
			if to := renamed[k]; to != "" {
				k = to
			}
			in[k] = expand(v)
		}
	}
	return in, cancelAt
}

// Recorded awkward situations, for the tools of this package.
func TestRobustnessCases(t *testing.T) {
	cases := robustCases[robustCase](t, "read_file", "list_files", "code_search")
	ran := 0
	left := map[string][]string{}
	reduced := timed.Reduced(t)
	for i, c := range cases {
		if why := c.leftOut(); why != "" {
			left[why] = append(left[why], c.ID)
			continue
		}
		if reduced && i%3 > 0 {
			continue
		}
		ran++
		t.Run(c.Tool+" "+c.Name, func(t *testing.T) { c.run(t) })
	}
	t.Logf("%d of %d cases ran", ran, len(cases))
	for why, ids := range left {
		t.Logf("not run, %s: %d: %s", why, len(ids), strings.Join(ids, " "))
	}
}

func (c *robustCase) run(t *testing.T) {
	w := &world{t: t, base: t.TempDir(), tool: map[string]aycoder.Tool{}}
	require.NoError(t, os.MkdirAll(filepath.Join(w.base, "ws"), 0o755))
	require.Empty(t, setUp(t, w.base, c.Setup))
	w.open()
	in, cancelAt := c.args(t)
	before := map[string]string{}
	for name := range c.Expect.FileAfter {
		data, _ := os.ReadFile(w.path(name))
		before[name] = string(data)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if cancelAt == 0 {
		cancel()
	} else if cancelAt > 0 {
		time.AfterFunc(cancelAt, cancel)
	}
	files := map[string]string{}
	if c.Expect.SideEffects != "" {
		require.Equal(t, "none", c.Expect.SideEffects)
		files = w.snapshot()
	}
	start, held := time.Now(), resetPeak(t)
	r, err := w.callCtx(ctx, c.Tool, in)
	limit := time.Duration(c.Expect.MaxMS) * time.Millisecond
	if in["timeout"] != nil {
		limit += time.Second // whole seconds only
	}
	timed.Within(t, start, limit)
	assert.Less(t, peak(t)-held, cmp.Or(c.Expect.MaxRSS, 512)<<10, "kB")
	if c.Expect.SideEffects != "" {
		assert.Equal(t, files, w.snapshot())
	}
	if n, _ := c.Args["parallel"].(float64); n > 0 || c.Expect.Stable {
		var wg sync.WaitGroup
		for range max(int(n), 2) {
			wg.Go(func() {
				again, err := w.callCtx(ctx, c.Tool, in)
				if assert.NoError(t, err) {
					assert.Equal(t, r.Text(), again.Text())
				}
			})
		}
		wg.Wait()
	}
	if c.Expect.Outcome == "cancelled" {
		require.True(t, err != nil || r.IsError)
	} else {
		require.NoError(t, err)
		c.check(t, r)
	}
	for name, want := range c.Expect.FileAfter {
		switch want {
		case "UNCHANGED":
			assert.Equal(t, before[name], w.read(name))
		case "ABSENT":
			assert.NoFileExists(t, w.path(name))
		default:
			assert.Equal(t, want, w.read(name))
		}
	}
	for name, want := range c.Expect.FileAfterB64 {
		assert.Equal(t, want, base64.StdEncoding.EncodeToString([]byte(w.read(name))))
	}
}

func (c *robustCase) check(t *testing.T, r *aycoder.ToolResult) {
	text := r.Text()
	switch c.Expect.Outcome {
	case "ok":
		assert.False(t, r.IsError, text)
	case "error", "timeout":
		assert.True(t, r.IsError, text)
	}
	if c.Expect.MaxOutputBytes > 0 {
		assert.LessOrEqual(t, len(text), c.Expect.MaxOutputBytes)
	}
	for _, want := range append(c.Expect.ContainsAll, c.Expect.Contains) {
		assert.Contains(t, text, want)
	}
	if no := c.Expect.NotContains; no != "" {
		assert.NotContains(t, text, no)
	}
	if kind := c.Expect.ErrorKind; kind != "" && r.IsError {
		assert.True(t, strings.HasPrefix(text, kind+": "), "want %s: %s", kind, text)
	}
	if n := c.Expect.Meta.TotalLines; n > 0 {
		assert.Contains(t, text, fmt.Sprintf(" of %d]", n))
	}
	if e := c.Expect.Meta.LineEnding; e != "" {
		assert.Contains(t, strings.ToLower(text), "[line endings are "+e)
	}
	if code := c.Expect.ExitCode; code != nil {
		assert.Equal(t, fmt.Sprintf("exit %d", *code), r.Summary)
	}
}
