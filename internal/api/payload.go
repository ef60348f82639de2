package api

import "io"

// A Payload is the body of a request, in pieces. Each encoded message is a piece, which
// later requests of the same conversation share instead of copying it.
type Payload struct {
	Pieces [][]byte
}

// Size returns the length of the body in bytes.
func (p *Payload) Size() (n int64) {
	for _, b := range p.Pieces {
		n += int64(len(b))
	}
	return n
}

// Reader returns a new reader that begins at the start of the body.
func (p *Payload) Reader() io.ReadCloser { return &reader{rest: p.Pieces} }

type reader struct {
	rest [][]byte
	off  int // into the first of them
}

// Read implements io.Reader.
func (r *reader) Read(b []byte) (n int, err error) {
	for len(r.rest) > 0 && n < len(b) {
		k := copy(b[n:], r.rest[0][r.off:])
		n += k
		if r.off += k; r.off == len(r.rest[0]) {
			r.rest, r.off = r.rest[1:], 0
		}
	}
	if n == 0 && len(r.rest) == 0 {
		return 0, io.EOF
	}
	return n, nil
}

// Close implements io.Closer.
func (r *reader) Close() error { return nil }
