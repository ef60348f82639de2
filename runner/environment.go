package runner

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"path"
	"slices"
	"sync"
	"time"

	"github.com/aycoder/aycoder/edit"
	"github.com/aycoder/aycoder/harness/project"
	"github.com/aycoder/aycoder/remote"
	"github.com/aycoder/aycoder/tools"
	"github.com/aycoder/aycoder/workspace"
)

// An Environment is the workspace of a runner, for one runtime: its files and what runs commands beside them. When the
// connection is cut, each call that was under way returns the error of [remote.Client], by which one that may have
// changed something is "interrupted". No call is sent twice. Later calls use the next connection, for which they wait
// as [WithWait] says. A call belongs to one connection as a whole: a walk that began before a cut does not go on after
// it. It is safe for concurrent use, and needs no Close.
type Environment struct {
	hub  *Hub
	name string
	seen workspace.SeenFiles

	mu     sync.Mutex
	last   *connection // that fits the pinned manifest
	pinned *Manifest
	proc   string // the instance of the runner as it was pinned
}

var (
	_ tools.RemoteFS   = (*Environment)(nil)
	_ tools.RemoteExec = (*Environment)(nil)
)

// Environment returns the workspace of a runner, and pins its manifest. If the runner is not connected, Environment waits
// for it as [WithWait] says. The error is then an [*Error] of [KindOffline].
func (h *Hub) Environment(ctx context.Context, name string) (*Environment, error) {
	c, err := h.connected(ctx, name)
	if err != nil {
		return nil, err
	}
	return &Environment{hub: h, name: name, last: c, pinned: c.manifest, proc: c.instance}, nil
}

// Manifest returns the one that is pinned, for reading only.
func (e *Environment) Manifest() *Manifest {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.pinned
}

// changesTime bounds how long the beginning of a run, or of a turn, waits for a manifest.
const changesTime = 5 * time.Second

// Pin asks the runner for its manifest and pins it, as a run begins. It returns what has changed since it was pinned before.
// If the runner does not answer soon, the manifest of before stays pinned: the calls of the run will tell.
func (e *Environment) Pin(ctx context.Context) []string {
	now, proc, lines := e.compare(ctx)
	if now != nil {
		e.mu.Lock()
		e.pinned, e.proc = now, proc
		e.mu.Unlock()
	}
	return lines
}

// Changes asks the runner for its manifest, and returns what is not as it is pinned, in a line each.
func (e *Environment) Changes(ctx context.Context) []string {
	_, _, lines := e.compare(ctx)
	return lines
}

func (e *Environment) compare(ctx context.Context) (now *Manifest, proc string, lines []string) {
	ctx, cancel := context.WithTimeout(ctx, changesTime)
	defer cancel()
	c, err := e.fitting(ctx)
	if err == nil {
		now, err = c.ask(ctx, e.name)
	}
	if err == nil {
		err = e.Manifest().fits(e.name, now)
	}
	if refused, ok := errors.AsType[*Error](err); ok && refused.Kind == KindManifest {
		return nil, "", []string{refused.Error()}
	}
	if err != nil {
		return nil, "", nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if lines = e.pinned.changes(now); c.instance != e.proc {
		lines = append(lines, "another process has taken the place of the runner")
	}
	return now, c.instance, lines
}

// fitting returns the connection of now, if the environment can go on with it.
func (e *Environment) fitting(ctx context.Context) (*connection, error) {
	c, err := e.hub.connected(ctx, e.name)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if c != e.last {
		if err := e.pinned.fits(e.name, c.manifest); err != nil {
			return nil, err
		}
		e.last = c
	}
	return c, nil
}

// use returns the connection for a call. If there is none, that is the last one, which answers each call with the
// error that it was cut.
func (e *Environment) use(ctx context.Context) *remote.Client {
	if c, err := e.fitting(ctx); err == nil {
		return c.Client
	}
	return e.client()
}

func (e *Environment) client() *remote.Client {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.last.Client
}

// Dir implements [tools.FS]. It returns the path on the machine of the runner.
func (e *Environment) Dir() string { return e.client().Dir() }

// Rel implements [tools.FS].
func (e *Environment) Rel(name string) (string, error) { return e.client().Rel(name) }

// Seen implements [tools.FS]. The record is on this machine, and stays over all connections.
func (e *Environment) Seen() *workspace.SeenFiles { return &e.seen }

// Open implements [tools.FS].
func (e *Environment) Open(name string) (fs.File, error) {
	return e.use(context.Background()).Open(name)
}

// ReadDir implements [tools.FS].
func (e *Environment) ReadDir(ctx context.Context, name string) ([]fs.DirEntry, error) {
	return e.use(ctx).ReadDir(ctx, name)
}

// Writable returns an error if no plan can write to a file of this name: see [workspace.Workspace.Writable].
func (e *Environment) Writable(name string) error { return e.use(context.Background()).Writable(name) }

// Apply implements [tools.FS]: see [remote.Client.Apply].
func (e *Environment) Apply(ctx context.Context, plan edit.Plan, opts ...workspace.ApplyOption) (*edit.Result, error) {
	return e.use(ctx).Apply(ctx, plan, opts...)
}

// Within implements [tools.RemoteFS].
func (e *Environment) Within(ctx context.Context) tools.FS {
	return e.view(e.use(ctx).Within(ctx))
}

// Ahead implements [tools.RemoteFS].
func (e *Environment) Ahead(ctx context.Context, name string, ignored []byte) tools.FS {
	return e.view(e.use(ctx).Ahead(ctx, name, ignored))
}

// OpenFiles implements [tools.RemoteFS].
func (e *Environment) OpenFiles(ctx context.Context, names []string) iter.Seq2[fs.File, error] {
	return e.use(ctx).OpenFiles(ctx, names)
}

// Err implements [tools.RemoteFS]. After an error, the next call may find a new connection.
func (e *Environment) Err() error { return e.client().Err() }

// Environ implements [tools.RemoteExec].
func (e *Environment) Environ() []string { return e.client().Environ() }

// Run implements [tools.Exec]: see [remote.Client.Run].
func (e *Environment) Run(ctx context.Context, cmd *tools.ExecCommand) (*tools.ExecResult, error) {
	return e.use(ctx).Run(ctx, cmd)
}

// view returns the files of one call, with the record of the environment.
func (e *Environment) view(files tools.FS) tools.FS {
	return &view{files.(tools.RemoteFS), e} // as those of a Client are
}

type view struct {
	tools.RemoteFS
	e *Environment
}

func (v *view) Seen() *workspace.SeenFiles { return v.e.Seen() }

func (v *view) Within(ctx context.Context) tools.FS { return v.e.view(v.RemoteFS.Within(ctx)) }

func (v *view) Ahead(ctx context.Context, name string, ignored []byte) tools.FS {
	return v.e.view(v.RemoteFS.Ahead(ctx, name, ignored))
}

func (v *view) Writable(name string) error {
	return v.RemoteFS.(interface{ Writable(name string) error }).Writable(name)
}

// Texts returns the files from which instructions, commands, agents and skills are read. A file whose digest is not the
// one that the manifest has cannot be opened: the error is an [*Error] of [KindChanged]. A file that the manifest
// does not list is not pinned, whatever it is: the instructions of a directory further down, a new command, or a text that the
// runner has left out.
func (e *Environment) Texts() project.Files { return &texts{e} }

type texts struct{ *Environment }

// Open implements [project.Files].
func (t *texts) Open(name string) (fs.File, error) {
	f, err := t.Environment.Open(name)
	if err != nil {
		return nil, err
	}
	rel, _ := t.Rel(name)
	pinned := t.Manifest().Texts
	i := slices.IndexFunc(pinned, func(x Text) bool { return x.Path == path.Clean(rel) })
	if i < 0 {
		return f, nil
	}
	data, digest, err := wholeOf(f)
	if err == nil && digest != pinned[i].Digest {
		err = refuse(t.name, KindChanged, "%s is not as it is pinned since this run began: its SHA-256 is %q, and not %q", pinned[i], digest, pinned[i].Digest)
	}
	if err != nil {
		return nil, err
	}
	return data, nil
}
