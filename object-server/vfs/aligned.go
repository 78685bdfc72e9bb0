package vfs

import "unsafe"

// DirectAlignment is the alignment of memory, in bytes, that ReadDirect and WriteDirect take on every device.
const DirectAlignment = 4096

// Aligned skips to an address that they take.
func Aligned(p []byte) []byte { return p[(DirectAlignment-past(p))%DirectAlignment:] }

// IsAligned tells whether they take the address of p. The runtime aligns what is larger than its size classes
// to pages of 8 KiB, but does not promise that.
func IsAligned(p []byte) bool { return past(p) == 0 }

func past(p []byte) int { return int(uintptr(unsafe.Pointer(unsafe.SliceData(p))) % DirectAlignment) }
