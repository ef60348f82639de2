package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// project writes three packages, two of which depend on each other through their tests.
func project(dir string) error {
	for name, content := range map[string]string{
		"go.mod":       "module example.com/m\n",
		"app/app.go":   "package app\n\nimport \"example.com/m/cart\"\n\nvar C = cart.New()\n",
		"cart/cart.go": "package cart\n\nfunc New() int { return 1 }\n",
		"cart/x.go":    "package cart\n\nimport \"example.com/m/app\"\n\nvar X = app.C\n",
		"log/log.go":   "package log\n",
	} {
		name = filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func Example() {
	dir, err := os.MkdirTemp("", "graph")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	if err := project(dir); err != nil {
		fmt.Println(err)
		return
	}
	if err := run(context.Background(), []string{"-format", "mermaid", dir}, os.Stdout); err != nil {
		fmt.Println(err)
	}
	// Output:
	// flowchart LR
	//   n0["app/"]
	//   n1["cart/"]
	//   n2["log/"]
	//   n0 -->|1| n1
	//   n1 -->|1| n0
	//   linkStyle 0,1 stroke:red
}

func TestFormats(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, project(dir))
	for format, want := range map[string]string{"svg": "<svg ", "dot": "digraph {"} {
		var out bytes.Buffer
		require.NoError(t, run(t.Context(), []string{"-format", format, "-dir", "cart", dir}, &out))
		require.Contains(t, out.String(), want)
		require.Contains(t, out.String(), "cart.go")
		require.NotContains(t, out.String(), "app/")
	}
	require.ErrorContains(t, run(t.Context(), []string{"-format", "png", dir}, new(bytes.Buffer)), `unknown format "png"`)
	require.Error(t, run(t.Context(), []string{filepath.Join(dir, "missing")}, new(bytes.Buffer)))
	require.Error(t, run(t.Context(), []string{"-unknown"}, new(bytes.Buffer)))
}
