// Package relink raises the part power of devices, in the two steps that OpenStack Swift's relinker has: relink before the
// ring is raised, cleanup after it.
//
// Invariants: a step is taken only if the ring of the policy asks for it; a step that was taken already changes nothing; a
// device that was away takes the missed steps before it is used again. Package device splits partitions in the background.
// The server answers /recon/relinker with this package, and the command martlet-object-relinker uses it if no server runs.
package relink
