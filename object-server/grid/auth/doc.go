// Package auth has the secrets of a cluster and the proofs that two servers know one. doc/formats/grid.md, Authentication,
// says what is proved and against which attacker.
//
// Invariants: it does no I/O; proofs are compared in constant time; a secret is never printed (String of a Secret is its
// key id). Package grid uses it.
package auth
