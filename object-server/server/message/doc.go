// Package message has the requests of the backend protocol and the heads of their answers in plain fields: a header that
// the server reads is a Field, the others are a list. So handlers see neither net/http nor the grid.
//
// A Request is read from an http.Request, or from the payload of a request of the grid; an Answer has the headers of an
// answer, and appends itself to a payload. doc/formats/grid-messages.md has the payloads.
//
// Invariants: it does no I/O; a header that occurs once costs no allocation of its own; what a Request has from a payload
// stays valid when the payload is used again, except the body.
//
// Package server uses it.
package message
