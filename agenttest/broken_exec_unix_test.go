//go:build unix

package agenttest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/aycoder/aycoder/tools"
)

// localExec returns the commands of this machine.
func localExec(t testing.TB, dir string) (tools.Exec, string) {
	e, err := tools.LocalExec()
	if err != nil {
		t.Fatal(err)
	}
	return e, dir
}

func TestExecOfThisMachine(t *testing.T) { TestExec(t, localExec) }

// execFunc is commands that a function runs.
type execFunc func(ctx context.Context, c *tools.ExecCommand) (*tools.ExecResult, error)

func (f execFunc) Run(ctx context.Context, c *tools.ExecCommand) (*tools.ExecResult, error) {
	return f(ctx, c)
}

// environOf is an Exec with an environment.
type environOf struct {
	tools.Exec
	all []string
}

func (e environOf) Environ() []string { return e.all }

// plainExec runs commands with package os/exec alone, as a first attempt might. The test kills what
// they leave in the process group.
type plainExec struct {
	t     testing.TB
	kills bool // the process group, at the end
}

func (e plainExec) Run(ctx context.Context, c *tools.ExecCommand) (*tools.ExecResult, error) {
	cmd := exec.CommandContext(ctx, "sh", "-c", c.Script)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = c.Dir, c.Env, c.Output, c.Output, 100*time.Millisecond
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	err := cmd.Run()
	if cmd.Process != nil {
		kill := func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
		if e.kills {
			kill()
		}
		e.t.Cleanup(kill)
	}
	if _, ok := errors.AsType[*exec.ExitError](err); ok {
		err = nil
	}
	if cmd.ProcessState == nil {
		return nil, err
	}
	return &tools.ExecResult{Code: cmd.ProcessState.ExitCode(), Dir: c.Dir}, errors.Join(err, context.Cause(ctx))
}

// writerFunc is a writer that a function is.
type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// writingTo returns a command with another output.
func writingTo(c *tools.ExecCommand, w io.Writer) *tools.ExecCommand {
	other := *c
	other.Output = w
	return &other
}

// Each of these is slightly wrong, and the check that is named must find it.
func TestSuiteFindsBrokenExec(t *testing.T) {
	result := func(e tools.Exec, change func(*tools.ExecResult)) execFunc {
		return func(ctx context.Context, c *tools.ExecCommand) (*tools.ExecResult, error) {
			res, err := e.Run(ctx, c)
			if res != nil {
				change(res)
			}
			return res, err
		}
	}
	command := func(e tools.Exec, change func(*tools.ExecCommand)) execFunc {
		return func(ctx context.Context, c *tools.ExecCommand) (*tools.ExecResult, error) {
			other := *c
			change(&other)
			return e.Run(ctx, &other)
		}
	}
	output := func(e tools.Exec, change func(w io.Writer, p []byte)) execFunc {
		return func(ctx context.Context, c *tools.ExecCommand) (*tools.ExecResult, error) {
			return e.Run(ctx, writingTo(c, writerFunc(func(p []byte) (int, error) { change(c.Output, p); return len(p), nil })))
		}
	}
	for _, tt := range []struct {
		name, by string
		breaks   func(e tools.Exec) tools.Exec
	}{
		{"no standard error", "Output", func(e tools.Exec) tools.Exec {
			return command(e, func(c *tools.ExecCommand) { c.Script = "exec 2>/dev/null\n" + c.Script })
		}},
		{"standard error after standard output", "Output", func(tools.Exec) tools.Exec {
			return execFunc(func(ctx context.Context, c *tools.ExecCommand) (*tools.ExecResult, error) {
				var a, b bytes.Buffer
				cmd := exec.CommandContext(ctx, "sh", "-c", c.Script)
				cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = c.Dir, c.Env, &a, &b
				err := cmd.Run()
				_, _ = c.Output.Write(append(a.Bytes(), b.Bytes()...))
				return &tools.ExecResult{}, err
			})
		}},
		{"text instead of bytes", "EveryByte", func(e tools.Exec) tools.Exec {
			return output(e, func(w io.Writer, p []byte) { _, _ = w.Write(bytes.ToValidUTF8(p, []byte("?"))) })
		}},
		{"drops long output", "EveryByte", func(e tools.Exec) tools.Exec {
			left := 1 << 20
			return output(e, func(w io.Writer, p []byte) {
				n := min(left, len(p))
				left -= n
				_, _ = w.Write(p[:n])
			})
		}},
		{"reorders output", "EveryByte", func(e tools.Exec) tools.Exec {
			return output(e, func(w io.Writer, p []byte) {
				_, _ = w.Write(p[len(p)/2:])
				_, _ = w.Write(p[:len(p)/2])
			})
		}},
		{"writes concurrently", "WriteIsExclusive", func(e tools.Exec) tools.Exec {
			return execFunc(func(ctx context.Context, c *tools.ExecCommand) (*tools.ExecResult, error) {
				var wg sync.WaitGroup
				defer wg.Wait()
				return e.Run(ctx, writingTo(c, writerFunc(func(p []byte) (int, error) {
					p = bytes.Clone(p)
					for range 8 {
						wg.Go(func() { _, _ = c.Output.Write(p) })
					}
					return len(p), nil
				})))
			})
		}},
		{"writes after the end", "WriteIsExclusive", func(e tools.Exec) tools.Exec {
			return execFunc(func(ctx context.Context, c *tools.ExecCommand) (*tools.ExecResult, error) {
				var late bytes.Buffer
				res, err := e.Run(ctx, writingTo(c, &late))
				time.AfterFunc(10*time.Millisecond, func() { _, _ = c.Output.Write(late.Bytes()) })
				return res, err
			})
		}},
		{"holds the output back", "WhileRunning", func(e tools.Exec) tools.Exec {
			return execFunc(func(ctx context.Context, c *tools.ExecCommand) (*tools.ExecResult, error) {
				ctx, cancel := context.WithTimeout(ctx, time.Second) // the check would wait longer
				defer cancel()
				var all bytes.Buffer
				res, err := e.Run(ctx, writingTo(c, &all))
				_, _ = c.Output.Write(all.Bytes())
				return res, err
			})
		}},
		{"quotes the script", "Script", func(e tools.Exec) tools.Exec {
			return command(e, func(c *tools.ExecCommand) { c.Script = `eval "` + c.Script + `"` })
		}},
		{"passes a line only", "Script", func(e tools.Exec) tools.Exec {
			return command(e, func(c *tools.ExecCommand) { c.Script = strings.ReplaceAll(c.Script, "\n", " ") })
		}},
		{"the script is an argument", "LongScript", func(tools.Exec) tools.Exec { return plainExec{t: t} }},
		{"runs twice", "Once", func(e tools.Exec) tools.Exec {
			return execFunc(func(ctx context.Context, c *tools.ExecCommand) (*tools.ExecResult, error) {
				if res, err := e.Run(ctx, writingTo(c, io.Discard)); err != nil {
					return res, err
				}
				return e.Run(ctx, c)
			})
		}},
		{"input that does not end", "NoInput", func(e tools.Exec) tools.Exec {
			return command(e, func(c *tools.ExecCommand) { c.Script = "exec < <(echo x)\n" + c.Script })
		}},
		{"no code", "Code", func(e tools.Exec) tools.Exec {
			return result(e, func(r *tools.ExecResult) { r.Code = min(r.Code, 1) })
		}},
		{"a code is an error", "Code", func(e tools.Exec) tools.Exec {
			return execFunc(func(ctx context.Context, c *tools.ExecCommand) (*tools.ExecResult, error) {
				res, err := e.Run(ctx, c)
				if res != nil && res.Code != 0 {
					err = errors.New("exit")
				}
				return res, err
			})
		}},
		{"128 for a signal", "Signal", func(e tools.Exec) tools.Exec {
			return result(e, func(r *tools.ExecResult) {
				if r.Signal != "" {
					r.Code, r.Signal = 137, ""
				}
			})
		}},
		{"leaves processes", "LeavesNothing", func(tools.Exec) tools.Exec { return plainExec{t: t} }},
		{"kills only the process group", "LeavesNoDaemon", func(tools.Exec) tools.Exec {
			return plainExec{t: t, kills: true}
		}},
		{"kills only the shell", "Cancel", func(tools.Exec) tools.Exec { return plainExec{t: t} }},
		{"no result of a cancelled command", "Cancel", func(e tools.Exec) tools.Exec {
			return execFunc(func(ctx context.Context, c *tools.ExecCommand) (*tools.ExecResult, error) {
				res, err := e.Run(ctx, c)
				if err != nil {
					return nil, err
				}
				return res, nil
			})
		}},
		{"the error of the context instead of the cause", "Cancel", func(e tools.Exec) tools.Exec {
			return execFunc(func(ctx context.Context, c *tools.ExecCommand) (*tools.ExecResult, error) {
				res, err := e.Run(ctx, c)
				if ctx.Err() != nil {
					err = ctx.Err()
				}
				return res, err
			})
		}},
		{"runs though cancelled", "CancelledBefore", func(e tools.Exec) tools.Exec {
			return execFunc(func(ctx context.Context, c *tools.ExecCommand) (*tools.ExecResult, error) {
				res, err := e.Run(context.WithoutCancel(ctx), c)
				if cause := context.Cause(ctx); cause != nil {
					return nil, cause
				}
				return res, err
			})
		}},
		{"runs in the root", "Directory", func(e tools.Exec) tools.Exec {
			return command(e, func(c *tools.ExecCommand) { c.Dir = c.Root })
		}},
		{"the directory is that of the beginning", "LastDirectory", func(e tools.Exec) tools.Exec {
			return execFunc(func(ctx context.Context, c *tools.ExecCommand) (*tools.ExecResult, error) {
				res, err := e.Run(ctx, c)
				if res != nil {
					res.Dir = c.Dir
				}
				return res, err
			})
		}},
		{"runs anywhere", "DirectoryOutside", func(e tools.Exec) tools.Exec {
			return command(e, func(c *tools.ExecCommand) { c.Root = "/" })
		}},
		{"compares only the names of directories", "DirectoryOutside", func(e tools.Exec) tools.Exec {
			return execFunc(func(ctx context.Context, c *tools.ExecCommand) (*tools.ExecResult, error) {
				if rel, err := filepath.Rel(c.Root, c.Dir); err != nil || !filepath.IsLocal(rel) {
					return nil, tools.ErrExecDir
				}
				other := *c
				other.Root = "/"
				return e.Run(ctx, &other)
			})
		}},
		{"the environment of the host, too", "Environment", func(e tools.Exec) tools.Exec {
			return command(e, func(c *tools.ExecCommand) { c.Env = append(os.Environ(), c.Env...) })
		}},
		{"the first value of a variable", "Environment", func(e tools.Exec) tools.Exec {
			return command(e, func(c *tools.ExecCommand) {
				known := map[string]bool{}
				var env []string
				for _, v := range c.Env {
					if name, _, _ := strings.Cut(v, "="); !known[name] {
						known[name], env = true, append(env, v)
					}
				}
				c.Env = env
			})
		}},
		{"says that it was held to reading", "ReadOnly", func(e tools.Exec) tools.Exec {
			return execFunc(func(ctx context.Context, c *tools.ExecCommand) (*tools.ExecResult, error) {
				other := *c
				other.ReadOnly = false
				res, err := e.Run(ctx, &other)
				if res != nil {
					res.ReadOnly = c.ReadOnly
				}
				return res, err
			})
		}},
		{"reads in a copy of the workspace", "ReadOnly", func(e tools.Exec) tools.Exec {
			return execFunc(func(ctx context.Context, c *tools.ExecCommand) (*tools.ExecResult, error) {
				other := *c
				if c.ReadOnly {
					other.ReadOnly, other.Root = false, t.TempDir()
					other.Dir = other.Root
					if err := os.CopyFS(other.Root, os.DirFS(c.Root)); err != nil {
						return nil, err
					}
				}
				res, err := e.Run(ctx, &other)
				if res != nil {
					res.ReadOnly = c.ReadOnly
				}
				return res, err
			})
		}},
		{"runs what was not approved, and says no", "Approved", func(e tools.Exec) tools.Exec {
			return execFunc(func(ctx context.Context, c *tools.ExecCommand) (*tools.ExecResult, error) {
				res, err := e.Run(ctx, c)
				if c.Approved != c.Digest() {
					return nil, tools.ErrNotApproved
				}
				return res, err
			})
		}},
		{"refuses what was approved", "Approved", func(e tools.Exec) tools.Exec {
			return execFunc(func(ctx context.Context, c *tools.ExecCommand) (*tools.ExecResult, error) {
				other := *c
				if other.Network = true; c.Approved != "" && c.Approved != other.Digest() {
					return nil, tools.ErrNotApproved
				}
				return e.Run(ctx, c)
			})
		}},
		{"one output for all", "Concurrent", func(e tools.Exec) tools.Exec {
			var mu sync.Mutex
			var first io.Writer
			return output(e, func(w io.Writer, p []byte) {
				mu.Lock()
				defer mu.Unlock()
				if first == nil {
					first = w
				}
				_, _ = first.Write(p)
			})
		}},
		{"an environment without PATH", "Environ", func(e tools.Exec) tools.Exec { return environOf{e, []string{"HOME=/"}} }},
		{"an environment of names", "Environ", func(e tools.Exec) tools.Exec { return environOf{e, []string{"PATH=/bin", "HOME"}} }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, c := range execChecks {
				if c.name != tt.by {
					continue
				}
				s := newExecSuite(t, func(t testing.TB, dir string) (tools.Exec, string) {
					e, root := localExec(t, dir)
					return tt.breaks(e), root
				})
				if c.check(s); s.found.empty() {
					t.Errorf("the check %s does not find it", tt.by)
				}
				return
			}
			t.Fatalf("there is no check %s", tt.by)
		})
	}
}
