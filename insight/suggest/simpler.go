package suggest

import (
	"context"
	"maps"
	"path"
	"slices"

	"github.com/aycoder/aycoder/insight/refactor"
	"github.com/aycoder/aycoder/internal/ignore"
)

// simpler tells which Go code can be made simpler.
func (f *finder) simpler(ctx context.Context) error {
	dirs := map[string][]string{}
	for name := range f.s.Files() {
		if ignore.Vendored(name) {
			continue
		}
		switch path.Ext(name) {
		case ".go", ".s", ".c", ".cc", ".cpp", ".S":
			dirs[path.Dir(name)] = append(dirs[path.Dir(name)], name)
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(dirs)) {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		files := map[string][]byte{}
		for _, name := range dirs[dir] {
			text, ok := f.text(name, maxFile)
			if !ok {
				text = "(not read)" // so that what it may use is not dead
			}
			files[name] = []byte(text)
		}
		for _, v := range refactor.Package(files) {
			s := f.add(Simpler, v.Path, v.Line, string(v.Kind)+"\x00"+v.Name, "%s: %s", v.Kind, v.Text)
			s.Confidence, s.Edit = v.Confidence, v.Edit
		}
	}
	return nil
}
