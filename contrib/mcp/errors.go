package mcp

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/aycoder/aycoder/internal/mask"
)

// The kinds of an [Error], for [errors.Is].
var (
	// ErrLost means that the connection was lost during a call, which is not repeated.
	ErrLost = errors.New("the connection was lost, so whether the call was carried out is not known; it is not repeated")
	// ErrDown means that the connection was lost several times, and that the next attempt has to wait.
	ErrDown = errors.New("the server is down")
	// ErrChanged means that the definition of the tool is another one than that of the turn, which was approved.
	ErrChanged = errors.New("the server has changed the definition of this tool; call it again with the new one")
	// ErrGone means that the server does not have the tool any more.
	ErrGone = errors.New("the server does not have this tool any more")
	// ErrAsks means that the server has asked the user again and again, and was not answered any more.
	ErrAsks = errors.New("the server asks again and again, and does not come to a result")
	// ErrUnauthorized means that the server asks for a login, or refuses the one that its headers have.
	ErrUnauthorized = errors.New("the server asks for a login")
	// ErrRefresh means that a token has to be renewed, and that the authorization server does not answer as it should, or has
	// not done so within a second. A renewal that has begun goes on, and a later call finds its token. If it fails, the
	// next call tries it again, after a wait that grows from a second to a minute.
	ErrRefresh = errors.New("the login could not be renewed")
	// ErrClosed means that the runtime was closed.
	ErrClosed = errors.New("the connection is closed")
)

// errForbidden means that the server does not carry out a request, and that a login would not change that.
var errForbidden = errors.New("the server has forbidden it")

// isLogin reports whether an error can be mended by a login.
func isLogin(err error) bool { return errors.Is(err, ErrUnauthorized) || errors.Is(err, ErrRefresh) }

// Error says what was being done with a server, and why it did not work.
type Error struct {
	// Server is its name in the configuration. Op is what was being done, such as "connect" or "call read".
	Server, Op string
	// Code is the code of a JSON-RPC error that the server has answered with, or 0.
	Code int64
	// Stderr is the end of what the program has written to its standard error, at most 4 KiB, after an error
	// of the connection.
	Stderr string
	Err    error
}

// Error implements the error interface.
func (e *Error) Error() string {
	text := fmt.Sprintf("server %s: %s: %v", e.Server, e.Op, e.Err)
	if e.Stderr != "" {
		text += "; it wrote: " + strings.ReplaceAll(e.Stderr, "\n", " | ")
	}
	return text
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// withoutKeys returns an error without the user, the path and the query of an address, as far as they are so long that they may
// have a key in them: the configuration puts variables into addresses.
func withoutKeys(err error, address string) error {
	u, parseErr := url.Parse(address)
	if parseErr != nil {
		return err
	}
	text := err.Error()
	for _, part := range []string{u.RequestURI(), u.EscapedPath(), u.RawQuery, url.User(u.User.Username()).String()} {
		if part = strings.TrimPrefix(part, "/"); len(part) >= mask.MinValue {
			text = strings.ReplaceAll(text, part, "…")
		}
	}
	if text == err.Error() {
		return err
	}
	return &shortened{err, text}
}

// shortened is an error with another text.
type shortened struct {
	error
	text string
}

// Error implements the error interface.
func (e *shortened) Error() string { return e.text }

// Unwrap returns the error.
func (e *shortened) Unwrap() error { return e.error }

// unknownMethod reports whether a server does not know a method that it should.
func unknownMethod(err error) bool {
	e, ok := errors.AsType[*jsonrpc.Error](err)
	return ok && e.Code == jsonrpc.CodeMethodNotFound
}
