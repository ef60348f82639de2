package compat

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// constant is a line of a block of constants, as gofmt leaves it.
var constant = regexp.MustCompile(`(?m)^\t\w+\s+(\w+)\s+= "(.*)"$`)

// readRules reads the constants of packages from their source.
func readRules(t testing.TB, packages ...string) rules {
	t.Helper()
	args := append([]string{"list", "-f", "{{.ImportPath}} {{.Dir}}"}, packages...)
	out, err := exec.CommandContext(t.Context(), "go", args...).Output()
	require.NoError(t, err, "go list")
	known := map[string][]string{}
	for line := range strings.Lines(string(out)) {
		path, dir, _ := strings.Cut(strings.TrimSpace(line), " ")
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		require.NoError(t, err)
		for _, name := range files {
			src, err := os.ReadFile(name)
			require.NoError(t, err)
			for _, m := range constant.FindAllSubmatch(src, -1) {
				typ := path + "." + string(m[1])
				known[typ] = append(known[typ], string(m[2]))
			}
		}
	}
	require.Greater(t, len(known), 10)
	return rules{known: known}
}

// parse decodes a document like encoding/json, with exact numbers. It refuses duplicate
// keys, which readers interpret in different ways.
func parse(data []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	v, err := parseValue(d)
	if err == nil && d.More() {
		err = fmt.Errorf("something follows the document")
	}
	return v, err
}

func parseValue(d *json.Decoder) (any, error) {
	tok, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch tok {
	case json.Delim('{'):
		return parseObject(d)
	case json.Delim('['):
		list := []any{}
		for d.More() {
			v, err := parseValue(d)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err := d.Token()
		return list, err
	}
	return tok, nil
}

func parseObject(d *json.Decoder) (any, error) {
	m := map[string]any{}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, err
		}
		name := key.(string) // a key is always a string
		if _, twice := m[name]; twice {
			return nil, fmt.Errorf("key %q is there twice", name)
		}
		if m[name], err = parseValue(d); err != nil {
			return nil, err
		}
	}
	_, err := d.Token()
	return m, err
}

// prune removes the nulls from the objects of a document.
func prune(doc any) any {
	switch doc := doc.(type) {
	case []any:
		for i := range doc {
			doc[i] = prune(doc[i])
		}
	case map[string]any:
		for name, inner := range doc {
			if doc[name] = prune(inner); inner == nil {
				delete(doc, name)
			}
		}
	}
	return doc
}

// same compares documents. Numbers are equal in all their spellings, and with the precision
// of a float32, because some SDKs have no better type.
func same(a, b any) bool {
	switch a := a.(type) {
	case json.Number:
		n, ok := b.(json.Number)
		return ok && (a == n || number(a) == number(n))
	case []any:
		list, ok := b.([]any)
		return ok && slices.EqualFunc(a, list, same)
	case map[string]any:
		m, ok := b.(map[string]any)
		if !ok || len(m) != len(a) {
			return false
		}
		for k, v := range a {
			if w, there := m[k]; !there || !same(v, w) {
				return false
			}
		}
		return true
	}
	return a == b
}

func number(n json.Number) float32 {
	f, _ := n.Float64()
	return float32(f)
}

// differ describes the first difference of two documents, or returns "".
func differ(at string, a, b any) string {
	if same(a, b) {
		return ""
	}
	switch a := a.(type) {
	case []any:
		list, ok := b.([]any)
		for i := 0; ok && i < len(a) && i < len(list); i++ {
			if where := differ(fmt.Sprintf("%s[%d]", at, i), a[i], list[i]); where != "" {
				return where
			}
		}
	case map[string]any:
		m, ok := b.(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(a)) {
			inner, there := m[name]
			if ok && !there {
				return fmt.Sprintf("%s.%s: %v and nothing", at, name, a[name])
			}
			if ok && !same(a[name], inner) {
				return differ(at+"."+name, a[name], inner)
			}
		}
	}
	return fmt.Sprintf("%s: %v and %v", at, a, b)
}
