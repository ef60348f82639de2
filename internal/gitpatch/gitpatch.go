// Package gitpatch writes patches for git apply, with modes, links and binary data.
package gitpatch

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"io"
	"strconv"

	"github.com/aycoder/aycoder/internal/textdiff"
)

// Version is one side of a patch for git.
type Version struct {
	// Mode is that of git: 0o100644, 0o100755, 0o120000 for a symbolic link, or 0 if there is no file.
	Mode int
	// Data is the content, or the target of a link.
	Data []byte
}

// Of returns the patch that makes git apply turn one version of a file into another, with the mode and
// binary data, and the number of lines that it adds and removes. Between different names, the file is
// moved. If nothing differs, there is no patch.
func Of(from, to string, before, after Version) (patch []byte, added, removed int) {
	none := Version{}
	if before.Mode != 0 && after.Mode != 0 && before.Mode>>12 != after.Mode>>12 { // git never does this in one step
		first, _, removed := Of(from, from, before, none)
		second, added, _ := Of(to, to, none, after)
		return append(first, second...), added, removed
	}
	d := textdiff.Compare(before.Data, after.Data, textdiff.Options{OldName: from, NewName: to, Context: 3})
	text := d.Old != nil
	if !d.Binary && len(d.Hunks) == 0 && before.Mode == after.Mode && from == to {
		return nil, 0, 0
	}
	patch = d.AppendNames(patch)
	whole := d.Binary || before.Mode == 0 || after.Mode == 0
	switch {
	case before.Mode == 0:
		patch = fmt.Appendf(patch, "new file mode %06o\n", after.Mode)
		d.OldName = ""
	case after.Mode == 0:
		patch = fmt.Appendf(patch, "deleted file mode %06o\n", before.Mode)
		d.NewName = ""
	default:
		if before.Mode != after.Mode {
			patch = fmt.Appendf(patch, "old mode %06o\nnew mode %06o\n", before.Mode, after.Mode)
		}
		if from != to {
			patch = d.AppendRename(append(patch, "similarity index 100%\n"...))
		}
	}
	if whole {
		patch = fmt.Appendf(patch, "index %s..%s\n", before.id(), after.id())
	}
	if d.Binary || !text && whole {
		patch = append(patch, "GIT binary patch\n"...)
		return appendLiteral(appendLiteral(patch, after.Data), before.Data), 0, 0
	}
	return d.AppendHunks(patch), d.Added, d.Removed
}

// id returns the name that git gives to the content.
func (v Version) id() string {
	if v.Mode == 0 {
		return hex.EncodeToString(make([]byte, sha1.Size))
	}
	h := sha1.New()
	_, _ = io.WriteString(h, "blob "+strconv.Itoa(len(v.Data))+"\x00")
	h.Write(v.Data)
	return hex.EncodeToString(h.Sum(nil))
}

const base85 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"

// appendLiteral appends binary data as git does: compressed, in lines of up to 52 bytes. A line begins
// with a letter for its length, A for 1 and z for 52.
func appendLiteral(dst, data []byte) []byte {
	dst = fmt.Appendf(dst, "literal %d\n", len(data))
	var z bytes.Buffer
	w := zlib.NewWriter(&z)
	_, _ = w.Write(data) // a buffer takes everything
	_ = w.Close()
	for z.Len() > 0 {
		line := z.Next(52)
		length := byte('A' + len(line) - 1)
		if len(line) > 26 {
			length = byte('a' + len(line) - 27)
		}
		dst = append(dst, length)
		for len(line) > 0 {
			var four [4]byte
			n := copy(four[:], line)
			line = line[n:]
			word := uint32(four[0])<<24 | uint32(four[1])<<16 | uint32(four[2])<<8 | uint32(four[3])
			var five [5]byte
			for i := 4; i >= 0; i-- {
				five[i] = base85[word%85]
				word /= 85
			}
			dst = append(dst, five[:]...)
		}
		dst = append(dst, '\n')
	}
	return append(dst, '\n')
}
