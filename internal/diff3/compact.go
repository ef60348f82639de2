package diff3

// A run of changed lines can often be moved without changing what the diff says:
// when the line above it equals its last line, or the line below its first. compact
// uses that freedom as git does, so that diffs of similar texts come out alike: runs
// that meet are joined, a run goes as far down as it can, unless further up it can
// stand beside a run of the other text, where it goes next to the last such place.
//
// Runs, empty ones included, are separated by unchanged lines, which both texts have
// in common. So the runs of both texts correspond one to one, in order, and that
// stays so while they move.
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

// slideBudget bounds how often lines are moved, for each line there is. Files as
// people write them need less than 3.
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

func (c *cursor) growDown() {
	for c.changed[c.end] {
		c.end++
	}
}

func (c *cursor) growUp() {
	for c.start > 0 && c.changed[c.start-1] {
		c.start--
	}
}

// up moves the run up by one line, if it can be, and joins it with the run it meets.
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

// down moves the run down by one line, if it can be, and joins it with the run it
// meets.
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

// settle moves the run to where it belongs. o is at the corresponding run of the
// other text, and stays so. It returns how many moves that took, about budget at
// most.
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
