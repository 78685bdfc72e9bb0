// Package compact chooses which segments of a bundle are rewritten, from sums that the
// bundle keeps: no I/O, and nothing is changed.
//
// Invariants: a run is of neighbours in the order of the log and has no fixed segment in
// it. What it writes is no more than the room that is given. A byte moves for the sake
// of fewer segments at most once each time its segment doubles.
//
// Package bundle alone uses it; rewriting itself is there (rewrite.go, fate.go), since it
// swaps places in the index under the bundle's lock.
package compact
