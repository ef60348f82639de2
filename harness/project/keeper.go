package project

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"weak"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/ignore"
	"github.com/aycoder/aycoder/internal/late"
	"github.com/aycoder/aycoder/internal/part"
	"github.com/aycoder/aycoder/internal/runes"
)

// The instructions of a directory are a separate text in the output of the call that first reads a file there, and so
// are those of a skill. The history has them, so they are there after a resume, and bytes that were sent do not
// change. When a compaction leaves such an output out of the requests, its text is found in the history and added to
// the first message of the user, which a compaction keeps. It is looked for only if a request does not begin with the
// one before: in between, the addition stays the same. After the history was cleared, no request has the text,
// and the next call in the directory adds it again.
//
// Only texts that the tools below have added count: what a file, a page or a server says cannot pass for
// one of them, since it is the first text of its output, or comes from another tool.

const (
	maxKept     = 64 << 10 // bytes that are added to the first message
	maxKeptRuns = 32
	maxNested   = 32 << 10 // bytes of a file, and of all files that are added to one output
	maxLeft     = 10       // files that were left out and are named
)

// pathTools are the tools that use one file, with the argument path.
var pathTools = map[string]bool{"read_file": true, "edit_file": true, "multi_edit": true, "write_file": true}

// Keeper adds instructions of directories to a conversation, and keeps them in its requests. It may serve any
// number of conversations at once.
type Keeper struct {
	source Source
	base   *Instructions

	mu   sync.Mutex
	runs []*keptRun // the last used first
}

// A keptRun is what the model has before it in a run.
type keptRun struct {
	id      string
	present map[string]string   // the ids of blocks, by their keys
	looked  map[string][]string // the blocks of a directory in this turn, as keys and ids by turns
	last    []weak.Pointer[aycoder.Message]
	extra   string // added to the first message
	from    weak.Pointer[aycoder.Message]
	made    *aycoder.Message // from with extra
}

// NewKeeper returns a keeper for the files of a workspace. base are the instructions in the system prompt, which are
// not added again; it may be nil.
func NewKeeper(files Files, base *Instructions) *Keeper {
	if base == nil {
		base = &Instructions{}
	}
	return &Keeper{source: Source{Files: files}, base: base}
}

// Tool is an [aycoder.ToolMiddleware]. To the output of a call of read_file, edit_file, multi_edit or write_file it
// adds the instructions (AGENTS.md, CLAUDE.md and GEMINI.md, with their imports) of the directory of the file and those
// above, up to the root, unless the model has them before it as they are in this turn. Each stands in a separate text, of at
// most 32 KiB. All of them together have 32 KiB, too: the nearest come first, and a line names the others.
// Directories of dependencies, such as node_modules, have none.
// A middleware that masks secrets must be around this one.
func (k *Keeper) Tool(next aycoder.ToolFunc) aycoder.ToolFunc {
	return func(ctx context.Context, inv *aycoder.Invocation) (*aycoder.ToolResult, error) {
		res, err := next(ctx, inv)
		if err != nil || res == nil || res.IsError || !pathTools[inv.Name] {
			return res, err
		}
		var args struct {
			Path string `json:"path"`
		}
		if json.Unmarshal(inv.Args, &args) != nil {
			return res, nil
		}
		rel, err := k.source.Files.Rel(args.Path)
		if err != nil {
			return res, nil
		}
		longer := *res
		longer.Parts = slices.Clip(res.Parts)
		for _, text := range k.news(ctx, inv.Run, path.Dir(rel)) {
			longer.Parts = append(longer.Parts, &aycoder.Text{Text: text})
		}
		return &longer, nil
	}
}

// nested is an instruction for a directory.
type nested struct {
	Instruction
	dir   string
	whole bool // nothing of it was cut out
}

// news returns the instructions for a directory that the model does not have, and takes them for sent. Those for which
// there is no room come with the next call: the room is that of one output.
func (k *Keeper) news(ctx context.Context, run, dir string) (texts []string) {
	if dir == "." || k.knows(run, dir) {
		return nil
	}
	c := newCollector(k.base)
	c.source = k.source
	var found []nested
	var left []string // names of files
	at, size := "", 0
	for element := range strings.SplitSeq(dir, "/") {
		if ignore.Skipped(element) {
			break // a dependency, which the project has not written
		}
		at = path.Join(at, element)
		c.room = maxInstructions
		c.directory(ctx, at, instructionFiles)
		for _, item := range c.Items {
			whole := len(item.Text) <= maxNested
			item.Text = runes.HeadTail(item.Text, maxNested)
			size += len(item.Text)
			found = append(found, nested{item, at, whole})
		}
		c.Items = nil
		for ; size > maxInstructions; found = found[1:] {
			left = append(left, strconv.Quote(runes.Path(found[0].File)))
			size -= len(found[0].Text)
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	r := k.run(run)
	var looked []string
	room := maxNested
	for _, item := range slices.Backward(found) {
		text := item.block(item.dir)
		key, id := blockOf(text)
		looked = append(looked, key, id)
		if r.present[key] == id {
			continue
		}
		if !item.whole || len(item.Text) > room {
			left = append(left, strconv.Quote(runes.Path(item.File)))
		}
		if len(item.Text) <= room {
			room -= len(item.Text)
			r.present[key] = id
			texts = append(texts, text)
		}
	}
	slices.Reverse(texts)
	if n := len(left) - maxLeft; n > 0 {
		left = append(left[n:], "others")
	}
	if len(left) > 0 {
		texts = append(texts, fmt.Sprintf("[There was no room for all instructions in %s. Read them, and follow them.]\n",
			strings.Join(left, ", ")))
	}
	if ctx.Err() == nil {
		r.looked[dir] = looked
	}
	return texts
}

// knows reports whether the model has all instructions for a directory that an earlier look in this turn has found.
func (k *Keeper) knows(run, dir string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	r := k.run(run)
	looked, ok := r.looked[dir]
	for pair := range slices.Chunk(looked, 2) {
		ok = ok && r.present[pair[0]] == pair[1]
	}
	return ok
}

// run returns what is known of a run. The mutex is held. A call outside of a run has no other before it.
func (k *Keeper) run(id string) *keptRun {
	i := slices.IndexFunc(k.runs, func(r *keptRun) bool { return r.id == id })
	r := &keptRun{id: id, present: map[string]string{}, looked: map[string][]string{}}
	if i >= 0 {
		r = k.runs[i]
		k.runs = slices.Delete(k.runs, i, i+1)
	}
	if id != "" {
		k.runs = slices.Insert(k.runs[:min(len(k.runs), maxKeptRuns-1)], 0, r)
	}
	return r
}

// Context is an [aycoder.ContextMiddleware] that keeps instructions of directories and of skills in the requests: those
// that the inner builder has left out are added to the first message of the user, the newest first, as
// far as there is room: 64 KiB, or an eighth of the model's window. It must be around the middleware of package
// compaction, and leave room for this.
func (k *Keeper) Context(next aycoder.ContextBuilder) aycoder.ContextBuilder {
	return aycoder.ContextFunc(func(ctx context.Context, in aycoder.ContextInput) (*aycoder.Request, error) {
		req, err := next.Build(ctx, in)
		if err != nil || req == nil || len(req.Messages) == 0 {
			return req, err
		}
		k.mu.Lock()
		defer k.mu.Unlock()
		return k.run(in.Run).keep(in, req), nil
	})
}

// keep returns the request with what it has to have.
func (r *keptRun) keep(in aycoder.ContextInput, req *aycoder.Request) *aycoder.Request {
	all := append(blocksOf(r.extra), blocksIn(in.Messages)...)                 // a history may have shed what requests do not have
	sent := slices.DeleteFunc(blocksIn(req.Messages), func(text string) bool { // one that was shortened
		return !slices.Contains(all, text)
	})
	if !r.begins(req.Messages) {
		r.extra = missingFrom(in, all, sent)
	}
	r.last = r.last[:0]
	for _, m := range req.Messages {
		r.last = append(r.last, weak.Make(m))
	}
	r.present, r.looked = map[string]string{}, map[string][]string{} // files may have changed since the last turn
	for _, text := range append(sent, blocksOf(r.extra)...) {
		key, id := blockOf(text)
		r.present[key] = id
	}
	i := slices.IndexFunc(req.Messages, isPrompt)
	if r.extra == "" || i < 0 {
		return req
	}
	if r.made == nil || r.from.Value() != req.Messages[i] || !endsWith(r.made, r.extra) {
		m := req.Messages[i]
		r.from = weak.Make(m)
		r.made = &aycoder.Message{Role: m.Role, Parts: append(slices.Clip(m.Parts), &aycoder.Text{Text: r.extra})}
	}
	out := *req
	out.Messages = slices.Clone(req.Messages)
	out.Messages[i] = r.made
	return &out
}

// begins reports whether messages begin with those of the request before.
func (r *keptRun) begins(messages []*aycoder.Message) bool {
	if len(r.last) == 0 || len(r.last) > len(messages) {
		return false
	}
	for i, m := range r.last {
		if m.Value() != messages[i] {
			return false
		}
	}
	return true
}

func endsWith(m *aycoder.Message, text string) bool {
	t, ok := m.Parts[len(m.Parts)-1].(*aycoder.Text)
	return ok && t.Text == text
}

// isPrompt reports whether a message is one of the user, and has no outputs of tools.
func isPrompt(m *aycoder.Message) bool {
	return m.Role == aycoder.RoleUser && !slices.ContainsFunc(m.Parts, part.IsOutput) &&
		slices.ContainsFunc(m.Parts, func(p aycoder.Part) bool { return !part.IsMark(p) })
}

// missingFrom returns the newest of all blocks of the history that were not sent, as far as there is room.
func missingFrom(in aycoder.ContextInput, all, sent []string) string {
	room := int64(maxKept)
	if in.Window > 0 {
		room = min(room, in.Window/2) // bytes, four in a token
	}
	if in.Limit > 0 {
		room = min(room, in.Limit/8)
	}
	var texts []string
	done, left := map[string]bool{}, map[string]bool{}
	for _, text := range slices.Backward(all) {
		key, _ := blockOf(text)
		if done[key] || slices.Contains(sent, text) {
			done[key] = true
			continue
		}
		done[key] = true
		if name, ok := strings.CutPrefix(key, skillTag+" "); int64(len(text)) > room {
			left[name] = ok
			continue
		}
		room -= int64(len(text))
		texts = append(texts, text)
	}
	slices.Reverse(texts)
	maps.DeleteFunc(left, func(_ string, skill bool) bool { return !skill })
	if len(left) > 0 {
		texts = append(texts, fmt.Sprintf("[The instructions of skills were left out: %s. Call skill again for those.]\n",
			strings.Join(slices.Sorted(maps.Keys(left)), ", ")))
	}
	return strings.Join(texts, "")
}

// edited is how the loop begins an output if somebody has changed the arguments of the call.
const edited = "note: whoever approved this call"

// blocksIn returns the blocks in messages, in order.
func blocksIn(messages []*aycoder.Message) (texts []string) {
	for _, m := range messages {
		for _, p := range m.Parts {
			o, ok := p.(*aycoder.ToolOutput)
			if !ok || o == nil || len(o.Parts) < 2 || o.Name != skillTool && !pathTools[o.Name] {
				continue
			}
			own := 1 // the first text is that of the tool
			if t, ok := o.Parts[0].(*aycoder.Text); ok && strings.HasPrefix(t.Text, edited) {
				own = 2
			}
			for _, p := range o.Parts[own:] {
				if t, ok := p.(*aycoder.Text); ok {
					texts = append(texts, blocksOf(t.Text)...)
				}
			}
		}
	}
	return texts
}

// blockStart is the first line of a block.
var blockStart = late.Regexp(`^<(instructions|skill) path=("(?:[^"\\]|\\.)*") id=([0-9a-f]{12})>\n`)

// blockOf returns the key of a whole block, and its id.
func blockOf(text string) (key, id string) {
	m := blockStart().FindStringSubmatch(text)
	return m[1] + " " + m[2], m[3]
}

// blocksOf returns the blocks that follow each other at the beginning of a text.
func blocksOf(text string) (texts []string) {
	for {
		m := blockStart().FindStringSubmatch(text)
		if m == nil {
			return texts
		}
		end := fmt.Sprintf("</%s id=%s>\n", m[1], m[3])
		_, rest, ok := strings.Cut(text, end)
		if !ok {
			return texts
		}
		texts = append(texts, text[:len(text)-len(rest)])
		text = rest
	}
}
