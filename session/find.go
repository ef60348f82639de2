package session

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unicode"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/words"
	"github.com/aycoder/aycoder/journal"
)

// Hit is a session that [Find] found, and the best match in it.
type Hit struct {
	// Entry describes the session.
	Entry journal.Entry
	// Node is the node with the message that matches, or [Root] if only the title does. If the
	// message is part of a run that did not end, Node is the last node before it.
	Node ID
	// Excerpt is the text around the match in one line of valid UTF-8, without control characters.
	// Secrets in it are not masked.
	Excerpt string

	rank int
}

// Find looks for words in the titles, the first prompts and the messages of all sessions, on all
// branches. It returns the best match of each session, the best first, and at most limit of them, or
// 20 if limit is not positive.
//
// A match is one text that contains all words of the query: a title, or a text, a tool call or the
// output of one in a message. The words in the order of the query are better than the words in any
// order, and both are better than words with a typing error: in a word of four or more letters,
// one letter may be missing, added or wrong, or two neighbours swapped. If matches are equally
// good, a title is better than the first prompt, which is better than another message; then the
// session that was used last comes first. Case, diacritics and English stop words do not count; a query
// of stop words alone finds nothing. The parts of names are words, too: "profile" is in userProfile.
//
// Find reads the sessions from the store, several at a time, and keeps none in memory. If some of
// them cannot be read, it returns the hits in the others together with an error.
func Find(ctx context.Context, store journal.Store, text string, limit int) ([]Hit, error) {
	query := words.NewQuery(text)
	if query.Empty() {
		return nil, ctx.Err()
	}
	entries, err := List(ctx, store, nil)
	if err != nil {
		return nil, err
	}
	if limit <= 0 {
		limit = 20
	}
	f := &finding{store: store, query: query, limit: limit}
	f.lines, _ = store.(journal.LineStore)
	var next atomic.Int64
	var work sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(entries)) {
		work.Go(func() {
			r := &reader{finding: f, filter: words.NewFilter(query), in: bufio.NewReaderSize(nil, 256<<10)}
			for i := next.Add(1) - 1; int(i) < len(entries) && ctx.Err() == nil; i = next.Add(1) - 1 {
				f.add(r.session(ctx, &entries[i]))
			}
		})
	}
	work.Wait()
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("find: %w", err)
	}
	return f.hits, f.err
}

// Suggest returns at most n ways to complete the last word of a half-typed query for [Find], with words of the titles
// and the first prompts of all sessions. Those with the most frequent words are first. The words are in lower case.
func Suggest(ctx context.Context, store journal.Store, query string, n int) ([]string, error) {
	entries, err := List(ctx, store, nil)
	if err != nil {
		return nil, err
	}
	counts := map[string]int{}
	for _, e := range entries {
		for w := range words.Of(e.Title + "\n" + e.Prompt) {
			counts[string(w.Text)]++
		}
	}
	return words.Complete(query, n, maps.All(counts)), nil
}

// finding is a search that several readers work on.
type finding struct {
	store journal.Store
	lines journal.LineStore // or nil; lines without a match are not decoded
	query words.Query
	limit int

	mu   sync.Mutex // guards all that follows
	hits []Hit      // the best first
	err  error
}

// The rank of a match is its quality, and then the place of the text.
const (
	inMessage = iota
	inPrompt
	inTitle
	places
)

func compareHits(a, b Hit) int {
	return cmp.Or(cmp.Compare(b.rank, a.rank), newestFirst(a.Entry, b.Entry))
}

// useful reports whether a hit would be among the best.
func (f *finding) useful(h Hit) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.hits) < f.limit || compareHits(h, f.hits[f.limit-1]) < 0
}

func (f *finding) add(h Hit, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // else the session was deleted meanwhile
		f.err = cmp.Or(f.err, err)
	}
	if h.rank < places {
		return
	}
	i, _ := slices.BinarySearchFunc(f.hits, h, compareHits)
	f.hits = slices.Insert(f.hits, i, h)
	f.hits = f.hits[:min(len(f.hits), f.limit)]
}

// reader searches one session after the other.
type reader struct {
	*finding
	filter *words.Filter
	in     *bufio.Reader

	// hit is the best match in the session. waiting is a better one in a fact, until the node is
	// read that says to which message the part of the fact belongs.
	hit     Hit
	waiting *Hit
	run     string
	seq     int64
}

// session returns the best match in a session. Its rank is 0 if there is none, or if it would not
// be among the best of all sessions.
func (r *reader) session(ctx context.Context, e *journal.Entry) (Hit, error) {
	r.hit, r.waiting = Hit{Entry: *e}, nil
	best := Hit{Entry: *e}
	for place, text := range []string{inPrompt: e.Prompt, inTitle: e.Title} {
		if quality, at := r.query.Match(text); quality*places+place > max(best.rank, places-1) {
			best.rank, best.Excerpt = quality*places+place, excerpt(text, at)
		}
	}
	if best.rank == words.Phrase*places+inTitle {
		return best, nil
	}
	if !r.useful(Hit{Entry: *e, rank: max(best.rank, words.Phrase*places)}) {
		return Hit{}, nil
	}
	err := r.search(ctx, e.ID)
	if r.waiting != nil {
		r.hit = *r.waiting
		r.hit.Node = ID(max(e.Nodes-1, 0))
	}
	switch {
	case r.hit.rank > best.rank:
		return r.hit, err
	case best.rank%places == inPrompt: // the message is there, too
		best.Node = r.hit.Node
	}
	return best, err
}

// search searches the lines of the journal of a session. An incomplete one at the end is left out.
func (r *reader) search(ctx context.Context, id string) error {
	if r.lines == nil {
		j, err := r.store.Open(ctx, id, false)
		if err != nil {
			return err
		}
		defer j.Close()
		for record, err := range j.Records(ctx) {
			if _, damaged := errors.AsType[*journal.DamageError](err); err != nil && !damaged {
				return err
			}
			if err == nil && !r.line(record) {
				break
			}
		}
		return nil
	}
	f, err := r.lines.Lines(id)
	if err == nil {
		defer f.Close()
		r.in.Reset(io.NewSectionReader(f, 0, math.MaxInt64))
		err = journal.EachLine(r.in, func(_ int, line []byte, err error) bool {
			return ctx.Err() == nil && (err != nil || r.line(line))
		})
	}
	return journal.Error("read", id, err)
}

// line searches a record, or its line in a journal of lines. It reports whether another one may have a better match.
func (r *reader) line(line []byte) bool {
	mayMatch := r.filter.MayMatch(line)
	if !mayMatch && r.waiting == nil {
		return true
	}
	if r.lines != nil {
		line = journal.Record(line)
	}
	r.record(line, mayMatch)
	return r.waiting != nil || r.hit.rank < words.Phrase*places
}

// record searches the messages in a record, if it may match.
func (r *reader) record(line []byte, mayMatch bool) {
	if !bytes.HasPrefix(line, []byte(`{"t":`)) {
		if mayMatch {
			r.fact(line)
		}
		return
	}
	var rec record
	if !bytes.HasPrefix(line, []byte(`{"t":"`+kindNode)) || json.Unmarshal(line, &rec) != nil || rec.Message == nil {
		return
	}
	take := func(h Hit) {
		if h.rank > r.hit.rank {
			r.hit = h
			r.hit.Node = rec.ID
		}
	}
	m, _ := rec.Message.message(func(seq int64) aycoder.Part {
		if w := r.waiting; w != nil && r.run == runRef(rec.Run) && r.seq == seq {
			r.waiting = nil
			take(*w)
		}
		return new(aycoder.Text) // its fact was searched
	})
	if m != nil {
		for _, p := range m.Parts {
			take(r.part(p))
		}
	}
}

// fact searches the part that a fact carries.
func (r *reader) fact(line []byte) {
	var f aycoder.FactRecord
	if json.Unmarshal(line, &f) != nil {
		return
	}
	h := r.part(carried(f.Fact))
	if h.rank > r.hit.rank && (r.waiting == nil || h.rank > r.waiting.rank) {
		r.waiting, r.run, r.seq = &h, f.Run, f.Seq
	}
}

// part searches a part of a message.
func (r *reader) part(p aycoder.Part) Hit {
	text := ""
	switch p := p.(type) {
	case *aycoder.Text:
		text = p.Text
	case *aycoder.ToolOutput:
		text = p.Text()
	case *aycoder.ToolUse:
		text = p.Name + "\n" + argText(p.Args)
	}
	quality, at := r.query.Match(text)
	if quality == words.NoMatch {
		return Hit{}
	}
	return Hit{Entry: r.hit.Entry, Excerpt: excerpt(text, at), rank: quality*places + inMessage}
}

// argText returns the strings in the arguments of a call.
func argText(args []byte) string {
	var out strings.Builder
	d := json.NewDecoder(bytes.NewReader(args))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return out.String()
		}
		if err != nil {
			return string(args)
		}
		if s, ok := token.(string); ok {
			out.WriteString(s + "\n")
		}
	}
}

// excerpt returns the text around a match in one line, without control characters.
func excerpt(text string, at int) string {
	const before, after = 60, 140
	a, b := max(0, at-before), min(len(text), at+after)
	whole := strings.ToValidUTF8(text[a:b], "") // without the rest of a rune at either end
	clean := oneLine(strings.Map(func(r rune) rune {
		if unicode.In(r, unicode.Cc, unicode.Cf) && !unicode.IsSpace(r) {
			return -1
		}
		return r
	}, whole))
	if a > 0 {
		clean = "…" + clean
	}
	if b < len(text) {
		clean += "…"
	}
	return clean
}
