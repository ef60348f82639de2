package resolve_test

import (
	"encoding/json"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/aycoder/aycoder/codegraph/source"
	"github.com/aycoder/aycoder/internal/corpus"
	"github.com/aycoder/aycoder/internal/resolve"
	"github.com/stretchr/testify/require"
)

// A tree is the files of a directory, in memory.
type tree struct {
	content map[string][]byte
	facts   map[string]*source.Facts
	dirs    map[string][]string
}

func newTree() *tree {
	return &tree{map[string][]byte{}, map[string]*source.Facts{}, map[string][]string{".": nil}}
}

// readTree reads a directory without what git keeps and without large files.
func readTree(t testing.TB, dir string) *tree {
	out := newTree()
	require.NoError(t, filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && d.Name() == ".git" {
			return cmpErr(err, fs.SkipDir)
		}
		if info, err := d.Info(); err != nil || !info.Mode().IsRegular() || info.Size() > 4<<20 {
			return err
		}
		rel, err := filepath.Rel(dir, p)
		if err != nil {
			return err
		}
		data, err := os.ReadFile(p)
		out.put(filepath.ToSlash(rel), data)
		return err
	}))
	return out
}

func cmpErr(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

func (f *tree) put(p string, data []byte) {
	_, had := f.content[p]
	f.content[p] = data
	delete(f.facts, p)
	if lang := source.LanguageOf(p, data); lang != "" {
		f.facts[p] = source.Scan(lang, data, source.All)
	}
	for name := path.Base(p); !had; name = path.Base(p) + "/" {
		p = path.Dir(p)
		_, had = f.dirs[p]
		i, found := slices.BinarySearch(f.dirs[p], name)
		if !found {
			f.dirs[p] = slices.Insert(f.dirs[p], i, name)
		}
		if p == "." {
			return
		}
	}
}

func (f *tree) Facts(p string) *source.Facts { return f.facts[p] }
func (f *tree) IsFile(p string) bool         { return f.content[p] != nil }
func (f *tree) Content(p string) []byte      { return f.content[p] }
func (f *tree) List(dir string) []string     { return f.dirs[dir] }

// A truth is one file of the recorded edges.
type truth struct {
	Repo, Lang, Unit string
	Files            []string
	Edges, Optional  []struct{ From, To, Kind string }
	Refs             []struct {
		From, To string
		N        int
	}
	Defs []struct {
		From, To string
		Names    []string
	}
	name string
}

// truths returns the recorded edges of a language and the sources they are about. The sources are
// public repositories: AYCODER_REPOS names a directory with each of them under the first part of the name
// of its file, at the commit that the file says.
func truths(t *testing.T, lang string) map[*truth]*tree {
	deps := corpus.Path(t, "deps", "true edges of repositories")
	repos := os.Getenv("AYCODER_REPOS")
	if repos == "" {
		t.Skip("no recorded material: AYCODER_REPOS is not set, a directory with the repositories that the edges are of")
	}
	files, err := filepath.Glob(filepath.Join(deps, "*."+lang+".json"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	out := map[*truth]*tree{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		tr := &truth{}
		require.NoError(t, json.Unmarshal(data, tr))
		tr.name, _, _ = strings.Cut(filepath.Base(file), ".")
		out[tr] = readTree(t, filepath.Join(repos, tr.name))
	}
	return out
}

type pair [2]string

// unrecorded are edges that are there although the record lacks them: it has one file for a module, and this
// one has two, for two values of a cfg.
var unrecorded = map[pair]bool{{"crates/core/index/enabled.rs", "crates/core/flags/mod.rs"}: true}

// score compares pairs as the scorer of the recorded edges does.
func score(t *testing.T, what string, want, got map[pair]int) (precision, recall float64) {
	hit := 0
	var missed, wrong []string
	for p := range want {
		if _, ok := got[p]; ok {
			hit++
		} else {
			missed = append(missed, p[0]+" -> "+p[1])
		}
	}
	for p := range got {
		if _, ok := want[p]; !ok {
			wrong = append(wrong, p[0]+" -> "+p[1])
		}
	}
	slices.Sort(missed)
	slices.Sort(wrong)
	precision, recall = float64(hit)/float64(max(len(got), 1)), float64(hit)/float64(max(len(want), 1))
	t.Logf("%s: %d true, %d found, precision %.4f, recall %.4f", what, len(want), len(got), precision, recall)
	for _, m := range missed[:min(len(missed), 15)] {
		t.Log("  missed", m)
	}
	for _, w := range wrong[:min(len(wrong), 15)] {
		t.Log("  false ", w)
	}
	return precision, recall
}

// imports compares the imports of all files with the truth.
func (tr *truth) imports(t *testing.T, x *resolve.Index) (precision, recall float64) {
	in := map[string]bool{}
	dirs := map[string]bool{}
	for _, f := range tr.Files {
		in[f], dirs[path.Dir(f)+"/"] = true, true
	}
	want, optional, got := map[pair]int{}, map[pair]bool{}, map[pair]int{}
	for _, e := range tr.Edges {
		if e.From != e.To {
			want[pair{e.From, e.To}]++
		}
	}
	for _, e := range tr.Optional {
		optional[pair{e.From, e.To}] = true
	}
	for _, f := range tr.Files {
		for _, e := range x.Imports(f) {
			p := pair{f, e.To}
			if tr.Unit == "dir" {
				if !strings.HasSuffix(p[1], "/") {
					p[1] = path.Dir(p[1]) + "/"
				}
				if _, ok := want[p]; !dirs[p[1]] || !ok && path.Dir(f)+"/" == p[1] {
					continue
				}
			} else if _, ok := want[p]; !in[e.To] || e.To == f || !ok && (optional[p] || unrecorded[p] || e.Optional) {
				continue
			}
			got[p]++
		}
	}
	return score(t, tr.name+" imports", want, got)
}

// named compares the files that declare what a file uses with the truth, also weighted by the number of uses.
func (tr *truth) named(t *testing.T, x *resolve.Index) (precision, recall, weighted float64) {
	in := map[string]bool{}
	for _, f := range tr.Files {
		in[f] = true
	}
	want, got := map[pair]int{}, map[pair]int{}
	for _, r := range tr.Refs {
		want[pair{r.From, r.To}] += r.N
	}
	for _, d := range tr.Defs {
		want[pair{d.From, d.To}] += len(d.Names)
	}
	for _, f := range tr.Files {
		for r := range x.Refs(f).All() {
			if in[r.To] {
				got[pair{f, r.To}] += max(int(r.Count), 1)
			}
		}
	}
	all, hit := 0, 0
	for p, n := range want {
		all += n
		if _, ok := got[p]; ok {
			hit += n
		}
	}
	precision, recall = score(t, tr.name+" names", want, got)
	weighted = float64(hit) / float64(max(all, 1))
	t.Logf("%s names: recall weighted by uses %.4f", tr.name, weighted)
	return precision, recall, weighted
}

func TestGoTruth(t *testing.T)     { testTruth(t, "go", 0.92, 0.88, 0.93) }
func TestPythonTruth(t *testing.T) { testTruth(t, "py", 0, 0, 0) }
func TestScriptTruth(t *testing.T) { testTruth(t, "ts", 0.99, 0.98, 0) }
func TestRustTruth(t *testing.T)   { testTruth(t, "rs", 0, 0, 0) }
func TestCTruth(t *testing.T)      { testTruth(t, "c", 0, 0, 0) }

// testTruth resolves the recorded repositories of a language. The limits are for the files that declare what a file
// uses.
func testTruth(t *testing.T, lang string, precision, recall, weighted float64) {
	for tr, files := range truths(t, lang) {
		x := resolve.New(files)
		p, r := tr.imports(t, x)
		if p < 0.998 || r < 0.995 {
			t.Errorf("%s: precision %.4f, recall %.4f: want 0.998, 0.995", tr.name, p, r)
		}
		if recall == 0 {
			continue
		}
		if p, r, w := tr.named(t, x); p < precision || r < recall || w < weighted {
			t.Errorf("%s names: precision %.4f, recall %.4f, weighted %.4f: want %v, %v, %v", tr.name, p, r, w, precision, recall, weighted)
		}
	}
}
