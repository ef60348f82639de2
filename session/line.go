package session

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// A line of a journal or of the index is a JSON object that holds a checksum and the record:
//
//	{"crc":"1a2b3c4d","record":{…}}
//
// The checksum is the CRC-32C of the bytes of the record. It finds damage that is still JSON. Only
// a line feed ends a line, since records may contain the other separators of Unicode.
const (
	linePrefix = `{"crc":"`
	lineMiddle = `","record":`
	lineSuffix = "}\n"
	lineExtra  = len(linePrefix) + 8 + len(lineMiddle) + len(lineSuffix)
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
func encodeLines(records [][]byte) ([]byte, error) {
	size := 0
	for _, r := range records {
		if err := CheckRecord(r); err != nil {
			return nil, err
		}
		size += len(r) + lineExtra
	}
	buf := make([]byte, 0, size)
	for _, r := range records {
		buf = appendLine(buf, r)
	}
	return buf, nil
}

func appendLine(buf, record []byte) []byte {
	buf = fmt.Appendf(buf, "%s%08x%s", linePrefix, checksum(record), lineMiddle)
	buf = append(buf, record...)
	return append(buf, lineSuffix...)
}

// parseLine returns the record of a line, which may have its line feed.
func parseLine(line []byte) ([]byte, error) {
	rest, ok := bytes.CutPrefix(bytes.TrimSuffix(line, []byte("\n")), []byte(linePrefix))
	if !ok || len(rest) < 8 {
		return nil, errLine
	}
	sum, rest := rest[:8], rest[8:]
	record, begins := bytes.CutPrefix(rest, []byte(lineMiddle))
	record, ends := bytes.CutSuffix(record, []byte("}"))
	if !begins || !ends {
		return nil, errLine
	}
	if want := checksum(record); string(sum) != fmt.Sprintf("%08x", want) {
		return nil, errChecksum
	}
	return record, nil
}

// rescueLine returns the record at the end of a damaged line. There is one if another program
// appended to half a line, or if a loss of power left a run of NUL bytes before the record.
func rescueLine(line []byte) ([]byte, bool) {
	i := bytes.LastIndex(line, []byte(linePrefix))
	if i <= 0 {
		return nil, false
	}
	record, err := parseLine(line[i:])
	return record, err == nil
}

// readLines calls yield for each line of r, with the number of the line, and with the record or
// the reason why there is none. The record is valid until yield returns. A line without a line
// feed is the last one: yield gets errTorn. If reading fails, readLines returns the error.
func readLines(r io.Reader, yield func(n int, record []byte, err error) bool) error {
	in := bufio.NewReaderSize(r, 64<<10)
	var long []byte // a line that is longer than the buffer of in
	for n := 1; ; n++ {
		line, err := in.ReadSlice('\n')
		tooLong := false
		for long = long[:0]; errors.Is(err, bufio.ErrBufferFull); line, err = in.ReadSlice('\n') {
			if tooLong = tooLong || len(long)+len(line) > MaxRecord+lineExtra; tooLong {
				long = nil
				continue
			}
			long = append(long, line...)
		}
		if len(long) > 0 {
			long = append(long, line...)
			line = long
		}
		switch {
		case errors.Is(err, io.EOF):
			if len(line) > 0 || tooLong {
				yield(n, nil, errTorn)
			}
			return nil
		case err != nil:
			return err
		case tooLong || len(line) > MaxRecord+lineExtra:
			if !yield(n, nil, ErrTooLarge) {
				return nil
			}
		case !yieldLine(n, line, yield):
			return nil
		}
	}
}

func yieldLine(n int, line []byte, yield func(n int, record []byte, err error) bool) bool {
	record, err := parseLine(line)
	if err == nil {
		return yield(n, record, nil)
	}
	if !yield(n, nil, err) {
		return false
	}
	if record, ok := rescueLine(line); ok {
		return yield(n, record, nil)
	}
	return true
}
