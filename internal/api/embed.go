package api

import (
	"context"
	"errors"

	"github.com/aycoder/aycoder/internal/rawjson"
	"github.com/aycoder/aycoder/internal/sse"
)

var errVectors = errors.New("it does not have one vector for each text")

// Embed sends a request for the vectors of n texts, and returns them in the order of the texts. They are in a
// list of the answer: as lists of numbers, or if field is not empty, in that field of objects, which may have an
// "index". x serves no other purpose then.
func (x *Exchange) Embed(ctx context.Context, n int, list, field string) ([][]float32, error) {
	d := &vectors{list: list, field: field, found: make([][]float32, n)}
	x.Frames = nil
	x.Decode = func(k *Call) Decoder {
		d.call = k
		return d
	}
	for _, err := range x.Stream(ctx) {
		if err != nil {
			return nil, err
		}
	}
	return d.found, nil
}

// vectors reads an answer with vectors.
type vectors struct {
	call        *Call
	list, field string
	found       [][]float32
	next        int
	bad         bool
}

// Event implements [Decoder].
func (d *vectors) Event(ev sse.Event) (bool, error) {
	return false, d.call.Garbled("vectors", ErrUnfinished, ev.Data)
}

// Whole implements [Decoder].
func (d *vectors) Whole(data string) error {
	r, listed := rawjson.NewReader(data), false
	for r.Object(); r.Next(); {
		if r.Key() != d.list {
			continue
		}
		listed = true
		for r.Array(); r.Next(); {
			d.element(r)
		}
	}
	if err := r.End(); err != nil {
		return d.call.Garbled("vectors", err, data)
	}
	if !listed {
		return d.call.Refuse([]byte(data))
	}
	for _, v := range d.found {
		d.bad = d.bad || len(v) == 0
	}
	if d.bad || d.next != len(d.found) {
		return d.call.Garbled("vectors", errVectors, data)
	}
	return nil
}

// element reads one vector.
func (d *vectors) element(r *rawjson.Reader) {
	i, vector := int64(d.next), []float32(nil)
	d.next++
	if d.field == "" {
		vector = d.numbers(r)
	} else {
		for r.Object(); r.Next(); {
			switch r.Key() {
			case d.field:
				vector = d.numbers(r)
			case "index":
				i, _ = r.Int()
			}
		}
	}
	if i < 0 || i >= int64(len(d.found)) {
		d.bad = true
		return
	}
	d.found[i] = vector
}

func (d *vectors) numbers(r *rawjson.Reader) (v []float32) {
	for r.Array(); r.Next(); {
		x, ok := r.Float()
		d.bad = d.bad || !ok
		v = append(v, float32(x))
	}
	return v
}

// End implements [Decoder].
func (d *vectors) End() error { return ErrUnfinished }
