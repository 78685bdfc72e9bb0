// Package versions is the chain that the records of a name with versions form: finding,
// listing, adding and removing a version at a cost that does not grow with their number.
//
// A Chain is read through a Reader, one record at a time; there is no I/O of its own. Its
// head says all that a write needs. Memory remembers what look-ups have read.
//
// Invariants: a chain never changes, a write makes a new one (Addition). Each entry refers
// to older records only, so every walk ends. Which of two versions counts is told by their
// timestamps and ids, never by their order in the log. Damage is ErrQuarantined, or makes
// the chain Incomplete; it never makes a version vanish in silence.
//
// Package bundle makes chains of records; package device asks them. A Chain is not safe
// for concurrent use, Memory is.
package versions
