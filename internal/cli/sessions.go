package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"strings"
	"time"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/journal"
	sessions "github.com/aycoder/aycoder/session"
	"github.com/aycoder/aycoder/tools"
)

const foundSessions = 20 // that a search shows

// sessionsCommand does what the arguments of "aycoder sessions" say.
func sessionsCommand(ctx context.Context, k *call) error {
	st, err := k.load(&options{})
	if err != nil {
		return err
	}
	store, err := k.store(st)
	if err != nil {
		return err
	}
	c := &sessionCall{k, store, tools.NewMasker(nil).Mask}
	switch k.action {
	case "list":
		return c.list(ctx)
	case "search":
		return c.search(ctx, strings.Join(k.args, " "))
	case "import":
		return c.read(ctx, k.arg(0))
	}
	e, err := find(ctx, store, k.arg(0))
	if err != nil {
		return err
	}
	switch k.action {
	case "replay":
		return c.replay(ctx, e.ID, k.arg(1))
	case "diff":
		other, err := find(ctx, store, k.arg(1))
		if err != nil {
			return err
		}
		return c.compare(ctx, &e, &other)
	case "rename":
		return c.rename(ctx, &e, strings.Join(k.args[1:], " "))
	case "delete":
		if err := store.Delete(ctx, e.ID); err != nil {
			return err
		}
		return c.done(e.ID, "Deleted")
	case "fork":
		return c.fork(ctx, e.ID)
	case "trim":
		return c.trim(ctx, e.ID)
	case "export":
		return c.export(ctx, e.ID, k.arg(1))
	}
	return c.show(ctx, e)
}

type sessionCall struct {
	*call
	store journal.Store
	mask  func(string) string // of secrets, in all that is not a copy to read again
}

// done reports what was done to a session.
func (c *sessionCall) done(id, what string) error {
	return c.print(map[string]string{"id": id}, func(w io.Writer) { fmt.Fprintln(w, what, id+".") })
}

func (c *sessionCall) list(ctx context.Context) error {
	all, err := sessionsHere(ctx, c.store, c.on["all"])
	if err != nil {
		return err
	}
	return printList(c.call, all, c.line, "There are no sessions of this directory; -all lists those of others.")
}

func (c *sessionCall) masked(e journal.Entry) journal.Entry {
	e.Title, e.Prompt = c.mask(e.Title), c.mask(e.Prompt)
	return e
}

// line describes a session on one line.
func (c *sessionCall) line(e *journal.Entry) string {
	text := e.ID + "  " + e.Used.Local().Format(time.DateTime) + "  " + titleOf(e)
	if c.on["all"] {
		text += "  (" + e.Dir + ")"
	}
	return text
}

func (c *sessionCall) search(ctx context.Context, words string) error {
	type hit struct {
		journal.Entry
		Excerpt string `json:"excerpt"`
	}
	found, err := sessions.Find(ctx, c.store, words, foundSessions)
	if err != nil && len(found) == 0 {
		return err
	}
	var hits []hit
	for _, h := range found {
		hits = append(hits, hit{c.masked(h.Entry), c.mask(h.Excerpt)})
	}
	none := "Nothing was found."
	if len(hits) == 0 {
		if more, err := sessions.Suggest(ctx, c.store, words, 5); err == nil && len(more) > 0 {
			none += "\nPerhaps it is: " + cleanLine(c.mask(strings.Join(more, ", ")))
		}
	}
	return printList(c.call, hits, func(h *hit) string { return c.line(&h.Entry) + "\n    " + cleanLine(h.Excerpt) }, none)
}

// show prints a conversation as people read it, or with -json what the list has of it.
func (c *sessionCall) show(ctx context.Context, e journal.Entry) error {
	if c.json {
		return c.print(c.masked(e), nil)
	}
	return c.export(ctx, e.ID, "md")
}

// view returns a conversation, and tells what of it cannot be read.
func (c *sessionCall) view(ctx context.Context, id string) (*sessions.View, error) {
	v, damage, err := sessions.Read(ctx, c.store, id)
	for _, d := range damage {
		c.tell(cleanLine(d.Error()))
	}
	return v, err
}

// export prints a conversation as a document. The text cannot control a terminal that it goes to.
func (c *sessionCall) export(ctx context.Context, id, format string) error {
	v, err := c.view(ctx, id)
	if err != nil {
		return err
	}
	format = cmp.Or(format, "json")
	write := exporter(v, v.Head(""), format)
	if write == nil {
		return fmt.Errorf("%w: no format %q; there are json, md and html", ErrUsage, format)
	}
	var b strings.Builder
	if err := write(&b); err != nil {
		return err
	}
	if c.attended() {
		return c.write(safe(format == "json", b.String()))
	}
	return c.write(b.String())
}

// exporter returns what writes a conversation up to a node in a format, or nil if there is no such format. Secrets are
// masked once more, but for JSON, of which import makes the same conversation.
func exporter(v *sessions.View, head sessions.ID, format string) func(io.Writer) error {
	mask := tools.NewMasker(nil).Mask
	switch format {
	case "json":
		return v.WriteJSON
	case "md":
		return func(w io.Writer) error { return v.WriteMarkdown(w, head, mask) }
	case "html":
		return func(w io.Writer) error { return v.WriteHTML(w, head, mask) }
	}
	return nil
}

func (c *sessionCall) rename(ctx context.Context, e *journal.Entry, title string) error {
	s, err := sessions.Open(ctx, c.store, e.ID, nobody{})
	if err != nil {
		return err
	}
	if err := errors.Join(s.SetTitle(ctx, title), s.Close()); err != nil {
		return err
	}
	return c.done(e.ID, "Renamed")
}

// fork makes a session of the conversation of another.
func (c *sessionCall) fork(ctx context.Context, id string) error {
	s, err := sessions.Open(ctx, c.store, id, nobody{})
	if err != nil {
		return err
	}
	b := s.BranchOf("")
	other, err := b.Fork(ctx, b.Head())
	if err == nil {
		err = other.Close()
	}
	if err := errors.Join(err, s.Close()); err != nil {
		return err
	}
	return c.done(other.ID(), "Forked as")
}

// trim makes a session smaller. Its conversation, and the versions of files in it, stay.
func (c *sessionCall) trim(ctx context.Context, id string) error {
	was, err := sizeOf(ctx, c.store, id)
	if err != nil {
		return err
	}
	s, err := sessions.Open(ctx, c.store, id, nobody{})
	if err != nil {
		return err
	}
	if err := errors.Join(s.Trim(ctx), s.Close()); err != nil {
		return err
	}
	is, err := sizeOf(ctx, c.store, id)
	if err != nil {
		return err
	}
	return c.print(map[string]any{"id": id, "bytes_before": was, "bytes": is}, func(w io.Writer) {
		fmt.Fprintf(w, "Trimmed %s from %s to %s.\n", id, bytesOf(was), bytesOf(is))
	})
}

// sizeOf returns how many bytes a session takes.
func sizeOf(ctx context.Context, store journal.Store, id string) (int64, error) {
	sizer, ok := store.(journal.Sizer)
	if !ok {
		return 0, errors.New("the size of sessions is not known")
	}
	return sizer.Size(ctx, id)
}

func bytesOf(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/(1<<20)) }

// read makes a session of a document that export has printed, or of a session of another program. That is a session of
// the directory in which it was made.
func (c *sessionCall) read(ctx context.Context, name string) error {
	here, err := directory()
	if err != nil {
		return err
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	export, dir, err := exportOf(data)
	if err != nil {
		return err
	}
	s, err := sessions.Import(ctx, c.store, nobody{}, bytes.NewReader(export), sessions.WithDir(cmp.Or(dir, here)))
	if err != nil {
		return err
	}
	title := s.View().Title()
	if title != "" { // the list does not have that of a document yet
		err = s.SetTitle(ctx, title)
	}
	if err := errors.Join(err, s.Close()); err != nil {
		return err
	}
	return c.done(s.ID(), "Imported as")
}

// nobody is the agent of a session in which nothing is asked.
type nobody struct{}

// Run implements [aycoder.Agent].
func (nobody) Run(context.Context, aycoder.Input, ...aycoder.RunOption) iter.Seq2[aycoder.Event, error] {
	return func(yield func(aycoder.Event, error) bool) { yield(nil, errors.New("nobody answers here")) }
}
