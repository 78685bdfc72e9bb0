// Package bundle is the open log of a partition: it appends, reads, recovers, compacts
// and splits it. doc/formats/bundle.md rules every byte.
//
// A bundle is an append-only log in segments. The log is the only truth: the
// index is rebuilt from it. The package decides what is in the log; when it is
// flushed and when a write is acknowledged is the business of package device.
//
// Where to begin:
//
//   - Writing: draft.go makes a record, append.go puts a batch of them into the
//     segment that grows and publishes it once it is flushed, direct.go writes the
//     bytes, upkeep.go gives segments their checkpoints and footers. large.go has the
//     objects with files of their own.
//   - Reading: read.go looks a name up and reads its record with one pread, locate.go
//     finds a record by its number, versions.go the chain of a name.
//   - Recovery: open.go lists the segments, recover.go walks them and builds the index.
//     aside.go moves away what no record names.
//   - Room: compact.go begins, fate.go tells what becomes of a record, rewrite.go does it.
//   - Splitting: split.go.
//   - Looking, without a writer: view.go. Package inspect verifies and repairs with it.
//
// Its rooms, none of which knows this package: format (what the bytes mean), segment
// (reading one file), index (where a name may lie), versions (chains), sethash (sums over
// the set), compact (which segments to rewrite), buffers.
//
// Invariants: what was published was durable; nothing that may have been acknowledged is
// unlinked; a segment's records are never changed in place. Package device alone opens
// bundles to write; commands and repairs only look, or hold the device's lock. Bundle says
// which methods belong to which goroutine.
package bundle
