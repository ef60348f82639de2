package docs

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/policy"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/tools"
	"github.com/aycoder/aycoder/workspace"
)

// A phase is a part of a turn, and the events that the host gets from it, in order.
type phase struct {
	title, says string
	events      []string
}

// loop is what the picture of the loop shows.
var loop = []phase{
	{"stream", "The model's answer comes in pieces.", []string{"TextDelta", "ToolDelta"}},
	{"early reads", "A call that only reads starts at once, beside the stream.", []string{"ToolStarted", "ToolFinished"}},
	{"end of the message", "The rest has come. Calls that may write wait for this.", []string{"TextDelta", "ToolDelta"}},
	{"approval", "The host is shown the plan of a change, and answers.", []string{"ApprovalRequested"}},
	{"merge", "What the user typed meanwhile stays. The change is written.", []string{"ToolStarted", "Merged", "ToolFinished"}},
	{"end of the turn", "Each call has its output in the history.", []string{"TurnFinished"}},
	{"next turn", "The model gets the outputs, and has nothing more to do.", []string{"TextDelta", "TurnFinished", "RunFinished"}},
}

// happens runs the agent of the picture, and returns the kinds of its events. Those that
// come several times in a row are one.
func happens(t *testing.T) (kinds []string) {
	dir := t.TempDir()
	file := filepath.Join(dir, "greet.txt")
	require.NoError(t, os.WriteFile(file, []byte("Hello.\nA.\nB.\nC.\nBye.\n"), 0o644))
	model := script.New(
		script.Reply(
			script.Say("Let me look."),
			script.Call("read_file", map[string]any{"path": "greet.txt"}),
			script.Say("It wants a name."),
			script.Call("edit_file", map[string]any{"path": "greet.txt", "old_string": "Hello.", "new_string": "Hello, Ada."}),
		),
		script.Say("Done."),
	).With(script.WithPace(time.Second))
	synctest.Test(t, func(t *testing.T) {
		ws, err := workspace.Open(dir)
		require.NoError(t, err)
		defer ws.Close()
		coding, err := tools.Coding(ws)
		require.NoError(t, err)
		approver, err := policy.New(policy.WithWorkspace(ws.Dir()))
		require.NoError(t, err)
		agent, err := aycoder.New(model, aycoder.WithTools(coding...), aycoder.WithApprover(approver))
		require.NoError(t, err)
		for ev, err := range agent.Run(t.Context(), aycoder.Input{Prompt: "Greet Ada."}) {
			require.NoError(t, err)
			kind := reflect.TypeOf(ev).Elem().Name()
			if len(kinds) == 0 || kinds[len(kinds)-1] != kind {
				kinds = append(kinds, kind)
			}
			switch ev := ev.(type) {
			case *aycoder.ApprovalRequested: // the user types while they are asked
				require.NoError(t, os.WriteFile(file, []byte("Hello.\nA.\nB.\nC.\nBye, and thanks.\n"), 0o644))
				ev.Allow()
			case *aycoder.ToolFinished:
				require.NoError(t, ev.Err)
			}
		}
	})
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "Hello, Ada.\nA.\nB.\nC.\nBye, and thanks.\n", string(data))
	return kinds
}

// The picture of the loop names the events of a real run, in their order.
func TestLoopPicture(t *testing.T) {
	var want []string
	for _, p := range loop {
		want = append(want, p.events...)
	}
	require.Equal(t, want, slices.Compact(happens(t)))
	matches(t, "loop.svg", drawLoop())
}

// drawLoop draws the phases below each other, with their events on the arrows between.
func drawLoop() string {
	const left, wide, high, between = 70.0, 470.0, 50.0, 58.0
	p := &picture{width: 640}
	y := 24.0
	var again float64
	for i, ph := range loop {
		fill, stroke := "#ddf4ff", "#0969da"
		switch ph.title {
		case "approval":
			fill, stroke = "#fff8c5", "#9a6700"
		case "early reads", "merge":
			fill, stroke = "#dafbe1", "#1a7f37"
		}
		p.box(left, y, wide, high, fill, stroke)
		p.text(left+16, y+21, `font-weight="bold"`, ph.title)
		p.text(left+16, y+39, `fill="#57606a"`, ph.says)
		if ph.title == "end of the turn" {
			again = y + high/2
		}
		p.put(`<path d="M%.0f %.0f V%.0f" fill="none" stroke="#6e7781" marker-end="url(#head)"/>`,
			left+wide/2, y+high, y+high+between)
		p.text(left+wide/2+12, y+high+between/2+4, `font-family="monospace"`, strings.Join(ph.events, "  →  "))
		y += high + between
		if i == len(loop)-1 {
			p.text(left+wide/2, y+16, `text-anchor="middle"`, "the run is over")
		}
	}
	// While there are calls, the next turn is a stream like the first.
	p.put(`<path d="M%.0f %.0f H%.0f V%.0f H%.0f" fill="none" stroke="#6e7781" stroke-dasharray="5 4" marker-end="url(#head)"/>`,
		left, again, left-36, 24+high/2, left)
	p.put(`<text transform="translate(%.0f %.0f) rotate(-90)" text-anchor="middle" fill="#57606a">%s</text>`,
		left-44, (again+24+high/2)/2, "as long as the model calls tools")
	p.height = y + 36
	return p.String()
}
