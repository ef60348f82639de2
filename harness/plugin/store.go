package plugin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/aycoder/aycoder/internal/flock"
	"github.com/aycoder/aycoder/internal/jsontext"
	"github.com/aycoder/aycoder/internal/late"
	"github.com/aycoder/aycoder/internal/regular"
	"github.com/aycoder/aycoder/internal/replace"
)

// Store keeps installed plugins in a directory. It is safe for concurrent use, also by several processes. The directory
// must not be in one that comes with a project: whoever can write it decides what runs.
type Store struct{ dir string }

// NewStore returns the plugins in a directory, which [Staged.Install] creates.
func NewStore(dir string) *Store { return &Store{dir} }

// Installed is a plugin of a store.
type Installed struct {
	// Name is that under which it is installed. Source says where it comes from, with the commit.
	Name   string
	Source Source
	// Enabled is false if the user has switched it off. Trusted says that the user trusts these contents.
	Enabled, Trusted bool
	// Plugin is what it brings. If it cannot be read, or if its files are not those that were installed, Plugin is nil,
	// and Err says why.
	Plugin *Plugin
	Err    error
}

// record is a plugin in the index.
type record struct {
	Source  Source `json:"source"`
	Hash    string `json:"hash"`
	Off     bool   `json:"off,omitempty"`
	Trusted string `json:"trusted,omitempty"` // the hash of what the user trusts
}

type indexJSON struct {
	Version int               `json:"version"`
	Plugins map[string]record `json:"plugins"`
}

const (
	maxIndex   = 4 << 20
	maxPlugins = 256
)

func (s *Store) index() string { return filepath.Join(s.dir, "plugins.json") }

// place is the directory of the files of a plugin.
func (s *Store) place(name, hash string) string {
	return filepath.Join(s.dir, "files", name+"-"+hash[:min(len(hash), 16)])
}

func (s *Store) load() (map[string]record, error) {
	data, err := regular.Read(s.index(), maxIndex)
	if errors.Is(err, fs.ErrNotExist) {
		return map[string]record{}, nil
	}
	var x indexJSON
	if err == nil {
		err = jsontext.Decode(data, &x)
	}
	if err == nil && x.Version != 1 {
		err = errors.New("not of version 1")
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", s.index(), err)
	}
	for name, r := range x.Plugins {
		if !plain().MatchString(name) || !commitName().MatchString(r.Hash) {
			return nil, fmt.Errorf("read %s: %.100q is no plugin", s.index(), name)
		}
	}
	if x.Plugins == nil {
		x.Plugins = map[string]record{}
	}
	return x.Plugins, nil
}

// change changes the index while no other process does.
func (s *Store) change(ctx context.Context, op, name string, f func(map[string]record) error) error {
	err := func() error {
		if err := os.MkdirAll(s.dir, 0o700); err != nil {
			return err
		}
		unlock, err := flock.Lock(ctx, s.index()+".lock")
		if err != nil {
			return err
		}
		defer unlock()
		all, err := s.load()
		if err != nil {
			return err
		}
		if err := f(all); err != nil {
			return err
		}
		data, err := json.MarshalIndent(indexJSON{1, all}, "", "\t")
		if err != nil {
			return err
		}
		if err := replace.File(s.index(), ".plugins-*", func(f *os.File) error {
			_, err := f.Write(append(data, '\n'))
			return err
		}); err != nil {
			return err
		}
		s.sweep(all)
		return nil
	}()
	if err != nil {
		return &Error{Op: op, Plugin: name, Err: err}
	}
	return nil
}

// stored are the names of directories with the files of plugins.
var stored = late.Regexp(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}-[0-9a-f]{16}$`)

// sweep removes the files of plugins that are no longer in the index.
func (s *Store) sweep(all map[string]record) {
	old, _ := filepath.Glob(filepath.Join(s.dir, ".staged-*"))
	for _, dir := range old {
		if info, err := os.Lstat(dir); err == nil && time.Since(info.ModTime()) > 24*time.Hour { // of a process that died
			_ = os.RemoveAll(dir)
		}
	}
	keep := map[string]bool{}
	for name, r := range all {
		keep[filepath.Base(s.place(name, r.Hash))] = true
	}
	if info, err := os.Lstat(filepath.Join(s.dir, "files")); err != nil || !info.IsDir() {
		return
	}
	entries, _ := os.ReadDir(filepath.Join(s.dir, "files")) // what stays is in nobody's way
	for _, e := range entries {
		if !keep[e.Name()] && stored().MatchString(e.Name()) {
			_ = os.RemoveAll(filepath.Join(s.dir, "files", e.Name()))
		}
	}
}

// List returns the installed plugins, sorted by name. It reads all of their files. The error is that of the index.
func (s *Store) List(ctx context.Context) ([]Installed, error) {
	all, err := s.load()
	if err != nil {
		return nil, &Error{Op: "list", Plugin: s.dir, Err: err}
	}
	var out []Installed
	for _, name := range slices.Sorted(maps.Keys(all)) {
		r := all[name]
		x := Installed{Name: name, Source: r.Source, Enabled: !r.Off, Trusted: r.Trusted == r.Hash}
		x.Plugin, x.Err = Read(ctx, s.place(name, r.Hash), name)
		if x.Err == nil && (x.Plugin.Hash != r.Hash || x.Plugin.Name != name) {
			x.Err = &Error{Op: "read", Plugin: name, Err: errors.New("its files are not those that were installed")}
		}
		if x.Err != nil {
			x.Plugin = nil
		}
		out = append(out, x)
	}
	return out, context.Cause(ctx)
}

// Change is a file that an update changes.
type Change struct {
	Name string
	// Added and Removed are false if the file stays with other contents.
	Added, Removed bool
}

// Staged is a plugin that has been fetched and can be looked at.
type Staged struct {
	// Plugin is what would be installed. Source is where it comes from, with the commit.
	Plugin *Plugin
	Source Source
	// Before is the installed plugin of this name, or nil, and Changes are the differences of their files, by name. If
	// the installed one cannot be read, all files are added.
	Before  *Plugin
	Changes []Change

	store *Store
	dir   string
}

// Stage fetches a plugin to be looked at, and then installed. For an update, pass the Source of the installed one
// without its Commit. The caller calls Discard in the end. The error is an [*Error].
func (s *Store) Stage(ctx context.Context, from Source) (*Staged, error) {
	st, err := s.stage(ctx, from)
	if err != nil {
		return nil, &Error{Op: "fetch", Plugin: from.String(), Err: err}
	}
	return st, nil
}

func (s *Store) stage(ctx context.Context, from Source) (_ *Staged, err error) {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return nil, err
	}
	st := &Staged{store: s}
	if st.dir, err = os.MkdirTemp(s.dir, ".staged-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = st.Discard()
		}
	}()
	var left []string
	if st.Source, left, err = fetch(ctx, from, st.dir); err != nil {
		return nil, err
	}
	if st.Plugin, err = read(ctx, st.dir, from.name()); err != nil {
		return nil, err
	}
	for _, name := range left { // which are not in the copy
		st.Plugin.leftOut(name)
	}
	if from.Name != "" && st.Plugin.Name != from.Name {
		return nil, fmt.Errorf("it is %q and not %q", st.Plugin.Name, from.Name)
	}
	all, err := s.load()
	if err != nil {
		return nil, err
	}
	if r, ok := all[st.Plugin.Name]; ok {
		st.Before, _ = Read(ctx, s.place(st.Plugin.Name, r.Hash), st.Plugin.Name) // see Before
	}
	st.Changes = changes(st.Before, st.Plugin)
	return st, context.Cause(ctx)
}

// name is that of a plugin without a manifest.
func (s Source) name() string {
	if s.Name != "" {
		return s.Name
	}
	for _, dir := range []string{s.Subdir, filepath.ToSlash(s.Path), strings.TrimSuffix(s.Git, ".git")} {
		base := strange().ReplaceAllString(path.Base(path.Clean(dir)), "-")
		if base = strings.TrimLeft(base, "-._"); base != "" {
			return base[:min(len(base), 64)]
		}
	}
	return "plugin"
}

func changes(before, after *Plugin) []Change {
	var was map[string]file
	if before != nil {
		was = before.Files.files
	}
	var out []Change
	for name, x := range after.Files.files {
		if old, ok := was[name]; !ok || old != x {
			out = append(out, Change{Name: name, Added: !ok})
		}
	}
	for name := range was {
		if _, ok := after.Files.files[name]; !ok {
			out = append(out, Change{Name: name, Removed: true})
		}
	}
	slices.SortFunc(out, func(a, b Change) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// Install puts the plugin into the store, in place of the one of its name. A new one is switched on; one that was there
// stays as it was. Its contents are not trusted: see [Store.Trust].
func (st *Staged) Install(ctx context.Context) error {
	p, s := st.Plugin, st.store
	return s.change(ctx, "install", p.Name, func(all map[string]record) error {
		r, known := all[p.Name]
		if !known && len(all) >= maxPlugins {
			return fmt.Errorf("there are already %d", maxPlugins)
		}
		if st.dir == "" {
			return errors.New("has been installed")
		}
		if err := p.Verify(ctx); err != nil {
			return err
		}
		to := s.place(p.Name, p.Hash)
		if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			return err
		}
		moved, err := Read(ctx, to, p.Name)
		if err != nil || moved.Hash != p.Hash { // missing, or damaged
			if err := errors.Join(context.Cause(ctx), os.RemoveAll(to), os.Rename(st.dir, to)); err != nil {
				return err
			}
			st.dir = ""
			if moved, err = Read(ctx, to, p.Name); err != nil {
				return err
			}
		}
		if moved.Hash != p.Hash {
			return errChanged
		}
		r.Source, r.Hash = st.Source, p.Hash
		st.Plugin = moved
		all[p.Name] = r
		return nil
	})
}

// Discard removes what was fetched and not installed.
func (st *Staged) Discard() error {
	if st.dir == "" {
		return nil
	}
	return os.RemoveAll(st.dir)
}

// Trust stores whether the user trusts a plugin with these contents, as [Plugin.Brings] shows them.
func (s *Store) Trust(ctx context.Context, p *Plugin, trusted bool) error {
	return s.set(ctx, "trust", p.Name, func(r *record) error {
		if r.Trusted = ""; trusted {
			if r.Hash != p.Hash {
				return errors.New("another version is installed")
			}
			r.Trusted = p.Hash
		}
		return nil
	})
}

// Enable switches a plugin on or off.
func (s *Store) Enable(ctx context.Context, name string, on bool) error {
	return s.set(ctx, "switch", name, func(r *record) error {
		r.Off = !on
		return nil
	})
}

// Remove removes a plugin with its files.
func (s *Store) Remove(ctx context.Context, name string) error {
	return s.change(ctx, "remove", name, func(all map[string]record) error {
		if _, ok := all[name]; !ok {
			return errMissing
		}
		delete(all, name)
		return nil
	})
}

var errMissing = errors.New("is not installed")

func (s *Store) set(ctx context.Context, op, name string, f func(*record) error) error {
	return s.change(ctx, op, name, func(all map[string]record) error {
		r, ok := all[name]
		if !ok {
			return errMissing
		}
		if err := f(&r); err != nil {
			return err
		}
		all[name] = r
		return nil
	})
}

// Allowed returns an error unless a plugin is installed with these contents, switched on and trusted now, and its files
// are unchanged.
func (s *Store) Allowed(ctx context.Context, p *Plugin) error {
	all, err := s.load()
	r, ok := all[p.Name]
	switch {
	case err != nil:
	case !ok:
		err = errMissing
	case r.Off:
		err = errors.New("is switched off")
	case r.Trusted != p.Hash:
		err = errors.New("is not trusted")
	default:
		return p.Verify(ctx)
	}
	return &Error{Op: "use", Plugin: p.Name, Err: err}
}
