// Package conf reads the configuration of an object server: its own file and the cluster's martlet.conf.
//
// Invariants: a Config that Read returns is complete and checked, and does not change afterwards; an option that has no
// meaning here is refused, unless it is one of OpenStack Swift's, which is reported in WithoutEffect. The commands read it
// and hand it to the server; what it holds for the rate limits is the business of package ratelimit.
package conf
