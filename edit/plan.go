// Package edit has the values that describe changes to files: a [Plan] says which files to change
// and how, before anything is done; a [Result] says what was done.
//
// A tool proposes a plan. The user sees it, and may reduce it to some of its files or hunks
// ([Plan.Keep], [Plan.KeepFiles]) or change what it proposes ([Plan.WithProposed]). Package workspace
// carries it out, and merges it with the changes that others make to the files meanwhile. Plans and
// results are plain data and encode as JSON, so a plan can be approved in another process.
package edit

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

// Kind says what a plan does to a file. [File] uses these values in JSON, too.
type Kind string

// The kinds of edits. To rename a file, create one and delete the other in one plan.
const (
	// Create creates a file that does not exist. [File] has no Base and may have a Mode.
	Create Kind = "create"
	// Change replaces Base, the content that the model was shown, with Proposed. If the user
	// has changed the file since then, the changes are merged.
	Change Kind = "change"
	// Delete deletes a file, unless the user has changed it since the model was shown it.
	// Proposed is empty.
	Delete Kind = "delete"
)

// File is the change that a plan makes to one file. It holds whole contents, not a patch, so
// that the change can be shown, merged and undone.
type File struct {
	// Path is relative to the workspace, slash-separated and valid UTF-8.
	Path string
	Kind Kind
	// Base is the whole content of the file as the model was shown it. It is empty for Create.
	Base string
	// Proposed is the whole content that the model wants. It is empty for Delete. Base and
	// Proposed may contain any bytes.
	Proposed string
	// Mode is the permission bits of a created file, or 0 for the default of the system. A rename
	// creates one file and deletes another: set Mode to the bits of the old file to keep them.
	// For Change and Delete, Mode must be 0: a changed file keeps its permissions.
	Mode fs.FileMode
	// Memo is a note that a Planner of package aycoder writes in Plan and reads in Call, such as a sentence for
	// the result of the call. It does not affect the file, but it is part of [Plan.Digest].
	Memo string
}

// Plan is a proposed change to one or more files. It is shown to the user for approval, may
// be reduced in a review, and is carried out by Workspace.Apply of package workspace. An Plan
// is an immutable value and encodes as JSON. The zero value changes nothing.
type Plan struct {
	files []File
	asked []File // what the model proposed, if a review changed it
}

// NewPlan returns a plan that makes all the edits. Each path may occur only once. A plan has
// at most 256 files and 64 MiB of text. Edits that change nothing are dropped.
func NewPlan(edits ...File) (Plan, error) {
	files, err := checkEdits(edits)
	if err != nil {
		return Plan{}, fmt.Errorf("make edit plan: %w", err)
	}
	return Plan{files: files}, nil
}

// checkEdits checks the edits and returns those that change something.
func checkEdits(edits []File) ([]File, error) {
	var files []File
	size, seen := 0, make(map[string]bool, len(edits))
	for i := range edits {
		e := edits[i]
		if e.Path != "" {
			e.Path = filepath.ToSlash(e.Path)
			if !strings.Contains(e.Path, ":/") { // which may be in a further root, and ".." must not hide that
				e.Path = path.Clean(e.Path)
			}
		}
		if e.Kind == Change && e.Base == e.Proposed && e.Path != "" {
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

// LimitError reports that a plan is too large.
type LimitError struct {
	// Limit describes the limit for people: "files in a plan" or "bytes in a plan".
	Limit string
	Max   int64
}

// Error implements error.
func (e *LimitError) Error() string { return fmt.Sprintf("limit of %d %s reached", e.Max, e.Limit) }

var errTwice = errors.New("is in the plan twice")

func (e File) check() error {
	switch {
	case e.Path == "" || len(e.Path) > maxPlanPath ||
		strings.ContainsRune(e.Path, 0) || !utf8.ValidString(e.Path):
		return errors.New("path is empty, too long, or not valid text")
	case e.Kind == Create && e.Base != "":
		return errors.New("a file that is created has no base")
	case e.Kind == Delete && e.Proposed != "":
		return errors.New("a file that is deleted has no proposed content")
	case e.Kind != Create && e.Kind != Change && e.Kind != Delete:
		return fmt.Errorf("no kind of edit %q", e.Kind)
	case e.Mode&^fs.ModePerm != 0 || e.Mode != 0 && e.Kind != Create:
		return fmt.Errorf("mode %s is not that of a file that is created", e.Mode)
	}
	return nil
}

// Files returns a copy of the edits, in the order in which they were given. Their paths differ.
func (p Plan) Files() []File { return slices.Clone(p.files) }

// File returns the edit whose Path is name. It returns false if the plan has no such edit.
func (p Plan) File(name string) (File, bool) {
	if i := editOf(p.files, name); i >= 0 {
		return p.files[i], true
	}
	return File{}, false
}

func editOf(files []File, name string) int {
	for i := range files {
		if files[i].Path == name {
			return i
		}
	}
	return -1
}

// sameEdits reports whether two lists of edits do the same.
func sameEdits(a, b []File) bool {
	return Plan{files: a}.Digest() == Plan{files: b}.Digest()
}

// Digest returns "sha256:" and a hash that identifies the change: it covers all fields of all
// edits. Two plans with the same digest make the same change. Pass the digest to WithApproved of
// package workspace, so that only the approved change is made.
func (p Plan) Digest() string {
	h := sha256.New()
	for _, e := range p.files {
		e.hash(h)
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

// hash writes each field with a fixed length or preceded by its length, so that
// different edits cannot give the same bytes.
func (e File) hash(h hash.Hash) {
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
	Files []File `json:"files"`
	Asked []File `json:"asked,omitempty"`
}

type wireEdit struct {
	Path     string        `json:"path"`
	Kind     Kind          `json:"kind"`
	Base     jsontext.Text `json:"base,omitzero"`
	Proposed jsontext.Text `json:"proposed,omitzero"`
	Mode     fs.FileMode   `json:"mode,omitzero"`
	Memo     jsontext.Text `json:"memo,omitzero"`
}

// MarshalJSON encodes an object with the keys "path", "kind", "base", "proposed", "mode" and
// "memo". A text that is not valid UTF-8 is encoded as {"base64": …}, all others as strings.
func (e File) MarshalJSON() ([]byte, error) {
	return json.Marshal(wireEdit{e.Path, e.Kind, jsontext.Text(e.Base), jsontext.Text(e.Proposed),
		e.Mode, jsontext.Text(e.Memo)})
}

// UnmarshalJSON decodes the output of [File.MarshalJSON].
func (e *File) UnmarshalJSON(data []byte) error {
	var w wireEdit
	err := json.Unmarshal(data, &w)
	*e = File{w.Path, w.Kind, string(w.Base), string(w.Proposed), w.Mode, string(w.Memo)}
	return err
}

// MarshalJSON encodes the edits. If a review changed them, the original edits are encoded too.
func (p Plan) MarshalJSON() ([]byte, error) {
	return json.Marshal(wirePlan{append([]File{}, p.files...), p.asked})
}

// UnmarshalJSON decodes the output of [Plan.MarshalJSON] and checks it as [NewPlan] does.
func (p *Plan) UnmarshalJSON(data []byte) error {
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
