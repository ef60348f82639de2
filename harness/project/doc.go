// Package project reads what teams keep beside their code for agents, in the forms that other agents already use:
// instructions (AGENTS.md, CLAUDE.md and others), custom commands, agents and skills.
//
// [Load] finds commands, agents and skills in .aycoder, .claude and .agents, the nearest first:
//
//	lib, err := project.Load(ctx,
//		project.Source{Files: ws},
//		project.Source{Files: user, Roots: []string{"."}, Label: "~/.config/aycoder", User: true})
//	…
//	if c := lib.Command("review"); c != nil {
//		prompt, err = c.Expand(ctx, args, project.Expansion{Files: ws, Run: underThePolicy})
//	}
//
// [ReadInstructions] reads the instructions for the system prompt. A [Keeper] adds those of a directory to the
// output of the tool that first reads a file there, and keeps them, like the texts of skills, in requests from which a
// compaction has left them out. [Init] drafts a configuration that fits a project.
//
// Nothing is read but the [Files] that a host gives. These files come with a repository, so their text is as little to
// be trusted as the rest of it: it is marked as the project's, it grants no permission, and the commands in it run
// only through a function of the host. Everything is bounded: sizes, depths, numbers. A file that is not understood
// gives a [Warning] with its line, not an error.
package project

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"

	"github.com/aycoder/aycoder/internal/ignore"
	"github.com/aycoder/aycoder/internal/runes"
	"github.com/aycoder/aycoder/workspace"
)

// Files are the files of a directory: a workspace, or the user's own directory opened as one. The methods are those
// of FS of package tools, under the same contract: no name leads out of the directory, and secrets are refused.
type Files interface {
	Rel(name string) (string, error)
	Open(name string) (fs.File, error)
	ReadDir(ctx context.Context, name string) ([]fs.DirEntry, error)
}

// Source is a directory in which to look.
type Source struct {
	// Files are the files of the directory.
	Files Files
	// Roots are the directories, relative to that of Files, that may have the subdirectories commands, agents and
	// skills. Default: .aycoder, .claude and .agents.
	Roots []string
	// Label is put before the names of files in warnings and in texts for the model, such as "~/.claude". Default:
	// none, as for the workspace.
	Label string
	// User says that the directory is the user's own, and not a part of the project.
	User bool
	// Prefix is put before the names of commands, agents and skills, with a colon. Default: none.
	Prefix string
	// Commands, Agents and Skills are further directories, or files, in which to look.
	Commands, Agents, Skills []string
}

func (s Source) roots() []string {
	if len(s.Roots) == 0 {
		return []string{".aycoder", ".claude", ".agents"}
	}
	return s.Roots
}

// dirs returns where to look for a kind: below the roots, and in further places, each once.
func (s Source) dirs(kind string, more []string) []string {
	var out []string
	for _, root := range s.roots() {
		out = append(out, path.Join(root, kind))
	}
	for _, dir := range more {
		if dir = path.Clean(dir); !slices.Contains(out, dir) {
			out = append(out, dir)
		}
	}
	return out
}

// name returns a name with the prefix.
func (s Source) name(name string) string {
	if s.Prefix == "" {
		return name
	}
	return s.Prefix + ":" + name
}

// Warning says what was not understood, or was left out, and where.
type Warning struct {
	// File is the name of the file, after the label of its source. Line is the line, counted from 1, or 0 if the
	// warning is about the file as a whole.
	File string
	Line int
	// Message says what is wrong, and what was done instead.
	Message string
}

// String returns the warning in the form "file:line: message".
func (w Warning) String() string {
	if w.Line == 0 {
		return runes.Path(w.File) + ": " + w.Message
	}
	return fmt.Sprintf("%s:%d: %s", runes.Path(w.File), w.Line, w.Message)
}

const (
	maxFile     = 256 << 10 // bytes of a file that is read
	maxWarnings = 1000
)

// warnings collects warnings, up to a number.
type warnings []Warning

func (w *warnings) add(file string, line int, format string, args ...any) {
	switch n := len(*w); {
	case n < maxWarnings:
		*w = append(*w, Warning{file, line, fmt.Sprintf(format, args...)})
	case n == maxWarnings:
		*w = append(*w, Warning{file, 0, "there are too many warnings; those of this file and others are left out"})
	}
}

var (
	errBinary   = errors.New("is binary")
	errSecret   = errors.New("files of this name are never read, since they often hold secrets")
	errTooLarge = errors.New("is larger than 256 KiB")
)

// read returns the text of a file as [plain] has it.
func (s Source) read(ctx context.Context, name string) (string, error) {
	text, whole, err := s.readStart(ctx, name, maxFile)
	if err == nil && !whole {
		return "", fmt.Errorf("read %s: %w", path.Join(s.Label, name), errTooLarge)
	}
	return text, err
}

// readBeginning returns the first bytes of a file as text, which says so if they are not all.
func (s Source) readBeginning(ctx context.Context, name string, most int64) (string, error) {
	text, whole, err := s.readStart(ctx, name, most)
	if err == nil && !whole {
		text += restLeftOut
	}
	return text, err
}

const restLeftOut = "\n[the rest of the file is left out]"

// readStart returns the first bytes of a file as text, and whether they are all.
func (s Source) readStart(ctx context.Context, name string, most int64) (text string, whole bool, err error) {
	if err := context.Cause(ctx); err != nil {
		return "", false, err
	}
	if ignore.Secret(name) || ignore.Store(name) { // a workspace refuses secrets, too, but can be told not to
		return "", false, fmt.Errorf("read %s: %w", path.Join(s.Label, name), errSecret)
	}
	f, err := s.Files.Open(name)
	if err != nil {
		return "", false, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && runes.Binary(data) {
		err = errBinary
	}
	if err != nil {
		return "", false, fmt.Errorf("read %s: %w", path.Join(s.Label, name), err)
	}
	whole = int64(len(data)) <= most
	return plain(string(data[:min(int64(len(data)), most)])), whole, nil
}

// missing reports whether the error says that there is no such file.
func missing(err error) bool {
	e, ok := errors.AsType[*workspace.Error](err)
	if !ok {
		return errors.Is(err, fs.ErrNotExist)
	}
	return e.Kind == workspace.KindNotFound || e.Kind == workspace.KindNotDirectory
}
