// Package buffers lends out memory that records are read into and made in, so that the
// garbage collector need not find it.
//
// A Buffer has one owner, who frees it once; nothing that points into it may be used
// afterwards. Every package may use it; it uses none.
package buffers
