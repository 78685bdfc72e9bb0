// Package option reads options from ini files by the rules of PasteDeploy, which OpenStack Swift's files follow.
//
// An Option knows its section, name and default, and a function that checks a value and stores it. Invariant: every error
// is one sentence with the section, the option and its value. The package knows no option itself: packages conf and
// ratelimit list theirs.
package option
