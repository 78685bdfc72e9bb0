// Package index finds where the newest record of a name may lie.
//
// An Index holds one Slot of 8 bytes for each name, in pages outside the Go heap (Pool).
// A Slot says segment and offset; only the record's header proves that it is the name's.
// Where the index is on disk, a Filter stands for the entries of one segment's footer and
// takes 1.8 bytes for each.
//
// Invariants: a name that was inserted is always found; one that was not is found seldom,
// as a false candidate. Nothing here is stored: the log rebuilds all of it. There is no
// I/O.
//
// Package bundle alone uses it. Only Pool is safe for concurrent use: Bundle.mu guards
// the rest.
package index
