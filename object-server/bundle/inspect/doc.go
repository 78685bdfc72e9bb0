// Package inspect looks into the files of bundles, and mends them: what people need at a
// command line, and what a server needs to repair one partition while it runs.
// doc/formats/bundle.md rules every byte, doc/bundle-tools.md has the commands.
//
//   - What is there: survey.go (a partition), objects.go (its objects), describe.go (one
//     record), describe_segment.go (the header and footer of a segment).
//   - Is it good: scan.go reads one segment file, verify.go a partition. verify_large.go
//     compares large files with their records.
//   - Make it so: repair.go plans and does it, mend.go makes what takes the place of a
//     lost record, writer.go writes a segment anew.
//
// Invariants:
//
//   - Everything but Repair.Run changes nothing, and a partition may be in use meanwhile.
//     What two passes over it do not both find is no damage.
//   - Records are read by segment.Walker and bundles are listed by bundle.Look, as opening
//     does it. So there is one answer to what is lost, and to what was never acknowledged.
//   - Repair takes nothing away that is not in quarantine before, durably. A crash leaves
//     each segment as it was or repaired.
//
// It stands on package bundle, which does not know it. It uses a bundle.View, so it never
// appends and needs no writer. The commands call it; so does package device, which keeps
// all requests from the partition while Repair.Run is at work. Nothing on the way of a
// request to its data does.
package inspect
