// Package vfs is the seam between the storage engine and the file system: every
// byte the engine reads or writes goes through FS.
//
// There are three implementations: OS is the real one, Mem keeps everything in
// memory and can be crashed, and Faults wraps another one and makes a chosen
// operation fail. What the engine assumes of a file system is written in
// doc/formats/bundle.md.
//
// The same tests hold OS and Mem to one behaviour. What is not flushed may be gone after
// a crash of Mem, in any part, as on a disk.
//
// Packages bundle, device and updates do all their I/O through it. It imports nothing of
// ours.
package vfs
