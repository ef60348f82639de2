package codegraph_test

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/aycoder/aycoder/codegraph"
	"github.com/stretchr/testify/require"
)

// The names in a drawing are those of files, which may be anything.
func TestSVGText(t *testing.T) {
	names := []string{`a<b>&"c"'d'.go`, "]]>&lt;.go", "x\x01\ufffe.go"}
	svg := (&codegraph.Drawing{Nodes: names, Edges: []codegraph.DrawingEdge{{From: 0, To: 1, Count: 2}}}).SVG()
	var texts []string
	for in := xml.NewDecoder(strings.NewReader(svg)); ; {
		token, err := in.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		if text, ok := token.(xml.CharData); ok {
			texts = append(texts, string(text))
		}
	}
	for _, want := range []string{names[0], names[1], "x\ufffd\ufffd.go", names[0] + " → " + names[1] + ": 2"} {
		require.Contains(t, texts, want)
	}
}
