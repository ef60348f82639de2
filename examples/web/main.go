// Web runs an agent whose questions are answered over HTTP: GET /approvals lists them, and
// POST /approvals/ID answers one. It needs neither a network nor a key.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/policy"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/tools"
)

// A desk holds the questions that wait for an answer. It is safe for concurrent use.
type desk struct {
	mu   sync.Mutex
	last int
	open map[int]*aycoder.Approval
}

// put adds a question, and returns its id. Detach lets it be answered after the body of
// the loop has returned. The desk must keep the handle, since a lost one denies the call.
func (d *desk) put(q *aycoder.ApprovalRequested) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.open == nil {
		d.open = make(map[int]*aycoder.Approval)
	}
	d.last++
	d.open[d.last] = q.Detach()
	return d.last
}

// get returns a question. It returns nil if its call has ended, and false if there never was
// such a question.
func (d *desk) get(id int) (*aycoder.Approval, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.open[id], id > 0 && id <= d.last
}

// drop removes a question whose call has ended. An answer does not remove it: one that is
// refused leaves the question open.
func (d *desk) drop(id int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.open, id)
}

// handler returns the HTTP API. It refuses answers that a page of another site sends, and serves
// only the host by whose name it is reached: another name may point here just for a moment.
// Put your own login in front of it: whoever reaches it can approve.
func (d *desk) handler(host string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+host+"/approvals", d.list)
	mux.HandleFunc("POST "+host+"/approvals/{id}", d.answer)
	return http.NewCrossOriginProtection().Handler(mux)
}

// A question is what the user sees of a call.
type question struct {
	ID int `json:"question"`
	*aycoder.ApprovalRequest
}

func (d *desk) list(w http.ResponseWriter, _ *http.Request) {
	d.mu.Lock()
	questions := []question{}
	for id, a := range d.open {
		if !a.Decided() { // also by a rule that answered another question
			questions = append(questions, question{id, a.Request})
		}
	}
	d.mu.Unlock()
	slices.SortFunc(questions, func(a, b question) int { return cmp.Compare(a.ID, b.ID) })
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(questions)
}

func (d *desk) answer(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Allow  *bool  `json:"allow"`
		Reason string `json:"reason"`
		Rule   string `json:"rule"`
	}
	if json.NewDecoder(http.MaxBytesReader(w, r.Body, 64<<10)).Decode(&in) != nil || in.Allow == nil {
		http.Error(w, `want {"allow":true}, {"allow":true,"rule":"…"} or {"allow":false,"reason":"…"}`, http.StatusBadRequest)
		return
	}
	id, _ := strconv.Atoi(r.PathValue("id"))
	a, ok := d.get(id)
	if !ok {
		http.Error(w, "no such question", http.StatusNotFound)
		return
	}
	won, err := false, error(nil)
	switch {
	case a == nil: // the call has ended
	case !*in.Allow:
		won = a.Deny(in.Reason)
	case in.Rule == "":
		won = a.Allow()
	default: // the call, and its like in this session
		err = a.AllowFor(aycoder.Session, in.Rule)
		won = !errors.Is(err, aycoder.ErrDecided)
	}
	_, unkept := errors.AsType[*aycoder.RuleError](err)
	switch {
	case !won: // another answer was first, the run ended, or a limit of time denied the call
		http.Error(w, "too late", http.StatusConflict)
	case unkept:
		http.Error(w, "the call is allowed, but there is no rule: "+err.Error(), http.StatusInternalServerError)
	case err != nil: // the question is still open
		http.Error(w, err.Error(), http.StatusUnprocessableEntity)
	}
}

// run lets an agent work, and puts its questions on the desk.
func run(ctx context.Context, w io.Writer, agent aycoder.Agent, d *desk, prompt string) error {
	asked := make(map[string]int) // from the id of a call to that of its question
	defer func() {
		for _, id := range asked {
			d.drop(id)
		}
	}()
	for ev, err := range agent.Run(ctx, aycoder.Input{Prompt: prompt}) {
		if err != nil {
			return err
		}
		switch ev := ev.(type) {
		case *aycoder.ApprovalRequested:
			id := d.put(ev)
			asked[ev.Request.CallID] = id
			fmt.Fprintf(w, "question %d: %s %s\n", id, ev.Request.Tool, tools.EscapeInvisible(string(ev.Request.Args)))
		case *aycoder.ToolFinished:
			d.drop(asked[ev.Call.ID])
			fmt.Fprintln(w, tools.EscapeInvisible(ev.Output.Text()))
		case *aycoder.TextDelta:
			fmt.Fprint(w, tools.EscapeInvisible(ev.Text))
		case *aycoder.Retrying:
			if ev.Discarded { // a page would remove the text since the last TurnFinished
				fmt.Fprintln(w, "\n(the answer starts again)")
			}
		}
	}
	return nil
}

func newAgent(model aycoder.ModelClient, opts ...aycoder.Option) (*aycoder.Loop, error) {
	type args struct {
		Target string `json:"target"`
	}
	deploy := func(_ context.Context, _ *aycoder.Invocation, in args) (*aycoder.ToolResult, error) {
		return aycoder.TextResult("deployed to " + in.Target), nil
	}
	tool, err := aycoder.NewTool("deploy", "Deploys the program.", deploy, aycoder.WithEffect(aycoder.EffectWrite))
	if err != nil {
		return nil, err
	}
	// Calls that only read run, and every other call is a question.
	approver, err := policy.New()
	if err != nil {
		return nil, err
	}
	opts = append(opts, aycoder.WithTools(tool), aycoder.WithApprover(approver))
	return aycoder.New(model, opts...)
}

func main() {
	model := script.New(
		script.Reply(script.Call("deploy", `{"target":"staging"}`), script.Call("deploy", `{"target":"production"}`)),
		script.Say("Done.\n"),
	)
	agent, err := newAgent(model)
	if err != nil {
		log.Fatal(err)
	}
	var d desk
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, fail := context.WithCancelCause(ctx)
	server := &http.Server{Addr: "127.0.0.1:8080", Handler: d.handler("127.0.0.1"), ReadHeaderTimeout: 10 * time.Second}
	go func() { fail(server.ListenAndServe()) }()
	fmt.Println("Questions: http://127.0.0.1:8080/approvals")
	if err := run(ctx, os.Stdout, agent, &d, "Deploy it."); err != nil {
		log.Fatal(cmp.Or(context.Cause(ctx), err))
	}
}
