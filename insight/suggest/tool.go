package suggest

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/aycoder/aycoder"
)

const toolDescription = `List what could be done next in this workspace: uncommitted work, vulnerable dependencies, missing tests and
comments, secrets in files, risky code, old TODOs, code that can be simpler. They are found by patterns, so look at the place before you act.
Without a kind, the most urgent ones are listed.`

type toolArgs struct {
	Kind string `json:"kind,omitempty" jsonschema:"enum=secret,enum=advisory,enum=work,enum=risk,enum=check,enum=outdated,enum=tests,enum=docs,enum=todo,enum=simpler" jsonschema_description:"Only those of this kind."`
}

const maxListed, maxSkipped = 50, 5

// Tool returns the tool suggestions, which only reads. It runs [Find] for each call, with o.
func Tool(o Options) (aycoder.Tool, error) {
	return aycoder.NewTool("suggestions", toolDescription, func(ctx context.Context, _ *aycoder.Invocation, in toolArgs) (*aycoder.ToolResult, error) {
		r, err := Find(ctx, o)
		if err != nil {
			return nil, err
		}
		list := r.Unasked()
		if in.Kind != "" {
			list = slices.DeleteFunc(r.Open(), func(s Suggestion) bool { return string(s.Kind) != in.Kind })
		}
		var b strings.Builder
		if kind := Kind(in.Kind); kind == Outdated && o.Latest == nil || kind == Advisory && o.Advisories == nil || kind == Check && o.Findings == nil {
			return aycoder.TextResult("It was not looked for these: this program has no source for them."), nil
		}
		for i := range list[:min(maxListed, len(list))] {
			b.WriteString(list[i].Line() + "\n")
		}
		if more := len(list) - maxListed; more > 0 {
			fmt.Fprintf(&b, "(%d more are not listed)\n", more)
		}
		if len(list) == 0 {
			b.WriteString("Nothing was found.\n")
		} else if more := len(r.Open()) - len(list); in.Kind == "" && more > 0 {
			fmt.Fprintf(&b, "(%d less urgent ones: ask for a kind)\n", more)
		}
		for i, what := range r.Skipped {
			if i == maxSkipped {
				fmt.Fprintf(&b, "(%d more were not looked at)\n", len(r.Skipped)-i)
				break
			}
			fmt.Fprintf(&b, "(not looked at: %s)\n", what)
		}
		res := aycoder.TextResult(b.String())
		res.Summary = fmt.Sprintf("%d suggestions", len(list))
		return res, nil
	}, aycoder.WithEffect(aycoder.EffectReadOnly))
}
