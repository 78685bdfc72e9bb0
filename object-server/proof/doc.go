// Package proof holds what tests of several packages need to hold the engine to
// its word: bounds for what a decoder allocates, file systems of every kind to run
// on, golden files, histories that must be linearizable, free ports, and logs to
// read. No program imports it.
package proof
