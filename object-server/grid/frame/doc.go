// Package frame is the codec of the grid's frames: doc/formats/grid.md rules every byte.
//
// It encodes and decodes, and does no I/O. The Append functions add one frame to a buffer of the caller; Frame.Decode
// reads one. Invariants:
//
//   - A decoded frame points into the bytes it was decoded from: it is valid as long as these are.
//   - Nothing is allocated by a length that was not checked.
//   - Equal values have equal bytes: integers in their shortest form, options sorted by key and left out if they have
//     their default.
//
// The functions are safe for concurrent use on different buffers. Package grid and tests use them.
package frame
