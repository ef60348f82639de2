package policy

import (
	"encoding/json"
	"path"
	"path/filepath"
	"strings"

	"github.com/aycoder/aycoder"
)

// guardFile raises a question about a call that would change the file of saved rules, if that
// lies in the workspace: an agent must not make rules for itself.
func (p *Policy) guardFile(q *inquiry, name string) {
	if p.file == nil || q.spec.Effect == aycoder.EffectReadOnly {
		return
	}
	file := filepath.ToSlash(p.file.path)
	if name = q.join(name); strings.EqualFold(path.Clean(name), file) || strings.EqualFold(q.resolve(name), q.resolve(file)) {
		q.protect(guarded{name: name, how: "writes", why: rulesFile, never: true})
	}
}

const rulesFile = "the user's rules are in it"

func (p *Policy) guardWrites(q *inquiry) {
	for _, f := range q.touched {
		if f.writes {
			p.guardFile(q, f.name)
		}
	}
}

// guardArgs is for tools that name files anywhere in their arguments, as in a patch.
func (p *Policy) guardArgs(q *inquiry) {
	if p.file == nil || !q.edits {
		return
	}
	for _, name := range q.named {
		p.guardFile(q, name)
	}
	var args any
	_ = json.Unmarshal(q.call.Args, &args)
	plain, _ := json.Marshal(args) // a name cannot be spelled with escapes
	if name := filepath.Base(p.file.path); strings.Contains(strings.ToLower(string(plain)), strings.ToLower(name)) {
		q.protect(guarded{name: name, how: "writes", why: rulesFile, never: true})
	}
}
