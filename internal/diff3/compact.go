package diff3

// A run of changed lines can often be moved without changing the meaning of the diff: if the line
// above the run equals its last line, or the line below it equals its first line. compact moves
// the runs as git does, so that diffs of similar texts look alike. Runs that meet are joined. A
// run is moved down as far as possible. But if it can be placed beside a run of the other text
// further up, it is moved to the last such place.
//
// Runs, which may be empty, are separated by unchanged lines, and both texts have these lines in
// common. So the runs of both texts correspond one to one, in order, and still do so after they
// have moved.
func compact(s, other *side) {
	r, o := cursor{side: s}, cursor{side: other}
	r.first()
	o.first()
	budget := slideBudget * (len(s.ids) + len(other.ids) + slideBudget)
	for {
		if r.end > r.start {
			budget -= r.settle(&o, budget)
		}
		if !r.next() {
			return
		}
		o.next()
	}
}

// slideBudget bounds the number of moves for each line of the text. Files that people write need
// less than 3.
const slideBudget = 64

// cursor is a run of changed lines of a text, which may be empty.
type cursor struct {
	*side
	start, end int
}

// first goes to the run before the first unchanged line.
func (c *cursor) first() {
	c.start, c.end = 0, 0
	c.growDown()
}

// next goes to the run after the next unchanged line.
func (c *cursor) next() bool {
	if c.end == len(c.ids) {
		return false
	}
	c.start = c.end + 1
	c.end = c.start
	c.growDown()
	return true
}

// prev goes to the run before the previous unchanged line.
func (c *cursor) prev() bool {
	if c.start == 0 {
		return false
	}
	c.end = c.start - 1
	c.start = c.end
	c.growUp()
	return true
}

// growDown extends the run over the changed lines below it. The mark after the last line is never
// set, so no bounds check is needed.
func (c *cursor) growDown() {
	for c.changed[c.end] {
		c.end++
	}
}

// growUp extends the run over the changed lines above it.
func (c *cursor) growUp() {
	for c.start > 0 && c.changed[c.start-1] {
		c.start--
	}
}

// up moves the run up by one line if possible, and joins it with a run that it meets.
func (c *cursor) up() bool {
	if c.start == 0 || c.ids[c.start-1] != c.ids[c.end-1] {
		return false
	}
	c.start--
	c.end--
	c.changed[c.start], c.changed[c.end] = true, false
	c.growUp()
	return true
}

// down moves the run down by one line if possible, and joins it with a run that it meets.
func (c *cursor) down() bool {
	if c.end == len(c.ids) || c.ids[c.start] != c.ids[c.end] {
		return false
	}
	c.changed[c.start], c.changed[c.end] = false, true
	c.start++
	c.end++
	c.growDown()
	return true
}

// settle moves the run to its final place. The cursor o is at the corresponding run of the other
// text, and stays there. The result is the number of moves, which is at most about budget.
func (c *cursor) settle(o *cursor, budget int) int {
	moves, top, beside := 0, 0, false
	for size := -1; size != c.end-c.start && moves <= budget; {
		size = c.end - c.start
		for c.up() {
			o.prev()
			moves++
		}
		top = c.end
		beside = o.end > o.start
		for c.down() {
			o.next()
			moves++
			beside = beside || o.end > o.start
		}
	}
	if c.end == top || !beside {
		return moves
	}
	for o.end == o.start && c.up() {
		o.prev()
		moves++
	}
	return moves
}
