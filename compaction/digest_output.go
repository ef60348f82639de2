package compaction

import (
	"cmp"
	"encoding/json"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/aycoder/aycoder"
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
func (g *digester) output(o *aycoder.ToolOutput) {
	var args arguments
	if use := g.calls[o.ID]; use != nil {
		_ = json.Unmarshal(use.Args, &args) // a field of another type is as good as none
	}
	args.Path = cmp.Or(args.Path, args.FilePath)
	text := o.Text()
	if len(text) > maxScan {
		text = runes.HeadTail(text, maxScan)
	}
	lines := strings.Split(text, "\n")
	origin := strings.TrimSpace(o.Name + " " + cmp.Or(args.Path, args.URL))
	action := actionOf(o.Name)
	if action == "run" {
		g.ran(o, args.Command, origin, lines)
		return
	}
	if o.IsError {
		g.put(entry{Kind: ofError, Text: text, Origin: origin, Points: 2, Untrusted: o.Untrusted})
		return
	}
	g.worked(origin)
	switch action {
	case "look":
	case "todo":
		g.todos(args)
	case "ask":
		g.answer(o, args, lines)
	case "report":
		g.prose(text, entry{Kind: fromTool, Origin: o.Name, Untrusted: o.Untrusted}, 3)
	case "patch":
		files, _ := patch.Parse(args.Patch)
		for _, f := range files {
			g.patched(f)
		}
	case "fetch":
		g.put(entry{Kind: ofURL, Text: args.URL, State: "fetched", Points: 3})
		g.prose(text, entry{Kind: fromTool, Origin: args.URL, Untrusted: o.Untrusted}, 4)
	case "read":
		g.file(args.Path, "read", 1)
		switch path.Ext(args.Path) {
		case ".md", ".txt", ".rst":
			g.prose(lineNumbers.ReplaceAllString(text, ""), entry{Kind: fromTool, Origin: args.Path, Untrusted: o.Untrusted}, 4)
		case ".log":
			g.errors(lines, "in "+args.Path, false, o.Untrusted)
		}
	default:
		g.file(args.Path, action, 7)
	}
}

var lineNumbers = regexp.MustCompile(`(?m)^ *\d+\t`)

func (g *digester) todos(args arguments) {
	g.Todos = nil
	for _, t := range args.Todos[:min(len(args.Todos), maxTodos)] {
		g.Todos = append(g.Todos, oneLine("["+t.Status+"] "+t.Content, maxTodo))
	}
}

// answer keeps the answer to a question, which the tool ask_user has from the user.
func (g *digester) answer(o *aycoder.ToolOutput, args arguments, lines []string) {
	e := entry{Kind: fromUser, Origin: "asked " + args.Question, Points: 8, Untrusted: o.Untrusted}
	if o.Untrusted || o.Name != "ask_user" {
		e.Kind = fromTool
	}
	for _, line := range lines {
		if e.Text = oneLine(line, maxEntry); e.Text != "" {
			g.say(e, wordsOf(e.Text))
		}
		if e.Kind == fromUser {
			g.mentions(line, "named by the user", 6)
		}
	}
}

func (g *digester) patched(f patch.File) {
	switch {
	case f.MoveTo != "":
		g.file(f.Path, "moved to "+f.MoveTo, 7)
		g.file(f.MoveTo, "changed", 7)
	case f.Kind == patch.Add:
		g.file(f.Path, "written", 7)
	case f.Kind == patch.Delete:
		g.file(f.Path, "deleted", 7)
	default:
		g.file(f.Path, "changed", 7)
	}
}

// file keeps the name of a file. A change to it counts more than that it was read or named later.
func (g *digester) file(name, state string, points int) {
	e := entry{Kind: ofFile, Text: oneLine(name, maxEntry), State: state, Points: points}
	if i, ok := g.index[e.key()]; ok && g.Entries[i].Points > points {
		e.State = g.Entries[i].State
	}
	if e.Text != "" {
		g.put(e)
	}
}

// ran keeps a command, the errors that it printed, the files that it wrote, and some figures. The
// output of a command that only looks at files is not its own.
func (g *digester) ran(o *aycoder.ToolOutput, command, origin string, lines []string) {
	failed := o.IsError || exited(lines)
	state := "worked"
	if failed {
		state = "failed"
	}
	if command != "" {
		origin = oneLine(decoration.ReplaceAllString(command, ""), maxOrigin)
		script := shell.Analyze(command, shell.World{Dir: "/w", Root: "/w"})
		if script.Class == shell.ReadOnly && !strings.Contains(command, ".log") {
			return
		}
		for _, c := range script.Commands {
			if !failed {
				g.wrote(c)
			}
		}
		g.put(entry{Kind: ofCommand, Text: origin, State: state, Points: 3})
	}
	if !failed {
		g.worked(origin)
	}
	g.figures(g.errors(lines, origin, failed, o.Untrusted), origin, o.Untrusted)
}

// worked marks the errors of earlier runs of a command.
func (g *digester) worked(origin string) {
	for i := range g.Entries {
		e := &g.Entries[i]
		if e.Kind == ofError && e.State == "" && e.Origin == origin {
			e.State, e.Points = "a later run of this succeeded", min(e.Points, 2)
		}
	}
}

// wrote keeps the files that a command changed.
func (g *digester) wrote(c shell.Command) {
	if len(c.Argv) == 0 {
		return
	}
	target := path.Clean(c.Argv[len(c.Argv)-1])
	for _, name := range c.Writes {
		switch {
		case slices.Contains(c.Argv[:min(2, len(c.Argv))], "rm"):
			g.file(name, "deleted", 7)
		case slices.Contains(c.Argv[:min(2, len(c.Argv))], "mv") && !strings.HasSuffix(name, target):
			g.file(name, "moved to "+target, 7)
		default:
			g.file(name, "written", 6)
		}
	}
}

var exitStatus = regexp.MustCompile(`^\[exit (\d+)|(?i)exit (?:code|status):? (\d+)`)

// exited reports whether the last lines of an output tell of a failure.
func exited(lines []string) bool {
	for _, line := range slices.Backward(lines[max(0, len(lines)-6):]) {
		if !strings.Contains(line, "xit") && !strings.Contains(line, "XIT") {
			continue
		}
		if m := exitStatus.FindStringSubmatch(line); m != nil {
			return m[1]+m[2] != "0"
		}
	}
	return false
}

// decoration is the part of a command that only arranges its output. Without it, runs of the same
// command can be recognised.
var decoration = regexp.MustCompile(`^cd [^&;|]+ && |\s*2>&1|\s*\|\s*(?:tail|head|grep|tee)\b.*$`)

var (
	located = regexp.MustCompile(`[\w./\\@+-]+\.\w+(?::\d+|[(\[]\d+|:\[\d+|", line \d+)`)
	// loud lines are errors in any output, quiet ones only in the output of a command that failed.
	loud = regexp.MustCompile(`^\s*(?:fatal|panic|error|ERROR|FATAL|FAILED|CONFLICT)\b[^=]|\w(?:Error|Exception)\b:|: (?:fatal )?error:|` +
		`\b(?:ERROR|FATAL|ERR!)|error TS\d|error\[E|level=(?:error|fatal)|--- FAIL|panicked at|Exception in thread|Caused by:|` +
		`[Ss]egmentation fault|core dumped|[Pp]ermission denied|[Cc]onnection refused|command not found|undefined reference|^make: \*\*\*|` +
		`No space left|out of memory|Error response from`)
	quiet = regexp.MustCompile(`(?i)\b(?:error|exception|fail|fails|failed|failure|crash|crashes|reset|cannot|can't|could not|unable|denied|` +
		`refused|undefined|unresolved|unknown|not found|no such|conflict|assert|assertion|timed? ?out|timeout|violates|invalid|` +
		`unexpected|missing|abort|aborted|overflow|leak|full|want|expected|rejected|incompatible|mismatch|undeclared|not declared|` +
		`declared and not|already exists|does not exist|must be|closed)\b|^E\s|●|✗|✘`)
	frame    = regexp.MustCompile(`^\s*(?:at |--> |File ")`)
	harmless = regexp.MustCompile(`(?i)\b(?:0|no) (?:errors?|failures?|failed)\b|errors?: 0|^\s*(?:ok|PASS|=== RUN)\b|^FAIL\s*$|^FAIL\t`)
)

// signs are parts of which an error message, in lower case, has at least one, and loudSigns those of
// which a loud line has one. They are looked for first, since the expressions take much longer.
var signs = []string{
	"err", "fail", "exception", "fatal", "panic", "caused", "fault", "dump", "denied", "refused", "crash", "reset", "cannot", "can't",
	"could not", "unable", "un", "not", "no ", "conflict", "assert", "time", "violates", "invalid", "missing", "abort", "overflow",
	"leak", "full", "want", "expect", "reject", "incompat", "mismatch", "make:", "memory", "already", "must", "closed", "e ", "e\t",
	"●", "✗", "✘", "at ", "-->", "file \"",
}

var loudSigns = []string{
	"Error:", "Exception:", "error:", "ERROR", "FATAL", "ERR!", "error TS", "error[E", "level=", "--- FAIL", "panicked at", "Exception in",
	"Caused by:", "egmentation fault", "core dumped", "ermission denied", "onnection refused", "command not found", "undefined reference",
	"make: ***", "No space left", "out of memory", "Error response",
}

// mayBeLoud reports whether a line can be a loud one.
func mayBeLoud(line string) bool {
	first := strings.TrimLeft(line, " \t\r\f")
	return slices.ContainsFunc(loudWords, func(s string) bool { return strings.HasPrefix(first, s) }) ||
		slices.ContainsFunc(loudSigns, func(s string) bool { return strings.Contains(line, s) })
}

var loudWords = []string{"fatal", "panic", "error", "FAILED", "CONFLICT"}

// placed reports whether a line can name a place in a file: it has a number behind a mark.
func placed(line string) bool {
	for i := 1; i < len(line); i++ {
		if c := line[i]; c >= '0' && c <= '9' && strings.IndexByte(":([ ", line[i-1]) >= 0 && strings.IndexByte(line[:i], '.') >= 0 {
			return true
		}
	}
	return false
}

// signed reports whether a line has a sign.
func signed(line string) bool {
	line = strings.ToLower(line)
	return slices.ContainsFunc(signs, func(s string) bool { return strings.Contains(line, s) })
}

// errorPoints returns the points of a line as an error message, or 0 if it is not one.
func errorPoints(line string, failed bool) (points int) {
	if len(line) > 4*maxEntry {
		return 0
	}
	isLoud, at := mayBeLoud(line) && loud.MatchString(line), placed(line)
	if !isLoud && !at && !(failed && signed(line)) || harmless.MatchString(line) {
		return 0
	}
	at = at && located.MatchString(line)
	switch {
	case isLoud:
		points = 6
	case (failed || at) && quiet.MatchString(line):
		points = 5
	case failed && (at || frame.MatchString(line)):
		points = 4
	default:
		return 0
	}
	if at {
		points++
	}
	return points
}

// errors keeps the lines that are error messages, those with the most points if there are many. It
// returns the other lines.
func (g *digester) errors(lines []string, origin string, failed, untrusted bool) (others []string) {
	var found []entry
	for _, line := range lines {
		points := errorPoints(line, failed)
		if points == 0 {
			others = append(others, line)
			continue
		}
		found = append(found, entry{Kind: ofError, Text: line, Origin: origin, Points: points, Untrusted: untrusted})
	}
	slices.SortStableFunc(found, func(a, b entry) int { return b.Points - a.Points })
	for _, e := range found[:min(len(found), maxErrors)] {
		g.put(e)
	}
	return others
}

var writes = regexp.MustCompile(`(?i)\b(?:wrote|written|created|creating|saved|generated|generating|stored|log file|report|output|archive|` +
	`snapshot|artifact|logs?)\b`)

// figures keeps the names of files that a command wrote, and some lines with figures.
func (g *digester) figures(lines []string, origin string, untrusted bool) {
	n := 0
	for _, line := range lines {
		if len(line) > maxEntry {
			continue
		}
		if strings.ContainsAny(line, "./") && !untrusted && writes.MatchString(line) {
			for _, p := range pathsIn(line) {
				g.file(p, "named by "+origin, 4)
			}
		}
		if n < maxFigures && measured(line) && amount.MatchString(line) &&
			!harmless.MatchString(line) && !strings.HasPrefix(line, "--- ") {
			n++
			g.put(entry{Kind: fromTool, Text: line, Origin: origin, Points: 5, Untrusted: untrusted})
		}
	}
}

// measured reports whether a line may have an amount: a number before a unit, or a name of a value.
func measured(line string) bool {
	number := false
	for i := range len(line) {
		if line[i] < '0' || line[i] > '9' {
			continue
		}
		number = true
		if rest := strings.TrimLeft(line[i+1:min(i+4, len(line))], " \t"); rest != "" && strings.IndexByte("%kKMGTiBnmsbhdraetcwpf\xc2", rest[0]) >= 0 {
			return true
		}
	}
	if !number {
		return false
	}
	line = strings.ToLower(line)
	return slices.ContainsFunc(values, func(s string) bool { return strings.Contains(line, s) })
}

var values = []string{"port", "version", "timeout", "limit", "size", "default", "maximum", "budget", "deadline"}
