// Package buffers lends out memory that records are read into and made in, so that the
// garbage collector need not find it.
//
// A Buffer has one owner, which frees it once. Nothing that points into it may be used
// afterwards. Every package may import this one; it imports none.
package buffers
