package api

import (
	"context"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// closeNoted is a body that notes when it is closed.
type closeNoted struct {
	io.ReadCloser
	closed *int
}

func (b closeNoted) Close() error {
	*b.closed++
	return b.ReadCloser.Close()
}

// A reader of a response is free soon after its context is done, also if what the host has given ignores the context.
func TestHostIgnoresContext(t *testing.T) {
	answer := func(b io.ReadCloser) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: b}, nil
	}
	for name, set := range map[string]func(c *Config, hour func(), closed *int) error{
		"transport": func(c *Config, hour func(), closed *int) error {
			return c.SetHTTPClient("o", &http.Client{Transport: roundTrip(func(*http.Request) (*http.Response, error) {
				hour()
				return answer(closeNoted{io.NopCloser(strings.NewReader("")), closed})
			})})
		},
		"body": func(c *Config, _ func(), closed *int) error {
			return c.SetHTTPClient("o", &http.Client{Transport: roundTrip(func(*http.Request) (*http.Response, error) {
				r, _ := io.Pipe()
				return answer(closeNoted{r, closed})
			})})
		},
		"token": func(c *Config, hour func(), closed *int) error {
			return c.SetToken("o", func(context.Context) (string, error) {
				hour()
				*closed++
				return "token", nil
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				x, closed := failing(http.StatusOK, "", nil), 0
				require.NoError(t, set(x.Config, func() { <-time.After(time.Hour) }, &closed))
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				k := x.Open(ctx)
				_, err := k.Next()
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.Equal(t, time.Minute+time.Second, time.Since(start))
				k.Stop()
				<-time.After(2 * time.Hour)
				synctest.Wait()
				require.GreaterOrEqual(t, closed, 1)
			})
		})
	}
}

// A function of the host may panic, or end its goroutine: the goroutine of the reader goes on.
func TestHostPanics(t *testing.T) {
	for name, f := range map[string]func(){"panics": func() { panic("boom") }, "exits": runtime.Goexit} {
		x := failing(http.StatusOK, "", nil)
		require.NoError(t, x.Config.SetToken("o", func(context.Context) (string, error) { f(); return "", nil }))
		k := x.Open(t.Context())
		if name == "panics" {
			require.PanicsWithValue(t, "boom", func() { _, _ = k.Next() })
		} else {
			_, err := k.Next()
			require.ErrorContains(t, err, "ended its goroutine")
		}
		k.Stop()
	}
}
