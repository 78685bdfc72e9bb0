// Package option reads options from ini files by the rules of PasteDeploy, which OpenStack Swift's files follow.
//
// An Option knows its section, name and default, and a function that checks a value and stores it. Invariant: every error
// is one sentence that names the value; no option is applied in part. The package knows no option by itself: packages conf
// and ratelimit list theirs.
package option
