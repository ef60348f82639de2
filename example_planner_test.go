package aycoder_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/edit"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/workspace"
)

type listArgs struct {
	Items string `json:"items"`
}

// listTool writes a list. Its plan has the current and the new content of the file.
type listTool struct {
	aycoder.Tool
	ws   *workspace.Workspace
	file string
}

func newListTool(ws *workspace.Workspace, file string) (*listTool, error) {
	l := &listTool{ws: ws, file: file}
	var err error
	l.Tool, err = aycoder.NewTool("write_list", "Write the list.", l.write, aycoder.WithEffect(aycoder.EffectWrite))
	return l, err
}

func (l *listTool) Plan(_ context.Context, inv *aycoder.Invocation) (edit.Plan, error) {
	var in listArgs
	if err := json.Unmarshal(inv.Args, &in); err != nil {
		return edit.Plan{}, err
	}
	now, err := os.ReadFile(l.file)
	if err != nil {
		return edit.Plan{}, err
	}
	return edit.NewPlan(edit.File{
		Path: "list.txt", Kind: edit.Change, Base: string(now), Proposed: in.Items,
	})
}

// Preview shows the plan to the person who is asked.
func (l *listTool) Preview(_ context.Context, inv *aycoder.Invocation) (string, error) {
	return inv.Plan.Preview(), nil
}

// write carries out the approved plan, or a new one if nobody was asked.
func (l *listTool) write(ctx context.Context, inv *aycoder.Invocation, _ listArgs) (*aycoder.ToolResult, error) {
	if inv.Plan == nil {
		plan, err := l.Plan(ctx, inv)
		if err != nil {
			return nil, err
		}
		inv.Plan = &plan
	}
	res, err := l.ws.Apply(ctx, *inv.Plan)
	if err != nil {
		return nil, err
	}
	r := aycoder.TextResult(inv.Plan.OmittedText() + res.ModelText())
	r.Changes = res
	return r, nil
}

// The user keeps one of two changes, and saves the file while the question is open.
func ExamplePlanner() {
	ws, file, remove := exampleDir("milk\nbread\nbutter\neggs\n")
	defer remove()
	list, err := newListTool(ws, file)
	if err != nil {
		fmt.Println(err)
		return
	}
	model := script.New(script.Call("write_list", listArgs{"oat milk\nbread\nbutter\nno eggs\n"}), script.Say("Done."))
	agent := newAgent(model, aycoder.WithTools(list), aycoder.WithApprover(asks))
	for ev, err := range agent.Run(context.Background(), aycoder.Input{Prompt: "I am vegan."}) {
		switch ev := ev.(type) {
		case *aycoder.ApprovalRequested:
			hunks := ev.Request.Plan.Hunks()
			kept, _ := ev.Request.Plan.Keep(hunks[0].ID)
			_ = os.WriteFile(file, []byte("milk\nbread\nbutter\neggs\ncheese\n"), 0o644)
			fmt.Println(ev.AllowPlan(kept))
		case *aycoder.Merged:
			fmt.Printf("merged %s: %+q\n", ev.File.Path, ev.File.UserChanges[0].New)
		case *aycoder.ToolFinished:
			fmt.Print(ev.Output.Text())
		case nil:
			fmt.Println(err)
		}
	}
	text, _ := os.ReadFile(file)
	fmt.Print("---\n", string(text))
	// Output:
	// <nil>
	// merged list.txt: "cheese\n"
	// The user reviewed your changes and left out a part, or changed it. Do not make these changes again unless asked to.
	//
	// list.txt: your text (-) and what was approved (+):
	// @@ line 4 @@
	// -no eggs
	// +eggs
	// list.txt: changed and merged; it had changed since you read it. The file now has (+) in place of your text (-):
	// @@ line 5 @@
	// +cheese
	// ---
	// oat milk
	// bread
	// butter
	// eggs
	// cheese
}

// exampleDir returns a workspace with one file in it.
func exampleDir(text string) (ws *workspace.Workspace, file string, remove func()) {
	dir, err := os.MkdirTemp("", "aycoder")
	if err != nil {
		panic(err)
	}
	file = filepath.Join(dir, "list.txt")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		panic(err)
	}
	if ws, err = workspace.Open(dir); err != nil {
		panic(err)
	}
	return ws, file, func() { ws.Close(); os.RemoveAll(dir) }
}
