// Package ranges reads the Range header of a GET, and forms the body of an answer with several ranges (RFC 9110, 14).
//
// Invariants: every range that Parse returns is within the object; a header that asks for far too much is refused; the
// length of a multipart body is known before its first byte. The package does no I/O of its own: the handler of GET gives
// it a function that writes the bytes of the object.
package ranges
