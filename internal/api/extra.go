package api

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/aycoder/aycoder/internal/rawjson"
)

// AppendExtra appends the caller's additional fields, sorted by name, to a JSON object
// that is not closed yet. A field with a reserved name or with invalid JSON is an error.
func AppendExtra(b []byte, extra map[string]json.RawMessage, reserved ...string) ([]byte, error) {
	if len(extra) == 0 {
		return b, nil
	}
	for _, name := range slices.Sorted(maps.Keys(extra)) {
		switch {
		case slices.Contains(reserved, name):
			return nil, fmt.Errorf("field %q is not for Extra", name)
		case !json.Valid(extra[name]):
			return nil, fmt.Errorf("field %q of Extra is not JSON", name)
		}
		b = rawjson.AppendKey(b, name)
		b = append(b, ValidUTF8(extra[name])...)
	}
	return b, nil
}

// HostLabel reports whether s can be a label of a host name, as a region must be. Only
// lower-case letters, digits and hyphens are allowed, so that a region cannot redirect
// requests to another host.
func HostLabel(s string) bool {
	for _, c := range []byte(s) {
		if c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return s != ""
}
