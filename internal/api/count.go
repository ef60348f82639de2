package api

import (
	"context"
	"io"
	"slices"

	"github.com/aycoder/aycoder/internal/rawjson"
	"github.com/aycoder/aycoder/internal/sse"
)

// Count sends the request to a method of the service that counts its tokens, and returns the number in
// a field of the answer. It sends only the named fields, because such methods refuse those that ask
// for an answer. x serves no other purpose then.
func (x *Exchange) Count(ctx context.Context, field string, fields ...string) (int64, error) {
	encode, d := x.Encode, &counter{field: field}
	x.Encode = func() (*Payload, error) {
		p, err := encode()
		if err != nil {
			return nil, err
		}
		return p.only(fields)
	}
	x.Decode = func(k *Call) Decoder {
		d.call = k
		return d
	}
	for _, err := range x.Stream(ctx) {
		if err != nil {
			return 0, err
		}
	}
	return d.n, nil
}

// only returns the fields of a JSON object that are named.
func (p *Payload) only(names []string) (*Payload, error) {
	data, err := io.ReadAll(p.Reader())
	if err != nil {
		return nil, err
	}
	all, err := rawjson.Parse(data)
	if err != nil {
		return nil, err
	}
	kept := slices.DeleteFunc(all, func(f rawjson.Field) bool { return !slices.Contains(names, f.Key) })
	return &Payload{Pieces: [][]byte{kept.AppendTo(nil)}}, nil
}

// A counter reads the answer of a method that counts.
type counter struct {
	call  *Call
	field string
	n     int64
}

// Event implements [Decoder].
func (d *counter) Event(ev sse.Event) (bool, error) {
	return false, d.call.Garbled("count of tokens", ErrUnfinished, ev.Data)
}

// Whole implements [Decoder].
func (d *counter) Whole(data string) error {
	r, found := rawjson.NewReader(data), false
	for r.Object(); r.Next(); {
		if r.Key() == d.field {
			d.n, found = r.Int()
		}
	}
	if err := r.End(); err != nil {
		return d.call.Garbled("count of tokens", err, data)
	}
	if !found || d.n <= 0 {
		return d.call.Refuse([]byte(data))
	}
	return nil
}

// End implements [Decoder].
func (d *counter) End() error { return ErrUnfinished }
