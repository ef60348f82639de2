package session

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/workspace"
)

// rootsValue is the name of the value that has the directories of the further roots of the workspace, by name.
const rootsValue = "workspace roots"

// keepRoots records the directories that the further roots of the workspace have. A path in a node must not come to
// mean another file, so it is an error if a root was another directory. Roots that the workspace does not have now
// are not forgotten.
func (s *Session) keepRoots(ctx context.Context, ws *workspace.Workspace) error {
	var dirs map[string]string
	if json.Unmarshal(s.recorded[rootsValue], &dirs) != nil || dirs == nil { // nothing is recorded, or it makes no sense
		dirs = map[string]string{}
	}
	known := len(dirs)
	for _, root := range ws.Roots()[1:] {
		now, err := filepath.EvalSymlinks(root.Dir)
		if err != nil {
			now = root.Dir
		}
		if was, ok := dirs[root.Name]; ok && was != now {
			return &aycoder.ConfigError{Option: "WithFiles",
				Err: fmt.Errorf("%s: was the directory %s in this session, and is %s now: give it another name", root.Name, was, now)}
		}
		dirs[root.Name] = now
	}
	if len(dirs) == known {
		return nil
	}
	data, err := json.Marshal(dirs)
	if err != nil {
		return err
	}
	return s.write(ctx, true, &record{Kind: kindValue, Values: map[string]json.RawMessage{rootsValue: data}})
}
