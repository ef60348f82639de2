package compaction

import (
	"cmp"
	"encoding/json"
	"path"
	"slices"
	"strings"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/late"
	"github.com/aycoder/aycoder/internal/patch"
	"github.com/aycoder/aycoder/internal/runes"
	"github.com/aycoder/aycoder/internal/shell"
)

// This file has the rules for calls and their outputs. The arguments of a call tell which file or
// command it is about. Its output is kept only where it cannot be had again by reading a file: lines
// that are errors, files that a command wrote, answers of the user, and figures. All of these are
// quotes of the tool: nothing in an output becomes a sentence of the user, except for the answers that
// the tool ask_user returns.

// Bounds for one output.
const (
	maxErrors  = 8        // lines
	maxFigures = 4        // lines
	maxScan    = 64 << 10 // bytes
)

// arguments are the arguments by which tools, also those of other programs, name their subject.
type arguments struct {
	Path     string `json:"path"`
	FilePath string `json:"file_path"`
	Command  string `json:"command"`
	Patch    string `json:"patch"`
	URL      string `json:"url"`
	Question string `json:"question"`
	Todos    []struct{ Content, Status string }
}

// actions tell by a part of a tool's name what the tool does. The first one that is found counts.
// Any other tool is like a command.
var actions = []struct{ part, action string }{
	{"search", "look"}, {"grep", "look"}, {"glob", "look"}, {"list", "look"}, {"find", "look"},
	{"todo", "todo"}, {"ask_user", "ask"}, {"agent", "report"},
	{"patch", "patch"}, {"delete", "deleted"}, {"remove", "deleted"}, {"write", "written"}, {"create", "written"},
	{"edit", "changed"}, {"replace", "changed"}, {"insert", "changed"}, {"update", "changed"}, {"rename", "moved"}, {"move", "moved"},
	{"fetch", "fetch"}, {"web", "fetch"}, {"read", "read"}, {"view", "read"},
}

func actionOf(tool string) string {
	for _, a := range actions {
		if strings.Contains(strings.ToLower(tool), a.part) {
			return a.action
		}
	}
	return "run"
}

// output keeps what matters of a call and its output.
func (d *digest) output(o *aycoder.ToolOutput) {
	var args arguments
	if use := d.calls[o.ID]; use != nil {
		_ = json.Unmarshal(use.Args, &args) // a field of another type is as good as none
		delete(d.calls, o.ID)
	}
	args.Path = cmp.Or(args.Path, args.FilePath)
	text := runes.HeadTail(o.Text(), maxScan)
	e := entry{quote: quote{kind: fromTool}, origin: strings.TrimSpace(o.Name + " " + cmp.Or(args.Path, args.URL)), untrusted: o.Untrusted}
	action := actionOf(o.Name)
	if action == "run" {
		d.ran(args.Command, text, o.IsError, e)
		return
	}
	if o.IsError {
		e.kind, e.text, e.points = ofError, text, 2
		d.put(e)
		return
	}
	d.worked(e.origin)
	switch action {
	case "look":
	case "todo":
		d.listed(args)
	case "ask":
		if e.origin = "asked " + args.Question; !o.Untrusted && o.Name == "ask_user" { // the user has answered it
			e.kind = fromUser
		}
		for _, line := range d.prose(text, e, func(*wording) int { return 8 }) {
			e.points = 8
			d.say(e, wordsOf(line))
		}
	case "report":
		e.origin = o.Name
		d.prose(text, e, atLeast(3))
	case "patch":
		files, _ := patch.Parse(args.Patch)
		for _, f := range files {
			d.patched(f)
		}
	case "fetch":
		d.put(entry{quote: quote{ofURL, args.URL}, state: "fetched", points: 3})
		e.origin = args.URL
		d.prose(text, e, atLeast(4))
	case "read":
		d.file(args.Path, "read", 1)
		switch path.Ext(args.Path) {
		case ".md", ".txt", ".rst":
			e.origin = args.Path
			d.prose(lineNumbers().ReplaceAllString(text, ""), e, atLeast(4))
		case ".log":
			e.origin = "in " + args.Path
			d.errors(strings.Split(text, "\n"), e, false)
		}
	default:
		d.file(args.Path, action, 7)
	}
}

var lineNumbers = late.Regexp(`(?m)^ *\d+\t`)

func (d *digest) listed(args arguments) {
	d.todos = nil
	for _, t := range args.Todos[:min(len(args.Todos), maxTodos)] {
		d.todos = append(d.todos, oneLine("["+t.Status+"] "+t.Content, maxTodo))
	}
}

func (d *digest) patched(f patch.File) {
	state := map[patch.Kind]string{patch.Add: "written", patch.Delete: "deleted", patch.Update: "changed"}[f.Kind]
	if f.MoveTo != "" {
		d.file(f.MoveTo, "changed", 7)
		state = "moved to " + f.MoveTo
	}
	d.file(f.Path, state, 7)
}

// file keeps the name of a file. A change to it counts more than that it was read or named later.
func (d *digest) file(name, state string, points int) {
	e := entry{quote: quote{ofFile, oneLine(name, maxEntry)}, state: state, points: points}
	if i, ok := d.index[e.quote]; ok && d.entries[i].points > points {
		e.state = d.entries[i].state
	}
	if e.text != "" {
		d.put(e)
	}
}

// ran keeps a command, the errors that it printed, the files that it wrote, and some figures. The
// output of a command that only looks at files is not its own.
func (d *digest) ran(command, text string, failed bool, e entry) {
	lines := strings.Split(text, "\n")
	failed = failed || exited(lines)
	state := "worked"
	if failed {
		state = "failed"
	}
	if command != "" {
		e.origin = oneLine(decoration().ReplaceAllString(command, ""), maxOrigin)
		script := shell.Analyze(command, shell.World{Dir: "/w", Root: "/w"})
		if script.Class == shell.ReadOnly && !strings.Contains(command, ".log") {
			return
		}
		for _, c := range script.Commands {
			if !failed {
				d.wrote(c)
			}
		}
		d.put(entry{quote: quote{ofCommand, e.origin}, state: state, points: 3})
	}
	if !failed {
		d.worked(e.origin)
	}
	d.figures(d.errors(lines, e, failed), e)
}

// worked marks the errors of earlier runs of a command.
func (d *digest) worked(origin string) {
	for i := range d.entries {
		e := &d.entries[i]
		if e.kind == ofError && e.state == "" && e.origin == origin {
			e.state, e.points = "a later run of this succeeded", min(e.points, 2)
		}
	}
}

// wrote keeps the files that a command changed.
func (d *digest) wrote(c shell.Command) {
	if len(c.Argv) == 0 {
		return
	}
	target := path.Clean(c.Argv[len(c.Argv)-1])
	command := c.Argv[:min(2, len(c.Argv))] // or that of git
	for _, name := range c.Writes {
		switch {
		case slices.Contains(command, "rm"):
			d.file(name, "deleted", 7)
		case slices.Contains(command, "mv") && !strings.HasSuffix(name, target):
			d.file(name, "moved to "+target, 7)
		default:
			d.file(name, "written", 6)
		}
	}
}

var exitStatus = late.Regexp(`^\[exit (\d+)|(?i)exit (?:code|status):? (\d+)`)

// exited reports whether the last lines of an output tell of a failure.
func exited(lines []string) bool {
	for _, line := range slices.Backward(lines[max(0, len(lines)-6):]) {
		if m := exitStatus().FindStringSubmatch(line); m != nil {
			return m[1]+m[2] != "0"
		}
	}
	return false
}

// decoration is the part of a command that only arranges its output. Without it, runs of the same
// command can be recognised.
var decoration = late.Regexp(`^cd [^&;|]+ && |\s*2>&1|\s*\|\s*(?:tail|head|grep|tee)\b.*$`)

// Parts of lines that are errors in any output, and the beginnings of such lines.
var (
	loud = []string{
		"Error: ", "Exception: ", ": error: ", ": fatal error: ", "ERROR", "FATAL", "ERR!", "error TS", "error[E", "level=error",
		"level=fatal", "--- FAIL", "panicked at", "Exception in thread", "Caused by:", "egmentation fault", "core dumped",
		"ermission denied", "onnection refused", "command not found", "undefined reference", "make: ***", "No space left",
		"out of memory", "Error response from",
	}
	loudFirst = []string{"fatal:", "fatal ", "panic:", "error:", "error ", "FAILED ", "CONFLICT "}
	frames    = []string{"at ", "--> ", `File "`} // begin lines of stack traces
	// place is the name of a place in a file, as in a.go:7, a.ts(4,5), or "a.py", line 3.
	place    = late.Regexp(`[^\s/\\"'=,;()-][^\s/\\"'=,;()]*\.[^\s/\\"'=,;()]*(?:[:(\[]|", line )\d`)
	harmless = late.Regexp(`(?i)\b(?:0|no) (?:errors?|failures?|failed)\b|errors?: 0|^(?:ok|PASS|=== RUN)\b|^FAIL$|^FAIL\t`)
)

// errorPoints returns the points of a line as an error message, or 0 if it is not one. Some words and
// places are those of errors only if the command failed.
func errorPoints(w *wording, failed bool) (points int) {
	line := strings.TrimSpace(w.text)
	contains := func(s string) bool { return strings.Contains(line, s) }
	begins := func(s string) bool { return strings.HasPrefix(line, s) }
	at := place().MatchString(line)
	switch {
	case slices.ContainsFunc(loud, contains) || slices.ContainsFunc(loudFirst, begins):
		points = 6
	case (failed || at) && (w.counts[failing] > 0 || begins("E ")):
		points = 5
	case failed && (at || slices.ContainsFunc(frames, begins)):
		points = 4
	default:
		return 0
	}
	if harmless().MatchString(line) {
		return 0
	}
	if at {
		points++
	}
	return points
}

// errors keeps the lines that are error messages, those with the most points if there are many. It
// returns the other lines. The other fields of the entries are those of e.
func (d *digest) errors(lines []string, e entry, failed bool) (others []*wording) {
	var found []entry
	for _, line := range lines {
		if len(line) > 4*maxEntry {
			continue
		}
		w := wordsOf(line)
		e.kind, e.text = ofError, line
		if e.points = errorPoints(w, failed); e.points > 0 {
			found = append(found, e)
		} else {
			others = append(others, w)
		}
	}
	slices.SortStableFunc(found, func(a, b entry) int { return b.points - a.points })
	for _, e := range found[:min(len(found), maxErrors)] {
		d.put(e)
	}
	return others
}

// figures keeps the names of files that a command wrote, and some lines with figures.
func (d *digest) figures(lines []*wording, e entry) {
	n := 0
	for _, w := range lines {
		if w.counts[writing] > 0 && !e.untrusted {
			for _, p := range pathsIn(w.text) {
				d.file(p, "named by "+e.origin, 4)
			}
		}
		if n < maxFigures && len(w.text) <= maxEntry && w.measures() && !harmless().MatchString(w.text) && !strings.HasPrefix(w.text, "--- ") {
			n++
			e.text, e.points = w.text, 5
			d.put(e)
		}
	}
}
