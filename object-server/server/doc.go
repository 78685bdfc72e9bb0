// Package server answers Swift's backend protocol for objects: PUT, GET, HEAD, POST and DELETE of
// /device/partition/account/container/object, besides /healthcheck and /recon. The wire, with every status and header,
// is doc/formats/wire-object.md; what is on disk is the business of package device, and what reaches the container
// servers that of package updates.
//
// The package keeps no object in memory: bodies stream through fixed buffers both ways. It decides what becomes of
// headers (which are kept, which a POST replaces), checks every input before it costs anything, and maps errors to
// statuses in one place (failure.go). A device that hangs or disappears keeps no request for another one waiting
// (mounts.go).
//
// Only the commands below cmd use it.
package server
