package paint

import "unicode/utf8"

// A wrapper breaks text into lines at blanks, and where there are none in a line, anywhere
// between two characters. It takes text in pieces of any size, also inside of a character.
type wrapper struct {
	style Style
	width int
	pre   bool // blanks are kept, and lines are broken at the width

	line, word row
	blanks     int    // between the line and the word
	cluster    []byte // the last character, which may go on
	look       look   // of the cluster

	out     []byte    // finished lines
	lines   []lineEnd // where they end in out
	longest int       // the width of the widest word
}

type lineEnd struct{ end, width int }

// add adds text without line feeds.
func (w *wrapper) add(l look, text []byte) {
	for len(text) > 0 {
		n := 0
		for n < len(text) && text[n] > ' ' && text[n] < 0x7f {
			n++
		}
		switch {
		case n > 0:
			w.ascii(l, text[:n])
		case text[0] == ' ' || text[0] == '\t':
			w.blank(l, text[0])
			n = 1
		default:
			n = w.rune(l, text)
		}
		text = text[n:]
	}
}

// ascii adds characters of one byte. The last one may get an accent.
func (w *wrapper) ascii(l look, text []byte) {
	w.endCluster()
	room := w.width - w.word.width
	if w.pre {
		room = w.width - w.line.width
	}
	if n := len(text) - 1; n <= room {
		w.target().add(l, text[:n], n)
		text = text[n:]
	}
	for ; len(text) > 1; text = text[1:] {
		w.place(l, text[:1], 1)
	}
	w.cluster, w.look = append(w.cluster, text...), l
}

func (w *wrapper) target() *row {
	if w.pre {
		return &w.line
	}
	return &w.word
}

func (w *wrapper) rune(l look, text []byte) int {
	r, n := utf8.DecodeRune(text)
	if !joins(w.cluster, r) {
		w.endCluster()
		w.look = l
	}
	w.cluster = append(w.cluster, text[:n]...)
	return n
}

func (w *wrapper) endCluster() {
	if len(w.cluster) == 0 {
		return
	}
	n := 1
	if len(w.cluster) > 1 {
		n = Width(string(w.cluster))
	}
	c := w.cluster
	w.cluster = w.cluster[:0]
	w.place(w.look, c, n)
}

// place adds a character. Before and after a wide one, a line may be broken.
func (w *wrapper) place(l look, c []byte, n int) {
	if w.pre {
		if w.line.width+n > w.width && w.line.width > 0 {
			w.endLine()
		}
		w.line.add(l, c, n)
		return
	}
	if n > 1 || w.word.width+n > w.width {
		w.endWord()
	}
	w.word.add(l, c, n)
	if n > 1 {
		w.endWord()
	}
}

func (w *wrapper) blank(l look, c byte) {
	w.endCluster()
	if !w.pre {
		w.endWord()
		w.blanks++
		return
	}
	n := 1
	if c == '\t' {
		n = tab - w.line.width%tab
	}
	for range n {
		w.place(l, []byte{' '}, 1)
	}
}

// tab is the distance of tab stops in code.
const tab = 4

// endWord moves the word to the line, or to the next one.
func (w *wrapper) endWord() {
	if len(w.word.text) == 0 {
		return
	}
	w.longest = max(w.longest, w.word.width)
	if w.line.width > 0 && w.line.width+w.blanks+w.word.width > w.width {
		w.endLine()
	}
	if w.line.width > 0 && w.blanks > 0 {
		l := w.word.spans[0].look
		if l != w.line.lastLook() {
			l = 0
		}
		for ; w.blanks > 0; w.blanks-- {
			w.line.add(l, []byte{' '}, 1)
		}
	}
	w.blanks = 0
	w.line.addRow(&w.word)
	w.word.reset()
}

// endLine finishes the line, even if it is empty.
func (w *wrapper) endLine() {
	w.out = w.line.render(w.out, w.style)
	w.lines = append(w.lines, lineEnd{len(w.out), w.line.width})
	w.line.reset()
	w.blanks = 0
}

// close finishes the text.
func (w *wrapper) close() {
	w.endCluster()
	w.endWord()
	if len(w.line.text) > 0 {
		w.endLine()
	}
	w.blanks = 0
}

// closeLine finishes a line that is kept as it is. If there is nothing in it, it is empty.
func (w *wrapper) closeLine() {
	w.endCluster()
	if len(w.line.text) > 0 || len(w.lines) == 0 {
		w.endLine()
	}
}

// reset forgets the text that is not finished.
func (w *wrapper) reset() {
	w.line.reset()
	w.word.reset()
	w.cluster, w.blanks = w.cluster[:0], 0
}

// take calls do with the finished lines and their widths, and forgets them.
func (w *wrapper) take(do func(line []byte, width int)) {
	start := 0
	for _, l := range w.lines {
		do(w.out[start:l.end], l.width)
		start = l.end
	}
	w.out, w.lines = w.out[:0], w.lines[:0]
}

func (w wrapper) clone() wrapper {
	w.line, w.word = w.line.clone(), w.word.clone()
	w.cluster = append([]byte(nil), w.cluster...)
	w.out, w.lines = nil, nil
	return w
}

// hardBreak begins a new line.
func (w *wrapper) hardBreak() {
	w.endCluster()
	w.endWord()
	if w.line.width > 0 {
		w.endLine()
	}
}
