package cli

import (
	"time"

	"github.com/aycoder/aycoder/internal/cli/line"
)

const (
	mostFound  = 200         // files and declarations that are offered
	searchTime = time.Second // for looking at files that have changed
)

// found returns what a query behind an @ may mean: files of the workspace that are not ignored, and what they declare.
func (c *chat) found(query string) (list []line.Candidate) {
	if c.session == nil {
		return nil
	}
	g, err := c.session.code()
	if err != nil {
		return nil
	}
	switch {
	case !c.session.reads(g, searchTime):
		c.hint = "The files are being read; tab again in a moment."
	case g.Snapshot().Partial():
		c.hint = "There are more files than are read: not all are found."
	}
	s := g.Snapshot()
	if query == "" {
		for name := range s.Files() {
			if list = append(list, line.Candidate{Text: "@" + name}); len(list) == mostFound {
				break
			}
		}
		return list
	}
	for _, f := range s.Find(query, mostFound) {
		cand := line.Candidate{Text: "@" + f.Path}
		if f.Decl >= 0 {
			d := s.Facts(f.Path).Decls[f.Decl]
			cand = line.Candidate{Text: cand.Text + ":" + d.Name, Note: string(d.Kind)}
		}
		list = append(list, cand)
	}
	return list
}
