package tools_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/edit"
	"github.com/aycoder/aycoder/policy"
	"github.com/aycoder/aycoder/tools"
	"github.com/aycoder/aycoder/workspace"
)

// A value that an option cannot take is a typed error of the constructor, and so is an option that is nil.
func TestInvalidOptionsAreTyped(t *testing.T) {
	ws, err := workspace.Open(t.TempDir())
	require.NoError(t, err)
	defer ws.Close()
	errs := map[string]error{}
	for name, opt := range map[string]tools.Option{
		"nil": nil, "WithShell": tools.WithShell(nil), "WithExec": tools.WithExec(nil), "WithEnv": tools.WithEnv("=x"),
		"WithHTTPClient": tools.WithHTTPClient(nil), "WithPrivateHosts": tools.WithPrivateHosts("a b"),
		"WithMasker": tools.WithMasker(nil), "WithSandbox": tools.WithSandbox(nil), "WithTodoList": tools.WithTodoList(nil),
	} {
		_, errs[name] = tools.Coding(ws, opt)
	}
	for name, opt := range map[string]tools.SandboxOption{
		"sandbox nil": nil, "WithSandboxRead": tools.WithSandboxRead("/none/such"),
		"WithSandboxWrite": tools.WithSandboxWrite("/none/such"), "WithSandboxProtect": tools.WithSandboxProtect("../x"),
	} {
		_, errs[name] = tools.Landlock(ws, opt)
	}
	for name, opt := range map[string]workspace.Option{"workspace nil": nil, "WithAllowed": workspace.WithAllowed("[a")} {
		_, errs[name] = workspace.Open(t.TempDir(), opt)
	}
	for name, opt := range map[string]workspace.ApplyOption{"apply nil": nil, "WithWriterWait": workspace.WithWriterWait(-1)} {
		_, errs[name] = ws.Apply(t.Context(), edit.Plan{}, opt)
	}
	for name, opt := range map[string]policy.Option{
		"policy nil": nil, "WithMode": policy.WithMode("x"), "WithRules": policy.WithRules("x"),
	} {
		_, errs[name] = policy.New(opt)
	}
	for name, err := range errs {
		_, ok := errors.AsType[*aycoder.ConfigError](err)
		assert.True(t, ok, "%s: %v", name, err)
	}
}
