package compat

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/invopop/jsonschema"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	toolschema "github.com/aycoder/aycoder/internal/schema"
)

type schemaInner struct {
	Line   int  `json:"line" jsonschema:"minimum=1"`
	Column *int `json:"column,omitempty" jsonschema:"exclusiveMinimum=0,exclusiveMaximum=1e3,multipleOf=2"`
}

type schemaBase struct {
	Kind string `json:"kind" jsonschema:"enum=a,enum=b,default=a,title=Kind"`
}

type schemaAll struct {
	schemaBase
	Path   string                 `json:"path" jsonschema:"description=A file\\, or a folder,minLength=1,maxLength=9,pattern=^a"`
	Note   string                 `json:"note,omitempty" jsonschema_description:"What it is, in words" jsonschema:"example=x,format=email"`
	N      int64                  `json:"n,omitzero" jsonschema:"minimum=-1,maximum=20,default=3,enum=1,enum=2"`
	F      float32                `json:"f" jsonschema:"default=1.5"`
	On     bool                   `json:"on,omitempty" jsonschema:"default=true"`
	Quoted int                    `json:"quoted,string"`
	Inner  schemaInner            `json:"inner"`
	Many   []*schemaInner         `json:"many" jsonschema:"minItems=1,maxItems=3,uniqueItems=true"`
	Words  []string               `json:"words,omitempty" jsonschema:"enum=x,enum=y,default=x,default=y"`
	Pair   [2]bool                `json:"pair"`
	Env    map[string]string      `json:"env"`
	ByName map[string]schemaInner `json:"by_name,omitempty"`
	At     time.Time              `json:"at"`
	Data   []byte                 `json:"data"`
	Null   *string                `json:"null" jsonschema:"nullable"`
	Either string                 `json:"either" jsonschema:"oneof_type=string;integer"`
	Hidden string                 `json:"-"`
	Must   string                 `json:"must,omitempty" jsonschema:"required"`
}

// The schemas of arguments are those that the usual package makes of the same tags.
func TestSchemaIsThatOfInvopop(t *testing.T) {
	r := &jsonschema.Reflector{DoNotReference: true, Anonymous: true}
	want := r.Reflect(&schemaAll{})
	want.Version = ""
	data, err := json.Marshal(want)
	require.NoError(t, err)
	got, err := toolschema.Reflect[schemaAll]()
	require.NoError(t, err)
	assert.JSONEq(t, string(data), string(got))
}
