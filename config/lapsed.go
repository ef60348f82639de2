package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
)

// The restrictions of a project must not go away because a file of it changes, since an agent could change it and wait
// for a turn. So a [Reloader] keeps those of a file as the user trusted it, until the user has decided about all that
// the file has now. If it has nothing to decide about, as when it is empty, that is until the program ends.

// preToolUse is the event whose hooks refuse a call if they cannot run.
const preToolUse Event = "PreToolUse"

// Lapsed returns the settings of earlier configurations, in no order, one for each file of the project that has changed since the
// user trusted it, and about which the user has not decided. The restrictions of the project in them, such as rules and
// limits, are to stay. Hooks before tools stay in Config, and [Loaded.Verify] has an error for them, so that they refuse
// their calls.
func (l *Loaded) Lapsed() []Settings {
	return slices.Collect(maps.Values(l.lapsed))
}

// keep keeps what files of the project restricted in an earlier configuration.
func (l *Loaded) keep(before *Loaded) {
	l.lapsed = map[Origin]Settings{}
	for at, s := range before.lapsed {
		l.lapse(at, s)
	}
	for at, q := range before.trusted {
		if q.Kind == KindSettings {
			l.lapse(at, before.Config.Settings)
		}
	}
	for _, h := range before.Config.Hooks {
		if h.Event != preToolUse || !h.Origin.Source.theirs() || l.settled(h.Origin.File) || l.has(h) {
			continue
		}
		h.Origin.lapsed = true
		l.Config.Hooks = append(l.Config.Hooks, h)
	}
}

// lapse keeps settings, unless the user has decided about those of the file now.
func (l *Loaded) lapse(at Origin, s Settings) {
	if _, ok := l.trusted[at]; !ok && !l.settled(at.File) {
		l.lapsed[at] = s
	}
}

// settled reports whether the user has decided about all that a file has, which is something.
func (l *Loaded) settled(file string) bool {
	open, asked := l.open[file]
	return asked && !open
}

// has reports whether a hook is in force, wherever it stands in its file.
func (l *Loaded) has(h Hook) bool {
	return slices.ContainsFunc(l.Config.Hooks, func(o Hook) bool {
		same := o.Origin.File == h.Origin.File
		o.Origin = h.Origin
		return same && reflect.DeepEqual(o, h)
	})
}

// changed is the error of an element that is only kept.
func (o Origin) changed() error {
	return fmt.Errorf("%s has changed since the user trusted it: decide about the file, or start again", o)
}
