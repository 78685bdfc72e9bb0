// Package login has the proof on connections of plain HTTP: a client and a server show each other once on each connection
// that they know a secret of the cluster. doc/formats/grid.md, "Plain HTTP with the same proof", has the messages.
//
// Gate is the server's side: it stands before a handler and refuses requests on connections without proof. Dialer is the
// client's side: it makes connections that have been proved.
//
// Invariants: a nonce belongs to a connection and is used once; proofs are compared in constant time; a client sends
// nothing before it has checked the server's proof.
//
// Package server uses Gate, the commands of cmd use Dialer.
package login
