// Package devices keeps the devices of one host: it opens them, sees when one disappears or fails, closes that one, and opens it
// again when it is back.
//
// Invariants: a device that hangs or is missing delays only requests for itself, and those for a limited time; no
// device is opened twice at a time; a device is closed only when no request uses it. Requests acquire a Mount and release it. The
// server and its packages recon and relink use this one; what a device does is the business of package device.
package devices
