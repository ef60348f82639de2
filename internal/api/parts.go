package api

import (
	"fmt"
	"reflect"

	"github.com/aycoder/aycoder"
)

// CheckParts refuses parts that are nil, in the outputs of tools too.
func CheckParts(parts []aycoder.Part) error {
	for i, p := range parts {
		if v := reflect.ValueOf(p); !v.IsValid() || v.IsNil() {
			return fmt.Errorf("part %d is nil", i)
		}
		if out, ok := p.(*aycoder.ToolOutput); ok {
			if err := CheckParts(out.Parts); err != nil {
				return fmt.Errorf("part %d: %w", i, err)
			}
		}
	}
	return nil
}

// NotShown is said in the place of what a model is not shown, so that one odd file does
// not make the whole conversation unsendable.
func NotShown(m *aycoder.Media) string {
	note := fmt.Sprintf("[%d bytes of %s, which this model is not shown", len(m.Data), m.Type)
	if name := m.Name + m.URL; name != "" {
		note += ": " + name
	}
	return note + "]"
}
