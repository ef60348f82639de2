package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/edit"
	"github.com/aycoder/aycoder/internal/cli/paint"
	"github.com/aycoder/aycoder/internal/cli/tty"
)

const (
	shownLines   = 8   // of a tool's output
	previewLines = 40  // of a change, before an approval
	verboseLines = 400 // of both, with -verbose
	narrow       = 60  // columns below which less is said
)

// A view shows the events of a run on a screen.
type view struct {
	*paper
	verbose bool
	whole   bool // nothing is left out, as in a question of the user
	holdOff bool // text is shown by another component

	inProgress []*aycoder.ToolStarted // tools that have begun and not ended, the oldest first
	began      map[string]time.Time
	answer     *paint.Markdown   // that streams, or nil
	thought    string            // the last row of what the model thinks, while it streams
	note       map[string]string // newest progress, by call
	since      time.Time         // when the request was sent
	retry      time.Time         // when it will be repeated
	came       bool              // a part of its message is on the screen
	calls      int
	number     int             // of the output for /show, or 0
	marked     map[string]bool // the files that the user wants to have with conflict markers
}

func newView(p *paper, verbose bool) *view {
	return &view{paper: p, verbose: verbose}
}

// begin prepares for a run.
func (v *view) begin() {
	v.inProgress, v.calls, v.since = nil, 0, time.Now()
	v.began, v.note, v.marked = map[string]time.Time{}, map[string]string{}, map[string]bool{}
}

// event shows ev. The caller handles approvals.
func (v *view) event(ev aycoder.Event) {
	switch ev := ev.(type) {
	case *aycoder.TextDelta:
		v.came = true
		v.says(ev.Text)
		return
	case *aycoder.ThinkingDelta:
		v.came = v.came || v.verbose
		v.thinks(ev.Text)
		return
	case *aycoder.ToolProgress, *aycoder.ToolStarted, *aycoder.ToolDelta, *aycoder.ChildEvent: // print nothing
	default:
		v.saidAll()
	}
	switch ev := ev.(type) {
	case *aycoder.ToolStarted:
		v.inProgress = append(v.inProgress, ev)
		v.began[ev.Call.ID] = time.Now()
	case *aycoder.ToolProgress:
		v.note[ev.CallID] = progress(&ev.Progress)
	case *aycoder.ChildEvent:
		if w, ok := ev.Innermost().(*aycoder.ToolStarted); ok {
			v.note[ev.CallID] = cleanLine(w.Call.Name + " " + subjectOf(w))
		}
	case *aycoder.ToolFinished:
		v.finished(ev)
	case *aycoder.Merged:
		what := "merged with your changes"
		if v.marked[ev.File.Path] {
			what = "written with conflict markers"
			delete(v.marked, ev.File.Path)
		}
		v.changed(ev.File, what)
	case *aycoder.Conflicted:
		v.changed(ev.File, ev.File.Reason)
	case *aycoder.Retrying:
		v.retrying(ev)
	case *aycoder.TurnFinished:
		v.turn(ev)
	case *aycoder.Notice:
		v.prose(notice, "! "+cleanLine(ev.Text))
	case *aycoder.Compacting:
		v.line(v.paint(faint, "compacting "+v.Glyph("…", "...")))
	case *aycoder.Compacted:
		v.compacted(ev)
	}
}

// style says what the terminal can show.
func (v *view) style() paint.Style {
	return paint.Style{Color: v.Color(), Width: v.width(), Plain: !v.Fancy()}
}

// says shows a piece of the model's text. A plain terminal gets it as it is.
func (v *view) says(text string) {
	switch {
	case v.holdOff:
	case !v.Fancy():
		v.text(clean(text))
	default:
		if v.answer == nil {
			v.saidAll()
			v.fresh()
			v.answer = paint.NewMarkdown(v.style(), lines{v.paper})
		}
		v.answer.SetWidth(v.width())
		_, _ = v.answer.Write([]byte(text)) // the screen keeps its error
	}
}

// thinks shows a piece of what the model thinks, if that is wanted.
func (v *view) thinks(text string) {
	if !v.verbose {
		return
	}
	if text = clean(text); !v.Fancy() {
		v.text(text)
		return
	}
	if v.answer != nil {
		v.saidAll()
	}
	rows := tty.Wrap(v.thought+text, v.width(), "")
	last := len(rows) - 1
	for _, row := range rows[:last] {
		v.line(v.paint(faint, row))
	}
	if v.thought = rows[last]; strings.HasSuffix(text, " ") { // which a row does not end with
		v.thought = strings.TrimRight(v.thought, " ") + " "
	}
}

// saidAll shows what is left of the model's text.
func (v *view) saidAll() {
	if v.answer != nil {
		_ = v.answer.Flush() // the screen keeps its error
		v.answer = nil
	}
	if v.thought != "" {
		v.line(v.paint(faint, v.thought))
		v.thought = ""
	}
}

// pending returns the line of the model's text that has not ended, as rows.
func (v *view) pending() []string {
	if v.answer == nil && v.thought != "" {
		return []string{v.paint(faint, v.thought)}
	}
	if v.answer != nil {
		return v.answer.Pending()
	}
	return nil
}

// lines are a writer of complete lines to a paper.
type lines struct{ *paper }

func (l lines) Write(p []byte) (int, error) {
	l.text(string(p))
	return len(p), nil
}

func (v *view) turn(ev *aycoder.TurnFinished) {
	v.since, v.came = time.Now(), false
	if !v.holdOff {
		v.fresh()
	}
	if v.verbose {
		u := ev.Usage
		text := fmt.Sprintf("turn %d: %s, tokens: %d in, %d out, %d from the cache",
			ev.Turn, cleanLine(string(ev.Stop)), u.Input+u.CacheWrite, u.Output, u.CacheRead)
		v.line(v.paint(faint, text))
	}
}

// finished prints the line of a call, and its output if that matters.
func (v *view) finished(ev *aycoder.ToolFinished) {
	v.calls++
	subject := ev.Subject // of a call that has not begun
	v.inProgress = slices.DeleteFunc(v.inProgress, func(w *aycoder.ToolStarted) bool {
		if w.Call.ID != ev.Call.ID {
			return false
		}
		subject = subjectOf(w)
		return true
	})
	if denied, ok := errors.AsType[*aycoder.ToolDeniedError](ev.Err); ok {
		v.denied(ev, denied, subject)
		return
	}
	mark := v.paint(green, v.Glyph("●", "*"))
	if ev.Output.IsError {
		mark = v.paint(red, v.Glyph("✗", "!"))
	}
	v.line(mark + " " + v.layout(ev, subject))
	if v.verbose || ev.Output.IsError || ev.Call.Name == "bash" {
		v.output(withoutExit(ev.Output.Text()))
	}
}

// changed reports that a call met changes of the user.
func (v *view) changed(f *edit.FileResult, what string) {
	v.prose(notice, v.Glyph("▲", "!")+" "+cleanLine(f.Path+": "+what))
}

// subjectOf returns the subject of a call for people; for a search it is the pattern.
func subjectOf(ev *aycoder.ToolStarted) string {
	var args struct {
		Pattern string `json:"pattern"`
	}
	if json.Unmarshal(ev.Args, &args) != nil || args.Pattern == "" {
		return ev.Subject
	}
	return strings.TrimSpace(strconv.Quote(args.Pattern) + " " + ev.Subject)
}

// withoutExit removes the last line of a command's output, which repeats the summary.
func withoutExit(text string) string {
	text = strings.TrimRight(text, "\n")
	i := strings.LastIndexByte(text, '\n') + 1
	if strings.HasPrefix(text[i:], "[exit ") {
		return text[:i]
	}
	return text
}

func (v *view) denied(ev *aycoder.ToolFinished, denied *aycoder.ToolDeniedError, subject string) {
	why := cleanLine(denied.Reason)
	switch {
	case why != "" || denied.By == aycoder.ByUser:
	case denied.By == aycoder.ByIgnored:
		why = "no answer"
	default:
		why = string(denied.By)
	}
	if why != "" {
		why = ": " + why
	}
	v.prose(red, "  "+v.Glyph("✗", "!")+" "+fit(strings.TrimSpace(cleanLine(ev.Call.Name+" "+subject)), max(v.width()-12, 16))+" refused"+why)
}

// layout puts name and subject at the left, result and time at the right.
func (v *view) layout(ev *aycoder.ToolFinished, subject string) string {
	left := cleanLine(ev.Call.Name)
	if s := cleanLine(subject); s != "" {
		left += " " + s
	}
	right := cleanLine(ev.Summary)
	if ev.Elapsed > 0 && v.width() >= narrow {
		right = strings.TrimPrefix(right+" · "+short(ev.Elapsed), " · ")
	}
	if !v.Fancy() {
		return strings.TrimRight(left+"  "+strings.NewReplacer("·", "-", "−", "-").Replace(right), " ")
	}
	width := min(v.width(), 80) - 3
	left = fit(left, max(width-columns(right)-2, 10))
	pad := max(width-columns(left)-columns(right), 2)
	name, rest, _ := strings.Cut(left, " ")
	return v.paint(bold, name) + " " + rest + strings.Repeat(" ", pad-1) + v.paint(faint, right)
}

// short formats a duration in few characters.
func short(d time.Duration) string {
	switch {
	case d < time.Second:
		return strconv.FormatInt(d.Milliseconds(), 10) + "ms"
	case d < time.Minute:
		return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + "s"
	}
	return d.Round(time.Second).String()
}

// most returns how many lines are shown of something, which has usually some.
func (v *view) most(usually int) int {
	switch {
	case v.whole:
		return math.MaxInt
	case v.verbose:
		return verboseLines
	}
	return usually
}

func (v *view) output(text string) {
	if text == "" {
		return
	}
	most := v.most(shownLines)
	rows := fold(clean(text), most)
	if v.number > 0 && strings.Count(strings.TrimRight(text, "\n"), "\n") >= most { // see tty.Fold
		rows[most/2] += fmt.Sprintf(" (/show %d)", v.number)
	}
	for _, line := range rows {
		v.barred(v.bounded(line))
	}
}

// barred writes a line of something shown, with a bar before each of its rows.
func (p *paper) barred(line string) {
	rows := []string{line}
	if p.Fancy() {
		rows = tty.Wrap(strings.ReplaceAll(line, "\t", "    "), max(p.width()-4, 1), "")
	}
	for _, row := range rows {
		p.line("  " + p.paint(faint, p.Glyph("│", "|")) + " " + row)
	}
}

// bounded truncates a line that would take several on a terminal.
func (v *view) bounded(line string) string {
	if v.verbose {
		return line
	}
	return fit(strings.ReplaceAll(line, "\t", "    "), 240)
}

func (v *view) retrying(ev *aycoder.Retrying) {
	text := "! " + cleanLine(ev.Err.Error())
	if ev.Discarded && v.came {
		text += "; what came of the answer is forgotten"
	}
	v.came, v.retry = false, time.Now().Add(ev.After)
	text += "; trying again"
	if ev.After > 0 {
		text += " in " + short(ev.After)
	}
	v.prose(notice, text)
}

// progress tells how far a call is. Without a total, the number counts if the message is its unit; it may be anything
// else, such as the line that a command has printed.
func progress(p *aycoder.Progress) string {
	n, text := strconv.FormatInt(p.Current, 10), cleanLine(p.Message)
	if text == "bytes" {
		n = kilo(p.Current)
	}
	switch {
	case p.Total > 0 && text == "bytes":
		n += " of " + kilo(p.Total)
	case p.Total > 0:
		n += " of " + strconv.FormatInt(p.Total, 10)
	case text != "files searched" && text != "entries":
		return text
	}
	return strings.TrimSpace(n + " " + text)
}

const frames = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"

// activity returns the lines that say what the agent is doing.
func (v *view) activity(stopping bool) []string {
	parts := []string{"thinking", seconds(time.Since(v.since))}
	if wait := time.Until(v.retry); wait > 0 {
		parts = []string{"trying again in " + seconds(wait+time.Second)}
	}
	if n := len(v.inProgress); n > 0 {
		w := v.inProgress[n-1]
		parts = []string{fit(cleanLine(w.Call.Name+" "+subjectOf(w)), max(v.width()/2-8, 16)), seconds(time.Since(v.began[w.Call.ID]))}
		if note := v.note[w.Call.ID]; note != "" {
			parts = append(parts, note)
		}
		if n > 1 {
			parts = append(parts, count(n-1, "other"))
		}
	}
	end := "ctrl-c to stop"
	if stopping {
		end = "stopping"
	}
	spin := []rune(frames)
	frame := string(spin[int(time.Since(v.since)/tickEvery)%len(spin)])
	room := max(v.width()-columns(frame+end)-6, 10)
	return []string{v.paint(faint, fit(frame+" "+strings.Join(parts, " · "), room)+" · "+end)}
}

func seconds(d time.Duration) string {
	return strconv.Itoa(int(d.Seconds())) + "s"
}

// summary prints the line below a turn. Parts without room are left out.
func (v *view) summary(model string, res *aycoder.Result, cost float64, full stateContext, took time.Duration) {
	u := res.Usage
	tools, cached := count(v.calls, "tool"), kilo(u.CacheRead)+" cached"
	parts := []string{model, tools, kilo(u.Input+u.CacheWrite) + " tokens in", kilo(u.Output) + " out"}
	if u.CacheRead > 0 {
		parts = append(parts, cached)
	}
	if cost > 0 {
		parts = append(parts, fmt.Sprintf("$%.4f", cost))
	}
	if n := brokenOff(res); n > 0 {
		parts = append(parts, count(n, "answer")+" not counted")
	}
	if full.Window > 0 {
		parts = append(parts, fmt.Sprintf("context %d%%", full.Percent))
	}
	parts = append(parts, short(took))
	text := func() string { return strings.Join(parts, v.Glyph(" · ", " - ")) }
	without := func(less string) {
		if columns(text()) > v.width() {
			parts = slices.DeleteFunc(parts, func(p string) bool { return p == less })
		}
	}
	without(tools)
	if _, name, ok := strings.Cut(model, "/"); ok && columns(text()) > v.width() {
		parts[0] = name
	}
	without(cached)
	without(parts[0])
	v.line(v.paint(faint, fit(text(), v.width())))
}

// brokenOff returns how many answers of a run that was cut have used tokens that nobody has told.
func brokenOff(res *aycoder.Result) (n int) {
	if res.End == aycoder.EndCancelled || res.End == aycoder.EndFailed {
		for _, s := range res.Spent {
			n += s.Uncounted
		}
	}
	return n
}

// kilo formats a number in few characters.
func kilo(n int64) string {
	switch {
	case n < 1000:
		return strconv.FormatInt(n, 10)
	case n < 1_000_000:
		return fmt.Sprintf("%.1fk", float64(n)/1000)
	}
	return fmt.Sprintf("%.1fM", float64(n)/1_000_000)
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}

// diff shows a unified diff with line numbers.
func (v *view) diff(text string) {
	for _, line := range paint.Diff(text, v.style(), paint.DiffOptions{Fold: v.most(previewLines), SideBySide: v.Fancy()}) {
		v.line(line)
	}
}
