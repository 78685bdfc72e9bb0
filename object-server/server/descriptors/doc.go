// Package descriptors divides the file descriptors of the process among its devices.
//
// Invariant: requests keep what they need, up to half of all descriptors; a host on which a device would get fewer than Least
// does not start. The server asks once, before it opens the devices; the configuration checks its option against Least.
package descriptors
