package session

import (
	"fmt"
	"hash/crc32"
)

// The names of files in a store: see journal.Dir.
const (
	journalName = "journal.jsonl"
	newName     = "new"
	indexName   = ".index"
)

// appendLine adds a record as a line of a journal.
func appendLine(buf, record []byte) []byte {
	return fmt.Appendf(buf, "[\"%08x\",%s]\n", crc32.Checksum(record, crc32.MakeTable(crc32.Castagnoli)), record)
}
