package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/api"
	"github.com/aycoder/aycoder/internal/rawjson"
)

// Code that both APIs share: extra fields, names, schemas, media.

// maxName is the maximum length of a tool name: "must match ^[a-zA-Z0-9_-]{1,64}$".
const maxName = 64

// mergeExtra combines the extra fields of the client and of the request. If both have a
// field, that of the request wins.
func mergeExtra(own, extra map[string]json.RawMessage) map[string]json.RawMessage {
	if len(own) == 0 {
		return maps.Clone(extra)
	}
	all := maps.Clone(own)
	maps.Copy(all, extra)
	return all
}

// appendExtra appends the fields of [mergeExtra], sorted. Nulls are removed, and reserved
// fields are an error.
func appendExtra(b []byte, all map[string]json.RawMessage, reserved []string) ([]byte, error) {
	maps.DeleteFunc(all, func(name string, val json.RawMessage) bool {
		return isNullJSON(val) && !slices.Contains(reserved, name)
	})
	return api.AppendExtra(b, all, reserved...)
}

// appendFloat appends a number, which must be finite in JSON.
func appendFloat(b []byte, what string, x float64) ([]byte, error) {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return nil, fmt.Errorf("%s %v is not a number", what, x)
	}
	return strconv.AppendFloat(b, x, 'f', -1, 64), nil
}

// schemaOf returns the schema of a tool's arguments, or that of an empty object.
func schemaOf(raw json.RawMessage) (json.RawMessage, error) {
	if raw = bytes.TrimSpace(raw); len(raw) > 0 && !rawjson.IsObject(raw) {
		return nil, fmt.Errorf("schema is not a JSON object")
	}
	return validSchema(raw), nil
}

// validSchema is [schemaOf] for a validated tool.
func validSchema(raw json.RawMessage) json.RawMessage {
	if raw = bytes.TrimSpace(raw); len(raw) == 0 {
		return json.RawMessage(`{"type":"object","properties":{}}`)
	}
	return api.ValidUTF8(raw)
}

// argsSchema is [validSchema] with the type "object" and a list of properties, as OpenAI
// requires: "object schema missing properties". Nearly all schemas have both. See also
// [api.Flatten].
func argsSchema(raw json.RawMessage) json.RawMessage {
	raw = validSchema(raw)
	if rawjson.Has(raw, "type") && rawjson.Has(raw, "properties") && !api.MayCombine(raw) {
		return raw
	}
	o := api.Flatten(rawjson.Split(raw))
	if typ := o.Value("type"); typ != nil && string(typ) != `"object"` {
		return raw
	}
	o.Set("type", json.RawMessage(`"object"`))
	if o.Value("properties") == nil {
		o.Set("properties", json.RawMessage(`{}`))
	}
	return o.AppendTo(nil)
}

// tokenCount reads a number of tokens. An absurd number of a broken service becomes a
// harmless one.
func tokenCount(r *rawjson.Reader) int64 {
	n, _ := r.Int()
	return api.Count(n)
}

// toolName maps the name of a tool to a name that the API accepts. The same name always
// gives the same result, so that the prompt cache hits.
func toolName(s string) string { return mapName(s, maxName, isNameByte) }

// mappedNames returns the original names of renamed tools, by their names on the wire.
func mappedNames(tools []*aycoder.ToolSpec) map[string]string {
	var names map[string]string
	for _, s := range tools {
		if s == nil || toolName(s.Name) == s.Name {
			continue
		}
		if names == nil {
			names = map[string]string{}
		}
		names[toolName(s.Name)] = s.Name
	}
	return names
}

// mapName returns s if all of its bytes are allowed and it is not longer than most.
// Otherwise it replaces the lost part by a hash of the whole.
func mapName(s string, most int, allowed func(byte) bool) string {
	fits := s != "" && len(s) <= most
	for i := range len(s) {
		fits = fits && allowed(s[i])
	}
	if fits {
		return s
	}
	h := fnv.New64a()
	h.Write([]byte(s)) // never returns an error
	sum := strconv.FormatUint(h.Sum64(), 16)
	b := []byte(s[:min(len(s), most-len(sum)-1)])
	for i, c := range b {
		if !allowed(c) {
			b[i] = '_'
		}
	}
	return string(b) + "_" + sum
}

func isNameByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' ||
		c == '-'
}

func isPrintable(c byte) bool { return c > ' ' && c < 0x7f }

// mediaType returns the media type without parameters, in lower case.
func mediaType(m *aycoder.Media) string {
	typ, _, _ := strings.Cut(strings.ToLower(m.Type), ";")
	if typ = strings.TrimSpace(typ); typ == "image/jpg" {
		return "image/jpeg"
	}
	return typ
}

// isText reports whether a media type denotes text.
func isText(typ string) bool {
	return strings.HasPrefix(typ, "text/") || strings.HasSuffix(typ, "+json") ||
		strings.HasSuffix(typ, "+xml") || slices.Contains(textTypes, typ)
}

// textTypes are text types that do not begin with "text/".
var textTypes = []string{"application/json", "application/x-ndjson", "application/xml",
	"application/yaml", "application/x-yaml", "application/toml", "application/javascript",
	"application/typescript", "application/x-sh", "application/sql", "application/csv"}

// toolText returns the output of a tool, with a prefix if the tool failed, because the
// APIs have no field for that.
func toolText(o *aycoder.ToolOutput, text string) string {
	if !o.IsError {
		return text
	}
	return strings.TrimRight("Error: "+text, " ")
}

// isImage reports whether vision models accept the type: "We currently support PNG
// (.png), JPEG (.jpeg and .jpg), WEBP (.webp), and non-animated GIF (.gif)."
func isImage(typ string) bool {
	return slices.Contains([]string{"image/jpeg", "image/png", "image/gif", "image/webp"}, typ)
}

// appendMediaURL appends the URL of m, or its content as a data URL.
func appendMediaURL(b []byte, m *aycoder.Media, typ string) []byte {
	if len(m.Data) == 0 {
		return rawjson.AppendString(b, m.URL)
	}
	b = append(b, `"data:`...)
	b = rawjson.AppendEscaped(b, typ)
	b = append(b, `;base64,`...)
	return append(b, rawjson.AppendBase64(nil, m.Data)[1:]...)
}

func blank(s string) bool { return strings.TrimSpace(s) == "" }

// reasons reports whether a model thinks, judged by OpenAI's names for models. Models
// that do not think refuse the field reasoning_effort.
func reasons(model string) bool {
	_, name, _ := cutLast(model, "/")
	return len(name) > 1 && name[0] == 'o' && name[1] >= '1' && name[1] <= '9' ||
		strings.HasPrefix(name, "gpt-5") && !strings.HasPrefix(name, "gpt-5-chat") || strings.HasPrefix(name, "codex-")
}

// cutLast is [strings.Cut] at the last sep.
func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return "", s, false
}

// fixedTemperature reports whether a model refuses a temperature: "Only the default (1)
// value is supported" by thinking models, unless their effort is "none".
func fixedTemperature(model, effort string) bool {
	return reasons(model) && (leastEffort(model) != "none" || effort != "" && effort != "none")
}

// effortOf returns the effort for a number of thinking tokens, for services that do not
// accept a number.
func effortOf(model string, thinking int) string {
	_, name, _ := cutLast(model, "/")
	switch {
	case thinking <= 0:
		return ""
	case strings.HasPrefix(name, "gpt-5") && strings.Contains(name, "-pro"):
		return "high" // see leastEffort
	case thinking <= 2048:
		return "low"
	case thinking <= 8192:
		return "medium"
	}
	return "high"
}

// neverThinks reports whether a model is known not to think, judged by OpenAI's names,
// including those of fine-tuned models ("ft:gpt-4.1:…").
func neverThinks(model string) bool {
	_, name, _ := cutLast(model, "/")
	name = strings.TrimPrefix(name, "ft:")
	return slices.ContainsFunc([]string{"gpt-3", "gpt-4", "chatgpt-", "gpt-5-chat"}, func(s string) bool {
		return strings.HasPrefix(name, s)
	})
}

// leastEffort returns the effort that turns thinking off, or down as far as possible:
// "none" was introduced with gpt-5.1, "minimal" exists only for gpt-5, and models for
// code support neither. It is empty for models with a fixed effort: "The gpt-5-pro model
// defaults to (and only supports) high reasoning effort."
func leastEffort(model string) string {
	_, name, _ := cutLast(model, "/")
	five := strings.HasPrefix(name, "gpt-5")
	switch {
	case five && slices.ContainsFunc([]string{"-pro", "-chat", "codex-mini"}, func(s string) bool {
		return strings.Contains(name, s)
	}):
		return ""
	case strings.Contains(name, "codex"):
		return "low"
	case strings.HasPrefix(name, "gpt-5."):
		return "none"
	case five:
		return "minimal"
	}
	return "low"
}
