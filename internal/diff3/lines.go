package diff3

import (
	"bytes"
	"hash/maphash"
)

// maxSize is the size in bytes above which a file is treated as binary. Line numbers and offsets
// are stored in 32 bits. Git has the same limit.
const maxSize = 1023 << 20

// Lines is a text that is split into lines. A line includes the "\n" at its end, which only the
// last line may lack. An empty text has no lines.
type Lines struct {
	data []byte
	off  []int32 // line i is data[off[i]:off[i+1]]; nil if data is one line
	ids  []int32 // lines with equal bytes have equal ids
}

// whole returns data as a single line, whatever data contains.
func whole(data []byte) *Lines { return &Lines{data: data} }

// Len returns the number of lines.
func (l *Lines) Len() int {
	if l.off == nil {
		return min(len(l.data), 1)
	}
	return len(l.ids)
}

// Slice returns the bytes of the lines from lo up to but not including hi.
func (l *Lines) Slice(lo, hi int) []byte {
	from, to := l.Offset(lo), l.Offset(hi)
	return l.data[from:to:to]
}

// Offset returns the offset at which line i begins. Offset(Len()) is the size of the text.
func (l *Lines) Offset(i int) int {
	if l.off == nil {
		return i * len(l.data)
	}
	return int(l.off[i])
}

// table gives equal lines equal numbers, across several texts. Lines with the same hash are
// compared by their bytes. The hash has a random seed, so that nobody can construct lines that
// collide.
type table struct {
	seed  maphash.Seed
	texts []*Lines
	first []place // where the line with this id was seen first
	slots []slot  // open addressing, a power of two long
}

type place struct{ text, line int32 }

// slot holds an id plus 1, so that the zero value is free.
type slot struct {
	hash uint32
	next int32
}

func newTable() *table {
	return &table{seed: maphash.MakeSeed(), slots: make([]slot, 16)}
}

// size returns how many different lines there are.
func (t *table) size() int { return len(t.first) }

// add splits data into lines. Texts after the first one are expected to be similar to it: the
// line that comes next there is compared before a line is hashed.
func (t *table) add(data []byte) *Lines {
	for _, l := range t.texts {
		if bytes.Equal(l.data, data) {
			return &Lines{data: data, off: l.off, ids: l.ids}
		}
	}
	n := bytes.Count(data, []byte{'\n'})
	if len(data) > 0 && data[len(data)-1] != '\n' {
		n++
	}
	l := &Lines{data: data, off: make([]int32, 0, n+1), ids: make([]int32, 0, n)}
	var like *Lines
	if len(t.texts) > 0 {
		like = t.texts[0]
	}
	t.texts = append(t.texts, l)
	t.cut(l, like)
	return l
}

// addPieces splits data into pieces other than lines. The function next returns the length of the
// first piece of its argument.
func (t *table) addPieces(data []byte, next func([]byte) int) *Lines {
	l := &Lines{data: data}
	t.texts = append(t.texts, l)
	for at := 0; at < len(data); {
		n := next(data[at:])
		l.off = append(l.off, int32(at))
		l.ids = append(l.ids, t.id(l, data[at:at+n]))
		at += n
	}
	l.off = append(l.off, int32(len(data)))
	return l
}

// cut finds the lines of l. In a text that was edited, most lines follow each other as in the
// original text, like. For these lines the number is known without hashing, and even before the
// end of the line is found.
func (t *table) cut(l, like *Lines) {
	guess := 0
	for at := 0; at < len(l.data); {
		l.off = append(l.off, int32(at))
		if like != nil && guess < like.Len() {
			if n := sameLine(l.data[at:], like.Slice(guess, guess+1)); n > 0 {
				l.ids = append(l.ids, like.ids[guess])
				at += n
				guess++
				continue
			}
		}
		end := len(l.data)
		if i := bytes.IndexByte(l.data[at:], '\n'); i >= 0 {
			end = at + i + 1
		}
		id := t.id(l, l.data[at:end])
		l.ids = append(l.ids, id)
		guess = t.resync(like, guess, id)
		at = end
	}
	l.off = append(l.off, int32(len(l.data)))
}

// sameLine returns the length of line if rest begins with that whole line, and 0 otherwise.
func sameLine(rest, line []byte) int {
	if !bytes.HasPrefix(rest, line) {
		return 0
	}
	if line[len(line)-1] == '\n' || len(rest) == len(line) {
		return len(line)
	}
	return 0
}

// resync returns the index of the line of like that is expected next. It is called when the line
// with the given id came instead of the line at guess.
func (t *table) resync(like *Lines, guess int, id int32) int {
	if like == nil || t.first[id].text != 0 {
		return guess
	}
	for i := guess; i < min(guess+32, like.Len()); i++ {
		if like.ids[i] == id {
			return i + 1
		}
	}
	return max(guess, int(t.first[id].line)+1)
}

// id returns the number of a line of l. The line is about to be appended to l.
func (t *table) id(l *Lines, line []byte) int32 {
	hash := uint32(maphash.Bytes(t.seed, line))
	mask := uint32(len(t.slots) - 1)
	i := hash & mask
	for ; t.slots[i].next != 0; i = (i + 1) & mask {
		if s := t.slots[i]; s.hash == hash && bytes.Equal(t.line(s.next-1), line) {
			return s.next - 1
		}
	}
	t.first = append(t.first, place{int32(len(t.texts) - 1), int32(len(l.ids))})
	t.slots[i] = slot{hash, int32(len(t.first))}
	if 2*len(t.first) > len(t.slots) {
		t.grow()
	}
	return int32(len(t.first) - 1)
}

// line returns the bytes of the line with a number. Its end is known, because the offset after it
// was stored before any other line was looked up.
func (t *table) line(id int32) []byte {
	p := t.first[id]
	return t.texts[p.text].Slice(int(p.line), int(p.line)+1)
}

// grow doubles the number of slots, so that half of them stay free and searches stay short.
func (t *table) grow() {
	old := t.slots
	t.slots = make([]slot, 2*len(old))
	mask := uint32(len(t.slots) - 1)
	for _, s := range old {
		if s.next == 0 {
			continue
		}
		i := s.hash & mask
		for t.slots[i].next != 0 {
			i = (i + 1) & mask
		}
		t.slots[i] = s
	}
}
