package paint

// Steps returns an upper bound of the bytes and markers that the painter has looked at.
func (p *Markdown) Steps() int { return p.inline.steps }

// Held returns how many bytes the painter holds.
func (p *Markdown) Held() int {
	n := cap(p.out) + cap(p.line) + cap(p.opening) + cap(p.codeLine) + cap(p.pieces.out) +
		cap(p.inline.buf) + 8*cap(p.inline.open) + cap(p.wrap.out) + cap(p.wrap.line.text) + cap(p.wrap.word.text)
	for _, node := range p.inline.nodes[:cap(p.inline.nodes)] {
		n += 200 + cap(node.text)
	}
	if p.table != nil {
		for _, row := range p.table.rows {
			for _, c := range row {
				n += len(c)
			}
		}
	}
	return n
}
