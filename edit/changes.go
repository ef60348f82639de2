package edit

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

// Changes says what the agents of a run have changed in the files of a workspace, with their tools and
// with commands: see WithChanges of package aycoder. It is an immutable value and encodes as JSON.
//
// The changes are the difference between the end and the beginning of the run. A file that was changed
// and put back is not in it. Changes of the user meanwhile are on both sides of the difference.
// Directories are not in it, as in git.
type Changes struct {
	set json.Marshaler // a *changeSet; an interface, so that a program without changes does not link it
}

type changeSet struct {
	Files   []ChangedFile `json:"files,omitempty"`
	Missing []string      `json:"missing,omitempty"`
}

// NewChanges returns the changes of these files. Missing says what may have changed without being
// among them, a sentence for each reason. The slices must not be changed afterwards.
func NewChanges(files []ChangedFile, missing []string) *Changes {
	return &Changes{&changeSet{files, missing}}
}

// DecodeChanges decodes the JSON form of [Changes].
func DecodeChanges(data []byte) (*Changes, error) {
	type plain changeSet
	var s plain
	if err := json.Unmarshal(data, &s); err != nil {
		return nil, fmt.Errorf("decode changes: %w", err)
	}
	return &Changes{(*changeSet)(&s)}, nil
}

// MarshalJSON implements [json.Marshaler]. It leaves out each Diff that has a secret in it.
func (c *Changes) MarshalJSON() ([]byte, error) {
	if c.set == nil {
		return []byte("{}"), nil
	}
	return c.set.MarshalJSON()
}

// MarshalJSON implements [json.Marshaler].
func (s *changeSet) MarshalJSON() ([]byte, error) {
	type plain changeSet
	out := plain{slices.Clone(s.Files), s.Missing}
	for i := range out.Files {
		f := &out.Files[i]
		if !f.Secret || f.Diff == "" {
			continue
		}
		f.Diff, f.NoDiff, f.By = "", "it has a secret in it", slices.Clone(f.By)
		for k := range f.By {
			f.By[k].Diff = ""
		}
	}
	return json.Marshal(out)
}

func (c *Changes) all() *changeSet {
	if c == nil {
		return &changeSet{}
	}
	s, _ := c.set.(*changeSet)
	return cmp.Or(s, &changeSet{})
}

// Files returns the files that differ, sorted by path. There are at most 2,000. The caller must not change
// the slice. It is empty if c is nil.
func (c *Changes) Files() []ChangedFile { return c.all().Files }

// Missing says what may have changed without being in Files, a sentence for each reason. It is empty if
// nothing may.
func (c *Changes) Missing() []string { return c.all().Missing }

// ChangeKind says what became of a file.
type ChangeKind string

// The kinds of changes.
const (
	ChangeCreated  ChangeKind = "created"
	ChangeModified ChangeKind = "modified"
	ChangeDeleted  ChangeKind = "deleted"
	ChangeMoved    ChangeKind = "moved" // with the same content
	ChangeMode     ChangeKind = "mode"  // only the permissions differ
)

// ChangedFile is one file of [Changes].
type ChangedFile struct {
	// Path is the name of the file, relative to the workspace. If the name is not valid UTF-8, it is
	// quoted. From is the name from which the file was moved.
	Path string     `json:"path"`
	From string     `json:"from,omitempty"`
	Kind ChangeKind `json:"kind"`
	// Before and After describe the file without and with the changes.
	Before FileVersion `json:"before,omitzero"`
	After  FileVersion `json:"after,omitzero"`
	// By are the agents that changed the file.
	By []ChangedBy `json:"by"`
	// Mixed says that somebody else, such as the user or a run at the same time, has changed the same
	// lines, or may have, so that these changes are in the difference, too.
	Mixed bool `json:"mixed,omitempty"`
	// Added and Removed count the lines of Diff.
	Added   int `json:"added,omitempty"`
	Removed int `json:"removed,omitempty"`
	// Diff is the difference as a patch for git apply, which also has the executable bit, links and
	// binary data. If it is empty, NoDiff says why.
	Diff   string `json:"diff,omitempty"`
	NoDiff string `json:"no_diff,omitempty"`
	// Secret says that Diff has a secret in it. The JSON form of [Changes] is without such a Diff.
	Secret bool `json:"secret,omitempty"`
}

// FileVersion describes a file. The zero value means that there is none.
type FileVersion struct {
	// Mode has the permissions and the type.
	Mode fs.FileMode `json:"mode"`
	Size int64       `json:"size"`
	// Hash is the SHA-256 of the content, or of the target of a link, in hexadecimal. It is empty if the
	// content is unknown.
	Hash string `json:"hash,omitempty"`
}

// ChangedBy names an agent that has changed a file.
type ChangedBy struct {
	// Agent and Run are the name and the id of the run: see Place of package aycoder.
	Agent string `json:"agent,omitempty"`
	Run   string `json:"run"`
	// Tool says that a tool has changed the file. Command says that the file has changed while a
	// command of the agent ran: if it was somebody else who changed it at that time, nobody can tell.
	Tool    bool `json:"tool,omitempty"`
	Command bool `json:"command,omitempty"`
	// Diff is what this agent has changed, if several have changed the file. It applies to the file as
	// the others have left it. It is empty if the changes of the agents cannot be told apart.
	Diff string `json:"diff,omitempty"`
}

// Diff returns the differences of all files as one patch for git apply, or only those of the agents with
// these runs. It leaves out the files that have none: see NoDiff of [ChangedFile].
func (c *Changes) Diff(runs ...string) string {
	var b strings.Builder
	for _, f := range c.Files() {
		if len(runs) == 0 || len(f.By) == 1 && slices.Contains(runs, f.By[0].Run) {
			b.WriteString(f.Diff)
			continue
		}
		for _, by := range f.By {
			if slices.Contains(runs, by.Run) {
				b.WriteString(by.Diff)
			}
		}
	}
	return b.String()
}
