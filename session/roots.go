package session

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sync"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/workspace"
)

// roots are the directories that the further roots of the workspace have had in a session, by name.
// It is kept as a value of the session: a path in a node must not come to mean another file.
type roots struct {
	mu  sync.Mutex
	dir map[string]string
}

const rootsValue = "workspace roots"

func rootsOf(ws *workspace.Workspace) *roots {
	r := &roots{dir: map[string]string{}}
	for _, root := range ws.Roots()[1:] {
		real, err := filepath.EvalSymlinks(root.Dir)
		if err != nil {
			real = root.Dir
		}
		r.dir[root.Name] = real
	}
	return r
}

// check returns an error if a recorded root was another directory.
func (r *roots) check(recorded json.RawMessage) error {
	was := map[string]string{}
	if recorded == nil || json.Unmarshal(recorded, &was) != nil {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(was)) {
		if now, ok := r.dir[name]; ok && now != was[name] {
			return &aycoder.ConfigError{Option: "WithFiles",
				Err: fmt.Errorf("%s: was the directory %s in this session, and is %s now: give it another name", name, was[name], now)}
		}
	}
	return nil
}

// MarshalJSON implements [Value].
func (r *roots) MarshalJSON() ([]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return json.Marshal(r.dir)
}

// UnmarshalJSON implements [Value]. Roots that the workspace does not have now are not forgotten.
func (r *roots) UnmarshalJSON(data []byte) error {
	was := map[string]string{}
	if err := json.Unmarshal(data, &was); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dir = merged(was, r.dir)
	return nil
}
