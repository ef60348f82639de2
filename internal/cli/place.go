package cli

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/journal"
	sessions "github.com/aycoder/aycoder/session"
	"github.com/aycoder/aycoder/tools"
	"github.com/aycoder/aycoder/workspace"
)

const pruneTime = time.Second // for old sessions, also at the end by a signal; the next end of a session goes on

// A sessionPlace is where conversations are kept.
type sessionPlace struct {
	store journal.Store
	kept  bool   // on disk
	note  string // says why it is not, although it should be
}

// stateDir is the user's directory for what programs keep between their runs, or "" if the environment does not
// set one.
func stateDir(getenv func(string) string, system string) string {
	dir := getenv("XDG_STATE_HOME")
	if dir == "" && system == "windows" {
		dir = getenv("LOCALAPPDATA")
	}
	if home := getenv("HOME"); dir == "" && home != "" {
		dir = filepath.Join(home, ".local", "state")
	}
	if !filepath.IsAbs(dir) {
		return ""
	}
	return filepath.Join(dir, "aycoder")
}

// StateDir is the user's directory for what the program keeps between its runs, or "" if there is none.
func StateDir() string { return stateDir(os.Getenv, runtime.GOOS) }

// state returns a name in that directory, or "" if there is none.
func (a *app) state(elem ...string) string {
	dir := stateDir(a.getenv, runtime.GOOS)
	if dir == "" {
		return ""
	}
	return filepath.Join(append([]string{dir}, elem...)...)
}

// sessionDir is the directory of the sessions, or "" if there is no place for them.
func (a *app) sessionDir(st *settings) string {
	dir := ""
	if st.loaded != nil {
		dir = st.loaded.Config.Session.Dir
	}
	return cmp.Or(dir, a.state("sessions"))
}

// place returns where the conversation is kept. Where nothing can be kept, the work is done all the same.
func (a *app) place(o *options, st *settings) *sessionPlace {
	if o.noSession {
		return &sessionPlace{store: journal.Memory()}
	}
	store, err := a.store(st)
	if err == nil {
		err = keeps(a.sessionDir(st))
	}
	if err != nil {
		return &sessionPlace{store: journal.Memory(), note: "this conversation is not kept: " + err.Error()}
	}
	return &sessionPlace{store: store, kept: true}
}

// store opens the sessions of the user.
func (a *app) store(st *settings) (journal.Store, error) {
	dir := a.sessionDir(st)
	if dir == "" {
		return nil, fmt.Errorf("there is no place for sessions: HOME is not set")
	}
	return journal.Dir(dir)
}

// prune deletes the sessions that the user does not want to keep any longer, if the configuration says so. A session
// that is open stays.
func (a *app) prune(st *settings) {
	if st == nil || st.loaded == nil {
		return
	}
	c := st.loaded.Config.Session
	if c.Keep <= 0 && c.MaxBytes <= 0 {
		return
	}
	var before time.Time
	if c.Keep > 0 {
		before = time.Now().Add(-c.Keep)
	}
	ctx, cancel := context.WithTimeout(context.Background(), pruneTime)
	defer cancel()
	var gone []string
	store, err := a.store(st)
	if err == nil {
		gone, err = journal.Prune(ctx, store, before, c.MaxBytes)
	}
	if len(gone) > 0 {
		a.tell("deleted " + count(len(gone), "old session") + ", as session.keep and session.max_bytes say")
	}
	if err != nil {
		a.tell("delete old sessions: " + clean(err.Error()))
	}
}

// choose returns the ids of the sessions to try, in order: "" is a new one.
func (p *sessionPlace) choose(ctx context.Context, o *options) ([]string, error) {
	if !o.last && o.resume == "" {
		return []string{""}, nil
	}
	if !p.kept {
		return nil, fmt.Errorf("go on with a session: %s", p.note)
	}
	if o.resume != "" {
		e, err := find(ctx, p.store, o.resume)
		if err != nil {
			return nil, err
		}
		here, err := directory()
		if err != nil {
			return nil, err
		}
		return []string{e.ID}, belongs(e, here)
	}
	all, err := sessionsHere(ctx, p.store, false)
	var ids []string
	for _, e := range all {
		ids = append(ids, e.ID)
	}
	return append(ids, ""), err
}

// sessionsHere returns the sessions of this directory, or of all, the newest first.
func sessionsHere(ctx context.Context, store journal.Store, all bool) ([]journal.Entry, error) {
	here, err := directory()
	if err != nil {
		return nil, err
	}
	return sessions.List(ctx, store, listedOf(here, all))
}

// listedOf says which sessions a list has: those of a directory, or all. It masks secrets in what a list shows of them.
func listedOf(dir string, all bool) func(*journal.Entry) bool {
	mask := tools.NewMasker(nil).Mask
	return func(e *journal.Entry) bool {
		if !all && e.Dir != dir {
			return false
		}
		e.Title, e.Prompt = mask(e.Title), mask(e.Prompt)
		return true
	}
}

// directory returns the name of this directory as sessions have it.
func directory() (string, error) {
	ws, err := workspace.Open(".")
	if err != nil {
		return "", err
	}
	defer ws.Close()
	return ws.Dir(), nil
}

// nameOf returns what stands for a directory in the names of the user's files about it.
func nameOf(dir string) string {
	sum := sha256.Sum256([]byte(dir))
	return fmt.Sprintf("%x", sum[:8])
}

// find returns the session whose id begins with a text.
func find(ctx context.Context, store journal.Store, prefix string) (journal.Entry, error) {
	wrong := func(format string, args ...any) error {
		return &aycoder.ConfigError{Option: "session " + prefix, Err: fmt.Errorf(format, args...)}
	}
	if prefix == "" { // such as that of a variable that is not set, with which each id begins
		return journal.Entry{}, wrong("an id is missing")
	}
	all, err := sessions.List(ctx, store, func(e *journal.Entry) bool { return strings.HasPrefix(e.ID, prefix) })
	if err != nil {
		return journal.Entry{}, err
	}
	if e, ok := first(all, func(e journal.Entry) bool { return e.ID == prefix }); ok {
		return e, nil
	}
	switch len(all) {
	case 0:
		return journal.Entry{}, wrong("there is none whose id begins so; see aycoder sessions")
	case 1:
		return all[0], nil
	}
	return journal.Entry{}, wrong("there are %d whose ids begin so, such as %s and %s", len(all), all[0].ID, all[1].ID)
}

// belongs reports a session of another directory, unless that is gone: its files are not those that are here.
func belongs(e journal.Entry, here string) error {
	if e.Dir == "" || e.Dir == here {
		return nil
	}
	if _, err := os.Stat(e.Dir); err != nil {
		return nil
	}
	return &aycoder.ConfigError{Option: "-r " + e.ID, Err: fmt.Errorf("the session is one of %s; add -C %s", e.Dir, quoteShell(e.Dir))}
}

// titleOf returns what a session is about, on one line.
func titleOf(e *journal.Entry) string {
	return cleanLine(cmp.Or(e.Title, e.Prompt, "(nothing was said)"))
}
