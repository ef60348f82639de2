package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/aycoder/aycoder/harness/plugin"
)

// pluginActions lists what "aycoder plugin" can do.
func pluginActions() []Action {
	return []Action{
		{"list", "", "the installed plugins"},
		{"add", "source [name]", "install from a directory or an address (https://, ssh://, file://); " +
			"with a name, the plugin of that name in the index of the source"},
		{"update", "name", "install the newest version, after its changes were shown"},
		{"show", "name", "what it brings"},
		{"trust", "name", "let it do that"},
		{"on", "name", "switch it on"},
		{"off", "name", "switch it off"},
		{"remove", "name", "remove it"},
	}
}

// plugins is where plugins are kept, or nil.
func (st *settings) plugins() *plugin.Store {
	if st.home == "" {
		return nil
	}
	return plugin.NewStore(filepath.Join(st.home, "plugins"))
}

// plugins does what the arguments of "aycoder plugin" say.
func plugins(ctx context.Context, k *call) error {
	store := (&settings{home: k.home()}).plugins()
	if store == nil {
		return errors.New("there is no place for plugins: HOME is not set")
	}
	p := &pluginCommand{call: k, store: store}
	do := map[string]func(context.Context, string) error{
		"list":   func(ctx context.Context, _ string) error { return p.list(ctx) },
		"add":    func(ctx context.Context, from string) error { return p.add(ctx, sourceOf(from), k.arg(1)) },
		"update": p.update, "show": p.show, "trust": p.trust, "remove": p.store.Remove,
		"on":  func(ctx context.Context, name string) error { return p.store.Enable(ctx, name, true) },
		"off": func(ctx context.Context, name string) error { return p.store.Enable(ctx, name, false) },
	}[k.action]
	return do(ctx, k.arg(0))
}

type pluginCommand struct {
	*call
	store *plugin.Store
}

func sourceOf(text string) plugin.Source {
	if strings.Contains(text, "://") {
		return plugin.Source{Git: text}
	}
	return plugin.Source{Path: text}
}

// A listedPlugin is a plugin in the list.
type listedPlugin struct {
	Name   string `json:"name"`
	State  string `json:"state"`
	Source string `json:"source"`
}

func (p *pluginCommand) list(ctx context.Context) error {
	all, err := p.store.List(ctx)
	if err != nil {
		return err
	}
	var out []listedPlugin
	for _, x := range all {
		out = append(out, listedOfPlugin(x))
	}
	return printList(p.call, out, func(x *listedPlugin) string {
		return x.Name + ": " + x.State + ", from " + x.Source
	}, "There are no plugins. See aycoder plugin -h.")
}

func listedOfPlugin(x plugin.Installed) listedPlugin {
	state := "on"
	switch {
	case x.Err != nil:
		state = "damaged"
	case !x.Enabled:
		state = "off"
	case !x.Trusted:
		state = "not trusted"
	}
	return listedPlugin{x.Name, state, x.Source.String()}
}

// find returns an installed plugin.
func (p *pluginCommand) find(ctx context.Context, name string) (plugin.Installed, error) {
	all, err := p.store.List(ctx)
	x, ok := first(all, func(x plugin.Installed) bool { return x.Name == name })
	if err == nil && !ok {
		err = fmt.Errorf("there is no plugin %q", name)
	}
	return x, err
}

// index is the file with the plugins of a source.
const index = ".claude-plugin/marketplace.json"

// add installs a plugin.
func (p *pluginCommand) add(ctx context.Context, from plugin.Source, name string) error {
	st, err := p.store.Stage(ctx, from)
	if err != nil {
		return err
	}
	defer st.Discard()
	if !slices.Contains(st.Plugin.Files.Names(), index) || name == "" && slices.Contains(st.Plugin.Files.Names(), ".claude-plugin/plugin.json") {
		return p.install(ctx, st)
	}
	f, err := st.Plugin.Files.Open(index)
	if err != nil {
		return err
	}
	defer f.Close()
	data, err := io.ReadAll(f)
	if err != nil {
		return err
	}
	offers, problems := plugin.ParseIndex(data, st.Source)
	if o, ok := first(offers, func(o plugin.Offer) bool { return o.Name == name }); ok {
		return p.add(ctx, o.Source, "")
	}
	fmt.Fprintf(p.out, "%s has an index:\n", clean(from.String()))
	for _, o := range offers {
		fmt.Fprintf(p.out, "  %s: %s\n", o.Name, o.Description)
	}
	for _, problem := range problems {
		fmt.Fprintln(p.out, "  note:", clean(problem.Error()))
	}
	return errors.New("name one of these plugins")
}

func (p *pluginCommand) update(ctx context.Context, name string) error {
	x, err := p.find(ctx, name)
	if err != nil {
		return err
	}
	x.Source.Commit = ""
	st, err := p.store.Stage(ctx, x.Source)
	if err != nil {
		return err
	}
	defer st.Discard()
	if st.Plugin.Name != name {
		return fmt.Errorf("the source now has the plugin %q", st.Plugin.Name)
	}
	if st.Before != nil && len(st.Changes) == 0 {
		fmt.Fprintln(p.out, "Nothing has changed.")
		return nil
	}
	for _, c := range st.Changes {
		kind := "changed"
		switch {
		case c.Added:
			kind = "new"
		case c.Removed:
			kind = "removed"
		}
		fmt.Fprintf(p.out, "%s: %s\n", kind, c.Name)
	}
	return p.install(ctx, st)
}

// install shows what a plugin brings, installs it, and asks whether to trust it.
func (p *pluginCommand) install(ctx context.Context, st *plugin.Staged) error {
	writeBrings(p.out, st.Plugin)
	if err := st.Install(ctx); err != nil {
		return err
	}
	if !p.attended() {
		fmt.Fprintf(p.out, "Installed. It does nothing until you trust it: aycoder plugin trust %s\n", st.Plugin.Name)
		return nil
	}
	fmt.Fprintln(p.out, "Installed.")
	yes, err := p.ask(ctx, "Do you trust it?")
	if err != nil || !yes {
		return err
	}
	return p.store.Trust(ctx, st.Plugin, true)
}

func writeBrings(w io.Writer, x *plugin.Plugin) {
	fmt.Fprintln(w, strings.TrimSpace(x.Name+" "+x.Version)+":", x.Description)
	for _, line := range x.Brings() {
		fmt.Fprintln(w, "  "+line)
	}
	for _, note := range x.Warnings {
		fmt.Fprintln(w, "  note:", clean(note.String()))
	}
}

func (p *pluginCommand) show(ctx context.Context, name string) error {
	x, err := p.find(ctx, name)
	if err := cmp.Or(err, x.Err); err != nil {
		return err
	}
	shown := struct {
		listedPlugin
		Version     string   `json:"version,omitempty"`
		Description string   `json:"description,omitempty"`
		Brings      []string `json:"brings"`
	}{listedOfPlugin(x), x.Plugin.Version, x.Plugin.Description, x.Plugin.Brings()}
	return p.print(shown, func(w io.Writer) { writeBrings(w, x.Plugin) })
}

func (p *pluginCommand) trust(ctx context.Context, name string) error {
	x, err := p.find(ctx, name)
	if err := cmp.Or(err, x.Err); err != nil {
		return err
	}
	return p.store.Trust(ctx, x.Plugin, true)
}
