// Package reconcache keeps the figures of background programs in the files that servers show under /recon/. The form is
// that of OpenStack Swift's recon cache; martlet/recon/cache.py is the same in Python.
//
// Invariants: a reader finds a whole file, the old one or the new one. Programs that write to the same file at the same
// time lose none of each other's keys. The files are not synced: after a power cut figures are gone, and come again.
package reconcache
