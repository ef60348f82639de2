// Aycoder-worker carries out and serves runs of agents: see package worker.
//
//	aycoder-worker -database URL -temporal HOST:PORT -workspaces DIR -model anthropic/claude-sonnet-4-5 -tenants FILE
//
// Each line of the file of tenants has a token, the name of a tenant and, if it is not 1, its weight. Each session works in a directory
// below DIR that has its id. SIGTERM drains the process.
//
// The commands of all tenants have the rights of the process: whoever may answer the questions of an agent can read what the
// process can, such as the directories of other tenants and the address of the database. Tenants that do not trust each other
// need processes with different users and databases.
package main

import (
	"bufio"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	sdkworker "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/budget"
	"github.com/aycoder/aycoder/contrib/postgres"
	"github.com/aycoder/aycoder/contrib/temporal"
	"github.com/aycoder/aycoder/contrib/worker"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/harness/linked"
	"github.com/aycoder/aycoder/providers/script"
)

type flags struct {
	database, address, namespace, listen, queue, workspaces, model, tenants, deployment, build string
	register, pinned                                                                           bool
	steps                                                                                      int
	drain                                                                                      time.Duration
}

func main() {
	var f flags
	flag.StringVar(&f.database, "database", "", "`address` of the PostgreSQL database of the sessions")
	flag.StringVar(&f.address, "temporal", client.DefaultHostPort, "`address` of the Temporal server")
	flag.StringVar(&f.namespace, "namespace", client.DefaultNamespace, "namespace in the Temporal server")
	flag.StringVar(&f.listen, "listen", "127.0.0.1:8080", "`address` of the HTTP server")
	flag.StringVar(&f.queue, "queue", "aycoder", "task queue")
	flag.StringVar(&f.workspaces, "workspaces", "", "`directory` with a directory for each session")
	flag.StringVar(&f.model, "model", "", "provider/model, or script for one that only answers")
	flag.StringVar(&f.tenants, "tenants", "", "`file` with a token, a name and a weight in each line")
	flag.StringVar(&f.deployment, "deployment", "", "`name` of the worker deployment, to version workers")
	flag.StringVar(&f.build, "build", "", "`id` of the version of the deployment")
	flag.BoolVar(&f.pinned, "pinned", false, "runs end with the version with which they began")
	flag.BoolVar(&f.register, "register", false, "only make the namespace, in a Temporal server that is new, and end when it can be used")
	flag.IntVar(&f.steps, "steps", 100, "steps at the same time")
	flag.DurationVar(&f.drain, "drain", 30*time.Second, "time for steps at the end")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, &f, slog.New(slog.NewTextHandler(os.Stderr, nil))); err != nil {
		fmt.Fprintln(os.Stderr, "aycoder-worker:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, f *flags, logger *slog.Logger) (err error) {
	if f.register {
		return register(ctx, f, logger)
	}
	if f.database == "" || f.workspaces == "" || f.model == "" || f.tenants == "" || (f.deployment == "") != (f.build == "") {
		return errors.New("needs -database, -workspaces, -model and -tenants, and -deployment together with -build")
	}
	who, err := readTenants(f.tenants)
	if err != nil {
		return err
	}
	place, err := worker.NewPlace(f.workspaces)
	if err != nil {
		return err
	}
	store, err := postgres.Open(ctx, f.database)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	c, err := connect(ctx, f, logger)
	if err != nil {
		return err
	}
	defer c.Close()
	config := worker.Config{Temporal: c, Namespace: f.namespace, Store: store, Queue: f.queue, Steps: f.steps, Drain: f.drain, Logger: logger,
		Principal: who.principal, Weight: who.weight,
		Open: func(ctx context.Context, tenant, id string) (*temporal.Agent, error) {
			return open(ctx, f, store, place, tenant, id)
		}}
	if f.deployment != "" {
		config.Deployment = sdkworker.DeploymentOptions{UseVersioning: true,
			Version: sdkworker.WorkerDeploymentVersion{DeploymentName: f.deployment, BuildID: f.build}}
		if f.pinned {
			config.Deployment.DefaultVersioningBehavior = workflow.VersioningBehaviorPinned
		}
	}
	node, err := worker.New(config)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", f.listen)
	if err != nil {
		return err
	}
	srv := serverOf(node, l.Addr(), logger)
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	err = node.Run(ctx)
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	err = errors.Join(err, srv.Shutdown(end))
	if failed := <-served; !errors.Is(failed, http.ErrServerClosed) {
		err = errors.Join(err, failed)
	}
	return err
}

// serverOf returns the server of an address, and says where it listens. A stream is never idle.
func serverOf(h http.Handler, at net.Addr, logger *slog.Logger) *http.Server {
	logger.Info("the server listens", "address", at.String())
	if tcp, ok := at.(*net.TCPAddr); ok && !tcp.IP.IsLoopback() {
		logger.Warn("other machines can reach the server, and tokens cross the network without encryption: let a proxy with TLS stand before it")
	}
	return &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute}
}

// register makes the namespace. The server needs some seconds until it knows it.
func register(ctx context.Context, f *flags, logger *slog.Logger) error {
	c, err := connect(ctx, f, logger)
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.WorkflowService().RegisterNamespace(ctx, &workflowservice.RegisterNamespaceRequest{Namespace: f.namespace,
		WorkflowExecutionRetentionPeriod: durationpb.New(7 * 24 * time.Hour)})
	if _, exists := errors.AsType[*serviceerror.NamespaceAlreadyExists](err); exists {
		err = nil
	}
	if err == nil {
		_, err = c.DescribeTaskQueue(ctx, f.queue, enums.TASK_QUEUE_TYPE_WORKFLOW)
	}
	return err
}

// connect connects to the Temporal server.
func connect(ctx context.Context, f *flags, logger *slog.Logger) (client.Client, error) {
	return client.DialContext(ctx, client.Options{HostPort: f.address, Namespace: f.namespace, Logger: log.NewStructuredLogger(logger)})
}

// open opens a session with an agent in its workspace.
func open(ctx context.Context, f *flags, store *postgres.Store, place *worker.Place, tenant, id string) (*temporal.Agent, error) {
	pot, err := budget.New(budget.Config{Name: "tenant " + tenant, Ledger: store.Tenant(tenant)})
	if err != nil {
		return nil, err
	}
	opts := append(linked.Options(), harness.WithStore(store, id), harness.WithLoopOptions(aycoder.WithModelMiddleware(pot.Model)))
	if f.model == "script" {
		opts = append(opts, harness.WithClient(script.New(script.Say("It works.")).With(script.WithLoop(true))))
	} else {
		opts = append(opts, harness.WithModel(f.model))
	}
	rt, err := place.Open(ctx, store, id, func(dir string) (*harness.Runtime, error) { return harness.New(ctx, dir, opts...) })
	if err != nil {
		return nil, err
	}
	return &temporal.Agent{Session: rt.Session, Agent: rt.Agent, Close: rt.Close}, nil
}

// tenants are those of the file, by the hash of the token.
type tenants struct {
	names   map[[sha256.Size]byte]string
	weights map[string]float32
}

func readTenants(path string) (*tenants, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	t := &tenants{names: map[[sha256.Size]byte]string{}, weights: map[string]float32{}}
	lines := bufio.NewScanner(file)
	for n := 1; lines.Scan(); n++ {
		fields := strings.Fields(lines.Text())
		if len(fields) == 0 {
			continue
		}
		weight := 1.0
		if len(fields) == 3 {
			weight, err = strconv.ParseFloat(fields[2], 32)
		}
		if len(fields) < 2 || len(fields) > 3 || err != nil || !(weight > 0) || len(fields[0]) < 16 {
			return nil, fmt.Errorf("%s:%d: not a token of 16 characters or more, a name and a weight", path, n)
		}
		t.names[sha256.Sum256([]byte(fields[0]))], t.weights[fields[1]] = fields[1], float32(weight)
	}
	return t, lines.Err()
}

func (t *tenants) principal(r *http.Request) (string, error) {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	name := t.names[sha256.Sum256([]byte(token))]
	if !ok || name == "" {
		return "", errors.New("no such token")
	}
	return name, nil
}

func (t *tenants) weight(name string) float32 { return cmp.Or(t.weights[name], 1) }
