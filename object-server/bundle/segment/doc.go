// Package segment reads segment files, the pieces of a bundle's log: their headers and
// footers, and the records in between one after the other. doc/formats/bundle.md,
// "Opening and recovery", has the rules.
//
// It reads one file at a time, writes nothing, and knows neither names nor the other
// segments: the caller says where a segment ends at the latest (Limit), and what is
// known to have been acknowledged. Invariants:
//
//   - There is one answer to what the next record is, what a bad place means and where
//     reading goes on behind it: Walker. Opening, verifying, repairing, compaction and
//     the look-up of versions all use it.
//   - Bytes that the disk cannot read are damage, and damage is no failure: an error
//     that is no format.ErrDamaged means that the disk does not answer at all, or that
//     a later version wrote the file.
//   - What was acknowledged is never taken for a torn tail where anything in the file
//     proves it: a watermark, a footer, or bytes that cannot be read.
//   - Nothing is allocated by a length that was not checked.
//
// Package bundle, which appends to segments and knows a whole log, calls it; so may
// programs that look at single files. It uses bundle/format. Start with Walker
// (walker.go) and File (file.go).
package segment
