package api

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
)

func TestConfigRefuses(t *testing.T) {
	tests := []struct {
		name string
		set  func(*Config) error
		want string // "" if it is valid
	}{
		{"key", func(c *Config) error { return c.SetKey("o", "k") }, ""},
		{"no key", func(c *Config) error { return c.SetKey("o", "") }, "o: key is empty"},
		{"two lines", func(c *Config) error { return c.SetKey("o", "a\nb") }, "o: key is empty or has white space"},
		{"base", func(c *Config) error { return c.SetBaseURL("o", "http://localhost:1/v1/") }, ""},
		{"base with a user", func(c *Config) error { return c.SetBaseURL("o", "https://u:p@x") }, "has a user"},
		{"base with a query", func(c *Config) error { return c.SetBaseURL("o", "https://x?a=b") }, "a query"},
		{"relative base", func(c *Config) error { return c.SetBaseURL("o", "x/y") }, "not an absolute"},
		{"base of another kind", func(c *Config) error { return c.SetBaseURL("o", "file:///x") }, "not an absolute"},
		{"no URL", func(c *Config) error { return c.SetBaseURL("o", "http://x\x00") }, "not a URL"},
		{"header name", func(c *Config) error { return c.SetHeader("o", "a b", "c") }, `"a b"`},
		{"header value", func(c *Config) error { return c.SetHeader("o", "a", "c\r\nd: e") }, `"a"`},
		{"no client", func(c *Config) error { return c.SetHTTPClient("o", nil) }, "client is nil"},
		{"tokens", func(c *Config) error { return c.SetMaxTokens("o", 0) }, "0 is less than 1"},
		{"idle", func(c *Config) error { return c.SetIdle("o", -time.Second) }, "-1s is not more than 0"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := NewConfig("p", "https://x")
			err := tt.set(&c)
			if tt.want == "" {
				assert.NoError(t, err)
				return
			}
			e, ok := errors.AsType[*aycoder.ConfigError](err)
			require.True(t, ok, "%v", err)
			assert.Equal(t, "o", e.Option)
			assert.ErrorContains(t, err, tt.want)
		})
	}
}

func TestFindKey(t *testing.T) {
	const home = "https://service.test"
	tests := []struct {
		name string
		env  map[string]string
		set  func(*Config) error
		want string
		err  string
	}{
		{"the first that is set", map[string]string{"TEST_KEY_B": " b\n"}, nil, "b", ""},
		{"the first", map[string]string{"TEST_KEY_A": "a", "TEST_KEY_B": "b"}, nil, "a", ""},
		{"an option wins", map[string]string{"TEST_KEY_A": "a"}, func(c *Config) error { return c.SetKey("o", "k") }, "k", ""},
		{"a header wins", map[string]string{"TEST_KEY_A": "a"}, func(c *Config) error { return c.SetHeader("o", "X-Key", "k") }, "", ""},
		{"a token wins", map[string]string{"TEST_KEY_A": "a"}, func(c *Config) error {
			return c.SetToken("o", func(context.Context) (string, error) { return "t", nil })
		}, "", ""},
		{"another service", map[string]string{"TEST_KEY_A": "a"}, func(c *Config) error { return c.SetBaseURL("o", "http://localhost:1") }, "", ""},
		{"not valid", map[string]string{"TEST_KEY_A": "a b"}, nil, "", "TEST_KEY_A: key is empty or has"},
		{"none", nil, nil, "", "set TEST_KEY_A or pass WithAPIKey"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, name := range []string{"TEST_KEY_A", "TEST_KEY_B"} {
				t.Setenv(name, tt.env[name])
			}
			c := NewConfig("p", home)
			if tt.set != nil {
				require.NoError(t, tt.set(&c))
			}
			err := c.FindKey("m", []string{"X-Key"}, "TEST_KEY_A", "TEST_KEY_B")
			if tt.err != "" {
				require.ErrorContains(t, err, tt.err)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, tt.want, c.Key())
		})
	}
}

func TestPayload(t *testing.T) {
	tests := map[string][]string{
		"nothing":      nil,
		"one":          {"abc"},
		"many":         {"a", "", "bcd", "efghij", ""},
		"empty pieces": {"", "", ""},
	}
	for name, pieces := range tests {
		t.Run(name, func(t *testing.T) {
			p := &Payload{}
			for _, s := range pieces {
				p.Pieces = append(p.Pieces, []byte(s))
			}
			want := strings.Join(pieces, "")
			assert.EqualValues(t, len(want), p.Size())
			require.NoError(t, iotest.TestReader(p.Reader(), []byte(want)))
			again, err := io.ReadAll(p.Reader())
			require.NoError(t, err)
			require.Equal(t, want, string(again), "it can be read again")
			require.Equal(t, want, string(bytes.Join(p.Pieces, nil)))
		})
	}
}
