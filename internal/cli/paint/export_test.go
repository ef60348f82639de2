package paint

// Steps returns an upper bound of the bytes and markers that the painter has looked at.
func (p *Markdown) Steps() int { return p.inline.steps }

// Held returns how many bytes the painter holds.
func (p *Markdown) Held() int {
	n := cap(p.out) + cap(p.rest) + len(p.line) + len(p.opening) + len(p.inline.held) +
		8*(cap(p.inline.runs)+cap(p.inline.brackets)) + 100*cap(p.inline.nodes) + cap(p.wrap.text) + 16*cap(p.wrap.spans)
	for _, node := range p.inline.nodes[:cap(p.inline.nodes)] {
		n += len(node.text)
	}
	if p.table != nil {
		for _, row := range p.table.rows {
			for _, c := range row {
				n += cap(c.text) + 16*cap(c.spans)
			}
		}
	}
	return n
}
