package harness

import (
	"github.com/aycoder/aycoder/config"
	"github.com/aycoder/aycoder/harness/hooks"
	"github.com/aycoder/aycoder/harness/plugin"
)

// HookForms are the files of a project in which other agents keep hooks, for [config.WithForms]: settings.json and
// settings.local.json in .claude. Of their other keys, nothing is taken.
func HookForms() []config.Form {
	return []config.Form{
		{File: ".claude/settings.json", Parse: hooksOf}, {File: ".claude/settings.local.json", Parse: hooksOf},
	}
}

// ServerForms are the files of a project in which other agents keep servers, for [config.WithForms]: .mcp.json. A
// program that has no [WithServers] leaves them out.
func ServerForms() []config.Form {
	return []config.Form{{File: ".mcp.json", Parse: plugin.ParseServers}}
}

func hooksOf(data []byte) config.Parts {
	found, problems := hooks.Parse("", data)
	var out config.Parts
	for _, h := range found {
		out.Hooks = append(out.Hooks, config.Hook{
			Event: config.Event(h.Event), Matcher: h.Matcher, Command: h.Command, Timeout: h.Timeout,
			Origin: config.Origin{Line: h.Line, Column: h.Column},
		})
	}
	for _, p := range problems {
		out.Problems = append(out.Problems, config.Diagnostic{Line: p.Line, Column: 1, Message: p.Message})
	}
	return out
}
