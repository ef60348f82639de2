package remote

import (
	"archive/tar"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/tools"
)

// manyFiles makes 1,000 files of 1 to 20 KB in 50 directories, and returns their names.
func manyFiles(t testing.TB) (dir string, names []string, bytes int64) {
	t.Helper()
	dir = t.TempDir()
	for i := range 1000 {
		name := fmt.Sprintf("d%02d/sub/file%03d.go", i%50, i)
		text := "needle\n" + strings.Repeat(fmt.Sprintf("line of file %d with some text\n", i), 30+i%600)
		require.NoError(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
		names, bytes = append(names, name), bytes+int64(len(text))
	}
	return dir, names, bytes
}

// byTar reads the files from a tar that another process writes to a pipe. It returns their size and the
// processor time of that process.
func byTar(t testing.TB, dir string, names []string) (total int64, cpu time.Duration) {
	cmd := exec.Command("tar", "-cf", "-", "-C", dir, "-T", "-")
	cmd.Stdin = strings.NewReader(strings.Join(names, "\n"))
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	for r := tar.NewReader(out); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
		data := make([]byte, h.Size)
		_, err = io.ReadFull(r, data)
		require.NoError(t, err)
		total += int64(len(data))
	}
	_, _ = io.Copy(io.Discard, out)
	require.NoError(t, cmd.Wait())
	return total, spent(cmd)
}

func spent(cmd *exec.Cmd) time.Duration {
	return cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
}

// byClient reads the files through a connection.
func byClient(t testing.TB, c *Client, names []string) (total int64) {
	for f, err := range c.OpenFiles(t.Context(), names) {
		require.NoError(t, err)
		info, err := f.Stat()
		require.NoError(t, err)
		data := make([]byte, info.Size())
		_, err = io.ReadFull(f, data)
		require.NoError(t, err)
		total += int64(len(data))
		f.Close()
	}
	return total
}

// BenchmarkRead compares the reading of 1,000 files over a connection to a process with tar over the
// same kind of pipe, in turns. The metric ratio is the quotient of the best times, and cpu-ratio that of
// the processor times of both processes, without what the start of the program and the connection
// take; with them, both are those with started.
func BenchmarkRead(b *testing.B) {
	dir, names, want := manyFiles(b)
	c := child(b, dir)
	type took struct{ best, cpu time.Duration }
	measure := func(m *took, f func() (int64, time.Duration), want int64) {
		start, cpu := time.Now(), timed.CPU()
		got, other := f()
		took := time.Since(start)
		require.Equal(b, want, got)
		if m.cpu += timed.CPU() - cpu + other; m.best == 0 || took < m.best {
			m.best = took
		}
	}
	program := func(names []string) func() (int64, time.Duration) {
		return func() (int64, time.Duration) {
			cmd := testProgram(dir)
			c, err := Start(b.Context(), cmd)
			require.NoError(b, err)
			n := byClient(b, c, names)
			require.NoError(b, c.Close())
			return n, spent(cmd)
		}
	}
	var archive, connected, started, idle took
	for b.Loop() {
		measure(&archive, func() (int64, time.Duration) { return byTar(b, dir, names) }, want)
		measure(&connected, func() (int64, time.Duration) { return byClient(b, c, names), 0 }, want)
		measure(&started, program(names), want)
		measure(&idle, program(nil), 0)
	}
	b.ReportMetric(float64(archive.best.Microseconds()), "tar-µs")
	b.ReportMetric(float64(connected.best)/float64(archive.best), "ratio")
	b.ReportMetric(float64(started.best)/float64(archive.best), "ratio-started")
	b.ReportMetric(float64(started.cpu-idle.cpu)/float64(archive.cpu), "cpu-ratio")
	b.ReportMetric(float64(started.cpu)/float64(archive.cpu), "cpu-ratio-started")
}

// BenchmarkOpen measures one small file over a connection to a process.
func BenchmarkOpen(b *testing.B) {
	dir, names, _ := manyFiles(b)
	c := child(b, dir)
	b.ReportAllocs()
	for b.Loop() {
		f, err := c.Open(names[0])
		require.NoError(b, err)
		f.Close()
	}
}

// counting counts the requests in what a client sends.
type counting struct {
	io.WriteCloser
	in       bytes.Buffer
	requests atomic.Int64
}

func (c *counting) Write(p []byte) (int, error) {
	c.in.Write(p)
	if b := c.in.Bytes(); bytes.HasPrefix(b, []byte(magic)) {
		c.in.Next(len(greeting()))
	}
	for b := c.in.Bytes(); len(b) >= headerLen; b = c.in.Bytes() {
		size := headerLen + int(binary.BigEndian.Uint32(b))
		if len(b) < size {
			break
		}
		if b[8] == frameLast {
			c.requests.Add(1)
		}
		c.in.Next(size)
	}
	return c.WriteCloser.Write(p)
}

// The tools make few requests, however many files they look at.
func TestRequestsOfTools(t *testing.T) {
	dir, _, _ := manyFiles(t)
	ws, e := local(t, dir)
	toServer, fromClient := io.Pipe()
	toClient, fromServer := io.Pipe()
	go Serve(t.Context(), toServer, fromServer, ws, e)
	count := &counting{WriteCloser: fromClient}
	c, err := Connect(t.Context(), toClient, count)
	require.NoError(t, err)
	defer c.Close()
	all, err := tools.Coding(c, tools.WithExec(c))
	require.NoError(t, err)
	for _, tt := range []struct {
		tool, args string
		most       int
		want       string
	}{
		{"list_files", `{}`, 3, "d00/"}, // with two ignore files
		{"list_files", `{"recursive":true}`, 1, "d44/sub/file994.go"},
		{"glob", `{"pattern":"**/file5*.go"}`, 1, "file599.go"},
		{"code_search", `{"pattern":"needle","max_results":1000}`, 2 + 1 + 1000/20 + 20, "d49/sub/file999.go"}, // a request for each directory
		{"read_file", `{"path":"d00/sub/file000.go"}`, 1, "line of file 0"},
		{"edit_file", `{"path":"d00/sub/file000.go","old_string":"needle\n","new_string":"x\n"}`, 3, ""},
		{"bash", `{"command":"echo hi"}`, 1, "hi"},
	} {
		for _, tool := range all {
			if tool.Spec().Name != tt.tool {
				continue
			}
			before := count.requests.Load()
			r, err := tool.Call(t.Context(), aycoder.NewInvocation("c1", tt.tool, []byte(tt.args), nil))
			require.NoError(t, err)
			assert.False(t, r.IsError, r.Text())
			made := int(count.requests.Load() - before)
			t.Logf("%s %s: %d requests", tt.tool, tt.args, made)
			assert.LessOrEqual(t, made, tt.most, "%s %s", tt.tool, tt.args)
			assert.True(t, strings.Contains(r.Text(), tt.want), "%s: %.200s", tt.args, r.Text())
		}
	}
}
