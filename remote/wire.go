package remote

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aycoder/aycoder/edit"
	"github.com/aycoder/aycoder/merge"
)

// A connection begins with a greeting of each side (see greet), then has frames in both directions.
// A frame is a header of 9 bytes (the length of its payload, the number of a call, a type) and at
// most 64 KiB. A message is longer than a frame if its text is, and the frames of several messages
// alternate, so that a large one delays no other.
const (
	magic     = "aycoder-remote\n"
	version   = 2
	headerLen = 9
	maxFrame  = 64 << 10

	// The limits of both sides. A peer that does not keep them is cut off.
	maxCalls    = 64        // file calls at a time
	maxCommands = 64        // commands at a time
	maxSmall    = 4 << 20   // bytes of a message, unless it is one of the next
	maxListing  = 64 << 20  // of the listing of directories
	maxPlan     = 72 << 20  // of a plan: texts of 64 MiB, names and notes
	maxResult   = 288 << 20 // of the result of a plan
	maxRequests = 160 << 20 // of all requests
	maxOpen     = 256       // files that are open between two calls
	maxChunk    = 1 << 20   // bytes of a file in a message
	maxBatch    = 3 << 20   // of all files in a message
)

// The heartbeat finds out that the other side is gone if no end of the stream says so.
const (
	pingEvery = 15 * time.Second
	goneAfter = 60 * time.Second
)

// The types of frames.
const (
	framePart   = iota + 1 // of a message, more follow
	frameLast              // the end of a message
	frameCancel            // from the client: the call is not needed any more
	frameOutput            // from the server: output of a command
	framePing
	framePong
	frameEnd // no frame has this type or a larger one
)

// frame is a frame that has arrived. The payload is valid until the next one is read.
type frame struct {
	id      uint32
	kind    byte
	payload []byte
}

// receiver reads frames. It takes at most one frame of memory, whatever the header says.
type receiver struct {
	r     *bufio.Reader
	buf   []byte
	begun time.Time
	last  atomic.Int64 // when a frame arrived: nanoseconds after begun
}

func newReceiver(r io.Reader) *receiver {
	return &receiver{r: bufio.NewReaderSize(r, 2*maxFrame), buf: make([]byte, maxFrame), begun: time.Now()}
}

func (r *receiver) next() (frame, error) {
	var head [headerLen]byte
	if _, err := io.ReadFull(r.r, head[:]); err != nil {
		return frame{}, err
	}
	n := binary.BigEndian.Uint32(head[:])
	f := frame{binary.BigEndian.Uint32(head[4:]), head[8], nil}
	if n > maxFrame || f.kind == 0 || f.kind >= frameEnd {
		return f, protocolError("a frame of type %d and %d bytes", f.kind, n)
	}
	f.payload = r.buf[:n]
	_, err := io.ReadFull(r.r, f.payload)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	r.last.Store(int64(time.Since(r.begun)))
	return f, err
}

// watch calls gone if nothing arrives for long. It returns when stop is closed.
func (r *receiver) watch(stop <-chan struct{}, gone func(error)) {
	tick := time.NewTicker(pingEvery)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
			if quiet := time.Since(r.begun) - time.Duration(r.last.Load()); quiet >= goneAfter {
				gone(fmt.Errorf("the other side was silent for %s", quiet.Round(time.Second)))
				return
			}
		}
	}
}

// message is a message to be sent. The sender owns the fields after data.
type message struct {
	id   uint32
	kind byte // of its last frame
	data []byte

	begun bool // its last frame may have been sent
	sent  func()
}

// sender sends messages from a queue, a frame of each in turn, and several small ones at once.
type sender struct {
	w io.Writer

	mu    sync.Mutex
	more  sync.Cond
	queue []*message
	err   error
}

func newSender(w io.Writer) *sender {
	s := &sender{w: w}
	s.more.L = &s.mu
	return s
}

// put queues a message. If the sender has ended, the message is dropped.
func (s *sender) put(m *message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.queue = append(s.queue, m)
		s.more.Signal()
	}
}

// abort takes a message out of the queue. It returns false if the last frame was sent: the other
// side may have acted on the message. If some frames were sent, a cancel must follow.
func (s *sender) abort(m *message) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.queue, m); i >= 0 {
		s.queue = slices.Delete(s.queue, i, i+1)
	}
	return !m.begun
}

// end makes run return, now or after its present call of Write.
func (s *sender) end(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
		s.queue = nil
		s.more.Signal()
	}
}

// run sends until end is called, or returns the error of Write.
func (s *sender) run() error {
	buf := make([]byte, 0, 2*(maxFrame+headerLen))
	var done []*message
	for {
		s.mu.Lock()
		for len(s.queue) == 0 && s.err == nil {
			s.more.Wait()
		}
		if s.err != nil {
			s.mu.Unlock()
			return s.err
		}
		buf, done = s.take(buf[:0], done[:0])
		s.mu.Unlock()
		if _, err := s.w.Write(buf); err != nil {
			s.end(err)
			return err
		}
		for _, m := range done {
			if m.sent != nil {
				m.sent()
			}
		}
	}
}

// take fills the buffer with frames of the messages at the head of the queue. The caller holds the
// mutex.
func (s *sender) take(buf []byte, done []*message) ([]byte, []*message) {
	for len(s.queue) > 0 && cap(buf)-len(buf) >= maxFrame+headerLen {
		m := s.queue[0]
		s.queue = s.queue[1:]
		n, kind := min(len(m.data), maxFrame), byte(framePart)
		if n == len(m.data) {
			kind, m.begun = m.kind, true
			done = append(done, m)
		} else {
			s.queue = append(s.queue, m)
		}
		buf = binary.BigEndian.AppendUint32(buf, uint32(n))
		buf = binary.BigEndian.AppendUint32(buf, m.id)
		buf = append(append(buf, kind), m.data[:n]...)
		m.data = m.data[n:]
	}
	return buf, done
}

// coder encodes values, or decodes them in the same order: one function describes both directions of
// a message. Decoding checks every length against what is there, so it takes memory only for bytes
// that have arrived. After an error it yields zero values.
type coder struct {
	b        []byte
	decoding bool
	failed   bool

	texts []string // that later ones may repeat
	known map[string]int
	plan  []edit.File    // of which the result is decoded
	merge []merge.Option // of that plan
}

func decoder(b []byte) *coder { return &coder{b: b, decoding: true} }

// end returns an error if decoding has failed, or has not used all bytes.
func (c *coder) end() error {
	if c.failed || len(c.b) > 0 {
		return protocolError("a message that is not well-formed")
	}
	return nil
}

func (c *coder) fail() {
	c.failed, c.b = true, nil
}

// num codes a number of at most max.
func (c *coder) num(v *uint64, most uint64) {
	if !c.decoding {
		c.b = binary.AppendUvarint(c.b, *v)
		return
	}
	n, size := binary.Uvarint(c.b)
	if size <= 0 || n > most {
		*v = 0
		c.fail()
		return
	}
	*v, c.b = n, c.b[size:]
}

// integer codes a number that is not negative.
func integer[T ~int | ~int64 | ~uint32](c *coder, v *T, most uint64) {
	n := uint64(max(*v, 0))
	c.num(&n, min(most, math.MaxInt64))
	*v = T(n)
}

func (c *coder) flag(v *bool) {
	n := uint64(0)
	if *v {
		n = 1
	}
	c.num(&n, 1)
	*v = n == 1
}

// bytes codes a text. When decoding, *v is a part of the message.
func (c *coder) bytes(v *[]byte) {
	n := uint64(len(*v))
	c.num(&n, uint64(max(len(c.b), len(*v))))
	switch {
	case !c.decoding:
		c.b = append(c.b, *v...)
	case n > uint64(len(c.b)):
		*v = nil
		c.fail()
	default:
		*v, c.b = c.b[:n:n], c.b[n:]
	}
}

// readData adds up to most bytes of a file, with a length of 4 bytes in front. It reports whether there
// were fewer. It does not read on once it has enough bytes, as a file has that is not longer than it
// said.
func (c *coder) readData(r io.Reader, enough, most int64) (whole bool, err error) {
	at := len(c.b) + 4
	c.b = slices.Grow(c.b, 4+int(most))
	n, err := io.ReadAtLeast(r, c.b[at:at+int(most)], int(enough))
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		err = nil
	}
	c.b = binary.BigEndian.AppendUint32(c.b, uint32(n))[:at+n]
	return int64(n) < most, err
}

// data decodes what readData has added, as a part of the message.
func (c *coder) data() []byte {
	if len(c.b) < 4 || binary.BigEndian.Uint32(c.b) > uint32(len(c.b)-4) {
		c.fail()
		return nil
	}
	n := 4 + int(binary.BigEndian.Uint32(c.b))
	data := c.b[4:n:n]
	c.b = c.b[n:]
	return data
}

// str codes a string of at most that many bytes.
func str[T ~string](c *coder, v *T, most int) {
	if !c.decoding {
		c.b = append(binary.AppendUvarint(c.b, uint64(len(*v))), *v...)
		return
	}
	var b []byte
	if c.bytes(&b); len(b) > most {
		c.fail()
		b = nil
	}
	*v = T(b)
}

const minRepeated = 64 // bytes

// text codes a text of a file. A text that was there before, in this message or in the request, is
// coded as its number.
func (c *coder) text(v *string) {
	if c.known == nil {
		c.known = map[string]int{}
		for i, t := range c.texts {
			c.known[t] = i + 1
		}
	}
	n := uint64(0)
	if !c.decoding {
		n = uint64(c.known[*v])
	}
	if c.num(&n, uint64(len(c.texts))); n > 0 {
		*v = c.texts[n-1]
		return
	}
	if str(c, v, maxResult); len(*v) >= minRepeated {
		c.texts = append(c.texts, *v)
		c.known[*v] = len(c.texts)
	}
}

// list codes the elements of a list, each of which takes at least a byte.
func list[T any](c *coder, v *[]T, most int, each func(*T)) {
	n := uint64(len(*v))
	c.num(&n, uint64(most))
	if !c.decoding {
		for i := range *v {
			each(&(*v)[i])
		}
		return
	}
	*v = nil
	for range n {
		var e T
		if each(&e); c.failed {
			*v = nil
			return
		}
		*v = append(*v, e)
	}
}
