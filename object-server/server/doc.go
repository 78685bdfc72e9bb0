// Package server answers Swift's backend protocol for objects: PUT, GET, HEAD, POST and DELETE of
// /device/partition/account/container/object, and /healthcheck and /recon. The wire, with every status
// and header, is described in doc/formats/wire-object.md.
//
// It has one file for each request method, and the headers, conditions and versions that they share. It stands on its
// own rooms (devices, conf, ratelimit, recon, relink and smaller ones; ARCHITECTURE.md lists them), on package device for
// what is on disk, and on package updates for what reaches the container servers.
//
// Invariants:
//   - no object is in memory as a whole: bodies stream through fixed buffers both ways;
//   - every input is checked before it costs anything;
//   - one place maps errors to statuses (failure.go).
//
// Only the commands below cmd use it.
package server
