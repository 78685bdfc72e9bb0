// Package certs has what a server needs for TLS with the other servers of its cluster: its certificate, its key, and the
// authorities that sign the certificates of all. It takes up files that changed.
//
// Invariants: a Store always has files that fit each other, also after a Reload that failed; a client verifies the chain and
// the name of each server, at each connection. A client shows no certificate: the secret of the grid authenticates it.
package certs
