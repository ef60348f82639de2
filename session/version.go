package session

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"

	"github.com/aycoder/aycoder/journal"
)

// recordVersion is the version of the records. A session of a higher one is refused. One of a lower one is
// read by way of upgrades, and rewritten when it is opened for writing.
const recordVersion = 1

// upgrades have, for each version before the present one, what makes a record of the next version of one of
// that version. That of the header sets the number. There are none, since 1 is the first version.
var upgrades = map[int]func(record []byte) ([]byte, error){}

// VersionError reports that a session has a version that this package does not read, normally because a newer
// one wrote it. It unwraps to a [*journal.OpError].
type VersionError struct {
	*journal.OpError
	// Version is that of the session, and Known the highest that this package reads.
	Version, Known int
}

// Error implements error.
func (e *VersionError) Error() string {
	advice := ""
	if e.Version > e.Known {
		advice = ": use a newer one"
	}
	return fmt.Sprintf("%s session %q: it has version %d, and this program reads versions up to %d%s", e.Op, e.Session, e.Version, e.Known, advice)
}

// Unwrap returns the embedded [*journal.OpError].
func (e *VersionError) Unwrap() error { return e.OpError }

// versionIn returns the version of the records that begin with a header. If it is damaged, they count as
// present ones.
func versionIn(header []byte) int {
	var r record
	if json.Unmarshal(header, &r) != nil || r.Header == nil {
		return recordVersion
	}
	return r.Header.Version
}

// records yields the records of the journal in the form of the present version. Those of an older one have no
// place: nobody can read one of them alone.
func (s *Session) records(ctx context.Context) iter.Seq2[journal.Located, error] {
	return func(yield func(journal.Located, error) bool) {
		version, n := recordVersion, 0
		for rec, err := range s.stored(ctx) {
			if n++; n == 1 && err == nil {
				version = versionIn(rec.Line)
				s.older = version != recordVersion
			}
			if err == nil && version != recordVersion {
				rec.Place = journal.Place{}
				rec.Line, err = s.upgrade(rec.Line, version, n)
			}
			if !yield(rec, err) {
				return
			}
		}
	}
}

// upgrade returns the present form of record n.
func (s *Session) upgrade(line []byte, version, n int) (_ []byte, err error) {
	base := &journal.OpError{Op: "open", Session: s.id}
	for v := version; v != recordVersion; v++ {
		if upgrades[v] == nil {
			return nil, &VersionError{OpError: base, Version: version, Known: recordVersion}
		}
		if line, err = upgrades[v](line); err != nil {
			base.Err = err
			return nil, &journal.DamageError{OpError: base, Record: n}
		}
	}
	return line, nil
}
