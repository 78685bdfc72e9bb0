// Package ring reads OpenStack Swift's ring files (.ring.gz, versions 1 and 2) and answers which devices hold a
// partition. It does not build or balance rings and knows no hand-offs: that is the Python package of the same name,
// and test/golden/ring holds what both must agree on.
//
// A Ring does not change once it is read. A damaged or hostile file is an ErrFormat, and costs a bounded amount of memory.
//
// Packages server and updates use it. It imports nothing of ours.
package ring
