//go:build linux && !amd64 && !arm64

package sandbox

// filtered says that system calls are not filtered on this kind of machine: the numbers
// and the order of bytes differ, and nobody has tried.
const filtered = false

func newFilter(sockets, bool) filter { return nil }

func newReadingFilter() filter { return nil }

func newBridgeFilter() filter { return nil }
