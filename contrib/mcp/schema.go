package mcp

import (
	"encoding/json"
	"slices"
)

// Services of models refuse a request with a definition that they do not take, and with it every turn of every
// conversation. So what servers that were made from older or looser descriptions have is written as draft 2020-12 says it.

// adapt writes a schema so that all services take it. It also returns the server's own names of arguments, by those that
// they have in it.
func adapt(schema []byte) (adapted []byte, args map[string]string, err error) {
	var v any
	if err := json.Unmarshal(schema, &v); err != nil {
		return nil, nil, err
	}
	modern(v)
	if m, ok := v.(map[string]any); ok {
		delete(m, "$schema") // which may name an older draft, by which it would say something else now
		args = rename(m)
	}
	adapted, err = json.Marshal(v)
	return adapted, args, err
}

// modern rewrites a decoded schema in place: exclusive bounds of draft 4, which OpenAPI 3.0 has too, and tuples of draft 7.
// An array says that its elements may be anything, which OpenAI demands.
func modern(v any) {
	switch v := v.(type) {
	case []any:
		for _, x := range v {
			modern(x)
		}
	case map[string]any:
		for exclusive, bound := range map[string]string{"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"} {
			if is, old := v[exclusive].(bool); old {
				delete(v, exclusive)
				if limit, ok := v[bound]; ok && is {
					v[exclusive] = limit
					delete(v, bound)
				}
			}
		}
		if tuple, old := v["items"].([]any); old {
			v["prefixItems"] = tuple
			delete(v, "items")
			if rest, ok := v["additionalItems"]; ok {
				v["items"] = rest
				delete(v, "additionalItems")
			}
		}
		kinds, _ := v["type"].([]any)
		if (v["type"] == "array" || slices.Contains(kinds, any("array"))) && v["items"] == nil {
			v["items"] = map[string]any{}
		}
		for key, x := range v {
			switch key {
			case "enum", "const", "default", "examples", "example", "dependentRequired": // data
			case "properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies":
				named, _ := x.(map[string]any)
				for _, x := range named {
					modern(x)
				}
			default:
				modern(x)
			}
		}
	}
}

// rename gives the arguments of a tool names of the form that Anthropic demands, as far as they have others.
func rename(schema map[string]any) (own map[string]string) {
	props, _ := schema["properties"].(map[string]any)
	as := map[string]string{}
	for name := range props {
		if other := portable("", name, "."); other != name {
			if own == nil {
				own = map[string]string{}
			}
			own[other], as[name] = name, other
		}
	}
	if own != nil {
		renamed(schema, as)
	}
	return own
}

// renamed writes other names of arguments where a decoded schema says something about them.
func renamed(v any, as map[string]string) {
	switch v := v.(type) {
	case []any:
		for i, x := range v {
			if name, ok := x.(string); !ok {
				renamed(x, as)
			} else if other, ok := as[name]; ok {
				v[i] = other
			}
		}
	case map[string]any:
		for _, key := range []string{"required", "allOf", "anyOf", "oneOf", "not", "if", "then", "else"} {
			renamed(v[key], as)
		}
		for _, key := range []string{"properties", "dependentRequired", "dependentSchemas", "dependencies"} {
			named, _ := v[key].(map[string]any)
			for _, x := range named {
				if key != "properties" { // whose values are about another object
					renamed(x, as)
				}
			}
			for name, other := range as {
				if x, ok := named[name]; ok {
					named[other] = x
					delete(named, name)
				}
			}
		}
	}
}

// ownArgs returns the arguments of a call with the names that the server has for them.
func (t *tool) ownArgs(args json.RawMessage) json.RawMessage {
	var m map[string]json.RawMessage
	if len(t.args) == 0 || json.Unmarshal(args, &m) != nil {
		return args
	}
	for as, name := range t.args {
		if value, ok := m[as]; ok {
			m[name] = value
			delete(m, as)
		}
	}
	data, err := json.Marshal(m)
	if err != nil {
		return args // of a value that was decoded, so never
	}
	return data
}
