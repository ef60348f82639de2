package session

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/journal"
)

// Facts yields the facts that a session holds of a run, in their order, which a program can show to somebody who
// missed its events. If run is "", they are those of all runs, and a record without a fact
// comes before those of each. Run of each record is the id of the run, and State is empty.
// There are none for a run that the session does not know, of which only whole messages were recorded, or that was over
// before [Session.Trim]. Facts that cannot be read are left out. Another error ends the sequence, and is its last element.
//
// If the records of the journals of the store do not end but wait for the next one, nor do the facts.
func Facts(ctx context.Context, store journal.Store, id, run string) iter.Seq2[*aycoder.FactRecord, error] {
	return func(yield func(*aycoder.FactRecord, error) bool) {
		if err := checkStore(store); err != nil {
			yield(nil, fmt.Errorf("read facts: %w", err))
			return
		}
		j, err := store.Open(ctx, id, false)
		if err != nil {
			yield(nil, err)
			return
		}
		defer j.Close()
		s := &Session{id: id, journal: &depot{id: id, journal: j}}
		names := map[string]string{} // of the runs that are wanted, by their number as JSON
		for rec, err := range s.records(ctx) {
			if err != nil {
				if _, damaged := err.(*journal.DamageError); damaged {
					continue
				}
				yield(nil, err)
				return
			}
			var head struct {
				Kind   string          `json:"t"` // of a record that is not a fact, as are these two
				Number int64           `json:"r"`
				Name   string          `json:"name"`
				Run    json.RawMessage `json:"run"` // of a fact
			}
			if json.Unmarshal(rec.Line, &head) != nil {
				continue
			}
			if bytes.HasPrefix(rec.Line, []byte(`{"t":`)) {
				if named := head.Kind == kindRun || head.Kind == kindNode; named && head.Name != "" && (run == "" || head.Name == run) {
					number := `"` + runRef(head.Number) + `"`
					begins := run == "" && names[number] == ""
					names[number] = head.Name
					if begins && !yield(&aycoder.FactRecord{Run: head.Name}, nil) {
						return
					}
				}
				continue
			}
			name, wanted := names[string(head.Run)]
			if !wanted {
				continue
			}
			var f aycoder.FactRecord
			if json.Unmarshal(rec.Line, &f) != nil {
				continue
			}
			if f.Run = name; !yield(&f, nil) {
				return
			}
		}
	}
}
