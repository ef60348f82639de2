// Package plugin installs and reads plugins: directories with commands, agents, skills, hooks, servers of the Model
// Context Protocol, and programs that are tools.
//
//	store := plugin.NewStore(dir) // in the user's data directory
//	staged, err := store.Stage(ctx, plugin.Source{Git: "https://example.com/tools.git", Subdir: "plugins/lint"})
//	…
//	defer staged.Discard()
//	show(staged.Plugin.Brings(), staged.Changes)
//	err = staged.Install(ctx)                       // copied, and still untrusted
//	err = store.Trust(ctx, staged.Plugin, true)     // the user has seen what it brings
//
// WithPlugins of package harness adds what the plugins of a store bring to an agent.
//
// # The form
//
// The manifest is .claude-plugin/plugin.json or plugin.json, an object with name, version and description. A plugin
// without one has the name under which it is installed. Commands, agents and skills are in the directories of
// these names, and their names get that of the plugin as a prefix: "lint:fix". Hooks are in hooks/hooks.json, servers in
// .mcp.json. The keys commands, agents and skills of the manifest name further directories or files, and hooks and
// mcpServers another file, or have the contents themselves. ${CLAUDE_PLUGIN_ROOT} is the directory of the plugin,
// also in Markdown files.
// The key tools, which other agents do not know, has [Program] values.
//
// # Trust
//
// A plugin is code of strangers. Nothing of it runs while it is installed or looked at: it is copied file by file,
// without symbolic links, and git only fetches objects, so that no filter or hook works. An installed plugin does nothing
// until the user trusts it, and the answer is for exactly these contents, by their hash. Texts are compared with it as
// they are read, and all files before each start of a hook or a program.
package plugin

import "fmt"

// Error reports what could not be done with a plugin.
type Error struct {
	// Op is what was being done, such as "install". Plugin is its name or where it comes from. File is the file in it, or "".
	Op, Plugin, File string
	Err              error
}

// Error implements the error interface.
func (e *Error) Error() string {
	text := fmt.Sprintf("%s plugin %.200q", e.Op, e.Plugin)
	if e.File != "" {
		text += fmt.Sprintf(": %.500q", e.File)
	}
	return text + ": " + e.Err.Error()
}

// Unwrap returns e.Err.
func (e *Error) Unwrap() error { return e.Err }
