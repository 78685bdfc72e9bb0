// Package format is what a bundle's bytes mean: records and their headers, metadata,
// version blocks, segment headers, checkpoints and footers, and the values in them
// (hashes, timestamps, identities). doc/formats/bundle.md rules every byte.
//
// It encodes and decodes, and does no I/O. Invariants:
//
//   - What is read is checked first. A checksum that does not hold, and a length that is
//     out of bounds, is ErrDamaged; what a later version may have written is
//     ErrUnsupported. Nothing is allocated by a length that was not checked.
//   - Equal values have equal bytes, so that replicas can compare them.
//   - A parsed Record points into the bytes it was parsed from.
//
// Every package that knows of bundles may use it; it uses none of them. Start with
// Header (header.go), Record (record.go) and SegmentHeader (segment.go).
package format
