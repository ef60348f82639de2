package local

import (
	"unsafe"

	"golang.org/x/sys/windows"
)

var globalMemoryStatus = windows.NewLazySystemDLL("kernel32.dll").NewProc("GlobalMemoryStatusEx")

// memoryStatus is MEMORYSTATUSEX.
type memoryStatus struct {
	length, load                                     uint32
	totalPhys, availPhys, totalPage, availPage       uint64
	totalVirtual, availVirtual, availExtendedVirtual uint64
}

// systemMemory asks Windows.
func systemMemory() (total, available int64, err error) {
	s := memoryStatus{length: uint32(unsafe.Sizeof(memoryStatus{}))}
	if ok, _, err := globalMemoryStatus.Call(uintptr(unsafe.Pointer(&s))); ok == 0 {
		return 0, 0, err
	}
	return int64(s.totalPhys), int64(s.availPhys), nil
}
