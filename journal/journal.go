/*
Package journal keeps sessions in a [Store]: sequences of records, and objects that records refer to by hash. It does
not know what they mean, as package session does.

[Dir] is a store in files, and [Memory] one in memory; package sqlite of contrib has one in a database. Package
agenttest has TestJournal, which tests an implementation.

	store, err := journal.Dir(filepath.Join(home, ".local/state/myagent"))
	s, err := session.New(ctx, store, loop)

A session has one writer, who holds an operating system lock that ends with its process; another one gets a
[*BusyError]. Any number of processes read it meanwhile. A record that [Journal.Append] has acknowledged as durable
survives a loss of power. A damaged record is reported by a [*DamageError] and costs only what it holds.
*/
package journal

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"time"
)

// Store keeps sessions. [Dir] keeps them in files; package sqlite of contrib keeps them in a
// database. agenttest.TestJournal tests an implementation.
//
// A Store knows nothing of what is in a session: records are opaque lines, and objects are opaque
// bytes. Several processes may use the same sessions, each through its own Store. The methods are
// safe for concurrent use, and return soon after ctx is cancelled.
//
// If a Store also has a method Paths() []string, it returns the absolute paths of the files and directories of this
// machine that hold the sessions. A session leaves them alone that are in its workspace.
type Store interface {
	// Create makes an empty session and opens it for writing. If the id is in use, the error is a
	// [*OpError] for which errors.Is(err, fs.ErrExist) is true.
	Create(ctx context.Context, id string) (Journal, error)
	// Open opens a session. With write, the caller is its only writer until it closes the journal
	// or its process ends: if there is another writer, the error is a [*BusyError]. Without write,
	// there may be any number of readers, and Append, Rewrite and Put return errors. If there is no
	// such session, errors.Is(err, fs.ErrNotExist) is true.
	Open(ctx context.Context, id string, write bool) (Journal, error)
	// List yields what [Journal.Describe] has stored of the sessions, in no particular order. For
	// a session without a description, or whose description was lost, it yields an Entry that has
	// only ID and Used. The caller can then read the session and describe it again.
	List(ctx context.Context) iter.Seq2[Entry, error]
	// Delete removes a session with everything in it. If the session is open for writing, the error
	// is a [*BusyError].
	Delete(ctx context.Context, id string) error
}

// Journal is one open session: a sequence of records, and objects that records refer to by hash.
// The methods are safe for concurrent use. If a Journal also has a method Remove(context.Context, Hash)
// error, which removes an object, new outputs of tools can take the room of old ones.
type Journal interface {
	// Records yields the records in the order in which they were appended. A reader sees only whole
	// records. If a record is damaged, it yields a [*DamageError] and continues with the next one.
	// Any other error ends the sequence.
	Records(ctx context.Context) iter.Seq2[[]byte, error]
	// Append adds records: see [CheckRecord]. If a crash loses one of them, it loses all later
	// ones. With durable, these records and all before them survive a loss of power once Append has
	// returned. Without durable, they survive the end of the process; a loss of power may lose or
	// damage them, and damage is reported by Records. After an error, none of these records is in
	// the journal, unless errors.Is(err, [ErrUncertain]) is true.
	Append(ctx context.Context, durable bool, records ...[]byte) error
	// Put stores an object, durably. Storing an object again has no effect, unless the stored one
	// is damaged: then it is replaced. The hash must be that of the data: see [CheckObject].
	Put(ctx context.Context, hash Hash, data []byte) error
	// Get returns an object. If it is missing, errors.Is(err, fs.ErrNotExist) is true. If it is
	// damaged, the error is a [*DamageError].
	Get(ctx context.Context, hash Hash) ([]byte, error)
	// Rewrite replaces all records, and removes the objects for which keep returns false. After a
	// crash, the journal has either all old or all new records. The sequence may read this journal,
	// but must not write to it.
	Rewrite(ctx context.Context, records iter.Seq[[]byte], keep func(Hash) bool) error
	// Describe stores the entry of the session in the list of the store, in the place of the
	// former one. It also works on a journal that was opened for reading. It sets the ID.
	Describe(ctx context.Context, e Entry) error
	// Close releases the session. A second Close returns nil. After Close, the other methods return
	// errors for which errors.Is(err, fs.ErrClosed) is true.
	Close() error
}

// Hash identifies an object: the SHA-256 of its bytes, in hexadecimal.
type Hash string

// HashOf returns the hash of an object.
func HashOf(data []byte) Hash {
	sum := sha256.Sum256(data)
	return Hash(hex.EncodeToString(sum[:]))
}

// Entry describes a session in a list of sessions. It is plain data and encodes as JSON.
type Entry struct {
	ID string `json:"id"`
	// Title is the name that the user gave the session. Prompt is the beginning of the first
	// message of the user.
	Title  string `json:"title,omitempty"`
	Prompt string `json:"prompt,omitempty"`
	// Dir is the absolute path of the workspace. Branch is the branch of git that was checked out.
	Dir    string `json:"dir,omitempty"`
	Branch string `json:"branch,omitempty"`
	// Model is the name of the model that answered last.
	Model string `json:"model,omitempty"`
	// Nodes is the number of nodes. Cost is what the models have cost, in US dollars, as far as
	// prices are known.
	Nodes int     `json:"nodes,omitempty"`
	Cost  float64 `json:"cost,omitempty"`
	// Created and Used are the times of the first and the last record.
	Created time.Time `json:"created,omitzero"`
	Used    time.Time `json:"used,omitzero"`
}

// OpError reports a failure to read or write the journal of a session.
type OpError struct {
	// Op is the operation, such as "append". Session is the id of the session.
	Op, Session string
	// Err is the cause.
	Err error
}

// Error implements error.
func (e *OpError) Error() string {
	if e.Op == "open" && errors.Is(e.Err, fs.ErrNotExist) {
		return fmt.Sprintf("open session %q: there is no such session", e.Session)
	}
	return fmt.Sprintf("%s session %q: %v", e.Op, e.Session, e.Err)
}

// Unwrap returns Err.
func (e *OpError) Unwrap() error { return e.Err }

// ErrReadOnly is the cause of the error of a write to a journal that was opened for reading.
var ErrReadOnly = errors.New("the session is open for reading only")

// BusyError reports that a session has a writer already. It unwraps to a [*OpError].
type BusyError struct {
	*OpError
	// Holder says who has the session open, as far as it is known.
	Holder Holder
}

// Holder describes the process that has a session open.
type Holder struct {
	// PID is the id of the process on Host, or 0 if it is unknown. Program is the name of its
	// executable.
	PID     int       `json:"pid,omitempty"`
	Host    string    `json:"host,omitempty"`
	Program string    `json:"program,omitempty"`
	Since   time.Time `json:"since,omitzero"`
}

// Error implements error.
func (e *BusyError) Error() string {
	if e.Holder.PID == 0 {
		return fmt.Sprintf("%s session %q: it is open in another process", e.Op, e.Session)
	}
	return fmt.Sprintf("%s session %q: it is open in process %d (%s on %s) since %s", e.Op, e.Session,
		e.Holder.PID, e.Holder.Program, e.Holder.Host, e.Holder.Since.Format(time.DateTime))
}

// Unwrap returns the embedded [*OpError].
func (e *BusyError) Unwrap() error { return e.OpError }

// ErrUncertain is a cause of the error of an Append that failed, and then could not be taken back.
// The process that opens the session next may find some of the records.
var ErrUncertain = errors.New("the records may be in the journal")

// DamageError reports a record or an object that cannot be read, although the rest can. It
// unwraps to a [*OpError].
type DamageError struct {
	*OpError
	// Record is the position of the record, counted from 1 (in files, this is the number of the
	// line), or 0 if an object is damaged. Object is the hash of the object.
	Record int
	Object Hash
	// Torn says that the end of the last record is missing, as after a crash. The record was
	// never acknowledged.
	Torn bool
}

// Error implements error.
func (e *DamageError) Error() string {
	if e.Record == 0 {
		return fmt.Sprintf("%s session %q: object %.12s is damaged: %v", e.Op, e.Session, e.Object, e.Err)
	}
	return fmt.Sprintf("%s session %q: record %d is damaged: %v", e.Op, e.Session, e.Record, e.Err)
}

// Unwrap returns the embedded [*OpError].
func (e *DamageError) Unwrap() error { return e.OpError }
