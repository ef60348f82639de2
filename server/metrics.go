package server

import (
	"sync"
	"time"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/part"
)

// metrics counts what has happened in this process, by principal.
type metrics struct {
	mu  sync.Mutex
	all map[string]*figures
}

// figures are what GET /api/metrics returns, with the names that a scraper uses.
type figures struct {
	Sessions  int64            `json:"aycoder_sessions_total"`
	Messages  map[string]int64 `json:"aycoder_messages_total"`   // by role
	Tokens    map[string]int64 `json:"aycoder_tokens_total"`     // by type
	ToolCalls []toolCalls      `json:"aycoder_tool_calls_total"` // by tool and status
	Cost      float64          `json:"aycoder_api_cost_dollars_total"`
	Response  histogram        `json:"aycoder_response_time_seconds"`
}

type toolCalls struct {
	Tool   string `json:"tool"`
	Status string `json:"status"` // "ok" or "error"
	Count  int64  `json:"count"`
}

// A histogram counts durations. A bucket counts those that are not longer than its bound, in seconds.
type histogram struct {
	Buckets []bound `json:"buckets"`
	Count   int64   `json:"count"`
	Sum     float64 `json:"sum"`
}

type bound struct {
	Le    float64 `json:"le"`
	Count int64   `json:"count"`
}

func bounds() []bound {
	var out []bound
	for _, le := range []float64{0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600} {
		out = append(out, bound{Le: le})
	}
	return out
}

func newMetrics() *metrics { return &metrics{all: map[string]*figures{}} }

// with calls f with the figures of a principal.
func (m *metrics) with(principal string, f func(*figures)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	x := m.all[principal]
	if x == nil {
		x = &figures{Messages: map[string]int64{"user": 0, "assistant": 0}, ToolCalls: []toolCalls{}, Response: histogram{Buckets: bounds()},
			Tokens: map[string]int64{"input": 0, "output": 0, "cache_read": 0, "cache_write": 0}}
		m.all[principal] = x
	}
	f(x)
}

const maxToolNames = 100 // of which each has figures; calls of others count as those of "other"

// fact counts what models have answered, also to runs inside of calls.
func (m *metrics) fact(principal string, f aycoder.Fact) {
	spent := part.Spent(f)
	if len(spent) == 0 {
		return
	}
	_, summary := f.(*aycoder.Compacted)
	m.with(principal, func(x *figures) {
		for _, s := range spent {
			if !summary {
				x.Messages["assistant"] += int64(s.Answers)
			}
			x.Tokens["input"] += s.Usage.Input
			x.Tokens["output"] += s.Usage.Output
			x.Tokens["cache_read"] += s.Usage.CacheRead
			x.Tokens["cache_write"] += s.Usage.CacheWrite
			x.Cost += s.Cost
		}
	})
}

// call counts a call of a tool.
func (m *metrics) call(principal string, ev *aycoder.ToolFinished) {
	m.with(principal, func(x *figures) { x.call(ev.Call.Name, ev.Output.IsError) })
}

func (x *figures) call(tool string, failed bool) {
	status := "ok"
	if failed {
		status = "error"
	}
	for i := range x.ToolCalls {
		if c := &x.ToolCalls[i]; c.Tool == tool && c.Status == status {
			c.Count++
			return
		}
	}
	if len(x.ToolCalls) >= maxToolNames && tool != "other" {
		x.call("other", failed)
		return
	}
	x.ToolCalls = append(x.ToolCalls, toolCalls{tool, status, 1})
}

// ended counts the end of a run.
func (m *metrics) ended(principal string, took time.Duration) {
	m.with(principal, func(x *figures) {
		h, sec := &x.Response, took.Seconds()
		h.Count++
		h.Sum += sec
		for i := range h.Buckets {
			if sec <= h.Buckets[i].Le {
				h.Buckets[i].Count++
			}
		}
	})
}
