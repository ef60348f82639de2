package mcp

import (
	"context"
	"iter"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/config"
)

// The time of a call does not pass while the host is asked something, also if the call begins meanwhile.
func TestTimeStandsStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := newClient("x", config.Server{}, options{})
		require.NoError(t, err)
		answered, err := c.asks()
		require.NoError(t, err)
		ctx, cancel := c.within(t.Context(), time.Second)
		defer cancel()
		time.Sleep(time.Hour)
		require.NoError(t, ctx.Err())
		answered()
		time.Sleep(2 * time.Second)
		require.Error(t, ctx.Err())
	})
}

// A server can ask neither more questions at once than somebody could answer, nor one that is too large to be shown.
func TestManyQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release, asked := make(chan struct{}), 0
		c, err := newClient("x", config.Server{}, options{elicit: func(context.Context, Question) (Answer, error) {
			asked++
			<-release
			return Answer{Accept: true}, nil
		}})
		require.NoError(t, err)
		ask := func(schema any) error {
			_, err := c.elicited(t.Context(), &mcp.ElicitRequest{Params: &mcp.ElicitParams{Message: "Which?", RequestedSchema: schema}})
			return err
		}
		require.ErrorContains(t, ask(map[string]any{"description": strings.Repeat("x", maxSchema)}), "more than 65536")
		var all sync.WaitGroup
		refused := make(chan error, 100)
		for range cap(refused) {
			all.Go(func() { refused <- ask(nil) })
			synctest.Wait()
		}
		require.Equal(t, maxAsking, asked)
		require.Len(t, refused, cap(refused)-maxAsking)
		require.ErrorContains(t, <-refused, "too many questions")
		close(release)
		all.Wait()
		require.NoError(t, ask(nil))
	})
}

// A list of any number of pages is read up to a number of bytes.
func TestLargeLists(t *testing.T) {
	c, err := newClient("x", config.Server{}, options{})
	require.NoError(t, err)
	text, read := strings.Repeat("x", 1<<20), 0
	found, err := all(t.Context(), c, &conn{}, "tools", func(context.Context) iter.Seq2[*mcp.Tool, error] {
		return func(yield func(*mcp.Tool, error) bool) {
			for read++; yield(&mcp.Tool{Name: "a", Description: text}, nil); read++ {
			}
		}
	})
	require.NoError(t, err)
	require.Len(t, found, maxMessage>>20-1)
	require.Equal(t, maxMessage>>20, read)
}

// A renewal that has an outcome has it also for a request that comes late.
func TestOutcomeOfARenewal(t *testing.T) {
	l := &login{renewal: &renewal{done: make(chan struct{}), token: "t"}}
	close(l.renewal.done)
	for range 100 {
		l.mu.Lock()
		token, err := l.refresh(t.Context())
		require.NoError(t, err)
		require.Equal(t, "t", token)
	}
}

type replaced struct{ http.RoundTripper }

// A host may have replaced the transport of its process.
func TestReplacedTransport(t *testing.T) {
	old := http.DefaultTransport
	defer func() { http.DefaultTransport = old }()
	http.DefaultTransport = replaced{old}
	r, _ := dial(config.Server{URL: "http://127.0.0.1:1"}, nil, time.Second)
	require.NotNil(t, r.base.Proxy)
}
