package aycoder

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/aycoder/aycoder/internal/jsontext"
	"github.com/aycoder/aycoder/internal/runes"
	"github.com/aycoder/aycoder/internal/view"
)

const (
	maxPlanFiles = 256
	maxPlanPath  = 4096     // bytes
	maxPlanBytes = 64 << 20 // bytes of all texts of a plan
)

// EditKind says what a plan does to a file. The values are also those of the JSON form of
// [FileEdit].
type EditKind string

// The kinds of edits. To rename a file, create one and delete the other in one plan.
const (
	// EditCreate creates a file that does not exist. [FileEdit] then has no Base, and may
	// have a Mode.
	EditCreate EditKind = "create"
	// EditChange replaces Base, the content that the model was shown, by Proposed. Changes
	// of the user since then are merged.
	EditChange EditKind = "change"
	// EditDelete deletes a file, unless the user changed it since the model was shown it.
	// There is no Proposed content.
	EditDelete EditKind = "delete"
)

// FileEdit is the change of a plan to one file: whole contents, not a patch, so that it
// can be shown, merged and taken back.
type FileEdit struct {
	// Path is relative to the workspace, slash-separated and valid UTF-8.
	Path string
	Kind EditKind
	// Base is the whole content of the file as the model was shown it; empty for EditCreate.
	Base string
	// Proposed is the whole content that the model wants; empty for EditDelete. Base and
	// Proposed may hold any bytes.
	Proposed string
	// Mode holds the permissions of a new file, for example those of the deleted file if
	// the plan renames one. 0 stands for the default of the system. It must be 0 for
	// other kinds of edits: a changed file keeps its mode.
	Mode fs.FileMode
	// Memo is for the tool that made the plan: Call finds here what Plan wrote, such as
	// what the result has to say about the change. It changes nothing in the file, and
	// only Digest looks at it.
	Memo string
}

// EditPlan is a proposed change to one or more files. It is shown for approval, may be
// reduced in a review, and is carried out by Workspace.Apply of package workspace. It
// is an immutable value, and encodes as JSON. The zero value changes nothing.
type EditPlan struct {
	files []FileEdit
	asked []FileEdit // what the model proposed, if a review changed it
}

// NewEditPlan returns a plan that makes all the edits. The paths must differ; a plan
// has at most 256 files and 64 MiB of text. Edits that change nothing are dropped.
func NewEditPlan(edits ...FileEdit) (EditPlan, error) {
	files, err := checkEdits(edits)
	if err != nil {
		return EditPlan{}, fmt.Errorf("make edit plan: %w", err)
	}
	return EditPlan{files: files}, nil
}

// checkEdits checks the edits and returns those that change something.
func checkEdits(edits []FileEdit) ([]FileEdit, error) {
	var files []FileEdit
	size, seen := 0, make(map[string]bool, len(edits))
	for i := range edits {
		e := edits[i]
		if e.Path != "" {
			e.Path = path.Clean(filepath.ToSlash(e.Path))
		}
		if e.Kind == EditChange && e.Base == e.Proposed && e.Path != "" {
			continue
		}
		err := e.check()
		if err == nil && seen[e.Path] {
			err = errTwice
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", runes.Path(e.Path), err)
		}
		seen[e.Path] = true
		size += len(e.Base) + len(e.Proposed) + len(e.Memo)
		files = append(files, e)
	}
	switch {
	case len(files) > maxPlanFiles:
		return nil, &LimitError{Limit: "files in a plan", Max: maxPlanFiles}
	case size > maxPlanBytes:
		return nil, &LimitError{Limit: "bytes in a plan", Max: maxPlanBytes}
	}
	return files, nil
}

var errTwice = errors.New("is in the plan twice")

func (e FileEdit) check() error {
	switch {
	case e.Path == "" || len(e.Path) > maxPlanPath || strings.ContainsRune(e.Path, 0) || !utf8.ValidString(e.Path):
		return errors.New("path is empty, too long, or not valid text")
	case e.Kind == EditCreate && e.Base != "":
		return errors.New("a file that is created has no base")
	case e.Kind == EditDelete && e.Proposed != "":
		return errors.New("a file that is deleted has no proposed content")
	case e.Kind != EditCreate && e.Kind != EditChange && e.Kind != EditDelete:
		return fmt.Errorf("no kind of edit %q", e.Kind)
	case e.Mode&^fs.ModePerm != 0 || e.Mode != 0 && e.Kind != EditCreate:
		return fmt.Errorf("mode %s is not that of a file that is created", e.Mode)
	}
	return nil
}

// Files returns the edits in the order in which they were given. The slice is a copy, and
// has at most one edit for each path.
func (p EditPlan) Files() []FileEdit { return slices.Clone(p.files) }

// File returns the edit of the file at a path, which must be written as in the plan. It
// returns false if there is none.
func (p EditPlan) File(name string) (FileEdit, bool) {
	if i := editOf(p.files, name); i >= 0 {
		return p.files[i], true
	}
	return FileEdit{}, false
}

func editOf(files []FileEdit, name string) int {
	for i := range files {
		if files[i].Path == name {
			return i
		}
	}
	return -1
}

// sameEdits reports whether two lists of edits do the same.
func sameEdits(a, b []FileEdit) bool {
	return EditPlan{files: a}.Digest() == EditPlan{files: b}.Digest()
}

// Digest identifies the change that the plan makes: "sha256:" and a hash of the path, kind, base
// and proposed content of each file. Two plans with the same digest make the same change. Pass
// the digest to WithApproved of package workspace, so that only the approved change is made.
func (p EditPlan) Digest() string {
	h := sha256.New()
	for _, e := range p.files {
		e.hash(h)
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

// hash writes each field with a fixed length or preceded by its length, so that
// different edits cannot give the same bytes.
func (e FileEdit) hash(h hash.Hash) {
	base, proposed := sha256.Sum256(view.Bytes(e.Base)), sha256.Sum256(view.Bytes(e.Proposed))
	h.Write([]byte(strconv.Itoa(len(e.Path)) + " " + e.Path + " " + string(e.Kind) + "\n"))
	h.Write(base[:])
	h.Write(proposed[:])
	if e.Mode != 0 {
		h.Write([]byte("mode " + strconv.FormatUint(uint64(e.Mode), 8) + "\n"))
	}
	if e.Memo != "" {
		h.Write([]byte("memo " + strconv.Itoa(len(e.Memo)) + " " + e.Memo + "\n"))
	}
}

type wirePlan struct {
	Files []FileEdit `json:"files"`
	Asked []FileEdit `json:"asked,omitempty"`
}

type wireEdit struct {
	Path     string        `json:"path"`
	Kind     EditKind      `json:"kind"`
	Base     jsontext.Text `json:"base,omitzero"`
	Proposed jsontext.Text `json:"proposed,omitzero"`
	Mode     fs.FileMode   `json:"mode,omitzero"`
	Memo     jsontext.Text `json:"memo,omitzero"`
}

// MarshalJSON encodes {"path","kind","base","proposed","mode","memo"}. A text is a string, or
// {"base64": …} if it is not valid UTF-8.
func (e FileEdit) MarshalJSON() ([]byte, error) {
	return json.Marshal(wireEdit{e.Path, e.Kind, jsontext.Text(e.Base), jsontext.Text(e.Proposed), e.Mode, jsontext.Text(e.Memo)})
}

// UnmarshalJSON decodes the output of [FileEdit.MarshalJSON].
func (e *FileEdit) UnmarshalJSON(data []byte) error {
	var w wireEdit
	err := json.Unmarshal(data, &w)
	*e = FileEdit{w.Path, w.Kind, string(w.Base), string(w.Proposed), w.Mode, string(w.Memo)}
	return err
}

// MarshalJSON encodes the plan: its files, and the edits that the model had proposed if
// a review changed them.
func (p EditPlan) MarshalJSON() ([]byte, error) {
	return json.Marshal(wirePlan{append([]FileEdit{}, p.files...), p.asked})
}

// UnmarshalJSON decodes the output of [EditPlan.MarshalJSON], and refuses what
// [NewEditPlan] refuses.
func (p *EditPlan) UnmarshalJSON(data []byte) error {
	var w wirePlan
	err := json.Unmarshal(data, &w)
	if err == nil {
		p.files, err = checkEdits(w.Files)
	}
	if err == nil {
		p.asked, err = checkEdits(w.Asked)
	}
	if err != nil {
		return fmt.Errorf("decode edit plan: %w", err)
	}
	if sameEdits(p.asked, p.files) {
		p.asked = nil
	}
	return nil
}
