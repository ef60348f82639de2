package journal

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"iter"
	"os"
)

// A line of a journal or of the index is a JSON array of a checksum and the record:
//
//	["1a2b3c4d",{…}]
//
// The checksum is the CRC-32C of the bytes of the record. It finds damage that is still JSON. Only
// a line feed ends a line, since records may contain the other separators of Unicode.
const (
	lineFormat = `["%08x",%s]` + "\n"
	lineHead   = len(`["1a2b3c4d",`)
	lineExtra  = lineHead + len("]\n")
)

// MaxRecord is the size in bytes of the largest record. MaxObject is that of the largest object.
const (
	MaxRecord = 64 << 20
	MaxObject = 256 << 20
)

// ErrTooLarge is the cause of the error for a record or an object above the maximum size.
var ErrTooLarge = errors.New("larger than the maximum size")

var (
	errLineFeed = errors.New("the record contains a line feed")
	errLine     = errors.New("the line is not a record with a checksum")
	errChecksum = errors.New("the checksum does not match")
	errTorn     = errors.New("the end of the line is missing")
)

func checksum(record []byte) uint32 {
	return crc32.Checksum(record, crc32.MakeTable(crc32.Castagnoli))
}

// CheckRecord returns an error if a [Journal] must not store the record.
func CheckRecord(record []byte) error {
	if len(record) > MaxRecord {
		return fmt.Errorf("record of %d bytes: %w", len(record), ErrTooLarge)
	}
	if bytes.IndexByte(record, '\n') >= 0 {
		return errLineFeed
	}
	return nil
}

// encodeLines returns the lines of the records.
func encodeLines(records [][]byte) (lines []byte, err error) {
	for _, r := range records {
		if err := CheckRecord(r); err != nil {
			return nil, err
		}
		lines = appendLine(lines, r)
	}
	return lines, nil
}

func appendLine(buf, record []byte) []byte {
	return fmt.Appendf(buf, lineFormat, checksum(record), record)
}

// parseLine returns the record of a line, which may have its line feed.
func parseLine(line []byte) ([]byte, error) {
	line = bytes.TrimSuffix(line, []byte("\n"))
	if len(line) < lineExtra-1 || line[len(line)-1] != ']' {
		return nil, errLine
	}
	head, record := line[:lineHead], line[lineHead:len(line)-1]
	if !bytes.HasPrefix(head, []byte(`["`)) || !bytes.HasSuffix(head, []byte(`",`)) {
		return nil, errLine
	}
	if string(head[2:10]) != fmt.Sprintf("%08x", checksum(record)) {
		return nil, errChecksum
	}
	return record, nil
}

// Record returns the record of a line, or nil if there is none. It may be at the end of a damaged line.
func Record(line []byte) []byte {
	if record, err := parseLine(line); err == nil {
		return record
	}
	return rescueLine(line)
}

// rescueLine returns the record at the end of a damaged line, or nil. There is one if another program
// appended to half a line, or if a loss of power left a run of NUL bytes before the record.
func rescueLine(line []byte) []byte {
	start := len(line)
	for range 8 { // the record itself may have such arrays in it
		if start = max(bytes.LastIndex(line[:start], []byte(`["`)), 0); start == 0 {
			break
		}
		if record, err := parseLine(line[start:]); err == nil {
			return record
		}
	}
	return nil
}

// EachLine calls yield for each line, with its number, until yield returns false. The line is valid
// until yield returns. A line without a line feed is the last one: yield gets errTorn. If reading
// fails, EachLine returns the error.
func EachLine(in *bufio.Reader, yield func(n int, line []byte, err error) bool) error {
	const maxLine = MaxRecord + lineExtra
	var long []byte // a line that is longer than the buffer of in
	for n := 1; ; n++ {
		line, err := in.ReadSlice('\n')
		for long = long[:0]; errors.Is(err, bufio.ErrBufferFull); line, err = in.ReadSlice('\n') {
			if len(long) <= maxLine { // the rest of a line above the maximum is not kept
				long = append(long, line...)
			}
		}
		if len(long) > 0 {
			long = append(long, line...)
			line = long
		}
		switch {
		case errors.Is(err, io.EOF):
			if len(line) > 0 {
				yield(n, nil, errTorn)
			}
			return nil
		case err != nil:
			return err
		case len(line) > maxLine:
			line, err = nil, ErrTooLarge
		}
		if !yield(n, line, err) {
			return nil
		}
	}
}

func readLines(r io.Reader, yield func(n int, record []byte, err error) bool) error {
	return ReadRecords(bufio.NewReaderSize(r, 64<<10), yield)
}

// ReadRecords calls yield for each line as [EachLine] does, but with the record, or with the reason
// why there is none. A damaged line may have both.
func ReadRecords(in *bufio.Reader, yield func(n int, record []byte, err error) bool) error {
	return EachLine(in, func(n int, line []byte, err error) bool {
		var record []byte
		if err == nil {
			record, err = parseLine(line)
		}
		if !yield(n, record, err) {
			return false
		}
		if err != nil {
			record = rescueLine(line)
		}
		return err == nil || record == nil || yield(n, record, nil)
	})
}

// Place is the part of a journal in which some records are: Size bytes from At on.
type Place struct{ At, Size int64 }

// Located is a record of a journal, and where its line is, if that is known.
type Located struct {
	Line []byte // the record
	Place
}

// LineSize returns the size of the line of a record.
func LineSize(record []byte) int64 { return int64(len(record) + lineExtra) }

// A Locator is a [Journal] that knows where its records are, as that of a [LineStore] is.
type Locator interface {
	// Located yields the records as Records does, with their places.
	Located(ctx context.Context) iter.Seq2[Located, error]
	// End returns the offset of the next record.
	End() int64
}

// A LineStore is a [Store] whose journals are files of lines, which can be read from any place on. [Dir] and [Memory]
// return one.
type LineStore interface {
	Store
	// Lines opens the journal of a session. Its writer may append to it meanwhile, or replace it by another one.
	Lines(id string) (File, error)
}

// Lines implements [LineStore].
func (s *dirStore) Lines(id string) (f File, err error) {
	err = s.start(context.Background(), "read", id, func(d disk) error {
		f, err = d.open(id+"/"+journalName, os.O_RDONLY)
		return err
	})
	return f, err
}

// File is the open journal of a session.
type File interface {
	io.ReaderAt
	io.Closer
}
