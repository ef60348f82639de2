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
	"time"

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
func serve(ctx context.Context, k *call) error {
	addr, hosts := serveAddress, []string(nil)
	if len(k.args) > 0 {
		addr, hosts = k.args[0], k.args[1:]
	}
	host, end, err := k.serving()
	if err != nil {
		return err
	}
	defer end()
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
	hs := &http.Server{Handler: srv, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 128 << 10}
	fmt.Fprintf(k.out, "Listening on http://%s/\n", l.Addr())
	if k.getenv(serveToken) == "" {
		fmt.Fprintf(k.out, "Token: %s\n", token)
	}
	failed := make(chan error, 1)
	go func() { failed <- hs.Serve(l) }()
	select {
	case err = <-failed:
		return errors.Join(err, srv.Close())
	case <-ctx.Done():
	}
	grace, stop := context.WithTimeout(context.WithoutCancel(ctx), serveGrace)
	defer stop()
	if err := srv.Shutdown(grace); err != nil { // the journal has what another process needs to go on
		k.tell(err.Error())
	}
	err = hs.Close()
	<-failed
	return err
}

// serving makes what the server serves: the sessions of this directory, with the settings of the user.
func (k *call) serving() (*server.Host, func(), error) {
	o := &options{}
	st, err := k.settings(o)
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
	here, err := directory()
	if err != nil {
		return nil, nil, err
	}
	common := &session{}
	opts, err := common.options(o, st)
	if err != nil {
		return nil, nil, err
	}
	opts = append(opts, k.extra()...)
	store := &storeHere{all, here}
	return &server.Host{
		Store: func(string) journal.Store { return store },
		Open: func(ctx context.Context, _, id string, more ...sessions.Option) (*harness.Runtime, error) {
			if id != "" && !store.has(ctx, id) {
				return nil, fs.ErrNotExist
			}
			return harness.New(ctx, here, append(opts[:len(opts):len(opts)], harness.WithStore(store, id, more...))...)
		},
	}, common.close, nil
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

// has reports whether a session is one of the directory.
func (s *storeHere) has(ctx context.Context, id string) bool {
	for e, err := range s.List(ctx) {
		if err == nil && e.ID == id {
			return true
		}
	}
	return false
}
