package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/aycoder/aycoder/config"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/server"
	sessions "github.com/aycoder/aycoder/session"
)

const (
	serveAddress = "127.0.0.1:8080"
	serveToken   = "AYCODER_SERVER_TOKEN"
	serveGrace   = 10 * time.Second // for runs, when the program ends
)

// serve shows the sessions of this directory over HTTP, until a signal comes.
func serve(ctx context.Context, k *call) (failed error) {
	addr, hosts := serveAddress, []string(nil)
	if len(k.args) > 0 {
		addr, hosts = k.args[0], k.args[1:]
	}
	there, err := k.elsewhere()
	if err != nil {
		return err
	}
	host, end, err := k.serving(ctx, there)
	if err != nil {
		return err
	}
	defer func() { failed = errors.Join(failed, end(), there.close()) }()
	token := k.getenv(serveToken)
	if token == "" {
		token = rand.Text()
	}
	srv, err := server.New(*host, server.WithToken(token), server.WithHosts(hosts...))
	if err != nil {
		return err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return errors.Join(err, srv.Close())
	}
	hs := &http.Server{Handler: there.mount(srv), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 128 << 10}
	fmt.Fprintf(k.out, "Listening on http://%s/\n", l.Addr())
	if k.getenv(serveToken) == "" {
		fmt.Fprintf(k.out, "Token: %s\n", token)
	}
	there.say(k, l.Addr())
	served := make(chan error, 1)
	go func() { served <- hs.Serve(l) }()
	select {
	case err = <-served:
		return errors.Join(err, srv.Close())
	case <-ctx.Done():
	}
	grace, stop := context.WithTimeout(context.WithoutCancel(ctx), serveGrace)
	defer stop()
	if err := srv.Shutdown(grace); err != nil { // the journal has what another process needs to go on
		k.tell(err.Error())
	}
	err = hs.Close()
	<-served
	return err
}

// serving makes what the server serves: the sessions of this directory, or of a runner, with the settings of the user.
func (k *call) serving(ctx context.Context, there *elsewhere) (*server.Host, func() error, error) {
	o := &options{}
	st, err := k.settings(&options{print: true}) // which never chooses the demo
	if err != nil {
		return nil, nil, err
	}
	if st.model == "" {
		return nil, nil, &noModelError{st.why}
	}
	all, err := k.store(st)
	if err != nil {
		return nil, nil, err
	}
	k.prune(st)
	here, err := directory()
	if err != nil {
		return nil, nil, err
	}
	common := &session{}
	opts, err := common.options(ctx, o, st)
	if err != nil {
		return nil, nil, err
	}
	opts = append(append(opts, st.code(nil)), k.extra()...) // each runtime has its own graph
	told, end, err := k.telling(ctx, st.loaded.Config.Serve, here)
	if err != nil {
		common.close()
		return nil, nil, err
	}
	opts = append(opts, told...)
	if there != nil {
		here = there.label()
	}
	store := &storeHere{all, here}
	return &server.Host{
			Name:  here, // another directory has its own sessions for the same keys
			Store: func(string) journal.Store { return store },
			Open: func(ctx context.Context, _, id string, more ...sessions.Option) (*harness.Runtime, error) {
				if id != "" && !store.has(ctx, id) {
					return nil, fs.ErrNotExist
				}
				more = append(more[:len(more):len(more)], sessions.WithDir(here))
				extra, err := there.options(ctx)
				if err != nil {
					return nil, err
				}
				rt, err := harness.New(ctx, here, append(append(opts[:len(opts):len(opts)], extra...), harness.WithStore(store, id, more...))...)
				if err == nil {
					tellUnfinished(rt)
				}
				return rt, err
			},
		}, func() error {
			defer common.close()
			return end()
		}, nil
}

// telling begins all that is told of the sessions to others: to webhooks, and by extensions.
func (k *call) telling(ctx context.Context, c config.Serve, dir string) (opts []harness.Option, end func() error, err error) {
	var ends []func() error
	end = func() (err error) {
		for _, f := range slices.Backward(ends) {
			err = errors.Join(err, f())
		}
		return err
	}
	add := func(more []harness.Option, f func() error, failed error) bool {
		if err = failed; err == nil {
			opts = append(opts, more...)
			if f != nil {
				ends = append(ends, f)
			}
		}
		return err == nil
	}
	if !add(k.webhooks(c, dir)) {
		return nil, nil, err
	}
	for _, e := range k.extensions {
		if e.Serve != nil && !add(e.Serve.Start(ctx, k.program(), k.values)) {
			return nil, nil, errors.Join(err, end())
		}
	}
	return opts, end, nil
}

// storeHere is a store without the sessions of other directories.
type storeHere struct {
	journal.Store
	dir string
}

// List yields the sessions of the directory.
func (s *storeHere) List(ctx context.Context) iter.Seq2[journal.Entry, error] {
	return func(yield func(journal.Entry, error) bool) {
		for e, err := range s.Store.List(ctx) {
			if err == nil && e.Dir != s.dir {
				continue
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// Paths returns those of the store.
func (s *storeHere) Paths() []string {
	if p, ok := s.Store.(interface{ Paths() []string }); ok {
		return p.Paths()
	}
	return nil
}

// has reports whether a session is one of the directory.
func (s *storeHere) has(ctx context.Context, id string) bool {
	for e, err := range s.List(ctx) {
		if err == nil && e.ID == id {
			return true
		}
	}
	return false
}
