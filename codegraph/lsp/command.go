package lsp

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/codegraph/lint"
	"github.com/aycoder/aycoder/diff"
	"github.com/aycoder/aycoder/edit"
	"github.com/aycoder/aycoder/internal/late"
	"github.com/aycoder/aycoder/internal/rootpath"
	"github.com/aycoder/aycoder/internal/runes"
	"github.com/aycoder/aycoder/internal/view"
	"github.com/aycoder/aycoder/tools"
	"github.com/aycoder/aycoder/workspace"
)

const (
	maxSaid   = 1000     // files whose output is remembered
	maxOutput = 64 << 10 // bytes that are read of the output of a check
	maxFound  = 8 << 20  // and of one that prints findings, whose output must be whole
	maxDiff   = 16 << 10 // bytes of the diffs that formatting makes
)

// Command is a command that runs after an edit of certain files, in the directory of the workspace. The
// host configures it, so nobody is asked for approval.
type Command struct {
	// Files is a pattern for the files, such as "*.go". A pattern without a slash applies to the name of a file.
	Files string
	// Script is the text for the shell. "{file}" stands for the path of the edited file, which is quoted.
	//
	// If the exit code of a check is not 0, the model is shown the lines of the output that the same check did
	// not print after the last edit of the file. For a program that always exits with 0, negate a filter:
	//
	//	! gofmt -l {file} | grep .
	Script string
	// Format says that the command prints the formatted text of the file, and exits with 0. The text then replaces
	// that of the file, merged with what the user has changed meanwhile, and the model is shown the difference. The
	// script must not change the file itself.
	Format bool
	// Findings is the form of what a checker prints, for one that package lint can read. The model is then shown the
	// findings in the edited files that were not there before, in one list with the errors of language servers.
	// "{dir}" in the script stands for the directory of the file. A script without {file} runs once for an edit of
	// several files, as one with {dir} does for those of a directory. Nothing that the program writes to its standard
	// error is read, but for [lint.GoVet] and [lint.GoFix].
	//
	// To know what was there before, the script also runs before an edit that a tool has planned, for at most half of
	// the time of [WithWait]. Where nothing is known of a file, findings in the lines that the edit has written count
	// as new. A script that fails, takes too long or prints something else says nothing.
	Findings lint.Format
	// RunsCode says that the script runs code of the workspace, such as a configuration that is a program: see
	// [WithPermission].
	RunsCode bool
}

// KnownCommand returns the command of a checker that this package knows by its name: "go vet", "go fix" (which is only
// asked what it would change), "staticcheck", "golangci-lint" from version 2.1, "eslint", "ruff", "clippy" or "tsc".
// "node_modules/.bin/eslint" and "node_modules/.bin/tsc" are those of the workspace. A program that is not installed says
// nothing. The caller may change the result.
//
// Clippy runs the build scripts of the project, ESLint its configuration, golangci-lint the plug-ins that its
// configuration names, and a program in node_modules is code of the project itself. They have RunsCode, as tsc has,
// and may run only where such code may.
func KnownCommand(name string) (Command, bool) {
	const goFiles, jsFiles = "*.go", "*.{js,jsx,mjs,cjs,ts,tsx,mts,cts}"
	program, ofProject := strings.CutPrefix(name, "node_modules/.bin/")
	switch f := lint.Format(program); {
	case f == lint.ESLint:
		return Command{Files: jsFiles, Script: name + " --format json {file}", Findings: f, RunsCode: true}, true
	case f == lint.TSC: // which keeps what it knows in a file of the project, unless it is told not to
		return Command{Files: "*.{ts,tsx,mts,cts}", Script: name + " --noEmit --composite false --incremental false --pretty false", Findings: f, RunsCode: true}, true
	case ofProject:
		return Command{}, false
	case f == lint.GoVet:
		return Command{Files: goFiles, Script: "go -C {dir} vet -json .", Findings: f}, true
	case f == lint.GoFix:
		return Command{Files: goFiles, Script: "go -C {dir} fix -diff .", Findings: f}, true
	case f == lint.Staticcheck: // without the flag, go list runs git, whose configuration in .git can name programs
		return Command{Files: goFiles, Script: `cd {dir} && GOFLAGS="$(go env GOFLAGS) -buildvcs=false" staticcheck -f json .`, Findings: f}, true
	case f == lint.GolangciLint:
		return Command{Files: goFiles, Script: "cd {dir} && golangci-lint run --fix=false --output.json.path stdout --show-stats=false --path-mode abs .",
			Findings: f, RunsCode: true}, true
	case f == lint.Ruff: // the configuration of a project can ask for fixes, and for a cache anywhere
		return Command{Files: "*.{py,pyi}", Script: "ruff check --no-fix --no-fix-only --no-cache --output-format json {file}", Findings: f}, true
	case f == lint.Clippy:
		return Command{Files: "*.rs", Script: "cd {dir} && cargo clippy --quiet --message-format json", Findings: f, RunsCode: true}, true
	}
	return Command{}, false
}

// WithPermission sets a function that is asked right before a command with RunsCode runs or a server starts, with the text for
// the shell. If it returns false, that does not happen this time: the command says nothing, and questions to the server are
// errors. For a server, cmd has only RunsCode and, as Script, the name of the program. The function may be called by several
// goroutines at the same time. Default: all commands and servers run, since the host has named them.
func WithPermission(may func(ctx context.Context, cmd Command, script string) bool) Option {
	return func(c *Client) error {
		if c.may = may; may == nil {
			return &aycoder.ConfigError{Option: "WithPermission", Err: errors.New("is nil")}
		}
		return nil
	}
}

// WithCommand adds a command. Commands that format run first, one after the other, and the others in parallel. All
// of them and the servers share the time of [WithWait], after which a command is killed. Default: none.
func WithCommand(cmd Command) Option {
	return func(c *Client) error {
		if cmd.Files == "" || strings.TrimSpace(cmd.Script) == "" {
			return &aycoder.ConfigError{Option: "WithCommand", Err: errors.New("it has no pattern or no script")}
		}
		if cmd.Findings != "" && (cmd.Format || !slices.Contains(lint.Formats(), cmd.Findings)) {
			return &aycoder.ConfigError{Option: "WithCommand", Err: fmt.Errorf("it formats, or %q is no format of findings", cmd.Findings)}
		}
		c.commands = append(c.commands, cmd)
		return nil
	}
}

// name is the command as people read it.
func (cmd *Command) name() string { return runes.Shorten(strings.TrimSpace(cmd.Script), 60) }

// run runs a command for a file. It returns false if the command could not be run or was cut off.
func (c *Client) run(ctx context.Context, cmd Command, file string) (out string, code int, ok bool) {
	dir := c.files.Dir()
	if root, _ := rootpath.Cut(file); root != "" {
		dir, file = c.rootOf(file)
	}
	script := cmd.scriptOf(file)
	if cmd.RunsCode && c.may != nil && !c.may(ctx, cmd, script) {
		return "", 0, false
	}
	b := &capped{max: maxOutput}
	if cmd.Format {
		script, b.max = "{ "+script+"\n} 2>/dev/null", maxText
	}
	if cmd.Findings != "" {
		b.max = maxFound
	}
	settings := []string{"TERM=dumb", "NO_COLOR=1"}
	environ := c.environ
	if r, remote := c.exec.(tools.RemoteExec); remote {
		environ = r.Environ()
	}
	if cmd.Findings != "" {
		settings = append(settings, "GOPROXY=off", "GONOPROXY=none", "CDPATH=") // a check downloads no modules and no toolchain
		if !cmd.RunsCode {
			environ = outside(environ, dir)
		}
	}
	res, err := c.exec.Run(ctx, &tools.ExecCommand{Script: script, Root: dir, Dir: dir, Output: b,
		Env: slices.Concat(environ, settings)})
	if err != nil || ctx.Err() != nil || b.cut && (cmd.Format || cmd.Findings != "") {
		return "", 0, false
	}
	return b.String(), res.Code, true
}

// outside returns an environment in which PATH has no relative directory, such as ".", and none of a workspace, such as its
// node_modules/.bin: programs there are code of the workspace.
func outside(environ []string, workspace string) []string {
	list := slices.Clone(environ)
	for i, v := range list {
		name, dirs, _ := strings.Cut(v, "=")
		if !strings.EqualFold(name, "PATH") {
			continue
		}
		kept := slices.DeleteFunc(filepath.SplitList(dirs), func(dir string) bool {
			rel, err := filepath.Rel(workspace, dir)
			return !filepath.IsAbs(dir) || err == nil && filepath.IsLocal(rel)
		})
		if len(kept) == 0 {
			kept = []string{os.DevNull} // an empty PATH would be the current directory
		}
		list[i] = name + "=" + strings.Join(kept, string(filepath.ListSeparator))
	}
	return list
}

// quote returns a word for the shell.
func quote(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }

// scriptOf returns the script for a file.
func (cmd *Command) scriptOf(file string) string {
	quoted := func(name string) string {
		if strings.HasPrefix(name, "-") { // not an option
			name = "./" + name
		}
		return quote(name)
	}
	// The order is that of the script: the name of a file is never searched for what stands for another.
	script := strings.NewReplacer("{file}", quoted(file), "{dir}", quoted(path.Dir(file))).Replace(cmd.Script)
	if cmd.Findings != "" && cmd.Findings != lint.GoVet && cmd.Findings != lint.GoFix {
		script = "{ " + script + "\n} 2>/dev/null"
	}
	return script
}

// capped keeps the beginning of what is written to it.
type capped struct {
	bytes.Buffer
	max int
	cut bool
}

func (c *capped) Write(p []byte) (int, error) {
	room := min(len(p), c.max-c.Len())
	c.cut = c.cut || room < len(p)
	c.Buffer.Write(p[:room])
	return len(p), nil
}

// format runs the commands that format, and returns a note for each file that they have changed.
func (c *Client) format(ctx context.Context, inv *aycoder.Invocation, r *aycoder.ToolResult) (notes []string) {
	for _, cmd := range c.commands {
		if !cmd.Format {
			continue
		}
		for _, ch := range changesOf(r.Changes) {
			if !ch.is || !matches(cmd.Files, ch.path) {
				continue
			}
			out, code, ok := c.run(ctx, cmd, ch.path)
			if !ok || code != 0 || out == "" || out == ch.after {
				continue
			}
			if note := c.reformat(ctx, inv, r, ch, out); note != "" {
				notes = append(notes, "formatted by "+cmd.name()+":\n"+note)
			}
		}
	}
	return notes
}

// reformat writes a formatted text, and returns the difference. A file that cannot be written stays as it is.
func (c *Client) reformat(
	ctx context.Context, inv *aycoder.Invocation, r *aycoder.ToolResult, ch change, text string,
) string {
	plan, err := edit.NewPlan(edit.File{Path: ch.path, Kind: edit.Change, Base: ch.after, Proposed: text})
	if err != nil {
		return ""
	}
	ctx = workspace.WithCall(ctx, inv)
	res, err := c.files.Apply(ctx, plan)
	if err != nil || !res.Files[0].Written {
		return ""
	}
	f := &res.Files[0]
	d := diff.Compare(view.Bytes(ch.after), view.Bytes(text), diff.WithNames(ch.path, ch.path))
	shown := d.Brief(maxDiff / len(r.Changes.Files))
	if f.Outcome == edit.OutcomeApplied {
		c.learn(ctx, ch, text)
	} else {
		shown += res.ModelText()
	}
	r.Changes = joined(r.Changes, f)
	return shown
}

// learn records that the model has been shown the formatted text, if it has been shown the text before.
func (c *Client) learn(ctx context.Context, ch change, text string) {
	seen := c.files.Seen().For(ctx)
	now := seen.SeenFiles // with the edit, of which the model has not read yet
	sum := sha256.Sum256(view.Bytes(ch.after))
	switch {
	case now.Hash(ch.path) == hex.EncodeToString(sum[:]):
		seen.After(ch.after).Add(ch.path, text)
	case slices.Contains(now.Contents(ch.path), ch.after):
		seen.After(ch.after).AddPart(ch.path, text)
	}
}

// joined returns the changes of an edit with those of a format that followed.
func joined(res *edit.Result, f *edit.FileResult) *edit.Result {
	files := slices.Clone(res.Files)
	for i := range files {
		if files[i].Path != f.Path {
			continue
		}
		files[i].Content = f.Content
		// If the user has changed the file between, one undo of both would take that back, too.
		if f.Outcome == edit.OutcomeApplied && f.Undo != nil && files[i].Undo != nil {
			undo := *files[i].Undo
			undo.Base = f.Undo.Base
			files[i].Undo = &undo
		}
	}
	return &edit.Result{Files: files}
}

// check runs the other commands, and returns a note for each that has something to say.
func (c *Client) check(ctx context.Context, changes []change) []string {
	var wg sync.WaitGroup
	reports := make([][]string, len(c.commands))
	for i, cmd := range c.commands {
		if cmd.Format || cmd.Findings != "" {
			continue
		}
		wg.Go(func() {
			said := 0
			for _, ch := range changes {
				if !ch.is || !matches(cmd.Files, ch.path) {
					continue
				}
				if said >= maxShown { // of each command, as of a server
					reports[i] = append(reports[i], "(other files were not checked)")
					break
				}
				if out, code, ok := c.run(ctx, cmd, ch.path); ok {
					note := c.report(cmd, ch.path, out, code)
					reports[i], said = append(reports[i], note), said+runes.Lines(note)
				}
			}
		})
	}
	wg.Wait()
	return slices.DeleteFunc(slices.Concat(reports...), func(note string) bool { return note == "" })
}

// number matches what differs between two runs of a check although it says the same.
var number = late.Regexp(`[0-9]+`)

// report returns what a check says that it did not say the last time, or "".
func (c *Client) report(cmd Command, file, out string, code int) string {
	lines := map[string]bool{}
	c.mu.Lock()
	defer c.mu.Unlock()
	key := cmd.Script + "\x00" + file
	before, known := c.said[key]
	if len(c.said) >= maxSaid && !known {
		clear(c.said)
	}
	c.said[key] = lines
	if code == 0 {
		return ""
	}
	var news []string
	for line := range strings.Lines(runes.Clean(out)) {
		line = strings.TrimRight(line, " \r\n")
		same := number().ReplaceAllString(line, "0")
		lines[same] = true
		if line != "" && !before[same] {
			news = append(news, runes.Shorten(line, maxErrorText))
		}
	}
	if len(news) == 0 {
		return ""
	}
	if more := len(news) - maxShown; more > 0 {
		news = append(news[:maxShown], fmt.Sprintf("(%d more lines are not shown)", more))
	}
	head := "written; " + cmd.name() + " reports:"
	if known {
		head = "written; new errors of " + cmd.name() + ":"
	}
	return head + "\n" + strings.Join(news, "\n")
}
