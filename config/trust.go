package config

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/aycoder/aycoder/internal/flock"
	"github.com/aycoder/aycoder/internal/jsontext"
	"github.com/aycoder/aycoder/internal/regular"
	"github.com/aycoder/aycoder/internal/replace"
)

// Kind says what a [Question] is about.
type Kind string

// The kinds. Packages that find commands in other files of a project, such as plugins, use kinds that
// they define.
const (
	// KindSettings is a whole file of a project: the values in it that change nothing outside.
	KindSettings Kind = "settings"
	// KindHook is a command that runs at events.
	KindHook Kind = "hook"
	// KindServer is a server, which is a command or an address.
	KindServer Kind = "server"
)

// Question asks the user whether to trust something that comes with a project. A host shows all fields, and
// passes the question with the answer to [Trust.Decide].
type Question struct {
	Kind Kind
	// Command is the command that would run, and Address what would be connected to, or "".
	Command, Address string
	// Variables are the names of the variables that it would be given, sorted.
	Variables []string
	// Root is the directory of the project, which Bind makes absolute. File is the file in it, and Line where the
	// question arises, or 0.
	Root, File string
	Line       int
	// Scripts are the files of the project that the command names, with those that make, npm, just and the like find by
	// themselves, those of a directory for go run or node, and those of a module for python. Files that they read or import
	// are not among them, nor are files that another program finds by itself, or by a pattern or a calculated name.
	Scripts []string
	// Hash is the hash of the file and the scripts. An answer is for these contents only.
	Hash string
}

// Bind returns the question with the scripts that its command names in the project, and with the hash of its
// file and of them. A host that asks about a command of another file of the project sets the other fields, and
// calls Bind. It is an error if the file or a script is a symbolic link that leads out of the project, is not
// a regular file, or is larger than 16 MiB, and also if the texts are longer than 8 KiB or 100 lines, or have
// characters or long blanks that do not show, because the user could not judge them. So a host may print the texts
// as they are.
func (q Question) Bind() (Question, error) {
	q, _, err := q.bind(newAllowance(), nil)
	return q, err
}

type hashes map[string][sha256.Size]byte

// bind also returns the hashes of the files, some of which may be known.
func (q Question) bind(may *allowance, known hashes) (Question, hashes, error) {
	slices.Sort(q.Variables)
	q.Variables = slices.Compact(q.Variables)
	if err := q.readable(); err != nil {
		return q, nil, err
	}
	root, err := q.open()
	if err != nil {
		return q, nil, fmt.Errorf("open project: %w", err)
	}
	defer root.Close()
	if q.Scripts, err = scripts(root, q.Command, may); err != nil {
		return q, nil, err
	}
	f, sum, found := &finder{root: root, may: may}, sha256.New(), hashes{}
	for _, name := range append([]string{q.File}, q.Scripts...) {
		h, ok := known[name]
		if !ok {
			if h, err = f.hash(name); err != nil {
				return q, found, fmt.Errorf("read %s: %w", name, err)
			}
		}
		found[name] = h
		fmt.Fprintf(sum, "%d %s %x\n", len(name), name, h)
	}
	q.Hash = hex.EncodeToString(sum.Sum(nil))
	return q, found, nil
}

// open opens the directory of the project, and makes its name absolute: trust in "." is not trust in each working
// directory.
func (q *Question) open() (*os.Root, error) {
	var err error
	if q.Root, err = filepath.Abs(q.Root); err != nil {
		return nil, err
	}
	return os.OpenRoot(q.Root)
}

// id identifies what is asked, with its contents.
func (q Question) id() string {
	root, err := filepath.EvalSymlinks(q.Root)
	q.Root, q.Line = cmp.Or(root, q.Root), 0
	data, jsonErr := json.Marshal(q)
	if errors.Join(err, jsonErr) != nil || q.Hash == "" {
		return ""
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// Trust keeps the answers of the user in a file. It is safe for concurrent use, also by several processes. A
// nil *Trust trusts nothing.
type Trust struct{ path string }

// NewTrust returns the answers in a file, which [Trust.Decide] creates. The file must not be in a directory that
// comes with a project: whoever can write it decides what runs.
func NewTrust(path string) *Trust { return &Trust{path} }

const maxTrust = 16 << 20 // bytes

// An answer is what the user decided, with what is useful to who reads the file.
type answer struct {
	Trusted bool   `json:"trusted"`
	Kind    Kind   `json:"kind"`
	Root    string `json:"root"`
	File    string `json:"file"`
	Text    string `json:"text,omitempty"`
}

type answersJSON struct {
	Version int               `json:"version"`
	Answers map[string]answer `json:"answers"`
}

// Decided returns the answer to a question, and false if there is none for the present contents. A damaged file
// is an error, and has no answers.
func (t *Trust) Decided(q Question) (trusted, known bool, err error) {
	all, err := t.load()
	a, known := all[q.id()]
	return a.Trusted, known, err
}

// Decide stores an answer: whether the user trusts what is asked. The file is replaced as a whole, and only the
// user can read it. Decide waits for other processes until ctx is done.
func (t *Trust) Decide(ctx context.Context, q Question, trusted bool) error {
	if q.id() == "" {
		return errors.New("save trust: the question has no hash; call Bind")
	}
	if err := t.save(ctx, q, trusted); err != nil {
		return fmt.Errorf("save trust: %w", err)
	}
	return nil
}

func (t *Trust) save(ctx context.Context, q Question, trusted bool) error {
	if err := os.MkdirAll(filepath.Dir(t.path), 0o700); err != nil {
		return err
	}
	unlock, err := flock.Lock(ctx, t.path+".lock")
	if err != nil {
		return err
	}
	defer unlock()
	all, err := t.load()
	if err != nil {
		return err
	}
	if all = maps.Clone(all); all == nil {
		all = map[string]answer{}
	}
	all[q.id()] = answer{trusted, q.Kind, q.Root, q.File, cmp.Or(q.Command, q.Address)}
	data, err := json.MarshalIndent(answersJSON{1, all}, "", "\t")
	if err != nil {
		return err
	}
	name := t.path
	if real, err := filepath.EvalSymlinks(name); err == nil {
		name = real // a link that the user made stays
	}
	return replace.File(name, ".trust-*", func(f *os.File) error {
		_, err := f.Write(append(data, '\n'))
		return err
	})
}

func (t *Trust) load() (map[string]answer, error) {
	if t == nil {
		return nil, nil
	}
	data, err := regular.Read(t.path, maxTrust)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var file answersJSON
	if err == nil {
		err = jsontext.Decode(data, &file)
	}
	if err == nil && file.Version != 1 {
		err = errors.New("not of version 1")
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", t.path, unpathed(err))
	}
	return file.Answers, nil
}
