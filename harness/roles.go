package harness

import (
	"cmp"
	"context"
	"iter"
	"reflect"
	"slices"
	"sync/atomic"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/config"
)

// An exchanged model is one of the configuration that a change of it may exchange.
type exchanged struct {
	now atomic.Pointer[aycoder.ModelClient]
}

func exchangeable(m aycoder.ModelClient) *exchanged {
	e := new(exchanged)
	e.now.Store(&m)
	return e
}

// Unwrap returns the client that works now, whose abilities [aycoder.As] finds.
func (e *exchanged) Unwrap() aycoder.ModelClient { return *e.now.Load() }

// Stream implements [aycoder.ModelClient].
func (e *exchanged) Stream(ctx context.Context, req *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
	return e.Unwrap().Stream(ctx, req)
}

// current returns the client that works now. A run keeps it, until its own setup changes.
func current(m aycoder.ModelClient) aycoder.ModelClient {
	if e, ok := m.(*exchanged); ok {
		return e.Unwrap()
	}
	return m
}

// A role is a kind of work for which the configuration names a model.
type role struct {
	key, name string
	client    *aycoder.ModelClient // of the runtime
	given     aycoder.ModelClient  // by the host
}

// roles returns the roles as a configuration fills them.
func (b *builder) roles(c config.Roles) []role {
	return []role{
		{"roles.main", cmp.Or(b.in.model, c.Main), &b.Client, b.in.client},
		{"roles.small", c.Small, &b.Small, b.in.small},
		{"roles.summary", c.Summary, &b.Summary, b.in.summary},
	}
}

// exchange opens the models of the roles whose names or definitions have changed. A role whose model cannot be opened
// keeps the one that it has, and is tried again with the next configuration.
func (x *reload) exchange(ctx context.Context, next config.Settings) {
	b := x.b
	before := b.in.settings
	if reflect.DeepEqual(before.Models, next.Models) && before.Roles == next.Roles && len(x.failed) == 0 {
		return
	}
	b.in.settings.Models, b.in.settings.Roles = next.Models, next.Roles
	failed := map[string]bool{}
	for i, r := range b.roles(next.Roles) {
		old := b.roles(before.Roles)[i]
		same := old.name == r.name && reflect.DeepEqual(definitions(before, old.name), definitions(next, r.name))
		if same && !x.failed[r.key] && !r.follows() {
			continue
		}
		if err := x.fill(ctx, r); err != nil {
			failed[r.key] = true
			b.Notify("config", r.key+": the model stays as it was: "+err.Error())
		}
	}
	x.failed = failed
	b.named.Clear()
	b.prepareCommands(ctx)
	x.exchangeAgents(ctx)
}

// follows reports whether a role has the model of the role main, if that is not given.
func (r role) follows() bool { return r.key == "roles.small" && r.name == "" }

// fill opens the model of a role. A role that nothing named at first, or names now, stays as it is.
func (x *reload) fill(ctx context.Context, r role) error {
	e, ok := (*r.client).(*exchanged)
	if !ok || r.given != nil {
		return nil
	}
	m := current(x.b.Client)
	if !r.follows() {
		if r.name == "" {
			return nil
		}
		var err error
		if m, err = x.b.model(ctx, r.name, nil); err != nil {
			return err
		}
	}
	e.now.Store(&m)
	if r.key == "roles.main" {
		x.main = m
	}
	return nil
}

// filled reports whether a role has the model that the configuration names.
func (x *reload) filled(key string) bool {
	for _, r := range x.b.roles(x.b.in.settings.Roles) {
		if r.key == key {
			_, ok := (*r.client).(*exchanged)
			own := key == "roles.main" && x.b.in.model != ""
			return ok && r.given == nil && !own && (r.name != "" || r.follows()) && !x.failed[key]
		}
	}
	return len(x.failed) == 0
}

// definitions returns what a configuration says of a model and of its fallbacks.
func definitions(c config.Settings, name string) []config.Model {
	var out []config.Model
	names := []string{name}
	for i := 0; i < len(names); i++ {
		m := c.Models[names[i]]
		out = append(out, m)
		for _, f := range m.Fallbacks {
			if !slices.Contains(names, f) {
				names = append(names, f)
			}
		}
	}
	return out
}

// SetModel gives the role main another model: an entry of the configuration, or "provider/model". Like a change of the
// configuration, it takes effect before the next turn of a run; a role that follows the main model, and agents, get it
// as well. From then on the configuration does not change the main model. If the model cannot be opened, the error
// says why, and the one before stays. It needs [WithReloader], and a main model that the host has not given with
// [WithClient]. It is safe for concurrent use.
func (r *Runtime) SetModel(ctx context.Context, name string) error {
	x := r.reload
	if x == nil {
		return wrong("WithReloader", "is not among the options")
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.b.in.client != nil {
		return wrong("WithClient", "has set the main model for good")
	}
	before := x.b.in.model
	x.b.in.model = name
	for _, role := range x.b.roles(x.b.in.settings.Roles) {
		if role.key != "roles.main" && !role.follows() {
			continue
		}
		if err := x.fill(ctx, role); err != nil {
			x.b.in.model = before
			return err
		}
	}
	x.exchangeAgents(ctx)
	return nil
}
