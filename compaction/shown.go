package compaction

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/jsontext"
	"github.com/aycoder/aycoder/internal/original"
	"github.com/aycoder/aycoder/internal/part"
	"github.com/aycoder/aycoder/internal/runes"
	"github.com/aycoder/aycoder/tokens"
)

// render makes the messages of the request anew.
func (v *conversation) render() {
	v.head, v.reads = inMemory(v.messages).head(), v.repeatedReads()
	v.out, v.size, v.shortened = nil, 0, 0
	if v.note.Server {
		v.add(v.opening()...)
	}
	for i := range v.head {
		v.show(i)
	}
	from := max(v.head, v.note.From)
	if from > v.head && !v.note.Server {
		v.add(aycoder.User(v.note.message()))
	}
	for _, i := range v.note.Kept {
		if i >= v.head {
			v.show(i)
		}
	}
	for i := from; i < len(v.messages); i++ {
		v.show(i)
	}
}

// show adds message i to those of the request.
func (v *conversation) show(i int) {
	m, shortened := v.shown(i)
	if v.shortened += shortened; len(m.Parts) > 0 {
		v.add(m)
	}
}

func (v *conversation) add(messages ...*aycoder.Message) {
	v.out = append(v.out, messages...)
	for _, m := range messages {
		v.size += sizeOf(m.Parts)
	}
}

// kept returns the messages of the user, before from, that stay: those that are pinned, and those of
// the present exchange. was is the note before.
func (v *conversation) kept(was *note, from int) []int {
	const most = 8
	var out []int
	open, answer := true, false // a message before another one of the model does not answer: the service has paused
	keep := func(i int) {
		if m := v.messages[i]; isPrompt(m) && (open && len(out) < most || v.pin(m)) {
			out = append(out, i)
		}
	}
	for i := v.note.At - 1; i >= max(v.head, was.From); i-- {
		if m := v.messages[i]; m.Role == aycoder.RoleAssistant && len(m.Calls()) == 0 && answer {
			open = false
		}
		if i < from {
			keep(i)
		}
		answer = v.messages[i].Role != aycoder.RoleAssistant
	}
	for _, i := range slices.Backward(was.Kept) { // they are of the same exchange if nothing has ended it
		keep(i)
	}
	slices.Reverse(out)
	return out
}

// shown returns a message as it is in the request, and how many of its parts are shortened for that.
func (v *conversation) shown(i int) (m *aycoder.Message, shortened int) {
	m = v.messages[i]
	if original.IsOutline(m) && v.original != nil { // another note was in force when the run began
		if whole, err := v.original(i, m); err == nil {
			m = whole
		}
	}
	if isPrompt(m) && v.pin(m) && v.note.Most == 0 {
		return m, 0
	}
	each, from, to := v.share(i, m)
	parts, shortened := replaced(m.Parts, func(j int, p aycoder.Part) aycoder.Part {
		switch {
		case j < from || j >= to:
			return v.part(i, j, p, each)
		case j == from:
			return &aycoder.Text{Text: fmt.Sprintf("[%d parts of this message are left out here to save room.]", to-from)}
		}
		return nil
	})
	if shortened == 0 && len(parts) == len(m.Parts) {
		return m, 0
	}
	return &aycoder.Message{Role: m.Role, Parts: parts}, shortened
}

// share returns how many bytes each part of prompt i may have, so that all of them together have about
// as many as one text, and which of its parts are left out because they are too many for that. Nothing
// stands for an image or a document, so the last prompt keeps them, or does not fit.
func (v *conversation) share(i int, m *aycoder.Message) (each, from, to int) {
	const least, few = 256, 16
	room := v.note.Most
	if room == 0 || !isPrompt(m) {
		return room, 0, 0
	}
	last := v.isLast(i) && slices.ContainsFunc(m.Parts, isMedia)
	if n := max(room/least, few); len(m.Parts) > n && !last {
		from, to = n*2/3, len(m.Parts)-n/3
	}
	var sizes []int
	for j, p := range m.Parts {
		if j < from || j >= to {
			sizes = append(sizes, weight(p))
		}
	}
	slices.Sort(sizes)
	for i, size := range sizes {
		if each = room / (len(sizes) - i); size > each {
			return each, from, to
		}
		room -= size
	}
	return v.note.Most, from, to
}

// isLast reports whether only marks come between message i and the note, or nothing.
func (v *conversation) isLast(i int) bool {
	j := v.note.At - 1
	for j > i && j < len(v.messages) && isMark(v.messages[j]) {
		j--
	}
	return i >= j
}

// weight returns the number of bytes of text that have about as many tokens as a part of a prompt.
func weight(p aycoder.Part) int {
	if t, ok := p.(*aycoder.Text); ok {
		return len(t.Text)
	}
	return 3 * int(tokens.New().Estimate(tokens.Model{}, &aycoder.Request{Messages: []*aycoder.Message{{Parts: []aycoder.Part{p}}}}).Tokens)
}

// part returns a part of a message as it is in the request, or nil. If it is of a prompt, it has at most
// each bytes.
func (v *conversation) part(i, j int, p aycoder.Part, each int) aycoder.Part {
	most := v.note.Most
	old := i < v.note.Short && i >= v.head
	if old {
		most = least(most, v.note.Each)
	}
	switch p := p.(type) {
	case *aycoder.Text: // an old one is not shortened to less: it has what was decided
		return v.middle(p, each, messageID(i)+strconv.Itoa(j), "")
	case *aycoder.ToolUse:
		if most > 0 && len(p.Args) > 2*most {
			return &aycoder.ToolUse{ID: p.ID, Name: p.Name, Args: jsontext.Shorten(p.Args, most), Extra: p.Extra}
		}
	case *aycoder.ToolOutput:
		return v.output(p, most, old)
	case *aycoder.Media:
		if old || each > 0 && weight(p) > each && !v.isLast(i) {
			return leftOut(p)
		}
	case *aycoder.Opaque:
		only := &aycoder.Message{Role: v.messages[i].Role, Parts: []aycoder.Part{p}}
		if v.compacted(only) && (i >= v.head || v.note.Server) { // only the opening may have such a part
			return nil
		}
	}
	return p
}

func (v *conversation) output(o *aycoder.ToolOutput, most int, old bool) aycoder.Part {
	short := *o
	const again = "[This is left out: the file was read again later, see the newer output.]"
	if old && v.reads[o.ID] && len(again) < len(o.Text()) {
		short.Parts = []aycoder.Part{&aycoder.Text{Text: again}}
		return &short
	}
	more := ""
	if o.Name == readTool {
		more = "; before the file is edited, it has to be read again"
	}
	changed := 0
	short.Parts, changed = replaced(o.Parts, func(_ int, p aycoder.Part) aycoder.Part {
		switch p := p.(type) {
		case *aycoder.Text:
			return v.middle(p, most, o.ID, more)
		case *aycoder.Media:
			if old {
				return leftOut(p)
			}
		}
		return p
	})
	if changed == 0 {
		return o
	}
	return &short
}

func leftOut(m *aycoder.Media) aycoder.Part {
	return &aycoder.Text{Text: fmt.Sprintf("[%s of %d bytes is left out]", m.Type, len(m.Data))}
}

// middle shortens a text in the middle to at most n bytes, if that is not 0. The notice in it ends with more.
func (v *conversation) middle(t *aycoder.Text, n int, id, more string) aycoder.Part {
	text := t.Text
	if n == 0 || len(text) <= n {
		return t
	}
	how := "read or run it again if it is needed"
	if v.recall.Load() {
		how = fmt.Sprintf("recall returns it for the id %q", id)
	}
	notice := fmt.Sprintf("\n[%d bytes are left out here to save room; %s%s]\n", len(text)-n, how, more)
	room := max(n-len(notice), 0)
	short := runes.Cut(text, room*2/3) + notice + runes.Tail(text, room/3)
	if len(short) >= len(text) {
		return t
	}
	return &aycoder.Text{Text: short}
}

// least returns the smaller of two limits, of which 0 is none.
func least[T int | int64](a, b T) T {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

// readTool is the name of the tool that reads files, whose outputs replace earlier ones.
const readTool = "read_file"

// repeatedReads returns the calls before note.At whose outputs a later read of the same file replaces:
// one that returned the same text, or all lines of the file. A later read of other lines replaces
// nothing, since lines move. Other tools never show all of a file.
func (v *conversation) repeatedReads() map[string]bool {
	if v.note.Short == 0 {
		return nil
	}
	repeated, paths := map[string]bool{}, map[string]string{}
	texts, lines := map[[2]string]bool{}, map[string]int{} // of later reads, by path
	messages := v.messages[min(max(v.head, v.note.From), v.note.At):v.note.At]
	for _, m := range messages {
		for _, use := range m.Calls() {
			var args struct{ Path string }
			if use.Name == readTool && json.Unmarshal(use.Args, &args) == nil && args.Path != "" {
				paths[use.ID] = path.Clean(args.Path)
			}
		}
	}
	for _, m := range slices.Backward(messages) {
		for _, o := range slices.Backward(part.Outputs(m)) {
			name, text := paths[o.ID], o.Text()
			if o.IsError || name == "" {
				continue
			}
			last, total, all := linesRead(text)
			if texts[[2]string{name, text}] || last > 0 && last <= lines[name] {
				repeated[o.ID] = true
				continue
			}
			texts[[2]string{name, text}] = true
			if all {
				lines[name] = max(lines[name], total)
			}
		}
	}
	return repeated
}

// linesRead returns the last line that an output of read_file has, and the number of lines in the file, as its
// own last line says. all reports whether the output has all of them: some may be cut out of it.
func linesRead(text string) (last, total int, all bool) {
	i := strings.LastIndex(text, "\n[lines ")
	if i < 0 {
		return 0, 0, false
	}
	first := 0
	if n, _ := fmt.Sscanf(text[i+1:], "[lines %d-%d of %d", &first, &last, &total); n < 3 {
		return 0, 0, false
	}
	return last, total, len(lineNumbers().FindAllStringIndex(text[:i+1], -1)) == total
}

// shortTail shortens the texts of a request's tail like those of messages. The tail is not a part of
// the history, so nothing can recall the rest.
func (b *build) shortTail(req *aycoder.Request) *aycoder.Request {
	short := *req
	short.Tail = slices.Clone(req.Tail)
	for i, t := range short.Tail {
		if b.long(t) {
			short.Tail[i] = &aycoder.Text{Text: runes.HeadTail(t.Text, b.note.Most)}
			b.shortened++
		}
	}
	return &short
}

func (b *build) longTail(req *aycoder.Request) bool { return slices.ContainsFunc(req.Tail, b.long) }

func (b *build) long(t *aycoder.Text) bool {
	return t != nil && b.note.Most > 0 && len(t.Text) > b.note.Most
}

// excess returns how many tokens of a request's tail are in texts, or parts of them, beyond a limit.
func (b *build) excess(req *aycoder.Request, limit int64) (n int64) {
	for _, t := range req.Tail {
		one := &aycoder.Request{Tail: []*aycoder.Text{t}}
		n += max(0, b.counter.Estimate(b.model, one).Tokens-limit)
	}
	return n
}

// isPrompt reports whether the user has written a message.
func isPrompt(m *aycoder.Message) bool {
	return m.Role == aycoder.RoleUser && !slices.ContainsFunc(m.Parts, part.IsOutput) && !isMark(m)
}

func isMedia(p aycoder.Part) bool {
	_, ok := p.(*aycoder.Media)
	return ok
}

// sizeOf returns the size of parts in bytes, about.
func sizeOf(parts []aycoder.Part) int64 {
	n := int64(0)
	for _, p := range parts {
		switch p := p.(type) {
		case *aycoder.Text:
			n += int64(len(p.Text))
		case *aycoder.Thinking:
			n += int64(len(p.Text))
		case *aycoder.ToolUse:
			n += int64(len(p.Name) + len(p.Args))
		case *aycoder.ToolOutput:
			n += int64(len(p.Name)) + sizeOf(p.Parts)
		case *aycoder.Media:
			n += int64(len(p.Data))
		}
	}
	return n
}

// replaced returns what f makes of parts, without those of which it makes nil, and how many others it
// changes.
func replaced(parts []aycoder.Part, f func(i int, p aycoder.Part) aycoder.Part) (out []aycoder.Part, changed int) {
	for i, p := range parts {
		q := f(i, p)
		if q == nil {
			continue
		}
		if q != p {
			changed++
		}
		out = append(out, q)
	}
	return out, changed
}
