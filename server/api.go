package server

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"io/fs"
	"iter"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/runes"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/session"
	"github.com/aycoder/aycoder/snapshot"
)

const maxSessions = 1000 // in a list

// sessions lists the sessions of a principal, the one that was used last first.
func (s *Server) sessions(w http.ResponseWriter, r *http.Request) error {
	all, err := session.List(r.Context(), s.host.Store(principalOf(r)), nil)
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(e journal.Entry) bool { return e.ID == probeID })
	all = append([]journal.Entry{}, all[:min(len(all), maxSessions)]...)
	for i := range all {
		all[i].Dir = "" // says where things are on the host
	}
	reply(w, http.StatusOK, map[string]any{"sessions": all})
	return nil
}

// A node is a node of the tree of a session.
type node struct {
	ID      session.ID       `json:"id"`
	Parent  session.ID       `json:"parent"`
	Run     string           `json:"run,omitempty"`
	Branch  string           `json:"branch,omitempty"`
	At      time.Time        `json:"at,omitzero"`
	Label   string           `json:"label,omitempty"`
	Role    aycoder.Role     `json:"role,omitempty"`
	Text    string           `json:"text,omitempty"`
	Message *aycoder.Message `json:"message,omitempty"`
	Answer  *session.Answer  `json:"answer,omitempty"`
}

// nodes describes nodes: with their whole messages, or with the beginnings of the texts.
func nodes(v *session.View, all iter.Seq[*session.Node], id string, whole bool) []node {
	out := []node{}
	for n := range all {
		if n == nil {
			continue
		}
		x := node{ID: n.ID, Parent: n.Parent, Branch: n.Branch, At: n.At, Label: v.Label(n.ID)}
		if n.Run != "" {
			x.Run = id + "." + n.Run
		}
		if m := n.Message(); m != nil {
			x.Role = m.Role
			if whole {
				x.Message, x.Answer = m, n.Answer
			} else {
				x.Text = runes.Shorten(m.Text(), 200)
			}
		}
		out = append(out, x)
	}
	return out
}

// A conversationReply is what GET /api/sessions/{session} returns.
type conversationReply struct {
	ID      string        `json:"id"`
	Title   string        `json:"title"`
	Head    session.ID    `json:"head"`
	Phase   session.Phase `json:"phase"`
	Run     string        `json:"run,omitempty"` // that works, or that waits to be continued
	Usage   aycoder.Usage `json:"usage"`
	Cost    float64       `json:"cost"`
	Nodes   []node        `json:"nodes"` // from the root to the head
	Pending bool          `json:"pending"`
}

// session1 describes a session.
func (s *Server) session1(w http.ResponseWriter, _ *http.Request, c *conversation) error {
	b := c.rt.Session
	v := b.View()
	x := conversationReply{ID: c.id, Title: v.Title(), Head: b.Head(), Phase: b.Phase()}
	x.Usage, x.Cost = v.Usage()
	x.Nodes = nodes(v, slices.Values(v.Path(x.Head)), c.id, true)
	if p := b.Pending(); p != nil {
		x.Run, x.Pending = c.id+"."+p.Run, true
	}
	if last := c.newest(); last.working() {
		select {
		case <-last.begun:
			x.Run = last.id
		default: // it has no id yet
		}
	}
	reply(w, http.StatusOK, &x)
	return nil
}

// tree describes all nodes of a session.
func (s *Server) tree(w http.ResponseWriter, _ *http.Request, c *conversation) error {
	v := c.rt.Session.View()
	reply(w, http.StatusOK, map[string]any{"head": c.rt.Session.Head(), "nodes": nodes(v, allNodes(v), c.id, false)})
	return nil
}

// allNodes returns all nodes that are known, the oldest first.
func allNodes(v *session.View) iter.Seq[*session.Node] {
	return func(yield func(*session.Node) bool) {
		for i := range v.Len() {
			if n := v.Node(session.ID(i)); n != nil && !yield(n) {
				return
			}
		}
	}
}

// A checkout is the body of POST /api/sessions/{session}/checkout.
type checkout struct {
	Node   session.ID `json:"node"`
	Only   string     `json:"only,omitempty"` // "files" or "conversation"
	DryRun bool       `json:"dry_run,omitempty"`
}

// checkout continues a conversation at another node.
func (s *Server) checkout(w http.ResponseWriter, r *http.Request, in *checkout) error {
	var opts []session.MoveOption
	switch in.Only {
	case "":
	case "files":
		opts = append(opts, session.OnlyFiles())
	case "conversation":
		opts = append(opts, session.OnlyConversation())
	default:
		return invalid(`only is "files" or "conversation"`)
	}
	if in.DryRun {
		opts = append(opts, session.DryRun())
	}
	return s.inSession(func(_ http.ResponseWriter, _ *http.Request, c *conversation) error {
		if in.Node < 0 || int(in.Node) >= c.rt.Session.View().Len() {
			return notFound()
		}
		move, err := c.checkout(in.Node, opts...)
		if err != nil {
			return err
		}
		type file struct {
			Path   string          `json:"path"`
			Action snapshot.Action `json:"action"`
			Reason string          `json:"reason,omitempty"`
		}
		files := []file{}
		for _, f := range move.Files {
			files = append(files, file{f.Path, f.Action, f.Reason})
		}
		reply(w, http.StatusOK, map[string]any{"from": move.From, "to": move.To, "files": files})
		return nil
	})(w, r)
}

// checkout goes to another node, also if the client goes away: the files and the conversation must not part. Nothing works
// meanwhile, no call of a tool either.
func (c *conversation) checkout(id session.ID, opts ...session.MoveOption) (*session.Move, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.newest().working() {
		return nil, busy()
	}
	return c.rt.Session.Checkout(c.s.ctx, id, opts...)
}

// inSession makes an operation of one on the session in the path.
func (s *Server) inSession(serve func(w http.ResponseWriter, r *http.Request, c *conversation) error) operation {
	return func(w http.ResponseWriter, r *http.Request) error {
		c, err := s.open(r.Context(), principalOf(r), r.PathValue("session"), "")
		if err != nil {
			return err
		}
		defer s.release(c)
		return serve(w, r, c)
	}
}

// A toolReply describes a tool.
type toolReply struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"schema"`
	Reads       bool            `json:"read_only"`
}

// tools lists the tools of a session.
func (s *Server) tools(w http.ResponseWriter, r *http.Request) error {
	c, err := s.open(r.Context(), principalOf(r), r.URL.Query().Get("session"), toolsKey)
	if err != nil {
		return err
	}
	defer s.release(c)
	out := []toolReply{}
	for _, t := range c.rt.ToolsNow() {
		sp := t.Spec()
		out = append(out, toolReply{sp.Name, sp.Description, sp.Schema, sp.Effect == aycoder.EffectReadOnly})
	}
	reply(w, http.StatusOK, map[string]any{"tools": out})
	return nil
}

// toolsKey makes the session of calls that name none. It is a key that no request can send.
const toolsKey = "\x00tools"

// A toolCall is the body of POST /api/tools/{tool}.
type toolCall struct {
	Session string          `json:"session,omitempty"`
	Args    json.RawMessage `json:"args"`
}

// call makes a call of a tool as a run of one call, and streams its events.
func (s *Server) call(w http.ResponseWriter, r *http.Request, in *toolCall) error {
	c, err := s.open(r.Context(), principalOf(r), in.Session, toolsKey)
	if err != nil {
		return err
	}
	defer s.release(c)
	name := r.PathValue("tool")
	if !slices.ContainsFunc(c.rt.ToolsNow(), func(t aycoder.Tool) bool { return t.Spec().Name == name }) {
		return notFound()
	}
	x, err := c.begunCall(r.Context(), name, in.Args)
	if err != nil {
		return err
	}
	return s.answer(w, r, x, cursor{})
}

// callsBranch is the branch of a session in which calls without a model are. Each begins at the root.
const callsBranch = "calls"

// begunCall begins a call of a tool. Calls and runs of a session do not overlap.
func (c *conversation) begunCall(ctx context.Context, tool string, args json.RawMessage) (*run, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.newest().working() {
		return nil, busy()
	}
	agent, err := c.rt.Caller(tool, args)
	if err != nil {
		return nil, err
	}
	b := c.rt.Session.BranchOf(callsBranch)
	switch {
	case b == nil:
		b, err = c.rt.Session.NewBranch(ctx, callsBranch, session.Root, agent)
	case b.Pending() == nil: // else the run settles it
		_, err = b.Checkout(ctx, session.Root, session.OnlyConversation())
		fallthrough
	default:
		err = errors.Join(err, b.SetAgent(agent))
	}
	if err != nil {
		return nil, err
	}
	x := c.newRun(position{})
	x.call = true
	return x, c.begin(b, aycoder.Input{Parts: []aycoder.Part{&aycoder.Text{Text: "Call " + tool + "."}}}, x) // nobody has sent a prompt
}

// figures returns the metrics of a principal.
func (s *Server) figures(w http.ResponseWriter, r *http.Request) error {
	var data json.RawMessage
	s.metrics.with(principalOf(r), func(x *figures) { data, _ = json.Marshal(x) }) // numbers always encode
	reply(w, http.StatusOK, data)
	return nil
}

// health says that the server is alive.
func (s *Server) health(w http.ResponseWriter, _ *http.Request) error {
	reply(w, http.StatusOK, map[string]string{"status": "ok"})
	return nil
}

// ready says whether the server takes prompts: it does not end, and journals can be written.
func (s *Server) ready(w http.ResponseWriter, r *http.Request) error {
	stores := map[string]journal.Store{}
	s.mu.Lock()
	draining := s.draining
	for _, c := range s.table {
		if c.store != nil {
			stores[c.principal] = c.store
		}
	}
	s.mu.Unlock()
	if draining {
		return drains()
	}
	if s.host.Principal == nil {
		stores[local] = s.host.Store(local)
	}
	if err := s.writable(r.Context(), stores); err != nil {
		s.logger.WarnContext(r.Context(), "not ready", "error", err)
		return refuse(http.StatusServiceUnavailable, "journal", "the store of the sessions cannot be written")
	}
	reply(w, http.StatusOK, map[string]string{"status": "ready"})
	return nil
}

const (
	probeTime = 10 * time.Second // for which an answer about the stores holds, since anybody may ask
	probeID   = "ready-probe"    // of the session that tries a store
)

// writable reports whether sessions can be made in stores, and written. A store may hang, so nobody waits for longer than
// they like, and no second attempt begins.
func (s *Server) writable(ctx context.Context, stores map[string]journal.Store) error {
	s.mu.Lock()
	if s.draining { // whoever ends the server waits for the attempt that it knows
		s.mu.Unlock()
		return drains()
	}
	p := s.probe
	if p == nil || !p.at.IsZero() && time.Since(p.at) >= probeTime {
		p = &probe{done: make(chan struct{})}
		s.probe = p
		s.work.Go(func() {
			var errs []error
			for _, store := range stores {
				errs = append(errs, tries(s.ctx, store))
			}
			s.mu.Lock()
			p.err, p.at = errors.Join(errs...), time.Now()
			s.mu.Unlock()
			close(p.done)
		})
	}
	s.mu.Unlock()
	select {
	case <-p.done:
		return p.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A probe is an attempt to write to the stores.
type probe struct {
	done chan struct{}
	err  error     // once it is done
	at   time.Time // when it was done, or zero
}

// tries makes a session in a store, writes to it and deletes it.
func tries(ctx context.Context, store journal.Store) error {
	j, err := store.Create(ctx, probeID)
	switch {
	case errors.Is(err, fs.ErrExist): // another server tries just now, or one was killed while it did
		if err = store.Delete(ctx, probeID); asA[*journal.BusyError](err) || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	case err != nil:
		return err
	}
	err = errors.Join(j.Append(ctx, true, []byte("{}")), j.Close())
	if gone := store.Delete(ctx, probeID); !errors.Is(gone, fs.ErrNotExist) { // else another server has deleted it
		err = errors.Join(err, gone)
	}
	return err
}

//go:embed openapi.json
var openAPI []byte

func (s *Server) openAPI(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(openAPI)))
	_, _ = w.Write(openAPI) // the client is gone
	return nil
}
