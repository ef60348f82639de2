package runner

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os/exec"
	"path"
	"runtime"
	"slices"
	"strings"

	"github.com/aycoder/aycoder/harness/project"
	"github.com/aycoder/aycoder/internal/runes"
)

// A Manifest says what a runner offers. It is what the runner says, and nothing that this machine has checked, except
// for Root, and for the digest of a text when it is read: see [Environment.Texts].
type Manifest struct {
	// Version is that of the program. System and Arch are as in package runtime.
	Version string `json:"version,omitempty"`
	System  string `json:"system"`
	Arch    string `json:"arch"`
	// Root is the absolute path of the workspace there. Shell is the name of the shell that runs commands, or "" if
	// there are none.
	Root  string `json:"root"`
	Shell string `json:"shell,omitempty"`
	// Tools are what it carries out: "files", and "commands" unless it refuses them.
	Tools []string `json:"tools"`
	// Texts are the instructions, commands, agents and skills of the project, in the order of their paths.
	Texts []Text `json:"texts,omitempty"`
}

// A Text is a file that instructs agents.
type Text struct {
	// Kind is "instructions", "command", "agent" or "skill". Name is that of a command, an agent or a skill.
	Kind string `json:"kind"`
	Name string `json:"name,omitempty"`
	// Path is relative to the root. Digest is the SHA-256 of the file, in hexadecimal form.
	Path   string `json:"path"`
	Digest string `json:"digest"`
}

const (
	maxManifest = 1 << 20 // bytes
	maxTexts    = 2000
	maxText     = 1 << 20 // bytes of a file: larger ones are not instructions
	maxWord     = 100     // bytes of a field
	maxPath     = 4 << 10
)

// describe makes the manifest of the files and what runs commands beside them, as they are now.
func (d *dialer) describe(ctx context.Context) (*Manifest, error) {
	m := &Manifest{Version: d.version[:min(len(d.version), maxWord)], System: runtime.GOOS, Arch: runtime.GOARCH, Root: d.files.Dir(), Tools: []string{"files"}}
	if d.exec != nil {
		m.Tools = append(m.Tools, "commands")
		m.Shell = "sh"
		if _, err := exec.LookPath("bash"); err == nil {
			m.Shell = "bash"
		}
	}
	r := &reading{Files: d.files, digests: map[string]string{}}
	in, err := project.ReadInstructions(ctx, project.Source{Files: r})
	if err != nil {
		return nil, err
	}
	lib, err := project.Load(ctx, project.Source{Files: r})
	if err != nil {
		return nil, err
	}
	add := func(kind, name, file string) {
		if d := r.digests[file]; d != "" && len(m.Texts) < maxTexts {
			m.Texts = append(m.Texts, Text{kind, name, file, d})
		}
	}
	for _, x := range in.Items {
		add("instructions", "", x.File)
	}
	for _, x := range lib.Commands {
		add("command", x.Name, x.File)
	}
	for _, x := range lib.Agents {
		add("agent", x.Name, x.File)
	}
	for _, x := range lib.Skills {
		add("skill", x.Name, path.Join(x.Dir, "SKILL.md"))
	}
	slices.SortFunc(m.Texts, func(a, b Text) int { return cmp.Or(strings.Compare(a.Path, b.Path), strings.Compare(a.Kind, b.Kind)) })
	return m, nil
}

// reading are files that remember the digests of those that were read.
type reading struct {
	project.Files
	digests map[string]string
}

// Open implements [project.Files].
func (r *reading) Open(name string) (fs.File, error) {
	f, err := r.Files.Open(name)
	if err != nil {
		return nil, err
	}
	whole, digest, err := wholeOf(f)
	if err == nil && digest != "" {
		r.digests[path.Clean(name)] = digest
	}
	return whole, err
}

// wholeOf reads a file, and closes it. The digest of one that is too large is "", and its end is missing.
func wholeOf(f fs.File) (fs.File, string, error) {
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, "", err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxText+1))
	if err != nil {
		return nil, "", err
	}
	digest := ""
	if len(data) <= maxText {
		sum := sha256.Sum256(data)
		digest = hex.EncodeToString(sum[:])
	}
	return &whole{bytes.NewReader(data), info}, digest, nil
}

// whole is a file that was read.
type whole struct {
	*bytes.Reader
	info fs.FileInfo
}

func (w *whole) Stat() (fs.FileInfo, error) { return w.info, nil }
func (w *whole) Close() error               { return nil }

// parseManifest decodes a manifest, and refuses one that no runner sends.
func parseManifest(name string, data []byte) (*Manifest, error) {
	if len(data) > maxManifest {
		return nil, refuse(name, KindManifest, "it has more than %d bytes", maxManifest)
	}
	var m Manifest
	if err := json.Unmarshal(data, &m); err != nil {
		return nil, &Error{Runner: name, Kind: KindManifest, Err: err}
	}
	for _, s := range append([]string{m.System, m.Arch, m.Shell, m.Version}, m.Tools...) {
		if len(s) > maxWord || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' }) {
			return nil, refuse(name, KindManifest, "%.100q is not a word", s)
		}
	}
	if m.System == "" || strings.Trim(m.System, "abcdefghijklmnopqrstuvwxyz0123456789") != "" || len(m.Tools) > maxWord || len(m.Texts) > maxTexts {
		return nil, refuse(name, KindManifest, "there is too much of it, or too little")
	}
	for _, t := range m.Texts {
		sum, err := hex.DecodeString(t.Digest)
		if err != nil || len(sum) != sha256.Size || len(t.Path) > maxPath || !fs.ValidPath(t.Path) || len(t.Kind) > maxWord || len(t.Name) > maxPath {
			return nil, refuse(name, KindManifest, "%.100q is not a text", t.Path)
		}
	}
	return &m, nil
}

// fits returns an error if a runtime that works with the one cannot go on with the other: paths and commands of its
// history would mean something else.
func (m *Manifest) fits(name string, now *Manifest) error {
	if m.Root == now.Root && m.System == now.System && slices.Equal(m.Tools, now.Tools) {
		return nil
	}
	return refuse(name, KindManifest, "it was %s on %s with %s, and is now %s on %s with %s; open the session again",
		runes.Path(m.Root), m.System, strings.Join(m.Tools, ", "), runes.Path(now.Root), now.System, strings.Join(now.Tools, ", "))
}

// changes says, in a line each, what is not as it was.
func (m *Manifest) changes(now *Manifest) (lines []string) {
	word := func(what, was, is string) {
		if was != is {
			lines = append(lines, fmt.Sprintf("%s was %q and is now %q", what, was, is))
		}
	}
	word("the root", m.Root, now.Root)
	word("the system", m.System+"/"+m.Arch, now.System+"/"+now.Arch)
	word("the shell", m.Shell, now.Shell)
	word("the version of the runner", m.Version, now.Version)
	word("what it carries out", strings.Join(m.Tools, ", "), strings.Join(now.Tools, ", "))
	was, is := m.digests(), now.digests()
	for _, t := range m.Texts {
		switch d, ok := is[t.Path]; {
		case !ok:
			lines = append(lines, fmt.Sprintf("%s is gone", t))
		case d != t.Digest:
			lines = append(lines, fmt.Sprintf("%s has changed", t))
		}
	}
	for _, t := range now.Texts {
		if _, ok := was[t.Path]; !ok {
			lines = append(lines, fmt.Sprintf("%s is new", t))
		}
	}
	if n := len(lines) - maxChanges; n > 0 {
		lines = append(lines[:maxChanges], fmt.Sprintf("%d more things have changed", n))
	}
	return lines
}

const maxChanges = 20

// String returns the kind and the path, as a user reads them.
func (t Text) String() string { return fmt.Sprintf("%.20q %s", t.Kind, runes.Path(t.Path)) }

// digests returns the digests by path.
func (m *Manifest) digests() map[string]string {
	all := make(map[string]string, len(m.Texts))
	for _, t := range m.Texts {
		all[t.Path] = t.Digest
	}
	return all
}
