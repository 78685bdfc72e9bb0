// Package descriptors divides the file descriptors of the process among its devices.
//
// Invariants: requests keep what they need, up to half of all descriptors; the server does not start if a device would get
// fewer than Least. The server calls Share once, before it opens the devices. Package conf checks its option against Least.
package descriptors
