package gitrepo

import (
	"bytes"
	"encoding/binary"
)

// Tracked returns the names of the regular files in an index of git, which is the content of .git/index. It reads the versions 2, 3 and 4. Of a damaged index it returns the names
// before the damage, and of one that is split only those in this part.
//
// The format is that of gitformat-index(5).
func Tracked(index []byte) []string {
	if len(index) < 12 || string(index[:4]) != "DIRC" {
		return nil
	}
	version := binary.BigEndian.Uint32(index[4:])
	count := binary.BigEndian.Uint32(index[8:])
	if version < 2 || version > 4 {
		return nil
	}
	names, whole := trackedBy(index[12:], version, count, 20)
	if !whole { // the names of objects may be those of SHA-256
		if more, whole := trackedBy(index[12:], version, count, 32); whole {
			return more
		}
	}
	return names
}

// maxName is the length of the longest name: git cannot have a file with a longer one on most systems. In
// version 4, a few bytes can repeat the name before them.
const maxName = 4096

// trackedBy reads entries whose objects have names of a number of bytes. Whole reports whether all are valid.
func trackedBy(data []byte, version, count uint32, digest int) (names []string, whole bool) {
	const modeAt, statBytes = 24, 40
	before := ""
	for range count {
		head := statBytes + digest + 2
		if len(data) < head {
			return names, false
		}
		if flags := binary.BigEndian.Uint16(data[head-2:]); flags&0x4000 != 0 && version > 2 {
			head += 2
		}
		if len(data) < head {
			return names, false
		}
		rest, keep := data[head:], 0
		if version == 4 {
			drop, n := offset(rest)
			if n == 0 || uint(drop) > uint(len(before)) { // on a machine with 32 bits it can be negative
				return names, false
			}
			rest, keep, head = rest[n:], len(before)-drop, head+n
		}
		end := bytes.IndexByte(rest, 0)
		if end < 0 || keep+end == 0 || keep+end > maxName {
			return names, false
		}
		name := before[:keep] + string(rest[:end])
		if name <= before && names != nil && name != before { // stages of a merge have the same name
			return names, false
		}
		switch mode := binary.BigEndian.Uint32(data[modeAt:]) >> 12; mode {
		case 0o10:
			if name != before {
				names = append(names, name)
			}
		case 0o04, 0o12, 0o16: // a directory of a sparse index, a symbolic link, a repository in this one
		default:
			return names, false
		}
		size := head + end + 1
		if version < 4 {
			size = (head + end + 8) &^ 7
		}
		if len(data) < size {
			return names, false
		}
		data, before = data[size:], name
	}
	return names, true
}

// offset reads a number as git packs it: 7 bits a byte, and each further byte adds one. N is its length,
// or 0.
func offset(data []byte) (value, n int) {
	for n < min(len(data), 5) {
		b := data[n]
		value |= int(b & 0x7f)
		if n++; b < 0x80 {
			return value, n
		}
		value = (value + 1) << 7
	}
	return 0, 0
}
