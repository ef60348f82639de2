// Package sqlite keeps sessions in an SQLite database. It is for hosts that have many sessions, or
// that want to query them.
//
// The database is in WAL mode, so readers do not wait for writers. Durable appends are made with
// synchronous=FULL, and the others with synchronous=NORMAL: these survive the end of the process,
// and the next durable append flushes them, too.
//
// A transaction ends soon, but a session has one writer for as long as it is open. Therefore each
// session also has a lock file, in a directory beside the database. The lock is that of the store
// in files: see [journal.Dir]. It ends with its process, and names the holder.
package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	_ "modernc.org/sqlite" // the driver

	"github.com/aycoder/aycoder/journal"
)

const schema = `
CREATE TABLE IF NOT EXISTS sessions (
	key INTEGER PRIMARY KEY AUTOINCREMENT,
	id TEXT NOT NULL UNIQUE,
	entry TEXT NOT NULL,
	used INTEGER NOT NULL -- nanoseconds since 1970
);
CREATE TABLE IF NOT EXISTS records (
	n INTEGER PRIMARY KEY AUTOINCREMENT,
	session INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE,
	crc INTEGER NOT NULL, -- CRC-32C of data
	data BLOB NOT NULL
);
CREATE INDEX IF NOT EXISTS records_of_session ON records (session, n);
CREATE TABLE IF NOT EXISTS objects (
	session INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE,
	hash TEXT NOT NULL,
	data BLOB NOT NULL,
	PRIMARY KEY (session, hash)
);`

// Store keeps sessions in a database. It implements [journal.Store] and [journal.Sizer].
type Store struct {
	name, path   string      // as given, and without symbolic links
	file         os.FileInfo // that both named when it was opened
	full, normal *sql.DB     // the same database, with the two settings of synchronous
	locks        journal.Store
}

// Open opens the database in the file path, or creates it. The locks of the sessions are in the directory path + "-locks", beside
// the file that it leads to if path is a symbolic link. The options are those of the locks.
func Open(path string, opts ...journal.DirOption) (_ *Store, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("open the database of sessions: %w", err)
		}
	}()
	name, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	// SQLite gives its other files the mode of this one.
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	if path, err = filepath.EvalSymlinks(name); err != nil { // SQLite does this, too: the same database has the same locks
		return nil, err
	}
	s := &Store{name: name, path: path, file: info}
	// When it is created, the directory of the database is flushed. So the file above is durable, too.
	if s.locks, err = journal.Dir(path+"-locks", opts...); err != nil {
		return nil, err
	}
	if s.full, err = sql.Open("sqlite", dsn(path, "full")); err != nil {
		return nil, err
	}
	if s.normal, err = sql.Open("sqlite", dsn(path, "normal")); err == nil {
		_, err = s.full.Exec(schema)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func dsn(path, synchronous string) string {
	u := url.URL{Scheme: "file", Path: "/" + strings.TrimPrefix(filepath.ToSlash(path), "/")}
	u.RawQuery = url.Values{"_txlock": {"immediate"}, "_pragma": {"busy_timeout(60000)",
		"journal_mode(wal)", "foreign_keys(on)", "synchronous(" + synchronous + ")"}}.Encode()
	return u.String()
}

// Close closes the database. The sessions should be closed before.
func (s *Store) Close() error {
	err := s.full.Close()
	if s.normal != nil {
		err = errors.Join(err, s.normal.Close())
	}
	return err
}

// moved returns an error if the database is not where it was opened: nobody will find what is written to it then.
func (s *Store) moved() error {
	info, err := os.Stat(s.name)
	if err == nil && !os.SameFile(info, s.file) {
		err = errMoved
	}
	return err
}

// Paths returns the files of the database, and the directory of the locks: see [journal.Store].
func (s *Store) Paths() []string {
	return []string{s.path, s.path + "-wal", s.path + "-shm", s.path + "-journal", s.path + "-locks"}
}

// wrap makes *err the error of an operation. The driver does not always say that ctx has ended.
func wrap(ctx context.Context, op, id string, err *error) {
	if *err != nil && ctx.Err() != nil && !errors.Is(*err, ctx.Err()) {
		*err = fmt.Errorf("%w: %w", ctx.Err(), *err)
	}
	*err = journal.Error(op, id, *err)
}

// lock locks a session for writing.
func (s *Store) lock(ctx context.Context, id string) (lock journal.Journal, err error) {
	const tries = 100 // another process may create or delete the lock meanwhile
	for range tries {
		if lock, err = s.locks.Open(ctx, id, true); errors.Is(err, fs.ErrNotExist) {
			lock, err = s.locks.Create(ctx, id)
		}
		if !errors.Is(err, fs.ErrExist) && !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	return lock, err
}

// find returns the key of a session.
func (s *Store) find(ctx context.Context, id string) (key int64, err error) {
	if err := journal.CheckID(id); err != nil {
		return 0, err
	}
	err = s.full.QueryRowContext(ctx, "SELECT key FROM sessions WHERE id = ?", id).Scan(&key)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, fs.ErrNotExist
	}
	return key, err
}

// Create implements [journal.Store].
func (s *Store) Create(ctx context.Context, id string) (_ journal.Journal, err error) {
	defer wrap(ctx, "create", id, &err)
	if err := journal.CheckID(id); err != nil {
		return nil, err
	}
	lock, err := s.lock(ctx, id)
	if _, busy := errors.AsType[*journal.BusyError](err); busy {
		return nil, fmt.Errorf("it is being created or open: %w", fs.ErrExist)
	}
	if err != nil {
		return nil, err
	}
	done, err := s.full.ExecContext(ctx, "INSERT INTO sessions (id, entry, used) VALUES (?, '', ?) ON CONFLICT DO NOTHING",
		id, time.Now().UnixNano())
	var rows, key int64
	if err == nil {
		rows, err = done.RowsAffected()
	}
	if err == nil && rows == 0 {
		err = fs.ErrExist
	}
	if err == nil {
		key, err = done.LastInsertId()
	}
	if err != nil {
		lock.Close()
		return nil, err
	}
	return &openJournal{store: s, id: id, key: key, lock: lock}, nil
}

// Open implements [journal.Store].
func (s *Store) Open(ctx context.Context, id string, write bool) (_ journal.Journal, err error) {
	defer wrap(ctx, "open", id, &err)
	j := &openJournal{store: s, id: id}
	if j.key, err = s.find(ctx, id); err != nil {
		return nil, err
	}
	if !write {
		return j, nil
	}
	if j.lock, err = s.lock(ctx, id); err != nil {
		return nil, err
	}
	if j.key, err = s.find(ctx, id); err != nil { // it was deleted meanwhile
		j.lock.Close()
		return nil, err
	}
	return j, nil
}

// List implements [journal.Store].
func (s *Store) List(ctx context.Context) iter.Seq2[journal.Entry, error] {
	return func(yield func(journal.Entry, error) bool) {
		list, err := s.entries(ctx)
		for _, e := range list {
			if !yield(e, nil) {
				return
			}
		}
		if err != nil {
			yield(journal.Entry{}, fmt.Errorf("list sessions: %w", errors.Join(err, ctx.Err())))
		}
	}
}

func (s *Store) entries(ctx context.Context) (list []journal.Entry, err error) {
	rows, err := s.full.QueryContext(ctx, "SELECT id, entry, used FROM sessions")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var id, text string
		var used int64
		if err := rows.Scan(&id, &text, &used); err != nil {
			return nil, err
		}
		e := journal.Entry{ID: id}
		if text == "" || json.Unmarshal([]byte(text), &e) != nil {
			e = journal.Entry{ID: id, Used: time.Unix(0, used)}
		}
		list = append(list, e)
	}
	return list, rows.Err()
}

// Delete implements [journal.Store].
func (s *Store) Delete(ctx context.Context, id string) (err error) {
	defer wrap(ctx, "delete", id, &err)
	if _, err := s.find(ctx, id); err != nil {
		return err
	}
	lock, err := s.lock(ctx, id)
	if err != nil {
		return err
	}
	_, err = s.full.ExecContext(ctx, "DELETE FROM sessions WHERE id = ?", id)
	err = errors.Join(err, lock.Close())
	if err == nil {
		// If another process has the lock by now, it needs the file.
		_ = s.locks.Delete(ctx, id)
	}
	return err
}

// Size returns the number of bytes of the records and objects of a session. It implements
// [journal.Sizer].
func (s *Store) Size(ctx context.Context, id string) (n int64, err error) {
	defer wrap(ctx, "measure", id, &err)
	key, err := s.find(ctx, id)
	if err == nil {
		err = s.full.QueryRowContext(ctx, `SELECT
			(SELECT coalesce(sum(length(data)), 0) FROM records WHERE session = ?1) +
			(SELECT coalesce(sum(length(data)), 0) FROM objects WHERE session = ?1)`, key).Scan(&n)
	}
	return n, err
}
