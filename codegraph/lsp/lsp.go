package lsp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/glob"
	"github.com/aycoder/aycoder/internal/option"
	"github.com/aycoder/aycoder/internal/rootpath"
	"github.com/aycoder/aycoder/tools"
	"github.com/aycoder/aycoder/workspace"
)

// Server says how to start a language server, and for which files.
type Server struct {
	// Command is the program, found in PATH or by its path, and its arguments. It speaks the protocol on its
	// standard input and output.
	Command []string
	// Languages has the identifier of the language for each extension of the server's files, such as
	// ".go": "go".
	Languages map[string]string
	// Watch are patterns for other files whose changes the server is told, such as "go.mod". A pattern without a
	// slash applies to the name of the file.
	Watch []string
	// Settings is a JSON object with the settings of the server. It is sent as the initialization options, and as the
	// answer when the server asks for its configuration, of which sections are objects in it. Default: none.
	Settings json.RawMessage
	// Reopen closes a file and opens it again for each new text. Some servers need that: they publish no errors for a text
	// without errors if the one before had none either. They publish when a file is closed, and do not say of which version.
	Reopen bool
	// Env is added to the environment of the server, in the form "NAME=value". Apart from that, the server
	// gets the same variables as the commands of package tools, without the host's secrets.
	Env []string
	// Memory is how many bytes of memory the server may take with its children, on Linux. A negative value means
	// no limit. Default: a quarter of the memory of the machine, but 2 GiB where that is at most three quarters.
	Memory int64
}

// Known returns the configuration of a server that this package knows by the name of its program: "gopls",
// "pyright-langserver", "typescript-language-server" or "rust-analyzer". The caller may change the result.
func Known(name string) (Server, bool) {
	switch name {
	case "gopls":
		// Without the delay, gopls publishes once, when all packages are checked.
		return Server{Command: []string{name}, Languages: map[string]string{".go": "go"},
			Watch:    []string{"go.mod", "go.sum", "go.work"},
			Settings: json.RawMessage(`{"diagnosticsDelay":"0s","staticcheck":false}`)}, true
	case "pyright-langserver":
		return Server{Command: []string{name, "--stdio"}, Languages: map[string]string{".py": "python", ".pyi": "python"},
			Watch:    []string{"pyrightconfig.json", "pyproject.toml"},
			Settings: json.RawMessage(`{"python":{"analysis":{"diagnosticMode":"openFilesOnly"}}}`)}, true
	case "typescript-language-server":
		return Server{Command: []string{name, "--stdio"}, Languages: map[string]string{
			".ts": "typescript", ".mts": "typescript", ".cts": "typescript", ".tsx": "typescriptreact",
			".js": "javascript", ".mjs": "javascript", ".cjs": "javascript", ".jsx": "javascriptreact",
		}, Watch: []string{"package.json", "tsconfig*.json", "jsconfig.json"},
			// While a project is loaded, the server would answer from the open files alone.
			Settings: json.RawMessage(`{"tsserver":{"useSyntaxServer":"never"}}`), Reopen: true}, true
	case "rust-analyzer":
		return Server{Command: []string{name}, Languages: map[string]string{".rs": "rust"},
			Watch: []string{"Cargo.toml", "Cargo.lock"}}, true
	}
	return Server{}, false
}

// watches reports whether changes of a file are told to the server.
func (s *Server) watches(name string) bool {
	return s.Languages[path.Ext(name)] != "" ||
		slices.ContainsFunc(s.Watch, func(pattern string) bool { return matches(pattern, name) })
}

// matches applies a pattern without a slash to the base name.
func matches(pattern, name string) bool {
	if path.Base(pattern) == pattern {
		name = path.Base(name)
	}
	return glob.Match(pattern, name)
}

// Option configures a [Client].
type Option func(*Client) error

// WithServer adds a language server. If several servers know a language, all of them report errors, and the
// first one answers questions. Default: none.
func WithServer(s Server) Option {
	return func(c *Client) error {
		if len(s.Command) == 0 || s.Command[0] == "" || len(s.Languages) == 0 {
			return &aycoder.ConfigError{Option: "WithServer", Err: errors.New("it has no command or no languages")}
		}
		if len(s.Settings) > 0 && !json.Valid(s.Settings) {
			return &aycoder.ConfigError{Option: "WithServer", Err: errors.New("settings are not valid JSON")}
		}
		s.Command, s.Env = slices.Clone(s.Command), slices.Clone(s.Env)
		c.servers = append(c.servers, &server{Server: s, client: c, turn: make(chan struct{}, 1)})
		return nil
	}
}

// WithWait sets how long an edit may wait for its errors, in all. Default: 3 s.
func WithWait(d time.Duration) Option {
	return func(c *Client) error {
		if c.wait = d; d <= 0 {
			return &aycoder.ConfigError{Option: "WithWait", Err: fmt.Errorf("%v is not positive", d)}
		}
		return nil
	}
}

// WithStart makes start start the servers, in place of [exec.Cmd.Start]: in a sandbox, see [tools.LocalStart]. ctx is for the
// start alone. Default: servers have the rights of this process.
func WithStart(start func(ctx context.Context, cmd *exec.Cmd) error) Option {
	return func(c *Client) error {
		if c.start = start; start == nil {
			return &aycoder.ConfigError{Option: "WithStart", Err: errors.New("is nil")}
		}
		return nil
	}
}

// WithExec makes e run the commands of [WithCommand]. Default: [tools.LocalExec].
func WithExec(e tools.Exec) Option {
	return func(c *Client) error {
		if c.exec = e; e == nil {
			return &aycoder.ConfigError{Option: "WithExec", Err: errors.New("is nil")}
		}
		return nil
	}
}

// Client asks the language servers of a workspace. It starts a server when it is first needed. Its methods
// are safe for concurrent use; each server works on one question at a time.
type Client struct {
	files    tools.FS
	root     string // the directory of files, without symbolic links
	servers  []*server
	commands []Command
	exec     tools.Exec
	start    func(context.Context, *exec.Cmd) error
	environ  []string
	wait     time.Duration
	may      func(context.Context, Command, string) bool // nil: all may run

	mu     sync.Mutex
	closed bool
	said   map[string]map[string]bool // what a command has said about a file: see commands
	known  map[string]*report         // what a checker has found in a file when it could look at all of it
}

// New returns a client for the files of a workspace. Close it after use. Language servers run on this machine,
// whatever runs the commands of the tools: a workspace on another machine can have only commands.
func New(files tools.FS, opts ...Option) (*Client, error) {
	c := &Client{files: files, wait: 3 * time.Second, start: func(_ context.Context, cmd *exec.Cmd) error { return cmd.Start() },
		said: map[string]map[string]bool{}, known: map[string]*report{}}
	if err := option.Apply(c, opts); err != nil {
		return nil, err
	}
	if _, remote := files.(tools.RemoteFS); remote && len(c.servers) > 0 {
		return nil, &aycoder.ConfigError{Option: "WithServer", Err: errors.New("the workspace is on another machine")}
	}
	local, err := tools.LocalExec()
	if err != nil {
		return nil, err
	}
	if r, ok := local.(tools.RemoteExec); ok {
		c.environ = r.Environ()
	}
	c.exec = cmp.Or(c.exec, local)
	c.root = files.Dir()
	if root, err := filepath.EvalSymlinks(c.root); err == nil {
		c.root = root
	}
	return c, nil
}

// Close ends all servers with what they have started, and waits until they are gone. Calls that wait for a
// server return an error. Close always returns nil.
func (c *Client) Close() error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	var wg sync.WaitGroup
	for _, s := range c.servers {
		wg.Go(s.close)
	}
	wg.Wait()
	return nil
}

// Errors of a [Client]. They are wrapped in an [Error].
var (
	// ErrNoServer means that no server is configured for the file.
	ErrNoServer = errors.New("there is no language server for this file")
	// ErrGone means that the server has ended more often than it is started again, or that the client is closed.
	ErrGone = errors.New("the language server is gone")
)

// Error is the error of a language server. It wraps the cause, which may be [ErrNoServer], [ErrGone], a
// [*ResponseError], or the cause of a context.
type Error struct {
	// Server is the name of the program, or "" if there is none.
	Server string
	// Op says what was being done: "start", "definition", "references", "rename" or "open".
	Op string
	// Output is the end of what the server has written to its standard error, at most 2 KiB, if it could
	// not be started or has ended.
	Output string
	Err    error
}

// Error implements error.
func (e *Error) Error() string {
	text := e.Op + ": " + e.Err.Error()
	if e.Server != "" {
		text = e.Server + ": " + text
	}
	if e.Output != "" {
		text += "; it wrote: " + e.Output
	}
	return text
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// serverOf returns the first server that knows a file.
func (c *Client) serverOf(name string) (*server, error) {
	for _, s := range c.servers {
		if s.Languages[path.Ext(name)] != "" {
			return s, nil
		}
	}
	return nil, &Error{Op: "open", Err: ErrNoServer}
}

// rootOf returns the directory of the workspace that a file is in, and its path in there.
func (c *Client) rootOf(name string) (dir, rest string) {
	of, rest := rootpath.Cut(name)
	for _, r := range c.more() {
		if r.Name == of {
			return r.Dir, rest
		}
	}
	return c.root, name
}

// more returns the further directories of the workspace.
func (c *Client) more() []workspace.Root {
	if r, ok := c.files.(tools.RootsFS); ok {
		return r.Roots()[1:]
	}
	return nil
}

// relative returns the path of a file within the workspace. It returns false if the file is elsewhere.
func (c *Client) relative(abs string) (string, bool) {
	for _, r := range c.more() {
		if rel, err := filepath.Rel(r.Dir, abs); abs != "" && err == nil && filepath.IsLocal(rel) {
			return rootpath.Join(r.Name, filepath.ToSlash(rel)), true
		}
	}
	for _, root := range []string{c.root, c.files.Dir()} {
		if rel, err := filepath.Rel(root, abs); abs != "" && err == nil && filepath.IsLocal(rel) {
			return filepath.ToSlash(rel), true
		}
	}
	return "", false
}

// withTurn calls f while no other call uses the server.
func (s *server) withTurn(ctx context.Context, f func() error) error {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
		return f()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
