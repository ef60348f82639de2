package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// migrations lead from each version of the tables to the next one. One that was released is never changed.
//
// Nothing refers to a session by a foreign key: each statement that writes locks the row of its session, and a
// check of each row that is inserted would do it again.
func migrations() []string {
	return []string{`
CREATE TABLE sessions (
	key bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	id text COLLATE "C" NOT NULL UNIQUE,
	token bigint NOT NULL DEFAULT 0,      -- counts the writers, and fences all but the last one
	holder bigint NOT NULL DEFAULT 0,     -- the advisory lock of the store that has it open for writing, or 0
	writer text NOT NULL DEFAULT '',      -- a journal.Holder in JSON
	rewrites integer NOT NULL DEFAULT 0,
	entry text NOT NULL DEFAULT '',       -- a journal.Entry in JSON, or '' without a description
	used timestamptz NOT NULL DEFAULT now(),
	dir text NOT NULL DEFAULT '',
	words tsvector NOT NULL DEFAULT ''
);
CREATE INDEX ON sessions (used);
CREATE INDEX ON sessions (dir, used);
CREATE INDEX ON sessions USING gin (words);
CREATE TABLE records (
	session bigint NOT NULL,
	n integer NOT NULL,    -- from 1
	crc integer NOT NULL,  -- CRC-32C of data
	data bytea NOT NULL,
	PRIMARY KEY (session, n)
);
CREATE TABLE objects (
	session bigint NOT NULL,
	hash bytea NOT NULL,   -- SHA-256 of data
	data bytea NOT NULL,
	PRIMARY KEY (session, hash)
);`, `
CREATE TABLE tenants (
	key bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	name text COLLATE "C" NOT NULL UNIQUE,    -- '' stands for all tenants together
	runs integer NOT NULL DEFAULT 0,          -- at once; as in the following columns, 0 is no limit
	rate bigint NOT NULL DEFAULT 0,           -- tokens a minute
	money bigint NOT NULL DEFAULT 0,          -- a day, in billionths of a dollar
	tokens bigint NOT NULL DEFAULT 0,         -- a day
	day date NOT NULL DEFAULT 'epoch',        -- in UTC, of the two sums
	spent_money bigint NOT NULL DEFAULT 0,
	spent_tokens bigint NOT NULL DEFAULT 0,
	level bigint NOT NULL DEFAULT 0,          -- tokens left of the minute, at the time when it was refilled
	refilled timestamptz NOT NULL DEFAULT 'epoch',
	served bigint NOT NULL DEFAULT 0          -- the number of the run of all that was started last
);
CREATE TABLE claims (
	id bigint PRIMARY KEY,                    -- random, of its process
	n bigint GENERATED ALWAYS AS IDENTITY,    -- the order of arrival
	tenant bigint NOT NULL,
	holder bigint NOT NULL,                   -- as in sessions
	run boolean NOT NULL,                     -- or a model call
	granted boolean NOT NULL DEFAULT false,
	money bigint NOT NULL,                    -- reserved, as are tokens
	tokens bigint NOT NULL,
	since timestamptz NOT NULL DEFAULT now()  -- or within an hour of the last beat of the holder
);
CREATE INDEX ON claims (tenant, run, n);
CREATE INDEX ON claims (holder);`}
}

// VersionError reports that the tables have a version that this package does not know, normally because a newer
// one has migrated them.
type VersionError struct {
	// Version is that of the tables, and Known the highest that this package knows.
	Version, Known int
}

// Error implements error.
func (e *VersionError) Error() string {
	return fmt.Sprintf("the tables have version %d, and this program knows versions up to %d: use a newer one",
		e.Version, e.Known)
}

// migrate brings the tables up to date. One process does it at a time, and a role that must not create tables can use
// those that are there.
func migrate(ctx context.Context, conn *pgx.Conn, schema string, steps []string) error {
	version, err := tablesVersion(ctx, conn)
	if err != nil || version == len(steps) {
		return err
	}
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock(hashtextextended('aycoder migration', 0))"); err != nil {
			return err
		}
		// CREATE SCHEMA IF NOT EXISTS needs the right to create one even if it exists.
		create, exists := "CREATE TABLE IF NOT EXISTS version (version integer NOT NULL)", false
		if err := tx.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)", schema).Scan(&exists); err != nil {
			return err
		}
		if !exists {
			create = "CREATE SCHEMA " + pgx.Identifier{schema}.Sanitize() + "; " + create
		}
		if _, err := tx.Exec(ctx, create); err != nil {
			return err
		}
		version, err := tablesVersion(ctx, tx) // another process may have been faster
		if err != nil {
			return err
		}
		for ; version < len(steps); version++ {
			if _, err := tx.Exec(ctx, steps[version]); err != nil {
				return fmt.Errorf("migrate the tables to version %d: %w", version+1, err)
			}
		}
		_, err = tx.Exec(ctx, "DELETE FROM version")
		if err == nil {
			_, err = tx.Exec(ctx, "INSERT INTO version VALUES ($1)", version)
		}
		return err
	})
}

// tablesVersion returns the version of the tables, or 0 if there are none.
func tablesVersion(ctx context.Context, db querier) (version int, err error) {
	err = db.QueryRow(ctx, "SELECT version FROM version").Scan(&version)
	known := len(migrations())
	var failed *pgconn.PgError
	switch {
	case errors.Is(err, pgx.ErrNoRows), errors.As(err, &failed) && failed.Code == "42P01": // undefined_table
		return 0, nil
	case err == nil && version > known:
		return 0, &VersionError{Version: version, Known: known}
	}
	return version, err
}

// A querier is a connection, a pool of them, or a transaction.
type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}
