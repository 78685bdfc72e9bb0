// Package devices keeps the devices of one host. It opens them, notices when one disappears or fails, closes that one, and
// opens it again when it is back.
//
// Invariants:
//   - a device that hangs or is missing delays only requests for itself, and those for a limited time;
//   - no device is open twice;
//   - a device is closed only when no request uses it: requests acquire a Mount and release it.
//
// The server and its packages recon and relink use this package. It stands on package device, which has the bundles of
// one device.
package devices
