// Package workers runs calls in goroutines that are used again. A new goroutine begins with a small stack, and copies it
// three times until a request fits.
//
// Invariant: a call starts at once and never waits for another one; the pool bounds the idle workers, not the busy ones.
// The server uses it for the requests of a batch.
package workers
