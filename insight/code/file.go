package code

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/gitrepo"
	"github.com/aycoder/aycoder/internal/runes"
)

// Change is a commit that has changed a file.
type Change struct {
	Commit  string    `json:"commit"`
	Time    time.Time `json:"time"` // by its author
	Author  string    `json:"author"`
	Subject string    `json:"subject"`
	Added   int       `json:"added"` // lines of the file
	Deleted int       `json:"deleted"`
	// From is the name that the file had before this commit, if that was another one.
	From string `json:"from,omitempty"`
	// With are the other files that the commit has changed, at most 30: one with more is about no file in particular.
	With []string `json:"with,omitempty"`
}

const (
	mostChanges = 200 // of a file
	mostNames   = 10  // that it has had
	mostLine    = 200 // bytes of a text
)

// Changes returns the newest 200 commits, without merges, that have changed a file, the newest first, also under names that it had
// before. name is a path relative to dir. The error is that of git or of ctx.
func Changes(ctx context.Context, dir, name string) ([]Change, error) {
	clean := path.Clean(strings.ReplaceAll(name, `\`, "/"))
	if path.IsAbs(clean) || clean == "." || clean == ".." || strings.HasPrefix(clean, "../") {
		return nil, fmt.Errorf("history of %s: it is not a file of the directory", name)
	}
	repo := &gitrepo.Repo{Dir: dir}
	if err := waits(ctx, repo); err != nil {
		return nil, fmt.Errorf("history of %s: %w", name, err)
	}
	prefix, err := repo.Text(ctx, "rev-parse", "--show-prefix")
	if err != nil {
		return nil, fmt.Errorf("history of %s: %w", name, err)
	}
	prefix = strings.TrimSuffix(prefix, "\n") // of the directory in the repository, or ""
	now, from := prefix+clean, "HEAD"
	var all []Change
	for range mostNames {
		before := ""
		commit := func(f []string) {
			seconds, _ := strconv.ParseInt(f[1], 10, 64)
			all = append(all, Change{Commit: f[0], Time: time.Unix(max(0, min(seconds, lastSecond)), 0).UTC(),
				Author: runes.Shorten(runes.Line(f[2]), mostLine), Subject: runes.Shorten(runes.Line(f[3]), mostLine)})
		}
		change := func(n gitrepo.Figure) {
			switch c := &all[len(all)-1]; {
			case n.Name == now:
				c.Added, c.Deleted, c.From, before = n.Added, n.Deleted, n.Was, n.Was
			case len(c.With) <= maxTogether:
				c.With = append(c.With, strings.TrimPrefix(n.Name, prefix))
			}
		}
		err := repo.Log(ctx, []string{"%H", "%at", "%aN", "%s"}, commit, change, "--full-diff", "--no-merges",
			"--max-count="+strconv.Itoa(mostChanges-len(all)), from, "--", ":(top,literal)"+now)
		if err != nil {
			return nil, fmt.Errorf("history of %s: %w", name, cmp.Or(context.Cause(ctx), why(ctx, repo, err)))
		}
		if before == "" || len(all) >= mostChanges {
			break
		}
		now, from = before, all[len(all)-1].Commit+"^"
	}
	return all, nil
}

// Together returns how many of some changes also changed another file, those with the most first, at least two each. Commits of
// more than 30 files do not count.
func Together(changes []Change) []Pair {
	counts, few := map[string]int{}, 0
	for i := range changes {
		if len(changes[i].With) <= maxTogether {
			few++
			for _, name := range changes[i].With {
				counts[name]++
			}
		}
	}
	var out []Pair
	for name, n := range counts {
		if n >= 2 {
			out = append(out, Pair{B: name, Together: n, Share: float64(n) / float64(few)})
		}
	}
	slices.SortFunc(out, func(a, b Pair) int { return cmp.Or(b.Together-a.Together, cmp.Compare(a.B, b.B)) })
	return out
}

const fileDescription = `Tell what has become of a file: who has changed it, when and why, by the newest commits, and which files change
together with it. It is about commits, and not about changes that are not committed.`

type fileArgs struct {
	Path string `json:"path" jsonschema:"minLength=1" jsonschema_description:"The file, relative to the workspace."`
}

// FileTool returns the tool file_history, which only reads. dir is the directory of the workspace, and rel makes a path relative to
// it, or refuses one that is elsewhere, as the method Rel of a workspace does. A call reads at most 200 commits, and takes at most
// 20 seconds.
func FileTool(dir string, rel func(string) (string, error)) (aycoder.Tool, error) {
	return aycoder.NewTool("file_history", fileDescription, func(ctx context.Context, _ *aycoder.Invocation, in fileArgs) (*aycoder.ToolResult, error) {
		name, err := rel(in.Path)
		if err != nil {
			return nil, err
		}
		ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
		defer cancel()
		all, err := Changes(ctx, dir, name)
		if err != nil {
			return nil, err
		}
		res := aycoder.TextResult(fileText(name, all))
		res.Summary = fmt.Sprintf("%d commits", len(all))
		return res, nil
	}, aycoder.WithEffect(aycoder.EffectReadOnly), aycoder.WithSubject(aycoder.SubjectPath, "path"))
}

func fileText(name string, all []Change) string {
	if len(all) == 0 {
		return "No commit has changed " + runes.Path(name) + ".\n"
	}
	const shown, few = 15, 5
	var b strings.Builder
	most := ""
	if len(all) == mostChanges {
		most = "at least "
	}
	fmt.Fprintf(&b, "%s: %s%d commits since %s\n", runes.Path(name), most, len(all), all[len(all)-1].Time.Format(time.DateOnly))
	people := map[string]int{}
	for i := range all {
		people[all[i].Author]++
	}
	names := slices.SortedFunc(maps.Keys(people), func(a, b string) int { return cmp.Or(people[b]-people[a], cmp.Compare(a, b)) })
	b.WriteString("by")
	for i, who := range names[:min(few, len(names))] {
		if i > 0 {
			b.WriteString(",")
		}
		fmt.Fprintf(&b, " %s (%d)", who, people[who])
	}
	if more := len(names) - few; more > 0 {
		fmt.Fprintf(&b, " and %d more", more)
	}
	b.WriteString("\nthe newest:\n")
	for i := range all[:min(shown, len(all))] {
		c := &all[i]
		fmt.Fprintf(&b, "  %s %s +%d -%d %s: %s\n", c.Time.Format(time.DateOnly), c.Commit[:min(10, len(c.Commit))], c.Added, c.Deleted, c.Author, c.Subject)
		if c.From != "" {
			fmt.Fprintf(&b, "    renamed from %s\n", runes.Path(c.From))
		}
	}
	if pairs := Together(all); len(pairs) > 0 {
		b.WriteString("changed in the same commits:\n")
		for _, p := range pairs[:min(few, len(pairs))] {
			fmt.Fprintf(&b, "  %s in %d (%.0f %%)\n", runes.Path(p.B), p.Together, 100*p.Share)
		}
	}
	return runes.Clean(b.String())
}
