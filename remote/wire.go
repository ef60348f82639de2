package remote

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A connection begins with a greeting of each side (see greet), then has frames in both directions.
// A frame is a header of 9 bytes (the length of its payload, the number of a call, a type) and at
// most 64 KiB. A message is longer than a frame if its text is, and the frames of several messages
// alternate, so that a large one delays no other.
const (
	magic     = "aycoder-remote\n"
	version   = 3
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
	maxLists    = 6 << 20   // bytes of memory for the lists and pointers of a message, beside texts
	maxRepeated = 512 << 20 // bytes of texts that a message repeats
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

// next returns the next frame that is more than a sign of life.
func (r *receiver) next() (f frame, err error) {
	for f.kind = framePing; f.kind == framePing && err == nil; {
		f, err = r.read()
	}
	return f, err
}

func (r *receiver) read() (frame, error) {
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

// beat gives the other side signs of life, and calls gone if nothing arrives from there for long. It returns when
// stop is closed.
func beat(in *receiver, out *sender, stop <-chan struct{}, gone func(error)) {
	tick := time.NewTicker(pingEvery)
	defer tick.Stop()
	var waits sync.Mutex // held until the last ping was sent
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		if quiet := time.Since(in.begun) - time.Duration(in.last.Load()); quiet >= goneAfter {
			gone(fmt.Errorf("the other side was silent for %s", quiet.Round(time.Second)))
			return
		}
		if waits.TryLock() {
			out.put(&message{kind: framePing, sent: waits.Unlock})
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

// coder encodes values, or decodes them in the same order: one function describes both directions of a
// message. A struct has its exported fields in order, without those that belong to one process: functions and
// interfaces. Both sides are built from the same version of the module, and a test watches what is sent.
//
// Encoding changes nothing, as others may use the values at the same time. Decoding checks every length against what is there. Memory and texts that a few bytes can ask for are bounded. The
// method valid of a type checks its values. After an error decoding yields zero values.
type coder struct {
	b        []byte
	decoding bool
	failed   bool
	room     uint64 // bytes that lists and pointers may still take
	again    int    // bytes of texts that were repeated

	texts []string // that later ones may repeat
	known map[string]int
}

func decoder(b []byte) *coder { return &coder{b: b, decoding: true, room: maxLists} }

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

// code codes values, of which it gets pointers.
func (c *coder) code(values ...any) *coder {
	for _, v := range values {
		c.value(reflect.ValueOf(v).Elem())
	}
	return c
}

func (c *coder) value(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		n := v.NumField() // Fields would allocate for each
		for i := range n {
			if f := v.Field(i); f.CanSet() {
				c.value(f)
			}
		}
	case reflect.Pointer:
		if there := c.flag(!v.IsNil()); there && c.decoding && c.takes(1, v.Type().Elem()) {
			v.Set(reflect.New(v.Type().Elem()))
		}
		if !v.IsNil() {
			c.value(v.Elem())
		}
	case reflect.Slice:
		c.list(v)
	case reflect.String:
		if s := c.text(v.String()); c.decoding {
			v.SetString(s)
		}
	case reflect.Bool:
		if set := c.flag(v.Bool()); c.decoding {
			v.SetBool(set)
		}
	case reflect.Int, reflect.Int64:
		if n := c.num(uint64(v.Int()), math.MaxUint64); c.decoding {
			v.SetInt(int64(n))
		}
	case reflect.Uint32:
		if n := c.num(v.Uint(), math.MaxUint32); c.decoding {
			v.SetUint(n)
		}
	}
	if checked, ok := v.Addr().Interface().(interface{ valid() bool }); ok && c.decoding && !checked.valid() {
		c.fail()
	}
}

// num codes a number of at most that size.
func (c *coder) num(n, most uint64) uint64 {
	if !c.decoding {
		c.b = binary.AppendUvarint(c.b, n)
		return n
	}
	n, size := binary.Uvarint(c.b)
	if size <= 0 || n > most {
		c.fail()
		return 0
	}
	c.b = c.b[size:]
	return n
}

func (c *coder) flag(v bool) bool {
	n := uint64(0)
	if v {
		n = 1
	}
	return c.num(n, 1) == 1
}

// take decodes bytes, which remain a part of the message.
func (c *coder) take(n uint64) []byte {
	if n > uint64(len(c.b)) {
		c.fail()
		return nil
	}
	var b []byte
	b, c.b = c.b[:n:n], c.b[n:]
	return b
}

// takes reports whether there is room for values, each of which has at least a byte in the message.
func (c *coder) takes(n uint64, typ reflect.Type) bool {
	size := n * uint64(typ.Size())
	if n > uint64(len(c.b)) || size > c.room {
		c.fail()
		return false
	}
	c.room -= size
	return true
}

// list codes a slice.
func (c *coder) list(v reflect.Value) {
	n := c.num(uint64(v.Len()), math.MaxUint64)
	data := v.Type().Elem().Kind() == reflect.Uint8
	switch {
	case data && c.decoding:
		v.SetBytes(c.take(n))
		return
	case data:
		c.b = append(c.b, v.Bytes()...)
		return
	case c.decoding:
		v.SetZero()
		if n > 0 && c.takes(n, v.Type().Elem()) {
			v.Set(reflect.MakeSlice(v.Type(), int(n), int(n)))
		}
	}
	for i := 0; i < v.Len() && !c.failed; i++ {
		c.value(v.Index(i))
	}
}

const minRepeated = 64 // bytes

// text codes a text. A long one that was there before, in this message or in the request, is coded as its number.
func (c *coder) text(s string) string {
	if n, ok := c.known[s]; ok && !c.decoding {
		c.num(uint64(n)<<1|1, math.MaxUint64)
		return s
	}
	n := c.num(uint64(len(s))<<1, math.MaxUint64)
	switch {
	case !c.decoding:
		c.b = append(c.b, s...)
	case n&1 == 0:
		s = string(c.take(n >> 1))
	default:
		if n >>= 1; n >= uint64(len(c.texts)) || c.again > maxRepeated {
			c.fail()
			return ""
		}
		c.again += len(c.texts[n])
		return c.texts[n]
	}
	c.remember(s)
	return s
}

// remember lets later texts repeat these.
func (c *coder) remember(texts ...string) *coder {
	for _, s := range texts {
		if len(s) < minRepeated {
			continue
		}
		if c.known == nil {
			c.known = map[string]int{}
		}
		c.known[s] = len(c.texts)
		c.texts = append(c.texts, s)
	}
	return c
}

// readData adds up to most bytes of a file, as a list of bytes. It reports whether there were fewer. It does not
// read on once it has enough bytes, as a file has that is not longer than it said.
func (c *coder) readData(r io.Reader, enough, most int64) (whole bool, err error) {
	at := len(c.b) + 4
	c.b = slices.Grow(c.b, 4+int(most))
	n, err := io.ReadAtLeast(r, c.b[at:at+int(most)], int(enough))
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		err = nil
	}
	c.b = append(c.b, byte(n)|0x80, byte(n>>7)|0x80, byte(n>>14)|0x80, byte(n>>21))[:at+n] // with leading zeros
	return int64(n) < most, err
}
