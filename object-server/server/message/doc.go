// Package message has the requests of the backend protocol and the heads of their answers in plain fields: a header that
// the server reads is a Field, the others are a list. So handlers see nothing of net/http.
//
// Invariants: it does no I/O; a header that occurs once costs no allocation of its own.
//
// Package server uses it.
package message
