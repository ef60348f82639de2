package mask

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// JSON masks the strings in a decoded JSON value by a function such as [Masker.Excerpt], and returns the masked one. It changes
// maps and lists in place. A string is also looked at behind its name, which may be all that tells a password.
func JSON(v any, mask func(string) string) any {
	switch v := v.(type) {
	case string:
		return mask(v)
	case []any:
		for i := range v {
			v[i] = JSON(v[i], mask)
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			one := v[key]
			if text, ok := one.(string); ok {
				one = named(key, text, mask)
			}
			one = JSON(one, mask)
			delete(v, key)
			v[mask(key)] = one
		}
	}
	return v
}

// named masks a text behind its name.
func named(name, text string, mask func(string) string) string {
	data, _ := json.Marshal(map[string]string{name: text})
	quoted, _ := json.Marshal(name)
	var masked string
	if rest, ok := strings.CutPrefix(mask(string(data)), "{"+string(quoted)+":"); ok && json.Unmarshal([]byte(strings.TrimSuffix(rest, "}")), &masked) == nil {
		return masked
	}
	return text
}
