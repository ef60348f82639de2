package agenttest

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A variant is a call that the suite derived from a valid call.
type variant struct{ what, args string }

// A shape holds the parts of a JSON schema that the suite uses.
type shape struct {
	Type       string                     `json:"type"`
	Properties map[string]json.RawMessage `json:"properties"`
	Required   []string                   `json:"required"`
	Extra      json.RawMessage            `json:"additionalProperties"`
}

// readShape parses the schema and the arguments of a valid call, from which the suite derives
// other calls.
func readShape(schema json.RawMessage, args string) (shape, map[string]json.RawMessage, error) {
	var sh shape
	if err := json.Unmarshal(schema, &sh); err != nil {
		return sh, nil, fmt.Errorf("read schema: %w", err)
	}
	var in map[string]json.RawMessage
	if err := json.Unmarshal([]byte(args), &in); err != nil {
		return sh, nil, fmt.Errorf("read arguments: %w", err)
	}
	if in == nil {
		return sh, nil, errors.New("read arguments: not an object")
	}
	return sh, in, nil
}

// with returns the arguments as JSON, with one of them set to value, or left out if value is "".
// It writes the value as it is, so that the value may be invalid JSON.
func with(in map[string]json.RawMessage, key, value string) string {
	var b strings.Builder
	add := func(k, v string) {
		if b.Len() > 0 {
			b.WriteString(",")
		}
		name, _ := json.Marshal(k)
		b.Write(name)
		b.WriteString(":" + v)
	}
	for _, k := range slices.Sorted(maps.Keys(in)) {
		if k != key {
			add(k, string(in[k]))
		}
	}
	if value != "" {
		add(key, value)
	}
	return "{" + b.String() + "}"
}

// misfits returns calls that violate the schema in every way the suite knows. Models make such
// calls: they forget arguments, invent some, and are cut off in the middle of one.
func misfits(schema json.RawMessage, args string) ([]variant, error) {
	sh, in, err := readShape(schema, args)
	if err != nil {
		return nil, err
	}
	out := []variant{
		{"an array", `[]`}, {"a string", `"x"`}, {"a number", `1`},
		{"half of the JSON text", args[:len(args)/2]}, {"two JSON texts", args + args},
		{"a byte that is not JSON", args + "\x00"}, {"invalid UTF-8", args[:len(args)-1] + "\xff}"},
	}
	for _, k := range sh.Required {
		out = append(out, variant{"no " + k, with(in, k, "")})
	}
	for _, k := range slices.Sorted(maps.Keys(sh.Properties)) {
		if v := otherType(sh.Properties[k]); v != "" {
			out = append(out, variant{k + " = " + v, with(in, k, v)})
		}
	}
	// A schema that allows unknown keys cannot be violated by one.
	if string(sh.Extra) == "false" {
		out = append(out, variant{"an unknown key", with(in, "no_such_argument", `1`)})
	}
	return out, nil
}

// otherType returns a JSON value whose type differs from that of the property. It returns "" for
// a property that allows several types, since no value is surely invalid there.
func otherType(property json.RawMessage) string {
	var p struct {
		Type any `json:"type"`
	}
	if json.Unmarshal(property, &p) != nil {
		return ""
	}
	switch p.Type {
	// A list is never converted to these types, while some decoders convert numbers.
	case "string", "boolean":
		return `[1]`
	case "integer", "number", "array", "object":
		return `"x"`
	}
	return ""
}

// oddities returns calls with strange arguments, some of which the schema allows: NUL bytes, lone
// surrogates, numbers that overflow, paths that lead out of the directory, very long texts.
func oddities(schema json.RawMessage, args string) ([]variant, error) {
	sh, in, err := readShape(schema, args)
	if err != nil {
		return nil, err
	}
	out := []variant{{"nothing", ""}, {"null", "null"}, {"no keys", "{}"}}
	long, _ := json.Marshal(strings.Repeat("long ", 200_000))
	strange := map[string][]string{
		"string": {
			`""`, `"\u0000"`, `"a\u0000b"`, "\"a\xffb\"", `"\ud800"`, `"\n"`,
			`"../../../../../../etc/passwd"`,
			`"/"`, `"-"`, `"*"`, `"\u202e\u2603"`, string(long),
		},
		"integer": {`-1`, `0`, `9223372036854775807`, `9223372036854775808`, `1e300`, `1.5`},
		"number":  {`-1`, `0`, `1e308`, `1e999`},
		"array":   {`[]`, `[null]`},
		"boolean": {`true`, `false`},
	}
	for _, k := range slices.Sorted(maps.Keys(sh.Properties)) {
		var p struct {
			Type any `json:"type"`
		}
		if json.Unmarshal(sh.Properties[k], &p) != nil {
			continue
		}
		kind, _ := p.Type.(string)
		for _, v := range append(strange[kind], "null") {
			out = append(out, variant{k + " = " + shown(v), with(in, k, v)})
		}
	}
	return out, nil
}

// snapshot describes each file in the directory of the tool by its mode and a hash of its
// content. Times are left out, because reading a file may change them.
func (s *toolSuite) snapshot() map[string]string {
	files := map[string]string{}
	err := filepath.WalkDir(s.Dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		line := fmt.Sprint(info.Mode())
		switch {
		case info.Mode().IsRegular():
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			line += fmt.Sprintf(" %x", sha256.Sum256(data))
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			line += " " + target
		}
		files[path] = line
		return nil
	})
	if err != nil {
		s.t.Fatalf("agenttest: read %s: %v", s.Dir, err)
	}
	return files
}

// same checks that the directory still equals an earlier snapshot.
func (s *toolSuite) same(before map[string]string, what string) {
	after := s.snapshot()
	for path, line := range before {
		if after[path] != line {
			s.found.add(ruleToolReads, "%s changes %s", what, path)
		}
	}
	for path := range after {
		if before[path] == "" {
			s.found.add(ruleToolReads, "%s makes %s", what, path)
		}
	}
}
