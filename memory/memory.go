// Package memory keeps what a model has learned, in files that people read and edit: lessons, which stand in
// every request, and notes, which the model looks up.
//
//	mem, err := memory.New(ws)
//	more, err := mem.Tools()
//	…
//	agent, err := aycoder.New(model, aycoder.WithTools(append(coding, more...)...),
//		aycoder.WithContextMiddleware(todos.Remind, mem.Remind))
//
// # Lessons
//
// A [Lesson] says what goes wrong (PATTERN) and what to do instead (RULE), and perhaps where (CONTEXT) and why
// (INSIGHT). The lessons of a project are in the file .aycoder/lessons.md, which belongs to the repository, and
// those of the user in lessons.md in a directory that [WithUser] gives. A lesson is an item of a list:
//
//   - [ ] PATTERN: generated files are edited, and the next build overwrites them
//     RULE: edit the template in api/, then run make generate
//     CONTEXT: files that end in .gen.go
//     INSIGHT: the header of each file names its template
//
// The item "- [x]" is closed: it stays in the file, but not in requests. Other text in the file is for people.
// [Memory.Remind] adds the open lessons to the tail of each request, read anew each time, so that they never
// become a part of the history, and hold after a compaction and in the next session.
//
// # Notes
//
// A note is a file of Markdown in the directory .aycoder/memory of the project, or memory of the user. The
// tools remember, recall_notes and forget work on notes.
//
// # Rights
//
// Both directories instruct agents, so nobody changes them by accident: the workspace refuses each change to
// them that was not approved (see [workspace.WithApproved]). The tools change only the files of the project,
// and propose a plan, which the user sees and which is merged with what the user changes meanwhile. They run
// unasked if an allow rule names the tool, and in the mode full-auto of package policy. Text of a project is
// text from others: a host that works on foreign code asks its user before it uses a Memory.
package memory

import (
	"context"
	"errors"
	"io/fs"
	"path"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/option"
	"github.com/aycoder/aycoder/tools"
	"github.com/aycoder/aycoder/workspace"
)

const (
	maxFile    = 256 << 10 // bytes that are read of a file
	maxContext = 4 << 10   // bytes of the lessons in a request
	projectDir = ".aycoder"
	lessonFile = "lessons.md"
	noteDir    = "memory"
)

// Memory is the memory of one workspace. It holds no copy of the files, and is safe for concurrent use.
type Memory struct {
	dirs    []directory // the project's first
	context int
}

// A directory holds a file of lessons and a directory of notes.
type directory struct {
	files  tools.FS
	path   string
	source Source
}

// Source says whose a lesson is.
type Source string

const (
	// Project is the source of lessons in the file .aycoder/lessons.md of the workspace.
	Project Source = "project"
	// User is the source of lessons in the directory of [WithUser].
	User Source = "user"
)

// Option configures a [Memory] in [New].
type Option func(*Memory) error

// WithUser adds the user's own lessons and notes: lessons.md and memory/ in the directory of files, such as a
// workspace that was opened on the user's configuration directory. They are read only. Default: none.
func WithUser(files tools.FS) Option {
	return func(m *Memory) error {
		if files == nil {
			return &aycoder.ConfigError{Option: "WithUser", Err: errors.New("files is nil")}
		}
		m.dirs = append(m.dirs[:1:1], directory{files, ".", User})
		return nil
	}
}

// WithMaxContext sets how many bytes of lessons a request may have. Those that were added last are chosen, the
// project's before the user's. Default: 4,096.
func WithMaxContext(bytes int) Option {
	return func(m *Memory) error {
		if bytes <= 0 {
			return &aycoder.ConfigError{Option: "WithMaxContext", Err: errors.New("must be positive")}
		}
		m.context = bytes
		return nil
	}
}

// New returns the memory of a workspace. Nothing is read yet. With nil and [WithUser], it is that of the user alone, such
// as for a project whose texts nobody trusts: then no tool writes.
func New(ws tools.FS, opts ...Option) (*Memory, error) {
	m := &Memory{dirs: []directory{{ws, projectDir, Project}}, context: maxContext}
	err := option.Apply(m, opts)
	if ws == nil {
		m.dirs = m.dirs[1:]
	}
	if len(m.dirs) == 0 {
		err = errors.Join(&aycoder.ConfigError{Option: "ws", Err: errors.New("is nil")}, err)
	}
	return m, err
}

// project is where the tools write, or the user directory if there is no project.
func (m *Memory) project() directory { return m.dirs[0] }

// read returns the content of a file, or "" if there is none.
func (d directory) read(ctx context.Context, name string) (string, error) {
	files := d.files
	if remote, ok := files.(tools.RemoteFS); ok {
		files = remote.Within(ctx)
	}
	name = path.Join(d.path, name)
	f, err := files.Open(name)
	if isNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := readBounded(f)
	if err != nil {
		return "", &workspace.Error{Op: "read", Path: name, Kind: workspace.KindTooLarge, Err: err}
	}
	return text, nil
}

func isNotFound(err error) bool {
	e, ok := errors.AsType[*workspace.Error](err)
	return ok && (e.Kind == workspace.KindNotFound || e.Kind == workspace.KindNotDirectory) || errors.Is(err, fs.ErrNotExist)
}
