package corpus

import (
	"bytes"
	"slices"
)

// Resolutions finds out by which texts a human has resolved the conflicts of a merge. The pieces
// are the text before, between and after the conflicts, so there is one more than conflicts. The
// result has an element for each conflict, which is nil if the resolution cannot be told.
//
// It uses no diff, since a merge is made of diffs. If the human changed nothing but the conflicts,
// the file is the pieces with the resolutions between them. The pieces are placed as early as they
// can be, and then as late as they can be. A resolution counts if both ways give the same text. If
// the human changed more, a resolution is what lies between the lines before and after the
// conflict. It counts if these lines, at most ten on each side, occur once in the file.
func Resolutions(pieces [][]byte, file []byte) [][]byte {
	out := make([][]byte, len(pieces)-1)
	early, late, ok := embed(pieces, file)
	for i := range out {
		switch {
		case !ok:
			out[i] = near(pieces[i], pieces[i+1], file)
		case early[i] == late[i] && early[i+1] == late[i+1]:
			out[i] = file[early[i]+len(pieces[i]) : early[i+1] : early[i+1]]
		}
	}
	return out
}

// embed returns where the pieces are in text, as early and as late as possible. The first one
// begins the text, the last one ends it, and all of them are whole lines, in order.
func embed(pieces [][]byte, text []byte) (early, late []int, ok bool) {
	last := len(pieces) - 1
	end := len(text) - len(pieces[last])
	if !bytes.HasPrefix(text, pieces[0]) || !bytes.HasSuffix(text, pieces[last]) {
		return nil, nil, false
	}
	early, late = make([]int, last+1), make([]int, last+1)
	early[last], late[last] = end, end
	at := len(pieces[0])
	for i := 1; i < last; i++ {
		k := first(text[:max(end, 0)], at, pieces[i])
		if k < 0 {
			return nil, nil, false
		}
		early[i], at = k, k+len(pieces[i])
	}
	if at > end {
		return nil, nil, false
	}
	for i := last - 1; i > 0; i-- {
		late[i] = final(text[:late[i+1]], pieces[i])
	}
	return early, late, true
}

// first returns where lines occur first in text[from:], or -1.
func first(text []byte, from int, lines []byte) int {
	for from <= len(text) {
		k := bytes.Index(text[from:], lines)
		if k < 0 {
			break
		}
		if from += k; from == 0 || text[from-1] == '\n' {
			return from
		}
		from++
	}
	return -1
}

// final returns where lines occur last in text, or -1.
func final(text, lines []byte) int {
	for {
		k := bytes.LastIndex(text, lines)
		if k <= 0 || text[k-1] == '\n' {
			return k
		}
		text = text[:k+len(lines)-1]
	}
}

// near returns what lies between the lines before and after a conflict, or nil.
func near(before, after, text []byte) []byte {
	start, end := 0, len(text)
	if above := slices.Collect(bytes.Lines(before)); len(above) > 0 {
		at, size := once(text, above, func(n int) [][]byte { return above[len(above)-n:] })
		if start = at + size; at < 0 {
			return nil
		}
	}
	if below := slices.Collect(bytes.Lines(after)); len(below) > 0 {
		end, _ = once(text, below, func(n int) [][]byte { return below[:n] })
	}
	if end < start {
		return nil
	}
	return text[start:end:end]
}

// once returns where some of the lines are in a text, and their size. It tries ten lines first,
// and then fewer until they occur once. It returns -1 if they do not.
func once(text []byte, lines [][]byte, take func(n int) [][]byte) (at, size int) {
	for n := min(len(lines), 10); n > 0; n-- {
		piece := bytes.Join(take(n), nil)
		if k := first(text, 0, piece); k >= 0 && k == final(text, piece) {
			return k, len(piece)
		}
	}
	return -1, 0
}
