package server

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/session"
)

// answerTo sends a request and returns the body of the answer.
func answerTo(s *Server, r *http.Request) string {
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w.Body.String()
}

// The files are not those of another node while a call changes them.
func TestCheckoutDuringACall(t *testing.T) {
	s := served(t, script.New(script.Say("Hi.")))
	c, err := s.open(t.Context(), local, "", "")
	require.NoError(t, err)
	ask := fmt.Sprintf(`{"session":%q,"args":{"path":"a.txt","content":"x"}}`, c.id)
	require.Equal(t, 202, status(t, s, "POST", "/api/tools/write_file", ask))
	for len(c.newest().questions()) == 0 {
		<-c.newest().log.read(cursor{}).changed
	}
	for _, only := range []string{"files", "conversation", ""} {
		require.Equal(t, 409, status(t, s, "POST", "/api/sessions/"+c.id+"/checkout", fmt.Sprintf(`{"node":0,"only":%q}`, only)), only)
	}
	s.release(c)
	require.NoError(t, s.Close())
}

// A client that goes away in the middle of a checkout cancels nothing of it.
func TestCheckoutOfAClientThatIsGone(t *testing.T) {
	ctx, gone := context.WithCancel(t.Context())
	store, dir := &told{Store: journal.Memory()}, t.TempDir()
	name := filepath.Join(dir, "a.txt")
	s, err := New(Host{Store: func(string) journal.Store { return store }, Open: func(ctx context.Context, _, id string, opts ...session.Option) (*harness.Runtime, error) {
		return harness.New(ctx, dir, harness.WithClient(script.New(script.Call("write_file", map[string]string{"path": "a.txt", "content": "one\n"}), script.Say("Done."))),
			harness.WithStore(store, id, opts...))
	}})
	require.NoError(t, err)
	c, err := s.open(t.Context(), local, "", "")
	require.NoError(t, err)
	require.Equal(t, 202, status(t, s, "POST", "/api/prompt", fmt.Sprintf(`{"session":%q,"prompt":"go"}`, c.id)))
	r := c.newest()
	for len(r.questions()) == 0 {
		<-r.log.read(cursor{}).changed
	}
	q := r.questions()[0]
	require.Equal(t, 204, status(t, s, "POST", "/api/runs/"+r.id+"/approvals/"+q.call, fmt.Sprintf(`{"decision":"allow","digest":%q}`, q.digest)))
	<-r.done
	require.NoError(t, os.WriteFile(name, []byte("mine\n"), 0o600))
	store.append = gone
	answerTo(s, localRequest(ctx, "POST", "/api/sessions/"+c.id+"/checkout", fmt.Sprintf(`{"node":%d}`, c.rt.Session.Head())))
	require.Error(t, ctx.Err())
	data, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Equal(t, "one\n", string(data))
	s.release(c)
	require.NoError(t, s.Close())
}

// told is a store that tells when something is appended.
type told struct {
	journal.Store
	append func()
}

func (s *told) Create(ctx context.Context, id string) (journal.Journal, error) {
	j, err := s.Store.Create(ctx, id)
	return toldJournal{j, s}, err
}

type toldJournal struct {
	journal.Journal
	store *told
}

func (j toldJournal) Append(ctx context.Context, sync bool, records ...[]byte) error {
	if j.store.append != nil {
		j.store.append()
	}
	return j.Journal.Append(ctx, sync, records...)
}

// Whoever does not take the answer about another node keeps nobody from going on.
func TestCheckoutIsNotTaken(t *testing.T) {
	s := served(t, script.New(script.Say("Hi.")))
	c, err := s.open(t.Context(), local, "", "")
	require.NoError(t, err)
	w := &watched{ResponseRecorder: httptest.NewRecorder(), saw: func([]byte) {
		free := c.mu.TryLock()
		require.True(t, free)
		c.mu.Unlock()
	}}
	s.ServeHTTP(w, localRequest(t.Context(), "POST", "/api/sessions/"+c.id+"/checkout", `{"node":0}`))
	require.Equal(t, 200, w.Code, w.Body)
	s.release(c)
	require.NoError(t, s.Close())
}

// However many names of tools models make up, the calls of a tool that had figures before are counted as its own.
func TestFiguresOfManyTools(t *testing.T) {
	m := newMetrics()
	call := func(tool string) {
		m.call(local, &aycoder.ToolFinished{Call: &aycoder.ToolUse{Name: tool}, Output: &aycoder.ToolOutput{}})
	}
	call("bash")
	for i := range 2 * maxToolNames {
		call(fmt.Sprint("made_up_", i))
	}
	call("bash")
	all := map[string]int64{}
	for _, c := range m.all[local].ToolCalls {
		all[c.Tool] += c.Count
	}
	require.EqualValues(t, 2, all["bash"])
	require.EqualValues(t, maxToolNames+1, all["other"])
	require.LessOrEqual(t, len(all), maxToolNames+1)
}

// A client that goes away as soon as it has answered is in the audit log.
func TestAuditOfAClientThatIsGone(t *testing.T) {
	ctx, gone := context.WithCancel(t.Context())
	var kept []*aycoder.AuditRecord
	s := served(t, script.New(script.Call("write_file", map[string]string{"path": "a.txt", "content": "x"}), script.Say("Done.")),
		WithLogger(slog.New(leaves{slog.DiscardHandler, gone})), WithAudit(auditFunc(func(ctx context.Context, rec *aycoder.AuditRecord) error {
			if ctx.Err() == nil {
				kept = append(kept, rec)
			}
			return ctx.Err()
		})))
	c, err := s.open(t.Context(), local, "", "")
	require.NoError(t, err)
	require.Equal(t, 202, status(t, s, "POST", "/api/prompt", fmt.Sprintf(`{"session":%q,"prompt":"go"}`, c.id)))
	r := c.newest()
	for len(r.questions()) == 0 {
		<-r.log.read(cursor{}).changed
	}
	q := r.questions()[0]
	answerTo(s, localRequest(ctx, "POST", "/api/runs/"+r.id+"/approvals/"+q.call, fmt.Sprintf(`{"decision":"allow","digest":%q}`, q.digest)))
	require.Error(t, ctx.Err())
	require.Len(t, kept, 1)
	require.Equal(t, "answered by local", kept[0].Reason)
	s.release(c)
	require.NoError(t, s.Close())
}

type auditFunc func(context.Context, *aycoder.AuditRecord) error

func (f auditFunc) Audit(ctx context.Context, rec *aycoder.AuditRecord) error { return f(ctx, rec) }

// leaves is a log that lets the client go when its decision is noted.
type leaves struct {
	slog.Handler
	gone func()
}

func (l leaves) Enabled(context.Context, slog.Level) bool { return true }

func (l leaves) Handle(_ context.Context, rec slog.Record) error {
	if rec.Message == "decided" {
		l.gone()
	}
	return nil
}

// Other arguments together with a rule are two answers, of which none would be dropped in silence.
func TestArgumentsAndARule(t *testing.T) {
	s := served(t, script.New(script.Call("write_file", map[string]string{"path": "a.txt", "content": "x"}), script.Say("Done.")))
	c, err := s.open(t.Context(), local, "", "")
	require.NoError(t, err)
	require.Equal(t, 202, status(t, s, "POST", "/api/prompt", fmt.Sprintf(`{"session":%q,"prompt":"go"}`, c.id)))
	r := c.newest()
	for len(r.questions()) == 0 {
		<-r.log.read(cursor{}).changed
	}
	q := r.questions()[0]
	require.NotEmpty(t, q.ask.Suggested)
	body := fmt.Sprintf(`{"decision":"allow","digest":%q,"rule":%q,"args":{"path":"a.txt","content":"y"}}`, q.digest, q.ask.Suggested[0])
	require.Equal(t, 422, status(t, s, "POST", "/api/runs/"+r.id+"/approvals/"+q.call, body))
	require.Len(t, r.questions(), 1)
	s.release(c)
	require.NoError(t, s.Close())
}

// A front end that gets only a part of a run, since the journal cannot be read, does not take it for the whole.
func TestFormOfABrokenJournal(t *testing.T) {
	s := served(t, script.New(script.Say("Hi.")))
	c, err := s.open(t.Context(), local, "", "")
	require.NoError(t, err)
	const body = `{"id":"thread","messages":[{"id":"m1","role":"user","parts":[{"type":"text","text":"go"}]}]}`
	require.Contains(t, answerTo(s, localRequest(t.Context(), "POST", "/api/chat", body)), done)
	s.mu.Lock()
	for _, c := range s.table {
		if c.last != nil {
			c.last = nil // as in another process
			c.store = unread{c.store}
		}
	}
	s.mu.Unlock()
	require.PanicsWithValue(t, http.ErrAbortHandler, func() { answerTo(s, localRequest(t.Context(), "POST", "/api/chat", body)) })
	s.release(c)
	require.NoError(t, s.Close())
}

// unread is a store whose journals cannot be read.
type unread struct{ journal.Store }

func (u unread) Open(ctx context.Context, id string, write bool) (journal.Journal, error) {
	j, err := u.Store.Open(ctx, id, write)
	return unreadJournal{j}, err
}

type unreadJournal struct{ journal.Journal }

func (unreadJournal) Records(context.Context) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) { yield(nil, errors.New("the disk is broken")) }
}

// A host may panic while it opens a session. Others that want the session get an answer, and the server can end.
func TestOpenPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, dir, broken := journal.Memory(), t.TempDir(), true
		s, err := New(Host{Store: func(string) journal.Store { return store }, Open: func(ctx context.Context, _, id string, opts ...session.Option) (*harness.Runtime, error) {
			if broken {
				panic("secret of the host")
			}
			return harness.New(ctx, dir, harness.WithClient(script.New(script.Say("Hi."))), harness.WithStore(store, id, opts...))
		}})
		require.NoError(t, err)
		request := func() *http.Request {
			ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
			t.Cleanup(stop)
			r := localRequest(ctx, "POST", "/api/prompt", `{"prompt":"go"}`)
			r.Header.Set("Idempotency-Key", "k")
			return r
		}
		func() {
			defer func() { _ = recover() }() // as package http does
			told := answerTo(s, request())
			require.Contains(t, told, `"kind":"internal"`)
			require.NotContains(t, told, "secret")
		}()
		broken = false
		require.Contains(t, answerTo(s, request()), `"reason":"done"`)
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
		defer stop()
		require.NoError(t, s.Shutdown(ctx))
	})
}

// A token that no request would need is a mistake.
func TestTokenBesidePrincipal(t *testing.T) {
	h := served(t, script.New()).host
	h.Principal = func(*http.Request) (string, error) { return "alice", nil }
	_, err := New(h, WithToken("0123456789abcdef"))
	e, ok := errors.AsType[*aycoder.ConfigError](err)
	require.True(t, ok, "%v", err)
	require.Equal(t, "WithToken", e.Option)
}

// The address of a machine behind the server is in the log alone.
func TestTimeoutsTellNoAddress(t *testing.T) {
	failed := &net.OpError{Op: "read", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 9), Port: 5432}, Err: os.ErrDeadlineExceeded}
	p := problemOf(fmt.Errorf("open the session: %w", failed))
	require.Equal(t, 503, p.Status)
	require.NotContains(t, p.Detail, "10.0.0.9")
	require.Equal(t, "the runner is away: i/o timeout", problemOf(fmt.Errorf("the runner is away: %w", os.ErrDeadlineExceeded)).Detail)
}
