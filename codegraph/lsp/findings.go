package lsp

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/codegraph/lint"
	"github.com/aycoder/aycoder/edit"
	"github.com/aycoder/aycoder/internal/runes"
)

const (
	maxRuns = 8   // of a checker for an edit
	maxFix  = 120 // bytes of how to mend something
)

// A report is what a checker has found in a text.
type report struct {
	text     string
	problems []problem
	partly   bool // it could not look at all of it
}

// reports has a report for each file that a checker has looked at.
type reports map[string]report

// before runs the checkers for the files that a call is going to change.
func (c *Client) before(ctx context.Context, inv *aycoder.Invocation) []reports {
	if !slices.ContainsFunc(c.commands, func(cmd Command) bool { return cmd.Findings != "" }) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, c.wait/2)
	defer cancel()
	plan, ok := inv.Planned(ctx)
	if !ok {
		return nil
	}
	texts := map[string]string{}
	for _, f := range plan.Files() {
		if f.Kind == edit.Create || !slices.ContainsFunc(c.commands, func(cmd Command) bool { return cmd.Findings != "" && matches(cmd.Files, f.Path) }) {
			continue
		}
		if text, err := c.read(f.Path); err == nil {
			texts[f.Path] = text
		}
	}
	return c.findings(ctx, texts)
}

// findings runs the checkers for some files.
func (c *Client) findings(ctx context.Context, texts map[string]string) []reports {
	all := make([]reports, len(c.commands))
	var wg sync.WaitGroup
	for i := range c.commands {
		if cmd := c.commands[i]; cmd.Findings != "" && len(texts) > 0 {
			wg.Go(func() { all[i] = c.look(ctx, cmd, texts) })
		}
	}
	wg.Wait()
	return all
}

// look runs a checker once for each script that the files need. A file of which it says nothing, because it fails, has no
// report.
func (c *Client) look(ctx context.Context, cmd Command, texts map[string]string) reports {
	scripts := map[string][]string{} // the files of each
	for name := range texts {
		if matches(cmd.Files, name) {
			dir, rest := c.rootOf(name)
			key := dir + "\x00" + cmd.scriptOf(rest)
			scripts[key] = append(scripts[key], name)
		}
	}
	found := reports{}
	for i, names := range sortedGroups(scripts) {
		if i == maxRuns {
			break
		}
		out, code, ok := c.run(ctx, cmd, names[0])
		if !ok {
			continue
		}
		list, err := lint.Parse(cmd.Findings, []byte(out))
		if err != nil && (code != 0 || strings.TrimSpace(out) != "") || code != 0 && len(list) == 0 {
			continue
		}
		partly := slices.ContainsFunc(list, func(f lint.Finding) bool { return f.Stops })
		for _, name := range names {
			found[name] = report{texts[name], nil, partly}
		}
		for i := range list {
			if name, ok := c.fileOf(&cmd, list[i].Path, names); ok {
				r := found[name]
				if len(r.problems) < maxFileErrors {
					r.problems = append(r.problems, problemOf(&list[i]))
					found[name] = r
				}
			}
		}
	}
	return found
}

// sortedGroups returns the values of a map, each sorted, by what is first in them.
func sortedGroups(m map[string][]string) (out [][]string) {
	for _, names := range m {
		slices.Sort(names)
		out = append(out, names)
	}
	slices.SortFunc(out, slices.Compare[[]string])
	return out
}

// fileOf returns which of some files a checker means by a path: one that is relative is so to the directory in which the
// script may have gone, or to that of the workspace.
func (c *Client) fileOf(cmd *Command, p string, names []string) (string, bool) {
	if name, ok := c.relative(p); ok && path.IsAbs(p) {
		return name, slices.Contains(names, name)
	}
	for _, name := range names {
		_, rest := c.rootOf(name)
		if strings.Contains(cmd.Script, "{dir}") && path.Join(path.Dir(rest), p) == rest || path.Clean(p) == rest {
			return name, true
		}
	}
	return "", false
}

func problemOf(f *lint.Finding) problem {
	text := coded(f.Message, f.Rule)
	if fix := lineOf(f.Fix, maxFix); fix != "" {
		text += "; fix: " + fix
	}
	return problem{f.Line, text}
}

// newFindings returns lines about the findings that were not there before.
func (c *Client) newFindings(ctx context.Context, changes []change, before []reports) (lines []string) {
	texts := map[string]string{}
	for _, ch := range changes {
		if ch.is {
			texts[ch.path] = ch.after
		}
	}
	for i, after := range c.findings(ctx, texts) {
		for _, ch := range changes {
			now, ok := after[ch.path]
			if !ok {
				continue
			}
			var old *report
			if i < len(before) {
				if r, ok := before[i][ch.path]; ok {
					old = &r
				}
			}
			for _, p := range c.fresh(c.commands[i].Script+"\x00"+ch.path, ch, old, now) {
				lines = append(lines, fmt.Sprintf("%s:%d: %s", runes.Path(ch.path), p.line, p.text))
			}
		}
	}
	return lines
}

// fresh returns what of a report was not there before, and remembers the report.
func (c *Client) fresh(key string, ch change, before *report, now report) []problem {
	c.mu.Lock()
	known := c.known[key]
	if len(c.known) >= maxSaid && known == nil {
		clear(c.known)
	}
	if !now.partly {
		c.known[key] = &now
	} else if before != nil && !before.partly {
		c.known[key] = before
	}
	c.mu.Unlock()
	fresh := now.problems
	if before != nil {
		fresh = added(before.problems, fresh, before.text, now.text)
	}
	switch {
	case !ch.was || before != nil && !before.partly:
	case known != nil: // an error may have hidden what was there before
		fresh = added(known.problems, fresh, known.text, now.text)
	default:
		hunks := hunksOf(ch.before, ch.after)
		fresh = slices.DeleteFunc(slices.Clone(fresh), func(p problem) bool {
			return !slices.ContainsFunc(hunks, func(h hunk) bool { return h.now <= p.line && p.line < h.nowEnd })
		})
	}
	return fresh
}
