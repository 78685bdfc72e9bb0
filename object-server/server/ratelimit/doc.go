// Package ratelimit limits the requests per second to each device, as OpenStack Swift's backend_ratelimit filter does. The
// limits are in a section of the server's file, and in a file of their own that is read again while the server runs.
//
// Invariants: no request waits, it is served or refused; a request that one limit refuses does not count for another; a
// file that cannot be read changes nothing. Package conf reads a Config, the server asks the Limiter made of it.
package ratelimit
