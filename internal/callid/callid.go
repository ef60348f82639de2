// Package callid has small sets of the ids of calls.
package callid

import (
	"bytes"
	"slices"
)

// A Sum is the hash of an id.
type Sum [6]byte

// SumOf returns the hash of an id, which is a part of its FNV-1a: journals have it. Package hash/fnv would
// make programs larger.
func SumOf(id string) (s Sum) {
	h := uint64(14695981039346656037)
	for i := range len(id) {
		h = (h ^ uint64(id[i])) * 1099511628211
	}
	for i := range s {
		s[i] = byte(h >> (56 - 8*i))
	}
	return s
}

// Set returns a set of hashes. It sorts them.
func Set(sums []Sum) []byte {
	slices.SortFunc(sums, func(a, b Sum) int { return bytes.Compare(a[:], b[:]) })
	set := make([]byte, 0, len(sums)*len(Sum{}))
	for _, s := range sums {
		set = append(set, s[:]...)
	}
	return set
}

// Has reports whether a set has the hash of an id.
func Has(set []byte, id string) bool {
	sum, size := SumOf(id), len(Sum{})
	for low, high := 0, len(set)/size; low < high; {
		mid := (low + high) / 2
		switch c := bytes.Compare(sum[:], set[mid*size:(mid+1)*size]); {
		case c == 0:
			return true
		case c < 0:
			high = mid
		default:
			low = mid + 1
		}
	}
	return false
}
