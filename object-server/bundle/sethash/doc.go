// Package sethash keeps what replicas compare of a bundle: sums over the set of
// its versions and tombstones, by slices of the hashes of their names. Adding and
// removing an element cost the same however many there are, and the order in which
// that happened leaves no trace. It does no I/O, and nothing in it is safe for
// concurrent use. doc/formats/replication.md says what the elements are, and why
// the sums are safe; bundle keeps a Table of each open bundle.
package sethash
