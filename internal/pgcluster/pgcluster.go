// Package pgcluster runs a PostgreSQL server for tests, in a temporary directory and on a socket in it.
package pgcluster

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// ErrMissing says that PostgreSQL is not installed.
var ErrMissing = errors.New("PostgreSQL is not installed: its initdb is neither in PATH nor in /usr/lib/postgresql/*/bin")

// Cluster is a server with its own data.
type Cluster struct {
	bin, dir string
	server   *exec.Cmd // a shell that stops the server at the end of its input
	stdin    io.Closer // nil if the server does not run
}

// Start makes a cluster and starts its server. As root, they belong to the user postgres, since PostgreSQL refuses to run
// as root.
func Start() (*Cluster, error) {
	bin, err := programs()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "pg")
	if err != nil {
		return nil, err
	}
	c := &Cluster{bin: bin, dir: dir}
	if err = own(dir); err == nil {
		err = c.initialize()
	}
	if err == nil {
		err = c.Run()
	}
	if err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

func (c *Cluster) initialize() error {
	out, err := c.command(filepath.Join(c.bin, "initdb"), "-D", c.data(), "-U", "postgres", "-A", "trust", "-E", "UTF8",
		"--locale=C", "--no-sync").CombinedOutput()
	if err != nil {
		return fmt.Errorf("initdb: %w: %s", err, out)
	}
	return nil
}

// programs returns the directory of the newest installed version.
func programs() (string, error) {
	if p, err := exec.LookPath("initdb"); err == nil {
		return filepath.Dir(p), nil
	}
	list, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb") // the pattern is right
	if len(list) == 0 {
		return "", ErrMissing
	}
	return filepath.Dir(list[len(list)-1]), nil
}

func (c *Cluster) data() string { return filepath.Join(c.dir, "data") }

// Dir returns the directory that has the socket.
func (c *Cluster) Dir() string { return c.dir }

// Address returns the address of the database postgres, for its superuser.
func (c *Cluster) Address() string { return "host=" + c.dir + " user=postgres dbname=postgres" }

// command returns a command that runs as the owner of the data.
func (c *Cluster) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Dir = c.dir
	as(cmd)
	return cmd
}

// Run starts the server, also after Kill, and waits until it accepts connections. It ends when this process does.
func (c *Cluster) Run() (err error) {
	// An interrupt from the terminal must not end the shell, which stops the server after this process.
	const script = `trap '' INT TERM
"$1" start -w -s -D "$2" -l "$3" -o "$4" </dev/null >/dev/null 2>&1 && echo ready && read -r line
"$1" stop -s -m immediate -D "$2" >/dev/null 2>&1`
	log := filepath.Join(c.dir, "log")
	for range 50 { // while processes of the former server still end, the new one ends at once
		c.server = c.command("sh", "-c", script, "sh", filepath.Join(c.bin, "pg_ctl"), c.data(), log,
			"-k '"+c.dir+"' -c listen_addresses= -c max_connections=1000")
		var out io.Reader
		if out, err = c.server.StdoutPipe(); err != nil {
			return err
		}
		if c.stdin, err = c.server.StdinPipe(); err != nil {
			return err
		}
		if err = c.server.Start(); err != nil {
			return err
		}
		if _, err = out.Read(make([]byte, 1)); err == nil {
			return nil
		}
		text, _ := os.ReadFile(log)
		err = errors.Join(fmt.Errorf("the server does not start:\n%s", text), c.end())
	}
	return err
}

// Kill ends the processes of the server by SIGKILL, as a crash would.
func (c *Cluster) Kill() error {
	text, err := os.ReadFile(filepath.Join(c.data(), "postmaster.pid"))
	if err != nil {
		return err
	}
	line, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(line)
	if err != nil {
		return err
	}
	p, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	if err := p.Kill(); err != nil {
		return err
	}
	return c.end()
}

// end stops the server, if it runs, and waits for the shell.
func (c *Cluster) end() error {
	if c.stdin == nil {
		return nil
	}
	err := c.stdin.Close()
	_ = c.server.Wait() // which says whether the server was killed
	c.stdin = nil
	return err
}

// Stop ends the server and removes its data.
func (c *Cluster) Stop() error {
	return errors.Join(c.end(), os.RemoveAll(c.dir))
}
