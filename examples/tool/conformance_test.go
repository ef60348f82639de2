package main

import (
	"testing"

	"github.com/aycoder/aycoder/agenttest"
)

func TestConformance(t *testing.T) {
	newTool := func(t testing.TB) agenttest.ToolSetup {
		d := &deployer{versions: []string{"v1.2"}}
		tool, err := d.tool()
		if err != nil {
			t.Fatal(err)
		}
		return agenttest.ToolSetup{Tool: tool}
	}
	agenttest.TestTool(t, newTool,
		agenttest.ToolCase{Name: "known version", Args: `{"target":"staging","version":"v1.2"}`, Want: "v1.2 runs on staging"},
		agenttest.ToolCase{Name: "unknown version", Args: `{"target":"staging","version":"v9"}`, Fails: true},
	)
}
