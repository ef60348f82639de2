package local

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/aycoder/aycoder/providers/ollama"
)

// A stored is a model of the directory, as it is found there.
type stored struct {
	Installed
	dir   string   // of the repository
	links []string // the names of its files in the directory
	blobs []string // what they are
}

// List implements [Library]. Models that other programs for this hub have downloaded are there, too. A split model is there if all of its
// files are.
func (h *Hub) List(ctx context.Context) ([]Installed, error) {
	var list []Installed
	err := h.each(ctx, func(_ *os.Root, s stored) error {
		list = append(list, s.Installed)
		return nil
	})
	return list, err
}

// each calls do for each model, in the order of the names.
func (h *Hub) each(ctx context.Context, do func(*os.Root, stored) error) error {
	root, err := os.OpenRoot(h.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return &HubError{Op: "list", Model: h.dir, Err: err}
	}
	defer root.Close()
	dirs, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return &HubError{Op: "list", Model: h.dir, Err: err}
	}
	for _, d := range dirs {
		id, ok := strings.CutPrefix(d.Name(), "models--")
		if !ok || !d.IsDir() || ctx.Err() != nil {
			continue
		}
		for _, s := range h.models(root, d.Name(), strings.Replace(id, "--", "/", 1)) {
			if err := do(root, s); err != nil {
				return err
			}
		}
	}
	return context.Cause(ctx)
}

// models finds the models of a repository. Of several revisions of one, the last that came counts.
func (h *Hub) models(root *os.Root, dir, id string) []stored {
	repo := Repo{ID: id}
	found := map[string]stored{}
	_ = fs.WalkDir(root.FS(), dir+"/snapshots", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, ".gguf") || strings.HasPrefix(d.Name(), "mmproj") {
			return nil // what cannot be read is not there
		}
		info, err := root.Stat(name)
		if err == nil && info.Mode().IsRegular() && info.Size() > 0 {
			repo.Files = append(repo.Files, File{Path: name, Quantization: quantizationOf(name), Size: info.Size()})
		}
		return nil
	})
	for _, c := range repo.perRevision() {
		s := stored{dir: dir, Installed: Installed{Name: c.Name(), Size: c.Size()}}
		for _, f := range c.Files {
			blob, modified := h.blobOf(root, dir, f.Path)
			s.links, s.blobs = append(s.links, f.Path), append(s.blobs, blob)
			s.Files = append(s.Files, filepath.Join(h.dir, filepath.FromSlash(f.Path)))
			if modified.After(s.Modified) {
				s.Modified = modified
			}
		}
		if old, ok := found[s.Name]; !ok || s.Modified.After(old.Modified) {
			found[s.Name] = s
		}
	}
	return slices.SortedFunc(maps.Values(found), func(a, b stored) int { return cmp.Compare(a.Name, b.Name) })
}

// perRevision returns the choices of each snapshot.
func (r Repo) perRevision() (list []Choice) {
	revisions := map[string][]File{}
	for _, f := range r.Files {
		parts := strings.SplitN(f.Path, "/", 4) // models--…, snapshots, the revision, the file
		revisions[parts[2]] = append(revisions[parts[2]], f)
	}
	for _, files := range revisions {
		list = append(list, Repo{ID: r.ID, Files: files}.Choices()...)
	}
	return list
}

// blobOf returns the name of the file in blobs that a name in snapshots is about, or "".
func (h *Hub) blobOf(root *os.Root, dir, name string) (string, time.Time) {
	info, err := root.Stat(name)
	if err != nil {
		return "", time.Time{}
	}
	if target, err := root.Readlink(name); err == nil {
		return path.Join(dir, "blobs", path.Base(filepath.ToSlash(target))), info.ModTime()
	}
	blobs, _ := fs.ReadDir(root.FS(), dir+"/blobs")
	for _, b := range blobs {
		if i, err := b.Info(); err == nil && os.SameFile(i, info) {
			return dir + "/blobs/" + b.Name(), info.ModTime()
		}
	}
	return "", info.ModTime()
}

// find finds a model by its name.
func (h *Hub) find(ctx context.Context, op, name string) (root *os.Root, found stored, err error) {
	id, quant := splitModel(name)
	var all []stored
	err = h.each(ctx, func(_ *os.Root, s stored) error {
		if n, q := splitModel(s.Name); strings.EqualFold(n, id) && (quant == "" || strings.EqualFold(q, quant)) {
			all = append(all, s)
		}
		return nil
	})
	switch {
	case err != nil:
		return nil, stored{}, err
	case len(all) == 0:
		return nil, stored{}, &HubError{Op: op, Model: name, Err: fmt.Errorf("%w in %s", ErrNotFound, h.dir)}
	case len(all) > 1:
		return nil, stored{}, &HubError{Op: op, Model: name, Err: fmt.Errorf("there are %d quantisations of it", len(all))}
	}
	if root, err = os.OpenRoot(h.dir); err != nil {
		return nil, stored{}, &HubError{Op: op, Model: name, Err: err}
	}
	return root, all[0], nil
}

// Verify reads a model of the directory, and checks the SHA-256 of its files. If one is wrong, the error is [ErrHash], and the
// file stays: [Hub.Delete] deletes it. report is called with the progress, unless it is nil.
func (h *Hub) Verify(ctx context.Context, name string, report func(Progress)) error {
	root, s, err := h.find(ctx, "verify", name)
	if err != nil {
		return err
	}
	defer root.Close()
	for i, link := range s.links {
		sum := path.Base(s.blobs[i])
		if !validHash.MatchString(sum) {
			return &HubError{Op: "verify", Model: link, Err: errors.New("its SHA-256 is not known")}
		}
		if err := verify(ctx, root, link, sum, report); err != nil {
			return &HubError{Op: "verify", Model: link, Err: err}
		}
	}
	return nil
}

func verify(ctx context.Context, root *os.Root, name, sum string, report func(Progress)) error {
	f, err := root.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	got, err := hash(ctx, f, func(n int64) {
		if report != nil {
			report(Progress{Status: "verifying", File: path.Base(name), Done: n, Total: info.Size()})
		}
	})
	if err == nil && got != sum {
		err = fmt.Errorf("%w: it is %s instead of %s", ErrHash, got, sum)
	}
	return err
}

// Delete implements [Library]. A file that another name has, such as that of an older revision, stays. Of a model that is not
// there, what a download has left is deleted.
func (h *Hub) Delete(ctx context.Context, name string) error {
	root, s, err := h.find(ctx, "delete", name)
	if errors.Is(err, ErrNotFound) {
		return h.abandon(name, err)
	}
	if err != nil {
		return err
	}
	defer root.Close()
	for _, link := range s.links {
		if err := root.Remove(link); err != nil {
			return &HubError{Op: "delete", Model: name, Err: err}
		}
		for dir := path.Dir(link); path.Base(dir) != "snapshots" && dir != "."; dir = path.Dir(dir) {
			if root.Remove(dir) != nil {
				break // it is not empty
			}
		}
	}
	used := h.used(root, s.dir)
	for _, blob := range s.blobs {
		if used[blob] || blob == "" {
			continue
		}
		if err := root.Remove(blob); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return &HubError{Op: "delete", Model: name, Err: err}
		}
	}
	return nil
}

// used returns the files in blobs that have names.
func (h *Hub) used(root *os.Root, dir string) map[string]bool {
	used := map[string]bool{}
	_ = fs.WalkDir(root.FS(), dir+"/snapshots", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			blob, _ := h.blobOf(root, dir, name)
			used[blob] = true
		}
		return nil
	})
	return used
}

// abandon deletes what downloads of a model have left. If there is nothing, it returns the error. Of a whole file without a name,
// nobody knows of which quantisation it is: it is deleted if no other download is left.
func (h *Hub) abandon(name string, none error) error {
	id, quant := splitModel(name)
	root, err := os.OpenRoot(h.dir)
	if err != nil || !validID.MatchString(id) {
		return none
	}
	defer root.Close()
	dir := repoDir(id)
	others, used := false, h.used(root, dir)
	blobs, _ := fs.Glob(root.FS(), dir+"/blobs/*")
	slices.SortStableFunc(blobs, func(a, b string) int { return len(b) - len(a) }) // the whole ones come last
	for _, blob := range blobs {
		d := &download{root: root, blob: strings.TrimSuffix(blob, ".part")}
		data, _ := root.ReadFile(d.blob + ".state")
		_ = json.Unmarshal(data, &d.state)
		of := quantizationOf(d.state.Path)
		switch part := d.blob != blob; {
		case part && of != "" && quant != "" && !strings.EqualFold(of, quant):
			others = true
			continue
		case !part && (others || used[blob] || !validHash.MatchString(path.Base(blob))):
			continue
		}
		unlock, err := d.lock()
		if err == nil {
			err = root.Remove(blob)
			_ = root.Remove(d.blob + ".state")
			unlock()
		}
		if none = nil; err != nil {
			return &HubError{Op: "delete", Model: name, Err: err}
		}
	}
	return none
}

// Ollama returns the models of a server of Ollama as a [Library].
func Ollama(c *ollama.Client) Library { return ollamaLibrary{c} }

type ollamaLibrary struct{ client *ollama.Client }

// List implements [Library].
func (o ollamaLibrary) List(ctx context.Context) ([]Installed, error) {
	models, err := o.client.List(ctx)
	var list []Installed
	for _, m := range models {
		list = append(list, Installed{Name: m.Name, Size: m.Size, Modified: m.Modified})
	}
	return list, err
}

// Pull implements [Library].
func (o ollamaLibrary) Pull(ctx context.Context, name string) iter.Seq2[Progress, error] {
	return func(yield func(Progress, error) bool) {
		for p, err := range o.client.Pull(ctx, name) {
			if !yield(Progress{Status: p.Status, File: p.Digest, Done: p.Completed, Total: p.Total}, err) {
				return
			}
		}
	}
}

// Delete implements [Library].
func (o ollamaLibrary) Delete(ctx context.Context, name string) error {
	return o.client.Delete(ctx, name)
}
