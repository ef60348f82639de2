package gitrepo

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
)

// Tracked returns the names of the regular files in an index of git, which is the content of .git/index. It reads
// the versions 2, 3 and 4. Of a damaged index it returns the names before the damage, and of one that is split only
// those in this part.
//
// The format is that of gitformat-index(5).
func Tracked(index []byte) (names []string) {
	Entries(index, func(e Entry) {
		if e.Type == Regular && (len(names) == 0 || names[len(names)-1] != e.Name) { // stages of a merge have the same name
			names = append(names, e.Name)
		}
	})
	return names
}

// Entry is an entry of an index of git.
type Entry struct {
	Name string
	// Type is Regular, or what else git has under a name.
	Type uint8
	// Seconds and Nanoseconds are the time when the file was changed last, as far as git knows. Size is that of
	// the file, modulo 1<<32.
	Seconds, Nanoseconds, Size uint32
	// Blob is the name of its content, in binary.
	Blob []byte
	// Stage is not 0 if a merge has left a conflict.
	Stage uint8
	// Unchecked says that git does not look at the file in the work tree, and Intended that there is only the
	// intent to add it. Executable is the only permission that git keeps.
	Unchecked, Intended, Executable bool
}

// The types of entries.
const (
	Directory = 0o04 // of a sparse index
	Regular   = 0o10
	Link      = 0o12 // a symbolic link
	Module    = 0o16 // a repository in this one
)

// Entries calls a function for each entry of an index, sorted by name, and reports whether there are no others: the
// index is neither damaged nor split.
func Entries(index []byte, found func(Entry)) bool {
	if len(index) < 12 || string(index[:4]) != "DIRC" {
		return false
	}
	version := binary.BigEndian.Uint32(index[4:])
	count := binary.BigEndian.Uint32(index[8:])
	if version < 2 || version > 4 {
		return false
	}
	digest := 20
	few := min(count, 8)
	valid := func(digest int) bool { // what comes after few entries tells more about them than they do
		rest, ok := read(index[12:], version, few, digest, func(Entry) {})
		return ok && (few < count || !split(rest[:max(len(rest)-digest, 0)]))
	}
	if !valid(digest) && valid(32) { // the names of objects are those of SHA-256
		digest = 32
	}
	rest, ok := read(index[12:], version, count, digest, found)
	return ok && !split(rest[:max(len(rest)-digest, 0)])
}

// split reports whether an extension of an index says that another file has entries, too.
func split(extensions []byte) bool {
	for len(extensions) >= 8 {
		if string(extensions[:4]) == "link" {
			return true
		}
		size := uint64(binary.BigEndian.Uint32(extensions[4:]))
		if size > uint64(len(extensions)-8) {
			return true // damaged
		}
		extensions = extensions[8+size:]
	}
	return false
}

// maxName is the length of the longest name: git cannot have a file with a longer one on most systems. In
// version 4, a few bytes can repeat the name before them.
const maxName = 4096

// read reads entries whose objects have names of a number of bytes, and returns what comes after them. Whole
// reports whether all are valid.
func read(data []byte, version, count uint32, digest int, found func(Entry)) (rest []byte, whole bool) {
	const modeAt, statBytes = 24, 40
	before := ""
	for n := range count {
		head := statBytes + digest + 2
		if len(data) < head {
			return nil, false
		}
		flags := binary.BigEndian.Uint16(data[head-2:])
		extended := uint16(0)
		if flags&0x4000 != 0 && version > 2 {
			if head += 2; len(data) < head {
				return nil, false
			}
			extended = binary.BigEndian.Uint16(data[head-2:])
		}
		rest, keep := data[head:], 0
		if version == 4 {
			drop, n := offset(rest)
			if n == 0 || uint(drop) > uint(len(before)) { // on a machine with 32 bits it can be negative
				return nil, false
			}
			rest, keep, head = rest[n:], len(before)-drop, head+n
		}
		end := bytes.IndexByte(rest, 0)
		if end < 0 || keep+end == 0 || keep+end > maxName {
			return nil, false
		}
		name := before[:keep] + string(rest[:end])
		number := func(at int) uint32 { return binary.BigEndian.Uint32(data[at:]) }
		e := Entry{
			Name: name, Type: uint8(number(modeAt) >> 12), Blob: data[statBytes : statBytes+digest],
			Seconds: number(8), Nanoseconds: number(12), Size: number(36), Stage: uint8(flags >> 12 & 3),
			Unchecked: flags&0x8000 != 0 || extended&0x4000 != 0, Intended: extended&0x2000 != 0,
			Executable: number(modeAt)&0o100 != 0,
		}
		if name < before || name == before && n > 0 && e.Stage == 0 {
			return nil, false
		}
		switch e.Type {
		case Directory, Regular, Link, Module:
			found(e)
		default:
			return nil, false
		}
		size := head + end + 1
		if version < 4 {
			size = (head + end + 8) &^ 7
		}
		if len(data) < size {
			return nil, false
		}
		data, before = data[size:], name
	}
	return data, true
}

// Is reports whether the content of a file is that of the entry, also if git has replaced its line breaks.
func (e Entry) Is(data []byte) bool {
	name, digits := hex.EncodeToString(e.Blob), 2*len(e.Blob)
	return blobID(data, digits) == name || blobID(bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n")), digits) == name
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
