package chaos

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/protobuf/proto"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/contrib/temporal"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/session"
)

// formsOf returns in which forms data has a text: "plain", "hex", "base64", or "compressed" in gzip or zlib and then in any of these.
func formsOf(data []byte, text string) (forms []string) {
	add := func(form string, found bool) {
		if found && !slices.Contains(forms, form) {
			forms = append(forms, form)
		}
	}
	add("plain", bytes.Contains(data, []byte(text)))
	inHex := hex.EncodeToString([]byte(text))
	add("hex", bytes.Contains(data, []byte(inHex)) || bytes.Contains(data, []byte(strings.ToUpper(inHex))))
	for before := range 3 { // what is around the text determines the characters at its ends
		whole := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("\x00", before) + text))
		inside := whole[(before*8+5)/6 : (before+len(text))*8/6]
		add("base64", bytes.Contains(data, []byte(inside)) || bytes.Contains(data, []byte(strings.NewReplacer("+", "-", "/", "_").Replace(inside))))
	}
	for magic, open := range map[string]func(io.Reader) (io.ReadCloser, error){
		"\x1f\x8b\x08": func(r io.Reader) (io.ReadCloser, error) { return gzip.NewReader(r) },
		"\x78\x01":     zlib.NewReader, "\x78\x5e": zlib.NewReader, "\x78\x9c": zlib.NewReader, "\x78\xda": zlib.NewReader,
	} {
		for at := 0; ; at += len(magic) {
			i := bytes.Index(data[at:], []byte(magic))
			if i < 0 {
				break
			}
			at += i
			if r, err := open(bytes.NewReader(data[at:])); err == nil {
				inside, _ := io.ReadAll(io.LimitReader(r, 1<<20)) // as far as it is compressed data
				add("compressed", len(inside) >= len(text) && len(formsOf(inside, text)) > 0)
			}
		}
	}
	return forms
}

// tables calls f with the rows of each table of both databases of the Temporal server, in which texts and bytes stand as they are.
func (w *world) tables(f func(name string, rows []byte)) {
	ctx := w.t.Context()
	for _, database := range []string{"temporal", "temporal_visibility"} {
		conn, err := pgx.Connect(ctx, w.servers.Database.Address()+" dbname="+database)
		w.must(err)
		rows, err := conn.Query(ctx, `SELECT quote_ident(schemaname) || '.' || quote_ident(tablename) FROM pg_tables
			WHERE schemaname NOT IN ('pg_catalog', 'information_schema')`)
		w.must(err)
		names, err := pgx.CollectRows(rows, pgx.RowTo[string])
		w.must(err)
		if len(names) < 3 {
			w.t.Errorf("%s has the tables %v", database, names)
		}
		for _, name := range names {
			var b bytes.Buffer
			_, err := conn.PgConn().CopyTo(ctx, &b, "COPY "+name+" TO STDOUT (FORMAT binary)")
			w.must(err)
			f(database+" "+name, b.Bytes())
		}
		w.must(conn.Close(ctx))
	}
}

// files calls f with the files of PostgreSQL. Its log of changes has all that was ever in a row.
func (w *world) files(f func(name string, data []byte)) {
	conn, err := pgx.Connect(w.t.Context(), w.servers.Database.Address())
	w.must(err)
	_, err = conn.Exec(w.t.Context(), "CHECKPOINT")
	w.must(errors.Join(err, conn.Close(w.t.Context())))
	w.must(filepath.WalkDir(filepath.Join(w.servers.Database.Dir(), "data"), func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return ignoreMissing(err)
		}
		data, err := os.ReadFile(name)
		f(filepath.Base(name), data)
		return ignoreMissing(err)
	}))
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) { // the server has removed it since
		return nil
	}
	return err
}

// TestSecretsInTheDatabase checks that texts which a run says, does and finds, and the path of its workspace, are neither in the
// history nor in the databases of the Temporal server, at any moment. Other texts are put there, and are found.
func TestSecretsInTheDatabase(t *testing.T) {
	w := newWorld(t)
	const stem, place, planted = "s3cr3t-", "w0rkspace-XyZ", "pl4nted-"
	dir := filepath.Join(w.dir, place)
	var count atomic.Int64
	secret := func() string { return fmt.Sprintf("%s%02d in %s", stem, count.Add(1), dir) }
	ctx, store := t.Context(), journal.Memory() // not in a database, whose files are searched

	look := func(what string) {
		n := 0
		search := func(name string, data []byte) {
			n += len(data)
			for _, text := range []string{stem, place} {
				if forms := formsOf(data, text); len(forms) > 0 {
					t.Errorf("%s: %s has %q as %v", what, name, text, forms)
				}
			}
		}
		w.tables(search)
		if what == "at the end" {
			w.files(search)
		}
		t.Logf("%s: %d bytes were searched", what, n)
	}

	type args struct {
		Path string `json:"path"`
	}
	tool := func(name string, effect aycoder.Effect, f func(ctx context.Context, inv *aycoder.Invocation) (string, error)) aycoder.Tool {
		made, err := aycoder.NewTool(name, secret(), func(ctx context.Context, inv *aycoder.Invocation, _ args) (*aycoder.ToolResult, error) {
			text, err := f(ctx, inv)
			return aycoder.TextResult(text), err
		}, aycoder.WithEffect(effect))
		w.must(err)
		return made
	}
	var looks atomic.Int64
	tools := []aycoder.Tool{
		tool("look", aycoder.EffectReadOnly, func(ctx context.Context, inv *aycoder.Invocation) (string, error) {
			switch looks.Add(1) {
			case 1:
				return "", errors.New(secret())
			case 2:
				panic(secret())
			case 3:
				inv.Progress(aycoder.Progress{Message: secret()})
				eventually(t, func() (struct{}, error) { // until the server has heard of the progress
					d, err := w.client.DescribeWorkflowExecution(ctx, "run", "")
					if err == nil && !slices.ContainsFunc(d.PendingActivities, func(a *workflowpb.PendingActivityInfo) bool { return a.HeartbeatDetails != nil }) {
						err = errors.New("no heartbeat")
					}
					return struct{}{}, err
				})
				look("while a call works")
			}
			return secret() + strings.Repeat("x", 5000), nil
		}),
		tool(stem+"edit", aycoder.EffectWrite, func(context.Context, *aycoder.Invocation) (string, error) { return secret(), nil }),
		tool("delegate", aycoder.EffectReadOnly, func(ctx context.Context, _ *aycoder.Invocation) (string, error) {
			loop, err := aycoder.New(script.New(script.Say(secret())))
			if err != nil {
				return "", err
			}
			var res aycoder.Result
			for _, err := range loop.Run(ctx, aycoder.Input{Prompt: secret()}, aycoder.Into(&res)) {
				if err != nil {
					return "", err
				}
			}
			return res.Text(), nil
		}),
	}
	phone, err := aycoder.DeclareTool[args]("phone", secret())
	w.must(err)
	path := func() args { return args{secret()} }
	var steps []script.Step
	for range 4 {
		steps = append(steps, script.Reply(script.Think(secret()), script.Say(secret()), script.Call("look", path()), script.Call("look", path()),
			script.Call(stem+"edit", path())))
	}
	steps = append(steps, script.Call("delegate", path()), script.Fail(&aycoder.OverloadedError{ModelError: &aycoder.ModelError{Err: errors.New(secret())}}),
		script.Call("phone", path()), script.Fail(errors.New(secret())))
	model := script.New(steps...)
	loop := func() *aycoder.Loop {
		l, err := aycoder.New(model, aycoder.WithSystem(secret()), aycoder.WithTools(append(tools, phone)...),
			aycoder.WithApprover(aycoder.ApproverFunc(func(_ context.Context, c *aycoder.ToolUse, s *aycoder.ToolSpec) aycoder.Verdict {
				if s.Effect == aycoder.EffectReadOnly || c.Name == "phone" {
					return aycoder.Allow()
				}
				return aycoder.Ask()
			})))
		w.must(err)
		return l
	}
	s, err := session.New(ctx, store, loop())
	w.must(err)
	id := s.ID()
	w.must(s.Close())
	var opened atomic.Int64
	open := openWith(store, func(string) *aycoder.Loop { return loop() })
	startWorker(t, w.client, queue, temporal.Config{Store: store, Heartbeat: time.Second, Open: func(ctx context.Context, id string) (*temporal.Agent, error) {
		switch opened.Add(1) {
		case 1:
			return nil, fmt.Errorf("open %s: %s", dir, secret())
		case 2:
			panic(secret())
		}
		return open(ctx, id)
	}})

	temp := &temporal.Client{Temporal: w.client, Store: store}
	run, err := temp.Start(ctx, client.StartWorkflowOptions{ID: "run", TaskQueue: queue}, temporal.Input{Session: id}, aycoder.User(secret()))
	w.must(err)
	w.must(temp.Steer(ctx, "run", &aycoder.Steered{Message: aycoder.User(secret())}))
	var out temporal.Output
	ended := make(chan error, 1)
	go func() { ended <- run.Get(context.WithoutCancel(ctx), &out) }()
	answers := 0
	for over := false; !over; {
		select {
		case err := <-ended:
			w.must(err)
			over = true
			continue
		case <-time.After(50 * time.Millisecond):
		}
		p, err := temp.Pending(ctx, id)
		w.must(err)
		if status, err := temp.Status(ctx, "run"); err != nil || p == nil || len(status.Ask) == 0 {
			continue
		}
		look(fmt.Sprintf("while question %d is open", answers+1))
		for _, q := range p.Requests {
			args, err := json.Marshal(path())
			w.must(err)
			verdict := []aycoder.Verdict{aycoder.Allow(), aycoder.Deny(secret()), aycoder.AllowWith(args)}[answers%3]
			w.must(temp.Decide(ctx, "run", p, aycoder.Decision{CallID: q.CallID, Digest: q.Digest, Verdict: verdict}))
			answers++
		}
		for _, q := range p.Calls {
			w.must(temp.Answer(ctx, "run", p, aycoder.CallResult{CallID: q.CallID, Digest: q.Digest, Parts: []aycoder.Part{&aycoder.Text{Text: secret()}}}))
			answers++
		}
	}
	if out.End != aycoder.EndFailed || answers != 5 || looks.Load() < 6 || count.Load() < 40 {
		t.Errorf("%+v after %d answers, with %d secrets", out, answers, count.Load())
	}
	look("at the end")
	for it := w.client.GetWorkflowHistory(ctx, "run", run.GetRunID(), false, 0); it.HasNext(); {
		ev, err := it.Next()
		w.must(err)
		data, err := proto.Marshal(ev)
		w.must(err)
		for _, text := range []string{stem, place} {
			if forms := formsOf(data, text); len(forms) > 0 {
				t.Errorf("event %v has %q as %v", ev, text, forms)
			}
		}
	}
	view, _, err := session.Read(ctx, store, id)
	w.must(err)
	said, err := json.Marshal(view.Messages(view.Head("")))
	w.must(err)
	if n := bytes.Count(said, []byte(stem)); n < 20 {
		t.Errorf("the session has %d secrets", n)
	}
	t.Logf("%d secrets", count.Load())

	// The search finds what is there, in each form.
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, err = z.Write([]byte(planted))
	w.must(errors.Join(err, z.Close()))
	for form, value := range map[string]any{"plain": planted, "hex": hex.EncodeToString([]byte("a" + planted)), "compressed": zipped.Bytes(),
		"base64": base64.StdEncoding.EncodeToString([]byte("text " + planted + " text"))} {
		w.tables(func(name string, rows []byte) {
			if forms := formsOf(rows, planted); slices.Contains(forms, form) {
				t.Fatalf("%s has it as %v before it is planted", name, forms)
			}
		})
		_, err := w.client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: form, TaskQueue: "nobody", Memo: map[string]any{"note": value}}, "other")
		w.must(err)
		found := func(walk func(func(string, []byte))) (where []string) {
			walk(func(name string, data []byte) {
				if slices.Contains(formsOf(data, planted), form) {
					where = append(where, name)
				}
			})
			return where
		}
		eventually(t, func() (struct{}, error) {
			if where := found(w.tables); len(where) < 3 { // the history, the execution and what is shown of it
				return struct{}{}, fmt.Errorf("%s is found in %v", form, where)
			}
			return struct{}{}, nil
		})
		if where := found(w.files); len(where) == 0 {
			t.Errorf("%s is not found in the files of PostgreSQL", form)
		}
	}
}
