package cli

import (
	"context"
	"time"

	"github.com/aycoder/aycoder/codegraph"
	"github.com/aycoder/aycoder/internal/cli/line"
)

const (
	mostFound  = 200         // files and declarations that are offered
	searchTime = time.Second // for looking at files that have changed
)

// A finder finds files and declarations of a workspace by the letters of their names.
type finder struct {
	done chan struct{} // closed when the files were read, or nil if nothing reads them
	stop func()
}

// newest returns the workspace as it is, or as it was when reading it takes too long: then that goes on.
func (f *finder) newest(g *codegraph.Graph) *codegraph.Snapshot {
	if f.done == nil {
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		f.done, f.stop = done, cancel
		go func() {
			defer close(done)
			_, _ = g.Refresh(ctx) // after an error, the graph is as it was
		}()
	}
	select {
	case <-f.done:
		f.close()
	case <-time.After(searchTime):
	}
	return g.Snapshot()
}

// close ends the reading of files.
func (f *finder) close() {
	if f.done != nil {
		f.stop()
		<-f.done
		f.done = nil
	}
}

// found returns what a query behind an @ may mean: files of the workspace that are not ignored, and what they declare.
func (c *chat) found(query string) (list []line.Candidate) {
	if c.session == nil {
		return nil
	}
	g, err := c.session.code()
	if err != nil {
		return nil
	}
	s := c.finder.newest(g)
	switch {
	case c.finder.done != nil:
		c.hint = "The files are being read; tab again in a moment."
	case s.Partial():
		c.hint = "There are more files than are read: not all are found."
	}
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
