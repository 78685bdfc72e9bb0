//go:build linux

package vfs

// OS is the real file system.
type OS struct{ FS }
