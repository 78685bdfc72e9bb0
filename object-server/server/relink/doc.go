// Package relink raises the part power of devices, in the two steps that OpenStack Swift's relinker has: relink before the
// ring is raised, cleanup after it.
//
// Invariants: a step is taken only if the ring of the policy asks for it; a step that was taken already changes nothing; a
// device that was away takes the missed steps before it is used again. Splitting goes on in the background, in package device. The server
// answers /recon/relinker with it, and the command martlet-object-relinker uses it where no server runs.
package relink
