package config

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"sync"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/catalog"
	"github.com/aycoder/aycoder/internal/option"
	"github.com/aycoder/aycoder/internal/regular"
)

// The files of a project, relative to its directory.
const (
	ProjectFile = ".aycoder/config.toml"
	LocalFile   = ".aycoder/config.local.toml"
)

// Option configures [Load] and [NewReloader].
type Option func(*setup) error

type setup struct {
	user, managed, project, profile string
	chosen                          Origin // of the profile, unless it is an option
	lookup                          func(string) (string, bool)
	environ                         []string
	lookPath                        func(string) (string, error)
	flags                           []flag
	trust                           *Trust
	models                          *catalog.Catalog
	providers                       []string
	keys                            map[string][]string
	clock                           aycoder.Clock
	forms                           []Form
}

type flag struct{ name, key, value string }

func set(f func(*setup)) Option {
	return func(s *setup) error {
		f(s)
		return nil
	}
}

// WithUserFile sets the file of the user, which need not exist. Default: none.
func WithUserFile(name string) Option { return set(func(s *setup) { s.user = name }) }

// WithManagedFile sets the file of the administrator, which need not exist. Its values take precedence over all
// others. A limit in it is the largest possible: other sources can set a smaller one. Default: none.
func WithManagedFile(name string) Option { return set(func(s *setup) { s.managed = name }) }

// WithProject sets the directory of a project, whose files are [ProjectFile] and [LocalFile]. They decide nothing
// unless the user trusts them: see [WithTrust]. Default: none.
func WithProject(dir string) Option { return set(func(s *setup) { s.project = dir }) }

// WithTrust sets the answers of the user about projects. Default: nothing is trusted.
func WithTrust(t *Trust) Option { return set(func(s *setup) { s.trust = t }) }

// WithLookup sets where variables come from, in the form of [os.LookupEnv]: those of the names that [Variable]
// returns, AYCODER_PROFILE, those in ${VAR}, and the keys of models. Default: there are no variables.
func WithLookup(lookup func(name string) (string, bool)) Option {
	return set(func(s *setup) { s.lookup = lookup })
}

// WithEnviron sets which variables there are, in the form of [os.Environ], so that one whose name was probably meant
// for a key is a warning. Their values still come from [WithLookup]. Default: names are not checked.
func WithEnviron(environ []string) Option {
	return set(func(s *setup) { s.environ = slices.Clone(environ) })
}

// WithLookPath sets how programs are found, in the form of exec.LookPath, so that a missing one is an error at its
// key. Default: programs are not looked for.
func WithLookPath(find func(name string) (string, error)) Option {
	return set(func(s *setup) { s.lookPath = find })
}

// WithFlag sets a key from the command line. name is that of the flag, for messages. The value is the same text as
// in a file without quotes, and the values of a list are separated by commas. Flags add up.
func WithFlag(name, key, value string) Option {
	return set(func(s *setup) { s.flags = append(s.flags, flag{name, key, value}) })
}

// WithProfile chooses a profile. Default: the variable AYCODER_PROFILE, or none.
func WithProfile(name string) Option { return set(func(s *setup) { s.profile = name }) }

// WithCatalog sets the models that are known, so that a mistyped name is a warning. Default: [catalog.Default].
func WithCatalog(models *catalog.Catalog) Option { return set(func(s *setup) { s.models = models }) }

// WithProviders sets the providers that the program knows. Any other is then an error. Default: providers are not
// checked.
func WithProviders(names ...string) Option { return set(func(s *setup) { s.providers = names }) }

// WithKeys sets the customary variables of providers, one of which has the API key of a model that names no other. That none
// is set is a warning at a model that a role needs. Default: only variables that the configuration names are checked.
func WithKeys(variables map[string][]string) Option {
	return set(func(s *setup) { s.keys = maps.Clone(variables) })
}

// WithClock sets the time for a [Reloader]. Default: [aycoder.SystemClock].
func WithClock(clock aycoder.Clock) Option { return set(func(s *setup) { s.clock = clock }) }

func newSetup(opts []Option) (setup, error) {
	s := setup{
		lookup: func(string) (string, bool) { return "", false },
		clock:  aycoder.SystemClock(),
	}
	if err := option.Apply(&s, opts); err != nil {
		return s, fmt.Errorf("load configuration: %w", err)
	}
	if s.models == nil {
		s.models = catalog.Default()
	}
	if name, ok := s.lookup(prefix + "PROFILE"); ok && s.profile == "" {
		s.profile, s.chosen = name, Origin{Source: Environment, Name: prefix + "PROFILE"}
	}
	return s, nil
}

// Loaded is a configuration with the places of its values. It does not change.
type Loaded struct {
	// Config has the values. Its profiles are empty, since that of the chosen one are in the settings.
	Config Config
	// Diagnostics are the warnings, sorted by place.
	Diagnostics []Diagnostic
	// Questions are about what a project brings and the user has not decided on. It is off until then.
	Questions []Question

	leaves  map[string]*node
	entered map[string]Origin   // the lists that have entries, and these
	files   map[string][]byte   // the contents of the files that were read
	hashes  hashes              // of these files and of scripts
	trusted map[Origin]Question // of the elements of projects that are on
	open    map[string]bool     // the files of projects with something to ask about, and whether any of it is not decided
	lapsed  map[Origin]Settings // of files that have changed
	trust   *Trust
}

// Verify checks that a hook or server, whose Origin is given, is still what the user trusts. A host calls it right
// before the element runs or connects: its script may have changed since the configuration was loaded, also by the
// work of the agent, and the user may have taken back the answer. The error says what has changed. An element of another source is always accepted.
func (l *Loaded) Verify(at Origin) error {
	if !at.Source.theirs() {
		return nil
	}
	q, ok := l.trusted[at]
	switch {
	case at.lapsed:
		return at.changed()
	case !ok:
		return fmt.Errorf("%s is not trusted", at)
	}
	now, err := q.Bind()
	if err != nil {
		return fmt.Errorf("%s is not trusted any more: %w", at, err)
	}
	if now.id() != q.id() {
		return fmt.Errorf("%s is not trusted any more: %s or a script in %s has changed", at, q.File, q.Root)
	}
	if trusted, _, err := l.trust.Decided(now); err != nil || !trusted {
		return errors.Join(fmt.Errorf("%s is not trusted any more: the user has decided otherwise", at), err)
	}
	return nil
}

// Origin returns where the value of a key comes from, such as "agent.max_turns" or "models.main.model". That of a list,
// such as "hooks", is the place of its first entry, "hooks[0]", since the entries may come from several files. It returns the
// source Default for a key that nothing sets.
func (l *Loaded) Origin(key string) Origin {
	if n := l.leaves[key]; n != nil {
		return n.at
	}
	if at, ok := l.entered[key]; ok {
		return at
	}
	return Origin{Source: Default}
}

// Load reads the configuration. Later sources take precedence: default values, the file of the user, the
// files of the project, variables, flags. The managed file is above all. Without options, nothing is read, and the
// result has the default values.
//
// An [*InvalidError] has all faults. Other errors are those of options.
func Load(opts ...Option) (*Loaded, error) {
	s, err := newSetup(opts)
	if err != nil {
		return nil, err
	}
	l, err := load(s, nil)
	if err != nil {
		return nil, err
	}
	return l, nil
}

// A loader puts the sources together.
type loader struct {
	report
	setup
	doc       *field
	tree      *node
	loaded    *Loaded
	kept      map[string][]byte // what to take for files that have vanished
	profiles  []string          // of all files
	malformed bool
	may       *allowance // for questions
	asked     int        // questions
	least     *node      // the mode of the managed file, or nil
	answers   func() (map[string]answer, error)
}

// load returns what it has read also with an error.
func load(s setup, kept map[string][]byte) (*Loaded, error) {
	doc := shape()
	l := &loader{setup: s, doc: doc, tree: &node{field: doc}, kept: kept, may: newAllowance()}
	l.answers = sync.OnceValues(s.trust.load)
	l.loaded = &Loaded{files: map[string][]byte{}, hashes: hashes{}, trusted: map[Origin]Question{}, open: map[string]bool{}, trust: s.trust}
	for _, f := range s.files() {
		if f.source != Managed {
			l.file(f)
		}
	}
	l.tree.merge(l.environment(l.tree))
	l.tree.merge(l.flagged())
	for _, f := range s.files() {
		if f.source == Managed {
			l.file(f)
		}
	}
	l.check()
	l.readForms()
	return l.result()
}

func (l *loader) result() (*Loaded, error) {
	l.tree.rekey("")
	l.tree.store(reflect.ValueOf(&l.loaded.Config).Elem())
	if l.least != nil {
		l.least.store(reflect.ValueOf(&l.loaded.Config.Approval.Least).Elem())
	}
	l.loaded.leaves, l.loaded.entered = l.tree.leaves(), map[string]Origin{}
	l.tree.entries(l.loaded.entered)
	l.loaded.Diagnostics = l.sorted()
	return l.loaded, l.err()
}

// A file is one of the files of a configuration.
type file struct {
	source    Source
	name      string // as diagnostics have it
	root, rel string // of a file in a project
}

// files returns the files that there may be, in the order of their precedence.
func (s *setup) files() []file {
	out := []file{
		{source: User, name: s.user}, s.inProject(Project, ProjectFile), s.inProject(Local, LocalFile),
		{source: Managed, name: s.managed},
	}
	return slices.DeleteFunc(out, func(f file) bool { return f.name == "" })
}

// inProject returns a file of the project, which has no name if there is no project.
func (s *setup) inProject(source Source, rel string) file {
	if s.project == "" {
		return file{}
	}
	return file{source, filepath.Join(s.project, filepath.FromSlash(rel)), s.project, rel}
}

func (f file) read(most int64) ([]byte, error) {
	if f.root == "" {
		return regular.Read(f.name, most)
	}
	root, err := os.OpenRoot(f.root)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return regular.ReadIn(root, filepath.FromSlash(f.rel), most)
}

// contents returns what is in a file, and false if it is not there or cannot be read, which is reported.
func (l *loader) contents(f file) ([]byte, bool) {
	at := Origin{Source: f.source, File: f.name}
	data, err := f.read(maxFile)
	old, had := l.kept[f.name]
	switch {
	case errors.Is(err, fs.ErrNotExist) && had:
		data = old
		l.add(Warning, "", at, "has vanished, and its last values stay", "restart without it to do without them")
	case errors.Is(err, fs.ErrNotExist):
		return nil, false
	case err != nil:
		s := Error
		if f.source.theirs() {
			s = Warning // it must not stop the program before it is trusted
		}
		l.add(s, "", at, "cannot be read: "+unpathed(err).Error(), "")
		return nil, false
	}
	l.loaded.files[f.name], l.loaded.hashes[f.name] = data, sha256.Sum256(data)
	return data, true
}

// file adds a file to the tree.
func (l *loader) file(f file) {
	data, ok := l.contents(f)
	if !ok {
		return
	}
	at := Origin{Source: f.source, File: f.name}
	tree, faults := parse(at, data, l.doc)
	l.profiles = append(l.profiles, slices.Collect(maps.Keys(tree.kidsOf("profile")))...)
	profile := tree.find("profile", l.profile)
	if f.source.theirs() {
		l.theirs(f, tree, profile, faults)
	} else {
		l.take(faults, f.name)
		l.malformed = l.malformed || faults.broken
		l.layer(tree, profile)
	}
}

func (n *node) kidsOf(name string) map[string]*node {
	if kid := n.kids[name]; kid != nil {
		return kid.kids
	}
	return nil
}

// layer puts a file over the sources before it, and its profile over that.
func (l *loader) layer(tree, profile *node) {
	tree.remove("profile")
	for _, n := range []*node{tree, profile} {
		if n != nil {
			l.expand(n, l.lookup)
			l.limitMode(n.find("approval", "mode"))
			l.tree.merge(n)
		}
	}
}

// limitMode notes the mode of the managed file.
func (l *loader) limitMode(n *node) {
	if n != nil && n.value != nil && n.from.Source == Managed && (l.least == nil || n.field.tighter(n.value, l.least.value)) {
		l.least = n
	}
}

// theirs adds a file of a project, as far as the user trusts it. As long as its settings are not trusted, its
// faults are only warnings.
func (l *loader) theirs(f file, tree, profile *node, faults *report) {
	q := Question{Kind: KindSettings, Root: f.root, File: f.rel, Variables: tree.variables(false)}
	trusted := l.trusts(q, f, &l.report, "", Origin{Source: f.source, File: f.name})
	g := &guard{report: &report{lenient: true}}
	g.trusts = func(n *node) bool { return l.element(f, n, g.report) }
	tree.remove("profile")
	servers := tree.namesOf("servers")
	g.restrict(tree, l.tree)
	if profile != nil {
		g.separate(profile.find("servers"), servers)
		g.restrict(profile, l.tree)
	}
	if !trusted {
		faults.demote()
		l.take(faults, f.name)
		return
	}
	l.take(faults, f.name)
	l.take(g.report, f.name)
	l.malformed = l.malformed || faults.broken
	l.layer(tree, profile)
}

// element reports whether the user trusts an element of a file.
func (l *loader) element(f file, n *node, r *report) bool {
	v := reflect.New(n.field.typ).Elem()
	n.store(v)
	q := v.Interface().(asker).ask()
	q.Variables = append(slices.Clone(q.Variables), n.variables(true)...)
	q.Root, q.File, q.Line = f.root, f.rel, n.from.Line
	return l.trusts(q, f, r, n.key, n.from)
}

// trusts reports whether the user trusts what is asked. If this is not decided, the question is put.
func (l *loader) trusts(q Question, f file, r *report, key string, at Origin) bool {
	q, err := l.bind(q, f)
	if err != nil {
		l.loaded.open[f.name] = true
		r.add(Warning, key, at, "is not trusted and off: "+err.Error(), "")
		return false
	}
	answers, err := l.answers()
	a, known := answers[q.id()]
	l.loaded.open[f.name] = l.loaded.open[f.name] || !known
	switch {
	case err != nil:
		r.add(Warning, key, at, "is not trusted and off: "+err.Error(), "repair or remove the file")
	case !known:
		l.loaded.Questions = append(l.loaded.Questions, q)
		r.add(Warning, key, at, "is off until the user trusts it", "answer the question, which needs a terminal")
	case !a.Trusted:
		r.add(Warning, key, at, "is off, since the user does not trust it", "")
	}
	if a.Trusted && err == nil {
		l.loaded.trusted[at] = q
		return true
	}
	return false
}

// bind binds a question to the contents that were read.
func (l *loader) bind(q Question, f file) (Question, error) {
	if l.asked++; l.asked > maxAsked {
		return q, fmt.Errorf("the project has more than %d things to ask about", maxAsked)
	}
	q, found, err := q.bind(l.may, hashes{f.rel: l.loaded.hashes[f.name]})
	for name, h := range found {
		l.loaded.hashes[filepath.Join(f.root, filepath.FromSlash(name))] = h
	}
	return q, err
}
