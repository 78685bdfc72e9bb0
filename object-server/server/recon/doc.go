// Package recon reports on a server: the host, its devices, and the container updates that wait, in the shapes that
// OpenStack Swift's recon gives them. The Python servers report the same (martlet/recon/figures.py).
//
// Invariants: a device that does not answer hides the figures of no other; its last figures are shown meanwhile. The package
// changes nothing. The server encodes the figures and adds those of its own.
package recon
