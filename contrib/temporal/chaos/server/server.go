// Package server runs a Temporal server for tests, as a separate process that can be killed, on a PostgreSQL server that
// can be killed as well. The programs are built once, which takes minutes, into the directory that [Dir] returns:
//
//	go build -C contrib/temporal/chaos/server/tools -ldflags '-s -w' -o ~/.cache/aycoder/temporal-1.32.1/ \
//		go.temporal.io/server/cmd/server go.temporal.io/server/cmd/tools/sql
//
// Their modules stand in the go.mod of the directory tools alone.
package server

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"text/template"
	"time"

	"github.com/aycoder/aycoder/internal/pgcluster"
)

// Variable names the directory of the programs, in place of that of the user's cache.
const Variable = "AYCODER_TEMPORAL_SERVER"

// ErrMissing says that the programs are not built.
var ErrMissing = errors.New("the Temporal server is not built: see the documentation of package server")

// Dir returns the directory of the programs.
func Dir() (string, error) {
	dir := os.Getenv(Variable)
	if dir == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return "", err
		}
		dir = filepath.Join(cache, "aycoder", "temporal-1.32.1")
	}
	for _, name := range []string{"server", "sql"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			return "", fmt.Errorf("%w (%w)", ErrMissing, err)
		}
	}
	return dir, nil
}

// Server is a Temporal server with its own data, in two databases of a PostgreSQL server.
type Server struct {
	// Database is the PostgreSQL server. It has room for other databases.
	Database *pgcluster.Cluster

	bin, dir string
	config   config
	process  *exec.Cmd
	ended    chan struct{}
	stdin    io.WriteCloser // whose end ends the server, unless a line came before
	runs     int
}

// config fills in the configuration.
type config struct {
	Socket, Dynamic                                     string
	Frontend, Matching, History, Worker                 int // ports, as are the following
	FrontendRing, MatchingRing, HistoryRing, WorkerRing int
	Poll                                                int
}

// Option configures [Start].
type Option func(*config)

// WithPollRate sets history.transferProcessorMaxPollRPS. The default of the server is 20, which is said to space the steps of
// one workflow at 50 ms. Default: 10,000.
func WithPollRate(n int) Option { return func(c *config) { c.Poll = n } }

// Start starts PostgreSQL, makes the tables and starts the server. It returns when the server is ready to be asked by clients.
func Start(opts ...Option) (*Server, error) {
	bin, err := Dir()
	if err != nil {
		return nil, err
	}
	s := &Server{bin: bin, config: config{Poll: 10_000}}
	for _, o := range opts {
		o(&s.config)
	}
	if s.Database, err = pgcluster.Start(); err != nil {
		return nil, err
	}
	if s.dir, err = os.MkdirTemp("", "temporal"); err == nil {
		err = s.setup()
	}
	if err == nil {
		err = s.Run()
	}
	if err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

// setup makes the databases and the files of the configuration.
func (s *Server) setup() error {
	c := &s.config
	for _, port := range []*int{&c.Frontend, &c.Matching, &c.History, &c.Worker, &c.FrontendRing, &c.MatchingRing, &c.HistoryRing, &c.WorkerRing} {
		l, err := listen()
		if err != nil {
			return err
		}
		defer l.Close() // when all of them are known
		*port = l.Addr().(*net.TCPAddr).Port
	}
	c.Socket, c.Dynamic = s.Database.Dir(), filepath.Join(s.dir, "dynamic.yaml")
	for name, text := range map[string]string{"config.yaml": configText, "dynamic.yaml": dynamicText} {
		var b bytes.Buffer
		if err := template.Must(template.New(name).Parse(text)).Execute(&b, c); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(s.dir, name), b.Bytes(), 0o600); err != nil {
			return err
		}
	}
	for database, schema := range map[string]string{"temporal": "temporal", "temporal_visibility": "visibility"} {
		for _, args := range [][]string{{"create-database"}, {"setup-schema", "-v", "0.0"},
			{"update-schema", "--schema-name", "postgresql/v12/" + schema}} {
			common := []string{"--plugin", "postgres12_pgx", "--endpoint", "localhost", "--port", "5432", "--user", "postgres", "--database", database,
				"--connect-attributes", "host=" + c.Socket}
			if out, err := exec.Command(filepath.Join(s.bin, "sql"), append(common, args...)...).CombinedOutput(); err != nil {
				return fmt.Errorf("%s in %s: %w: %s", args[0], database, err, out)
			}
		}
	}
	return nil
}

// listen finds a free port. The tables of the server have no room for those above 32767, which systems usually give.
func listen() (l net.Listener, err error) {
	for range 100 {
		if l, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 20_000+rand.IntN(12_000))); err == nil {
			return l, nil
		}
	}
	return nil, err
}

// Address returns the address for clients.
func (s *Server) Address() string { return fmt.Sprintf("127.0.0.1:%d", s.config.Frontend) }

// PID returns the number of the process.
func (s *Server) PID() int { return s.process.Process.Pid }

// Run starts the server, also after [Server.Kill], and waits until its port is open. Clients may have to wait a little longer.
// It ends when this process does, since a shell waits for the end of its input.
func (s *Server) Run() (err error) {
	// The process of the shell becomes the server, so that a signal meets it.
	const script = `exec 3<&0
(read -r line <&3 || kill -9 $$ 2>/dev/null) & exec 3<&- "$@" </dev/null`
	s.process = exec.Command("sh", "-c", script, "sh", filepath.Join(s.bin, "server"), "--config-file", filepath.Join(s.dir, "config.yaml"),
		"--allow-no-auth", "start")
	s.runs++
	log, err := os.Create(filepath.Join(s.dir, fmt.Sprintf("log.%d", s.runs)))
	if err != nil {
		return err
	}
	defer log.Close()
	s.process.Stdout, s.process.Stderr, s.process.Dir = log, log, s.dir
	in, out, err := os.Pipe() // a StdinPipe would be closed by Wait
	if err != nil {
		return err
	}
	defer in.Close()
	s.process.Stdin, s.stdin = in, out
	if err := s.process.Start(); err != nil {
		return errors.Join(err, out.Close())
	}
	ended := make(chan struct{})
	s.ended = ended
	go func() {
		_ = s.process.Wait() // which says how it ended
		close(ended)
	}()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		conn, err := net.Dial("tcp", s.Address())
		if err == nil {
			return conn.Close()
		}
		select {
		case <-tick.C:
		case <-ended:
			return fmt.Errorf("the server does not start:\n%s", s.Log())
		}
	}
}

// Log returns the end of the log of the present process.
func (s *Server) Log() string {
	text, _ := os.ReadFile(filepath.Join(s.dir, fmt.Sprintf("log.%d", s.runs)))
	return strings.ToValidUTF8(string(text[max(0, len(text)-8000):]), "")
}

// Ended returns a channel that is closed when the present process has ended.
func (s *Server) Ended() <-chan struct{} { return s.ended }

// Kill ends the process by SIGKILL.
func (s *Server) Kill() error {
	err := s.process.Process.Kill()
	<-s.ended
	// If the process that waits for the line is gone, there is nothing to tell.
	_, _ = s.stdin.Write([]byte("\n"))
	return errors.Join(err, s.stdin.Close())
}

// Stop ends both servers and removes their data.
func (s *Server) Stop() (err error) {
	if s.ended != nil {
		select {
		case <-s.ended:
		default:
			err = s.Kill()
		}
	}
	return errors.Join(err, s.Database.Stop(), os.RemoveAll(s.dir))
}

// The metrics and the HTTP API of the server are off.
const configText = `
log: {stdout: true, level: warn}
persistence:
  defaultStore: default
  visibilityStore: visibility
  numHistoryShards: 4
  datastores:
    default:
      sql: &sql
        pluginName: postgres12_pgx
        databaseName: temporal
        connectAddr: localhost:5432
        connectProtocol: tcp
        connectAttributes: {host: "{{.Socket}}"}
        user: postgres
        password: none
        maxConns: 20
        maxIdleConns: 20
    visibility:
      sql:
        <<: *sql
        databaseName: temporal_visibility
        maxConns: 4
        maxIdleConns: 4
global:
  membership: {maxJoinDuration: 30s, broadcastAddress: 127.0.0.1}
services:
  frontend: {rpc: {grpcPort: {{.Frontend}}, membershipPort: {{.FrontendRing}}, bindOnLocalHost: true}}
  matching: {rpc: {grpcPort: {{.Matching}}, membershipPort: {{.MatchingRing}}, bindOnLocalHost: true}}
  history: {rpc: {grpcPort: {{.History}}, membershipPort: {{.HistoryRing}}, bindOnLocalHost: true}}
  worker: {rpc: {grpcPort: {{.Worker}}, membershipPort: {{.WorkerRing}}, bindOnLocalHost: true}}
clusterMetadata:
  enableGlobalNamespace: false
  failoverVersionIncrement: 10
  masterClusterName: active
  currentClusterName: active
  clusterInformation:
    active: {enabled: true, initialFailoverVersion: 1, rpcName: frontend, rpcAddress: "127.0.0.1:{{.Frontend}}"}
dcRedirectionPolicy: {policy: noop}
archival:
  history: {state: disabled}
  visibility: {state: disabled}
namespaceDefaults:
  archival:
    history: {state: disabled}
    visibility: {state: disabled}
dynamicConfigClient: {filepath: "{{.Dynamic}}", pollInterval: 60s}
`

const dynamicText = `
matching.enableFairness: [{value: true}]
history.transferProcessorMaxPollRPS: [{value: {{.Poll}}}]
history.timerProcessorMaxPollRPS: [{value: {{.Poll}}}]
`
