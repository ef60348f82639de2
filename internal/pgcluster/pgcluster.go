// Package pgcluster runs a PostgreSQL server for tests, in a temporary directory and on a socket in it.
package pgcluster

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// ErrMissing says that PostgreSQL is not installed.
var ErrMissing = errors.New("PostgreSQL is not installed: its initdb is neither in PATH nor in /usr/lib/postgresql/*/bin")

// Cluster is a server with its own data.
type Cluster struct {
	bin, dir string
	server   *exec.Cmd // a shell that waits for the server
	ended    chan struct{}
	stdin    io.Closer
	log      *os.File
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

// Run starts the server, also after Kill.
func (c *Cluster) Run() (err error) {
	for range 50 { // while processes of the former server still end, the new one ends at once
		if err = c.start(); err == nil {
			if err = c.ready(); err == nil {
				return nil
			}
		}
		err = errors.Join(err, c.end())
	}
	return err
}

// start starts the server. It ends when this process does: the shell around it waits for the end of its input.
func (c *Cluster) start() (err error) {
	const script = `exec 3<&0; "$@" </dev/null 3<&- & server=$!
(read -r line <&3; kill -QUIT $server) & watch=$!
exec 3<&-; wait $server; kill $watch 2>/dev/null`
	c.server = c.command("sh", "-c", script, "sh", filepath.Join(c.bin, "postgres"), "-D", c.data(), "-k", c.dir,
		"-c", "listen_addresses=", "-c", "max_connections=1000")
	if c.log, err = os.Create(filepath.Join(c.dir, "log")); err != nil {
		return err
	}
	c.server.Stdout, c.server.Stderr = c.log, c.log
	if c.stdin, err = c.server.StdinPipe(); err != nil {
		return err
	}
	if err := c.server.Start(); err != nil {
		return err
	}
	c.ended = make(chan struct{})
	go func() {
		_ = c.server.Wait() // which says how the server ended
		close(c.ended)
	}()
	return nil
}

// ready waits until the server accepts connections.
func (c *Cluster) ready() error {
	limit := time.NewTimer(time.Minute)
	defer limit.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !c.accepts() {
		select {
		case <-tick.C:
			continue
		case <-c.ended:
		case <-limit.C:
		}
		text, _ := os.ReadFile(c.log.Name())
		return fmt.Errorf("the server does not start:\n%s", text)
	}
	return nil
}

// accepts reports whether the server accepts a connection, without the module of a client: it sends the message that begins
// one, with the number of the protocol, and the answer begins with R when the server asks for no password.
func (c *Cluster) accepts() bool {
	conn, err := net.Dial("unix", filepath.Join(c.dir, ".s.PGSQL.5432"))
	if err != nil {
		return false
	}
	defer conn.Close()
	const names = "user\x00postgres\x00database\x00postgres\x00\x00"
	hello := binary.BigEndian.AppendUint32(nil, 8+uint32(len(names)))
	hello = append(binary.BigEndian.AppendUint32(hello, 3<<16), names...)
	answer := make([]byte, 1)
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	if _, err = conn.Write(hello); err == nil {
		_, err = io.ReadFull(conn, answer)
	}
	return err == nil && answer[0] == 'R'
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
	return c.end() // its children end when they find that it is gone
}

// end waits for the shell around the server.
func (c *Cluster) end() error {
	if c.ended == nil {
		return nil
	}
	err := c.stdin.Close()
	<-c.ended
	c.ended = nil
	return errors.Join(err, c.log.Close())
}

// Stop ends the server and removes its data.
func (c *Cluster) Stop() error {
	return errors.Join(c.end(), os.RemoveAll(c.dir))
}
