package policy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/aycoder/aycoder/internal/flock"
	"github.com/aycoder/aycoder/internal/jsontext"
	"github.com/aycoder/aycoder/internal/regular"
	"github.com/aycoder/aycoder/internal/replace"
)

const (
	fileVersion = 1
	maxFile     = 4 << 20 // bytes
)

// FileError describes a failure to read or write a file of rules. A damaged file is an error and
// never counts as empty, since it might contain a deny rule.
type FileError struct {
	Op, Path string
	Err      error
}

// Error returns the operation, the path and the cause.
func (e *FileError) Error() string { return e.Op + " " + e.Path + ": " + e.Err.Error() }

// Unwrap returns Err.
func (e *FileError) Unwrap() error { return e.Err }

type rulesJSON struct {
	Version int    `json:"version"`
	Rules   []Rule `json:"rules"`
}

// ReadRules reads a file of rules, for use with [WithRules]. The file has this form:
//
//	{"version": 1, "rules": [
//		{"action": "allow", "tool": "bash", "pattern": "go test *", "match": ["go test ./..."]},
//		{"action": "deny", "tool": "bash", "class": "network", "reason": "work offline"}
//	]}
//
// Every error is a [*FileError]. If the file does not exist, errors.Is(err, fs.ErrNotExist) is
// true. An unknown field is an error too, because it might have been meant as a restriction.
func ReadRules(name string) ([]Rule, error) {
	data, err := regular.Read(name, maxFile)
	if err == nil {
		var entries []Rule
		if entries, err = parseRules(data); err == nil {
			return entries, nil
		}
	}
	return nil, &FileError{Op: "read rules", Path: name, Err: unpathed(err)}
}

// unpathed removes the path from an error, since the error around it names it.
func unpathed(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}

func parseRules(data []byte) ([]Rule, error) {
	var w *rulesJSON
	switch err := jsontext.Decode(data, &w); {
	case err != nil:
		return nil, err
	case w == nil || w.Version != fileVersion:
		return nil, fmt.Errorf("not of version %d", fileVersion)
	case len(w.Rules) > maxRules:
		return nil, fmt.Errorf("more than %d rules", maxRules)
	}
	return w.Rules, nil
}

// A file stores the rules that users save.
type file struct{ path string }

// load returns the rules of the file, or none if the file does not exist.
func (f *file) load() ([]Rule, error) {
	entries, err := ReadRules(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return entries, err
}

// keep adds a rule to the file, and returns all rules of it.
func (f *file) keep(ctx context.Context, e Rule) (all []Rule, err error) {
	err = f.change(ctx, func(now []Rule) []Rule {
		all = now
		if !slices.ContainsFunc(all, func(o Rule) bool { return compareRules(o, e) == 0 }) {
			all = append(all, e)
		}
		return all
	})
	return all, err
}

// drop removes the rules that say the same as e, and reports whether there were any.
func (f *file) drop(ctx context.Context, e Rule) (found bool, err error) {
	err = f.change(ctx, func(now []Rule) []Rule {
		left := slices.DeleteFunc(slices.Clone(now), e.same)
		found = len(left) < len(now)
		return left
	})
	return found, err
}

// change replaces the current rules of the file, which other processes may have changed, by those
// that f returns. If it returns as many as there were, nothing is written.
func (f *file) change(ctx context.Context, edit func(now []Rule) []Rule) error {
	if err := os.MkdirAll(filepath.Dir(f.path), 0o700); err != nil {
		return &FileError{Op: "make directory for rules", Path: f.path, Err: unpathed(err)}
	}
	unlock, err := flock.Lock(ctx, f.path+".lock")
	if err != nil {
		return &FileError{Op: "lock rules", Path: f.path, Err: unpathed(err)}
	}
	defer unlock()
	now, err := f.load()
	if err != nil {
		return err
	}
	next := edit(now)
	switch {
	case len(next) == len(now):
		return nil
	case len(next) > maxRules:
		err = fmt.Errorf("more than %d rules", maxRules)
	default:
		err = f.save(next)
	}
	if err != nil {
		return &FileError{Op: "save rules", Path: f.path, Err: unpathed(err)}
	}
	return nil
}

// save replaces the file as a whole.
func (f *file) save(entries []Rule) error {
	data, err := json.MarshalIndent(rulesJSON{fileVersion, entries}, "", "\t")
	if err != nil {
		return err
	}
	if len(data) >= maxFile {
		return fmt.Errorf("larger than %d bytes", maxFile)
	}
	name := f.path
	if real, err := filepath.EvalSymlinks(name); err == nil {
		name = real // a link that the user made stays
	}
	return replace.File(name, ".rules-*", func(t *os.File) error {
		_, err := t.Write(append(data, '\n'))
		return err
	})
}
