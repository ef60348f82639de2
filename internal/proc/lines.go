package proc

import (
	"bytes"
	"time"
)

const (
	reportEvery = 100 * time.Millisecond
	reportBytes = 200
)

// Lines is a writer that passes the last whole line on, now and then, with the number
// of bytes so far. It is not safe for concurrent use.
type Lines struct {
	report func(line string, total int64)
	total  int64
	rest   []byte // of a line that is not whole yet
	last   time.Time
}

// NewLines returns a writer that calls report at most ten times a second.
func NewLines(report func(line string, total int64)) *Lines { return &Lines{report: report} }

// Write implements io.Writer. It never fails.
func (r *Lines) Write(p []byte) (int, error) {
	r.total += int64(len(p))
	end := bytes.LastIndexByte(p, '\n')
	if end < 0 {
		r.keep(p)
		return len(p), nil
	}
	start := bytes.LastIndexByte(p[:end], '\n') + 1
	if start > 0 {
		r.rest = r.rest[:0]
	}
	r.keep(p[start:end])
	if now := time.Now(); len(r.rest) > 0 && now.Sub(r.last) >= reportEvery {
		r.last = now
		text, _ := Clean(trimEnd(r.rest))
		r.report(text, r.total)
	}
	r.rest = r.rest[:0]
	r.keep(p[end+1:])
	return len(p), nil
}

func (r *Lines) keep(p []byte) {
	if room := reportBytes - len(r.rest); room > 0 {
		r.rest = append(r.rest, p[:min(room, len(p))]...)
	}
}
