package retrieval_test

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/codegraph/source"
	"github.com/aycoder/aycoder/retrieval"
)

// commit is a question, which is its message, with the answer, which is the source files that it changed.
type commit struct {
	parent, message string
	changed         []string
}

var (
	trailer = regexp.MustCompile(`(?m)^[A-Za-z-]+-by:.*$|^Change-Id:.*$`)
	version = regexp.MustCompile(`(?i)^(v?\d+\.\d+|(chore|build)(\(\w+\))?: (release|bump|auto-update)|(bump|prepare|release|update version)\b)|\bbump\b|\bversion (to )?v?\d`)
)

func git(tb testing.TB, repo string, args ...string) string {
	tb.Helper()
	out, err := exec.CommandContext(tb.Context(), "git", append([]string{"-C", repo}, args...)...).Output()
	require.NoError(tb, err, "git %v", args)
	return string(out)
}

// commits returns the newest commits of a repository that change one to ten source files that were there before,
// without merges and releases.
func commits(tb testing.TB, repo string, limit int) (out []commit) {
	log := git(tb, repo, "log", "--no-merges", "--no-renames", "--name-status", "--format=%x00%H%x01%P%x01%B%x01", "-n", "3000")
	for entry := range strings.SplitSeq(log, "\x00") {
		f := strings.Split(entry, "\x01")
		if len(f) != 4 || f[1] == "" || version.MatchString(f[2]) {
			continue
		}
		c := commit{parent: f[1], message: strings.TrimSpace(trailer.ReplaceAllString(f[2], ""))}
		touched := 0
		for line := range strings.Lines(f[3]) {
			status, path, _ := strings.Cut(strings.TrimSpace(line), "\t")
			if path == "" || source.LanguageOf(path, nil) == "" {
				continue
			}
			if touched++; status != "A" {
				c.changed = append(c.changed, path)
			}
		}
		if touched <= 10 && len(c.changed) > 0 && len(out) < limit {
			out = append(out, c)
		}
	}
	return out
}

// tree is the source files of a repository at a commit.
type tree struct {
	repo  string
	blobs map[string]string // by path
	text  map[string]string
	in    io.WriteCloser
	out   *bufio.Reader
}

func newTree(tb testing.TB, repo string) *tree {
	t := &tree{repo: repo, blobs: map[string]string{}, text: map[string]string{}}
	cmd := exec.CommandContext(tb.Context(), "git", "-C", repo, "cat-file", "--batch")
	var err error
	t.in, err = cmd.StdinPipe()
	require.NoError(tb, err)
	out, err := cmd.StdoutPipe()
	require.NoError(tb, err)
	t.out = bufio.NewReader(out)
	require.NoError(tb, cmd.Start())
	tb.Cleanup(func() { t.in.Close(); cmd.Wait() })
	return t
}

// checkout makes the tree that of a commit, and returns the paths that changed, and those that are gone.
func (t *tree) checkout(tb testing.TB, hash string) (changed, gone []string) {
	now := map[string]string{}
	for line := range strings.SplitSeq(git(tb, t.repo, "ls-tree", "-r", "-l", "-z", hash), "\x00") {
		info, path, _ := strings.Cut(line, "\t")
		f := strings.Fields(info) // mode, type, hash, size
		if len(f) == 4 && f[1] == "blob" && source.LanguageOf(path, nil) != "" {
			if size, err := strconv.Atoi(f[3]); err == nil && size <= 200_000 {
				now[path] = f[2]
			}
		}
	}
	for path := range t.blobs {
		if now[path] == "" {
			gone = append(gone, path)
			delete(t.text, path)
		}
	}
	for _, path := range sorted(now) {
		if t.blobs[path] != now[path] {
			changed = append(changed, path)
			t.text[path] = t.read(tb, now[path])
		}
	}
	t.blobs = now
	return changed, gone
}

func (t *tree) read(tb testing.TB, blob string) string {
	_, err := fmt.Fprintln(t.in, blob)
	require.NoError(tb, err)
	head, err := t.out.ReadString('\n')
	require.NoError(tb, err)
	f := strings.Fields(head)
	if f[1] == "missing" {
		return ""
	}
	size, err := strconv.Atoi(f[2])
	require.NoError(tb, err)
	data := make([]byte, size+1)
	_, err = io.ReadFull(t.out, data)
	require.NoError(tb, err)
	return string(data[:size])
}

var wordPattern = regexp.MustCompile(`[\pL\pN_]+`)

// byCount ranks files by how many of the words of a question they have, and then by how often, like ripgrep with -c.
func byCount(files map[string]string, question string, whole bool) []string {
	words := map[string]bool{}
	for _, w := range wordPattern.FindAllString(strings.ToLower(question), -1) {
		if len(w) > 2 {
			words[w] = true
		}
	}
	type score struct {
		path            string
		distinct, total int
	}
	var all []score
	for path, text := range files {
		s := score{path: path}
		for w := range words {
			n := strings.Count(text, w)
			if whole {
				n = strings.Count(text, " "+w+" ")
			}
			if s.total += n; n > 0 {
				s.distinct++
			}
		}
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b score) int {
		return cmp.Or(cmp.Compare(b.distinct, a.distinct), cmp.Compare(b.total, a.total), strings.Compare(a.path, b.path))
	})
	var paths []string
	for _, s := range all[:min(5, len(all))] {
		paths = append(paths, s.path)
	}
	return paths
}

// wordsApart puts each word between two spaces, so that words can be counted as a whole.
func wordsApart(text string) string {
	return " " + strings.Join(wordPattern.FindAllString(strings.ToLower(text), -1), "  ") + " "
}

type hashEmbedder struct{ known map[string][]float32 }

func (hashEmbedder) EmbeddingModel(context.Context) (string, int, error) { return "hashed", 256, nil }
func (hashEmbedder) EmbedsLocally() bool                                 { return true }
func (e hashEmbedder) Embed(_ context.Context, texts []string) (out [][]float32, err error) {
	for _, text := range texts {
		if e.known[text] == nil {
			e.known[text] = hashed(text, 256)
		}
		out = append(out, e.known[text])
	}
	return out, nil
}

// firstFiles returns the first five files of chunks.
func firstFiles(paths []string) (out []string) {
	for _, p := range paths {
		if !slices.Contains(out, p) && len(out) < 5 {
			out = append(out, p)
		}
	}
	return out
}

// The files that a commit changed are found by its message, in the tree before it. AYCODER_COMMITS lists repositories
// with history, separated as in PATH.
func TestCommits(t *testing.T) {
	list := os.Getenv("AYCODER_COMMITS")
	if list == "" {
		t.Skip("no recorded material: AYCODER_COMMITS, the repositories whose commits are questions, is not set")
	}
	const each = 100
	methods := []string{"count of words", "count of whole words", "lexical", "vector", "fused"}
	total, n := make([]int, len(methods)), 0
	for repo := range strings.SplitSeq(list, string(filepath.ListSeparator)) {
		hits, questions := relevance(t, repo, each)
		t.Logf("%s: %d commits, hits of %v: %v", repo, questions, methods, hits)
		for i, h := range hits {
			total[i] += h
		}
		n += questions
	}
	t.Logf("%d commits: %v %v, lexical %.2f times the count of words", n, methods, total, float64(total[2])/float64(max(total[0], total[1])))
	require.GreaterOrEqual(t, 10*total[2], 13*max(total[0], total[1]))
	require.GreaterOrEqual(t, float64(total[4]), 0.98*float64(max(total[2], total[3])))
}

func relevance(t *testing.T, repo string, limit int) (hits [5]int, questions int) {
	ctx := t.Context()
	e := hashEmbedder{map[string][]float32{}}
	lexical, err := retrieval.New(ctx)
	require.NoError(t, err)
	fused, err := retrieval.New(ctx, retrieval.WithEmbedder(e))
	require.NoError(t, err)
	vectors := newIndex(t, 256)
	ids := map[string][]string{}
	files, lower, apart := newTree(t, repo), map[string]string{}, map[string]string{}
	cs := commits(t, repo, limit)
	for _, c := range slices.Backward(cs) {
		changed, gone := files.checkout(t, c.parent)
		var put []retrieval.File
		var add []retrieval.Vector
		var drop []string
		for _, p := range slices.Concat(gone, changed) {
			drop = append(drop, ids[p]...)
			delete(ids, p)
			delete(lower, p)
			delete(apart, p)
		}
		for _, p := range changed {
			src := []byte(files.text[p])
			f := retrieval.File{Path: p, Source: src, Facts: source.Scan(source.LanguageOf(p, src), src, source.All)}
			put = append(put, f)
			for _, chunk := range retrieval.Chunks(p, src, f.Facts) {
				ids[p] = append(ids[p], chunk.ID)
				add = append(add, retrieval.Vector{Item: chunk.Item, Values: hashed(p+"\n"+string(src[chunk.Start:chunk.End]), 256)})
			}
			lower[p], apart[p] = string(bytes.ToLower(src)), wordsApart(string(src))
		}
		require.NoError(t, vectors.Delete(ctx, drop...))
		require.NoError(t, vectors.Add(ctx, add...))
		for _, r := range []*retrieval.Retriever{lexical, fused} {
			require.NoError(t, r.Remove(ctx, gone...))
			require.NoError(t, r.Put(ctx, put...))
		}
		found := [5][]string{byCount(lower, c.message, false), byCount(apart, c.message, true)}
		for i, r := range []*retrieval.Retriever{lexical, nil, fused} {
			var paths []string
			if r == nil {
				m, err := vectors.Search(hashed(c.message, 256), 100, nil)
				require.NoError(t, err)
				for _, m := range m {
					paths = append(paths, m.Item.Path)
				}
			} else {
				res, err := r.Search(ctx, c.message, 100, retrieval.Filter{})
				require.NoError(t, err)
				for _, h := range res.Hits {
					paths = append(paths, h.Path)
				}
			}
			found[2+i] = firstFiles(paths)
		}
		for i, f := range found {
			if slices.ContainsFunc(f, func(p string) bool { return slices.Contains(c.changed, p) }) {
				hits[i]++
			}
		}
	}
	return hits, len(cs)
}
