package harness

import (
	"context"
	"strings"
	"sync"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/harness/project"
	"github.com/aycoder/aycoder/internal/part"
	"github.com/aycoder/aycoder/internal/untag"
	"github.com/aycoder/aycoder/tools"
)

// An Environment is where an agent works, apart from the program that has the model, its keys, the history and the
// approvals: the files, the shell, the instructions and skills, and further tools. It may be on another machine, such as a
// connection of package remote or a runner of package runner, and none of its fields has to know which.
type Environment struct {
	// Files are the files of the workspace, and Exec runs commands beside them. Both are required, and the runtime closes
	// none of them.
	Files tools.FS
	Exec  tools.Exec
	// System is the operating system there, as in runtime.GOOS. Default: that of this program.
	System string
	// Texts are the files from which instructions, commands, agents and skills of the project are read. Default: Files.
	Texts project.Files
	// Tools are further tools that work there.
	Tools []aycoder.Tool
	// Pin is called as each run begins: what the environment is now counts until the next one. Changes is called before each
	// turn. Both return, in a line each, what is not as it was pinned, which the user is told as a notice; of Changes, the
	// model is told, too. They must return soon. Default: nothing changes.
	Pin, Changes func(ctx context.Context) []string
}

// WithEnvironment sets where the agent works. Sessions then hold no files. Default: the directory of [New], on this machine.
func WithEnvironment(e Environment) Option {
	return func(s *setup) error {
		if s.env = e; e.Files == nil || e.Exec == nil {
			return wrong("WithEnvironment", "needs Files and Exec")
		}
		return nil
	}
}

// texts are the files with the instructions and skills of the project.
func (b *builder) texts() project.Files {
	if b.in.env.Texts != nil {
		return b.in.env.Texts
	}
	return b.Files
}

// pinned has the environment pinned as each run begins.
func (b *builder) pinned() {
	if b.in.env.Pin == nil {
		return
	}
	b.pin = func(ctx context.Context) {
		if lines := b.in.env.Pin(ctx); len(lines) > 0 {
			b.Notify("environment", "since the last run: "+strings.Join(lines, "; "))
		}
	}
}

// changed tells the model at the end of each request what has changed since the run began, and the user once.
func (b *builder) changed(next aycoder.ContextBuilder) aycoder.ContextBuilder {
	var mu sync.Mutex // agents that a run starts use the same builder
	told := ""
	return part.Tail(next, func(ctx context.Context, _ aycoder.ContextInput) string {
		text := strings.Join(b.in.env.Changes(ctx), "; ")
		mu.Lock()
		defer mu.Unlock()
		if text != told && text != "" {
			b.Notify("environment", "since the run began: "+text)
		}
		if told = text; text == "" {
			return ""
		}
		return "<environment_context>\nThe machine of the workspace is not as it was when this run began: " + untag.Text(text) +
			"\n</environment_context>\n"
	})
}
