// Package updates tells the container servers what was written: every PUT, POST and DELETE of an object must appear in
// its container's listing.
//
// Rows for the same container database that arrive while a request to it is under way travel together in the next
// one. A write waits for its row, for a limited time. A row that could not be delivered in time is made durable on the
// object's device (doc/formats/async-pending.md) before the write is acknowledged, and is sent later. So a row is
// delivered, or durable, before the client is answered. It is harmless to send it twice.
//
// Rows travel over the grid (doc/formats/grid-messages.md) to servers that have one, and over HTTP to others.
//
// The package does not know objects: it is given rows and places to send them. The wire is doc/formats/wire-object.md.
// Package server uses it, one Updater for all devices and one Pending for each.
package updates
