//go:build unix

package main

import (
	"encoding/json"
	"testing"
)

// Both agents have the same conversation on each API, and send JSON.
func TestConversations(t *testing.T) {
	for _, w := range wires {
		for _, a := range agents {
			t.Run(w.name+"/"+a.name, func(t *testing.T) {
				t.Parallel()
				requests := 0
				make := func(s setup) (agent, error) { return a.open(w, s) }
				_, err := converse(make, script(w, 3, 2), func(body []byte) {
					if requests++; !json.Valid(body) {
						t.Errorf("request %d is not JSON: %s", requests, body)
					}
				})
				if err != nil || requests != 4 {
					t.Errorf("%d requests, want 4; error %v", requests, err)
				}
				for mode, f := range modes {
					if _, err := f(make, w, sizes{agents: 2, turns: 2, crowd: 3, seconds: 1}); err != nil {
						t.Errorf("%s: %v", mode, err)
					}
				}
			})
		}
	}
}
