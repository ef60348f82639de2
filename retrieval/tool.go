package retrieval

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/codegraph"
	"github.com/aycoder/aycoder/codegraph/source"
	"github.com/aycoder/aycoder/internal/mask"
	"github.com/aycoder/aycoder/internal/runes"
	"github.com/aycoder/aycoder/internal/words"
)

// The bounds of a result, and of the time for which a call makes vectors before it searches.
const (
	defaultHits  = 8
	maxHits      = 30
	maxResult    = 24 << 10
	excerptLines = 12
	excerptLine  = 200 // bytes
	embedTime    = 10 * time.Second
	othersTime   = time.Second // for vectors that the host or another call makes
)

type toolArgs struct {
	Query    string          `json:"query" jsonschema_description:"Question or words, such as: where are requests retried?"`
	Limit    int             `json:"limit,omitempty" jsonschema:"minimum=0,maximum=30" jsonschema_description:"How many pieces of code to return. Default: 8."`
	Path     string          `json:"path,omitempty" jsonschema_description:"Only in this directory or file, or files that match this glob, such as src/**/*.go."`
	Language source.Language `json:"language,omitempty" jsonschema_description:"Only in this language, such as go, python or typescript."`
	Kind     string          `json:"kind,omitempty" jsonschema_description:"Only declarations of this kind: func, method, type, class, interface, const or var."`
}

const toolDescription = `Find the pieces of code that answer a question, or that have some words, the best first. Each is
given with its file and lines, its declaration and an excerpt. Typing errors in words do not matter. To find each place
with an exact text, search for the text instead.`

// Tool returns the tool semantic_search, with which a model searches the source code of a workspace. It only reads.
// files are those of the graph. Before each search, it brings the retriever up to date with them: with what the
// graph knows as source code, so no file is read that [codegraph.FS] keeps back. If there is an embedder, it makes the
// vectors that are missing for at most ten seconds, and says how many are still missing. A host that does not
// want to wait for this calls [Retriever.Embed] meanwhile: then a search waits for at most one second. If the embedder fails, or has no vector of the query after
// ten seconds more, the result says so, and has the pieces with words of the query. Secrets that have a known form are replaced by placeholders.
func Tool(r *Retriever, graph *codegraph.Graph, files codegraph.FS) (aycoder.Tool, error) {
	if r == nil || graph == nil || files == nil {
		return nil, &aycoder.ConfigError{Option: "Tool", Err: errors.New("retriever, graph or files are nil")}
	}
	t := &tool{Retriever: r, graph: graph, files: files, known: map[string]*source.Facts{}}
	return aycoder.NewTool("semantic_search", toolDescription, t.call,
		aycoder.WithEffect(aycoder.EffectReadOnly), aycoder.WithSubject(aycoder.SubjectPath, "path"))
}

type tool struct {
	*Retriever
	graph *codegraph.Graph
	files codegraph.FS

	updating sync.Mutex
	known    map[string]*source.Facts // of the files that were put; they are others if the content is
}

func (t *tool) call(ctx context.Context, _ *aycoder.Invocation, in toolArgs) (*aycoder.ToolResult, error) {
	if strings.TrimSpace(in.Query) == "" {
		return nil, errors.New("the query is empty")
	}
	partial, err := t.update(ctx)
	if err != nil {
		return nil, err
	}
	filter, err := t.filter(in)
	if err != nil {
		return nil, err
	}
	embedding, cancel := context.WithTimeout(ctx, embedTime)
	failure := t.embedPending(embedding, time.After(othersTime))
	cancel()
	searching, cancel := context.WithTimeout(ctx, embedTime) // the query becomes a vector, too
	found, err := t.Search(searching, in.Query, min(cmp.Or(max(in.Limit, 0), defaultHits), maxHits), filter)
	cancel()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if errors.Is(failure, context.DeadlineExceeded) {
		failure = nil // what is missing is said
	}
	var out strings.Builder
	shown := t.hits(&out, in.Query, found.Hits)
	t.notes(&out, in.Query, found, shown, partial, cmp.Or(err, failure))
	return &aycoder.ToolResult{Parts: []aycoder.Part{&aycoder.Text{Text: mask.Visible(t.mask(out.String()))}},
		Summary: fmt.Sprintf("%d found", shown)}, nil
}

// filter returns the filter of a call, or an error that says what it may be. A model may name a file or a language in another way.
func (t *tool) filter(in toolArgs) (f Filter, err error) {
	f = Filter{Path: in.Path, Language: source.Language(strings.ToLower(string(in.Language))), Kind: strings.ToLower(in.Kind)}
	if ws, ok := t.files.(interface{ Rel(string) (string, error) }); ok && f.Path != "" {
		if f.Path, err = ws.Rel(f.Path); err != nil {
			return f, err
		}
	}
	if f.Kind != "" && !slices.Contains(kinds[:], f.Kind) {
		return f, fmt.Errorf("there is no kind %q, but %s", f.Kind, strings.Join(slices.Sorted(slices.Values(kinds[:])), ", "))
	}
	if f.Language == "" {
		return f, nil
	}
	if f.Language == "javascript" {
		f.Language = source.TypeScript
	} else if lang := source.LanguageOf("a."+string(f.Language), nil); lang != "" {
		f.Language = lang
	}
	there, s := map[string]bool{}, t.graph.Snapshot()
	for p := range s.Files() {
		if facts := s.Facts(p); facts != nil {
			there[string(facts.Language)] = true
		}
	}
	if len(there) > 0 && !there[string(f.Language)] {
		return f, fmt.Errorf("there is no code in %q, but in %s", f.Language, strings.Join(slices.Sorted(maps.Keys(there)), ", "))
	}
	return f, nil
}

// update puts the files that have changed, and removes those that are gone. Partial says that the workspace has more
// files than the graph, or some that cannot be read.
func (t *tool) update(ctx context.Context) (partial bool, err error) {
	t.updating.Lock()
	defer t.updating.Unlock()
	s, err := t.graph.Refresh(ctx)
	if err != nil {
		return false, err
	}
	for p := range t.known {
		if s.Facts(p) == nil {
			delete(t.known, p)
			if err := t.Remove(ctx, p); err != nil {
				return false, err
			}
		}
	}
	for p := range s.Files() {
		facts := s.Facts(p)
		if facts == nil || t.known[p] == facts {
			continue
		}
		src, err := t.read(p)
		if err != nil { // what was there before is not there any more
			partial, err = true, t.Remove(ctx, p)
		} else if err = t.put(ctx, []File{{p, src, facts}}); err == nil {
			t.known[p] = facts
		}
		if err != nil || ctx.Err() != nil {
			return false, cmp.Or(err, context.Cause(ctx))
		}
	}
	return partial || s.Partial(), nil
}

// maxSource is the size of the largest file that is indexed. The graph reads no larger ones, unless its host says so.
const maxSource = 16 << 20

var errLarge = errors.New("the file is too large to be indexed")

func (t *tool) read(path string) ([]byte, error) {
	f, err := t.files.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	src, err := io.ReadAll(io.LimitReader(f, maxSource+1))
	if err == nil && len(src) > maxSource {
		err = errLarge
	}
	return src, err
}

// hits writes the chunks that have room, and returns how many.
func (t *tool) hits(out *strings.Builder, query string, hits []Hit) int {
	for i, h := range hits {
		text := t.hit(h, query)
		if out.Len()+len(text) > maxResult {
			return i
		}
		out.WriteString(text)
	}
	return len(hits)
}

// hit returns the text for a chunk: its place and name, and an excerpt.
func (t *tool) hit(h Hit, query string) string {
	head := fmt.Sprintf("%s:%d-%d", runes.Path(h.Path), h.Line, h.EndLine)
	if h.Name != "" {
		head += " " + h.Kind + " " + h.Name
	}
	src, err := t.read(h.Path)
	if err != nil || h.End > len(src) || !strings.HasPrefix(h.ID, chunkID(h.Path, src[h.Start:h.End])) {
		return head + "\n    (has just changed)\n"
	}
	return head + "\n" + excerpt(src[h.Start:h.End], h, query)
}

// excerpt returns the line with the name of a chunk, which is the declaration, and the lines with the most words of a
// query.
func excerpt(text []byte, h Hit, query string) string {
	lines := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	wanted := map[string]bool{}
	for w := range words.Of(query) {
		wanted[string(w.Text)] = true
	}
	_, name, ok := strings.Cut(h.Name, ".")
	if !ok {
		name = h.Name
	}
	declared := -1
	score := make([]int, len(lines))
	for i, line := range lines {
		if declared < 0 && name != "" && strings.Contains(line, name) {
			declared = i
		}
		seen := map[string]bool{}
		for w := range words.Of(line) {
			if s := string(w.Text); wanted[s] && !seen[s] {
				seen[s] = true
				score[i]++
			}
		}
	}
	start := best(score, excerptLines)
	var out bytes.Buffer
	show := func(i int) {
		line := fmt.Sprintf("    %d: %s", h.Line+i, runes.Cut(lines[i], excerptLine))
		out.WriteString(strings.TrimRight(line, " \t\r") + "\n")
	}
	if declared >= 0 && declared < start {
		show(declared)
	}
	for i := start; i < min(start+excerptLines, len(lines)); i++ {
		show(i)
	}
	if declared >= start+excerptLines {
		show(declared)
	}
	return out.String()
}

// best returns where n successive numbers have the largest sum, at the earliest.
func best(numbers []int, n int) (start int) {
	sum, most := 0, 0
	for i, x := range numbers {
		if sum += x; i >= n {
			sum -= numbers[i-n]
		}
		if sum > most {
			start, most = max(0, i-n+1), sum
		}
	}
	return start
}

// notes says what the result does not have.
func (t *tool) notes(out *strings.Builder, query string, r Result, shown int, partial bool, failure error) {
	if len(r.Hits) == 0 {
		out.WriteString("Nothing was found.\n")
		if more := t.Suggest(query, 5); len(more) > 0 {
			fmt.Fprintf(out, "Perhaps it is: %s\n", strings.Join(more, ", "))
		}
	}
	if shown < len(r.Hits) {
		fmt.Fprintf(out, "(%d more are not shown)\n", len(r.Hits)-shown)
	}
	switch {
	case failure != nil:
		fmt.Fprintf(out, "The embedder failed, so this was found by words only, or with a part of the code: %s\n",
			runes.Cut(failure.Error(), excerptLine))
	case t.embed == nil:
		out.WriteString("There is no embedder: this was found by words only.\n")
	case r.Pending > 0:
		_, chunks, _ := t.Stats()
		fmt.Fprintf(out, "%d of %d pieces are not embedded yet, and were searched by words only.\n", r.Pending, chunks)
	}
	if partial {
		out.WriteString("Some files of the workspace are not looked at; these may fit too.\n")
	}
}
