package plugin

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"strings"
)

// Offer is a plugin in an index.
type Offer struct {
	Name, Description, Version string
	Source                     Source
}

// ParseIndex reads an index of plugins in the form of .claude-plugin/marketplace.json. at is where the directory comes
// from that has .claude-plugin, to which the paths in the index are relative. Addresses of an index begin with https:// or
// ssh://, and never lead to other directories of this machine. The problems say which entries are not understood.
func ParseIndex(data []byte, at Source) (offers []Offer, problems []error) {
	var in struct {
		Plugins []struct {
			Name, Description, Version string
			Source                     json.RawMessage
		}
		Metadata struct {
			Root string `json:"pluginRoot"`
		}
	}
	if err := json.Unmarshal(data, &in); err != nil {
		return nil, []error{&Error{Op: "read", Plugin: at.String(), File: "marketplace.json", Err: err}}
	}
	for i, e := range in.Plugins {
		s, err := offered(e.Source, in.Metadata.Root, at)
		if err == nil && !plain().MatchString(e.Name) {
			err = errors.New("that is no name for a plugin")
		}
		if s.Name = e.Name; err == nil {
			err = s.check()
		}
		if err != nil {
			problems = append(problems, &Error{Op: "offer", Plugin: e.Name, File: fmt.Sprintf("plugins[%d]", i), Err: err})
			continue
		}
		offers = append(offers, Offer{e.Name, line(e.Description), line(e.Version), s})
	}
	return offers, problems
}

// offered reads the source of an entry: a path, or an object.
func offered(value json.RawMessage, root string, at Source) (Source, error) {
	var in struct{ Source, URL, Repo, Path, Ref, SHA string }
	var dir string
	if json.Unmarshal(value, &dir) != nil {
		if err := json.Unmarshal(value, &in); err != nil {
			return Source{}, errors.New("its source is not understood")
		}
		if in.Source == "local" {
			dir = in.Path
		}
	}
	if dir != "" {
		return below(dir, root, at)
	}
	s := Source{Git: in.URL, Ref: in.Ref, Commit: in.SHA, Subdir: in.Path}
	if in.Source == "github" {
		s.Git = "https://github.com/" + in.Repo + ".git"
	}
	switch {
	case in.Source == "url" && strings.HasPrefix(in.URL, "./"):
		return below(in.URL, root, at)
	case in.Source != "url" && in.Source != "git-subdir" && in.Source != "github":
		return s, fmt.Errorf("there is no kind of source %.80q", in.Source)
	case !strings.HasPrefix(s.Git, "https://") && !strings.HasPrefix(s.Git, "ssh://"):
		return s, fmt.Errorf("the address %.200q begins with neither https:// nor ssh://", s.Git)
	}
	return s, nil
}

// below returns a directory in the source of the index.
func below(dir, root string, at Source) (Source, error) {
	if root != "" && !strings.HasPrefix(dir, "./") {
		dir = path.Join(root, dir)
	}
	clean := path.Clean(dir)
	if strings.HasPrefix(dir, "/") || !filepath.IsLocal(filepath.FromSlash(clean)) {
		return at, fmt.Errorf("%.200q is not in the directory of the index", dir)
	}
	if at.Subdir = path.Join(at.Subdir, clean); at.Subdir == "." {
		at.Subdir = ""
	}
	return at, nil
}
