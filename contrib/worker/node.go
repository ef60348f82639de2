/*
Package worker is a worker and a server in one: it carries out runs of contrib/temporal, on sessions in contrib/postgres, and
serves them over HTTP. Any number of such processes share a Temporal server and a database, and each serves all sessions:

	node, err := worker.New(worker.Config{Temporal: c, Store: store, Open: open, Principal: principal})
	go http.ListenAndServe("127.0.0.1:8080", node)
	err = node.Run(ctx) // until ctx ends, such as by SIGTERM; then it drains

The program aycoder-worker beside it does this with a model of package providers; start.sh starts it with PostgreSQL and
Temporal's own server, without containers.

# API

Each request is of a tenant, whom [Config].Principal finds. The session of a tenant has an id that begins with the name.

	POST /api/prompt                             {"prompt", "session"}: starts a run, or gives a message to the one that works
	GET  /api/sessions/{session}                 what works, the questions, and the sessions of child agents
	GET  /api/sessions/{session}/events          the events of all runs of the session, as they come: see [server.Follow]
	POST /api/sessions/{session}/approvals/{call} {"decision": "allow" or "deny", "digest", "reason"}
	POST /api/sessions/{session}/steer           {"text"}: a message for the next turn
	POST /api/sessions/{session}/cancel
	GET  /metrics                                queue, lag and cost, in the form of Prometheus
	GET  /health, /ready

# Tenants

The task queue gives each tenant a fair share: workflows carry the tenant as fairness key, with the weight of [Config].Weight. The
server does that only with the setting matching.enableFairness, which is off by default; [Node.Run] says so in the log. Quotas are
those of [postgres.Store.SetQuota], which Open applies: see [postgres.Tenant]. Requests of a tenant reach no session of another one.
Files and commands are separate only if Open confines them, since a tenant answers the questions of its agents.

# End and upgrade

When the context of [Node.Run] ends, the node takes no step and no prompt any more, and waits for the steps that work, for
[Config].Drain at most. A step that goes on for longer is lost like that of a killed process: a call that only reads is made again
elsewhere, and a call that may write is reported as interrupted. Streams end at once, and clients go on with another process by
the Last-Event-ID.

Runs go on under a new version, since the history has plans and no decisions (see contrib/temporal). With [Config].Deployment,
workers are versioned: start those of the new version, make it current with "temporal worker deployment set-current-version",
and end the old ones. Runs that are pinned, by the DefaultVersioningBehavior, end with the version with which they began, whose
workers must stay until then.
*/
package worker

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	sdk "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/contrib/postgres"
	"github.com/aycoder/aycoder/contrib/temporal"
	"github.com/aycoder/aycoder/server"
)

// Config configures a [Node].
type Config struct {
	// Temporal is a client of the Temporal server, and Namespace its namespace. Default: "default".
	Temporal  client.Client
	Namespace string
	// Store has the sessions, and carries live events.
	Store *postgres.Store
	// Open opens a session for writing, with its agent: see [temporal.Config].
	Open func(ctx context.Context, tenant, session string) (*temporal.Agent, error)
	// Principal returns the tenant who sends a request, or an error for somebody unknown. The name has 1 to 30 lower case letters
	// and digits. A browser sends cookies for pages of other sites, too, so one that believes them needs an
	// [http.CrossOriginProtection] around the node.
	Principal func(r *http.Request) (string, error)
	// Weight is the share of a tenant in relation to others. Default: 1 for each.
	Weight func(tenant string) float32
	// Queue is the task queue. Default: "aycoder".
	Queue string
	// Steps is how many steps work at the same time in this process. Default: 100.
	Steps int
	// Streams is how many requests for events are answered at the same time; the status of another one is 503. Default: 1,000.
	Streams int
	// Drain is how long steps may go on when the node ends. Default: 30 s.
	Drain time.Duration
	// Deployment versions the workers. Default: none, and of its DefaultVersioningBehavior: auto-upgrade.
	Deployment worker.DeploymentOptions
	// Children, Limits and Heartbeat are those of [temporal.Config].
	Children  map[string]func(ctx context.Context, parent string, call *aycoder.CallRequest) (*aycoder.Message, error)
	Limits    func(tool string, effect aycoder.Effect) temporal.Limits
	Heartbeat time.Duration
	// Logger logs. Default: nowhere.
	Logger *slog.Logger
}

// Node is a worker and a server. Its methods are safe for concurrent use.
type Node struct {
	config   Config
	client   *temporal.Client
	steps    *temporal.Worker
	handler  http.Handler
	figures  figures
	draining atomic.Bool
	readers  chan struct{}   // has a value for each stream
	streams  context.Context // ends when the node drains
	end      context.CancelFunc
}

// New returns a node. Its server answers at once, and its worker begins with [Node.Run].
func New(c Config) (*Node, error) {
	if c.Temporal == nil || c.Store == nil || c.Open == nil || c.Principal == nil {
		return nil, errors.New("new node: Config needs Temporal, Store, Open and Principal")
	}
	if c.Steps < 0 || c.Streams < 0 || c.Drain < 0 {
		return nil, errors.New("new node: Steps, Streams and Drain must not be negative")
	}
	c.Namespace, c.Queue = cmp.Or(c.Namespace, client.DefaultNamespace), cmp.Or(c.Queue, "aycoder")
	c.Steps, c.Streams, c.Drain = cmp.Or(c.Steps, 100), cmp.Or(c.Streams, 1000), cmp.Or(c.Drain, 30*time.Second)
	if c.Deployment.UseVersioning && c.Deployment.DefaultVersioningBehavior == workflow.VersioningBehaviorUnspecified {
		c.Deployment.DefaultVersioningBehavior = workflow.VersioningBehaviorAutoUpgrade
	}
	if c.Weight == nil {
		c.Weight = func(string) float32 { return 1 }
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	n := &Node{config: c, client: &temporal.Client{Temporal: c.Temporal, Store: c.Store}, readers: make(chan struct{}, c.Streams)}
	n.figures.tenants = map[string]*spent{}
	n.streams, n.end = context.WithCancel(context.Background())
	publisher := server.NewPublisher(c.Store)
	var err error
	n.steps, err = temporal.New(temporal.Config{Store: c.Store, Children: c.Children, Limits: c.Limits, Heartbeat: c.Heartbeat,
		Open: n.open, Events: publisher.Event,
	})
	if err != nil {
		return nil, err
	}
	n.handler = n.routes()
	return n, nil
}

// open opens a session whose costs are counted.
func (n *Node) open(ctx context.Context, id string) (*temporal.Agent, error) {
	agent, err := n.config.Open(ctx, tenantOf(id), id)
	if err != nil || agent == nil || agent.Session == nil {
		return agent, err
	}
	counted := &counted{&n.figures, tenantOf(id), agent.Agent}
	if counted.next == nil {
		counted.next = agent.Session
	}
	return &temporal.Agent{Session: agent.Session, Agent: counted, Close: agent.Close}, nil
}

// ServeHTTP implements [http.Handler].
func (n *Node) ServeHTTP(w http.ResponseWriter, r *http.Request) { n.handler.ServeHTTP(w, r) }

// Run works until ctx ends, and then drains. It is called once.
func (n *Node) Run(ctx context.Context) error {
	n.config.Logger.Warn("tenants share the queue fairly only if the Temporal server has the setting matching.enableFairness, which is off by default")
	fatal := make(chan error, 1)
	w := worker.New(n.config.Temporal, n.config.Queue, worker.Options{
		MaxConcurrentActivityExecutionSize: n.config.Steps,
		WorkerStopTimeout:                  n.config.Drain,
		DeploymentOptions:                  n.config.Deployment,
		OnFatalError:                       func(err error) { fatal <- err },
		Interceptors:                       []interceptor.WorkerInterceptor{&lag{figures: &n.figures}},
	})
	n.steps.Register(w)
	if err := w.Start(); err != nil {
		return fmt.Errorf("start the worker: %w", err)
	}
	n.config.Logger.Info("the worker works", "queue", n.config.Queue)
	var failed error
	select {
	case <-ctx.Done():
	case failed = <-fatal:
	}
	n.draining.Store(true)
	n.end()
	n.config.Logger.Info("the worker drains", "limit", n.config.Drain)
	w.Stop()
	return errors.Join(failed, n.steps.Close())
}

// tenantOf returns the tenant of a session.
func tenantOf(id string) string {
	tenant, _, _ := strings.Cut(id, "-")
	return tenant
}

func checkTenant(name string) error {
	if name == "" || len(name) > 30 || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789") != "" {
		return fmt.Errorf("the name of a tenant is 1 to 30 lower case letters and digits, not %.80q", name)
	}
	return nil
}

// create makes a session of a tenant.
func (n *Node) create(ctx context.Context, tenant string) (string, error) {
	id := tenant + "-" + strings.ToLower(rand.Text())
	return id, n.client.Create(ctx, id)
}

// say gives a message to the run of a session, or starts one.
func (n *Node) say(ctx context.Context, id, text string) error {
	tenant := tenantOf(id)
	opts := client.StartWorkflowOptions{ID: id, TaskQueue: n.config.Queue,
		Priority: sdk.Priority{FairnessKey: tenant, FairnessWeight: n.config.Weight(tenant)}}
	_, err := n.client.Say(ctx, opts, temporal.Input{Session: id}, aycoder.User(text))
	return err
}
