package lsp

import (
	"cmp"
	"context"
	"errors"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/aycoder/aycoder/internal/search"
)

const (
	maxText = 4 << 20 // bytes of a file that is opened in a server
	maxOpen = 32      // files that stay open; a rename opens more for a moment
	maxWalk = 50_000  // entries of the workspace that are looked at for changes
)

var errText = errors.New("the file is not UTF-8 text, or too large")

// A document is a file that is open in a server, which then takes its text from the client and not from the
// disk.
type document struct {
	text      string
	version   int
	count     int   // how often errors were published for the file when the text was sent
	diagnosed bool  // the server was asked for errors since the last change of any file
	used      int64 // when, in calls
}

// documents is what a server was told of the files. Only the call that has the turn of the server uses it.
type documents struct {
	open  map[string]*document
	known map[string]stamp // the files on the disk that the server watches
	calls int64
	// version is the last version of any text. That of a file which is closed and opened again is a new one, too,
	// so that what the server still says of the old text is not taken for an answer.
	version int
	dirty   bool // something was sent since the server has last settled
}

// A stamp tells versions of a file apart without reading it.
type stamp struct {
	size int64
	time time.Time
}

// sync makes a text the current one of a file. It reports whether that is new to the server.
func (x *session) sync(name, text string) bool {
	d := x.docs.open[name]
	if d != nil {
		if d.used = x.docs.calls; d.text == text {
			return false
		}
	}
	x.resend(name, text)
	return true
}

// resend sends a text, also if the server has it already: it then publishes what it knows again.
func (x *session) resend(name, text string) {
	d, again := x.docs.open[name], true
	if d == nil {
		d, again = &document{used: x.docs.calls}, false
		x.docs.open[name] = d
	}
	x.docs.version++
	d.text, d.version = text, x.docs.version
	d.count = x.store.expect(name)
	x.soil()
	id := map[string]any{"uri": x.uri(name), "version": d.version}
	if again && x.Reopen {
		again = false
		d.count++ // of the closed file
		_ = x.conn.notify("textDocument/didClose", map[string]any{"textDocument": map[string]any{"uri": x.uri(name)}})
	}
	if again {
		_ = x.conn.notify("textDocument/didChange", map[string]any{
			"textDocument": id, "contentChanges": []any{map[string]string{"text": text}}})
		return
	}
	id["languageId"], id["text"] = x.Languages[path.Ext(name)], text
	_ = x.conn.notify("textDocument/didOpen", map[string]any{"textDocument": id})
}

// soil says that what the server has said may be out of date.
func (x *session) soil() {
	x.docs.dirty = true
	for _, d := range x.docs.open {
		d.diagnosed = false
	}
}

// drop closes a file. The server then takes its text from the disk.
func (x *session) drop(name string) {
	if x.docs.open[name] == nil {
		return
	}
	delete(x.docs.open, name)
	x.store.forget(name)
	_ = x.conn.notify("textDocument/didClose", map[string]any{"textDocument": map[string]any{"uri": x.uri(name)}})
}

// trim closes the files that were not used for the longest time.
func (x *session) trim() {
	for _, name := range x.recent()[min(maxOpen, len(x.docs.open)):] {
		x.drop(name)
	}
}

// recent returns the open files, the last used first.
func (x *session) recent() []string {
	return slices.SortedFunc(maps.Keys(x.docs.open), func(a, b string) int {
		return cmp.Or(cmp.Compare(x.docs.open[b].used, x.docs.open[a].used), strings.Compare(a, b))
	})
}

func (x *session) uri(name string) string { return uriOf(x.client.absolute(name)) }

// The kinds of changes of files on the disk.
const (
	fileCreated = 1
	fileChanged = 2
	fileDeleted = 3
)

// tell tells the server of a change on the disk.
func (x *session) tell(name string, kind int) {
	x.soil()
	_ = x.conn.notify("workspace/didChangeWatchedFiles", map[string]any{
		"changes": []any{map[string]any{"uri": x.uri(name), "type": kind}}})
}

// refresh tells the server what others have changed on the disk since the last call, apart from own files,
// and reports whether that was anything.
func (x *session) refresh(ctx context.Context, own map[string]bool) bool {
	x.docs.calls++
	x.trim()
	now, ok := x.client.walk(ctx, x.watches)
	if !ok {
		return false // what was not seen counts as unchanged
	}
	changed := false
	for name, st := range now {
		old, known := x.docs.known[name]
		switch {
		case own[name]: // somebody may have changed it since: it is looked at again at the next call
			now[name] = stamp{size: -1}
		case known && old == st:
		case x.docs.open[name] != nil:
			changed = x.reread(name) || changed
		default:
			changed = true
			kind := fileChanged
			if !known {
				kind = fileCreated
			}
			x.tell(name, kind)
		}
	}
	for name := range x.docs.known {
		if _, there := now[name]; !there && !own[name] {
			changed = true
			x.drop(name)
			x.tell(name, fileDeleted)
		}
	}
	x.docs.known = now
	return changed
}

// reread brings an open file up to date with the disk, and reports whether that has changed anything.
func (x *session) reread(name string) bool {
	text, err := x.client.read(name)
	if err != nil {
		x.drop(name)
		return true
	}
	return x.sync(name, text)
}

// walk returns the files of the workspace that match, as git would list them. It returns false if ctx ends or
// there are too many.
func (c *Client) walk(ctx context.Context, match func(string) bool) (map[string]stamp, bool) {
	found, seen := map[string]stamp{}, 0
	down := []search.Directory{search.Start(c.files, ".", nil)}
	for len(down) > 0 {
		dir := down[len(down)-1]
		down = down[:len(down)-1]
		listing, err := search.Children(ctx, c.files, dir, true)
		if seen++; ctx.Err() != nil || seen > maxWalk {
			return nil, false
		}
		if err != nil {
			continue // a directory that cannot be read has no files
		}
		down = append(down, listing.Down...)
		seen += len(listing.Entries)
		for _, e := range listing.Entries {
			if !e.Entry.Type().IsRegular() || !match(e.Path) {
				continue
			}
			if info, err := e.Entry.Info(); err == nil {
				found[e.Path] = stamp{info.Size(), info.ModTime()}
			}
		}
	}
	return found, true
}

// read returns the text of a file of the workspace.
func (c *Client) read(name string) (string, error) {
	f, err := c.files.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	var b strings.Builder
	if _, err := io.Copy(&b, io.LimitReader(f, maxText+1)); err != nil {
		return "", err
	}
	if text := b.String(); fit(text) {
		return text, nil
	}
	return "", errText
}

// fit reports whether a server can be sent a text without changing it.
func fit(text string) bool { return len(text) <= maxText && utf8.ValidString(text) }
