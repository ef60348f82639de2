package harness

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/aycoder/aycoder/config"
)

// exchangeServers closes the servers that the configuration does not have any more, or has in another form, and connects
// to those that it has now, as New does. While the user has not decided about a file of the project, which may have
// switched some off, none is connected. A server of the host stays: only from the start can the configuration take its
// name. One to which the end of ctx broke the connection is tried again.
func (x *reload) exchangeServers(ctx context.Context) {
	b, changed := x.b, false
	if b.in.connect == nil || x.closed {
		return
	}
	next := b.withServers(x.now.Config.Servers)
	maps.Copy(next, x.hosts)
	for name, before := range x.servers {
		now, there := next[name]
		if there && (x.lapsed || sameServer(before, now)) {
			continue
		}
		delete(x.servers, name)
		changed = true
		if err := b.served.remove(name); err != nil {
			b.Notify("servers", fmt.Sprintf("server %s: %v", name, err))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(next)) {
		if _, known := x.servers[name]; known || x.lapsed || ctx.Err() != nil {
			continue
		}
		changed = true
		if err := x.connect(ctx, name, next[name]); err != nil {
			if ctx.Err() != nil {
				continue
			}
			b.serverOff(name, err)
		}
		x.servers[name] = next[name]
	}
	if !changed {
		return
	}
	b.served.recheck(b.isOff) // names may be free now
	if b.served.any() {
		x.update("servers", serversPrompt)
	}
	x.exchangeAgents(ctx)
}

// Close waits for servers to be connected to, so that they are among those that the runtime closes after it.
func (x *reload) Close() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.closed = true
	return nil
}

func (x *reload) connect(ctx context.Context, name string, s config.Server) error {
	b := x.b
	switch {
	case s.Disabled:
		b.served.off(name, "off by the configuration")
		return nil
	case b.served.is(name):
		return errors.New("a plugin has one of this name")
	}
	of, err := b.trustedServer(ctx, name, s)
	if of == nil {
		return err
	}
	of.offered = b.withoutDisabled(of.offered)
	b.put(of)
	return nil
}

// sameServer reports whether two servers are the same, wherever they stand.
func sameServer(a, b config.Server) bool {
	a.Origin = b.Origin
	return reflect.DeepEqual(a, b)
}
